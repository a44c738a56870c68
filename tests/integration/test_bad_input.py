"""What goes wrong outside: each time a clear error that names the thing and the next step, in the command's answer, in describe and in the log; and nothing
is lost."""
import os
import re
import shutil
import struct
import subprocess
import time

import pytest

from batch import batch, seal
from kagamid import DAEMON, Kagamid, StartFailed
from mirror import Mirror, MirrorError
from peers import create_topic
from processes import free_ports
from proxy import NoKafka, Proxy
from raw import Partition, batches_of, differences
from waiting import wait_until


@pytest.fixture
def daemon(shared_broker):
    return shared_broker


@pytest.fixture
def mirror(daemon, topic):
    return Mirror(daemon, "m-" + topic[-12:].replace(".", "-"))


@pytest.fixture
def source_topic(kafka, peers, topic):
    """A topic at the source with 100 records."""
    create_topic(peers("librdkafka"), kafka.bootstrap, topic)
    with peers("librdkafka").producer(kafka.bootstrap) as producer:
        producer.send(topic, [b"%d" % i for i in range(100)])
    return topic


def refused(call, *words):
    """The error of a mirror call; it must name all the words and say what to do."""
    with pytest.raises(MirrorError) as caught:
        call()
    for word in words:
        assert word in caught.value.text, f"the answer does not name {word!r}: {caught.value}"
    assert caught.value.hint, f"the answer does not say what to do: {caught.value}"
    return caught.value


NEXT_STEP = re.compile(r"kagami mirror|[Cc]heck |[Ll]ook at|[Ss]top |[Mm]ake ")


NO_SPACE = re.compile("[Nn]o space|disk is full")


def assert_failed(daemon, mirror, topic, *words, retriable=None):
    """The partition is FAILED, and describe and the log name all the words."""
    partition = mirror.wait_failed(topic)
    text = f"{partition['errorMessage']} {partition['errorHint']}"
    for word in words:
        assert word in text, f"describe does not name {word!r}: {text}"
    assert NEXT_STEP.search(text), f"describe does not say what to do: {text}"
    if retriable is not None:
        assert partition["retriable"] == retriable, partition
    lines = [line for line in daemon.log().splitlines() if topic in line]
    assert any(all(word in line for word in words) for line in lines), f"no line of the log names {words}: {lines[-5:]}"
    return partition


# ---- Sources ----


def test_an_unknown_topic_at_the_source(kafka, mirror):
    mirror.create(kafka.bootstrap)
    refused(lambda: mirror.start("no-such-topic"), "no-such-topic")
    assert mirror.states() == {}


def test_a_source_that_is_not_there(mirror):
    nobody = f"127.0.0.1:{free_ports()}"
    refused(lambda: mirror.create(nobody), nobody)


def test_a_source_that_is_no_kafka(mirror):
    with NoKafka() as server:
        refused(lambda: mirror.create(server.bootstrap), server.bootstrap)


def test_a_source_address_that_cannot_be_one(mirror):
    refused(lambda: mirror.create("not an address"), "bootstrap.servers")
    refused(lambda: mirror.create("host.invalid:9092"), "host.invalid")


def test_a_mirror_of_oneself(daemon, mirror):
    refused(lambda: mirror.create(daemon.bootstrap), daemon.cluster_id)


def test_a_wrong_setting_is_refused_by_its_name(kafka, mirror):
    refused(lambda: mirror.create(kafka.bootstrap, fetch_min_bites=1), "fetch.min.bites", "fetch.min.bytes")
    refused(lambda: mirror.create(kafka.bootstrap, fetch_min_bytes="many"), "fetch.min.bytes", "many")
    refused(lambda: mirror.create(kafka.bootstrap, producer_ids="negate"), "producer.ids")


def test_a_name_twice_and_a_name_that_is_not_there(kafka, mirror, daemon):
    mirror.create(kafka.bootstrap)
    refused(lambda: mirror.create(kafka.bootstrap), mirror.name)
    refused(Mirror(daemon, "nobody").delete, "nobody")
    refused(lambda: Mirror(daemon, "nobody").start("t"), "nobody")


