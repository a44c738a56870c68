"""Hostile input on the wire and on disk, by table: it costs the sender its connection or gets the right error code, never memory and never the process; torn
and damaged files of every kind are mended at the start, and nothing acknowledged is lost."""
import os
import socket
import struct

import pytest

from batch import batch, produce_answer, seal
from peers import create_topic
from raw import FETCH_VERSION, Partition
from wire import Client, request_frame

MEMORY_BYTES = 512 << 20 # no request of this file may bring a daemon near this


@pytest.fixture(scope="module")
def daemon(shared_broker):
    return shared_broker


@pytest.fixture(scope="module")
def records(daemon, peers):
    create_topic(peers("librdkafka"), daemon.bootstrap, "steady")
    with peers("librdkafka").producer(daemon.bootstrap) as producer:
        producer.send("steady", [b"%d" % i for i in range(10)])
    return [b"%d" % i for i in range(10)]


def resident_bytes(daemon):
    if os.environ.get("KAGAMI_SANITIZE") or not hasattr(daemon, "process"):
        return 0
    with open(f"/proc/{daemon.process.pid}/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(autouse=True)
def goes_on(request):
    """After each test on the wire the daemon serves as before."""
    yield
    if "daemon" in request.fixturenames:
        daemon = request.getfixturevalue("daemon")
        assert daemon.running(), f"the daemon has ended:\n{daemon.log()[-3000:]}"
        assert resident_bytes(daemon) < MEMORY_BYTES
        with Client(daemon.bootstrap) as client:
            assert client.send("ApiVersions", 3, {"clientSoftwareName": "t", "clientSoftwareVersion": "1"})["errorCode"] == 0
        with Client(daemon.bootstrap) as client:
            assert client.send("Metadata", 12, {"topics": None})["clusterId"] == daemon.cluster_id


def head(key, version, correlation=1, client=b"\x00\x01x"):
    return struct.pack(">hhi", key, version, correlation) + client


def framed(data):
    return struct.pack(">i", len(data)) + data


VARINT_TOO_LONG = b"\xff" * 12
FRAMES = {
    "length negative": struct.pack(">i", -1),
    "length zero": struct.pack(">i", 0),
    "length of two gigabytes": struct.pack(">i", 0x7FFFFFFF) + b"x" * 100,
    "length just above the limit": struct.pack(">i", (100 << 20) + (1 << 21)) + b"x" * 100,
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS hello": bytes.fromhex("160301020001fc0303") + b"\0" * 600,
    "header cut": framed(b"\x00\x03\x00"),
    "unknown key": framed(head(999, 0)),
    "negative key": framed(head(-1, 0)),
    "version too high": framed(head(3, 99)),
    "version negative": framed(head(3, -1)),
    "client id longer than the frame": framed(head(3, 1, client=struct.pack(">h", 30000))),
    "client id of length -2": framed(head(3, 1, client=struct.pack(">h", -2))),
    "Metadata: body missing": framed(head(3, 1)),
    "Metadata: two billion topics": framed(head(3, 1) + struct.pack(">i", 0x7FFFFFFF)),
    "Metadata: array of -2": framed(head(3, 1) + struct.pack(">i", -2)),
    "Metadata: string beyond the frame": framed(head(3, 1) + struct.pack(">ih", 1, 32000) + b"abc"),
    "Metadata 12: compact array of four billion": framed(head(3, 12) + b"\0" + b"\xff\xff\xff\xff\x0f"),
    "Metadata 12: varint without end": framed(head(3, 12) + b"\0" + VARINT_TOO_LONG),
    "Metadata 12: header tags beyond the frame": framed(head(3, 12) + b"\x01\x00\xff\xff\xff\xff\x07"),
    "Metadata 12: body tags beyond the frame": framed(head(3, 12) + b"\0" + b"\0" + b"\0\0" + b"\x02\x63\xff\xff\xff\x7f"),
    "Produce: records longer than the frame": framed(head(0, 7) + struct.pack(">hhiihi", -1, -1, 1000, 1, 1, 0)[:14] + struct.pack(">h", 1) + b"t"
                                                     + struct.pack(">iii", 1, 0, 0x7FFFFFF0)),
    "Fetch: a billion partitions": framed(head(1, 11) + struct.pack(">iiiibii", -1, 100, 1, 1 << 20, 0, 0, -1) + struct.pack(">ih", 1, 1) + b"t"
                                          + struct.pack(">i", 1 << 30)),
    "a mirror's call: a billion settings": framed(head(1094, 0) + b"\0" + b"\x02m" + b"\xff\xff\xff\xff\x07"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_malformed_frames_cost_the_connection(daemon, name):
    with Client(daemon.bootstrap) as client:
        client.send_bytes(FRAMES[name])
        assert client.closed(), "an answer came where the connection should have been closed"


def test_an_unknown_version_of_api_versions_is_answered(daemon):
    with Client(daemon.bootstrap) as client:
        client.send_bytes(framed(head(18, 99) + b"\0"))
        data = client.frame()
        correlation, error = struct.unpack_from(">ih", data)
        assert (correlation, error) == (1, 35)


def test_a_frame_in_single_bytes_and_many_in_one(daemon):
    frame = request_frame("Metadata", 12, {"topics": []}, 7)
    with Client(daemon.bootstrap) as client:
        for i in range(len(frame)):
            client.send_bytes(frame[i:i + 1])
        assert client.answer("Metadata", 12, 7)["clusterId"] == daemon.cluster_id
        client.send_bytes(b"".join(request_frame("Metadata", 12, {"topics": []}, n) for n in range(50)))
        for n in range(50): # in order
            assert client.answer("Metadata", 12, n)["clusterId"] == daemon.cluster_id


def test_connections_that_say_nothing_or_half(daemon):
    """Memory is taken as bytes come, not as they are announced (a Kafka with a small heap ends here)."""
    if not hasattr(daemon, "process"):
        pytest.skip("not for a Kafka")
    held = [socket.create_connection(daemon.bootstrap.rsplit(":", 1)) for _ in range(200)]
    for s in held[:100]:
        s.sendall(struct.pack(">i", 50_000_000)) # announced, never sent
    with Client(daemon.bootstrap) as client:
        assert client.send("Metadata", 12, {"topics": []})["clusterId"] == daemon.cluster_id
    assert resident_bytes(daemon) < MEMORY_BYTES
    for s in held:
        s.close()


def test_every_prefix_of_good_requests_is_survived(daemon, records):
    requests = [
        request_frame("Produce", 9, {"transactionalId": None, "acks": -1, "timeoutMs": 1000, "topicData": [
            {"name": "steady", "partitionData": [{"index": 0, "records": None}]}]}),
        request_frame("Fetch", FETCH_VERSION, {"topics": [{"topic": "steady", "partitions": [{"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}]}],
                                              "maxWaitMs": 0, "minBytes": 0, "sessionEpoch": -1}),
        request_frame("ListOffsets", 7, {"replicaId": -1, "topics": [{"name": "steady", "partitions": [{"partitionIndex": 0, "timestamp": -1}]}]}),
        request_frame("CreateTopics", 7, {"topics": [{"name": "t/", "numPartitions": 1, "replicationFactor": 1}], "timeoutMs": 1000}),
    ]
    for frame in requests:
        for size in range(8, len(frame) - 4):
            with Client(daemon.bootstrap) as client:
                client.send_bytes(struct.pack(">i", size) + frame[4:4 + size])
                client.socket.shutdown(socket.SHUT_WR)
                try:
                    while client.socket.recv(4096):
                        pass
                except ConnectionResetError:
                    pass


def corrupt(data, at, value):
    out = bytearray(data)
    out[at:at + len(value)] = value
    return bytes(out)


GOOD = batch([b"value"])
BATCHES = { # name: records, the error codes that are right
    "null": (None, {87, 42}),
    "empty": (b"", {87, 42}),
    "shorter than a header": (GOOD[:30], {87, 2}),
    "cut in its last byte": (GOOD[:-1], {87, 2}),
    "CRC wrong": (corrupt(GOOD, 17, b"\0\0\0\0"), {2}),
    "value changed": (corrupt(GOOD, len(GOOD) - 3, b"\xff"), {2}),
    "magic 1": (corrupt(GOOD, 16, b"\x01"), {2, 43, 87}),
    "magic 9": (corrupt(GOOD, 16, b"\x09"), {2, 43, 87}),
    "length negative": (corrupt(GOOD, 8, struct.pack(">i", -1)), {2, 87}),
    "length of two gigabytes": (corrupt(GOOD, 8, struct.pack(">i", 0x7FFFFFFF)), {2, 87}),
    "two batches": (GOOD + GOOD, {87}),
    "count too high": (seal(GOOD[61:], 1000), {87, 2}),
    "count negative": (seal(GOOD[61:], -5, last_offset_delta=0), {87, 2}),
    "last offset delta lies": (seal(GOOD[61:], 1, last_offset_delta=3), {87, 2}),
    "no record": (seal(b"", 0), {87, 2}),
    "record longer than the batch": (seal(b"\xfe\xff\xff\x0f" + GOOD[62:], 1), {87, 2}),
    "varint without end": (seal(b"\xff" * 20, 1), {87, 2}),
    "control batch": (batch([b"\0\0\0\1"], attributes=0x20), {87}),
    "transactional without transactional id": (batch([b"x"], 5, 0, 0, attributes=0x10), {53, 87, 48, 42}),
    "unknown codec": (batch([b"x"], attributes=7), {2, 87, 76}),
    "gzip that is none": (seal(b"this is not gzip", 1, attributes=1), {2}),
    "snappy that is none": (seal(b"\xff\xff\xff\xff\x0f no snappy", 1, attributes=2), {2}),
    "lz4 that is none": (seal(b"this is not lz4", 1, attributes=3), {2}),
    "zstd that is none": (seal(b"this is not zstd", 1, attributes=4), {2}),
    "producer id without epoch": (batch([b"x"], 7, -1, 0), {0, 87, 47, 45}),
    "producer epoch -2": (batch([b"x"], 7, -2, 0), {47, 87}),
    "sequence -1 with a producer id": (batch([b"x"], 7, 0, -1), {45, 87}),
}


@pytest.mark.parametrize("name", BATCHES)
def test_bad_batches_get_the_right_error_code_and_change_nothing(daemon, records, peers, name):
    data, codes = BATCHES[name]
    before = Partition(daemon.bootstrap, "steady").high_watermark
    with Client(daemon.bootstrap) as client:
        code = produce_answer(client, "steady", data)["errorCode"]
        assert code in codes, f"error {code}"
        if code:
            assert Partition(daemon.bootstrap, "steady").high_watermark == before
    assert peers("librdkafka").read(daemon.bootstrap, "steady").values[:len(records)] == records


def test_a_small_batch_that_unpacks_to_gigabytes_is_refused(daemon, records):
    import zstandard
    bomb = zstandard.compress(b"\0" * (1 << 30), 3)
    assert len(bomb) < 1 << 20
    with Client(daemon.bootstrap) as client:
        code = produce_answer(client, "steady", seal(bomb, 1, attributes=4))["errorCode"]
    assert code in (2, 10, 87), f"error {code}"


def test_fetches_that_ask_for_the_impossible(daemon, records):
    with Client(daemon.bootstrap) as client:
        def ask(**fields):
            partition = {"partition": 0, "currentLeaderEpoch": -1, "fetchOffset": 0, "lastFetchedEpoch": -1, "logStartOffset": -1,
                         "partitionMaxBytes": 1 << 20, **fields}
            return client.send("Fetch", FETCH_VERSION, {"replicaId": -1, "maxWaitMs": 0, "minBytes": 0, "maxBytes": 0x7FFFFFFF, "sessionEpoch": -1, "topics": [
                {"topic": "steady", "partitions": [partition]}]})["responses"][0]["partitions"][0]["errorCode"]
        assert ask(fetchOffset=-1) == 1
        assert ask(fetchOffset=1 << 62) == 1
        assert ask(partition=77) == 3
        assert ask(partition=-1) == 3
        assert ask(partitionMaxBytes=-1) in (0, 42, -1) # Kafka: -1
        assert ask(currentLeaderEpoch=1 << 30) == 75 # UNKNOWN_LEADER_EPOCH


# ---- Files ----


@pytest.fixture
def stopped(make_kagamid, peers, topic):
    """A daemon with one topic of several segments, killed; the values that were acknowledged."""
    daemon = make_kagamid({"log.segment.bytes": 1 << 20})
    create_topic(peers("librdkafka"), daemon.bootstrap, topic)
    values = [b"%04d" % i + b"x" * 3000 for i in range(900)]
    with peers("librdkafka").producer(daemon.bootstrap, acks="all") as producer:
        for start in range(0, len(values), 100):
            producer.send(topic, values[start:start + 100])
    daemon.kill()
    return daemon, values


def write_at(path, pos, data):
    with open(path, "r+b") as f:
        f.seek(pos)
        f.write(data)


def damage_suffix(suffix, how):
    def damage(daemon, folder):
        paths = sorted(os.path.join(folder, f) for f in os.listdir(folder) if f.endswith(suffix))
        assert paths, f"no {suffix} in {os.listdir(folder)}"
        for path in paths:
            how(path)
    return damage


def damage_file(name, how):
    def damage(daemon, folder):
        for base in (folder, daemon.data):
            path = os.path.join(base, name)
            if os.path.exists(path):
                how(path)
                return
        if how is not os.remove:
            with open(os.path.join(daemon.data, name), "wb") as f:
                f.write(b"garbage\n")
    return damage


def garbage(path):
    with open(path, "wb") as f:
        f.write(b"\xa5" * 1000)


def empty(path):
    open(path, "wb").close()


def torn(path):
    os.truncate(path, max(0, os.path.getsize(path) - 3))


def append_torn_batch(path):
    with open(path, "ab") as f:
        f.write(GOOD[:40])


def append_zeros(path):
    with open(path, "ab") as f:
        f.write(b"\0" * 5000)


def last_only(how):
    def damage(daemon, folder):
        how(sorted(os.path.join(folder, f) for f in os.listdir(folder) if f.endswith(".log"))[-1])
    return damage


FILES = {
    "offset index garbage": damage_suffix(".index", garbage),
    "offset index empty": damage_suffix(".index", empty),
    "offset index gone": damage_suffix(".index", os.remove),
    "offset index torn": damage_suffix(".index", torn),
    "time index garbage": damage_suffix(".timeindex", garbage),
    "time index torn": damage_suffix(".timeindex", torn),
    "time index gone": damage_suffix(".timeindex", os.remove),
    "producer snapshots garbage": damage_suffix(".snapshot", garbage),
    "producer snapshots torn": damage_suffix(".snapshot", torn),
    "producer snapshots gone": damage_suffix(".snapshot", os.remove),
    "log with half a batch at its end": last_only(append_torn_batch),
    "log with zeros at its end": last_only(append_zeros),
    "log with garbage at its end": last_only(lambda path: open(path, "ab").write(b"\xa5" * 3000)),
    "leader-epoch-checkpoint garbage": damage_file("leader-epoch-checkpoint", garbage),
    "leader-epoch-checkpoint gone": damage_file("leader-epoch-checkpoint", os.remove),
    "leader-epoch-checkpoint empty": damage_file("leader-epoch-checkpoint", empty),
    "recovery-point-offset-checkpoint garbage": damage_file("recovery-point-offset-checkpoint", garbage),
    "recovery-point-offset-checkpoint gone": damage_file("recovery-point-offset-checkpoint", os.remove),
    "log-start-offset-checkpoint garbage": damage_file("log-start-offset-checkpoint", garbage),
    "replication-offset-checkpoint garbage": damage_file("replication-offset-checkpoint", garbage),
    "clean-shutdown file of a dirty end": lambda daemon, folder: open(os.path.join(daemon.data, ".kafka_cleanshutdown"), "wb").close(),
    "a temporary file left over": lambda daemon, folder: open(os.path.join(daemon.data, "recovery-point-offset-checkpoint.tmp"), "wb").write(b"half"),
    "a foreign folder": lambda daemon, folder: os.makedirs(os.path.join(daemon.data, "lost+found")),
}


@pytest.mark.parametrize("name", FILES)
def test_damaged_files_are_mended_and_nothing_acknowledged_is_lost(stopped, peers, topic, name):
    daemon, values = stopped
    FILES[name](daemon, daemon.partition_folder(topic))
    daemon.restart()
    assert peers("librdkafka").read(daemon.bootstrap, topic).values == values
    with peers("librdkafka").producer(daemon.bootstrap) as producer:
        assert producer.send(topic, [b"goes on"]) == [len(values)]
    daemon.stop()
    daemon.restart()
    assert peers("librdkafka").read(daemon.bootstrap, topic, from_offset=len(values) - 1).values == [values[-1], b"goes on"]


def test_a_log_cut_in_its_last_batch_keeps_the_rest(stopped, peers, topic):
    """A tail that a power loss took (it was on disk once, so this is damage): what stands before it is served, the cut is in the log of the daemon."""
    daemon, values = stopped
    folder = daemon.partition_folder(topic)
    torn(sorted(os.path.join(folder, f) for f in os.listdir(folder) if f.endswith(".log"))[-1])
    daemon.restart()
    read = peers("librdkafka").read(daemon.bootstrap, topic).values
    assert read == values[:len(read)] and 700 < len(read) < 900
    assert topic in daemon.log() and "cut" in daemon.log() or "truncat" in daemon.log()


def test_a_bit_flipped_in_the_middle_of_a_log_is_no_end_of_the_daemon(stopped, peers, topic):
    """Damage below the recovery point is not looked for at a start; a client finds it by its CRC, and other topics serve on."""
    daemon, _ = stopped
    folder = daemon.partition_folder(topic)
    write_at(sorted(os.path.join(folder, f) for f in os.listdir(folder) if f.endswith(".log"))[0], 200_000, b"\xff\xff\xff\xff")
    daemon.restart()
    other = topic + ".other"
    create_topic(peers("librdkafka"), daemon.bootstrap, other)
    with peers("librdkafka").producer(daemon.bootstrap) as producer:
        producer.send(other, [b"fine"])
    assert peers("librdkafka").read(daemon.bootstrap, other).values == [b"fine"]
