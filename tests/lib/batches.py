"""Record batches (format v2) written byte by byte, for raw Produce requests: batch([(key, value), ..], producer_id=..)."""

import struct

NO_PRODUCER = -1
_TABLE = []
for _i in range(256):
    _crc = _i
    for _ in range(8):
        _crc = _crc >> 1 ^ (0x82F63B78 if _crc & 1 else 0)
    _TABLE.append(_crc)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def varint(value):
    value = value << 1 ^ value >> 63
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(data):
    return varint(-1) if data is None else varint(len(data)) + data


def one_record(index, key, value, timestamp_delta=0):
    body = b"\0" + varint(timestamp_delta) + varint(index) + field(key) + field(value) + varint(0)
    return varint(len(body)) + body


def batch(records, *, base_offset=0, leader_epoch=-1, attributes=0, timestamp=1_700_000_000_000, producer_id=NO_PRODUCER, producer_epoch=-1,
          base_sequence=-1, crc=None):  # fmt: skip
    """records: (key, value) pairs; None is null. crc: a wrong one, for tests of the check."""
    body = b"".join(one_record(i, key, value) for i, (key, value) in enumerate(records))
    covered = struct.pack(">hiqqqhii", attributes, len(records) - 1, timestamp, timestamp, producer_id, producer_epoch, base_sequence,
                          len(records)) + body  # fmt: skip
    head = struct.pack(">ibI", leader_epoch, 2, crc32c(covered) if crc is None else crc)
    return struct.pack(">qi", base_offset, len(head) + len(covered)) + head + covered
