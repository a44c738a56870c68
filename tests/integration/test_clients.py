"""Real clients against one broker: produce with every codec, idempotent, consume by assignment in both isolation levels, admin calls.

KAGAMI_TEST_BROKER=kafka runs the same tests against a real Kafka: what fails there is wrong in the test."""
import hashlib
import os
import random
import time

import pytest

import kafka_peer
from peers import PeerError, Unsupported, create_topic, record

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
ISOLATIONS = ["read_uncommitted", "read_committed"]


@pytest.fixture
def broker(shared_broker):
    return shared_broker


@pytest.fixture
def new_topic(broker, peers, topic):
    """new_topic(**create_topic's fields): creates this test's topic. Its records may be as old as they like."""
    def create(configs=(), partitions=1):
        create_topic(peers("librdkafka"), broker.bootstrap, topic, partitions, {"retention.ms": -1, **dict(configs)})
        return topic
    return create


def assert_read(read, sent, offsets, who):
    assert read.offsets == offsets, f"{who} read other offsets than were written"
    for got, wanted in zip(read.records, sent):
        at = f"{who} at offset {got['offset']}"
        assert got["key"] == wanted.get("key"), at
        assert got["value"] == wanted.get("value"), at
        assert got["headers"] == wanted.get("headers", []), at
        if "timestamp" in wanted:
            assert got["timestamp"] == wanted["timestamp"], at


def make_records(client, count, seed):
    """Records as different as the client can send them; as arguments of record()."""
    rng = random.Random(seed)
    made = []
    for i in range(count):
        r = {"key": f"key-{i}".encode(), "value": rng.choice([b"x" * 300, rng.randbytes(200).replace(b":::", b"..."), f"value {i}".encode()]),
             "headers": [("trace", b"t%d" % i), ("trace", b"again"), ("kind", b"test")][: i % 4]}
        if client.name != "kcat": # it has no timestamps, no null headers, and takes some bytes for delimiters
            r["timestamp"] = 1_700_000_000_000 + i * 1000
            if i % 5 == 1:
                r["key"] = None
            if i % 5 == 2:
                r["value"] = b""
            if i % 5 == 3:
                r["headers"] = [("none", None if client.name != "kafka-python" else b""), ("empty", b"")]
            if i % 7 == 4 and (r["key"] is not None or client.name != "kafka-python"): # it wants one of the two
                r["value"] = None
        made.append(r)
    return made


@pytest.mark.parametrize("codec", CODECS)
def test_what_a_client_writes_with_each_codec_it_and_others_read(broker, new_topic, client, peers, codec):
    if codec not in client.features:
        assert codec == "none", f"{client.name} ought to have {codec}"
    topic = new_topic()
    sent = make_records(client, 6 if client.name == "kcat" else 60, f"{client.name} {codec}")
    with client.producer(broker.bootstrap, compression=codec, idempotent=True) as producer:
        offsets = producer.send(topic, [record(**r) for r in sent])
    if client.name != "kcat": # it shows no offsets
        assert offsets == list(range(len(sent)))
    for isolation in ISOLATIONS:
        read = client.read(broker.bootstrap, topic, isolation=isolation)
        assert_read(read, sent, list(range(len(sent))), f"{client.name} itself, {isolation},")
        if "position" in client.features:
            assert read.position == len(sent)
    assert_read(peers("librdkafka").read(broker.bootstrap, topic), sent, list(range(len(sent))), "librdkafka")


def test_acks_of_one_and_none_are_written_too(broker, new_topic, client):
    topic = new_topic()
    for acks in ("1", "0"):
        with client.producer(broker.bootstrap, idempotent=False, acks=acks) as producer:
            producer.try_send(topic, [b"acks " + acks.encode()])
    deadline = time.monotonic() + 20
    while True: # nobody says when a record of acks=0 is there
        values = client.read(broker.bootstrap, topic).values
        if len(values) == 2 or time.monotonic() > deadline:
            break
    assert values == [b"acks 1", b"acks 0"]


