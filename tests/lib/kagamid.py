"""The programs under test: kagamid as a process of its own, and the command line kagami."""
import json
import os
import re
import select
import signal
import subprocess
import time

from processes import die_with_parent
from waiting import seconds

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("KAGAMI_BUILD") or os.path.join(TESTS, "..", "build")
DAEMON = os.path.join(BUILD, "kagamid")
COMMAND = os.path.join(BUILD, "kagami")

# What must never stand in the log of a daemon: a sanitizer's word, or a failed assertion of ours.
BAD_LOG = re.compile(r"AddressSanitizer|ThreadSanitizer|LeakSanitizer|UndefinedBehavior|runtime error:|[Aa]ssertion .*failed|stack smashing")


class StartFailed(Exception):
    def __init__(self, status, log):
        super().__init__(f"kagamid ended with status {status} instead of serving:\n{log}")
        self.status, self.log = status, log


class Kagamid:
    """One daemon on one data folder. It keeps its port over restarts."""

    def __init__(self, folder, settings=None, fault=None, switches=(), listen="127.0.0.1:0"):
        self.folder = str(folder)
        self.data = os.path.join(self.folder, "data")
        self.log_path = os.path.join(self.folder, "kagamid.log")
        self.settings = dict(settings or {})
        self.fault, self.switches = fault, list(switches)
        self.listen = listen
        self.bootstrap = self.cluster_id = None
        self.process = None
        self._mark = 0
        os.makedirs(self.folder, exist_ok=True)

    def _environment(self):
        environment = {**os.environ, "KAGAMI_SWITCHES": ",".join(self.switches)}
        environment.pop("KAGAMI_FAULT", None)
        if self.fault:
            environment["KAGAMI_FAULT"] = self.fault
        return environment

    def start(self, timeout=60):
        self.launch()
        return self.wait_ready(timeout)

    def launch(self):
        """Starts the process and does not wait until it serves."""
        command = [DAEMON, "--data", self.data, "--listen", self.bootstrap or self.listen]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        self._mark = self.log_size()
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, # pylint: disable=consider-using-with,subprocess-popen-preexec-fn
                                            env=self._environment(), preexec_fn=die_with_parent)

    def wait_ready(self, timeout=60):
        deadline = time.monotonic() + seconds(timeout)
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                self.kill()
                raise AssertionError(f"kagamid printed no ready line within {seconds(timeout):.0f} s:\n{self.log(self._mark)[-3000:]}")
            part = os.read(self.process.stdout.fileno(), 4096)
            if not part:
                raise StartFailed(self.process.wait(), self.log(self._mark)[-3000:])
            line += part
        match = re.fullmatch(r"kagamid ready: (\S+:\d+) cluster=(\S+)\n", line.decode())
        assert match, f"this is not the ready line: {line!r}"
        self.bootstrap, self.cluster_id = match.groups()
        return self

    def running(self):
        return self.process is not None and self.process.poll() is None

    def stop(self, timeout=60):
        """SIGTERM: must be a clean end with status 0."""
        if not self.running():
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(seconds(timeout))
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"kagamid did not end within {seconds(timeout):.0f} s of SIGTERM:\n{self.log()[-3000:]}") from None
        assert status == 0, f"kagamid ended with status {status} after SIGTERM:\n{self.log()[-3000:]}"

    def kill(self):
        if self.running():
            self.process.kill()
        if self.process:
            self.process.wait()

    def wait_killed(self, timeout=60):
        """Waits until a fault point has ended the process as kill -9 does."""
        try:
            status = self.process.wait(seconds(timeout))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the fault point {self.fault} was not passed within {seconds(timeout):.0f} s:\n{self.log()[-3000:]}") from None
        assert status == -signal.SIGKILL, f"kagamid ended with status {status}, not by its fault point:\n{self.log()[-3000:]}"

    def restart(self, fault=None, **changes):
        """Starts again on the same folder and port (after stop, kill or a fault point)."""
        assert not self.running()
        self.fault = fault
        for name, value in changes.items():
            setattr(self, name, value)
        return self.start()

    def log_size(self):
        return os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0

    def log(self, start=0):
        if not os.path.exists(self.log_path):
            return ""
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            f.seek(start)
            return f.read()

    def partition_folder(self, topic, partition=0):
        return os.path.join(self.data, f"{topic}-{partition}")

    def finish(self):
        """At a test's end: a clean end, and nothing bad in the log."""
        try:
            self.stop()
        finally:
            self.kill()
        bad = [line for line in self.log().splitlines() if BAD_LOG.search(line)]
        assert not bad, f"the daemon's log {self.log_path} has: {bad[0]}"


class CommandFailed(Exception):
    def __init__(self, arguments, done):
        super().__init__(f"kagami {' '.join(arguments)}: status {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        self.status, self.stdout, self.stderr = done.returncode, done.stdout, done.stderr
        self.text = done.stdout + done.stderr


def kagami(*arguments, bootstrap=None, timeout=120, check=True, stdin=None):
    """Runs the command line; returns its stdout. Raises CommandFailed when the status is not 0."""
    command = [COMMAND] + (["--bootstrap-server", bootstrap] if bootstrap else []) + [str(a) for a in arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", timeout=seconds(timeout),
                          check=False, input=stdin if stdin is not None else "")
    assert not BAD_LOG.search(done.stderr), f"kagami {' '.join(command[1:])}:\n{done.stderr[-4000:]}"
    if check and done.returncode != 0:
        raise CommandFailed(command[1:], done)
    return done.stdout


def kagami_json(*arguments, **options):
    """The same with --json: one document, or a list when each line is one."""
    text = kagami("--json", *arguments, **options)
    try:
        return json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]


def json_lines(*arguments, **options):
    """The same for commands that print a line of JSON an item: always a list."""
    return [json.loads(line) for line in kagami("--json", *arguments, **options).splitlines() if line.strip()]
