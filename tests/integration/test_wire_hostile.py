"""Hostile input on the wire: it costs the sender its connection, never the broker. ApiVersions alone is answered in a version that nobody knows.

KAGAMI_TEST_BROKER=kafka runs the same against a real Kafka, without the rows in which we are stricter."""

import struct

import pytest

from conftest import USE_KAFKA
from wire import Client, decode, encode, request_frame


@pytest.fixture
def client(shared_broker):
    with Client(shared_broker.bootstrap) as connection:
        yield connection
    with Client(shared_broker.bootstrap) as another:  # and the broker serves on
        assert another.send("ApiVersions", 2)["errorCode"] == 0


def framed(data):
    return struct.pack(">i", len(data)) + data


def header(key, version, rest=b"\xff\xff"):
    return struct.pack(">hhi", key, version, 1) + rest


CLOSED = {
    "a negative length": struct.pack(">i", -1),
    "the smallest length": struct.pack(">i", -(2**31)),
    "a length above the limit": struct.pack(">i", 100 * 1024 * 1024 + 1),
    "the largest length": struct.pack(">i", 2**31 - 1),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a TLS hello": bytes.fromhex("16030100c8010000c40303"),
    "an empty frame": framed(b""),
    "half a header": framed(b"\x00\x12\x00"),
    "a header without its client id": framed(struct.pack(">hhi", 3, 1, 1)),
    "a client id longer than the frame": framed(header(3, 1, b"\x7f\xff")),
    "a key that nobody knows": framed(header(32767, 0)),
    "a negative key": framed(header(-1, 0)),
    "a negative version": framed(header(3, -1)),
    "a version too high": framed(header(3, 14)),
    "Produce 0, announced for old librdkafka": framed(header(0, 0) + struct.pack(">hii", 1, 1000, 0)),
    "Produce 2": framed(header(0, 2) + struct.pack(">hii", 1, 1000, 0)),
    "InitProducerId 6, not stable": framed(header(22, 6, b"\xff\xff\x00") + b"\x00" * 32),
    "a body that ends too early": framed(header(3, 1) + b"\x00\x00"),
    "a count that the frame cannot hold": framed(header(3, 1) + struct.pack(">i", 2**31 - 1)),
    "a compact count that the frame cannot hold": framed(header(3, 9, b"\xff\xff\x00") + b"\xff\xff\xff\xff\x07\x00\x00\x00\x00"),
    "a string longer than the frame": framed(header(3, 1) + struct.pack(">ih", 1, 32767)),
    "a null name": framed(header(3, 1) + struct.pack(">ih", 1, -1)),
    "a varint without an end": framed(header(3, 9, b"\xff\xff\x00") + b"\xff" * 12),
    "tags that end too early": framed(header(18, 3, b"\xff\xff\x00") + b"\x02a\x02b\x01\x05\x7f"),
}
STRICTER = {
    "an array count of -2": framed(header(3, 1) + struct.pack(">i", -2)),
    "the smallest array count": framed(header(3, 1) + struct.pack(">i", -(2**31))),
    "a client id length of -2": framed(header(3, 1, b"\xff\xfe") + struct.pack(">i", 0)),
    "a tag twice": framed(header(18, 3, b"\xff\xff\x00") + b"\x02a\x02b\x02\x05\x00\x05\x00"),
    "tags that descend": framed(header(18, 3, b"\xff\xff\x00") + b"\x02a\x02b\x02\x06\x00\x05\x00"),
}
if not USE_KAFKA:
    CLOSED |= STRICTER


@pytest.mark.parametrize("name", CLOSED)
def test_closes_without_an_answer(client, name):
    client.send_bytes(CLOSED[name])
    assert client.closed()


@pytest.mark.parametrize("version", [6, 99, 32767])
def test_api_versions_of_the_future(client, version):
    client.send_bytes(framed(header(18, version, b"\xff\xff\x00") + b"\x01\x01\x00"))
    data = client.frame()
    head, used = decode("ResponseHeader", 0, data)
    answer, body_used = decode("ApiVersionsResponse", 0, data[used:])
    assert (head["correlationId"], used + body_used) == (1, len(data))
    assert answer == {"errorCode": 35, "apiKeys": [{"apiKey": 18, "minVersion": 0, "maxVersion": 5}]}
    assert client.send("ApiVersions", 0)["errorCode"] == 0  # the same connection goes on


def test_bytes_behind_a_body_are_ignored(client):
    client.correlation_id = 1
    client.send_bytes(request_frame("Metadata", 4, encode("MetadataRequest", 4, {"topics": []}) + b"more"))
    assert client.answer("Metadata", 4)["topics"] == []


def test_unknown_tags_are_ignored(client):
    client.correlation_id = 1
    body = encode("ApiVersionsRequest", 3, {"clientSoftwareName": "a", "clientSoftwareVersion": "b"})
    client.send_bytes(request_frame("ApiVersions", 3, body[:-1] + b"\x02\x07\x01x\x80\x01\x00"))
    assert client.answer("ApiVersions", 3)["errorCode"] == 0


def test_a_request_in_small_pieces(client):
    client.correlation_id = 1
    for byte in request_frame("Metadata", 4, {"topics": []}):
        client.send_bytes(bytes([byte]))
    assert client.answer("Metadata", 4)["topics"] == []


def test_requests_behind_each_other_are_answered_in_order(client):
    sent = [client.post("Metadata", 4, {"topics": []}) if i % 2 else client.post("ApiVersions", 2) for i in range(50)]
    for i, correlation_id in enumerate(sent):
        client.answer("Metadata" if i % 2 else "ApiVersions", 4 if i % 2 else 2, correlation_id)


def test_a_frame_that_never_ends_holds_nobody_up(client, shared_broker):
    client.send_bytes(struct.pack(">i", 50 * 1024 * 1024) + b"\x00\x00")
    with Client(shared_broker.bootstrap) as other:
        assert other.send("Metadata", 4, {"topics": []})["topics"] == []


@pytest.mark.parametrize(
    "cluster,node,error", [(None, -1, 0), ("own", "own", 0), ("another", "own", 129), ("own", 77, 129), ("own", -1, 42), (None, "own", 42)]
)
def test_whom_the_client_believes_it_talks_to(client, shared_broker, cluster, node, error):
    own_node = client.send("Metadata", 4, {"topics": []})["brokers"][0]["nodeId"]
    answer = client.send("ApiVersions", 5, {
        "clientSoftwareName": "a", "clientSoftwareVersion": "b", "clusterId": shared_broker.cluster_id if cluster == "own" else cluster,
        "nodeId": own_node if node == "own" else node})  # fmt: skip
    assert answer["errorCode"] == error
