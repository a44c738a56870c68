"""The rows of the table, in groups that share running brokers."""
import statistics
import time

from mirror import Mirror
from systems import BenchFailed, Kafka, Kagami
from wire import Client

GB = 1e9


def median(values):
    values = [v for v in values if v is not None]
    return statistics.median(values) if values else None


def ratio(a, b):
    return a / b if a is not None and b else None


class Row:
    """One line: what both sides do, and which figure is compared."""

    def __init__(self, name, run, unit="MB/s", key="mb_s", aim=None, cpu_aim=None, cpu_key="cpu_s_gb", less_is_better=False):
        self.name, self.run, self.unit, self.key = name, run, unit, key
        self.aim, self.cpu_aim, self.cpu_key, self.less = aim, cpu_aim, cpu_key, less_is_better


def compare(bench, row, sides):
    """Rounds of A B A B; medians; one line."""
    results = {side.name: [] for side in sides}
    peaks = {}
    for side in sides:
        side.reset_peak()
    for _ in range(bench.rounds):
        for side in sides:
            results[side.name].append(row.run(bench, side))
    for side in sides:
        peaks[side.name] = side.peak_mb()

    def value(name, key):
        return median([r.get(key) for r in results[name]]) if name in results else None

    ours, theirs = value("kagami", row.key), value("kafka", row.key)
    cpu, yard_cpu = value("kagami", row.cpu_key), value("kafka", row.cpu_key)
    bench.add(row.name, unit=row.unit, kagami=ours, yardstick=theirs, ratio=ratio(theirs, ours) if row.less else ratio(ours, theirs),
              aim=row.aim, cpu=cpu, yard_cpu=yard_cpu, cpu_ratio=ratio(yard_cpu, cpu), cpu_aim=row.cpu_aim, mb=peaks.get("kagami"),
              yard_mb=peaks.get("kafka"))


class Group:
    """Rows on one Kagami and one Kafka that run side by side."""

    def __init__(self, name, rows, kagami=None, kafka=None):
        self.name, self.rows = name, rows
        self.kagami, self.kafka = kagami or {}, kafka or {}

    def sides(self, bench):
        sides = [Kagami(bench.path(self.name + "-kagami"), bench.build, self.kagami)]
        if not bench.kafka_missing:
            sides.append(Kafka(bench.path(self.name + "-kafka"), self.kafka))
        return sides

    def warm(self, bench, side):
        """A JVM needs about 2 GB of it, whatever the scale."""
        topic = side.create_topic(4)
        bench.tool("produce", server=side.bootstrap, topic=topic, partitions=4, connections=4, bytes=2000000000 if side.name == "kafka" else 200000000)
        bench.tool("consume", server=side.bootstrap, topic=topic, partitions=4, connections=4, bytes=bench.bytes(2000))
        bench.tool("produce", server=side.bootstrap, topic=topic, partitions=4, records=1, seconds=1)
        side.delete_topic(topic)

    def run(self, bench):
        sides = self.sides(bench)
        try:
            for side in sides:
                side.start()
                self.warm(bench, side)
            for row in self.rows:
                compare(bench, row, sides)
        finally:
            for side in sides:
                side.kill()
                side.wipe()


# ---- Writing and reading ----

def produce(mb=400, partitions=1, configs=None, **options):
    def run(bench, side):
        topic = side.create_topic(partitions, configs)
        result = bench.tool("produce", server=side.bootstrap, topic=topic, partitions=partitions, pid=side.pid(), bytes=bench.bytes(mb),
                            warm_bytes=bench.bytes(mb / 4), **options)
        side.delete_topic(topic)
        return result
    return run


def produce_seconds(partitions=1, **options):
    def run(bench, side):
        topic = side.create_topic(partitions)
        result = bench.tool("produce", server=side.bootstrap, topic=topic, partitions=partitions, pid=side.pid(), seconds=max(int(3 * bench.scale), 2),
                            **options)
        side.delete_topic(topic)
        return result
    return run


