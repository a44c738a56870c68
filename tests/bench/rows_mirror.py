"""Rows about mirrors: from a real Kafka, or from another kagamid where there is none."""
import os
import re
import time

from mirror import Mirror
from systems import BenchFailed, Kagami, MirrorMaker
from work import OURS, Line, Work, median

MM2 = "MirrorMaker 2"
PLAIN = "fetch to file"
READER = "reader of source"


class Destination:
    """A fresh kagamid, for one round."""

    def __init__(self, bench):
        self.kagami = Kagami(bench.path("destination"), bench.build)

    def __enter__(self):
        return self.kagami.start()

    def __exit__(self, *_):
        self.kagami.remove()


def await_copy(bench, broker, topic, ends, nbytes, pid, broker_pid=0):
    return bench.tool.begin("await", server=broker.bootstrap, topic=topic, partitions=len(ends), total=sum(ends.values()), bytes=nbytes, pid=pid,
                            broker_pid=broker_pid)


class Mirrored(Work):
    """Rows whose source topic is made before the rounds."""
    needs = ("source",)

    def __init__(self, lines, partitions, mb=0, **options):
        super().__init__(lines, **options)
        self.partitions, self.mb = partitions, mb
        self.topic = self.ends = self.bytes = self.maker = None

    def begin(self, bench):
        source = bench.brokers.get("source")
        self.topic = source.create_topic(self.partitions, timeout=900)
        self.bytes = max(bench.bytes(self.mb), self.partitions * 20000)
        records = 100 if self.bytes > self.partitions * 1000000 else 10
        bench.tool("produce", server=source.bootstrap, topic=self.topic, partitions=self.partitions, connections=min(4, self.partitions), records=records,
                   bytes=self.bytes)
        self.ends = source.ends(self.topic, self.partitions)

    def end(self, bench):
        if self.maker:
            self.maker.remove()
            self.maker = None
        if self.topic:
            for broker in ("source", "target"):
                if broker in self.needs and bench.brokers.get(broker):
                    bench.brokers.get(broker).delete_topic(self.topic)
            self.topic = None

    def with_maker(self, bench, sides):
        return sides if bench.maker_missing else {**sides, MM2: self.maker_side}

    def maker_side(self, bench):
        raise NotImplementedError

    def broker_of(self, name, side):
        return "target" if name == MM2 else None

    def maker_trouble(self):
        """What it said, where it does not copy."""
        with open(os.path.join(self.maker.folder, "log"), encoding="utf-8", errors="replace") as f:
            return " ".join(f.read(2000).split())[:400]

    def start_maker(self, bench):
        source, target = bench.brokers.get("source"), bench.brokers.get("target")
        self.maker = MirrorMaker(bench.path("mirror-maker"), source, target, self.topic, min(self.partitions, 4))
        return self.maker.start()


class CatchUp(Mirrored):
    """MirrorMaker 2 counts from its first record on (its start stands in a line of its own), Kagami from the call that starts the mirror."""
    needs = ("source", "target")

    def __init__(self, partitions):
        name = f"mirror catch-up, {partitions} partition{'s' if partitions > 1 else ''}"
        maker = {"against": MM2, "yard_key": "copy_mb_s", "yard_cpu_key": "copy_cpu_s_gb"}
        super().__init__([
            Line(name, against=PLAIN, aim=0.8),
            Line(name, aim=8, cpu_aim=15, **maker),
            Line(f"{name}: peak memory", against=MM2, key="mb", unit="MB", less=True, aim=20, cpu_key=None),
            Line(f"{name}: until the first record", against=MM2, key="first_s", unit="s", less=True, cpu_key=None),
            Line(f"{name}: CPU, MirrorMaker 2 with its destination", against=MM2, key="cpu_s_gb", yard_key="all_cpu_s_gb", unit="s/GB", less=True, cpu_key=None),
        ], partitions, 2000, limit_s=120)

    def sides(self, bench):
        return self.with_maker(bench, {OURS: self.kagami, PLAIN: self.plain})

    def kagami(self, bench):
        with Destination(bench) as destination:
            mirror = Mirror(destination).create(bench.brokers.get("source").bootstrap)
            waiting = await_copy(bench, destination, self.topic, self.ends, self.bytes, destination.pid())
            mirror.start(self.topic)
            result = waiting.result()
            return {**result, "mb": destination.peak_mb()}

    def plain(self, bench):
        result = bench.tool("fetch-file", server=bench.brokers.get("source").bootstrap, topic=self.topic, partitions=self.partitions, file=bench.path("fetched"))
        return {**result, "cpu_s_gb": result["own_cpu_s_gb"]}

    def maker_side(self, bench):
        target = bench.brokers.get("target")
        if self.maker:
            self.maker.remove() # of a round that failed
        maker = self.start_maker(bench)
        try:
            result = await_copy(bench, target, self.topic, self.ends, self.bytes, maker.pid(), target.pid()).result()
        except BenchFailed as why:
            raise BenchFailed(f"{why}; MirrorMaker 2 says: {self.maker_trouble()}") from why
        result.update(mb=maker.peak_mb(), all_cpu_s_gb=result["copy_cpu_s_gb"] + result["broker_cpu_s_gb"])
        maker.remove()
        target.delete_topic(self.topic)
        return result


