"""Every version that the broker announces, by a raw request whose answer must mean something. A version is offered only because it is here.

KAGAMI_TEST_BROKER=kafka runs the same against a real Kafka."""

import itertools
import time

import pytest

from batches import batch
from conftest import USE_KAFKA, unique_topic
from waiting import wait_until
from wire import SCHEMA, ZERO_UUID, Client

UNKNOWN_CLUSTER_MIRROR = 1137
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
VALUES = [b"value-%d" % i for i in range(5)]


class World:
    """A broker, a connection to it, and a topic with two partitions and five records in the first."""

    def __init__(self, broker):
        self.broker = broker
        self.client = Client(broker.bootstrap)
        self.topic = self.create(partitions=2)
        self.topic_id = self.id_of(self.topic)
        self.batch = batch([(None, v) for v in VALUES], timestamp=int(time.time() * 1000))  # retention takes older ones
        self.produce(self.topic)

    def create(self, partitions=1):
        name = unique_topic("wire-versions")
        answer = self.client.send("CreateTopics", 5, {"topics": [{"name": name, "numPartitions": partitions, "replicationFactor": 1}]})
        assert answer["topics"][0]["errorCode"] == 0, answer
        wait_until(lambda: self.partitions(name) == partitions, 30, f"{name} has no leader")
        return name

    def describe(self, name):
        return self.client.send("Metadata", 12, {"topics": [{"name": name}], "allowAutoTopicCreation": False})["topics"][0]

    def partitions(self, name):
        topic = self.describe(name)
        return sum(p["errorCode"] == 0 and p["leaderId"] >= 0 for p in topic["partitions"]) if topic["errorCode"] == 0 else -topic["errorCode"]

    def id_of(self, name):
        return self.describe(name)["topicId"]

    def produce(self, topic):
        """Tries again while the leader is not ready (a Kafka that has just made the topic)."""

        def written():
            answer = self.client.send("Produce", 9, {"acks": -1, "timeoutMs": 30000, "topicData": [
                {"name": topic, "partitionData": [{"index": 0, "records": self.batch}]}]})  # fmt: skip
            return answer["responses"][0]["partitionResponses"][0]["errorCode"] == 0

        wait_until(written, 30, f"nothing can be written to {topic}")

    def end_offset(self, topic, timestamp=-1):
        answer = self.client.send("ListOffsets", 5, {"replicaId": -1, "topics": [
            {"name": topic, "partitions": [{"partitionIndex": 0, "timestamp": timestamp}]}]})  # fmt: skip
        return answer["topics"][0]["partitions"][0]["offset"]


@pytest.fixture(scope="module")
def world(shared_broker):
    it = World(shared_broker)
    yield it
    it.client.close()


def by_name_or_id(w, version, ids_from, name_field="name"):
    return {"topicId": w.topic_id} if version >= ids_from else {name_field: w.topic}


def api_versions(w, v):
    answer = w.client.send("ApiVersions", v, {"clientSoftwareName": "test", "clientSoftwareVersion": "1"} if v >= 3 else {})
    assert answer["errorCode"] == 0
    ranges = {k["apiKey"]: (k["minVersion"], k["maxVersion"]) for k in answer["apiKeys"]}
    for api in SCHEMA.apis.values():
        if api.offered and not (USE_KAFKA and "Mirror" in api.name):
            assert ranges[api.key] == (api.offered.first, api.offered.last), api.name
        elif not USE_KAFKA:
            assert api.key not in ranges, api.name
    if not USE_KAFKA:
        assert set(ranges) <= {api.key for api in SCHEMA.apis.values()}


def metadata(w, v):
    answer = w.client.send("Metadata", v, {"topics": [{"name": w.topic}]})
    assert len(answer["brokers"]) == 1
    topic = answer["topics"][0]
    assert (topic["errorCode"], topic["name"]) == (0, w.topic)
    assert sorted(p["partitionIndex"] for p in topic["partitions"]) == [0, 1]
    leader = answer["brokers"][0]["nodeId"]
    assert all(p["leaderId"] == leader and p["isrNodes"] == [leader] == p["replicaNodes"] for p in topic["partitions"])
    assert v < 2 or answer["clusterId"] == w.broker.cluster_id
    assert v < 10 or topic["topicId"] == w.topic_id
    if v >= 12:
        by_id = w.client.send("Metadata", v, {"topics": [{"topicId": w.topic_id, "name": None}]})
        assert by_id["topics"][0]["name"] == w.topic


