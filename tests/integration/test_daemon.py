"""Ends and starts of the daemon: what waits, what stays, what an unclean end changes."""

import os
import shutil
import subprocess
import threading
import time

from batches import batch
from kagamid import DAEMON
from test_produce_fetch import NOW, Topic, plain
from wire import Client

NOT_LEADER_LIKE = {0, 3, 6, 7, 8, 56}  # whatever a write that the end cut off may be answered


def test_a_clean_end_waits_for_no_client(make_kagamid, topic):
    daemon = make_kagamid()
    t = Topic(daemon, topic)
    ended = []

    def wait(client):
        try:
            t.fetch(0, maxWaitMs=600_000, client=client)
        except OSError:
            ended.append(1)

    clients = [Client(daemon.bootstrap, timeout_s=60) for _ in range(20)]
    waiting = [threading.Thread(target=wait, args=(c,)) for c in clients]
    for thread in waiting:
        thread.start()
    time.sleep(0.3)
    begun = time.monotonic()
    daemon.stop()
    assert time.monotonic() - begun < 20
    for thread in waiting:
        thread.join(30)
    assert len(ended) == 20


def test_a_clean_end_keeps_everything_as_it_is(make_kagamid, topic):
    daemon = make_kagamid()
    t = Topic(daemon, topic, partitions=2)
    t.write(batch([(b"k", b"v")] * 3, timestamp=NOW, producer_id=7, producer_epoch=2, base_sequence=0))
    t.write(plain(4))
    before = (t.describe(), t.fetch(0)["records"], t.end())
    cluster = daemon.cluster_id
    daemon.stop()
    assert os.path.exists(os.path.join(daemon.data, ".kafka_cleanshutdown"))
    daemon.restart()
    t.client = Client(daemon.bootstrap)
    assert daemon.cluster_id == cluster
    assert (t.describe(), t.fetch(0)["records"], t.end()) == before
    again = t.produce(batch([(b"k", b"v")] * 3, timestamp=NOW, producer_id=7, producer_epoch=2, base_sequence=0))
    assert (again["errorCode"], again["baseOffset"]) == (0, 0)  # the producer is remembered


def test_what_was_acknowledged_survives_kill_9(make_kagamid, topic):
    daemon = make_kagamid()
    t = Topic(daemon, topic)
    written = []

    def write():
        with Client(daemon.bootstrap) as client:
            number = 0
            try:
                while True:
                    answer = client.send("Produce", 9, {"acks": -1, "timeoutMs": 30000, "topicData": [
                        {"name": topic, "partitionData": [{"index": 0, "records": plain(1, b"%d" % number)}]}]})  # fmt: skip
                    partition = answer["responses"][0]["partitionResponses"][0]
                    assert partition["errorCode"] in NOT_LEADER_LIKE
                    if partition["errorCode"] == 0:
                        written.append((partition["baseOffset"], b"%d" % number))
                    number += 1
            except OSError:
                pass

    epoch = t.epoch()
    for _ in range(3):
        writers = [threading.Thread(target=write) for _ in range(4)]
        for w in writers:
            w.start()
        time.sleep(1)
        daemon.kill()
        for w in writers:
            w.join(30)
        daemon.restart()
    t.client = Client(daemon.bootstrap)
    assert t.epoch() == epoch + 3  # one a start after an unclean end
    assert len(written) > 10 and len({offset for offset, _ in written}) == len(written)
    for offset, value in written[:: max(1, len(written) // 50)] + written[-1:]:
        assert value in t.fetch(offset, partitionMaxBytes=1)["records"]


def test_a_folder_without_metadata_is_taken_over(make_kagamid, topic):
    daemon = make_kagamid()
    t = Topic(daemon, topic, partitions=3)
    t.write(plain(5))
    records, epoch = t.fetch(0)["records"], t.epoch()
    daemon.stop()
    for name in os.listdir(daemon.data):
        if name.startswith("metadata.db"):
            os.unlink(os.path.join(daemon.data, name))
    cluster = daemon.cluster_id
    daemon.restart()
    t.client = Client(daemon.bootstrap)
    assert daemon.cluster_id == cluster  # meta.properties says so
    there = t.describe()
    assert (there["topicId"], len(there["partitions"])) == (t.id, 3)
    assert t.epoch() > epoch
    assert t.fetch(0)["records"] == records
    assert t.write(plain()) == 5


def test_a_folder_that_the_metadata_do_not_know_is_left_alone(make_kagamid, topic):
    daemon = make_kagamid()
    t = Topic(daemon, topic)
    t.write(plain(5))
    daemon.stop()
    stranger = os.path.join(daemon.data, "stranger-0")
    shutil.copytree(daemon.partition_folder(topic), stranger)
    daemon.restart()
    with Client(daemon.bootstrap) as client:
        assert [n["name"] for n in client.send("Metadata", 12, {"topics": None})["topics"]] == [topic]
    assert "stranger" in daemon.log() and os.path.exists(stranger)


def test_usage():
    def run(*arguments):
        return subprocess.run([DAEMON, *arguments], capture_output=True, text=True, timeout=60, check=False)

    for wrong in (["--nonsense"], ["--data"], ["--data", "x", "more"], ["--data", "x", "--set", "novalue"], []):
        done = run(*wrong)
        assert done.returncode == 2 and "--help" in done.stderr and not done.stdout, wrong
    helped = run("--help")
    assert helped.returncode == 0 and "--data DIR" in helped.stdout
    assert run("--version").stdout.startswith("kagamid ")


def test_limits_of_connections_follow_their_settings(make_kagamid):
    daemon = make_kagamid()
    kept = Client(daemon.bootstrap)

    def limit(name, value):
        change = {"configOperation": 0 if value else 1, "name": name, "value": value}
        answer = kept.send("IncrementalAlterConfigs", 1, {"resources": [
            {"resourceType": 4, "resourceName": "1", "configs": [change]}]})["responses"][0]  # fmt: skip
        assert answer["errorCode"] == 0, answer

    def is_served():
        try:
            return Client(daemon.bootstrap).send("ApiVersions", 3, {"clientSoftwareName": "t", "clientSoftwareVersion": "1"})["errorCode"] == 0
        except OSError:
            return False

    for name in ("max.connections.per.ip", "max.connections"):
        assert is_served()
        limit(name, "1")
        assert not is_served()  # ours is the one
        limit(name, None)
        assert is_served()
    assert "a connection was not taken peer=127.0.0.1" in daemon.log()
