"""Records that say who wrote them: what a writer sends and what a reader expects, from the same numbers."""
import random
import struct

KEY = struct.Struct(">HHHQ") # writer, generation (a producer's life), partition, number in that partition
TEXT = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz ", k=1 << 15)).encode()
LONG_BYTES, LONG_ONE_IN = 6000, 211


def key_of(writer, generation, partition, number):
    return KEY.pack(writer, generation, partition, number)


def value_of(key):
    """The one value that a record of this key may have: 20 to 600 bytes, now and then some kilobytes."""
    writer, generation, partition, number = KEY.unpack(key)
    mixed = (number * 2654435761 + writer * 40503 + generation * 7919 + partition * 104729) & 0xFFFFFFFF
    size = LONG_BYTES if mixed % LONG_ONE_IN == 0 else 20 + mixed % 580
    at = (mixed >> 7) % (len(TEXT) - LONG_BYTES)
    return TEXT[at:at + size]


def named(key):
    writer, generation, partition, number = KEY.unpack(key)
    return f"record {number} of writer {writer} (producer {generation}) to partition {partition}"