def test_an_idempotent_producer_writes_many_batches_once_and_in_order(broker, new_topic, client):
    if client.name == "kcat":
        pytest.skip("kcat: one process a record, so no producer that lives for several batches")
    topic = new_topic(partitions=3)
    values = [b"%05d" % i for i in range(1500)]
    with client.producer(broker.bootstrap, idempotent=True, linger_ms=0) as producer:
        for start in range(0, len(values), 100):
            for partition in range(3):
                producer.send(topic, values[start:start + 100], partition=partition)
    for partition in range(3):
        assert client.read(broker.bootstrap, topic, partition=partition).values == values


def test_reading_from_the_middle_of_a_batch_begins_there(broker, new_topic, client, peers):
    topic = new_topic()
    values = [b"%03d" % i for i in range(300)]
    with peers("librdkafka").producer(broker.bootstrap, compression="zstd", linger_ms=100) as producer:
        producer.send(topic, values)
    read = client.read(broker.bootstrap, topic, from_offset=157)
    assert read.offsets == list(range(157, 300))
    assert read.values == values[157:]


def test_log_append_time_is_shown_as_such(broker, new_topic, client):
    topic = new_topic(configs={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    made = {"value": b"v"} if client.name == "kcat" else {"value": b"v", "timestamp": 1000}
    with client.producer(broker.bootstrap) as producer:
        producer.send(topic, [record(key=b"k", **made)])
    got = client.read(broker.bootstrap, topic).records[0]
    assert before - 1000 <= got["timestamp"] <= int(time.time() * 1000) + 1000
    if "timestamp_type" in got:
        assert got["timestamp_type"] == "LogAppendTime"


def test_a_big_record_passes_when_the_topic_allows_it(broker, new_topic, client, tmp_path):
    topic = new_topic(configs={"max.message.bytes": 8 << 20})
    path = tmp_path / "value"
    path.write_bytes(random.Random(1).randbytes(5 << 20).replace(b":::", b"...").replace(b"\0\0\0", b"..."))
    data = path.read_bytes()
    with client.producer(broker.bootstrap, max_request_bytes=6 << 20) as producer:
        producer.send(topic, [record(key=b"big", value_file=path)])
    got = client.read(broker.bootstrap, topic).values
    assert got == [{"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}]


def test_a_record_larger_than_the_topic_allows_is_refused_by_the_right_name(broker, new_topic, client):
    topic = new_topic(configs={"max.message.bytes": 2000})
    with client.producer(broker.bootstrap) as producer:
        result = producer.try_send(topic, [record(key=b"k", value=os.urandom(3000).replace(b"\0\0\0", b"..."))])[0]
    assert "error" in result, f"{client.name}: taken, though larger than max.message.bytes"
    if client.name != "kcat":
        assert result["error"]["code"] == 10, result
    assert client.read(broker.bootstrap, topic).records == []


def need(client, feature):
    if feature not in client.features:
        pytest.skip(f"{client.name} has no {feature}")


def test_admin_calls(broker, client, topic):
    need(client, "admin")
    bootstrap = broker.bootstrap
    assert client.admin("cluster", bootstrap) | {"ok": True} == {"ok": True, "cluster_id": broker.cluster_id, "brokers": 1}

    client.admin("create_topic", bootstrap, topic=topic, partitions=2, configs={"retention.ms": 86400000})
    with pytest.raises(PeerError) as refused:
        client.admin("create_topic", bootstrap, topic=topic)
    assert refused.value.code == 36, refused.value # TOPIC_ALREADY_EXISTS
    with pytest.raises(PeerError) as refused:
        client.admin("create_topic", bootstrap, topic="no/slashes")
    assert refused.value.code == 17, refused.value # INVALID_TOPIC_EXCEPTION

    configs = client.admin("configs", bootstrap, topic=topic)["configs"]
    assert (configs["retention.ms"], configs["cleanup.policy"]) == ("86400000", "delete")
    client.admin("alter_configs", bootstrap, topic=topic, configs={"cleanup.policy": "compact", "retention.ms": None})
    configs = client.admin("configs", bootstrap, topic=topic)["configs"]
    assert (configs["retention.ms"], configs["cleanup.policy"]) == ("604800000", "compact")
    with pytest.raises(PeerError) as refused:
        client.admin("alter_configs", bootstrap, topic=topic, configs={"no.such.setting": "1"})
    if client.name != "kafka-python": # it compares with DescribeConfigs and never asks
        assert refused.value.code == 40, refused.value # INVALID_CONFIG
    client.admin("alter_configs", bootstrap, topic=topic, configs={"cleanup.policy": "delete"})

    client.admin("create_partitions", bootstrap, topic=topic, count=4)
    with pytest.raises(PeerError) as refused:
        client.admin("create_partitions", bootstrap, topic=topic, count=3)
    assert refused.value.code == 37, refused.value # INVALID_PARTITIONS

    deadline = time.monotonic() + 20 # Kafka and client caches may describe the old state for a moment
    while client.admin("topics", bootstrap)["topics"].get(topic, {}).get("partitions") != 4:
        assert time.monotonic() < deadline, client.admin("topics", bootstrap)
    with client.producer(bootstrap) as producer:
        producer.send(topic, [b"%d" % i for i in range(10)], partition=3)
    assert client.admin("delete_records", bootstrap, topic=topic, partition=3, before=6)["low_watermark"] == 6
    assert client.read(bootstrap, topic, partition=3).values == [b"6", b"7", b"8", b"9"]
    with pytest.raises(PeerError) as refused:
        client.admin("delete_records", bootstrap, topic=topic, partition=3, before=11)
    assert refused.value.code == 1, refused.value # OFFSET_OUT_OF_RANGE

    client.admin("delete_topic", bootstrap, topic=topic)
    deadline = time.monotonic() + 20
    while topic in client.admin("topics", bootstrap)["topics"]:
        assert time.monotonic() < deadline, f"{topic} is still listed"
        time.sleep(0.1)


def test_list_offsets_by_place_and_by_time(broker, new_topic, client, peers):
    topic = new_topic()
    stamps = [5000, 1000, 9000, 3000, 9000, 2000]
    with peers("librdkafka").producer(broker.bootstrap) as producer:
        for stamp in stamps:
            producer.send(topic, [record(value=b"v", timestamp=stamp)])

    def at(where):
        return client.admin("list_offset", broker.bootstrap, topic=topic, at=where)["offset"]

    assert at("earliest") == 0
    assert at("latest") == len(stamps)
    assert at(4000) == 0
    assert at(6000) == 2
    assert at(9000) == 2
    if client.name != "kcat" and client.name != "franz-go":
        assert at(9001) == -1 # the others show the end offset in its place
    try:
        assert at("max_timestamp") == 2
    except Unsupported:
        assert "max_timestamp" not in client.features


def test_active_producers_are_described(broker, new_topic, client, peers):
    need(client, "producers")
    topic = new_topic()
    with peers("java").producer(broker.bootstrap) as producer:
        for _ in range(3):
            producer.send(topic, [b"v"])
        states = client.admin("producers", broker.bootstrap, topic=topic)["producers"]
    assert [(s["producer_epoch"], s["last_sequence"]) for s in states] == [(0, 2)]
    assert states[0]["producer_id"] >= 0


def need_java():
    why = kafka_peer.available()
    if why:
        pytest.skip(f"no Kafka tools: {why}")


def test_kafkas_console_and_perf_tools(broker, new_topic):
    need_java()
    topic = new_topic()
    lines = [f"line {i}" for i in range(50)]
    kafka_peer.tool("console-producer", "--bootstrap-server", broker.bootstrap, "--topic", topic, stdin="\n".join(lines) + "\n")
    out = kafka_peer.tool("console-consumer", "--bootstrap-server", broker.bootstrap, "--topic", topic, "--partition", "0", "--offset",
                          "earliest", "--max-messages", "50", "--timeout-ms", "30000")
    assert out.splitlines() == lines
    out = kafka_peer.tool("producer-perf", "--bootstrap-server", broker.bootstrap, "--topic", topic, "--num-records", "5000",
                          "--record-size", "500", "--throughput", "-1")
    assert "5000 records sent" in out
    out = kafka_peer.tool("offsets", "--bootstrap-server", broker.bootstrap, "--topic", topic)
    assert out.strip() == f"{topic}:0:5050"
    out = kafka_peer.tool("topics", "--bootstrap-server", broker.bootstrap, "--describe", "--topic", topic)
    assert "PartitionCount: 1" in out and f"Topic: {topic}" in out
