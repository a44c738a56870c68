"""Clients that we did not write, as programs that take JSON commands (tests/peers/README.md)."""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time

import kafka_peer
from processes import die_with_parent
from waiting import seconds, wait_until

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PEERS = os.path.join(TESTS, "peers")
BUILD = os.environ.get("KAGAMI_BUILD") or os.path.join(TESTS, "..", "build")
NAMES = ["java", "librdkafka", "franz-go", "kafka-python", "kcat"]


class PeerError(Exception):
    """What the client told its application."""

    def __init__(self, client, command, error):
        super().__init__(f"{client}: {command['op']}: {error['name']} ({error['code']}): {error['message']}")
        self.code, self.name, self.message = error["code"], error["name"], error["message"]


class Unsupported(Exception):
    pass


def _locked_build(name, newest_source, build):
    """Builds the program `name` under $KAGAMI_BUILD/peers unless it is newer than its sources; returns its folder."""
    folder = os.path.join(BUILD, "peers", name)
    os.makedirs(folder, exist_ok=True)
    stamp = os.path.join(folder, ".done")
    with open(os.path.join(folder, ".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(stamp) or os.path.getmtime(stamp) < newest_source:
            build(folder)
            with open(stamp, "w", encoding="utf-8"):
                pass
    return folder


def _run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}:\n{done.stdout[-4000:]}")


def missing(name):
    """None, or why this client cannot run here."""
    if name == "java":
        return kafka_peer.available() or (None if shutil.which("javac") else "javac is not installed")
    if name == "franz-go":
        return None if shutil.which("go") else "go is not installed"
    if name == "kcat":
        return None if shutil.which("kcat") else "kcat is not installed"
    return None


def _command(name):
    if name == "java":
        source = os.path.join(PEERS, "java", "Peer.java")
        folder = _locked_build("java", os.path.getmtime(source),
                               lambda out: _run(["javac", "-nowarn", "-d", out, "-cp", kafka_peer.classpath(), source]))
        return ["java", *kafka_peer.TOOL_OPTIONS, "-cp", folder + ":" + kafka_peer.classpath(), "Peer"]
    if name == "franz-go":
        sources = os.path.join(PEERS, "go")
        newest = max(os.path.getmtime(os.path.join(sources, f)) for f in os.listdir(sources))
        folder = _locked_build("go", newest, lambda out: _run(["go", "build", "-o", os.path.join(out, "peer"), "."], cwd=sources))
        return [os.path.join(folder, "peer")]
    script = {"librdkafka": "python/confluent.py", "kafka-python": "python/kafka_python.py", "kcat": "kcat/peer_kcat.py"}[name]
    return [sys.executable, os.path.join(PEERS, script)]


def encode(value):
    if value is None:
        return None
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


def decode(text):
    return base64.b64decode(text) if isinstance(text, str) else text


def record(key=None, value=None, headers=(), timestamp=None, value_file=None):
    made = {"key": encode(key), "headers": [[name, encode(v)] for name, v in headers]}
    made.update({"value_file": str(value_file)} if value_file else {"value": encode(value)})
    if timestamp is not None:
        made["timestamp"] = timestamp
    return made


class Read:
    """What a consumer was given: records with bytes in key, value and headers; position is None for clients that show none."""

    def __init__(self, answer):
        self.position = answer.get("position")
        self.records = answer["records"]
        for r in self.records:
            r["key"], r["value"] = decode(r["key"]), decode(r["value"])
            r["headers"] = [(name, decode(v)) for name, v in r["headers"]]
        self.offsets = [r["offset"] for r in self.records]
        self.values = [r["value"] for r in self.records]


class Peer:
    """One running client program. Commands are answered in order; a client that hangs is killed and the test fails."""

    def __init__(self, name, log):
        self.name = name
        self.log_path = log
        self._log = open(log, "ab") # pylint: disable=consider-using-with
        self._process = subprocess.Popen(_command(name), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, # pylint: disable=consider-using-with,subprocess-popen-preexec-fn
                                         preexec_fn=die_with_parent)
        self._buffer = b""
        self._next_id = 0
        hello = self.call("hello")
        self.version = hello["version"]
        self.features = set(hello["features"])

    def _line(self, command, timeout):
        deadline = time.monotonic() + seconds(timeout)
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                self._process.kill()
                raise AssertionError(f"{self.name} gave no answer to {command['op']} within {seconds(timeout):.0f} s (log: {self.log_path})")
            part = os.read(self._process.stdout.fileno(), 1 << 20)
            if not part:
                raise AssertionError(f"{self.name} ended in {command['op']} (log: {self.log_path})")
            self._buffer += part
        line, self._buffer = self._buffer.split(b"\n", 1)
        return json.loads(line)

    def send(self, op, **fields):
        """Sends a command without waiting; answer() gives what comes back."""
        self._process.stdin.write(json.dumps({"op": op, **fields}).encode() + b"\n")
        self._process.stdin.flush()

    def answer(self, op, timeout=120):
        command = {"op": op}
        answer = self._line(command, timeout)
        if answer.get("unsupported"):
            raise Unsupported(f"{self.name} has no {op}")
        if not answer["ok"]:
            raise PeerError(self.name, command, answer["error"])
        return answer

    def call(self, op, timeout=120, **fields):
        self.send(op, **fields)
        return self.answer(op, timeout)

    def producer(self, bootstrap, **config):
        return Producer(self, bootstrap, config)

    def read(self, bootstrap, topic, partition=0, isolation="read_uncommitted", **fields):
        """All records from `from_offset` (default: the log start) to the end."""
        if "from_offset" in fields:
            fields["from"] = fields.pop("from_offset")
        return Read(self.call("consumer.read", bootstrap=bootstrap, topic=topic, partition=partition, isolation=isolation, **fields))

    def admin(self, what, bootstrap, **fields):
        if "configs" in fields:
            fields["configs"] = {k: v if v is None else str(v) for k, v in fields["configs"].items()}
        return self.call("admin." + what, bootstrap=bootstrap, **fields)

    def alive(self):
        return self._process.poll() is None

    def close(self):
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def create_topic(peer, bootstrap, topic, partitions=1, configs=()):
    """Creates a topic and waits until all its partitions answer: right after creation Kafka does not know them for a moment, and the Java client
    then sometimes holds a batch back until its delivery timeout."""
    peer.admin("create_topic", bootstrap, topic=topic, partitions=partitions, configs=dict(configs))

    def answers(partition):
        try:
            return peer.admin("list_offset", bootstrap, topic=topic, partition=partition, at="latest")["offset"] == 0
        except PeerError:
            return False
    for partition in range(partitions):
        wait_until(lambda p=partition: answers(p), 30, f"{topic}-{partition} does not answer")


class Producer:
    """A producer that lives in a peer program until close(): its producer id and sequences go on from send to send."""

    def __init__(self, peer, bootstrap, config):
        peer._next_id += 1 # pylint: disable=protected-access
        self.peer = peer
        self.id = f"p{peer._next_id}" # pylint: disable=protected-access
        peer.call("producer.open", id=self.id, bootstrap=bootstrap, **config)

    def try_send(self, topic, records, partition=0, timeout=120):
        """records: of record(), or plain values. A list of {offset} or {error}."""
        made = [r if isinstance(r, dict) else record(value=r) for r in records]
        return self.peer.call("producer.send", id=self.id, topic=topic, partition=partition, records=made, timeout=timeout)["results"]

    def send(self, topic, records, partition=0, timeout=120):
        """The same, where no record may fail: their offsets."""
        results = self.try_send(topic, records, partition, timeout)
        errors = [r["error"] for r in results if "error" in r]
        assert not errors, f"{self.peer.name} could not produce to {topic}-{partition}: {errors[0]}"
        return [r["offset"] for r in results]

    def begin(self):
        self.peer.call("producer.begin", id=self.id)

    def commit(self):
        self.peer.call("producer.commit", id=self.id)

    def abort(self):
        self.peer.call("producer.abort", id=self.id)

    def close(self):
        self.peer.call("producer.close", id=self.id)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.close()
