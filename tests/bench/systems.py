"""What is measured: kagamid and a real Kafka as processes, alike to the rows, and MirrorMaker 2."""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import kafka_peer
from processes import die_with_parent, free_ports
from wire import Client

# As bin/kafka-server-start.sh starts it. The tests' broker trades speed for a quick start; that would be no yardstick.
KAFKA_OPTIONS = ["-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
                 "-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true"]
# Both: deleted topics give their room back soon.
SETTINGS = {"log.segment.delete.delay.ms": "1000"}
# Kafka maps 10 MB an index file and the disk reads ahead in them; without this it falls to a tenth with 1,000 partitions.
KAFKA_SETTINGS = {**SETTINGS, "log.index.size.max.bytes": "262144"}

_made = [] # every process that may still run: end_all()


class BenchFailed(Exception):
    pass


def end_all():
    """Whatever happened: nothing that the bench has started goes on."""
    for process in list(_made):
        try:
            process.kill()
        except (OSError, subprocess.SubprocessError, kafka_peer.KafkaFailed) as why:
            print(f"{process}: {why}", file=sys.stderr)


class Process:
    """One process that is measured."""
    name = None

    def __init__(self, folder):
        self.folder = folder
        _made.append(self)

    def pid(self):
        raise NotImplementedError

    def kill(self):
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

    def reset_peak(self):
        with open(f"/proc/{self.pid()}/clear_refs", "w", encoding="ascii") as f:
            f.write("5")

    def cpu_s(self):
        return time.clock_gettime(((~self.pid()) << 3) | 2) # the clock id of a process: clock_getcpuclockid(3)

    def remove(self):
        """The process and its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self in _made:
            _made.remove(self)


class System(Process):
    """A broker."""

    def __init__(self, folder):
        super().__init__(folder)
        self.bootstrap = None
        self.topics = 0

    def prepare(self):
        """What is done once in a folder's life, so that a measured start does not do it."""

    def log(self, start=0):
        """For the mirror of tests/lib, which shows it when something fails."""
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as f:
            return f.read()[start:]

    def drop_cache(self, topic):
        """The topic's files leave the page cache."""
        for path in glob.glob(os.path.join(self.folder, "data", glob.escape(topic) + "-*", "*.log")):
            fd = os.open(path, os.O_RDWR)
            try:
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)

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
        with Client(self.bootstrap, timeout_s=timeout) as own:
            for some in ({0, partitions // 2, partitions - 1}, range(partitions)): # asking for thousands all the time would take the broker's CPU
                while not self._ready(client or own, name, some):
                    if time.monotonic() > deadline:
                        raise BenchFailed(f"{self.name}: {name} is not there after {timeout} s")
                    time.sleep(0.02)

    def _ready(self, client, name, partitions):
        """They answer (Kafka names a leader before that broker has opened the log)."""
        answer = client.send("ListOffsets", 6, {"replicaId": -1, "isolationLevel": 0, "topics": [
            {"name": name, "partitions": [{"partitionIndex": i, "currentLeaderEpoch": -1, "timestamp": -1} for i in sorted(partitions)]}]})
        return all(p["errorCode"] == 0 for t in answer["topics"] for p in t["partitions"])

    def delete_topic(self, name):
        with Client(self.bootstrap, timeout_s=120) as client:
            client.send("DeleteTopics", 5, {"topicNames": [name], "timeoutMs": 60000})

    def ends(self, topic, partitions):
        """{(topic, partition): end offset}; -1 where the partition is not there (yet)."""
        with Client(self.bootstrap, timeout_s=60) as client:
            answer = client.send("ListOffsets", 6, {"replicaId": -1, "isolationLevel": 0, "topics": [{"name": topic, "partitions": [
                {"partitionIndex": i, "currentLeaderEpoch": -1, "timestamp": -1} for i in range(partitions)]}]})
        return {(topic, p["partitionIndex"]): -1 if p["errorCode"] else p["offset"] for p in answer["topics"][0]["partitions"]}


class Kagami(System):
    name = "kagami"

    def __init__(self, folder, build, settings=None):
        super().__init__(folder)
        self.build, self.settings = build, {**SETTINGS, **(settings or {})}
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

    def prepare(self):
        self.broker.format()

    def pid(self):
        return self.broker.pid()

    def stop(self):
        self.broker.stop()

    def kill(self):
        self.broker.kill()


# As bin/connect-mirror-maker.sh starts it.
MIRROR_MAKER_OPTIONS = ["-Xms256M", "-Xmx2G", *KAFKA_OPTIONS[2:], "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
# Tuned: large fetches, batches and buffers, no waiting for more, no chores. Untuned it copies at a quarter of the speed.
MIRROR_MAKER_SETTINGS = {
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "{flow}.enabled": "true",
    "{back}.enabled": "false",
    "emit.heartbeats.enabled": "false",
    "{flow}.emit.heartbeats.enabled": "false",
    "{back}.emit.heartbeats.enabled": "false",
    "{flow}.emit.checkpoints.enabled": "false",
    "{flow}.offset.lag.max": "10000000",
    "{flow}.sync.topic.acls.enabled": "false",
    "{flow}.refresh.topics.enabled": "false",
    "{flow}.refresh.groups.enabled": "false",
    **{f"{name}.replication.factor": "1" for name in ("", "checkpoints.topic", "heartbeats.topic", "offset-syncs.topic", "offset.storage",
                                                        "status.storage", "config.storage")},
    "{source}.consumer.fetch.max.bytes": "52428800",
    "{source}.consumer.max.partition.fetch.bytes": "10485760",
    "{source}.consumer.max.poll.records": "10000",
    "{source}.consumer.receive.buffer.bytes": "4194304",
    "dst.producer.batch.size": "524288",
    "dst.producer.linger.ms": "0",
    "dst.producer.buffer.memory": "134217728",
    "dst.producer.send.buffer.bytes": "4194304",
    "dst.producer.max.in.flight.requests.per.connection": "5",
    "dst.producer.acks": "1",
    "dst.producer.enable.idempotence": "false",
}


class MirrorMaker(Process):
    """MirrorMaker 2 between two brokers, as a process of its own. A name of its own for the source each time: under it the positions are kept."""
    name = "MirrorMaker 2"
    count = 0

    def __init__(self, folder, source, destination, topic, tasks):
        super().__init__(folder)
        MirrorMaker.count += 1
        alias = f"src{MirrorMaker.count}"
        names = {"source": alias, "flow": f"{alias}->dst", "back": f"dst->{alias}"}
        self.lines = {"clusters": f"{alias}, dst", f"{alias}.bootstrap.servers": source.bootstrap, "dst.bootstrap.servers": destination.bootstrap,
                      f"{alias}->dst.topics": topic, "tasks.max": str(tasks),
                      **{key.format(**names).lstrip("."): value for key, value in MIRROR_MAKER_SETTINGS.items()}}
        self.process = None

    def start(self):
        os.makedirs(self.folder, exist_ok=True)
        path = os.path.join(self.folder, "mirror-maker.properties")
        with open(path, "w", encoding="ascii") as f:
            f.writelines(f"{key} = {value}\n" for key, value in self.lines.items())
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(kafka_peer.mirror_maker_command(path, *MIRROR_MAKER_OPTIONS), stdin=subprocess.DEVNULL, stdout=log, # pylint: disable=consider-using-with,subprocess-popen-preexec-fn
                                            stderr=subprocess.STDOUT, preexec_fn=die_with_parent)
        return self

    def pid(self):
        return self.process.pid if self.process and self.process.poll() is None else None

    def kill(self):
        if self.running():
            self.process.kill()
        if self.process:
            self.process.wait(60)
            self.process = None


class Tool:
    """The load generator."""

    def __init__(self, build):
        self.program = os.path.join(build, "tests", "bench", "kagami_bench")

    def begin(self, command, **options):
        """Runs beside us; result() of what this returns waits for it."""
        return Running([self.program, command, *(word for key, value in options.items() for word in ("--" + key.replace("_", "-"), str(value)))])

    def __call__(self, command, **options):
        return self.begin(command, **options).result()


class Running:
    """A run of the load generator."""

    def __init__(self, line):
        self.line = line
        self.process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, # pylint: disable=consider-using-with,subprocess-popen-preexec-fn
                                        preexec_fn=die_with_parent)
        _made.append(self)

    def result(self):
        """Its figures. Whoever gives up waiting (a row's time limit) ends it."""
        try:
            out, errors = self.process.communicate()
        finally:
            self.kill()
        if self.process.returncode != 0:
            raise BenchFailed(f"{' '.join(self.line[1:])}: {errors.strip()}")
        return json.loads(out)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self in _made:
            _made.remove(self)
