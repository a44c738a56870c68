"""The command line of mirrors, between two kagamids; what it does when it is watched, interrupted, cut off from its output; reading of transactions."""
import json
import os
import pty
import select
import signal
import subprocess
import time

import pytest

from kagamid import COMMAND, CommandFailed, kagami, kagami_json
from peers import create_topic
from waiting import seconds


class Two:
    """A source with two topics and a destination, each driven through the command line."""

    def __init__(self, source, destination):
        self.source, self.destination = source, destination
        kagami("topic", "create", "orders", "--partitions", 2, bootstrap=source.bootstrap)
        kagami("topic", "create", "other", bootstrap=source.bootstrap)
        self.write("orders", range(1000))

    def write(self, topic, values, *options):
        kagami("produce", topic, "--idempotent", "--batch-records", 50, *options, bootstrap=self.source.bootstrap, stdin="".join(f"{v}\n" for v in values))

    def run(self, *arguments, **options):
        return kagami(*arguments, bootstrap=self.destination.bootstrap, **options)

    def json(self, *arguments, **options):
        return kagami_json(*arguments, bootstrap=self.destination.bootstrap, **options)

    def fails(self, *arguments):
        with pytest.raises(CommandFailed) as failed:
            self.run(*arguments)
        return failed.value

    def mirrored(self, *topics):
        self.run("mirror", "create", "dc2", "--source", self.source.bootstrap)
        self.run("mirror", "start", "dc2", "--topics", ",".join(topics), "--watch")
        return self


@pytest.fixture
def two(make_kagamid):
    return Two(make_kagamid(), make_kagamid())


def test_from_create_to_delete(two):
    made = two.run("mirror", "create", "dc2", "--source", two.source.bootstrap)
    assert two.source.cluster_id in made
    assert two.source.bootstrap in two.run("mirror", "list") and two.run("mirror", "list", "--names") == "dc2\n"
    watched = two.run("mirror", "start", "dc2", "--topics", "ord.*,other", "--watch")
    assert "2/2 partitions caught up" in watched and "\x1b" not in watched # no terminal: lines, and no cursor
    described = two.json("mirror", "describe", "dc2")["mirrors"][0]
    assert {t["topicName"]: {p["state"] for p in t["partitions"]} for t in described["topics"]} == {"orders": {"MIRRORING"}, "other": {"MIRRORING"}}
    only = two.json("mirror", "describe", "dc2", "--topics", "o(th).*")["mirrors"][0]
    assert [t["topicName"] for t in only["topics"]] == ["other"]
    assert two.json("mirror", "describe", "--failed")["mirrors"][0]["topics"] == []

    refused = two.fails("produce", "orders", "--value", "mine")
    assert "kagami mirror stop dc2" in refused.text

    assert "paused" in two.run("mirror", "pause", "dc2", "--topics", "other")
    assert "PAUSED" in two.run("mirror", "describe", "dc2", "--topics", "other")
    assert two.fails("mirror", "pause", "dc2", "--topics", "other").status == 1
    two.run("mirror", "resume", "dc2", "--topics", "other")

    dry = two.run("mirror", "stop", "dc2", "--topics", "orders", "--dry-run")
    assert "orders would be writable" in dry and "Nothing was changed" in dry
    report = two.run("mirror", "stop", "dc2", "--topics", "orders")
    assert "orders is writable. It has everything that the source was known to have" in report
    assert "MIRRORING" in two.run("mirror", "list") # the other one goes on
    assert "kagami mirror stop" in two.fails("mirror", "delete", "dc2").text
    two.run("produce", "orders", "--value", "mine", "--partition", 0)
    stopped = two.json("mirror", "stop", "dc2", "--topics", "other")["topics"]
    assert [(t["name"], t["partitions"][0]["state"]) for t in stopped] == [("other", "STOPPED")]
    assert "STOPPED AT" in two.run("mirror", "describe", "dc2")
    two.run("mirror", "delete", "dc2")
    assert two.json("mirror", "list")["mirrors"] == []