class Lag(Mirrored):
    """Behind the acknowledgement of the source. MirrorMaker 2 runs on over all rounds and is warm."""
    needs = ("source", "target")
    WARM_SECONDS = 10

    def __init__(self, rate):
        name = f"mirror lag at {rate:,}/s behind the ack"
        super().__init__([Line(f"{name}, {point}", against=against, key=f"behind_ack_{point}_ms", unit="ms", less=True,
                               limit=limit if against == MM2 else None, cpu_key="cpu_s_gb" if point == "p50" and against == MM2 else None)
                          for against in (MM2, READER) for point, limit in (("p50", 1), ("p99", 3))], 1)
        self.rate = rate

    def begin(self, bench):
        self.topic = bench.brokers.get("source").create_topic()

    def sides(self, bench):
        return self.with_maker(bench, {OURS: self.kagami, READER: self.reader})

    def lag(self, bench, topic, reader, pid, seconds):
        source = bench.brokers.get("source")
        return bench.tool("lag", server=source.bootstrap, read_server=reader.bootstrap, topic=topic, rate=self.rate, warm_seconds=2, seconds=seconds, pid=pid)

    def seconds(self, bench):
        return max(int(5 * bench.scale), 2)

    def kagami(self, bench):
        source = bench.brokers.get("source")
        topic = source.create_topic()
        with Destination(bench) as destination:
            mirror = Mirror(destination).create(source.bootstrap)
            mirror.start(topic)
            mirror.wait_state("MIRRORING", topic)
            result = self.lag(bench, topic, destination, destination.pid(), self.seconds(bench))
            result["mb"] = destination.peak_mb()
        source.delete_topic(topic)
        return result

    def reader(self, bench):
        source = bench.brokers.get("source")
        topic = source.create_topic()
        result = self.lag(bench, topic, source, source.pid(), 2)
        source.delete_topic(topic)
        return result

    def maker_side(self, bench):
        source, target = bench.brokers.get("source"), bench.brokers.get("target")
        if not self.maker:
            bench.tool("produce", server=source.bootstrap, topic=self.topic, records=1, bytes=1000)
            waiting = await_copy(bench, target, self.topic, {0: 1}, 1000, self.start_maker(bench).pid())
            waiting.result()
            self.lag(bench, self.topic, target, 0, self.WARM_SECONDS)
        result = self.lag(bench, self.topic, target, self.maker.pid(), self.seconds(bench))
        result["mb"] = self.maker.peak_mb()
        return result


class Stop(Mirrored):
    """By phase, as the destination's log tells it."""

    def __init__(self, partitions):
        super().__init__([Line(f"stop of a mirror, {partitions:,} partition{'s' if partitions > 1 else ''}", against=None, key="seconds", unit="s",
                               limit=1 if partitions == 1000 else None, cpu_key="cpu_s", note=self.phases)], partitions)

    @staticmethod
    def phases(results):
        names = [name for name in results[0] if name.startswith("phase ")]
        return f" (ms: {', '.join(f'{name[6:]} {median(results, name):.3g}' for name in names)})" if names else ""

    def sides(self, bench):
        return {OURS: self.kagami}

    def kagami(self, bench):
        with Destination(bench) as destination:
            mirror = Mirror(destination).create(bench.brokers.get("source").bootstrap)
            mirror.start(self.topic)
            await_copy(bench, destination, self.topic, self.ends, self.bytes, destination.pid()).result()
            before, start = destination.cpu_s(), time.monotonic()
            report = mirror.stop(self.topic)
            result = {"seconds": time.monotonic() - start, "cpu_s": destination.cpu_s() - before, "mb": destination.peak_mb()}
            if any(p["errorCode"] for p in report.values()):
                raise BenchFailed(f"the stop reports {next(p for p in report.values() if p['errorCode'])}")
            told = re.search(r"stop ended partitions=\d+(.*)", destination.log())
            result.update({f"phase {name}": float(ms) for name, ms in re.findall(r"(\w+)Ms=(\d+)", told[1] if told else "")})
            return result


class IdleMirror(Work):
    """One destination; the rounds are looks at it. Its source is another kagamid: it makes 5,000 partitions sooner."""
    SECONDS = 10
    needs = ("crowded",)

    def __init__(self):
        super().__init__([Line("mirror of 5,000 idle partitions, CPU a second", against=None, key="cpu_ms_s", unit="ms", limit=10, cpu_key=None)])
        self.destination = None

    def sides(self, bench):
        return {OURS: self.kagami}

    def begin(self, bench):
        source = bench.brokers.get("crowded")
        self.destination = Kagami(bench.path("destination"), bench.build).start()
        mirror = Mirror(self.destination).create(source.bootstrap)
        mirror.start(source.crowd)
        mirror.wait_state("MIRRORING", source.crowd, timeout=900)

    def kagami(self, bench):
        time.sleep(1)
        before = self.destination.cpu_s()
        time.sleep(self.SECONDS)
        return {"cpu_ms_s": (self.destination.cpu_s() - before) * 1000 / self.SECONDS, "mb": self.destination.peak_mb()}

    def end(self, bench):
        if self.destination:
            self.destination.remove()


MIRROR = [CatchUp(1), CatchUp(4), CatchUp(100), Lag(1000), Lag(10000), Stop(1), Stop(100), Stop(1000), IdleMirror()]