class Filled:
    """A topic that is written once a side and read in every round."""

    def __init__(self, mb, partitions=1, **options):
        self.mb, self.partitions, self.options, self.topics = mb, partitions, options, {}

    def topic(self, bench, side):
        if side not in self.topics:
            self.topics[side] = side.create_topic(self.partitions)
            bench.tool("produce", server=side.bootstrap, topic=self.topics[side], partitions=self.partitions, bytes=bench.bytes(self.mb), **self.options)
        return self.topics[side]


def consume(filled, mb, requests=None, **options):
    def run(bench, side):
        topic = filled.topic(bench, side)
        amount = {"requests": int(requests * max(bench.scale, 0.2))} if requests else {"bytes": bench.bytes(mb)}
        return bench.tool("consume", server=side.bootstrap, topic=topic, partitions=filled.partitions, pid=side.pid(), **amount, **options)
    return run


def latency(rate, records=1, **options):
    def run(bench, side):
        topic = side.create_topic()
        result = bench.tool("lag", server=side.bootstrap, topic=topic, rate=rate, pid=side.pid(), seconds=max(int(5 * bench.scale), 2), **options)
        side.delete_topic(topic)
        return result
    return run


SMALL = Filled(200)
WIDE = Filled(300, partitions=1000, connections=4, records=10)

CACHE = Group("cache", [
    Row("produce 1 kB acks=1, 1 connection", produce(), aim=1.3, cpu_aim=2),
    Row("produce 1 kB acks=all, 16 connections, 12 partitions", produce(partitions=12, connections=16, acks=-1), aim=1.3, cpu_aim=2),
    Row("produce 1 kB idempotent acks=all, 1 connection", produce(acks=-1, idempotent=1), aim=1.3, cpu_aim=2),
    Row("produce 1 kB acks=1, 16 kB batches, 16 connections", produce(records=16, partitions=12, connections=16), aim=1.3, cpu_aim=2),
    Row("produce 100 B acks=1, 1 connection", produce(record_bytes=100, records=1000), aim=1.3, cpu_aim=2),
    Row("produce 1 kB lz4, 16 connections", produce(codec="lz4", partitions=12, connections=16, mb=200), aim=1.3, cpu_aim=2),
    Row("produce 1 kB zstd, 16 connections", produce(codec="zstd", partitions=12, connections=16, mb=200), aim=1.3, cpu_aim=2),
    Row("produce 1 kB, 1,000 partitions, 16 connections", produce(records=10, partitions=1000, batches=20, connections=16), aim=1.3, cpu_aim=2),
    Row("one 1 kB record a request, 1 connection", produce_seconds(records=1), unit="req/s", key="requests_s", aim=3, cpu_aim=3),
    Row("one 1 kB record a request, 16 connections", produce_seconds(records=1, connections=16, partitions=12), unit="req/s", key="requests_s", aim=3, cpu_aim=3),
    Row("consume, 1 connection", consume(SMALL, 3000, max_bytes=52428800, partition_bytes=10485760), aim=1),
    Row("consume, 16 connections", consume(SMALL, 3000, connections=16, max_bytes=52428800, partition_bytes=10485760), aim=1),
    Row("consume, 1,000 partitions, 4 connections", consume(WIDE, 1000, connections=4), aim=1),
    Row("consume, small fetches (one batch of 100 kB)", consume(SMALL, 0, requests=20000, partition_bytes=1), unit="req/s", key="requests_s", aim=3),
    Row("fetch of 1,000 idle partitions in a session", consume(WIDE, 0, requests=5000, end=1, wait_ms=0), unit="req/s", key="requests_s", aim=3, cpu_key="cpu_s"),
    Row("produce to consume, 1,000/s, p50", latency(1000), unit="ms", key="seen_p50_ms", aim=2, less_is_better=True, cpu_key="cpu_s"),
    Row("produce to consume, 1,000/s, p99", latency(1000), unit="ms", key="seen_p99_ms", aim=2, less_is_better=True, cpu_key="cpu_s"),
    Row("produce to consume, 20 MB/s, p50", latency(20000), unit="ms", key="seen_p50_ms", aim=2, less_is_better=True, cpu_key="cpu_s"),
], kagami={"flush.acks.all": "false"})

