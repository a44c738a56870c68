"""Record batches of our own making, for what no client library would send, and the raw calls around them."""
import struct
import time

from raw import HEADER, RawError
from waiting import wait_until

PRODUCE_VERSION = 9

_table = []
for _n in range(256):
    for _ in range(8):
        _n = (_n >> 1) ^ (0x82F63B78 if _n & 1 else 0)
    _table.append(_n)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def varint(value):
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value & ~0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varbytes(value):
    return varint(-1) if value is None else varint(len(value)) + value


def batch(records, producer_id=-1, producer_epoch=-1, base_sequence=-1, attributes=0, base_offset=0, timestamp=None):
    """records: values, or (key, value)."""
    body = b""
    for i, record in enumerate(records):
        key, value = record if isinstance(record, tuple) else (None, record)
        one = b"\0" + varint(0) + varint(i) + varbytes(key) + varbytes(value) + varint(0)
        body += varint(len(one)) + one
    return seal(body, len(records), producer_id, producer_epoch, base_sequence, attributes, base_offset, timestamp)


def seal(body, count, producer_id=-1, producer_epoch=-1, base_sequence=-1, attributes=0, base_offset=0, timestamp=None, last_offset_delta=None):
    """A batch header with the right length and CRC around whatever the body is."""
    now = int(time.time() * 1000) if timestamp is None else timestamp
    fields = struct.pack(">hiqqqhii", attributes, count - 1 if last_offset_delta is None else last_offset_delta, now, now, producer_id,
                         producer_epoch, base_sequence, count) + body
    head = struct.pack(">qiibI", base_offset, HEADER.size - 12 + len(body), -1, 2, crc32c(fields))
    return head + fields


def idempotent_batch(records, producer_id, producer_epoch, base_sequence):
    return batch(records, producer_id, producer_epoch, base_sequence)


def produce_answer(client, topic, records, partition=0, acks=-1):
    answer = client.send("Produce", PRODUCE_VERSION, {
        "transactionalId": None, "acks": acks, "timeoutMs": 30000,
        "topicData": [{"name": topic, "partitionData": [{"index": partition, "records": records}]}]})
    return answer["responses"][0]["partitionResponses"][0]


def produce(client, topic, records, partition=0):
    """The base offset; RawError otherwise."""
    answer = produce_answer(client, topic, records, partition)
    if answer["errorCode"]:
        raise RawError(f"Produce {topic}-{partition}", answer["errorCode"])
    return answer["baseOffset"]


def init_producer_id(client):
    """A fresh producer id, as an idempotent producer without transactional id gets it."""
    # Kafka has no coordinator for it until somebody has asked for a transaction coordinator.
    def ask():
        answer = client.send("InitProducerId", 4, {"transactionalId": None, "transactionTimeoutMs": 60000, "producerId": -1, "producerEpoch": -1})
        if answer["errorCode"] in (14, 15, 16):
            client.send("FindCoordinator", 3, {"key": "any", "keyType": 1})
            return None
        if answer["errorCode"]:
            raise RawError("InitProducerId", answer["errorCode"])
        return (answer["producerId"],)
    return wait_until(ask, 30, "InitProducerId finds no coordinator", pause=0.2)[0]


def use_up_producer_ids(client, above):
    """Takes producer ids from a Kafka until they are greater: a broker on copied folders hands out ids that the copied data have used."""
    while init_producer_id(client) <= above:
        pass
