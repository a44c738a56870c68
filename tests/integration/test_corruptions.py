"""The silent corruptions of spec section 2, through real clients.

A producer of the destination has a producer id that the copied data uses too, for another producer. With the barrier suppressed (a switch of the test
build) the corruption happens; with it, it does not. Transactions have no coordinator here yet: the log's units hold that case."""
import pytest

from batch import idempotent_batch, init_producer_id, produce
from mirror import Mirror
from peers import create_topic
from raw import MIRROR_PID_RESET, Partition
from wire import Client

CLIENTS = ["java", "librdkafka", "franz-go"]


@pytest.fixture(params=[True, False], ids=["without-barrier", "with-barrier"])
def suppressed(request):
    return request.param


@pytest.fixture
def scene(kafka, peers, make_kagamid, suppressed, topic):
    """A client of the destination that is alive before the hand-over, and its producer id used by a stranger at the source."""
    class Scene:
        def __init__(self, name):
            self.client = peers(name)
            self.daemon = make_kagamid(switches=["suppress-barrier"] if suppressed else [])
            self.bootstrap = self.daemon.bootstrap
            self.own = topic + ".own"
            create_topic(peers("librdkafka"), self.bootstrap, self.own)
            self.producer = self.client.producer(self.bootstrap, delivery_timeout_ms=20_000)
            self.producer.send(self.own, [b"alive"])
            self.pid = Partition(self.bootstrap, self.own).batches[-1].producer_id
            assert self.pid >= 0
            create_topic(peers("librdkafka"), kafka.bootstrap, topic)

        def stranger_writes(self, *batches):
            """At the source, under the victim's producer id: (values, epoch, sequence)."""
            with Client(kafka.bootstrap) as client:
                for values, epoch, sequence in batches:
                    produce(client, topic, idempotent_batch(values, self.pid, epoch, sequence))

        def hand_over(self):
            mirror = Mirror(self.daemon).create(kafka.bootstrap)
            mirror.start(topic)
            mirror.wait_copied(kafka.bootstrap, topic)
            mirror.stop(topic)
            # The switch takes the barrier's effect away, not the record.
            assert [b.control_type() for b in Partition(self.bootstrap, topic).batches].count(MIRROR_PID_RESET) == 1

        def values(self):
            return self.client.read(self.bootstrap, topic).values

        def try_send(self, value):
            return self.producer.try_send(topic, [value], timeout=60)[0]

    return Scene


@pytest.mark.parametrize("name", CLIENTS)
def test_a_matching_sequence_is_acknowledged_and_lost(scene, suppressed, name):
    s = scene(name)
    s.stranger_writes(([b"stranger"], 0, 0))
    s.hand_over()
    result = s.try_send(b"precious")
    assert "error" not in result, "the client must believe that its record is written, in both cases"
    if suppressed:
        assert s.values() == [b"stranger"], "without the barrier the record should have been taken for a duplicate"
        assert result["offset"] == 0
    else:
        assert s.values() == [b"stranger", b"precious"]


@pytest.mark.parametrize("name", CLIENTS)
def test_a_wrong_sequence_is_blamed_on_an_innocent_client(scene, suppressed, name):
    s = scene(name)
    s.stranger_writes(*(([b"stranger %d" % i], 0, i) for i in range(8))) # more than the five remembered batches
    s.hand_over()
    try:
        result = s.try_send(b"innocent")
    except AssertionError: # no answer: the client tries again and again
        assert suppressed
        return
    if suppressed:
        # Some clients are told, others begin a new epoch by themselves: the broker's answer is what matters.
        with Client(s.bootstrap) as client:
            with pytest.raises(Exception) as refused:
                produce(client, s.own.removesuffix(".own"), idempotent_batch([b"innocent"], s.pid, 0, 0))
            assert refused.value.code in (45, 47), refused.value
    else:
        assert "error" not in result, result
        assert s.values()[-1] == b"innocent"


@pytest.mark.parametrize("name", CLIENTS)
def test_a_higher_epoch_of_a_stranger_fences_an_innocent_client(scene, suppressed, name):
    s = scene(name)
    s.stranger_writes(([b"stranger"], 3, 0))
    s.hand_over()
    if suppressed:
        with Client(s.bootstrap) as client:
            with pytest.raises(Exception) as refused:
                produce(client, s.own.removesuffix(".own"), idempotent_batch([b"innocent"], s.pid, 0, 0))
            assert refused.value.code == 47, refused.value # INVALID_PRODUCER_EPOCH
        assert s.values() == [b"stranger"]
    else:
        assert "error" not in s.try_send(b"innocent")
        assert s.values() == [b"stranger", b"innocent"]


@pytest.mark.parametrize("name", CLIENTS)
def test_a_lower_epoch_of_a_stranger_hides_behind_a_higher_one(scene, suppressed, name):
    """The destination's producer has a higher epoch than the stranger's copied batches: it must go on at its own sequence 0."""
    s = scene(name)
    s.stranger_writes(*(([b"stranger %d" % i], 0, i) for i in range(6)))
    s.hand_over()
    topic = s.own.removesuffix(".own")
    with Client(s.bootstrap) as client:
        produce(client, topic, idempotent_batch([b"mine"], s.pid, 2, 0))
        # A late batch under the old epoch: with the stranger's state dropped it is fenced by the producer's own epoch alone.
        with pytest.raises(Exception) as refused:
            produce(client, topic, idempotent_batch([b"late"], s.pid, 0, 6))
        assert refused.value.code == 47, refused.value
    assert s.values()[-1] == b"mine"


def test_fresh_producers_never_get_a_copied_producer_id(kafka, peers, make_kagamid, topic):
    create_topic(peers("librdkafka"), kafka.bootstrap, topic)
    far = 123_456
    with Client(kafka.bootstrap) as client:
        produce(client, topic, idempotent_batch([b"copied"], far, 0, 0))
    daemon = make_kagamid()
    mirror = Mirror(daemon).create(kafka.bootstrap)
    mirror.start(topic)
    mirror.wait_copied(kafka.bootstrap, topic)
    with Client(daemon.bootstrap) as client:
        assert init_producer_id(client) > far
    daemon.kill()
    daemon.restart()
    mirror.wait_state("MIRRORING", topic)
    with Client(daemon.bootstrap) as client:
        assert init_producer_id(client) > far
    mirror.stop(topic)
    with Client(daemon.bootstrap) as client:
        assert init_producer_id(client) > far