DURABLE = Group("durable", [
    Row(f"acks=all with fdatasync, 16 kB, {n} writers", produce_seconds(records=16, acks=-1, connections=n, in_flight=1), aim=4, cpu_aim=None)
    for n in (1, 4, 16, 64)
] + [
    Row("acks=all with fdatasync, 16 kB, 1 writer, 5 in flight", produce_seconds(records=16, acks=-1), aim=4),
    Row("acks=all with fdatasync, idempotent, 5 in flight", produce_seconds(records=16, acks=-1, idempotent=1), aim=4),
    Row("acks=all with fdatasync, 12 partitions, 16 writers", produce_seconds(records=16, acks=-1, connections=16, partitions=12), aim=4),
], kafka={"log.flush.interval.messages": "1"})


# ---- What the machine can do ----

class Machine:
    name = "machine"

    def __init__(self):
        self.rows = [Row("the disk: append 16 kB and fdatasync", None), Row("bare sendfile loop", None)]

    def run(self, bench):
        for row in self.rows:
            results = []
            for _ in range(bench.rounds):
                if "disk" in row.name:
                    results.append(bench.tool("disk", file=bench.path("disk"), seconds=2))
                else:
                    results.append(bench.tool("sendfile", file=bench.path("sendfile"), bytes=bench.bytes(4000)))
            unit, key = ("sync/s", "syncs_s") if "disk" in row.name else ("MB/s", "mb_s")
            bench.add(row.name, unit=unit, yardstick=median([r[key] for r in results]), yard_cpu=median([r.get("cpu_s_gb") for r in results]))


# ---- Footprint: memory, start, many partitions ----

class Footprint:
    name = "footprint"
    PARTITIONS = 5000

    def __init__(self):
        self.rows = [Row(name, None) for name in (
            "idle memory", "start to first write, empty", "creating 5,000 partitions", "memory with 5,000 partitions",
            "start to first write, 5,000 partitions", "stop with 5,000 partitions", "CPU of 5 idle seconds, 5,000 partitions",
            "an idle connection (opened)", "an idle connection (has written 100 kB)")]

    def partitions(self, bench):
        return max(int(self.PARTITIONS * min(bench.scale, 1)), 100)

    @staticmethod
    def first_write(bench, side, topic=None):
        start = time.monotonic()
        side.start()
        if topic is None:
            topic = side.create_topic()
        else:
            side.wait_ready(topic) # Kafka's listener is up before its logs are
        bench.tool("produce", server=side.bootstrap, topic=topic, records=1, bytes=1000)
        return time.monotonic() - start, side.cpu_s()

    def one(self, bench, side):
        out, cpu = {}, {}
        out["start to first write, empty"], cpu["start to first write, empty"] = self.first_write(bench, side)
        time.sleep(2)
        out["idle memory"] = side.rss_mb()
        partitions = self.partitions(bench)
        start, before = time.monotonic(), side.cpu_s()
        topic = side.create_topic(partitions, timeout=300)
        out["creating 5,000 partitions"] = time.monotonic() - start
        cpu["creating 5,000 partitions"] = side.cpu_s() - before
        out["memory with 5,000 partitions"] = side.rss_mb()
        before = side.cpu_s()
        time.sleep(5)
        cpu["CPU of 5 idle seconds, 5,000 partitions"] = out["CPU of 5 idle seconds, 5,000 partitions"] = side.cpu_s() - before
        connections = bench.tool("connections", server=side.bootstrap, topic=topic, count=1000, records=100, record_bytes=1000, pid=side.pid())
        out["an idle connection (opened)"] = connections["bytes_each_opened"] / 1000
        out["an idle connection (has written 100 kB)"] = connections["bytes_each_used"] / 1000
        start = time.monotonic()
        side.stop()
        out["stop with 5,000 partitions"] = time.monotonic() - start
        name = "start to first write, 5,000 partitions"
        out[name], cpu[name] = self.first_write(bench, side, topic)
        side.kill()
        side.wipe()
        return out, cpu

    def run(self, bench):
        units = {"memory": "MB", "connection": "kB", "CPU": "s"}
        sides = Group("footprint", []).sides(bench)
        rounds = {side.name: [self.one(bench, side) for _ in range(1 if side.name == "kafka" else bench.rounds)] for side in sides}
        for row in self.rows:
            value = {name: median([r[0].get(row.name) for r in results]) for name, results in rounds.items()}
            cpu = {name: median([r[1].get(row.name) for r in results]) for name, results in rounds.items()}
            unit = next((u for word, u in units.items() if word in row.name), "s")
            bench.add(row.name.replace("5,000", f"{self.partitions(bench):,}"), unit=unit, kagami=value.get("kagami"), yardstick=value.get("kafka"),
                      ratio=ratio(value.get("kafka"), value.get("kagami")), aim=10 if "connection" not in row.name else None,
                      cpu=cpu.get("kagami"), yard_cpu=cpu.get("kafka"), cpu_ratio=ratio(cpu.get("kafka"), cpu.get("kagami")))


