"""Every wire table against the message definitions inside Kafka's jar kafka-clients, field by field, version by version."""

import functools
import json
import os
import pathlib
import re
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
import wire  # noqa: E402

Range = wire.model.Range
FOREVER = wire.model.FOREVER
PEER_HOME = pathlib.Path(os.environ.get("KAFKA_PEER_HOME") or pathlib.Path.home() / ".cache" / "kafka-peer")
# Announced versions that differ from the valid ones, with the reason.
OFFERED = {
    "Produce": (0, 13),  # announced from 0 for old librdkafka, KAFKA-18659
    "InitProducerId": (0, 5),  # 6 is not stable
    "FindCoordinator": (1, 0),  # comes with the groups
}


def jar():
    """Of the release that the tables follow."""
    return next(iter(sorted(PEER_HOME.glob("kafka/**/kafka-clients-4.4*.jar"))), None)


@functools.cache
def definitions():
    path = jar()
    if path is None:
        pytest.skip(f"no kafka-clients 4.4 jar under {PEER_HOME}/kafka")
    out = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.startswith("common/message/") and name.endswith(".json"):
                text = re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.M)
                definition = json.loads(text)
                out[definition["name"]] = definition
    assert out, f"{path} has no message definitions"
    return out


def versions(text):
    return Range(1, 0) if text == "none" else Range.parse(text)


def kafka_default(field, base, array):
    """As schema.py writes defaults; nested structs have none."""
    text = field.get("default")
    if text == "null" or (text is None and base == "records"):
        return None
    if array:
        return []
    if base in ("string", "bool"):
        return {"bool": str(text).lower() == "true", "string": text or ""}[base]
    if base in wire.model.INTEGERS:
        return int(str(text), 0) if text is not None else 0
    return None if base == "struct" else wire.default_of(next(f for f in samples() if f.base == base))


def samples():
    for message in wire.SCHEMA.messages.values():
        stack = list(message.fields)
        while stack:
            f = stack.pop()
            stack += f.fields
            if not f.array:
                yield f


def kafka_fields(fields, common, version, flexible, path):
    """What a version has on the wire, in order: {path: facts}."""
    out = {}
    for f in fields:
        if version not in versions(f["versions"]):
            continue
        array = f["type"].startswith("[]")
        kind = f["type"][2:] if array else f["type"]
        nested = f.get("fields") or common.get(kind)
        base = "struct" if nested else kind
        tagged = "tag" in f and version in versions(f["taggedVersions"])
        here = f"{path}.{f['name']}"
        out[here] = {
            "type": base, "array": array, "nullable": version in versions(f.get("nullableVersions", "none")),
            "tag": f["tag"] if tagged else None, "compact": flexible and f.get("flexibleVersions") != "none",
            "default": kafka_default(f, base, array),
        }  # fmt: skip
        if nested:
            out.update(kafka_fields(nested, common, version, flexible, here))
    return out


def our_fields(fields, version, flexible, path):
    out = {}
    for f in fields:
        if version not in f.versions:
            continue
        here = f"{path}.{f.name}"
        out[here] = {
            "type": f.base, "array": f.array, "nullable": version in f.nullable, "tag": f.tag, "compact": f.is_compact(flexible),
            "default": None if f.base == "struct" and not f.array else f.default,
        }  # fmt: skip
        if f.base == "struct":
            out.update(our_fields(f.fields, version, flexible, here))
    return out


def ignorable(fields, common, path, is_ours):
    """The paths of the fields whose values a version without them drops, whatever the version."""
    out = set()
    for f in fields:
        name = f.name if is_ours else f["name"]
        nested = f.fields if is_ours else f.get("fields") or common.get(f["type"].removeprefix("[]"))
        if f.ignorable if is_ours else str(f.get("ignorable")).lower() == "true":
            out.add(f"{path}.{name}")
        if nested:
            out |= ignorable(nested, common, f"{path}.{name}", is_ours)
    return out


KAFKAS = [name for name in wire.SCHEMA.messages if "Mirror" not in name]


@pytest.mark.parametrize("name", KAFKAS)
def test_table_is_kafkas(name):
    theirs, ours = definitions()[name], wire.SCHEMA.messages[name]
    assert str(ours.valid) == theirs["validVersions"]
    flexible = versions(theirs["flexibleVersions"])
    common = {c["name"]: c["fields"] for c in theirs.get("commonStructs", [])}
    for version in ours.valid:
        assert ours.is_flexible(version) == (version in flexible)
        expected = kafka_fields(theirs["fields"], common, version, version in flexible, name)
        found = our_fields(ours.fields, version, version in flexible, name)
        assert list(found) == list(expected), f"version {version}"
        for path, facts in expected.items():
            assert found[path] == facts, f"version {version}: {path}"
    assert ignorable(ours.fields, {}, name, True) == ignorable(theirs["fields"], common, name, False)


@pytest.mark.parametrize("name", [n for n in wire.SCHEMA.apis if "Mirror" not in n])
def test_api_is_kafkas(name):
    all_of_them, api = definitions(), wire.SCHEMA.apis[name]
    request = all_of_them[name + "Request"]
    assert api.key == request["apiKey"] == all_of_them[name + "Response"]["apiKey"]
    assert (api.offered.first, api.offered.last) == OFFERED.get(name, (api.valid.first, api.valid.last))
    if request.get("latestVersionUnstable"):
        assert api.offered.last < api.valid.last, "a version that is not stable is not offered"


def test_the_mirrors_keys_are_free_in_kafka():
    taken = {d["apiKey"] for d in definitions().values() if "apiKey" in d}
    assert not taken & {api.key for name, api in wire.SCHEMA.apis.items() if "Mirror" in name}


def test_the_comparison_can_fail():
    theirs = definitions()["FetchRequest"]
    expected = kafka_fields(theirs["fields"], {}, 12, True, "FetchRequest")
    found = our_fields(wire.SCHEMA.messages["FetchRequest"].fields, 13, True, "FetchRequest")
    assert list(found) != list(expected)
