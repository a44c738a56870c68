"""The command line without mirrors: topics, produce and consume beside clients that we did not write, help, completion, errors with what to do next."""
import json
import os
import re
import subprocess

import pytest

from kagamid import COMMAND, TESTS, CommandFailed, kagami, kagami_json
from peers import record
from processes import free_ports

COMMANDS = ["mirror create", "mirror start", "mirror stop", "mirror pause", "mirror resume", "mirror recover", "mirror list", "mirror describe",
            "mirror delete", "mirror verify", "topic create", "topic list", "topic describe", "topic alter", "topic delete", "produce", "consume",
            "dump-log", "completion"]


@pytest.fixture
def run(shared_broker):
    return lambda *arguments, **options: kagami(*arguments, bootstrap=shared_broker.bootstrap, **options)


@pytest.fixture
def run_json(shared_broker):
    return lambda *arguments, **options: kagami_json(*arguments, bootstrap=shared_broker.bootstrap, **options)


def fails(call, *words):
    with pytest.raises(CommandFailed) as failed:
        call()
    assert failed.value.status > 0
    for word in words:
        assert word in failed.value.text, f"{word!r} is not named: {failed.value}"
    return failed.value


def test_topics_are_created_shown_changed_and_deleted(run, run_json, topic):
    run("topic", "create", topic, "--partitions", 3, "--config", "retention.ms=86400000")
    fails(lambda: run("topic", "create", topic), topic)
    assert topic in run("topic", "list")
    described = run("topic", "describe", topic)
    assert topic in described and "retention.ms" in described
    run("topic", "alter", topic, "--set", "cleanup.policy=compact")
    run("topic", "alter", topic, "--partitions", 4)
    text = json.dumps(run_json("topic", "describe", topic))
    assert topic in text and "compact" in text
    run("topic", "delete", topic)
    assert topic not in run("topic", "list")
    fails(lambda: run("topic", "describe", topic), topic)


def test_what_it_writes_clients_read_and_what_they_write_it_reads(run, shared_broker, peers, topic):
    run("topic", "create", topic)
    run("produce", topic, stdin="one\ntwo\n")
    run("produce", topic, "--key", "k", "--value", "three", "--compression", "zstd")
    for name in ("librdkafka", "java"):
        read = peers(name).read(shared_broker.bootstrap, topic)
        assert read.values == [b"one", b"two", b"three"]
        assert [r["key"] for r in read.records] == [None, None, b"k"]
    with peers("librdkafka").producer(shared_broker.bootstrap, compression="lz4") as producer:
        producer.send(topic, [record(key=b"k4", value=b"four", headers=[("h", b"x")])])
    assert run("consume", topic, "--until-end", "--format", "%o %k %v").splitlines()[3] == "3 k4 four"
    lines = [json.loads(line) for line in kagami("--json", "consume", topic, "--until-end", bootstrap=shared_broker.bootstrap).splitlines()]
    assert [line["value"] for line in lines] == ["one", "two", "three", "four"]
    assert run("consume", topic, "--from", 2, "--count", 1).strip().endswith("three")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_usage(command):
    done = subprocess.run([COMMAND, *command.split(), "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and f"kagami {command}" in done.stdout and "Usage:" in done.stdout


def test_every_command_has_a_man_page_that_is_installed():
    with open(os.path.join(TESTS, "..", "src", "tools", "install.cmake"), encoding="utf-8") as f:
        installed = re.search(r"set\(pages ([^)]*)\)", f.read()).group(1).split()
    assert set(installed) == {"kagami"} | {"kagami-" + command.split()[0] for command in COMMANDS + ["help"]}
    for page in installed:
        assert kagami("help", "--man", page).startswith(f'.TH "{page.upper()}" 1')


def test_completion_is_a_bash_script():
    script = kagami("completion")
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    assert "mirror" in script


def test_mistakes_are_told_with_what_to_do(run):
    fails(lambda: kagami("mirrow", "list"), "mirrow", "mirror")
    fails(lambda: kagami("topic", "create"), "kagami topic create")
    fails(lambda: run("topic", "create", "t", "--partitionz", "3"), "--partitionz", "--partitions")
    fails(lambda: run("topic", "create", "t", "--partitions", "many"), "many")
    nobody = f"127.0.0.1:{free_ports()}"
    fails(lambda: kagami("topic", "list", bootstrap=nobody), nobody)
    fails(lambda: run("produce", "no-such-topic", "--value", "x"), "no-such-topic")
    fails(lambda: kagami("dump-log", "/no/such/file.log"), "/no/such/file.log")
