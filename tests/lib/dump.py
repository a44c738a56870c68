"""What Kafka's own DumpLogSegments says about files, parsed, and what `kagami dump-log --json` says about the same."""
import re

import kafka_peer
from kagamid import json_lines

# What Kafka's tool prints when it is not content with a file.
COMPLAINTS = re.compile(r"Found timestamp mismatch|Found out of order|Mismatches in|Non-consecutive|Index position .* mismatch|Exception|isvalid: false"
                        r"|is not a valid|Corrupt|Error", re.I)


def kafka_dump(*files, options=("--deep-iteration",)):
    """{file: its part of the output}. Raises AssertionError on any complaint of the tool."""
    text = kafka_peer.tool("dump-log", "--files", ",".join(str(f) for f in files), *options, timeout=300)
    complaints = [line for line in text.splitlines() if COMPLAINTS.search(line)]
    assert not complaints, f"Kafka's dump tool complains: {complaints[:5]}"
    parts = re.split(r"^Dumping (\S+)$", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def fields(line):
    """The `name: value` pairs of one line of Kafka's dump."""
    return dict(re.findall(r"(\w+): (\S+)", line))


def kafka_batches(text):
    return [fields(line) for line in text.splitlines() if line.startswith("baseOffset:")]


def kafka_records(text):
    return [fields(line[1:].strip()) for line in text.splitlines() if line.startswith("|")]


def our_dump(*files, options=()):
    """The lines of `kagami dump-log --json`."""
    return json_lines("dump-log", *[str(f) for f in files], *options)
