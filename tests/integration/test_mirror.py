"""A mirror of a real Kafka follows what happens there: restarts on both sides, elections, new partitions, log starts; and what operators do to it."""
import pytest

from mirror import Mirror, MirrorError, call
from peers import create_topic
from raw import Partition, differences
from waiting import wait_until
from wire import Client


def act(mirror, what, *topics):
    return call(mirror.kagamid.bootstrap, f"{what}MirrorTopics", {"mirrorName": mirror.name, "topics": [{"topicName": t} for t in topics]})


def send(peers, bootstrap, topic, values, **more):
    with peers("librdkafka").producer(bootstrap) as producer:
        producer.send(topic, values, **more)


def equal(source, daemon, topic, partition=0):
    assert differences(Partition(source.bootstrap, topic, partition), Partition(daemon.bootstrap, topic, partition)) == []


def leader_epochs(bootstrap, topic):
    with Client(bootstrap, timeout_s=30) as client:
        answer = client.send("Metadata", 12, {"topics": [{"name": topic}], "allowAutoTopicCreation": False})
    return [p["leaderEpoch"] for t in answer["topics"] for p in sorted(t["partitions"], key=lambda p: p["partitionIndex"])]


def test_restarts_on_both_sides_and_the_epochs_they_bring(make_kafka, make_kagamid, peers, topic):
    source, daemon = make_kafka(), make_kagamid()
    create_topic(peers("librdkafka"), source.bootstrap, topic, 2)
    mirror = Mirror(daemon).create(source.bootstrap, metadata_refresh_interval_ms=1000)
    mirror.start(topic)
    for round_, end in enumerate((daemon.stop, daemon.kill, source.stop, source.kill)):
        for p in range(2):
            send(peers, source.bootstrap, topic, [b"round %d" % round_] * 5, partition=p)
        mirror.wait_copied(source.bootstrap, topic, partitions=2)
        end()
        if end in (source.stop, source.kill):
            wait_until(lambda: mirror.partitions()[(topic, 0)]["errorMessage"], 60, "describe does not show that the source is away")
            assert set(mirror.states().values()) == {"MIRRORING"}
            source.start()
        else:
            daemon.restart()
    for p in range(2):
        send(peers, source.bootstrap, topic, [b"end"], partition=p)
    mirror.wait_copied(source.bootstrap, topic, partitions=2)
    wait_until(lambda: not mirror.partitions()[(topic, 0)]["errorMessage"], 30, "describe still shows trouble")
    for p in range(2):
        equal(source, daemon, topic, p)
        batches = Partition(daemon.bootstrap, topic, p).batches
        assert leader_epochs(daemon.bootstrap, topic)[p] >= max(b.leader_epoch for b in batches)
        assert len({b.leader_epoch for b in batches}) > 1, "the source's restarts brought no new epoch: the test shows nothing"


def test_new_partitions_and_the_log_start_follow(kafka, make_kagamid, peers, topic):
    daemon, admin = make_kagamid(), peers("librdkafka")
    create_topic(admin, kafka.bootstrap, topic)
    send(peers, kafka.bootstrap, topic, [b"%d" % i for i in range(20)])
    mirror = Mirror(daemon).create(kafka.bootstrap, metadata_refresh_interval_ms=500)
    mirror.start(topic)
    mirror.wait_copied(kafka.bootstrap, topic)
    admin.admin("create_partitions", kafka.bootstrap, topic=topic, count=3)
    wait_until(lambda: len(mirror.states(topic)) == 3 and set(mirror.states(topic).values()) == {"MIRRORING"}, 60, mirror.states)
    send(peers, kafka.bootstrap, topic, [b"new"] * 3, partition=2)
    mirror.wait_copied(kafka.bootstrap, topic, partitions=3)
    equal(kafka, daemon, topic, 2)
    admin.admin("delete_records", kafka.bootstrap, topic=topic, before=7) # no new data comes with it
    wait_until(lambda: Partition(daemon.bootstrap, topic).log_start == 7, 30, "the log start did not follow")
    equal(kafka, daemon, topic)


def test_pause_and_resume(kafka, make_kagamid, peers, topic):
    daemon = make_kagamid()
    create_topic(peers("librdkafka"), kafka.bootstrap, topic)
    send(peers, kafka.bootstrap, topic, [b"before"] * 3)
    mirror = Mirror(daemon).create(kafka.bootstrap)
    mirror.start(topic)
    mirror.wait_copied(kafka.bootstrap, topic)
    act(mirror, "Pause", topic)
    assert mirror.states() == {(topic, 0): "PAUSED"}
    with pytest.raises(MirrorError) as caught:
        act(mirror, "Pause", topic)
    assert caught.value.code == 1140
    send(peers, kafka.bootstrap, topic, [b"meanwhile"] * 3)
    daemon.stop()
    daemon.restart()
    assert mirror.states() == {(topic, 0): "PAUSED"}
    assert Partition(daemon.bootstrap, topic).high_watermark == 3
    act(mirror, "Resume", topic)
    mirror.wait_copied(kafka.bootstrap, topic)
    equal(kafka, daemon, topic)
    with pytest.raises(MirrorError) as caught:
        act(mirror, "Resume", topic)
    assert caught.value.code == 1141


