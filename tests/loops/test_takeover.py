"""A stop at a drawn moment under load: producers go on against the copy, among them some that are known here by producer ids that the copied data use too."""
import re
import time

import pytest

from harness import Books, Writers, drawn, interrupt, read_copies, rounds, spec
from ledger import Broken, RawLog
from mirror import Mirror
from peers import create_topic
from waiting import wait_until

TOPIC, PARTITIONS, OWN = "load", 3, "own"
LOCALS, REMOTES, FRESH = 50, 0, 80 # numbers of the writers


def pids_of(logs, base=0, end=1 << 62):
    """(producer id, epoch) of the data in [base, end)."""
    return {(h.pid, h.epoch) for log in logs for h in log.headers if base <= h.base < end and not h.control}


class Scene:
    """A source under load and its copy; and writers of the copy's cluster that were there before: each of their producer ids is in use at the source too, by a producer that
    lives long or by one that wrote a few batches."""

    def __init__(self, make_kagamid, peers, folder, rng, switches=()):
        self.rng, self.folder = rng, folder
        self.source, self.copy = make_kagamid(), make_kagamid(switches=switches)
        create_topic(peers("librdkafka"), self.source.bootstrap, TOPIC, PARTITIONS)
        create_topic(peers("librdkafka"), self.copy.bootstrap, OWN, PARTITIONS)
        self.locals = Writers(folder / "locals", self.copy.bootstrap, rng, [
            spec(OWN, PARTITIONS, codec) for codec in ("none", "lz4", "zstd", "snappy", "gzip", "none")], LOCALS)
        self.locals.go_on(OWN)
        self.pids = pids_of(RawLog(OWN, p).read(self.copy.bootstrap) for p in range(PARTITIONS))
        assert len(self.pids) == len(self.locals.numbers)
        self.mirror = Mirror(self.copy).create(self.source.bootstrap)
        self.mirror.start(TOPIC)
        self.remotes = Writers(folder / "remotes", self.source.bootstrap, rng, [
            spec(TOPIC, PARTITIONS, "none"), spec(TOPIC, PARTITIONS, "lz4", generation=200),
            *(spec(TOPIC, PARTITIONS, generation=5, one_by_one=True) for _ in range(4))], REMOTES)
        self.remotes.go_on(TOPIC)
        self.copies = [RawLog(TOPIC, p) for p in range(PARTITIONS)]
        wait_until(lambda: self.pids <= pids_of(read_copies(self.copy, TOPIC, self.copies)), 60,
                   lambda: f"producers: {self.pids} here, {pids_of(self.copies)} copied: the test would show nothing")

    def stop(self, dead):
        """At a drawn moment; dead: the source is killed first. The offsets of the barriers."""
        self.remotes.go_on(TOPIC, self.rng)
        time.sleep(self.rng.uniform(0, 0.05)) # a part of the moment
        if dead:
            self.source.kill()
        report = self.mirror.stop(TOPIC)
        assert {p["state"] for p in report.values()} == {"STOPPED"}
        barriers = [report[(TOPIC, p)]["barrierOffset"] for p in range(PARTITIONS)]
        for copy, barrier in zip(read_copies(self.copy, TOPIC, self.copies), barriers):
            assert copy.end == barrier + 1 and copy.headers[-1].base == barrier and copy.headers[-1].control, f"{copy.name} does not end with the barrier"
            if not dead: # what was copied is the source's, to the byte; beyond it the source goes on alone
                size = copy.headers[-1].at
                assert RawLog(TOPIC, copy.partition).read(self.source.bootstrap).data[:size] == copy.data[:size], f"{copy.name} is not the source's beginning"
        return barriers

    def written_behind(self, barriers):
        """(producer id, epoch) of what was written behind the barriers."""
        return {at for copy, barrier in zip(read_copies(self.copy, TOPIC, self.copies), barriers) for at in pids_of([copy], barrier)}

    def close(self):
        self.locals.close()
        self.remotes.close()


@pytest.fixture
def make_scene(make_kagamid, peers, tmp_path):
    made = []

    def make(rng, **more):
        made.append(Scene(make_kagamid, peers, tmp_path, rng, **more))
        return made[-1]
    yield make
    for scene in made:
        scene.close()


