"""A real Apache Kafka (KRaft, broker and controller in one process) as a peer of tests and of the demo. Standard library only.

The jars come from Maven by pom.xml, once, into $KAFKA_PEER_HOME (default ~/.cache/kafka-peer). Nothing of Kafka lies in this tree.
"""
import base64
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import time
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
HOME = os.environ.get("KAFKA_PEER_HOME") or os.path.expanduser("~/.cache/kafka-peer")
JARS = os.path.join(HOME, "kafka")
POMS = {"kafka": "pom.xml", "mirror-maker": "mirror-maker.pom.xml"} # what can be fetched: a folder of HOME each
MIRROR_MAKER = "org.apache.kafka.connect.mirror.MirrorMaker"

# Short-lived JVMs: no time for the second compiler, no threads for the collector.
TOOL_OPTIONS = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
BROKER_OPTIONS = ["-Xmx768m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]

TOOLS = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "org.apache.kafka.tools.ConfigCommand",
    "groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "offsets": "org.apache.kafka.tools.GetOffsetShell",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "producer-perf": "org.apache.kafka.tools.ProducerPerformance",
    "consumer-perf": "org.apache.kafka.tools.ConsumerPerformance",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
}


class NoKafka(Exception):
    """This machine cannot have a real Kafka; the text says what is missing."""


class KafkaFailed(Exception):
    pass


