"""kill -9, of kagamid while it mirrors and while producers write, of the source, and between each two steps of the stop sequence: nothing acknowledged is
lost, nothing doubled, the same end. Power loss is the units' part (simulated disk)."""
import random

import pytest

from mirror import Mirror, MirrorError
from peers import create_topic, record
from raw import ABORT, MIRROR_PID_RESET, Partition, differences
from source import Source
from waiting import wait_until

STOP_STEPS = ["1", "2", "3", "4", "5.marker", "5", "6.append", "6", "7", "8"] # spec section 6, and in the middle of two steps


def test_kagamid_killed_while_it_mirrors(kafka, peers, make_kagamid, topic):
    create_topic(peers("librdkafka"), kafka.bootstrap, topic, partitions=2)
    daemon = make_kagamid()
    mirror = Mirror(daemon).create(kafka.bootstrap)
    mirror.start(topic)
    rng = random.Random(5)
    with peers("librdkafka").producer(kafka.bootstrap, compression="lz4", linger_ms=1) as producer:
        for round_number in range(5):
            for _ in range(20):
                for partition in range(2):
                    producer.send(topic, [rng.randbytes(2000) for _ in range(20)], partition)
            if round_number:
                mirror.wait_copied(kafka.bootstrap, topic, partitions=1) # at least something, so that each kill meets a log with a tail
            producer.send(topic, [rng.randbytes(2000) for _ in range(200)])
            daemon.kill()
            daemon.restart()
    mirror.wait_copied(kafka.bootstrap, topic, partitions=2)
    for partition in range(2):
        assert differences(Partition(kafka.bootstrap, topic, partition), Partition(daemon.bootstrap, topic, partition)) == []
    assert set(mirror.states(topic).values()) == {"MIRRORING"}


@pytest.mark.parametrize("name", ["java", "librdkafka", "franz-go"])
def test_kagamid_killed_while_producers_write(peers, make_kagamid, topic, name):
    client = peers(name)
    daemon = make_kagamid()
    create_topic(peers("librdkafka"), daemon.bootstrap, topic)
    acknowledged, count = [], 0
    producer = client.producer(daemon.bootstrap, acks="all", linger_ms=0)
    for _ in range(4):
        values = [b"%06d" % i for i in range(count, count + 400)]
        count += len(values)
        client.send("producer.send", id=producer.id, topic=topic, partition=0, records=[record(value=v) for v in values])
        wait_until(lambda seen=len(acknowledged): Partition(daemon.bootstrap, topic).high_watermark > seen, 30, "nothing was written")
        daemon.kill()
        daemon.restart()
        results = client.answer("producer.send")["results"]
        acknowledged += [v for v, r in zip(values, results) if "error" not in r]
    producer.close()
    assert len(acknowledged) == count, "an idempotent producer rides over restarts, so all should have been acknowledged"
    assert client.read(daemon.bootstrap, topic).values == acknowledged


def test_the_source_killed_and_started_again(peers, make_kafka, make_kagamid, topic):
    source = make_kafka()
    create_topic(peers("librdkafka"), source.bootstrap, topic)
    daemon = make_kagamid()
    mirror = Mirror(daemon).create(source.bootstrap)
    mirror.start(topic)
    with peers("java").producer(source.bootstrap) as producer:
        producer.send(topic, [b"%d" % i for i in range(1000)])
    mirror.wait_copied(source.bootstrap, topic)
    source.kill()
    at = mirror.partitions()[(topic, 0)]
    assert at["destinationOffset"] == 1000
    source.start()
    with peers("java").producer(source.bootstrap) as producer:
        producer.send(topic, [b"%d" % i for i in range(1000, 1500)])
    mirror.wait_copied(source.bootstrap, topic)
    assert differences(Partition(source.bootstrap, topic), Partition(daemon.bootstrap, topic)) == []


@pytest.fixture(scope="module")
def source(kafka, peers, tmp_path_factory):
    return Source(kafka, peers, "kill", tmp_path_factory.mktemp("source")).build("open-transaction")


@pytest.mark.parametrize("step", STOP_STEPS)
def test_killed_after_step_of_the_stop_sequence(source, peers, make_kagamid, step):
    """The stop goes on by itself after the restart, and the end is that of an undisturbed stop."""
    topic = source.topics["open-transaction"]
    daemon = make_kagamid(fault=f"stop.{step}")
    mirror = Mirror(daemon).create(source.bootstrap)
    mirror.start(topic)
    mirror.wait_copied(source.bootstrap, topic)
    copied = Partition(daemon.bootstrap, topic)
    with pytest.raises((OSError, MirrorError)):
        mirror.stop(topic)
    daemon.wait_killed()
    daemon.restart()
    mirror.wait_state("STOPPED", topic)
    # Asked again it says the same, and does nothing twice.
    report = mirror.stop(topic)[(topic, 0)]
    ended = Partition(daemon.bootstrap, topic)
    assert [b.data for b in ended.batches[:len(copied.batches)]] == [b.data for b in copied.batches], "the stop changed copied batches"
    tail = [b.control_type() for b in ended.batches[len(copied.batches):]]
    assert tail == [ABORT, MIRROR_PID_RESET], f"the end of the log: {ended.batches[len(copied.batches):]}"
    assert ended.last_stable_offset == ended.high_watermark == report["logEndOffset"]
    assert report["lastMirrorOffset"] == copied.high_watermark, "the position must be the end of what was copied"
    assert min(b.leader_epoch for b in ended.batches[len(copied.batches):]) > max(b.leader_epoch for b in copied.batches)
    client = peers("librdkafka")
    with client.producer(daemon.bootstrap) as producer:
        offset = producer.send(topic, [b"goes on"])[0]
    assert offset == ended.high_watermark
    assert client.read(daemon.bootstrap, topic, isolation="read_committed").values[-3:] == [b"behind 1", b"behind 2", b"goes on"]


def test_killed_after_an_acknowledged_write_to_a_stopped_topic(kafka, peers, make_kagamid, topic):
    create_topic(peers("librdkafka"), kafka.bootstrap, topic)
    with peers("librdkafka").producer(kafka.bootstrap) as producer:
        producer.send(topic, [b"copied"])
    daemon = make_kagamid()
    mirror = Mirror(daemon).create(kafka.bootstrap)
    mirror.start(topic)
    mirror.wait_copied(kafka.bootstrap, topic)
    mirror.stop(topic)
    values = [b"copied"]
    with peers("librdkafka").producer(daemon.bootstrap) as producer:
        for i in range(3):
            values.append(b"own %d" % i)
            producer.send(topic, values[-1:])
            daemon.kill()
            daemon.restart()
    assert peers("java").read(daemon.bootstrap, topic).values == values
    assert [b.control_type() for b in Partition(daemon.bootstrap, topic).batches].count(MIRROR_PID_RESET) == 1
    assert mirror.states() == {(topic, 0): "STOPPED"}
