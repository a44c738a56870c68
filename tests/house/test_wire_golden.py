"""The wire tables against a list that changes only on purpose: APIs, versions, fields, types, tags, nullability, defaults, ignorable.

KAGAMI_UPDATE_GOLDEN=1 writes the list anew; the commit then shows what moved on the wire."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
import wire  # noqa: E402

GOLDEN = ROOT / "tests" / "house" / "golden" / "wire.txt"


def field_lines(fields, depth):
    for f in fields:
        kind = ("[]" if f.array else "") + f.base
        words = [f.name, kind, str(f.versions)]
        words += [f"null {f.nullable}"] if f.nullable else []
        words += [f"tag {f.tag}"] if f.tag is not None else []
        words += ["ignorable"] if f.ignorable else []
        words += ["plain"] if f.plain else []
        words += [f"default {f.default!r}"] if f.base != "struct" or f.array or f.nullable else []
        yield "  " * depth + "  ".join(words)
        yield from field_lines(f.fields, depth + 1)


def listing(schema):
    for api in sorted(schema.apis.values(), key=lambda a: a.key):
        yield f"api {api.key} {api.name}  valid {api.valid}  flexible {api.flexible}  offered {api.offered}"
    for message in schema.messages.values():
        yield f"\n{message.name}  valid {message.valid}  flexible {message.flexible}"
        yield from field_lines(message.fields, 1)


def test_the_tables_are_the_golden_ones():
    text = "\n".join(listing(wire.SCHEMA)) + "\n"
    if os.environ.get("KAGAMI_UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text.splitlines() == GOLDEN.read_text().splitlines(), "KAGAMI_UPDATE_GOLDEN=1 accepts the change"


def test_the_test_encoder_reads_what_it_writes():
    for name, message in wire.SCHEMA.messages.items():
        for version in message.valid:
            data = wire.encode(name, version, {})
            values, used = wire.decode(name, version, data)
            assert used == len(data)
            assert wire.encode(name, version, values) == data
