"""Fills a real Kafka with everything that a log can hold: the source of the byte-equality tests and of the demo of formats."""
import os
import random
import time

from peers import create_topic, record
from raw import Partition
from waiting import wait_until

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
BIG_BYTES = 20 << 20
FOREVER = {"retention.ms": -1}


class Source:
    """topics: kind -> name, each with one partition unless its builder says otherwise. One builder method a kind."""

    def __init__(self, kafka, peers, prefix, folder):
        self.bootstrap = kafka.bootstrap
        self.peers, self.prefix, self.folder = peers, prefix, folder
        self.topics = {}
        self.partitions = {}

    def build(self, *kinds):
        for kind in kinds:
            getattr(self, "build_" + kind.replace("-", "_"))(kind)
        return self

    def new_topic(self, kind, partitions=1, **configs):
        self.topics[kind] = f"{self.prefix}.{kind}"
        self.partitions[kind] = partitions
        settings = {**FOREVER, **{name.replace("_", "."): value for name, value in configs.items()}}
        create_topic(self.peers("librdkafka"), self.bootstrap, self.topics[kind], partitions, settings)
        return self.topics[kind]

    def write_varied(self, topic, partition=0, count=40, with_time=True):
        """Each codec by each of three clients, idempotent, with headers, null keys and values."""
        now = int(time.time() * 1000) - 3_600_000
        for name in ("java", "librdkafka", "franz-go"):
            try:
                peer = self.peers(name)
            except BaseException as e: # pytest's skip: this machine has no such client; the others do
                if type(e).__name__ != "Skipped":
                    raise
                continue
            for codec in CODECS:
                rng = random.Random(f"{name} {codec}")
                made = []
                for i in range(count):
                    stamp = {"timestamp": now + rng.randrange(3_000_000)} if with_time else {}
                    made.append(record(key=None if i % 5 == 0 else f"{name}-{i}".encode(),
                                       value=None if i % 7 == 3 else rng.choice([b"a" * 500, rng.randbytes(300), b""]),
                                       headers=[("h", b"1"), ("h", None), ("", b"")][:i % 4], **stamp))
                with peer.producer(self.bootstrap, compression=codec, linger_ms=20) as producer:
                    for start in range(0, count, 10):
                        producer.send(topic, made[start:start + 10], partition)

    def build_codecs(self, kind):
        """CreateTime, two partitions."""
        topic = self.new_topic(kind, partitions=2)
        for partition in range(2):
            self.write_varied(topic, partition, count=20)

    def build_append_time(self, kind):
        topic = self.new_topic(kind, message_timestamp_type="LogAppendTime")
        self.write_varied(topic, with_time=False, count=20)

    def write_transactions(self, topic, rounds=4, keys=None):
        """Two transactional producers interleaved with each other and with one without transactions; every second transaction aborted."""
        key = (lambda i: f"key-{i % keys}") if keys else (lambda i: None)
        java, rd = self.peers("java"), self.peers("librdkafka")
        with java.producer(self.bootstrap, transactional_id=topic + ".a", compression="lz4") as a, \
                rd.producer(self.bootstrap, transactional_id=topic + ".b") as b, rd.producer(self.bootstrap) as plain:
            for i in range(rounds):
                a.begin()
                b.begin()
                for j in range(3):
                    a.send(topic, [record(key=key(i * 10 + j), value=b"a %d %d" % (i, j))])
                    b.send(topic, [record(key=key(i * 10 + j + 3), value=b"b %d %d" % (i, j))])
                    plain.send(topic, [record(key=key(i * 10 + j + 6), value=b"plain %d %d" % (i, j))])
                (a.commit if i % 2 == 0 else a.abort)()
                b.send(topic, [record(key=key(i), value=b"b late %d" % i)])
                (b.abort if i % 3 != 1 else b.commit)()

    def build_transactions(self, kind):
        self.write_transactions(self.new_topic(kind), rounds=5)

    def build_open_transaction(self, kind):
        """A transaction stays open, and records stand behind it: the last stable offset is below the high watermark."""
        topic = self.new_topic(kind)
        self.write_transactions(topic, rounds=1)
        self.open_producer = self.peers("java").producer(self.bootstrap, transactional_id=topic + ".open")
        self.open_producer.begin()
        self.open_producer.send(topic, [b"open 1", b"open 2"])
        with self.peers("librdkafka").producer(self.bootstrap) as plain:
            plain.send(topic, [b"behind 1", b"behind 2"])

    def build_compacted(self, kind):
        """Gaps between batches, batches with fewer records than their range, and a batch without a record that is kept for its producer."""
        topic = self.new_topic(kind, cleanup_policy="compact", segment_bytes=1 << 20, min_cleanable_dirty_ratio=0.001, segment_ms=600_000,
                               max_compaction_lag_ms=2_000, delete_retention_ms=86_400_000)
        rng = random.Random(7)
        self.write_transactions(topic, rounds=3, keys=8)
        with self.peers("librdkafka").producer(self.bootstrap, linger_ms=20) as producer:
            for i in range(30):
                producer.send(topic, [record(key=b"key-%d" % rng.randrange(12 if j % 4 else 400), value=rng.randbytes(1500)) for j in range(60)])
        with self.peers("java").producer(self.bootstrap, compression="zstd") as producer:
            producer.send(topic, [record(key=b"key-%d" % (i % 50), value=None if i % 9 == 0 else b"end %d" % i) for i in range(100)])
            producer.send(topic, [record(key=b"fill", value=rng.randbytes(600_000)), record(key=b"fill", value=rng.randbytes(600_000))][:1])
            producer.send(topic, [record(key=b"fill", value=rng.randbytes(600_000))])

        def compacted():
            batches = Partition(self.bootstrap, topic).batches
            holes = any(b.base_offset > a.last_offset + 1 for a, b in zip(batches, batches[1:]))
            return holes and any(0 < b.count < b.last_offset_delta + 1 for b in batches)
        wait_until(compacted, 60, f"{topic} was not compacted", pause=1)
        # From here on the log must stand still, or the copy of it would rightly differ.
        self.peers("librdkafka").admin("alter_configs", self.bootstrap, topic=topic, configs={"cleanup.policy": "delete"})
        seen = []

        def still():
            seen.append([b.data for b in Partition(self.bootstrap, topic).batches])
            return len(seen) > 2 and seen[-1] == seen[-2] == seen[-3]
        wait_until(still, 60, f"{topic} is compacted on and on", pause=1)

    def build_log_start(self, kind):
        """The log starts inside a batch."""
        topic = self.new_topic(kind)
        with self.peers("librdkafka").producer(self.bootstrap, linger_ms=200, compression="zstd") as producer:
            producer.send(topic, [b"%d" % i for i in range(50)])
            producer.send(topic, [b"%d" % i for i in range(50, 100)])
        self.peers("librdkafka").admin("delete_records", self.bootstrap, topic=topic, before=30)
        first = Partition(self.bootstrap, topic)
        assert first.log_start == 30 and first.batches[0].base_offset < 30 <= first.batches[0].last_offset, "the log start is not inside a batch"

    def build_big(self, kind):
        """A record of 20 MB between small ones."""
        topic = self.new_topic(kind, max_message_bytes=BIG_BYTES + (1 << 20))
        path = os.path.join(self.folder, "big-value")
        with open(path, "wb") as f:
            f.write(random.Random(20).randbytes(BIG_BYTES))
        with self.peers("java").producer(self.bootstrap, max_request_bytes=BIG_BYTES + (1 << 19)) as producer:
            producer.send(topic, [b"before"])
            producer.send(topic, [record(key=b"big", value_file=path)])
            producer.send(topic, [b"after"])

    def build_segments(self, kind):
        """Several segments of one MiB."""
        topic = self.new_topic(kind, segment_bytes=1 << 20)
        rng = random.Random(3)
        with self.peers("librdkafka").producer(self.bootstrap, linger_ms=5) as producer:
            for _ in range(40):
                producer.send(topic, [rng.randbytes(5000) for _ in range(20)])


KINDS = ["codecs", "append-time", "transactions", "open-transaction", "compacted", "log-start", "big", "segments"]