def test_a_topic_that_exists_here_with_data(kafka, daemon, mirror, source_topic, peers):
    create_topic(peers("librdkafka"), daemon.bootstrap, source_topic)
    with peers("librdkafka").producer(daemon.bootstrap) as producer:
        producer.send(source_topic, [b"mine"])
    mirror.create(kafka.bootstrap)
    try:
        mirror.start(source_topic)
    except MirrorError as e:
        assert source_topic in e.text and "--discard-local-data" in e.text, e
    else:
        assert_failed(daemon, mirror, source_topic, source_topic, "--discard-local-data", retriable=False)
    assert peers("librdkafka").read(daemon.bootstrap, source_topic).values == [b"mine"]


def test_a_topic_of_another_mirror(kafka, daemon, mirror, source_topic):
    mirror.create(kafka.bootstrap)
    mirror.start(source_topic)
    other = Mirror(daemon, mirror.name + "x").create(kafka.bootstrap)
    refused(lambda: other.start(source_topic), source_topic, mirror.name)


def test_crc_damage_in_what_the_source_sends(kafka, daemon, mirror, source_topic, peers):
    """That partition stops with the offset named; no damaged byte is stored; it goes on when the source is sound again."""
    damage = [True]

    def flip(_, answer):
        for response in answer["responses"]:
            for partition in response["partitions"]:
                if damage[0] and partition["records"]:
                    data = bytearray(partition["records"])
                    batches = batches_of(data)
                    at = 0
                    for b in batches:
                        if b.last_offset >= 100:
                            data[at + len(b.data) - 1] ^= 0x40
                        at += len(b.data)
                    partition["records"] = bytes(data)

    with Proxy(kafka.bootstrap, {"Fetch": flip}) as proxy:
        mirror.create(proxy.bootstrap)
        mirror.start(source_topic)
        mirror.wait_copied(kafka.bootstrap, source_topic)
        with peers("librdkafka").producer(kafka.bootstrap) as producer:
            producer.send(source_topic, [b"this one is damaged on its way"])
        assert_failed(daemon, mirror, source_topic, source_topic, "100", "CRC")
        assert Partition(daemon.bootstrap, source_topic).high_watermark == 100
        damage[0] = False
        recover(mirror, source_topic)
        mirror.wait_copied(kafka.bootstrap, source_topic)
        mirror.wait_state("MIRRORING", source_topic)
    assert differences(Partition(kafka.bootstrap, source_topic), Partition(daemon.bootstrap, source_topic)) == []


def recover(mirror, topic):
    """A new start, where the partition does not retry by itself."""
    partition = mirror.partitions()[(topic, 0)]
    if partition["state"] == "FAILED" and not partition["retriable"]:
        mirror.start(topic)


def test_a_record_format_before_v2(kafka, daemon, mirror, source_topic):
    message = struct.pack(">bbq", 1, 0, 0) + struct.pack(">i", -1) + struct.pack(">i", 3) + b"old"
    old = struct.pack(">qiI", 0, len(message) + 4, 0) + message # message format v1: offset, size, CRC-32 (nobody gets that far)

    def replace(_, answer):
        for response in answer["responses"]:
            for partition in response["partitions"]:
                if partition["records"]:
                    partition["records"] = old

    with Proxy(kafka.bootstrap, {"Fetch": replace}) as proxy:
        mirror.create(proxy.bootstrap)
        mirror.start(source_topic)
        assert_failed(daemon, mirror, source_topic, source_topic, "offset 0", "format")
        assert Partition(daemon.bootstrap, source_topic).high_watermark == 0


def test_batches_that_no_kafka_would_send(kafka, daemon, mirror, source_topic):
    """Offsets that go back, a count that lies, a length beyond all: refused, nothing stored, the daemon goes on."""
    hostile = [
        batch([b"x"], base_offset=50) + batch([b"x"], base_offset=10),
        seal(b"\x10" * 40, 1_000_000),
        struct.pack(">qi", 0, 0x7FFFFF00) + batch([b"x"])[12:],
        struct.pack(">qi", 0, -5) + batch([b"x"])[12:],
        seal(b"", 1, last_offset_delta=-7),
    ]
    turn = [0]

    def replace(_, answer):
        for response in answer["responses"]:
            for partition in response["partitions"]:
                if partition["records"]:
                    partition["records"] = hostile[turn[0] % len(hostile)]
                    turn[0] += 1

    with Proxy(kafka.bootstrap, {"Fetch": replace}) as proxy:
        mirror.create(proxy.bootstrap)
        mirror.start(source_topic)
        mirror.wait_failed(source_topic)
        assert daemon.running()
    for b in Partition(daemon.bootstrap, source_topic).batches:
        assert b.base_offset == 50, f"{b!r} was stored" # the first of the first pair is a whole batch in its own right