def test_topics_by_pattern_and_a_stop_of_all(kafka, make_kagamid, peers, topic):
    daemon = make_kagamid()
    names = [f"{topic}.{end}" for end in ("a", "b", "other")]
    for name in names:
        create_topic(peers("librdkafka"), kafka.bootstrap, name)
        send(peers, kafka.bootstrap, name, [b"x"] * 4)
    mirror = Mirror(daemon).create(kafka.bootstrap)
    started = mirror.start(patterns=[topic.replace(".", r"\.") + r"\.[ab]"])
    assert sorted(t["name"] for t in started["topics"]) == names[:2]
    mirror.wait_copied(kafka.bootstrap, *names[:2])
    report = mirror.stop()
    assert {at: p["state"] for at, p in report.items()} == {(n, 0): "STOPPED" for n in names[:2]}
    assert all(p["lastMirrorOffset"] == 4 and p["logEndOffset"] == 5 for p in report.values())
    assert mirror.stop() == report, "a second stop answers with the first one's report"
    mirror.delete()
    assert call(daemon.bootstrap, "ListClusterMirrors", {})["mirrors"] == []
    send(peers, daemon.bootstrap, names[0], [b"ours"])


def test_a_stop_while_topics_are_still_starting_and_the_source_is_gone(make_kafka, make_kagamid, peers, topic):
    source, daemon = make_kafka(), make_kagamid()
    create_topic(peers("librdkafka"), source.bootstrap, topic, 4)
    mirror = Mirror(daemon).create(source.bootstrap)
    mirror.start(topic)
    source.kill()
    report = mirror.stop()
    assert {p["state"] for p in report.values()} == {"STOPPED"} and len(report) == 4
    assert {(p["lastMirrorEpoch"], p["lastMirrorOffset"]) for p in report.values()} == {(-1, -1)}
    send(peers, daemon.bootstrap, topic, [b"ours"], partition=3)


def test_starting_again_over_what_is_here_asks_for_consent(kafka, make_kagamid, peers, topic):
    daemon = make_kagamid()
    create_topic(peers("librdkafka"), kafka.bootstrap, topic)
    send(peers, kafka.bootstrap, topic, [b"x"] * 4)
    mirror = Mirror(daemon).create(kafka.bootstrap)
    mirror.start(topic)
    mirror.wait_copied(kafka.bootstrap, topic)
    mirror.stop()
    send(peers, daemon.bootstrap, topic, [b"ours"])
    with pytest.raises(MirrorError) as caught:
        mirror.start(topic)
    assert "--discard-local-data" in caught.value.hint
    assert Partition(daemon.bootstrap, topic).high_watermark == 6
    mirror.start(topic, discardLocalData=True)
    wait_until(lambda: mirror.states() == {(topic, 0): "MIRRORING"}, 60, mirror.states)
    mirror.wait_copied(kafka.bootstrap, topic)
    equal(kafka, daemon, topic)
    thrown_away = mirror.partitions()[topic, 0]["truncation"]
    assert thrown_away["records"] == 6 and thrown_away["bytes"] > 6 * 10, thrown_away # four, the barrier, and ours
    assert 0 < thrown_away["firstTimestamp"] <= thrown_away["lastTimestamp"] <= thrown_away["timestampMs"], thrown_away
    daemon.kill()
    daemon.restart()
    assert mirror.partitions()[topic, 0]["truncation"] == thrown_away


def test_a_ring_is_refused_and_a_stopped_topic_may_be_deleted(make_kagamid, peers, topic):
    first, second = make_kagamid(), make_kagamid()
    create_topic(peers("librdkafka"), first.bootstrap, topic)
    send(peers, first.bootstrap, topic, [b"x"] * 4)
    mirror = Mirror(second).create(first.bootstrap)
    mirror.start(topic)
    mirror.wait_copied(first.bootstrap, topic)
    back = Mirror(first).create(second.bootstrap)
    with pytest.raises(MirrorError) as caught:
        back.start(topic, discardLocalData=True)
    assert caught.value.code == 1145 and "ring" in caught.value.message
    assert Partition(first.bootstrap, topic).high_watermark == 4
    mirror.stop()
    peers("librdkafka").admin("delete_topic", second.bootstrap, topic=topic)
    wait_until(lambda: mirror.states() == {}, 30, "the records of the deleted topic are still there")
    create_topic(peers("librdkafka"), second.bootstrap, topic)
    send(peers, second.bootstrap, topic, [b"another topic of the name"])
    second.kill()
    second.restart()
    assert mirror.states() == {}
    send(peers, second.bootstrap, topic, [b"writable"])