@pytest.mark.parametrize("number", range(rounds(4, 2)))
def test_producers_go_on_against_the_copy(make_scene, number):
    """Those with colliding ids and fresh ones: nothing acknowledged is lost, nobody is told of duplicates, gaps or fences, nobody is driven to another id or epoch."""
    scene = make_scene(drawn(f"takeover {number}"))
    if number % 4 >= 2:
        scene.locals.go_on(OWN)
        interrupt(scene.copy, scene.rng)
    barriers = scene.stop(dead=number % 2 == 0)
    scene.locals.ask("enter", topic=TOPIC, partitions=PARTITIONS, first=1)
    fresh = Writers(scene.folder / "locals", scene.copy.bootstrap, scene.rng, [spec(TOPIC, PARTITIONS), spec(TOPIC, PARTITIONS, "lz4", generation=30)], FRESH)
    load = Books(scene.folder / "locals", scene.copy.bootstrap, TOPIC, PARTITIONS)
    try:
        for writers in (scene.locals, fresh):
            writers.go_on(TOPIC)
        load.check()
        interrupt(scene.copy, scene.rng) # the barrier is as good after a restart
        for writers in (scene.locals, fresh):
            writers.go_on(TOPIC)
        load.final({**scene.locals.pause(), **fresh.pause()})
        written, copied = scene.written_behind(barriers), set().union(*(pids_of([c], 0, b) for c, b in zip(scene.copies, barriers)))
        assert scene.pids <= written, "a producer that had an id before goes on with it"
        assert {pid for pid, _ in written - scene.pids}.isdisjoint(pid for pid, _ in copied), "a fresh producer has an id that was copied"
    finally:
        fresh.close()
        load.close()


def test_without_the_barrier_the_harm_is_seen(make_scene):
    """The same with the barrier's effect switched off: that this is found shows that the test above can fail."""
    scene = make_scene(drawn("no barrier"), switches=["suppress-barrier"])
    scene.stop(dead=True)
    scene.locals.ask("enter", topic=TOPIC, partitions=PARTITIONS, first=1)
    scene.locals.ask("allow")
    load = Books(scene.folder / "locals", scene.copy.bootstrap, TOPIC, PARTITIONS, once=False)

    def lost():
        try:
            load.check()
        except Broken as broken:
            print(broken)
            return re.search(r"of writer 5\d .* was acknowledged at .* stands record \d+ of writer \d ", str(broken))
        return False
    try:
        wait_until(lost, 30, lambda: f"no acknowledged record was lost though there is no barrier: {scene.locals.ask('status')}", pause=0.2)
        errors = {n: r["errors"][0] for n, r in scene.locals.ask("status").items() if r["errors"]}
        assert any("OUT_OF_ORDER_SEQUENCE_NUMBER" in text or "out of order" in text for text in errors.values()), errors
    finally:
        load.close()


def test_producers_that_are_led_to_the_copy(make_scene):
    """The source's own producers, live on when the copy takes the source's address: what the copy acknowledges is there, and what the source had acknowledged and was copied is not
    doubled."""
    scene = make_scene(drawn("address"))
    barriers = scene.stop(dead=True)
    scene.locals.pause()
    scene.remotes.ask("status") # what the source answered before it died is in the lists now
    copied = Books(scene.folder / "remotes", scene.copy.bootstrap, TOPIC, PARTITIONS)
    try:
        by_source = copied.ledger.take_acks().pending
        copied.ledger.pending = [entry for entry in by_source if entry[1] < barriers[entry[0]]] # the rest is what a failover may lose: it was not here yet
        copied.check()
    finally:
        copied.close()
    scene.copy.stop()
    scene.copy.bootstrap = scene.source.bootstrap
    scene.copy.restart()
    load = Books(scene.folder / "remotes", scene.copy.bootstrap, TOPIC, PARTITIONS, once=False, anew=barriers)
    load.ledger.after(copied.ledger)
    try:
        for _ in range(3):
            scene.remotes.go_on(TOPIC, scene.rng)
            load.check()
            interrupt(scene.copy, scene.rng)
        load.final(scene.remotes.pause())
        known = {key for p, at, key in by_source if at < barriers[p]}
        doubled = [key for p, barrier in enumerate(barriers) for at, key in load.ledger.keys[p].items() if at > barrier and key in known]
        assert not doubled, f"{len(doubled)} records that the source had acknowledged and that were copied are there twice"
    finally:
        load.close()
