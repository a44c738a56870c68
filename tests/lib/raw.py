"""Partitions as raw Fetch and ListOffsets answers show them, and the comparison of two brokers batch by batch."""
import struct

from wire import Client

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
FETCH_VERSION = 12 # the last one with topic names
LIST_OFFSETS_VERSION = 8
HEADER = struct.Struct(">qiibIhiqqqhii") # record batch v2, up to and with the record count
CONTROL, TRANSACTIONAL = 0x20, 0x10
ABORT, COMMIT, MIRROR_PID_RESET = 0, 1, 7


class RawError(Exception):
    def __init__(self, what, code):
        super().__init__(f"{what}: error {code}")
        self.code = code


class Batch:
    FIELDS = ("base_offset", "length", "leader_epoch", "magic", "crc", "attributes", "last_offset_delta", "base_timestamp", "max_timestamp",
              "producer_id", "producer_epoch", "base_sequence", "count")

    def __init__(self, data):
        self.data = bytes(data)
        for name, value in zip(self.FIELDS, HEADER.unpack_from(data)):
            setattr(self, name, value)

    @property
    def last_offset(self):
        return self.base_offset + self.last_offset_delta

    @property
    def is_control(self):
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self):
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def codec(self):
        return ("none", "gzip", "snappy", "lz4", "zstd")[self.attributes & 7]

    def control_type(self):
        """Type of a control batch's one record; None for data and for a batch without a record."""
        if not self.is_control or self.count == 0:
            return None
        at = HEADER.size

        def skip_varint(at):
            while self.data[at] & 0x80:
                at += 1
            return at + 1

        at = skip_varint(at) + 1 # the record's length, attributes
        for _ in range(3): # timestamp delta, offset delta, key length
            at = skip_varint(at)
        return struct.unpack_from(">hh", self.data, at)[1]

    def __repr__(self):
        return f"batch {self.base_offset}..{self.last_offset} ({self.codec}, {len(self.data)} bytes, epoch {self.leader_epoch}, producer {self.producer_id})"


def batches_of(records):
    """Whole batches of a Fetch answer's records; a cut one at the end is left out, as a client does."""
    found, at = [], 0
    while records is not None and at + 12 <= len(records):
        size = 12 + struct.unpack_from(">i", records, at + 8)[0]
        if at + size > len(records):
            break
        found.append(Batch(records[at:at + size]))
        at += size
    return found


def fetch(client, topic, partition, offset, isolation=READ_UNCOMMITTED, partition_max_bytes=8 << 20, max_wait_ms=100, leader_epoch=-1):
    """One Fetch of one partition: the answer's fields of that partition, error code checked."""
    answer = client.send("Fetch", FETCH_VERSION, {
        "replicaId": -1, "maxWaitMs": max_wait_ms, "minBytes": 1, "maxBytes": 64 << 20, "isolationLevel": isolation, "sessionId": 0, "sessionEpoch": -1,
        "topics": [{"topic": topic, "partitions": [{"partition": partition, "currentLeaderEpoch": leader_epoch, "fetchOffset": offset,
                                                    "lastFetchedEpoch": -1, "logStartOffset": -1, "partitionMaxBytes": partition_max_bytes}]}],
        "forgottenTopicsData": [], "rackId": ""})
    if answer["errorCode"]:
        raise RawError(f"Fetch {topic}-{partition}", answer["errorCode"])
    found = answer["responses"][0]["partitions"][0]
    if found["errorCode"]:
        raise RawError(f"Fetch {topic}-{partition} at {offset}", found["errorCode"])
    return found


def list_offset(client, topic, partition, timestamp, isolation=READ_UNCOMMITTED):
    """(offset, timestamp, leader epoch) of one ListOffsets."""
    answer = client.send("ListOffsets", LIST_OFFSETS_VERSION, {
        "replicaId": -1, "isolationLevel": isolation,
        "topics": [{"name": topic, "partitions": [{"partitionIndex": partition, "currentLeaderEpoch": -1, "timestamp": timestamp}]}]})
    found = answer["topics"][0]["partitions"][0]
    if found["errorCode"]:
        raise RawError(f"ListOffsets {topic}-{partition} at {timestamp}", found["errorCode"])
    return found["offset"], found["timestamp"], found["leaderEpoch"]


