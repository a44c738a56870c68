"""Mirrors of one kagamid, driven through the mirror's own calls (spec section 11)."""
from raw import RawError, list_offset
from waiting import wait_until
from wire import Client


UNKNOWN_CLUSTER_MIRROR = 1137


class MirrorError(Exception):
    def __init__(self, what, answer, code=None, message=None, hint=None):
        self.code = answer.get("errorCode") if code is None else code
        self.message = answer.get("errorMessage") if message is None else message
        self.hint = answer.get("errorHint") if hint is None else hint
        super().__init__(f"{what}: {self.code}: {self.message} ({self.hint})")

    @property
    def text(self):
        return f"{self.message} {self.hint}"


def call(bootstrap, api, values, timeout=120):
    """One of the mirror's calls; raises MirrorError for an error of the whole or of a topic."""
    with Client(bootstrap, timeout_s=timeout) as client:
        answer = client.send(api, 0, values)
    if answer["errorCode"]:
        raise MirrorError(api, answer)
    for topic in answer.get("topics", []):
        if topic.get("errorCode"):
            raise MirrorError(f"{api} {topic['name']}", topic)
    return answer


class Mirror:
    def __init__(self, kagamid, name="m"):
        self.kagamid, self.name = kagamid, name

    def create(self, source, **config):
        """source: bootstrap of the cluster to copy. config: mirror settings, with _ for . in the names."""
        settings = {"bootstrap.servers": source, **{k.replace("_", "."): v for k, v in config.items()}}
        call(self.kagamid.bootstrap, "CreateClusterMirror",
             {"mirrorName": self.name, "config": [{"name": k, "value": str(v)} for k, v in settings.items()]})
        return self

    def start(self, *topics, **more):
        return call(self.kagamid.bootstrap, "StartMirrorTopics",
                    {"mirrorName": self.name, "topics": [{"topicName": t} for t in topics], **more})

    def stop(self, *topics, **more):
        """The report: {(topic, partition): fields}."""
        answer = call(self.kagamid.bootstrap, "StopMirrorTopics",
                      {"mirrorName": self.name, "topics": [{"topicName": t} for t in topics], **more})
        return {(t["name"], p["partitionIndex"]): p for t in answer["topics"] for p in t["partitions"]}

    def delete(self):
        call(self.kagamid.bootstrap, "DeleteClusterMirror", {"mirrorName": self.name})

    def describe(self):
        mirrors = call(self.kagamid.bootstrap, "DescribeClusterMirrors", {"mirrorNames": [self.name]})["mirrors"]
        if mirrors[0]["errorCode"] == UNKNOWN_CLUSTER_MIRROR: # another code is the link's present trouble
            raise MirrorError("DescribeClusterMirrors", mirrors[0])
        return mirrors[0]

    def partitions(self):
        """{(topic, partition): fields}"""
        return {(t["topicName"], p["partitionIndex"]): p for t in self.describe()["topics"] for p in t["partitions"]}

    def states(self, topic=None):
        return {at: p["state"] for at, p in self.partitions().items() if topic in (None, at[0])}

    def _explain(self, topics):
        def explain():
            shown = {at: {k: p[k] for k in ("state", "errorMessage", "destinationOffset", "sourceHighWatermark")}
                     for at, p in self.partitions().items() if at[0] in topics}
            return f"{shown}\nlog of the daemon: {self.kagamid.log()[-2000:]}"
        return explain

    def wait_state(self, state, *topics, timeout=60):
        def reached():
            states = [s for at, s in self.states().items() if at[0] in topics]
            assert state == "FAILED" or "FAILED" not in states or self._retries(topics), self._explain(topics)()
            return states and all(s == state for s in states)
        wait_until(reached, timeout, self._explain(topics))

    def _retries(self, topics):
        return all(p["retriable"] for at, p in self.partitions().items() if at[0] in topics and p["state"] == "FAILED")

    def wait_failed(self, topic, timeout=60):
        """Waits for FAILED; the first failed partition's fields."""
        self.wait_state("FAILED", topic, timeout=timeout)
        return next(p for at, p in self.partitions().items() if at[0] == topic)

    def wait_copied(self, source, *topics, partitions=1, timeout=120):
        """Waits until the destination's high watermark is the source's, for all partitions of the topics."""
        with Client(source, timeout_s=60) as client:
            wanted = {(t, p): list_offset(client, t, p, -1)[0] for t in topics for p in range(partitions if isinstance(partitions, int) else partitions[t])}

        def copied():
            with Client(self.kagamid.bootstrap, timeout_s=60) as mine:
                try:
                    return all(list_offset(mine, t, p, -1)[0] >= end for (t, p), end in wanted.items())
                except RawError:
                    return False # the topic is not there yet
        wait_until(copied, timeout, lambda: f"not copied up to {wanted}: {self._explain(topics)()}", pause=0.1)
