"""Real clients and a mirror: refused writes fail at once with our message; the barrier is passed in both isolation levels; all go on after the stop."""
import pytest

from batch import idempotent_batch, init_producer_id, produce
from conftest import unique_topic
from mirror import Mirror
from peers import PeerError, create_topic
from raw import MIRROR_PID_RESET, Partition
from source import Source
from wire import Client

ISOLATIONS = ["read_uncommitted", "read_committed"]
POLICY_VIOLATION = 44


@pytest.fixture(scope="module")
def source(kafka, peers, tmp_path_factory):
    return Source(kafka, peers, "clients", tmp_path_factory.mktemp("source")).build("transactions", "open-transaction", "codecs")


@pytest.fixture(scope="module")
def mirror(source, shared_broker):
    return Mirror(shared_broker).create(source.bootstrap)


@pytest.fixture(scope="module")
def handed_over(source, mirror):
    """The kinds that were mirrored and stopped: {kind: stop's report of partition 0}."""
    kinds = ["transactions", "open-transaction"]
    topics = [source.topics[kind] for kind in kinds]
    mirror.start(*topics)
    mirror.wait_copied(source.bootstrap, *topics)
    report = mirror.stop(*topics)
    return {kind: report[(source.topics[kind], 0)] for kind in kinds}


@pytest.mark.parametrize("kind", ["transactions", "open-transaction"])
@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_clients_read_past_the_barrier(source, mirror, handed_over, client, peers, kind, isolation):
    bootstrap, topic = mirror.kagamid.bootstrap, source.topics[kind]
    log = Partition(bootstrap, topic)
    assert [b.base_offset for b in log.batches if b.control_type() == MIRROR_PID_RESET] == [handed_over[kind]["barrierOffset"]]
    after = f"after the barrier, for {client.name} {isolation}".encode()
    with peers("librdkafka").producer(bootstrap) as producer:
        offset = producer.send(topic, [after])[0]
    theirs = client.read(source.bootstrap, topic, isolation=isolation)
    ours = client.read(bootstrap, topic, isolation=isolation)
    behind = handed_over[kind]["barrierOffset"]
    if kind == "open-transaction" and isolation == "read_committed":
        # The stop has aborted what was open: what stood behind it comes to light, the open records do not.
        wanted = theirs.values + [b"behind 1", b"behind 2"]
    else:
        wanted = theirs.values
    copied = [v for r, v in zip(ours.records, ours.values) if r["offset"] < behind]
    assert copied == wanted, f"{client.name} sees other records before the barrier"
    assert behind not in ours.offsets, f"{client.name} was given the barrier as a record"
    assert ours.offsets[-1] == offset and ours.values[-1] == after
    if "position" in client.features:
        assert ours.position == offset + 1


def test_every_client_writes_to_a_stopped_topic_and_finds_its_records(source, mirror, handed_over, client):
    bootstrap, topic = mirror.kagamid.bootstrap, source.topics["transactions"]
    values = [f"{client.name} {i}".encode() for i in range(5)]
    start = Partition(bootstrap, topic).high_watermark
    with client.producer(bootstrap, idempotent=True) as producer:
        producer.send(topic, values)
    assert client.read(bootstrap, topic, from_offset=start, isolation="read_committed").values == values


@pytest.fixture
def mirroring(source, mirror):
    topic = source.topics["codecs"]
    if not mirror.states(topic):
        mirror.start(topic)
    mirror.wait_state("MIRRORING", topic)
    return topic


def test_a_refused_write_fails_at_once_with_our_message(mirror, mirroring, client, peers):
    bootstrap, topic = mirror.kagamid.bootstrap, mirroring
    other = unique_topic("other")
    create_topic(peers("librdkafka"), bootstrap, other)
    before = Partition(bootstrap, topic).high_watermark
    with client.producer(bootstrap, acks="all", delivery_timeout_ms=100_000) as producer:
        refused = producer.try_send(topic, [b"to a mirror"])[0]
        assert "error" in refused, f"{client.name}: a write to a mirror topic was taken"
        if client.name == "kcat":
            assert refused["error"]["name"] == "POLICY_VIOLATION"
        else:
            assert refused["error"]["code"] == POLICY_VIOLATION, refused # a retry until the delivery timeout would show as that
        if "message" in client.features:
            for part in (topic, mirror.name, "kagami mirror stop"):
                assert part in refused["error"]["message"], f"{client.name} is not told {part!r}: {refused['error']['message']}"
        if client.name != "kafka-python": # its producer has failed for good, which is its own way
            producer.send(other, [b"elsewhere"])
            assert client.read(bootstrap, other).values == [b"elsewhere"]
    assert Partition(bootstrap, topic).high_watermark == before


def test_admin_calls_on_a_mirror_topic_are_refused(mirror, mirroring, client):
    if "admin" not in client.features:
        pytest.skip(f"{client.name} has no admin")
    for what, fields in (("delete_topic", {}), ("create_partitions", {"count": 7}), ("delete_records", {"before": 1})):
        with pytest.raises(PeerError) as refused:
            client.admin(what, mirror.kagamid.bootstrap, topic=mirroring, **fields)
        assert refused.value.code == POLICY_VIOLATION, f"{what}: {refused.value}"


@pytest.mark.parametrize("name", ["java", "franz-go", "librdkafka"])
def test_a_producer_that_was_refused_goes_on_after_the_stop(kafka, source, mirror, peers, name):
    """Java and franz-go have raised their producer epoch by themselves by then."""
    client = peers(name)
    bootstrap, topic = mirror.kagamid.bootstrap, unique_topic(f"goes-on-{name}")
    create_topic(peers("librdkafka"), kafka.bootstrap, topic)
    with peers("librdkafka").producer(kafka.bootstrap) as producer:
        producer.send(topic, [b"copied"])
    mirror.start(topic)
    mirror.wait_copied(kafka.bootstrap, topic)
    with client.producer(bootstrap) as producer:
        assert "error" in producer.try_send(topic, [b"refused"])[0]
        mirror.stop(topic)
        producer.send(topic, [b"one"])
        producer.send(topic, [b"two"])
    assert client.read(bootstrap, topic).values == [b"copied", b"one", b"two"]


def test_a_producer_repointed_without_a_restart_writes_on_under_its_producer_id(kafka, mirror, peers):
    """Section 6, step 7: the same client, the same producer id and the next sequence, at another cluster. A raw client, since no library moves by itself."""
    topic = unique_topic("repointed")
    create_topic(peers("librdkafka"), kafka.bootstrap, topic)
    with Client(kafka.bootstrap) as client:
        pid = init_producer_id(client)
        produce(client, topic, idempotent_batch([b"0", b"1"], pid, 0, 0))
        produce(client, topic, idempotent_batch([b"2"], pid, 0, 2))
    mirror.start(topic)
    mirror.wait_copied(kafka.bootstrap, topic)
    mirror.stop(topic)
    with Client(mirror.kagamid.bootstrap) as client:
        produce(client, topic, idempotent_batch([b"3"], pid, 0, 3))
        produce(client, topic, idempotent_batch([b"4"], pid, 0, 4))
        produce(client, topic, idempotent_batch([b"4"], pid, 0, 4)) # a retry
        assert init_producer_id(client) > pid
    assert peers("librdkafka").read(mirror.kagamid.bootstrap, topic).values == [b"0", b"1", b"2", b"3", b"4"]
