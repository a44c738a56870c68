"""Kafka's own tools and broker on files that kagamid wrote (the barrier inside), and kagamid on files that Kafka wrote."""
import os
import re
import shutil

import pytest

from batch import use_up_producer_ids
from dump import kafka_batches, kafka_dump, our_dump
from mirror import Mirror
from peers import create_topic
from raw import MIRROR_PID_RESET, Partition
from source import Source
from wire import Client

KINDS = ["codecs", "transactions", "open-transaction", "compacted", "log-start", "segments"]


def files_of(folder, *suffixes):
    return sorted(os.path.join(folder, f) for f in os.listdir(folder) if f.endswith(suffixes))


@pytest.fixture(scope="module")
def source(kafka, peers, tmp_path_factory):
    return Source(kafka, peers, "files", tmp_path_factory.mktemp("source")).build(*KINDS)


class Handed:
    """Topics that were mirrored, stopped and written to; the daemon's clean end, so that all files are at rest."""

    def __init__(self, daemon, source, logs):
        self.daemon, self.source, self.logs = daemon, source, logs

    def folder(self, kind):
        return self.daemon.partition_folder(self.source.topics[kind])


@pytest.fixture(scope="module")
def handed(source, shared_broker, peers):
    daemon = shared_broker
    mirror = Mirror(daemon).create(source.bootstrap)
    topics = [source.topics[kind] for kind in KINDS]
    mirror.start(*topics)
    mirror.wait_copied(source.bootstrap, *topics, partitions={source.topics[k]: n for k, n in source.partitions.items()})
    mirror.stop(*topics)
    for topic in topics:
        with peers("java").producer(daemon.bootstrap, compression="lz4", linger_ms=50) as producer:
            producer.send(topic, [b"after the stop %d" % i for i in range(20)])
    logs = {kind: Partition(daemon.bootstrap, source.topics[kind]) for kind in KINDS}
    daemon.stop()
    return Handed(daemon, source, logs)


@pytest.mark.parametrize("kind", KINDS)
def test_kafkas_dump_tool_reads_our_segments_and_sees_what_ours_sees(handed, kind):
    files = files_of(handed.folder(kind), ".log")
    theirs = kafka_dump(*files)
    served = {b.base_offset: b for b in handed.logs[kind].batches}
    seen = []
    for path in files:
        batches = kafka_batches(theirs[path])
        ours = [line for line in our_dump(path) if "baseOffset" in line]
        assert len(ours) == len(batches), f"{path}: {len(batches)} batches for Kafka, {len(ours)} for us"
        for their, our in zip(batches, ours):
            assert their["isvalid"] == "true"
            for name in ("baseOffset", "lastOffset", "count", "baseSequence", "lastSequence", "producerId", "producerEpoch", "partitionLeaderEpoch",
                         "isTransactional", "isControl", "position", "size", "magic", "crc"):
                assert str(our[name]).lower() == their[name], f"{path} at offset {their['baseOffset']}: {name}"
        seen += [int(b["baseOffset"]) for b in batches]
    assert set(served) <= set(seen), "the dump lacks batches that were served"
    assert len(set(seen)) == len(seen)


def test_the_barrier_is_in_the_dump_with_all_its_fields(handed):
    for kind in KINDS:
        barriers = [line for path in files_of(handed.folder(kind), ".log") for line in our_dump(path, options=["--records"])
                    if line.get("controlType") == "MIRROR_PID_RESET" or line.get("type") == "MIRROR_PID_RESET"]
        assert len(barriers) == 1, f"{kind}: {barriers}"
        assert barriers[0]["writerClusterId"] == handed.daemon.cluster_id
        assert barriers[0]["sourceClusterId"], barriers[0]


def test_kafkas_dump_tool_is_content_with_our_indexes(handed):
    indexes = [path for kind in KINDS for path in files_of(handed.folder(kind), ".index", ".timeindex")]
    assert indexes
    kafka_dump(*indexes, options=("--index-sanity-check",))
    kafka_dump(*indexes, options=("--verify-index-only",))
    text = kafka_dump(*[p for p in indexes if p.endswith(".index")])
    assert any("offset:" in part for part in text.values()), "no index has an entry, so this would prove nothing"


def test_kafkas_dump_tool_reads_our_transaction_indexes(handed):
    paths = [p for kind in ("transactions", "open-transaction", "compacted") for p in files_of(handed.folder(kind), ".txnindex")]
    assert paths
    ours, theirs = [], []
    for path, text in kafka_dump(*paths).items():
        theirs += [tuple(int(n) for n in re.findall(r"(?:producerId|firstOffset|lastOffset|lastStableOffset): (-?\d+)", line))
                   for line in text.splitlines() if "producerId" in line]
        ours += [(e["producerId"], e["firstOffset"], e["lastOffset"], e["lastStableOffset"]) for e in our_dump(path) if "firstOffset" in e]
    assert theirs and ours == theirs


