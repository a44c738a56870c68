"""Rows about memory, starting, many partitions, and what is left after kill -9. Each round has brokers of its own, in new folders."""
import time

from systems import Kafka, Kagami
from work import OURS, Line, Work


class Fresh(Work):
    """A broker on an empty folder a round."""
    SETTINGS = {}

    def sides(self, bench):
        sides = {OURS: lambda b: self.fresh(b, Kagami(b.path("fresh-kagami"), b.build, self.SETTINGS))}
        if not bench.kafka_missing:
            sides["Kafka"] = lambda b: self.fresh(b, Kafka(b.path("fresh-kafka"), self.SETTINGS))
        return sides

    def fresh(self, bench, side):
        side.prepare()
        try:
            return self.one(bench, side)
        finally:
            side.remove()

    def one(self, bench, side):
        raise NotImplementedError

    @staticmethod
    def first_write(bench, side, topic=None):
        """Seconds from the start of the process to the first acknowledged record, and the CPU until then."""
        start = time.monotonic()
        side.start()
        if topic is None:
            topic = side.create_topic()
        else:
            side.wait_ready(topic, timeout=900) # Kafka's listener is up before its logs are
        bench.tool("produce", server=side.bootstrap, topic=topic, records=1, bytes=1000, in_flight=1)
        return time.monotonic() - start, side.cpu_s()


def beside_kafka(name, key, unit="s", cpu_key=None, aim=10):
    return Line(name, key=key, unit=unit, less=True, aim=aim, cpu_key=cpu_key)


class Starts(Fresh):
    def __init__(self):
        super().__init__([beside_kafka("idle memory", "idle_mb", "MB"),
                          *(beside_kafka(f"start to first write, {n:,} partitions", f"start_{n}_s", cpu_key=f"start_{n}_cpu_s") for n in (0, 100, 2000))],
                         limit_s=240)

    def one(self, bench, side):
        result = {}
        result["start_0_s"], result["start_0_cpu_s"] = self.first_write(bench, side)
        time.sleep(2)
        result["idle_mb"] = side.rss_mb()
        there = 0
        for partitions in (100, 2000):
            topic = side.create_topic(bench.partitions(partitions) - there, timeout=900)
            there = bench.partitions(partitions)
            side.stop()
            result[f"start_{partitions}_s"], result[f"start_{partitions}_cpu_s"] = self.first_write(bench, side, topic)
        return result


class Many(Fresh):
    PARTITIONS, IDLE_SECONDS = 5000, 5

    def __init__(self):
        super().__init__([beside_kafka("creating 5,000 partitions", "create_s", cpu_key="create_cpu_s"),
                          beside_kafka("memory with 5,000 partitions", "rss_mb", "MB"),
                          beside_kafka("CPU of 5,000 idle partitions, a second", "idle_ms_s", "ms", aim=None)], limit_s=300)

    def one(self, bench, side):
        side.start()
        start, before = time.monotonic(), side.cpu_s()
        side.create_topic(bench.partitions(self.PARTITIONS), timeout=900)
        result = {"create_s": time.monotonic() - start, "create_cpu_s": side.cpu_s() - before}
        time.sleep(1)
        before = side.cpu_s()
        time.sleep(self.IDLE_SECONDS)
        result.update(idle_ms_s=(side.cpu_s() - before) * 1000 / self.IDLE_SECONDS, rss_mb=side.rss_mb(), mb=side.peak_mb())
        return result


class Killed(Fresh):
    """Nothing was flushed and no checkpoint written when it died: all of the log is looked through again. It is still in the page cache."""
    SETTINGS = {"flush.acks.all": "false", "log.flush.offset.checkpoint.interval.ms": "3600000"}
    MB, PARTITIONS = 2000, 4

    def __init__(self):
        super().__init__([beside_kafka("start to first write after kill -9 with 2 GB of log", "start_s", cpu_key="start_cpu_s")], limit_s=180)

    def one(self, bench, side):
        side.start()
        topic = side.create_topic(self.PARTITIONS)
        bench.tool("produce", server=side.bootstrap, topic=topic, partitions=self.PARTITIONS, connections=4, bytes=bench.bytes(self.MB))
        side.kill()
        result = {}
        result["start_s"], result["start_cpu_s"] = self.first_write(bench, side, topic)
        result["mb"] = side.peak_mb()
        return result


class Connections(Fresh):
    def __init__(self):
        super().__init__([beside_kafka("an idle connection (opened)", "opened_kb", "kB", aim=None),
                          beside_kafka("an idle connection (has written 100 kB)", "used_kb", "kB", aim=None)])

    def one(self, bench, side):
        side.start()
        found = bench.tool("connections", server=side.bootstrap, topic=side.create_topic(), count=1000, records=100, record_bytes=1000, pid=side.pid())
        return {"opened_kb": found["bytes_each_opened"] / 1000, "used_kb": found["bytes_each_used"] / 1000}


FOOTPRINT = [Starts(), Many(), Killed(), Connections()]