def produce(w, v):
    before = w.end_offset(w.topic)
    answer = w.client.send("Produce", v, {"acks": -1, "timeoutMs": 30000, "topicData": [
        {**by_name_or_id(w, v, 13), "partitionData": [{"index": 0, "records": w.batch}]}]})  # fmt: skip
    partition = answer["responses"][0]["partitionResponses"][0]
    assert (partition["errorCode"], partition["baseOffset"], partition["logAppendTimeMs"]) == (0, before, -1)
    assert w.end_offset(w.topic) == before + len(VALUES)


def fetch(w, v):
    answer = w.client.send("Fetch", v, {"replicaId": -1, "maxWaitMs": 500, "minBytes": 1, "maxBytes": 1 << 20, "topics": [
        {**by_name_or_id(w, v, 13, "topic"), "partitions": [{"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1 << 20}]}]}
        if v < 15 else {"maxWaitMs": 500, "minBytes": 1, "topics": [
            {"topicId": w.topic_id, "partitions": [{"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1 << 20}]}]})  # fmt: skip
    partition = answer["responses"][0]["partitions"][0]
    assert partition["errorCode"] == 0
    assert partition["highWatermark"] == w.end_offset(w.topic)
    assert partition["lastStableOffset"] == partition["highWatermark"]
    assert v < 5 or partition["logStartOffset"] == 0
    assert partition["abortedTransactions"] is None
    # The first batch as it was sent, but for what the broker fills in (leader epoch).
    assert partition["records"][16 : len(w.batch)] == w.batch[16:]


def list_offsets(w, v):
    wanted = {-2: 0, -1: w.end_offset(w.topic)}
    if v >= 7:
        wanted[-3] = None  # any offset that holds the largest timestamp
    if v >= 8:
        wanted[-4] = 0
    for timestamp, offset in wanted.items():
        answer = w.client.send("ListOffsets", v, {"replicaId": -1, "topics": [
            {"name": w.topic, "partitions": [{"partitionIndex": 0, "timestamp": timestamp}]}]})  # fmt: skip
        partition = answer["topics"][0]["partitions"][0]
        assert partition["errorCode"] == 0, timestamp
        assert partition["offset"] == offset if offset is not None else partition["offset"] >= 0, timestamp


def offset_for_leader_epoch(w, v):
    epoch = w.describe(w.topic)["partitions"][0]["leaderEpoch"]
    answer = w.client.send("OffsetForLeaderEpoch", v, {"topics": [{"topic": w.topic, "partitions": [{"partition": 0, "leaderEpoch": epoch}]}]})
    partition = answer["topics"][0]["partitions"][0]
    assert (partition["errorCode"], partition["leaderEpoch"], partition["endOffset"]) == (0, epoch, w.end_offset(w.topic))


def init_producer_id(w, v):
    def one():
        return w.client.send("InitProducerId", v, {"transactionalId": None, "transactionTimeoutMs": 0})

    if USE_KAFKA:  # it answers only after somebody has asked for the transaction coordinator
        w.client.send("FindCoordinator", 2, {"key": "x", "keyType": 1})
        wait_until(lambda: one()["errorCode"] == 0, 60, "no producer id")
    first, second = one(), one()
    assert (first["errorCode"], first["producerEpoch"]) == (0, 0)
    assert 0 <= first["producerId"] != second["producerId"]


def create_topics(w, v):
    name = unique_topic(f"created-{v}")
    request = {"topics": [{"name": name, "numPartitions": 3, "replicationFactor": 1, "configs": [{"name": "retention.ms", "value": "1234567"}]}]}
    tried = w.client.send("CreateTopics", v, {**request, "validateOnly": True})
    assert tried["topics"][0]["errorCode"] == 0 and w.partitions(name) < 0
    answer = w.client.send("CreateTopics", v, request)["topics"][0]
    assert (answer["name"], answer["errorCode"]) == (name, 0)
    wait_until(lambda: w.partitions(name) == 3, 30, f"{name} has no leaders")
    if v >= 5:
        assert (answer["numPartitions"], answer["replicationFactor"]) == (3, 1)
        assert {"retention.ms": "1234567"}.items() <= {c["name"]: c["value"] for c in answer["configs"]}.items()
    assert v < 7 or answer["topicId"] == w.id_of(name)
    assert w.client.send("CreateTopics", v, request)["topics"][0]["errorCode"] == 36


def delete_topics(w, v):
    name, other = w.create(), w.create()
    if v < 6:
        answer = w.client.send("DeleteTopics", v, {"topicNames": [name, other], "timeoutMs": 30000})
    else:
        answer = w.client.send("DeleteTopics", v, {"topics": [{"name": name, "topicId": ZERO_UUID}, {"name": None, "topicId": w.id_of(other)}],
                                                   "timeoutMs": 30000})  # fmt: skip
    assert {r["name"]: r["errorCode"] for r in answer["responses"]} == {name: 0, other: 0}
    for gone in (name, other):
        wait_until(lambda gone=gone: w.partitions(gone) == -3, 30, f"{gone} is still there")


def create_partitions(w, v):
    name = w.create()
    answer = w.client.send("CreatePartitions", v, {"topics": [{"name": name, "count": 4, "assignments": None}], "timeoutMs": 30000})
    assert [(r["name"], r["errorCode"]) for r in answer["results"]] == [(name, 0)]
    wait_until(lambda: w.partitions(name) == 4, 30, f"{name} does not grow")


def delete_records(w, v):
    name = w.create()
    w.produce(name)
    answer = w.client.send("DeleteRecords", v, {"topics": [{"name": name, "partitions": [{"partitionIndex": 0, "offset": 3}]}], "timeoutMs": 30000})
    partition = answer["topics"][0]["partitions"][0]
    assert (partition["errorCode"], partition["lowWatermark"]) == (0, 3)
    assert w.end_offset(name, -2) == 3


def describe_producers(w, v):
    name = w.create()
    sent = batch([(None, b"x")], producer_id=4242, producer_epoch=3, base_sequence=0)
    written = w.client.send("Produce", 9, {"acks": -1, "timeoutMs": 30000, "topicData": [
        {"name": name, "partitionData": [{"index": 0, "records": sent}]}]})  # fmt: skip
    assert written["responses"][0]["partitionResponses"][0]["errorCode"] == 0
    answer = w.client.send("DescribeProducers", v, {"topics": [{"name": name, "partitionIndexes": [0]}]})
    partition = answer["topics"][0]["partitions"][0]
    assert partition["errorCode"] == 0
    assert [(p["producerId"], p["producerEpoch"], p["lastSequence"]) for p in partition["activeProducers"]] == [(4242, 3, 0)]
    assert partition["activeProducers"][0]["currentTxnStartOffset"] == -1


def configs_of(w, name, v=4, keys=None):
    request = {"resources": [{"resourceType": TOPIC_RESOURCE, "resourceName": name, "configurationKeys": keys}], "includeSynonyms": True}
    result = w.client.send("DescribeConfigs", v, {**request, **({"includeDocumentation": True} if v >= 3 else {})})["results"][0]
    assert (result["errorCode"], result["resourceName"]) == (0, name)
    return {c["name"]: c for c in result["configs"]}


def describe_configs(w, v):
    configs = configs_of(w, w.topic, v)
    assert configs["cleanup.policy"]["value"] == "delete"
    assert configs["cleanup.policy"]["configSource"] == 5  # DEFAULT_CONFIG
    assert not configs["cleanup.policy"]["readOnly"]
    if v >= 3:
        assert configs["retention.ms"]["configType"] == 5  # LONG
        assert configs["retention.ms"]["documentation"]
    assert list(configs_of(w, w.topic, v, ["cleanup.policy"])) == ["cleanup.policy"]


def alter_configs(w, v):
    name = w.create()
    answer = w.client.send("AlterConfigs", v, {"resources": [
        {"resourceType": TOPIC_RESOURCE, "resourceName": name, "configs": [{"name": "segment.bytes", "value": "1234567"}]}]})  # fmt: skip
    assert [(r["errorCode"], r["resourceName"]) for r in answer["responses"]] == [(0, name)]
    wait_until(lambda: configs_of(w, name)["segment.bytes"]["value"] == "1234567", 30, "the config does not change")


def incremental_alter_configs(w, v):
    name = w.create()

    def alter(operation, value):
        answer = w.client.send("IncrementalAlterConfigs", v, {"resources": [{"resourceType": TOPIC_RESOURCE, "resourceName": name, "configs": [
            {"name": "retention.ms", "configOperation": operation, "value": value}]}]})  # fmt: skip
        assert [(r["errorCode"], r["resourceName"]) for r in answer["responses"]] == [(0, name)]

    alter(0, "7654321")
    wait_until(lambda: configs_of(w, name)["retention.ms"]["value"] == "7654321", 30, "the config is not set")
    alter(1, None)
    wait_until(lambda: configs_of(w, name)["retention.ms"]["configSource"] == 5, 30, "the config is not removed")


def describe_cluster(w, v):
    answer = w.client.send("DescribeCluster", v, {})
    assert (answer["errorCode"], answer["clusterId"]) == (0, w.broker.cluster_id)
    host, _, port = w.broker.bootstrap.rpartition(":")
    assert len(answer["brokers"]) == 1 and answer["brokers"][0]["port"] == int(port)


def describe_topic_partitions(w, v):
    answer = w.client.send("DescribeTopicPartitions", v, {"topics": [{"name": w.topic}], "responsePartitionLimit": 1})
    topic = answer["topics"][0]
    assert (topic["errorCode"], topic["topicId"], [p["partitionIndex"] for p in topic["partitions"]]) == (0, w.topic_id, [0])
    assert answer["nextCursor"] == {"topicName": w.topic, "partitionIndex": 1}
    rest = w.client.send("DescribeTopicPartitions", v, {"topics": [{"name": w.topic}], "cursor": answer["nextCursor"]})
    assert [p["partitionIndex"] for p in rest["topics"][0]["partitions"]] == [1] and rest["nextCursor"] is None


def describe_log_dirs(w, v):
    answer = w.client.send("DescribeLogDirs", v, {"topics": [{"topic": w.topic, "partitions": [0]}]})
    assert len(answer["results"]) == 1 and answer["results"][0]["errorCode"] == 0
    (topic,) = answer["results"][0]["topics"]
    (partition,) = topic["partitions"]
    assert (topic["name"], partition["partitionIndex"], partition["isFutureKey"]) == (w.topic, 0, False)
    assert partition["partitionSize"] >= len(w.batch)
    assert v < 4 or answer["results"][0]["totalBytes"] >= answer["results"][0]["usableBytes"] > 0


def list_config_resources(w, v):
    answer = w.client.send("ListConfigResources", v, {"resourceTypes": [TOPIC_RESOURCE]} if v >= 1 else {})
    assert answer["errorCode"] == 0
    names = [r["resourceName"] for r in answer["configResources"]]
    assert (w.topic in names) == (v >= 1)  # version 0 lists client metrics only


def of_no_mirror(name, **more):
    def run(w, v):
        assert w.client.send(name, v, {"mirrorName": "there-is-none", **more})["errorCode"] == UNKNOWN_CLUSTER_MIRROR

    return run


def create_cluster_mirror(w, v):
    answer = w.client.send("CreateClusterMirror", v, {"mirrorName": "a", "config": [{"name": "bootstrap.serverz", "value": "x:1"}]})
    assert answer["errorCode"] == 40 and "bootstrap.serverz" in answer["errorMessage"]


def list_cluster_mirrors(w, v):
    answer = w.client.send("ListClusterMirrors", v, {"includeTopicNames": True})
    assert (answer["errorCode"], answer["mirrors"]) == (0, [])


def describe_cluster_mirrors(w, v):
    answer = w.client.send("DescribeClusterMirrors", v, {})
    assert (answer["errorCode"], answer["mirrors"], answer["clusterId"]) == (0, [], w.broker.cluster_id)


CHECKS = {
    "ApiVersions": api_versions, "Metadata": metadata, "Produce": produce, "Fetch": fetch, "ListOffsets": list_offsets,
    "OffsetForLeaderEpoch": offset_for_leader_epoch, "InitProducerId": init_producer_id, "CreateTopics": create_topics,
    "DeleteTopics": delete_topics, "CreatePartitions": create_partitions, "DeleteRecords": delete_records,
    "DescribeProducers": describe_producers, "DescribeConfigs": describe_configs, "AlterConfigs": alter_configs,
    "IncrementalAlterConfigs": incremental_alter_configs, "DescribeCluster": describe_cluster,
    "DescribeTopicPartitions": describe_topic_partitions, "DescribeLogDirs": describe_log_dirs, "ListConfigResources": list_config_resources,
    "CreateClusterMirror": create_cluster_mirror, "ListClusterMirrors": list_cluster_mirrors,
    "DescribeClusterMirrors": describe_cluster_mirrors, "DeleteClusterMirror": of_no_mirror("DeleteClusterMirror"),
    "StartMirrorTopics": of_no_mirror("StartMirrorTopics", topics=[{"topicName": "t"}]),
    "StopMirrorTopics": of_no_mirror("StopMirrorTopics"), "PauseMirrorTopics": of_no_mirror("PauseMirrorTopics"),
    "ResumeMirrorTopics": of_no_mirror("ResumeMirrorTopics"), "RecoverMirrorTopics": of_no_mirror("RecoverMirrorTopics"),
}  # fmt: skip
OFFERED = list(itertools.chain.from_iterable([(api.name, v) for v in api.offered & api.valid] for api in SCHEMA.apis.values()))


@pytest.mark.parametrize("name,version", OFFERED, ids=[f"{n}-{v}" for n, v in OFFERED])
def test_version(world, name, version):
    if USE_KAFKA and "Mirror" in name:
        pytest.skip("Kafka has no mirrors")
    CHECKS[name](world, version)
