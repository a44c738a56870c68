"""The whole story, by the command line as an operator would use it: mirror a real Kafka, lose it, take over, and find every record again."""
import pytest

from kagamid import CommandFailed, kagami, kagami_json
from peers import create_topic, record
from raw import MIRROR_PID_RESET, Partition, differences
from waiting import wait_until


@pytest.fixture
def make_story(make_kagamid):
    """make_story(kafka): a kagamid beside it, and the command line."""
    class Story:
        def __init__(self, source):
            self.source, self.kagamid = source, make_kagamid()

        def run(self, *arguments, **options):
            return kagami(*arguments, bootstrap=self.kagamid.bootstrap, **options)

        def json(self, *arguments, **options):
            return kagami_json(*arguments, bootstrap=self.kagamid.bootstrap, **options)

        def states(self):
            mirrors = self.json("mirror", "describe", "dc2")["mirrors"]
            return {(t["topicName"], p["partitionIndex"]): p["state"] for m in mirrors for t in m["topics"] for p in t["partitions"]}

        def caught_up(self, topic, partitions):
            return all(Partition(self.kagamid.bootstrap, topic, p).high_watermark == Partition(self.source.bootstrap, topic, p).high_watermark
                       for p in range(partitions))
    return Story


def test_takeover(make_story, make_kafka, peers):
    story = make_story(make_kafka())
    source, daemon, topics = story.source.bootstrap, story.kagamid, {"orders": 3, "payments": 1}
    for topic, partitions in topics.items():
        create_topic(peers("librdkafka"), source, topic, partitions)
    wanted = {}
    with peers("java").producer(source, compression="zstd") as orders, \
            peers("java").producer(source, transactional_id="payments") as payments:
        for i in range(30):
            wanted.setdefault("orders", []).append(b"order %d" % i)
            orders.send("orders", [record(key=b"%d" % i, value=wanted["orders"][-1])], partition=i % 3)
        for i in range(6):
            payments.begin()
            payments.send("payments", [b"payment %d" % i])
            if i % 3 == 2:
                payments.abort()
            else:
                payments.commit()
                wanted.setdefault("payments", []).append(b"payment %d" % i)

    story.run("mirror", "create", "dc2", "--source", source)
    story.run("mirror", "start", "dc2", "--topics", "orders,payments")
    for topic, partitions in topics.items():
        wait_until(lambda t=topic, p=partitions: (t, p - 1) in story.states() and story.caught_up(t, p), 60, f"{topic} did not catch up", pause=0.3)
    assert set(story.states().values()) == {"MIRRORING"}
    copies = {}
    for topic, partitions in topics.items():
        for p in range(partitions):
            copies[(topic, p)] = Partition(daemon.bootstrap, topic, p)
            assert differences(Partition(source, topic, p), copies[(topic, p)]) == []
    assert "dc2" in story.run("mirror", "list")

    story.source.kill()
    report = story.json("mirror", "stop", "dc2")
    assert set(story.states().values()) == {"STOPPED"}
    by_partition = {(t["name"], p["partitionIndex"]): p for t in report["topics"] for p in t["partitions"]}
    assert set(by_partition) == set(copies)
    for at, copy in copies.items():
        entry = by_partition[at]
        assert entry["state"] == "STOPPED"
        assert entry["lastMirrorOffset"] == copy.high_watermark
        assert entry["sourceHighWatermark"] == copy.high_watermark and entry["sourceAgeMs"] >= 0
        assert entry["recordsLostEstimate"] == 0
        assert entry["barrierOffset"] == copy.high_watermark and entry["logEndOffset"] == copy.high_watermark + 1
        assert entry["expiredProducers"] >= 1

    for name in ("java", "librdkafka", "franz-go"):
        client = peers(name)
        value = b"taken over, by " + name.encode()
        with client.producer(daemon.bootstrap) as producer:
            for topic in topics:
                producer.send(topic, [value])
                wanted[topic].append(value)
    for name in ("java", "librdkafka"):
        for topic, partitions in topics.items():
            found = [v for p in range(partitions) for v in peers(name).read(daemon.bootstrap, topic, p, isolation="read_committed").values]
            assert sorted(found) == sorted(wanted[topic]), f"{name} finds other records of {topic} than were committed"
    barriers = [b for at in copies for b in Partition(daemon.bootstrap, *at).batches if b.control_type() == MIRROR_PID_RESET]
    assert len(barriers) == len(copies)

    daemon.kill() # and all of it survives
    daemon.restart()
    for topic, partitions in topics.items():
        found = [v for p in range(partitions) for v in peers("librdkafka").read(daemon.bootstrap, topic, p, isolation="read_committed").values]
        assert sorted(found) == sorted(wanted[topic])
    assert set(story.states().values()) == {"STOPPED"}
    story.run("mirror", "delete", "dc2")
    assert story.json("mirror", "list")["mirrors"] == []


def test_a_planned_switch_waits_for_all_that_the_source_has(make_story, kafka, peers, topic):
    story = make_story(kafka)
    source = story.source.bootstrap
    create_topic(peers("librdkafka"), source, topic)
    story.run("mirror", "create", "dc2", "--source", source)
    story.run("mirror", "start", "dc2", "--topics", topic)
    with peers("librdkafka").producer(source) as producer:
        for _ in range(20):
            producer.send(topic, [b"x" * 10_000] * 50)
    report = story.json("mirror", "stop", "dc2", "--drain", "--timeout", "60s")
    entry = report["topics"][0]["partitions"][0]
    assert entry["state"] == "STOPPED" and entry["recordsLostEstimate"] == 0
    assert entry["lastMirrorOffset"] == Partition(source, topic).high_watermark == 1000


def test_a_dry_run_changes_nothing(make_story, kafka, peers, topic):
    story = make_story(kafka)
    source = story.source.bootstrap
    create_topic(peers("librdkafka"), source, topic)
    with peers("librdkafka").producer(source) as producer:
        producer.send(topic, [b"x"])
    story.run("mirror", "create", "dc2", "--source", source)
    story.run("mirror", "start", "dc2", "--topics", topic)
    wait_until(lambda: (topic, 0) in story.states() and story.caught_up(topic, 1), 60, "did not catch up", pause=0.3)
    story.json("mirror", "stop", "dc2", "--dry-run")
    assert story.states() == {(topic, 0): "MIRRORING"}
    assert Partition(story.kagamid.bootstrap, topic).high_watermark == 1


def test_deleting_a_mirror_with_running_topics_is_refused_with_what_to_do(make_story, kafka, peers, topic):
    story = make_story(kafka)
    create_topic(peers("librdkafka"), story.source.bootstrap, topic)
    story.run("mirror", "create", "dc2", "--source", story.source.bootstrap)
    story.run("mirror", "start", "dc2", "--topics", topic)
    wait_until(story.states, 30, "orders does not mirror", pause=0.3)
    with pytest.raises(CommandFailed) as refused:
        story.run("mirror", "delete", "dc2")
    assert "dc2" in refused.value.text and "kagami mirror stop" in refused.value.text