def test_a_source_without_a_needed_version(kafka, mirror, source_topic):
    def old(_, answer):
        for api in answer["apiKeys"]:
            if api["apiKey"] == 1: # Fetch
                api["minVersion"], api["maxVersion"] = 0, 3
        return answer

    with Proxy(kafka.bootstrap, {"ApiVersions": old}) as proxy:
        refused(lambda: (mirror.create(proxy.bootstrap), mirror.start(source_topic)), "Fetch")


def test_a_topic_deleted_and_created_again_at_the_source(kafka, daemon, mirror, source_topic, peers):
    mirror.create(kafka.bootstrap, metadata_refresh_interval_ms=1000)
    mirror.start(source_topic)
    mirror.wait_copied(kafka.bootstrap, source_topic)
    before = Partition(daemon.bootstrap, source_topic)
    admin = peers("librdkafka")
    admin.admin("delete_topic", kafka.bootstrap, topic=source_topic)
    wait_until(lambda: source_topic not in admin.admin("topics", kafka.bootstrap)["topics"], 30, "not deleted")
    create_topic(admin, kafka.bootstrap, source_topic)
    with admin.producer(kafka.bootstrap) as producer:
        producer.send(source_topic, [b"another history %d" % i for i in range(200)])
    assert_failed(daemon, mirror, source_topic, source_topic, "deleted and created again", retriable=False)
    assert differences(before, Partition(daemon.bootstrap, source_topic)) == [], "a byte of the new topic followed the old one's"


def test_a_source_that_is_another_cluster_now(make_kafka, make_kagamid, peers, topic):
    first = make_kafka()
    create_topic(peers("librdkafka"), first.bootstrap, topic)
    with peers("librdkafka").producer(first.bootstrap) as producer:
        producer.send(topic, [b"first"])
    daemon = make_kagamid()
    mirror = Mirror(daemon).create(first.bootstrap, metadata_refresh_interval_ms=1000)
    mirror.start(topic)
    mirror.wait_copied(first.bootstrap, topic)
    first.stop()
    shutil.rmtree(first.data)
    old, first.cluster_id = first.cluster_id, "another-cluster-000000"
    first.start()
    create_topic(peers("librdkafka"), first.bootstrap, topic)
    with peers("librdkafka").producer(first.bootstrap) as producer:
        producer.send(topic, [b"stranger"] * 5)
    assert_failed(daemon, mirror, topic, old, first.cluster_id, retriable=False)
    assert peers("librdkafka").read(daemon.bootstrap, topic).values == [b"first"]


def test_the_source_retained_less_than_the_mirror_needed(kafka, daemon, mirror, source_topic, peers):
    """Retention was faster: the destination jumps, and says so."""
    def hold(_, answer):
        time.sleep(0.05)
        return answer

    admin = peers("librdkafka")
    proxy = Proxy(kafka.bootstrap, {"Fetch": hold})
    mirror.create(proxy.bootstrap)
    mirror.start(source_topic)
    mirror.wait_copied(kafka.bootstrap, source_topic)
    daemon.stop() # nothing is copied for a while
    with admin.producer(kafka.bootstrap) as producer:
        producer.send(source_topic, [b"unseen %d" % i for i in range(50)])
        producer.send(source_topic, [b"seen %d" % i for i in range(10)])
    admin.admin("delete_records", kafka.bootstrap, topic=source_topic, before=150)
    daemon.restart()
    mirror.wait_copied(kafka.bootstrap, source_topic)
    gaps = wait_until(lambda: mirror.partitions()[(source_topic, 0)]["gaps"], 30, "describe shows no gap")
    assert [(g["fromOffset"], g["toOffset"]) for g in gaps] == [(100, 150)] and gaps[0]["timestampMs"] > 0
    ours = Partition(daemon.bootstrap, source_topic)
    assert (ours.log_start, ours.high_watermark) == (150, 160)
    assert peers("librdkafka").read(daemon.bootstrap, source_topic).values == [b"seen %d" % i for i in range(10)]
    assert any(source_topic in line and "100" in line and "150" in line for line in daemon.log().splitlines()), "the log does not name the gap"
    proxy.close()


# ---- Folders and disks ----


def start_fails(daemon, *words):
    with pytest.raises(StartFailed) as failed:
        daemon.start()
    assert failed.value.status not in (0, -6, -11), f"not an ordinary end: {failed.value}"
    for word in words:
        assert word in failed.value.log, f"{word!r} is not named: {failed.value.log}"