def test_what_may_be_missing_is_said_in_a_sentence(two):
    two.mirrored("orders")
    two.run("mirror", "pause", "dc2")
    two.write("orders", range(7), "--partition", 1)
    two.source.kill()
    report = two.run("mirror", "stop", "dc2")
    assert "orders is writable. It has everything that the source was known to have (last seen " in report # known: not what came after the pause
    assert two.run("consume", "orders", "--until-end").count("\n") == 1000


def test_one_topic_of_several_that_fails_gives_status_1(two):
    two.run("mirror", "create", "dc2", "--source", two.source.bootstrap)
    failed = two.fails("mirror", "start", "dc2", "--topics", "orders,no-such-topic")
    assert failed.status == 1 and "no-such-topic" in failed.stderr and "orders" in failed.stdout
    assert two.fails("mirror", "start", "dc2", "--topics", "no-such-topic", "--watch").status == 1 # nothing started: nothing to wait for
    for arguments in (["start", "dc2"], ["start", "dc2", "--topics", "a,,b"], ["start", "dc2", "--topics", "("], ["pause", "dc2", "--topics", "o.*"],
                      ["create", "dc3"], ["create", "dc3", "--source", two.source.bootstrap, "--set", "novalue"]):
        assert two.fails("mirror", *arguments).status == 2, arguments
    assert "dc9" in two.fails("mirror", "describe", "dc9").text
    assert two.fails("topic", "delete", "nothing", "other-nothing").stderr.count("nothing") >= 2


def test_a_mirror_is_made_from_a_file_of_settings(two, tmp_path):
    settings = tmp_path / "dc2.properties"
    settings.write_text(f"bootstrap.servers={two.source.bootstrap}\nfetch.max.bytes=1048576\n")
    two.run("mirror", "create", "dc2", "--config", settings, "--set", "fetch.max.bytes=2097152")
    configs = {c["name"]: c["value"] for c in two.json("mirror", "describe", "dc2")["mirrors"][0]["config"]}
    assert configs["fetch.max.bytes"] == "2097152"
    assert "fetch.max.bytes" in two.fails("mirror", "create", "dc3", "--source", two.source.bootstrap, "--set", "fetch.max.bites=1").text


# ---- verify ----


def test_verify_says_what_was_compared(two):
    two.mirrored("orders,other")
    answer = two.json("mirror", "verify", "dc2")
    assert answer["equal"] and answer["batches"] >= 20
    assert {(p["topicName"], p["partitionIndex"]): p["toOffset"] for p in answer["partitions"]} == {("orders", 0): 500, ("orders", 1): 500, ("other", 0): 0}
    text = two.run("mirror", "verify", "dc2", "--topics", "orders")
    assert "equal to the byte" in text and "other" not in text
    two.run("mirror", "stop", "dc2")
    two.write("orders", range(10), "--partition", 0)
    two.run("produce", "orders", "--partition", 0, "--value", "mine")
    after = two.json("mirror", "verify", "dc2", "--topics", "orders") # up to the stop: what each wrote after it is its own
    assert after["equal"] and after["partitions"][0]["toOffset"] == 500
    assert "nothing" not in two.fails("mirror", "verify", "dc2", "--topics", "nosuch").stdout


def test_verify_finds_a_byte_that_differs(two):
    two.mirrored("orders")
    two.destination.stop()
    path = os.path.join(two.destination.partition_folder("orders", 1), f"{0:020}.log")
    with open(path, "r+b") as log: # the partition leader epoch of the second batch: outside its CRC, so that nothing else notices
        size = 12 + int.from_bytes(log.read(12)[8:], "big")
        log.seek(size)
        offset = int.from_bytes(log.read(8), "big")
        log.seek(size + 15)
        epoch = log.read(1)
        log.seek(size + 15)
        log.write(bytes([epoch[0] + 1]))
    two.destination.restart()
    failed = two.fails("mirror", "verify", "dc2")
    assert failed.status == 1 and "DIFFERENT" in failed.stdout
    assert f"orders-1 differs in the batch at offset {offset}: partitionLeaderEpoch is {epoch[0]} at the source" in failed.stderr
    assert "orders-0      " not in failed.stderr
    done = subprocess.run([COMMAND, "--bootstrap-server", two.destination.bootstrap, "--json", "mirror", "verify", "dc2"], capture_output=True, check=False)
    assert done.returncode == 1
    bad = [p for p in json.loads(done.stdout)["partitions"] if not p["equal"]]
    assert [(p["partitionIndex"], p["difference"]["field"], p["difference"]["offset"]) for p in bad] == [(1, "partitionLeaderEpoch", offset)]


