"""What is measured: kagamid and a real Kafka as processes, alike to the rows."""
import json
import os
import shutil
import signal
import subprocess
import time

import kafka_peer
from processes import die_with_parent, free_ports
from wire import Client

# As bin/kafka-server-start.sh starts it. The tests' broker trades speed for a quick start; that would be no yardstick.
KAFKA_OPTIONS = ["-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
                 "-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true"]
# Kafka maps 10 MB an index file and the disk reads ahead in them; without this it falls to a tenth with 1,000 partitions.
KAFKA_SETTINGS = {"log.index.size.max.bytes": "262144", "log.segment.delete.delay.ms": "1000", "num.partitions": "1"}


class BenchFailed(Exception):
    pass


class System:
    name = None

    def __init__(self, folder):
        self.folder = folder
        self.bootstrap = None
        self.topics = 0

    def pid(self):
        raise NotImplementedError

    def running(self):
        return self.pid() is not None

    def _status(self, key):
        with open(f"/proc/{self.pid()}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) / 1024 for line in f if line.startswith(key + ":"))

    def rss_mb(self):
        return self._status("VmRSS")

    def peak_mb(self):
        return self._status("VmHWM")

    def log(self, start=0):
        """For the mirror of tests/lib, which shows it when something fails."""
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as f:
            return f.read()[start:]

    def reset_peak(self):
        with open(f"/proc/{self.pid()}/clear_refs", "w", encoding="ascii") as f:
            f.write("5")

    def cpu_s(self):
        return time.clock_gettime(((~self.pid()) << 3) | 2) # the clock id of a process: clock_getcpuclockid(3)

    def create_topic(self, partitions=1, configs=None, timeout=120):
        """A new topic, usable when this returns; its name."""
        self.topics += 1
        name = f"bench-{self.topics}"
        with Client(self.bootstrap, timeout_s=timeout) as client:
            answer = client.send("CreateTopics", 7, {
                "topics": [{"name": name, "numPartitions": partitions, "replicationFactor": 1, "assignments": [],
                            "configs": [{"name": k, "value": str(v)} for k, v in (configs or {}).items()]}],
                "timeoutMs": timeout * 1000, "validateOnly": False})
            if answer["topics"][0]["errorCode"]:
                raise BenchFailed(f"{self.name}: CreateTopics: {answer['topics'][0]}")
            self.wait_ready(name, partitions, timeout, client)
        return name

    def wait_ready(self, name, partitions=1, timeout=120, client=None):
        deadline = time.monotonic() + timeout
        while not self._ready(client or Client(self.bootstrap), name, partitions):
            if time.monotonic() > deadline:
                raise BenchFailed(f"{self.name}: {name} is not there after {timeout} s")
            time.sleep(0.02)

    def _ready(self, client, name, partitions):
        """Every partition answers (Kafka names a leader before that broker has opened the log)."""
        answer = client.send("ListOffsets", 6, {"replicaId": -1, "isolationLevel": 0, "topics": [
            {"name": name, "partitions": [{"partitionIndex": i, "currentLeaderEpoch": -1, "timestamp": -1} for i in range(partitions)]}]})
        return all(p["errorCode"] == 0 for t in answer["topics"] for p in t["partitions"])

    def delete_topic(self, name):
        with Client(self.bootstrap, timeout_s=120) as client:
            client.send("DeleteTopics", 5, {"topicNames": [name], "timeoutMs": 60000})

    def wipe(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class Kagami(System):
    name = "kagami"

    def __init__(self, folder, build, settings=None):
        super().__init__(folder)
        self.build, self.settings = build, dict(settings or {})
        self.port = free_ports(1)
        self.process = None

    def start(self):
        os.makedirs(self.folder, exist_ok=True)
        command = [os.path.join(self.build, "kagamid"), "--data", os.path.join(self.folder, "data"), "--listen", f"127.0.0.1:{self.port}"]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, # pylint: disable=consider-using-with,subprocess-popen-preexec-fn
                                            preexec_fn=die_with_parent)
        if b"ready" not in self.process.stdout.readline():
            raise BenchFailed(f"kagamid did not start, see {self.folder}/log")
        self.bootstrap = f"127.0.0.1:{self.port}"
        return self

    def pid(self):
        return self.process.pid if self.process and self.process.poll() is None else None

    def end(self, number):
        if self.running():
            self.process.send_signal(number)
        if self.process:
            self.process.wait(120)
            self.process.stdout.close()
            self.process = None

    def stop(self):
        self.end(signal.SIGTERM)

    def kill(self):
        self.end(signal.SIGKILL)


class Kafka(System):
    name = "kafka"

    def __init__(self, folder, settings=None):
        super().__init__(folder)
        kafka_peer.BROKER_OPTIONS = KAFKA_OPTIONS
        self.broker = kafka_peer.Kafka(folder, free_ports(2), {**KAFKA_SETTINGS, **(settings or {})}, preexec=die_with_parent)
        self.bootstrap = self.broker.bootstrap

    def start(self):
        self.broker.start()
        return self

    def pid(self):
        return self.broker.pid()

    def stop(self):
        self.broker.stop()

    def kill(self):
        self.broker.kill()


class Tool:
    """The load generator."""

    def __init__(self, build):
        self.program = os.path.join(build, "tests", "bench", "kagami_bench")

    def __call__(self, command, timeout=600, **options):
        line = [self.program, command]
        for key, value in options.items():
            line += ["--" + key.replace("_", "-"), str(value)]
        done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout, check=False)
        if done.returncode != 0:
            raise BenchFailed(f"{' '.join(line)}: {done.stderr.strip()}")
        return json.loads(done.stdout)
