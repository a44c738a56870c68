"""Rows about writing and reading, and what the machine can do without a broker."""
from work import OURS, Line, Work, both, on


def generator(result):
    """The load generator's own cost, which must stay small beside what it measures."""
    result["generator_s_gb"] = result.get("own_cpu_s_gb")
    return result


def produce(mb=300, partitions=1, **options):
    def run(bench, side):
        topic = side.create_topic(partitions)
        result = bench.tool("produce", server=side.bootstrap, topic=topic, partitions=partitions, pid=side.pid(), bytes=bench.bytes(mb),
                            warm_bytes=bench.bytes(mb / 5), **options)
        side.delete_topic(topic)
        return generator(result)
    return run


def produce_seconds(partitions=1, flush=False, **options):
    """flush: the real Kafka flushes every message, which Kagami does for acks=all without being told."""
    def run(bench, side):
        topic = side.create_topic(partitions, {"flush.messages": 1} if flush and side.name == "kafka" else None)
        result = bench.tool("produce", server=side.bootstrap, topic=topic, partitions=partitions, pid=side.pid(), seconds=2, **options)
        side.delete_topic(topic)
        return result
    return run


class Filled:
    """A topic that is written once a broker and read in every round."""

    def __init__(self, mb, partitions=1, **options):
        self.mb, self.partitions, self.options, self.topics = mb, partitions, options, {}

    def topic(self, bench, side):
        if side not in self.topics:
            self.topics[side] = side.create_topic(self.partitions)
            if self.mb:
                bench.tool("produce", server=side.bootstrap, topic=self.topics[side], partitions=self.partitions, bytes=bench.bytes(self.mb), **self.options)
        return self.topics[side]


def consume(filled, mb=0, requests=0, cold=False, **options):
    def run(bench, side):
        topic = filled.topic(bench, side)
        amount = {"requests": max(int(requests * bench.scale), 100)} if requests else {"once": 1} if cold else {"bytes": bench.bytes(mb)}
        if cold:
            side.drop_cache(topic)
        result = bench.tool("consume", server=side.bootstrap, topic=topic, partitions=filled.partitions, pid=side.pid(), **amount, **options)
        return result if requests else generator(result)
    return run


def latency(rate, **options):
    def run(bench, side):
        topic = side.create_topic()
        result = bench.tool("lag", server=side.bootstrap, topic=topic, rate=rate, pid=side.pid(), seconds=max(int(5 * bench.scale), 2), **options)
        side.delete_topic(topic)
        return result
    return run


def session(partitions):
    """One partition that changes, beside so many idle ones in the reader's session."""
    def run(bench, side):
        idle = {"idle_topic": IDLE.topic(bench, side), "idle_partitions": partitions} if partitions else {}
        return latency(2000, **idle)(bench, side)
    return run


def loop(mb, file_mb=200, **options):
    def side(bench):
        size = {"file_bytes": bench.bytes(file_mb)} if options.get("cold") else {"file_bytes": bench.bytes(file_mb), "bytes": bench.bytes(mb)}
        return bench.tool("sendfile", file=bench.path("sendfile"), **size, **options)
    return side


def disk(nbytes):
    return lambda bench: bench.tool("disk", file=bench.path("disk"), seconds=2, bytes=nbytes)


SMALL = Filled(200)
WIDE = Filled(300, partitions=1000, connections=4, records=10)
COLD = Filled(1000, partitions=16, connections=4)
IDLE = Filled(0, partitions=1000)
LOOP = "sendfile loop"
CACHE = ("cache", "kafka")


def writing(name, run, **options):
    return Work([Line(name, aim=1.3, cpu_aim=2, **options)], both(run), needs=CACHE)


def small_requests(name, run):
    return Work([Line(name, key="requests_s", unit="req/s", aim=3, cpu_aim=3)], both(run), needs=CACHE)


def reading(name, run, bare):
    return Work([Line(name, aim=1), Line(name, against=LOOP, aim=0.9)], {**both(run), LOOP: bare}, needs=CACHE)


def points(name, run):
    return Work([Line(f"{name}, {label}", key=f"seen_{point}_ms", unit="ms", less=True, aim=2, cpu_key="cpu_s_gb" if point == "p50" else None)
                 for label, point in (("p50", "p50"), ("p99", "p99"), ("p99.9", "p999"))], both(run), needs=CACHE)


def durable(name, partitions=1, **options):
    return Work([Line(name, aim=4)], both(produce_seconds(partitions=partitions, flush=True, records=16, acks=-1, **options), "durable"),
                needs=("durable", "kafka"))


def durable_writers(count):
    """Beside the disk too: it appends what one round of all writers brings and syncs."""
    name = f"acks=all with fdatasync, 16 kB, {count} writer{'s' if count > 1 else ''}"
    run = produce_seconds(flush=True, records=16, acks=-1, connections=count, in_flight=1)
    return Work([Line(name, aim=4), Line(name, against="the disk", aim=0.7, cpu_key=None)],
                {**both(run, "durable"), "the disk": disk(16384 * count)}, needs=("durable", "kafka"))


