"""What a row is made of: sides that take turns, figures of which the table shows medians, aims; and the brokers that rows share."""
import contextlib
import dataclasses
import os
import signal
import statistics
import sys
import time

import kafka_peer
from mirror import MirrorError
from systems import BenchFailed, Kafka, Kagami

OURS = "Kagami"
TROUBLE = (BenchFailed, MirrorError, kafka_peer.KafkaFailed, OSError, AssertionError, ValueError)


@dataclasses.dataclass
class Line:
    """One line of the table: a figure of ours beside the same of a yardstick. Ratios above 1 are in our favour."""
    name: str
    against: str = "Kafka"
    key: str = "mb_s"
    unit: str = "MB/s"
    yard_key: str = None # where the yardstick's figure has another name
    less: bool = False # the smaller figure is the better one
    aim: float = None # the ratio, at least
    limit: float = None # our figure, at most
    cpu_key: str = "cpu_s_gb"
    yard_cpu_key: str = None
    cpu_aim: float = None # the ratio, at least
    note: object = None # function(our results) -> text behind the name

    def figures(self, results):
        ours, theirs = results.get(OURS, []), results.get(self.against, [])
        value, yard = median(ours, self.key), median(theirs, self.yard_key or self.key)
        cpu, yard_cpu = median(ours, self.cpu_key), median(theirs, self.yard_cpu_key or self.cpu_key)
        return {"unit": self.unit, "kagami": value, "yardstick": yard, "beside": self.against if theirs else None,
                "ratio": ratio(yard, value) if self.less else ratio(value, yard), "aim": self.aim, "limit": self.limit, "cpu": cpu, "yard_cpu": yard_cpu,
                "cpu_ratio": ratio(yard_cpu, cpu), "cpu_aim": self.cpu_aim, "mb": median(ours, "mb"), "yard_mb": median(theirs, "mb"),
                "generator": median(ours, "generator_s_gb")}


def median(results, key):
    values = [r[key] for r in results if r.get(key) is not None]
    return statistics.median(values) if values else None


def ratio(a, b):
    return a / b if a is not None and b else None


@contextlib.contextmanager
def time_limit(seconds):
    """BenchFailed when the body takes longer, whatever it waits for. One at a time."""
    def over(*_):
        raise BenchFailed(f"not done within {seconds:.0f} s")
    previous = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


class Work:
    """Rounds of A B A B over the sides, {name: function(bench) -> figures}. A side that fails or takes longer than limit_s once takes no further part;
    without ours the lines are reported as failed. begin and end stand around all rounds."""
    needs = () # brokers that are started and warmed before the clock runs

    def __init__(self, lines, sides=None, limit_s=90, needs=None):
        self.lines, self._sides, self.limit_s = lines, sides or {}, limit_s
        self.needs = needs if needs is not None else self.needs

    def begin(self, bench):
        pass

    def end(self, bench):
        pass

    def sides(self, bench):
        return {name: side for name, side in self._sides.items() if name != "Kafka" or not bench.kafka_missing}

    def broker_of(self, name, side):
        """Which of the shared brokers a side works on."""
        return getattr(side, "broker", None)

    def run(self, bench):
        results, failed, start = {}, {}, time.monotonic()
        try:
            self.start_brokers(bench)
            with time_limit(bench.seconds(300)):
                self.begin(bench)
            os.sync() # what others wrote is not ours to wait for
            for done in range(bench.rounds):
                if done and bench.late():
                    break
                for name, side in self.sides(bench).items():
                    if name not in failed:
                        self.turn(bench, name, side, results, failed)
        except TROUBLE as why:
            failed[OURS] = f"{type(why).__name__}: {why}"
        try:
            with time_limit(bench.seconds(60)):
                self.end(bench)
        except TROUBLE as why:
            print(f"{self.lines[0].name}: {why}", file=sys.stderr)
        there = {line.against for line in self.lines if line.against in self.sides(bench)}
        for line in self.lines:
            if line.against in there or line.limit is not None or not there: # without a yardstick that others of these lines have it would say nothing
                bench.add(line, results, failed, time.monotonic() - start)

    def start_brokers(self, bench):
        for key in self.needs:
            bench.brokers.get(key)

    def turn(self, bench, name, side, results, failed):
        try:
            self.start_brokers(bench)
            with time_limit(bench.seconds(self.limit_s)):
                results.setdefault(name, []).append(side(bench))
        except TROUBLE as why:
            failed[name] = f"{type(why).__name__}: {why}"
            results.pop(name, None)
            if self.broker_of(name, side):
                bench.brokers.drop(self.broker_of(name, side)) # nobody knows what it is doing


def on(key, run):
    """A side that works on one of the shared brokers: run(bench, broker) -> figures; with its peak memory."""
    def side(bench):
        broker = bench.brokers.get(key)
        broker.reset_peak()
        result = run(bench, broker)
        result["mb"] = broker.peak_mb()
        return result
    side.broker = key
    return side


def both(run, ours="cache"):
    return {OURS: on(ours, run), "Kafka": on("kafka", run)}


class Brokers:
    """Brokers that rows share, started and warmed when first asked for: a JVM needs about 2 GB of warm-up."""
    SETTINGS = {"cache": {"flush.acks.all": "false"}, "durable": {}, "crowded": {"flush.acks.all": "false"}}
    CROWD = 5000 # idle partitions

    def __init__(self, bench):
        self.bench, self.running = bench, {}

    def get(self, key):
        if key == "source": # of mirrors
            key = "cache" if self.bench.kafka_missing else "kafka"
        if key in ("kafka", "target") and self.bench.kafka_missing:
            return None
        if key in self.running and not self.running[key].running():
            self.drop(key)
        if key not in self.running:
            self.running[key] = self._make(key)
            self._warm(key, self.running[key])
        return self.running[key]

    def _make(self, key):
        path = self.bench.path(key)
        broker = Kafka(path) if key in ("kafka", "target") else Kagami(path, self.bench.build, self.SETTINGS[key])
        return broker.start()

    def _warm(self, key, broker):
        with time_limit(self.bench.seconds(300)):
            if key == "crowded":
                broker.crowd = broker.create_topic(self.bench.partitions(self.CROWD), timeout=900)
            size = (2000 if broker.name == "kafka" else 200) * min(self.bench.scale * 2, 1)
            topic, tool = broker.create_topic(4), self.bench.tool
            for options in ({"bytes": int(size * 5e5), "connections": 1}, {"bytes": int(size * 5e5), "connections": 4, "acks": -1, "idempotent": 1},
                            {"records": 1, "seconds": 2, "connections": 4}):
                tool("produce", server=broker.bootstrap, topic=topic, partitions=4, **options)
            tool("consume", server=broker.bootstrap, topic=topic, partitions=4, connections=4, bytes=int(size * 1e6))
            broker.delete_topic(topic)

    def drop(self, *keys):
        """Without keys: all."""
        for key in keys or list(self.running):
            broker = self.running.pop({"source": "cache" if self.bench.kafka_missing else "kafka"}.get(key, key), None)
            if broker:
                broker.remove()