def test_a_second_daemon_on_the_same_folder(daemon):
    second = Kagamid(daemon.folder, daemon.settings)
    second.log_path += ".second"
    start_fails(second, daemon.data)
    assert daemon.running()


def change_meta(daemon, **values):
    path = os.path.join(daemon.data, "meta.properties")
    with open(path, encoding="utf-8") as f:
        lines = [line.rstrip("\n") for line in f]
    lines = [line for line in lines if line.split("=")[0].replace(".", "_") not in values]
    lines += [f"{name.replace('_', '.')}={value}" for name, value in values.items()]
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")


def test_a_folder_of_another_node(make_kagamid):
    daemon = make_kagamid()
    daemon.stop()
    change_meta(daemon, node_id=77)
    start_fails(daemon, "77", daemon.data)


def test_a_folder_of_another_cluster(make_kagamid):
    daemon = make_kagamid()
    daemon.stop()
    change_meta(daemon, cluster_id="another-cluster-000000")
    start_fails(daemon, "another-cluster-000000", daemon.data)


def test_a_folder_of_a_newer_version(make_kagamid):
    daemon = make_kagamid()
    daemon.stop()
    change_meta(daemon, version=99)
    start_fails(daemon, "99", daemon.data)


def test_unknown_settings_are_refused_with_the_nearest_name(make_kagamid):
    start_fails(make_kagamid({"log.retention.hour": 1}, start=False), "log.retention.hour", "log.retention.hours")
    start_fails(make_kagamid({"num.partitions": "many"}, start=False), "num.partitions", "many")


def test_a_listener_that_is_taken(make_kagamid, daemon):
    start_fails(make_kagamid(start=False, listen=daemon.bootstrap), daemon.bootstrap)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 24 MiB."""
    path = tmp_path / "disk"
    path.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(path)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no small file system can be mounted here: {done.stderr.strip()}")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def test_a_full_disk(small_disk, make_kagamid, peers, topic):
    """What was acknowledged stays; what could not be written is an error; reads go on; after space was made and a restart writes do too."""
    client = peers("librdkafka")
    daemon = make_kagamid(folder=small_disk / "kagamid")
    create_topic(client, daemon.bootstrap, topic)
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"\0" * (6 << 20))
    acknowledged = []
    with client.producer(daemon.bootstrap, acks="all", delivery_timeout_ms=10_000, request_timeout_ms=5_000) as producer:
        for i in range(60):
            value = b"%06d" % i + os.urandom(500_000)
            if "error" in producer.try_send(topic, [value])[0]:
                break
            acknowledged.append(value)
        else:
            pytest.fail("24 MiB took 30 MB")
    assert NO_SPACE.search(daemon.log()), "the log does not say that the disk is full"
    daemon.kill()
    ballast.unlink()
    daemon.restart()
    assert len(client.read(daemon.bootstrap, topic).values) >= len(acknowledged)
    with client.producer(daemon.bootstrap) as producer:
        producer.send(topic, [b"space again"])
    assert client.read(daemon.bootstrap, topic, from_offset=len(acknowledged)).values[-1] == b"space again"


def test_a_full_disk_while_mirroring(small_disk, kafka, make_kagamid, peers, topic):
    """Describe and the log name the reason; when there is room it goes on by itself; the copy is equal in the end."""
    client = peers("librdkafka")
    create_topic(client, kafka.bootstrap, topic)
    daemon = make_kagamid(folder=small_disk / "kagamid")
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"\0" * (14 << 20))
    mirror = Mirror(daemon).create(kafka.bootstrap)
    mirror.start(topic)
    with client.producer(kafka.bootstrap) as producer:
        for _ in range(30):
            producer.send(topic, [os.urandom(400_000)])

    def shown():
        return NO_SPACE.search(mirror.partitions()[(topic, 0)]["errorMessage"] or "")
    wait_until(shown, 60, lambda: f"describe does not say that the disk is full: {mirror.partitions()}", pause=0.2)
    assert any(topic in line and NO_SPACE.search(line) for line in daemon.log().splitlines())
    ballast.unlink()
    mirror.wait_copied(kafka.bootstrap, topic)
    mirror.wait_state("MIRRORING", topic)
    assert differences(Partition(kafka.bootstrap, topic), Partition(daemon.bootstrap, topic)) == []


def test_help_is_everywhere():
    done = subprocess.run([DAEMON, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "--data" in done.stdout