# ---- Watching, ending ----


def on_a_terminal(arguments, until, timeout=60):
    """Runs the command with a terminal for its output until `until(output)` holds, then Ctrl-C; (status, output)."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([COMMAND, *arguments], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        output, interrupted, deadline = b"", False, time.monotonic() + seconds(timeout)
        while True:
            assert time.monotonic() < deadline, f"still waiting after {output[-500:]!r}"
            ready, _, _ = select.select([ours], [], [], 0.2)
            if ready:
                try:
                    part = os.read(ours, 4096)
                except OSError: # the other side is closed
                    part = b""
                if not part:
                    break
                output += part
            if not interrupted and until(output):
                interrupted = True
                process.send_signal(signal.SIGINT)
        os.close(ours)
        return process.wait(), output.decode()


def test_describe_watch_shows_progress_in_place_until_ctrl_c(two):
    two.mirrored("orders,other")
    status, output = on_a_terminal(["--bootstrap-server", two.destination.bootstrap, "mirror", "describe", "dc2", "--watch"],
                                   lambda out: out.count(b"100%") >= 4)
    assert status == 0, output
    assert "\x1b[2A" in output and "[####################] 100%" in output, output # two lines, written over


def test_consume_goes_on_with_new_records_until_ctrl_c(two):
    command = ["--bootstrap-server", two.source.bootstrap, "consume", "other", "--from", "latest"]
    with subprocess.Popen([COMMAND, *command], stdout=subprocess.PIPE, text=True) as process:
        found = []
        for i in range(60): # it says nothing when it has found the end: write until it reads
            two.write("other", [f"record {i}"])
            if select.select([process.stdout], [], [], 0.3)[0]:
                found.append(process.stdout.readline().strip())
                break
        assert found and found[0].startswith("record "), found
        process.send_signal(signal.SIGINT)
        assert process.wait(seconds(30)) == 0


def test_a_closed_pipe_ends_it_quietly_and_a_full_disk_does_not(two):
    two.write("other", range(50000), "--batch-records", 5000) # more than a pipe takes
    command = [COMMAND, "--bootstrap-server", two.source.bootstrap, "consume", "other"] # without an end of its own
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(seconds(30)) == 141
    with open("/dev/full", "wb") as full:
        done = subprocess.run([COMMAND, "--bootstrap-server", two.source.bootstrap, "topic", "list"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1 and b"could not be written" in done.stderr


# ---- Records ----


def test_reading_begins_where_it_is_told(two):
    def read(*options):
        return kagami("consume", "other", "--format", "%o:%v", *options, bootstrap=two.source.bootstrap).split()
    two.write("other", ["a"], "--timestamp", 1000000000000)
    two.write("other", ["b"], "--timestamp", "2001-09-09T01:46:41Z")
    two.write("other", ["c", "d"])
    assert read("--until-end") == ["0:a", "1:b", "2:c", "3:d"]
    assert read("--from", 1, "--count", 2) == ["1:b", "2:c"]
    assert read("--from", "@1000000000001", "--until-end") == ["1:b", "2:c", "3:d"]
    assert read("--from", "@2001-09-09T01:46:42Z", "--until-end") == ["2:c", "3:d"]
    assert read("--from", "@9999999999999", "--until-end") == []
    assert read("--from", "latest", "--until-end") == []
    with pytest.raises(CommandFailed) as failed:
        read("--from", 5)
    assert "from 0 up to 4" in failed.value.text
    kagami("consume", "other", "--partition", 0, "--from", 4, "--until-end", bootstrap=two.source.bootstrap)


def test_lines_with_keys_headers_and_nulls(two):
    done = kagami_json("produce", "other", "--headers", "--key-separator", "=", "--null", "NULL", bootstrap=two.source.bootstrap,
                       stdin="h:1,g:\tk=v\n\tNULL=NULL\n")
    assert (done["name"], done["baseOffset"], done["recordsCount"], done["errorCode"]) == ("other", 0, 2, 0)
    records = kagami("--json", "consume", "other", "--until-end", bootstrap=two.source.bootstrap).splitlines()
    first, second = [json.loads(line) for line in records]
    assert (first["key"], first["value"], first["headers"]) == ("k", "v", [{"key": "h", "value": "1"}, {"key": "g", "value": ""}])
    assert (second["key"], second["value"], second["headers"]) == (None, None, [])
    with pytest.raises(CommandFailed) as failed: # what stands before the bad line is written, and the line is named
        kagami("produce", "other", "--key-separator", "=", bootstrap=two.source.bootstrap, stdin="a=1\nno separator\nb=2\n")
    assert "Line 2" in failed.value.stderr
    assert kagami("consume", "other", "--until-end", bootstrap=two.source.bootstrap).splitlines()[2:] == ["a\t1"]


def test_bytes_come_out_as_they_went_in(two):
    value = bytes(set(range(256)) - {10})
    subprocess.run([COMMAND, "--bootstrap-server", two.source.bootstrap, "produce", "other"], input=value + b"\n", check=True, stdout=subprocess.DEVNULL)
    command = [COMMAND, "--bootstrap-server", two.source.bootstrap, "consume", "other", "--until-end"]
    assert subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout == value + b"\n"


def test_read_committed_drops_what_was_aborted(kafka, peers, topic, make_kagamid):
    create_topic(peers("librdkafka"), kafka.bootstrap, topic)
    with peers("librdkafka").producer(kafka.bootstrap, transactional_id=topic) as producer:
        for i in range(9):
            producer.begin()
            producer.send(topic, [b"%d" % i, b"%d again" % i])
            if i % 3 == 1:
                producer.abort()
            else:
                producer.commit()
    committed = [text for i in range(9) if i % 3 != 1 for text in (f"{i}", f"{i} again")]
    daemon = make_kagamid()
    kagami("mirror", "create", "dc2", "--source", kafka.bootstrap, bootstrap=daemon.bootstrap)
    kagami("mirror", "start", "dc2", "--topics", topic, "--watch", bootstrap=daemon.bootstrap)
    for bootstrap in (kafka.bootstrap, daemon.bootstrap): # nobody has told the mirror anything but the batches
        assert kagami("consume", topic, "--until-end", "--read-committed", bootstrap=bootstrap).splitlines() == committed
        assert len(kagami("consume", topic, "--until-end", bootstrap=bootstrap).splitlines()) == 18


def test_dump_log_of_a_damaged_file_shows_what_stands_before(two, tmp_path):
    path = os.path.join(two.source.partition_folder("orders", 0), f"{0:020}.log")
    with open(path, "rb") as log:
        data = bytearray(log.read())
    size = 12 + int.from_bytes(data[8:12], "big")
    data[size + 70] ^= 1
    torn = tmp_path / f"{0:020}.log"
    torn.write_bytes(data[:-3])
    with pytest.raises(CommandFailed) as failed:
        kagami("dump-log", torn, "--json")
    lines = [json.loads(line) for line in failed.value.stdout.splitlines()]
    assert lines[0]["isvalid"] and not [line for line in lines if line.get("baseOffset") == 50][0]["isvalid"]
    assert [line["errorPosition"] for line in lines if "errorPosition" in line][0] == size
    assert f"position {size}" in failed.value.stderr and "ends inside a batch" in failed.value.stderr
    assert torn.read_bytes() == bytes(data[:-3])