def test_kafkas_dump_tool_reads_our_producer_snapshots(handed):
    paths = [p for kind in KINDS for p in files_of(handed.folder(kind), ".snapshot")]
    assert paths
    entries = 0
    for path, text in kafka_dump(*paths).items():
        lines = [line for line in text.splitlines() if line.startswith("producerId:")]
        ours = [e for e in our_dump(path) if "producerId" in e]
        assert len(ours) == len(lines), f"{path}: {lines}"
        for our, line in zip(sorted(ours, key=lambda e: e["producerId"]), sorted(lines, key=lambda t: int(t.split()[1]))):
            their = dict(re.findall(r"(\w+): (\S+)", line))
            for name in ("producerId", "producerEpoch", "coordinatorEpoch", "lastTimestamp"):
                assert str(our[name]) == their[name], f"{path}: {line}"
        entries += len(lines)
    assert entries, "no snapshot has an entry, so this would prove nothing"


def test_a_real_kafka_on_a_copy_of_our_folders_recovers_serves_and_lets_producers_go_on(handed, make_kafka, peers):
    """Kafka's own metadata name the topic; its empty folder is exchanged for a copy of ours, with no word of a clean end: it must recover."""
    broker = make_kafka()
    for kind in KINDS:
        create_topic(peers("librdkafka"), broker.bootstrap, handed.source.topics[kind], configs={"retention.ms": -1, "max.message.bytes": 33554432})
    broker.stop()
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"):
        path = os.path.join(broker.data, name)
        if os.path.exists(path):
            os.remove(path)
    for kind in KINDS:
        theirs = os.path.join(broker.data, handed.source.topics[kind] + "-0")
        metadata = open(os.path.join(theirs, "partition.metadata"), encoding="utf-8").read() # Kafka's topic id
        shutil.rmtree(theirs)
        shutil.copytree(handed.folder(kind), theirs)
        with open(os.path.join(theirs, "partition.metadata"), "w", encoding="utf-8") as f:
            f.write(metadata)
        for path in files_of(theirs, ".snapshot", ".index", ".timeindex"):
            os.remove(path) # all of it is rebuilt from the log
    broker.start()
    with Client(broker.bootstrap) as client: # the barrier means nothing to Kafka, so its new producers must not collide with the copied ones
        use_up_producer_ids(client, max(b.producer_id for log in handed.logs.values() for b in log.batches if b.producer_id < 1000))
    for kind in KINDS:
        topic, ours = handed.source.topics[kind], handed.logs[kind]
        theirs = {b.base_offset: b.data for b in Partition(broker.bootstrap, topic).batches}
        for b in ours.batches:
            assert theirs.get(b.base_offset) == b.data, f"{kind}: Kafka serves another {b!r}"
        for name in ("java", "librdkafka"):
            client = peers(name)
            with client.producer(broker.bootstrap) as producer:
                offset = producer.send(topic, [b"goes on in Kafka"])[0]
            assert offset >= ours.high_watermark
            assert client.read(broker.bootstrap, topic, from_offset=offset, isolation="read_committed").values == [b"goes on in Kafka"]
        assert Partition(broker.bootstrap, topic).last_stable_offset == Partition(broker.bootstrap, topic).high_watermark


def test_kagamid_starts_on_a_copy_of_folders_that_kafka_wrote(source, kafka, make_kagamid, tmp_path, peers):
    """Copied while Kafka runs, as a crash would leave them: kagamid takes the topics over from their folders, recovers, serves, goes on."""
    data = tmp_path / "adopted" / "data"
    data.mkdir(parents=True)
    for kind in KINDS:
        for partition in range(source.partitions[kind]):
            name = f"{source.topics[kind]}-{partition}"
            shutil.copytree(os.path.join(kafka.data, name), data / name)
    daemon = make_kagamid(folder=tmp_path / "adopted")
    topics = peers("librdkafka").admin("topics", kafka.bootstrap)["topics"]
    adopted = peers("librdkafka").admin("topics", daemon.bootstrap)["topics"]
    for kind in KINDS:
        topic = source.topics[kind]
        assert adopted[topic] == topics[topic]
        for partition in range(source.partitions[kind]):
            theirs, ours = Partition(kafka.bootstrap, topic, partition), Partition(daemon.bootstrap, topic, partition)
            assert ours.high_watermark == theirs.high_watermark and ours.last_stable_offset == theirs.last_stable_offset
            served = {b.base_offset: b.data for b in ours.batches}
            for b in theirs.batches:
                assert served.get(b.base_offset) == b.data, f"{kind}-{partition}: kagamid serves another {b!r}"
        with peers("librdkafka").producer(daemon.bootstrap) as producer:
            assert producer.send(topic, [b"goes on"]) == [Partition(kafka.bootstrap, topic).high_watermark]
    committed = peers("java").read(kafka.bootstrap, source.topics["transactions"], isolation="read_committed").values
    assert peers("java").read(daemon.bootstrap, source.topics["transactions"], isolation="read_committed").values == committed + [b"goes on"]


def test_the_barrier_was_inside(handed):
    for kind in KINDS:
        assert [b.control_type() for b in handed.logs[kind].batches].count(MIRROR_PID_RESET) == 1
