"""The books: what producers were told, what a log holds byte by byte, what a consumer was given; and their comparison."""
import collections
import os
import struct

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from marks import KEY, key_of, named, value_of
from raw import CONTROL, HEADER, RawError, fetch, list_offset
from waiting import seconds, wait_until
from wire import Client

ACK = struct.Struct(">iiqq")
Header = collections.namedtuple("Header", "at base pid epoch sequence count control") # at: byte in the log


class Broken(AssertionError):
    """A promise that was not kept."""


class RawLog:
    """The bytes of one partition as Fetch gives them. Each reading begins at the log's start and must find all that was there before, unchanged, and whole batches without
    a gap behind it: nothing that was visible once may change or go."""

    def __init__(self, topic, partition):
        self.topic, self.partition = topic, partition
        self.name = f"{topic}-{partition}"
        self.data, self.end = bytearray(), 0
        self.headers = []

    def read(self, bootstrap):
        with Client(bootstrap, timeout_s=seconds(60)) as client:
            start = list_offset(client, self.topic, self.partition, -2)[0]
            if start != 0:
                raise Broken(f"{self.name} begins at {start}")
            at = offset = 0
            while True:
                found = fetch(client, self.topic, self.partition, offset, max_wait_ms=0)
                used, offset = self._take(found["records"] or b"", at, offset)
                if used == 0:
                    break
                at += used
        self.end = offset
        if at != len(self.data) or found["highWatermark"] != offset:
            raise Broken(f"{self.name} ends at {offset} ({at} bytes), high watermark {found['highWatermark']}; {len(self.data)} bytes were there before")
        return self

    def _take(self, records, at, offset):
        """Records of one answer, which stand at byte `at`. Returns how many bytes are whole batches, and the next offset."""
        used = 0
        while used + HEADER.size <= len(records):
            base, length, _, _, _, attributes, delta, _, _, pid, epoch, sequence, count = HEADER.unpack_from(records, used)
            if used + 12 + length > len(records):
                break
            if base != offset:
                raise Broken(f"{self.name}: a batch at offset {base} where {offset} should be")
            if at + used >= len(self.data):
                self.headers.append(Header(at + used, base, pid, epoch, sequence, count, bool(attributes & CONTROL)))
            offset = base + delta + 1
            used += 12 + length
        known = min(max(len(self.data) - at, 0), used)
        if records[:known] != self.data[at:at + known]:
            raise Broken(f"{self.name}: what stood before offset {offset} is not what it was")
        self.data += records[known:used]
        return used, offset


class Reader:
    """A librdkafka consumer that lives as long as the test, over all restarts of the broker: it must be given every record once."""

    def __init__(self, bootstrap, topic, partitions, isolation="read_uncommitted"):
        self._consumer = Consumer({
            "bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "error",
            "isolation.level": isolation, "fetch.wait.max.ms": 100, "fetch.error.backoff.ms": 20, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200,
            "log_level": 0})
        self._consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
        self._end = [0] * partitions

    def read_to(self, ends):
        """Yields (partition, offset, key, value) until every partition's end is reached: ends are positions, behind control records too."""
        seen = list(self._end)

        def behind():
            return [p for p, end in enumerate(ends) if seen[p] < end]
        found = []

        def some():
            for m in self._consumer.consume(2000, 0.1):
                error = m.error()
                if error is None:
                    seen[m.partition()] = m.offset() + 1
                    found.append((m.partition(), m.offset(), m.key(), m.value()))
                elif error.code() == KafkaError._PARTITION_EOF:
                    seen[m.partition()] = max(seen[m.partition()], m.offset())
                elif error.fatal() or error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION, KafkaError.OFFSET_OUT_OF_RANGE):
                    raise KafkaException(error)
            return not behind()
        wait_until(some, 60, lambda: f"the consumer is at {seen} where {ends} are the ends", pause=0)
        self._end = seen
        return found

    def close(self):
        self._consumer.close()


