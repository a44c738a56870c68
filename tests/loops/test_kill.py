"""kill -9 of the broker under load, again and again: what was acknowledged is there, once, where the client was told; and a mirror that runs beside it has the same."""
import pytest

from harness import Books, Writers, drawn, interrupt, read_copies, rounds, spec
from ledger import RawLog, producers, same_logs
from mirror import Mirror
from peers import create_topic
from waiting import wait_until

ROUNDS = rounds(50, 10)
LOAD, PLAIN = ("load", 4), ("plain", 2) # topic, partitions


@pytest.fixture
def scene(make_kagamid, peers, tmp_path):
    daemon, copy = make_kagamid(), make_kagamid()
    for topic, partitions in (LOAD, PLAIN):
        create_topic(peers("librdkafka"), daemon.bootstrap, topic, partitions, {"segment.bytes": 1 << 20})
    mirror = Mirror(copy).create(daemon.bootstrap)
    mirror.start(LOAD[0], PLAIN[0])
    rng = drawn("kill")
    idempotent = Writers(tmp_path / "idempotent", daemon.bootstrap, rng, [
        spec(*LOAD, "none"), spec(*LOAD, "lz4", linger_ms=5), spec(*LOAD, "zstd"), spec(*LOAD, "snappy", generation=150),
        spec(*LOAD, "gzip", generation=40), spec(*LOAD, one_by_one=True)])
    plain = Writers(tmp_path / "plain", daemon.bootstrap, rng, [spec(*PLAIN, acks="1", idempotent=False, rate=400), spec(*PLAIN, "lz4", idempotent=False, rate=400)], first_number=100)
    load = Books(idempotent.folder, daemon.bootstrap, *LOAD)
    rest = Books(plain.folder, daemon.bootstrap, *PLAIN, once=False)
    yield daemon, copy, mirror, rng, (idempotent, plain), (load, rest)
    for open_one in (idempotent, plain, load, rest):
        open_one.close()


@pytest.mark.parametrize("count", [pytest.param(ROUNDS, id=f"{ROUNDS}-rounds")])
def test_killed_under_load(scene, peers, count):
    daemon, copy, mirror, rng, (idempotent, plain), (load, rest) = scene
    copies = {at.topic: [RawLog(at.topic, p) for p in range(at.partitions)] for at in (load, rest)}
    for _ in range(count):
        plain.go_on(PLAIN[0])
        idempotent.go_on(LOAD[0], rng)
        if rng.random() < 0.15: # both at once
            copy.kill()
        interrupt(daemon, rng)
        if not copy.running():
            copy.restart()
        for at in (load, rest):
            read_copies(copy, at.topic, copies[at.topic])
            at.check()
            for source, destination in zip(at.logs, copies[at.topic]):
                same_logs(source, destination, prefix=True)
        assert set(mirror.states().values()) <= {"MIRRORING", "PREPARING"}
    reports = {load: idempotent.pause(), rest: plain.pause()}
    load.final(reports[load], another=peers("kafka-python"))
    rest.final(reports[rest])
    mirror.wait_copied(daemon.bootstrap, LOAD[0], PLAIN[0], partitions={LOAD[0]: LOAD[1], PLAIN[0]: PLAIN[1]})
    for at in (load, rest):
        for source, destination in zip(at.logs, read_copies(copy, at.topic, copies[at.topic])):
            same_logs(source, destination)
            wait_until(lambda a=(at.topic, source.partition): producers(daemon.bootstrap, *a) == producers(copy.bootstrap, *a), 30,
                       f"{source.name}: the copy's producer state is another")
    print(f"{load.ledger.acknowledged} + {rest.ledger.acknowledged} records acknowledged over {count} kills")
