#!/usr/bin/env python3
"""Writes kafka_answers.c: the smallest answer that a real Kafka gave in each version of each API while tests/integration/test_wire_versions.py ran.

    KAGAMI_TEST_BROKER=kafka PYTHONPATH=tests/lib PYTHON tests/unit/proto/record_answers.py      (PYTHON: that of the tests' virtual environment)"""

import pathlib
import sys

import pytest
import wire

HERE = pathlib.Path(__file__).resolve().parent
TOO_LONG = 4000  # bytes; none is, as long as the tests ask for single configs
smallest = {}


class Recorder(wire.Client):
    def answer(self, api_name, version, correlation_id=None):
        self.asked = (wire.SCHEMA.apis[api_name].key, version)
        return super().answer(api_name, version, correlation_id)

    def frame(self):
        data = super().frame()
        if len(data) <= TOO_LONG and len(data) < len(smallest.get(self.asked, bytes(TOO_LONG + 1))):
            smallest[self.asked] = data
        return data


def without_texts(key, version, data):
    """The recorded broker's folder and its texts about configs become others of the same length."""
    api = wire.APIS_BY_KEY[key]
    head = wire.decode("ResponseHeader", api.response_header_version(version), data)[1]
    answer = wire.decode(api.response.name, version, data[head:])[0]
    if api.name == "DescribeLogDirs":
        for folder in (result["logDir"].encode() for result in answer["results"]):
            data = data.replace(folder, b"/data".ljust(len(folder), b"."))
    if api.name == "DescribeConfigs":
        for text in (c.get("documentation") for result in answer["results"] for c in result["configs"]):
            data = data.replace(text.encode(), b"d" * len(text.encode())) if text else data
    return data


def lines():
    yield "/* Recorded by record_answers.py from Apache Kafka 4.4.0: frames without their length, header and body. */"
    yield '#include "kafka_answers.h"'
    yield ""
    yield "/* clang-format off */"
    yield "const struct kafka_answer kafka_answers[] = {"
    for (key, version), data in sorted(smallest.items()):
        yield f"    {{{key}, {version},"
        text = without_texts(key, version, data).hex()
        yield from (f'     "{text[i : i + 120]}"' for i in range(0, len(text), 120))
        yield "    },"
    yield "};"
    yield f"const size_t kafka_answers_n = {len(smallest)};"


wire.Client = Recorder
status = pytest.main(["-q", str(HERE.parents[1] / "integration" / "test_wire_versions.py")])
if status == 0:
    (HERE / "kafka_answers.c").write_text("\n".join(lines()) + "\n")
sys.exit(status)
