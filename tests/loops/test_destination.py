"""The destination of a mirror ends, hard or in peace, while its source is being written: its copy never loses, doubles or changes a byte."""
import pytest

from harness import Books, Writers, drawn, interrupt, read_copies, rounds, spec, wait_follows
from ledger import RawLog, producers, same_logs
from mirror import Mirror
from peers import create_topic

ROUNDS = rounds(20, 6)
TOPIC, PARTITIONS = "load", 6


@pytest.mark.parametrize("count", [pytest.param(ROUNDS, id=f"{ROUNDS}-restarts")])
def test_destination_restarted_while_the_source_is_written(make_kagamid, peers, tmp_path, count):
    source, copy, rng = make_kagamid(), make_kagamid(), drawn("destination")
    create_topic(peers("librdkafka"), source.bootstrap, TOPIC, PARTITIONS, {"segment.bytes": 1 << 20})
    mirror = Mirror(copy).create(source.bootstrap)
    mirror.start(TOPIC)
    writers = Writers(tmp_path / "lists", source.bootstrap, rng, [spec(TOPIC, PARTITIONS, codec, generation=g) for codec, g in
                                                                  (("none", 0), ("lz4", 0), ("zstd", 150), ("gzip", 30))])
    load, copies = Books(writers.folder, source.bootstrap, TOPIC, PARTITIONS), [RawLog(TOPIC, p) for p in range(PARTITIONS)]
    try:
        for _ in range(count):
            wait_follows(mirror, copy, copies, writers, rng)
            interrupt(copy, rng, hard=0.6)
            read_copies(copy, TOPIC, copies) # nothing that was visible went
            load.check()
            for one, other in zip(load.logs, copies):
                same_logs(one, other, prefix=True)
        load.final(writers.pause())
        mirror.wait_copied(source.bootstrap, TOPIC, partitions=PARTITIONS)
        for one, other in zip(load.logs, read_copies(copy, TOPIC, copies)):
            same_logs(one, other)
            state = [producers(at.bootstrap, TOPIC, one.partition) for at in (source, copy)]
            assert state[0] == state[1], f"{one.name}: the copy's producer state is another"
    finally:
        writers.close()
        load.close()