class Ledger:
    """One topic: what its writers were told (their lists, FOLDER/*@TOPIC.acks) against what a consumer was given. once: writers that are idempotent and never give up, whose records
    stand in the log without one missing, doubled or out of order; the others' stand there at most once and in order. anew: behind these offsets (one a partition) records from before may come again."""

    def __init__(self, folder, topic, partitions, once=True, anew=None):
        self.folder, self.topic, self.partitions, self.once = folder, topic, partitions, once
        self.anew = anew or [1 << 62] * partitions
        self.keys = [{} for _ in range(partitions)] # offset -> key
        self.next = {} # (writer, generation, partition) -> number
        self.pending = [] # acknowledged, not yet found: (partition, offset, key)
        self.acknowledged = 0
        self._read = {} # list -> bytes

    def take_acks(self):
        """Reads on in the writers' lists. What is read here must be in a log that is looked at afterwards."""
        for name in sorted(os.listdir(self.folder)):
            if not name.endswith(f"@{self.topic}.acks"):
                continue
            with open(os.path.join(self.folder, name), "rb") as f:
                f.seek(self._read.get(name, 0))
                data = f.read()
            data = data[:len(data) - len(data) % ACK.size]
            self._read[name] = self._read.get(name, 0) + len(data)
            self.acknowledged += len(data) // ACK.size
            writer = int(name.split("@")[0])
            self.pending += [(partition, offset, key_of(writer, generation, partition, number))
                             for generation, partition, number, offset in ACK.iter_unpack(data)]
        return self

    def after(self, other):
        """Begins behind what the other has read of the lists."""
        self._read = dict(other._read) # pylint: disable=protected-access

    def saw(self, partition, offset, key, value):
        """The next record that a consumer was given of the partition."""
        where = f"{self.topic}-{partition} at {offset}"
        if key is None or len(key) != KEY.size:
            raise Broken(f"{where}: no record of ours: key {key!r}")
        writer, generation, of, number = KEY.unpack(key)
        if value != value_of(key):
            raise Broken(f"{where}: {named(key)} has another value")
        if of != partition:
            raise Broken(f"{where}: {named(key)}")
        if offset in self.keys[partition]:
            raise Broken(f"{where}: given twice")
        of_whom = (writer, generation, partition) if offset < self.anew[partition] else (writer, generation, partition, "anew")
        expected = self.next.get(of_whom, 0)
        if number < expected:
            raise Broken(f"{where}: {named(key)} is doubled or out of order: {expected} should follow")
        if number > expected and self.once:
            raise Broken(f"{where}: {named(key)}, but {expected} should follow: missing or out of order")
        self.next[of_whom] = number + 1
        self.keys[partition][offset] = key

    def settle(self):
        """Every acknowledged record stands at the offset that was told."""
        for partition, offset, key in self.pending:
            there = self.keys[partition].get(offset)
            if there != key:
                raise Broken(f"{self.topic}-{partition}: {named(key)} was acknowledged at {offset}, where {'nothing is' if there is None else 'stands ' + named(there)}")
        self.pending = []

    def complete(self, sent):
        """At the end, nothing outstanding. sent: (writer, generation, partition) -> how many records were handed to the client."""
        writers = {at[0] for at in sent}
        there = {at: n for at, n in self.next.items() if at[0] in writers}
        wrong = {at: (n, there.get(at, 0)) for at, n in {**dict.fromkeys(there, 0), **sent}.items() if n != there.get(at, 0)}
        if self.once and wrong:
            raise Broken(f"{self.topic}: (writer, producer, partition): (sent, in the log): {wrong}")

    def same(self, partition, records):
        """Another client's reading of the whole partition: (offset, key)."""
        if dict(records) != self.keys[partition] or len(records) != len(self.keys[partition]):
            raise Broken(f"{self.topic}-{partition}: another client finds {len(records)} records, {len(self.keys[partition])} were read before, or others")


def same_logs(source, destination, prefix=False):
    """RawLogs: the destination's is the source's, byte for byte, or the beginning of it."""
    ours, theirs = destination.data, source.data
    if (not prefix and len(ours) != len(theirs)) or not theirs.startswith(ours):
        at = next((i for i, (a, b) in enumerate(zip(theirs, ours)) if a != b), min(len(ours), len(theirs)))
        raise Broken(f"{source.name}: source {len(theirs)} bytes up to {source.end}, destination {len(ours)} bytes up to {destination.end}: differ at byte {at}")


def producers(bootstrap, topic, partition):
    """The producer state of a partition, as DescribeProducers shows it."""
    with Client(bootstrap, timeout_s=seconds(60)) as client:
        answer = client.send("DescribeProducers", 0, {"topics": [{"name": topic, "partitionIndexes": [partition]}]})
    found = answer["topics"][0]["partitions"][0]
    if found["errorCode"]:
        raise RawError(f"DescribeProducers {topic}-{partition}", found["errorCode"])
    return sorted(found["activeProducers"], key=lambda p: p["producerId"])
