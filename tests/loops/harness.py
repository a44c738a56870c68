"""What the loops share: the writers' program, kills at drawn moments, how many rounds."""
import json
import os
import random
import select
import subprocess
import sys
import time

import ledger as books
from processes import die_with_parent
from raw import RawError
from waiting import seconds, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDS = 200 # a writer hands to the client in a round, at most: the work does not grow with the time that a round takes
SANITIZED = bool(os.environ.get("KAGAMI_SANITIZE"))


def rounds(usual, sanitized):
    """How many rounds: fewer in a sanitizer's build. KAGAMI_ROUNDS says another number."""
    return int(os.environ.get("KAGAMI_ROUNDS") or (sanitized if SANITIZED else usual))


def drawn(what):
    """A random generator for the moments of a loop. KAGAMI_SEED draws them again: the processes around them have a clock of their own."""
    seed = int(os.environ.get("KAGAMI_SEED") or time.time_ns() // 1000 % 10**9)
    print(f"{what}: KAGAMI_SEED={seed}")
    return random.Random(f"{seed} {what}")


def spec(topic, partitions, compression="none", rate=1000, generation=0, acks="all", idempotent=True, one_by_one=False, linger_ms=1):
    """generation: so many records, then a new producer (0: never). one_by_one: waits for each answer, so that a batch is one record."""
    return {"topic": topic, "partitions": partitions, "compression": compression, "rate": rate / 4 if SANITIZED else rate, "generation": generation, "acks": acks,
            "idempotent": idempotent, "one_by_one": one_by_one, "linger_ms": linger_ms, "records": RECORDS // 4 if one_by_one else RECORDS}


class Writers:
    """The program writers.py, running. folder: where it leaves its lists."""

    def __init__(self, folder, bootstrap, rng, specs, first_number=0):
        self.folder = str(folder)
        os.makedirs(self.folder, exist_ok=True)
        self.numbers = list(range(first_number, first_number + len(specs)))
        self._records = sum(s["records"] for s in specs)
        self.log_path = os.path.join(self.folder, "writers.log")
        with open(self.log_path, "ab") as log:
            self._process = subprocess.Popen([sys.executable, os.path.join(HERE, "writers.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, # pylint: disable=consider-using-with,subprocess-popen-preexec-fn
                                             preexec_fn=die_with_parent)
        seed = rng.randrange(10**9)
        self._post({"folder": self.folder, "bootstrap": bootstrap, "writers": {n: {**s, "seed": seed} for n, s in zip(self.numbers, specs)}})
        self._answer("their configuration")

    def _post(self, command):
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()

    def ask(self, op, timeout=60, **fields):
        """A command, and the report: writer -> {topic, errors, outstanding, sent}."""
        self._post({"op": op, **fields})
        return self._answer(op, timeout)

    def _answer(self, op, timeout=60):
        ready, _, _ = select.select([self._process.stdout], [], [], seconds(timeout))
        line = self._process.stdout.readline() if ready else b""
        assert line, f"the writers gave no answer to {op} within {seconds(timeout):.0f} s: {self.log()}"
        return {int(n): report for n, report in json.loads(line).items()}

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()[-2000:]

    def acknowledged(self, topic):
        """writer -> how many records, by its list."""
        def size(n):
            path = os.path.join(self.folder, f"{n}@{topic}.acks")
            return os.path.getsize(path) // books.ACK.size if os.path.exists(path) else 0
        return {n: size(n) for n in self.numbers}

    def go_on(self, topic, rng=None, each=10):
        """Lets them write on, until each has had some further records acknowledged, by itself; then, with rng, until a drawn number more has: the moment of a kill."""
        before = self.acknowledged(topic)
        self.ask("allow")
        total = sum(before.values()) + (rng.randint(0, self._records // 2) if rng else 0)

        def all_went_on():
            assert self._process.poll() is None, f"the writers ended: {self.log()}"
            now = self.acknowledged(topic)
            return all(now[n] >= before[n] + each for n in before) and sum(now.values()) >= total
        wait_until(all_went_on, 60, lambda: f"not every writer goes on: {before} then, {self.acknowledged(topic)} now; {self.log()}", pause=0.005)

    def pause(self):
        """Stops writing, waits until nothing is outstanding. The report, in which no idempotent writer may have an error."""
        report = self.ask("pause")
        errors = {n: r["errors"] for n, r in report.items() if r["errors"]}
        assert not errors, f"writers were told of errors: {errors}"
        return report

    def close(self):
        self._process.stdin.close()
        self._process.wait()


def sent(report, topic):
    """For Ledger.complete."""
    return {(n, g, p): count for n, r in report.items() if r["topic"] == topic for g, p, count in r["sent"]}


class Books:
    """A topic of one broker under load: its raw logs, a consumer that lives on, the ledger."""

    def __init__(self, folder, bootstrap, topic, partitions, once=True, anew=None):
        self.bootstrap, self.topic, self.partitions = bootstrap, topic, partitions
        self.logs = [books.RawLog(topic, p) for p in range(partitions)]
        self.ledger = books.Ledger(str(folder), topic, partitions, once, anew)
        self.reader = books.Reader(bootstrap, topic, partitions)

    def check(self):
        """All that was acknowledged until now is there, once, where it was said to be; what was there before has not changed; nothing is missing in between."""
        self.ledger.take_acks()
        for log in self.logs:
            log.read(self.bootstrap)
        for record in self.reader.read_to([log.end for log in self.logs]):
            self.ledger.saw(*record)
        self.ledger.settle()

    def final(self, report, another=None):
        """Nothing is outstanding: every record stands there. another: a client that reads all of it again."""
        self.check()
        self.ledger.complete(sent(report, self.topic))
        if another:
            for p in range(self.partitions):
                read = another.read(self.bootstrap, self.topic, p, timeout_ms=120000)
                self.ledger.same(p, list(zip(read.offsets, (r["key"] for r in read.records))))

    def close(self):
        self.reader.close()


def read_copies(daemon, topic, copies):
    """Reads a mirror's copy on; a partition that is not there yet has nothing."""
    for copy in copies:
        try:
            copy.read(daemon.bootstrap)
        except RawError as e:
            if e.code != 3 or copy.data: # UNKNOWN_TOPIC_OR_PARTITION
                raise
    return copies


def wait_follows(mirror, daemon, copies, writers, rng):
    """Lets the writers go on to a drawn number of records, and waits until something of it is in every copy."""
    topic, ends = copies[0].topic, [log.end for log in read_copies(daemon, copies[0].topic, copies)]
    writers.go_on(topic, rng)

    def further():
        states = set(mirror.states().values())
        assert states <= {"MIRRORING", "PREPARING"}, mirror.partitions()
        return all(log.end > end for log, end in zip(read_copies(daemon, topic, copies), ends))
    wait_until(further, 60, lambda: f"the mirror does not go on: {mirror.partitions()}\n{daemon.log()[-2000:]}")


def interrupt(daemon, rng, hard=1.0):
    """Ends the daemon and starts it again; now and then it is killed once more while it starts. hard: how often by SIGKILL, otherwise SIGTERM."""
    time.sleep(rng.uniform(0, 0.01)) # a part of the moment
    if rng.random() < hard:
        daemon.kill()
    else:
        daemon.stop()
    if rng.random() < 0.25:
        daemon.launch()
        time.sleep(rng.uniform(0, 0.15)) # likewise
        daemon.kill()
    daemon.restart()
