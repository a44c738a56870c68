"""Fixtures of the integration tests: real daemons, a real Kafka, clients that we did not write."""
import itertools
import os
import re

import pytest

import kafka_peer
import peers as peer_programs
from kagamid import COMMAND, DAEMON, Kagamid
from processes import die_with_parent, free_ports

# Settings that make a Kafka for tests quick: what it does in minutes by default, it does in a second here.
KAFKA_SETTINGS = {
    "log.cleaner.backoff.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "500",
    "log.segment.delete.delay.ms": "500",
    "message.max.bytes": "33554432",
    "replica.fetch.max.bytes": "33554432",
    "socket.request.max.bytes": "104857600",
}


class KafkaUnderTest:
    """A Kafka with the methods of Kagamid that tests of a single broker use: KAGAMI_TEST_BROKER=kafka proves those tests themselves."""

    def __init__(self, folder):
        self._kafka = kafka_peer.Kafka(folder, free_ports(2), KAFKA_SETTINGS, preexec=die_with_parent)

    def start(self):
        self._kafka.start()
        return self

    @property
    def bootstrap(self):
        return self._kafka.bootstrap

    @property
    def cluster_id(self):
        return self._kafka.cluster_id

    def partition_folder(self, topic, partition=0):
        return os.path.join(self._kafka.data, f"{topic}-{partition}")

    def running(self):
        return self._kafka.pid() is not None

    def log(self, _=0):
        return ""

    def stop(self):
        self._kafka.stop()

    def kill(self):
        self._kafka.kill()

    def restart(self):
        return self.start()

    finish = stop


USE_KAFKA = os.environ.get("KAGAMI_TEST_BROKER") == "kafka"


def need_daemon():
    for path in (DAEMON,):
        if not os.path.exists(path):
            pytest.fail(f"{path} is not built", pytrace=False)


@pytest.fixture
def make_kagamid(tmp_path):
    """make_kagamid(settings, fault=.., switches=..): started daemons, each in a folder of its own; all end with the test and their logs are checked."""
    need_daemon()
    made = []

    def make(settings=None, start=True, **options):
        folder = options.pop("folder", None) or tmp_path / f"kagamid{len(made)}"
        daemon = Kagamid(folder, settings, **options)
        made.append(daemon)
        return daemon.start() if start else daemon

    yield make
    errors = []
    for daemon in made:
        try:
            daemon.finish()
        except AssertionError as e:
            errors.append(str(e))
    assert not errors, "\n".join(errors)


@pytest.fixture
def kagamid(make_kagamid):
    return make_kagamid()


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory):
    """One broker under test for a whole file: topics have unique names (see `topic`)."""
    folder = tmp_path_factory.mktemp("broker")
    if USE_KAFKA:
        broker = KafkaUnderTest(folder)
    else:
        need_daemon()
        broker = Kagamid(folder, {"message.max.bytes": 33554432})
    broker.start()
    yield broker
    broker.finish()


def need_kafka():
    why = kafka_peer.available()
    if why:
        pytest.skip(f"no real Kafka: {why}")


@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    """The real Kafka that all tests of a run share; it is not stopped or killed by a test."""
    need_kafka()
    broker = kafka_peer.Kafka(tmp_path_factory.mktemp("kafka"), free_ports(2), KAFKA_SETTINGS, preexec=die_with_parent)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def make_kafka(tmp_path):
    """make_kafka(settings): a real Kafka of the test's own, to be killed and restarted."""
    need_kafka()
    made = []

    def make(settings=None, start=True, **options):
        broker = kafka_peer.Kafka(options.pop("folder", None) or tmp_path / f"kafka{len(made)}", free_ports(2),
                                  {**KAFKA_SETTINGS, **(settings or {})}, preexec=die_with_parent, **options)
        made.append(broker)
        return broker.start() if start else broker

    yield make
    for broker in made:
        broker.kill()


_numbers = itertools.count(1)


@pytest.fixture
def topic(request):
    """A topic name of the test's own."""
    return unique_topic(request.node.name)


def unique_topic(text):
    return f"{re.sub('[^A-Za-z0-9]+', '-', text).strip('-')[:60]}.{os.getpid()}.{next(_numbers)}"


@pytest.fixture(scope="session")
def peers(tmp_path_factory):
    """peers(NAME): the running client program of that name; the test is skipped, by name, when this machine cannot have it."""
    running = {}
    folder = tmp_path_factory.mktemp("peers")

    def get(name):
        if name in running and not running[name].alive():
            running.pop(name).close() # it hung in the test before
        if name not in running:
            why = peer_programs.missing(name)
            if why:
                pytest.skip(f"no client {name}: {why}")
            running[name] = peer_programs.Peer(name, str(folder / f"{name}.log"))
        return running[name]

    yield get
    for peer in running.values():
        peer.close()


@pytest.fixture(params=peer_programs.NAMES)
def client(request, peers):
    """Each of the clients in turn."""
    return peers(request.param)