def install(what="kafka"):
    """Fetches the jars, once. Several processes may call it at the same time. Raises NoKafka."""
    jars = os.path.join(HOME, what)
    if os.path.exists(os.path.join(jars, ".done")):
        if not shutil.which("java"):
            raise NoKafka("java is not installed")
        return
    for program in ("java", "mvn"):
        if not shutil.which(program):
            raise NoKafka(f"{program} is not installed (a real Kafka needs a Java 17 runtime and Maven)")
    os.makedirs(HOME, exist_ok=True)
    with open(os.path.join(HOME, ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(os.path.join(jars, ".done")):
            return
        work = os.path.join(HOME, what + ".work")
        os.makedirs(work, exist_ok=True)
        shutil.copyfile(os.path.join(HERE, POMS[what]), os.path.join(work, "pom.xml"))
        done = subprocess.run(["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={jars}",
                               "-DincludeScope=runtime"], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise NoKafka(f"Maven could not fetch the jars of {what}:\n" + done.stdout[-2000:])
        open(os.path.join(jars, ".done"), "w").close()


def available(what="kafka"):
    """None, or why there is no real Kafka (or no MirrorMaker 2) here."""
    try:
        install(what)
    except NoKafka as why:
        return str(why)
    return None


def classpath(what="kafka"):
    return os.path.join(HOME, what, "*")


def mirror_maker_command(properties, *options):
    """MirrorMaker 2 as a process of its own, with the clusters and flows of that file. options: of the JVM."""
    return ["java", *options, "-cp", classpath("mirror-maker"), MIRROR_MAKER, properties]


def tool_command(name, *args):
    if name not in TOOLS:
        raise KafkaFailed(f"unknown tool {name}; there are: {', '.join(sorted(TOOLS))}")
    return ["java", *TOOL_OPTIONS, "-cp", classpath(), TOOLS[name], *args]


def tool(name, *args, timeout=120, check=True, stdin=None):
    """Runs one of Kafka's own tools to its end; returns its stdout."""
    done = subprocess.run(tool_command(name, *args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout,
                          input=stdin)
    if check and done.returncode != 0:
        raise KafkaFailed(f"kafka {name} {' '.join(args)}: exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


def random_cluster_id():
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):  # Kafka's own tools take a leading dash for an option
            return text


def _metadata_brokers(port):
    """How many brokers a Metadata v1 request names: the first sign that a Kafka serves. 0 when it does not answer (yet)."""
    client = b"\x00\x05ready"
    request = struct.pack(">hhi", 3, 1, 7) + client + struct.pack(">i", 0)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as s:
            s.sendall(struct.pack(">i", len(request)) + request)
            answer = b""
            while len(answer) < 12:
                part = s.recv(4096)
                if not part:
                    return 0
                answer += part
            return struct.unpack(">i", answer[8:12])[0]
    except OSError:
        return 0


class Kafka:
    """One broker in one folder. `port` and `port + 1` (controller) must be free. settings: lines of server.properties. preexec: runs in the
    broker's process before Java does (subprocess.Popen's preexec_fn)."""

    def __init__(self, folder, port, settings=None, cluster_id=None, preexec=None):
        self.folder = os.path.abspath(folder)
        self.port = port
        self.settings = dict(settings or {})
        self.cluster_id = cluster_id or random_cluster_id()
        self.data = os.path.join(self.folder, "data")
        self.bootstrap = f"127.0.0.1:{port}"
        self._preexec = preexec
        self._process = None

    def _pid_file(self):
        return os.path.join(self.folder, "pid")

    def pid(self):
        """The broker's process, None when there is none (also one that another process started in this folder)."""
        if self._process:
            return self._process.pid if self._process.poll() is None else None
        try:
            with open(self._pid_file()) as f:
                pid = int(f.read())
            with open(f"/proc/{pid}/cmdline", "rb") as f: # a number alone could be anybody's by now
                return pid if self.folder.encode() in f.read() else None
        except (OSError, ValueError):
            return None

    def _write_properties(self):
        lines = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.port + 1}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.port + 1}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": self.data,
            "num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "2",
            "share.coordinator.state.topic.replication.factor": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
        }
        lines.update(self.settings)
        path = os.path.join(self.folder, "server.properties")
        with open(path, "w") as f:
            f.writelines(f"{key}={value}\n" for key, value in lines.items())
        return path

    def format(self):
        """What start() does with an empty folder first. The path of server.properties."""
        os.makedirs(self.folder, exist_ok=True)
        properties = self._write_properties()
        meta = os.path.join(self.data, "meta.properties")
        if os.path.exists(meta):
            with open(meta) as f:
                self.cluster_id = next(line.split("=", 1)[1].strip().replace("\\", "") for line in f if line.startswith("cluster.id="))
        else:
            done = subprocess.run(["java", *TOOL_OPTIONS, "-cp", classpath(), "kafka.tools.StorageTool", "format", "-t",
                                   self.cluster_id, "-c", properties], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode != 0:
                raise KafkaFailed(f"cannot format {self.folder}:\n{done.stdout}")
        return properties

    def start(self, timeout=120):
        install()
        if self.pid():
            raise KafkaFailed(f"a Kafka runs in {self.folder} already")
        properties = self.format()
        with open(os.path.join(self.folder, "out.log"), "ab") as out:
            self._process = subprocess.Popen(["java", *BROKER_OPTIONS, "-cp", classpath(), "kafka.Kafka", properties],
                                             stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
                                             preexec_fn=self._preexec)
        with open(self._pid_file(), "w") as f:
            f.write(str(self._process.pid))
        deadline = time.monotonic() + timeout
        while _metadata_brokers(self.port) == 0:
            if self._process.poll() is not None:
                with open(os.path.join(self.folder, "out.log")) as f:
                    raise KafkaFailed(f"the broker in {self.folder} ended while starting:\n{f.read()[-3000:]}")
            if time.monotonic() > deadline:
                self.kill()
                raise KafkaFailed(f"no answer on port {self.port} within {timeout} s; see {self.folder}/out.log")
            time.sleep(0.03)
        return self

    def _end(self, number, timeout):
        pid = self.pid()
        if pid:
            os.kill(pid, number)
            deadline = time.monotonic() + timeout
            while self.pid():
                if time.monotonic() > deadline:
                    if number == signal.SIGKILL:
                        raise KafkaFailed(f"process {pid} does not end")
                    return self._end(signal.SIGKILL, timeout)
                time.sleep(0.05)
        if self._process:
            self._process.wait()
            self._process = None
        if os.path.exists(self._pid_file()):
            os.remove(self._pid_file())

    def stop(self, timeout=60):
        """A clean end; when that takes too long, SIGKILL."""
        self._end(signal.SIGTERM, timeout)

    def kill(self):
        self._end(signal.SIGKILL, 30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
