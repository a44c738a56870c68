"""The source of a mirror is killed and comes back at random: the mirror goes on without a hand, is never FAILED for a source that is away, and follows a source that lost its
end as it was told to (on.divergence)."""
import itertools
import os
import time

import pytest

from harness import Books, Writers, drawn, interrupt, read_copies, rounds, spec, wait_follows
from ledger import RawLog, same_logs
from mirror import Mirror
from peers import create_topic
from raw import HEADER, Partition, RawError, differences
from waiting import wait_until

TOPIC, PARTITIONS = "load", 3


def follow(source, copy, peers, rng, folder, count, end):
    """`copy` mirrors `source` under load. end(): takes something away and brings it back."""
    create_topic(peers("librdkafka"), source.bootstrap, TOPIC, PARTITIONS)
    mirror = Mirror(copy).create(source.bootstrap)
    mirror.start(TOPIC)
    writers = Writers(folder, source.bootstrap, rng, [spec(TOPIC, PARTITIONS, codec, generation=g) for codec, g in (("none", 0), ("lz4", 50), ("zstd", 0))])
    load, copies = Books(folder, source.bootstrap, TOPIC, PARTITIONS), [RawLog(TOPIC, p) for p in range(PARTITIONS)]
    try:
        for _ in range(count):
            wait_follows(mirror, copy, copies, writers, rng)
            end()
            assert set(mirror.states().values()) == {"MIRRORING"}, mirror.partitions()
        wait_follows(mirror, copy, copies, writers, rng)
        load.final(writers.pause())
        mirror.wait_copied(source.bootstrap, TOPIC, partitions=PARTITIONS)
        for one, other in zip(load.logs, read_copies(copy, TOPIC, copies)):
            same_logs(one, other)
    finally:
        writers.close()
        load.close()


ROUNDS, KAFKA_ROUNDS = rounds(12, 4), rounds(8, 4)


@pytest.mark.parametrize("count", [pytest.param(ROUNDS, id=f"{ROUNDS}-kills")])
def test_source_killed_at_random(make_kagamid, peers, tmp_path, count):
    source, copy, rng = make_kagamid(), make_kagamid(), drawn("source")
    mirror = Mirror(copy)

    def end():
        if rng.random() < 0.5:
            interrupt(source, rng, hard=0.7)
            return
        source.kill()
        wait_until(lambda: all(p["errorMessage"] for p in mirror.partitions().values()), 60, "describe does not show that the source is away")
        time.sleep(rng.uniform(0, 0.3)) # how long it is away
        source.restart()
    follow(source, copy, peers, rng, tmp_path / "lists", count, end)


@pytest.mark.parametrize("count", [pytest.param(KAFKA_ROUNDS, id=f"{KAFKA_ROUNDS}-rounds")])
def test_kafka_and_its_copy_killed_at_random(make_kafka, make_kagamid, peers, tmp_path, count):
    source, copy, rng, number = make_kafka(), make_kagamid(), drawn("Kafka as the source"), itertools.count(1)

    def end():
        if next(number) % 4: # a Kafka takes seconds for what we do in a tenth
            interrupt(copy, rng, hard=0.7)
            return
        source.kill()
        if rng.random() < 0.5:
            interrupt(copy, rng)
        source.start()
    follow(source, copy, peers, rng, tmp_path / "lists", count, end)


# ---- A source that lost its end ----

def cut(folder, keep):
    """What a power cut does to what was not yet on disk: the newest segment loses all but its first `keep` batches."""
    path = os.path.join(folder, max(name for name in os.listdir(folder) if name.endswith(".log")))
    with open(path, "r+b") as f:
        data = f.read()
        at = 0
        for _ in range(keep):
            at += 12 + HEADER.unpack_from(data, at)[1]
        f.truncate(at)


@pytest.fixture(params=["kagamid", "kafka"])
def source(request, make_kagamid):
    if request.param == "kagamid":
        return make_kagamid()
    kafka = request.getfixturevalue("make_kafka")()
    kafka.partition_folder = lambda topic, partition=0: os.path.join(kafka.data, f"{topic}-{partition}")
    return kafka


def test_a_source_that_lost_its_end(source, make_kagamid, peers):
    """Batches go from the source's end with a crash, and others stand there afterwards: one mirror may follow, the other may not."""
    rng = drawn("lost end")
    create_topic(peers("librdkafka"), source.bootstrap, TOPIC)
    following, careful = (Mirror(make_kagamid()).create(source.bootstrap, on_divergence=how) for how in ("truncate", "fail"))
    for mirror in (following, careful):
        mirror.start(TOPIC)

    def write(values):
        with peers("librdkafka").producer(source.bootstrap, acks="1", idempotent=False, linger_ms=0) as producer:
            for value in values:
                producer.send(TOPIC, [value])
    write(b"old %d" % i for i in range(20))
    for mirror in (following, careful):
        mirror.wait_copied(source.bootstrap, TOPIC)
    before = Partition(source.bootstrap, TOPIC)
    source.kill()
    keep = rng.randrange(1, 20)
    cut(source.partition_folder(TOPIC), keep)
    source.start()
    assert Partition(source.bootstrap, TOPIC).high_watermark == keep
    write(b"new %d" % i for i in range(rng.randrange(1, 30)))

    def differ():
        try:
            return differences(Partition(source.bootstrap, TOPIC), Partition(following.kagamid.bootstrap, TOPIC))
        except RawError as cut_meanwhile:
            return str(cut_meanwhile)
    wait_until(lambda: not differ(), 60, lambda: f"{differ()}\n{following.partitions()}")
    assert set(following.states().values()) == {"MIRRORING"}
    assert not careful.wait_failed(TOPIC)["retriable"]
    assert [b.data for b in Partition(careful.kagamid.bootstrap, TOPIC).batches] == [b.data for b in before.batches], "nothing may go without consent"