# ---- Mirroring ----

class Mirroring:
    """From a real Kafka, or from another kagamid where there is none. Catch-up beside a program that fetches the same bytes over one connection in large
    fetches, checks their CRCs and writes them to a file."""
    name = "mirror"
    CATCH_UP = {"mirror catch-up, 1 partition": 1, "mirror catch-up, 4 partitions": 4, "mirror catch-up, 100 partitions": 100}
    LAG = {"mirror lag at 1,000/s": 1000, "mirror lag at 10,000/s": 10000}
    STOP = {"stop of a mirror, 1 partition": 1, "stop of a mirror, 100 partitions": 100, "stop of a mirror, 1,000 partitions": 1000}
    IDLE = "mirror of 1,000 idle partitions, CPU of 5 s"

    def __init__(self):
        self.rows = [Row(name, None) for name in (*self.CATCH_UP, *self.LAG, *self.STOP, self.IDLE)]
        self.count = 0

    def destination(self, bench):
        self.count += 1
        return Kagami(bench.path(f"mirror-destination-{self.count}"), bench.build).start()

    @staticmethod
    def await_copy(mirror, ends, timeout=600):
        """ends: {(topic, partition): offset}."""
        deadline = time.monotonic() + timeout
        while True:
            there = mirror.partitions()
            if all(at in there and there[at]["destinationOffset"] >= end for at, end in ends.items()):
                return
            if time.monotonic() > deadline:
                raise BenchFailed(f"the mirror does not catch up: {[p for p in there.values()][:3]}")
            time.sleep(0.01)

    @staticmethod
    def ends(source, topic, partitions):
        with Client(source.bootstrap) as client:
            answer = client.send("ListOffsets", 6, {"replicaId": -1, "isolationLevel": 0, "topics": [{"name": topic, "partitions": [
                {"partitionIndex": i, "currentLeaderEpoch": -1, "timestamp": -1} for i in range(partitions)]}]})
        return {(topic, p["partitionIndex"]): p["offset"] for p in answer["topics"][0]["partitions"]}

    def catch_up(self, bench, source, name, partitions):
        topic = source.create_topic(partitions)
        size = bench.bytes(2000)
        bench.tool("produce", server=source.bootstrap, topic=topic, partitions=partitions, connections=min(4, partitions), bytes=size)
        ends = self.ends(source, topic, partitions)
        ours, plain = [], []
        for _ in range(bench.rounds):
            destination = self.destination(bench)
            try:
                mirror = Mirror(destination).create(source.bootstrap)
                before, start = destination.cpu_s(), time.monotonic()
                mirror.start(topic)
                self.await_copy(mirror, ends)
                seconds = time.monotonic() - start
                ours.append({"mb_s": size / 1e6 / seconds, "cpu": (destination.cpu_s() - before) / (size / GB), "mb": destination.peak_mb()})
            finally:
                destination.kill()
                destination.wipe()
            plain.append(bench.tool("fetch-file", server=source.bootstrap, topic=topic, partitions=partitions, file=bench.path("fetched")))
        source.delete_topic(topic)
        speed, yard = median([r["mb_s"] for r in ours]), median([r["mb_s"] for r in plain])
        cpu, yard_cpu = median([r["cpu"] for r in ours]), median([r["own_cpu_s_gb"] for r in plain])
        bench.add(name, unit="MB/s", kagami=speed, yardstick=yard, ratio=ratio(speed, yard), aim=0.8, cpu=cpu, yard_cpu=yard_cpu,
                  cpu_ratio=ratio(yard_cpu, cpu), mb=median([r["mb"] for r in ours]))

    def lag(self, bench, source, name, rate):
        results = []
        for _ in range(bench.rounds):
            topic = source.create_topic()
            destination = self.destination(bench)
            try:
                mirror = Mirror(destination).create(source.bootstrap)
                mirror.start(topic)
                mirror.wait_state("MIRRORING", topic)
                results.append(bench.tool("lag", server=source.bootstrap, read_server=destination.bootstrap, topic=topic, rate=rate, warm_seconds=2,
                                          seconds=max(int(5 * bench.scale), 2), pid=destination.pid()))
                results[-1].update({f"source_{k}": v for k, v in bench.tool("lag", server=source.bootstrap, topic=source.create_topic(), rate=rate,
                                                                            seconds=2).items()})
            finally:
                destination.kill()
                destination.wipe()
        for point, aim in (("p50", 1), ("p99", 3)):
            value, direct = (median([r[f"{side}behind_ack_{point}_ms"] for r in results]) for side in ("", "source_"))
            bench.add(f"{name} behind the ack, {point}; a reader", unit="ms", kagami=value, yardstick=direct, aim=aim,
                      cpu=median([r["cpu_s"] for r in results]) if point == "p50" else None)

    def stop(self, bench, source, name, partitions):
        topic = source.create_topic(partitions)
        bench.tool("produce", server=source.bootstrap, topic=topic, partitions=partitions, records=10, bytes=partitions * 20000)
        ends = self.ends(source, topic, partitions)
        times = []
        for _ in range(bench.rounds):
            destination = self.destination(bench)
            try:
                mirror = Mirror(destination).create(source.bootstrap)
                mirror.start(topic)
                self.await_copy(mirror, ends)
                if partitions == 1000 and not times:
                    before = destination.cpu_s()
                    time.sleep(5)
                    self.idle_cpu = destination.cpu_s() - before
                start = time.monotonic()
                mirror.stop(topic)
                times.append(time.monotonic() - start)
            finally:
                destination.kill()
                destination.wipe()
        bench.add(name, unit="s", kagami=median(times), aim=1 if partitions == 1000 else None)
        if partitions == 1000:
            bench.add(self.IDLE, unit="s", kagami=self.idle_cpu)

    def run(self, bench):
        folder = bench.path("mirror-source")
        source = Kagami(folder, bench.build, {"flush.acks.all": "false"}) if bench.kafka_missing else Kafka(folder)
        try:
            source.start()
            Group("mirror", []).warm(bench, source)
            for row in self.rows:
                if row.name in self.CATCH_UP:
                    self.catch_up(bench, source, row.name, self.CATCH_UP[row.name])
                elif row.name in self.LAG:
                    self.lag(bench, source, row.name, self.LAG[row.name])
                elif row.name in self.STOP:
                    self.stop(bench, source, row.name, self.STOP[row.name])
        finally:
            source.kill()
            source.wipe()


GROUPS = [Machine(), CACHE, DURABLE, Footprint(), Mirroring()]


def choose(words):
    """The groups with only the rows whose names (or whose group's name) begin with one of the words."""
    if words is None:
        return GROUPS
    chosen = []
    for group in GROUPS:
        keep = [r for r in group.rows if any(w == group.name or r.name.startswith(w) for w in words)]
        if keep:
            group.rows = keep
            chosen.append(group)
    if not chosen:
        raise SystemExit(f"no row begins with {', '.join(words)}; --list shows them")
    return chosen