class Partition:
    """All of one partition: log start, high watermark, last stable offset, and every batch."""

    def __init__(self, bootstrap, topic, partition=0):
        self.bootstrap, self.topic, self.partition = bootstrap, topic, partition
        self.name = f"{topic}-{partition} at {bootstrap}"
        self.batches = []
        with Client(bootstrap, timeout_s=120) as client:
            self.log_start = list_offset(client, topic, partition, -2)[0]
            offset = self.log_start
            while True:
                found = fetch(client, topic, partition, offset)
                self.high_watermark, self.last_stable_offset = found["highWatermark"], found["lastStableOffset"]
                batches = batches_of(found["records"])
                if not batches:
                    if offset < self.high_watermark:
                        raise RawError(f"{self.name}: a fetch at {offset} below the high watermark {self.high_watermark} brought no batch", 0)
                    break
                self.batches += batches
                offset = batches[-1].last_offset + 1

    def aborted_of_batches(self):
        """For each batch: the aborted transactions that a read_committed fetch of it names and that reach into it, as {base offset: [(pid, first offset)]}.

        The first offset is that of the transaction's first batch that is there: compaction may have removed the one that it began with, and a copy
        cannot know of it. An answer may also name transactions beyond the batch, by how far an index let it look: these are left out."""
        markers, data = {}, {}
        for batch in self.batches:
            if batch.control_type() == ABORT:
                markers.setdefault(batch.producer_id, []).append(batch.base_offset)
            elif not batch.is_control:
                data.setdefault(batch.producer_id, []).append(batch.base_offset)

        def stands(pid, first_offset):
            end = next((m for m in markers.get(pid, []) if m >= first_offset), -1)
            return next(((pid, at, end) for at in data.get(pid, []) if first_offset <= at < end), None)

        lists = {}
        with Client(self.bootstrap, timeout_s=120) as client:
            for batch in self.batches:
                if batch.last_offset >= self.last_stable_offset:
                    break
                at = max(batch.base_offset, self.log_start)
                found = fetch(client, self.topic, self.partition, at, READ_COMMITTED, partition_max_bytes=1)
                standing = [stands(a["producerId"], a["firstOffset"]) for a in found["abortedTransactions"] or []]
                lists[batch.base_offset] = sorted((t[0], t[1]) for t in standing if t and t[1] <= batch.last_offset and t[2] >= at)
        return lists


def difference_of_batches(a, b):
    if a.data == b.data:
        return None
    fields = [f"{name} {getattr(a, name)} / {getattr(b, name)}" for name in Batch.FIELDS if getattr(a, name) != getattr(b, name)]
    return ", ".join(fields) or "the records' bytes"


def differences(source, destination, prefix=False):
    """What differs between two Partitions, as sentences; [] when they are equal. prefix: the destination may lack the source's end."""
    found = []
    names = ["log_start"] if prefix else ["log_start", "high_watermark", "last_stable_offset"]
    for name in names:
        if getattr(source, name) != getattr(destination, name):
            found.append(f"{name}: {getattr(source, name)} at the source, {getattr(destination, name)} at the destination")
    for a, b in zip(source.batches, destination.batches):
        what = difference_of_batches(a, b)
        if what:
            found.append(f"{a!r} at the source, {b!r} at the destination: {what}")
            break
    if len(source.batches) < len(destination.batches) or (not prefix and len(source.batches) > len(destination.batches)):
        found.append(f"{len(source.batches)} batches at the source, {len(destination.batches)} at the destination")
    return found


def differences_of_list_offsets(source, destination):
    """ListOffsets of both sides, by place and by every time that a batch begins or ends with (and one before and behind)."""
    times = {-1, -2, -3, -4}
    for batch in source.batches:
        for stamp in (batch.base_timestamp, batch.max_timestamp):
            times |= {max(stamp - 1, 0), stamp, stamp + 1}
    found = []
    with Client(source.bootstrap, timeout_s=120) as one, Client(destination.bootstrap, timeout_s=120) as other:
        for timestamp in sorted(times):
            for isolation in (READ_UNCOMMITTED, READ_COMMITTED):
                answers = [list_offset(c, source.topic, source.partition, timestamp, isolation) for c in (one, other)]
                if timestamp in (-1, -2, -4): # the epoch in these is the leader's current one, which is each cluster's own
                    answers = [a[:2] for a in answers]
                if answers[0] != answers[1]:
                    found.append(f"ListOffsets {timestamp} (isolation {isolation}): {answers[0]} at the source, {answers[1]} at the destination")
    return found
