"""Byte equality: what real producers wrote into a real Kafka, with all that a log can hold, is the same at the destination: every batch, the aborted
lists, the last stable offset, and ListOffsets by time and place. The first tests are about the source and the comparison themselves."""
import pytest

from mirror import Mirror
from raw import ABORT, COMMIT, Batch, Partition, differences, differences_of_list_offsets
from source import KINDS, Source
from waiting import wait_until


@pytest.fixture(scope="module")
def source(kafka, peers, tmp_path_factory):
    return Source(kafka, peers, "made", tmp_path_factory.mktemp("source")).build(*KINDS)


def test_the_source_has_what_a_log_can_hold(source):
    logs = {kind: Partition(source.bootstrap, topic) for kind, topic in source.topics.items()}
    assert {b.codec for b in logs["codecs"].batches} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert all(b.attributes & 8 for b in logs["append-time"].batches if not b.is_control)
    assert {b.control_type() for b in logs["transactions"].batches if b.is_control} == {ABORT, COMMIT}
    assert logs["open-transaction"].last_stable_offset < logs["open-transaction"].high_watermark
    assert any(pairs for pairs in logs["transactions"].aborted_of_batches().values())
    assert max(len(b.data) for b in logs["big"].batches) > 20 << 20
    assert len(logs["segments"].batches) > 10
    batches = logs["compacted"].batches
    assert any(b.base_offset > a.last_offset + 1 for a, b in zip(batches, batches[1:]))
    assert logs["log-start"].log_start == 30


def test_the_comparison_finds_each_kind_of_difference(source):
    topic = source.topics["transactions"]
    one, other = Partition(source.bootstrap, topic), Partition(source.bootstrap, topic)
    assert differences(one, other) == []
    assert differences_of_list_offsets(one, other) == []
    data = bytearray(one.batches[3].data)
    data[15] ^= 1
    other.batches[3] = Batch(data)
    assert "leader_epoch" in differences(one, other)[0]
    data[15] ^= 1
    data[-1] ^= 1
    other.batches[3] = Batch(data)
    assert "the records' bytes" in differences(one, other)[0]
    other.batches[3] = one.batches[3]
    last = other.batches.pop()
    assert differences(one, other) and not differences(one, other, prefix=True)
    other.batches += [last, last]
    assert differences(one, other, prefix=True)
    other.batches.pop()
    other.last_stable_offset -= 1
    assert "last_stable_offset" in differences(one, other)[0]


@pytest.fixture(scope="module")
def mirrored(source, shared_broker):
    """A kagamid that mirrors all of the source's topics and has caught up."""
    mirror = Mirror(shared_broker).create(source.bootstrap)
    mirror.start(*source.topics.values())
    mirror.wait_copied(source.bootstrap, *source.topics.values(),
                       partitions={source.topics[kind]: count for kind, count in source.partitions.items()})
    return mirror


@pytest.mark.parametrize("kind", KINDS)
def test_the_destination_is_equal_batch_by_batch(source, mirrored, kind):
    for partition in range(source.partitions[kind]):
        theirs = Partition(source.bootstrap, source.topics[kind], partition)
        ours = Partition(mirrored.kagamid.bootstrap, source.topics[kind], partition)
        assert theirs.batches, "the source is empty, so this would prove nothing"
        assert differences(theirs, ours) == []
        assert differences_of_list_offsets(theirs, ours) == []


@pytest.mark.parametrize("kind", ["transactions", "open-transaction", "compacted"])
def test_aborted_lists_are_equal(source, mirrored, kind):
    theirs = Partition(source.bootstrap, source.topics[kind])
    ours = Partition(mirrored.kagamid.bootstrap, source.topics[kind])
    lists = theirs.aborted_of_batches()
    assert any(lists.values()), "nothing was aborted, so this would prove nothing"
    assert ours.aborted_of_batches() == lists


@pytest.mark.parametrize("kind", ["codecs", "transactions", "open-transaction", "compacted", "log-start"])
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_clients_see_the_same_records(source, mirrored, client, kind, isolation):
    theirs = client.read(source.bootstrap, source.topics[kind], isolation=isolation)
    ours = client.read(mirrored.kagamid.bootstrap, source.topics[kind], isolation=isolation)
    for record in theirs.records + ours.records:
        record.pop("leader_epoch", None) # kafka-python and others show the leader's current one for some records
    assert ours.records == theirs.records
    assert ours.position == theirs.position


def test_topics_have_the_sources_ids_and_partition_counts(source, mirrored, peers):
    theirs = peers("librdkafka").admin("topics", source.bootstrap)["topics"]
    ours = peers("librdkafka").admin("topics", mirrored.kagamid.bootstrap)["topics"]
    for topic in source.topics.values():
        assert ours[topic] == theirs[topic]


def test_what_is_written_later_follows_and_so_does_the_log_start(source, mirrored, peers):
    topic = source.topics["transactions"]
    source.write_transactions(topic, rounds=1)
    mirrored.wait_copied(source.bootstrap, topic)
    peers("librdkafka").admin("delete_records", source.bootstrap, topic=topic, before=5)

    def same():
        return Partition(mirrored.kagamid.bootstrap, topic).log_start == 5
    wait_until(same, 60, "the destination's log start did not follow", pause=0.3)
    assert differences(Partition(source.bootstrap, topic), Partition(mirrored.kagamid.bootstrap, topic)) == []