ONE_KB = {"partitions": 12, "connections": 16}
HUNDRED_B = {"record_bytes": 100, "records": 1000}
BIG = {"max_bytes": 52428800, "partition_bytes": 10485760}

PRODUCE = [
    writing("produce 1 kB acks=1, 1 connection", produce()),
    writing("produce 1 kB acks=1, 12 partitions, 16 connections", produce(**ONE_KB)),
    writing("produce 1 kB acks=1, 16 kB batches, 12 partitions, 16 connections", produce(records=16, **ONE_KB)),
    writing("produce 1 kB acks=1, 1,000 partitions, 16 connections", produce(records=10, partitions=1000, batches=20, connections=16)),
    writing("produce 1 kB acks=all from page cache, 1 connection", produce(acks=-1)),
    writing("produce 1 kB acks=all from page cache, 12 partitions, 16 connections", produce(acks=-1, **ONE_KB)),
    writing("produce 1 kB idempotent acks=all from page cache, 1 connection", produce(acks=-1, idempotent=1)),
    writing("produce 1 kB idempotent acks=all from page cache, 12 partitions, 16 connections", produce(acks=-1, idempotent=1, **ONE_KB)),
    writing("produce 100 B acks=1, 1 connection", produce(**HUNDRED_B)),
    writing("produce 100 B acks=1, 12 partitions, 16 connections", produce(**HUNDRED_B, **ONE_KB)),
    writing("produce 1 kB lz4 acks=1, 1 connection", produce(200, codec="lz4")),
    writing("produce 1 kB lz4 acks=1, 12 partitions, 16 connections", produce(200, codec="lz4", **ONE_KB)),
    writing("produce 1 kB zstd acks=1, 1 connection", produce(200, codec="zstd")),
    writing("produce 1 kB zstd acks=1, 12 partitions, 16 connections", produce(200, codec="zstd", **ONE_KB)),
    small_requests("one 1 kB record a request, 1 connection", produce_seconds(records=1)),
    small_requests("one 1 kB record a request, 12 partitions, 16 connections", produce_seconds(records=1, **ONE_KB)),
]

CONSUME = [
    reading("consume, 1 connection", consume(SMALL, 3000, **BIG), loop(3000)),
    reading("consume, 16 connections", consume(SMALL, 3000, connections=16, **BIG), loop(3000, connections=16)),
    reading("consume, 1,000 partitions, 16 connections", consume(WIDE, 1000, connections=16), loop(1000, 300, files=1000, connections=16)),
    reading("consume cold, 1 connection", consume(COLD, cold=True, **BIG), loop(1000, 1000, cold=1, files=16)),
    reading("consume cold, 16 connections", consume(COLD, cold=True, connections=16, **BIG), loop(1000, 1000, cold=1, files=16, connections=16)),
    small_requests("consume, small fetches (one batch of 100 kB)", consume(SMALL, requests=20000, partition_bytes=1)),
    small_requests("fetch of 1,000 idle partitions in a session", consume(IDLE, requests=2000, end=1, wait_ms=0)),
]

LATENCY = [
    points("produce to consume, 1,000/s", latency(1000)),
    points("produce to consume, 20 MB/s, 10 records a request", latency(20000, records=10)),
]

DURABLE = [
    *(durable_writers(count) for count in (1, 4, 16, 64)),
    durable("acks=all with fdatasync, 16 kB, 1 writer, 5 in flight"),
    durable("acks=all with fdatasync, 16 kB, idempotent, 5 in flight", idempotent=1),
    durable("acks=all with fdatasync, 16 kB, 12 partitions, 16 writers", partitions=12, connections=16),
]

# What costs must not grow with: "alone" is Kagami itself without what is idle. 0.87 is within what single rounds differ by.
ALONE = "Kagami alone"
UNTOUCHED = [
    Work([Line("append, one record a request, beside 5,000 idle partitions", against=ALONE, key="requests_s", unit="req/s", aim=0.87, cpu_aim=0.87)],
         {OURS: on("crowded", produce_seconds(records=1)), ALONE: on("cache", produce_seconds(records=1))}, needs=("crowded", "cache")),
    Work([Line("append, 100 kB batches, beside 5,000 idle partitions", against=ALONE, aim=0.87, cpu_aim=0.87)],
         {OURS: on("crowded", produce()), ALONE: on("cache", produce())}, needs=("crowded", "cache")),
    Work([Line(f"fetch of what changes beside 1,000 idle partitions, CPU a record{more}", against=against, key="cpu_us_record", unit="us", less=True, aim=aim)
          for more, against, aim in (("", ALONE, 0.87), ("", "Kafka", 3))],
         {**both(session(1000)), ALONE: on("cache", session(0))}, needs=CACHE),
]

MACHINE = [
    Work([Line("the disk: append 16 kB and fdatasync", against="the disk", key="syncs_s", unit="sync/s", cpu_key=None)], {"the disk": disk(16384)}),
]
