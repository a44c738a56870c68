"""What a broker answers to writes and reads, request by request: the surprising part, as measured on a real Kafka, and where clients are served better by another
answer, that one.

KAGAMI_TEST_BROKER=kafka runs those against a real Kafka in which both agree."""

import gzip
import struct
import threading
import time

import pytest

from batches import batch, crc32c
from conftest import USE_KAFKA
from waiting import wait_until
from wire import ZERO_UUID, Client

better = pytest.mark.skipif(USE_KAFKA, reason="Kafka answers otherwise, ours is the better one")
NOW = int(time.time() * 1000)
UNKNOWN, OUT_OF_RANGE, CORRUPT, UNKNOWN_TOPIC, INVALID_ACKS, INVALID_REQUEST = -1, 1, 2, 3, 21, 42
OUT_OF_ORDER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, TXN_ID_AUTHORIZATION = 45, 47, 48, 53
SESSION_NOT_FOUND, INVALID_SESSION_EPOCH, FENCED_EPOCH, UNKNOWN_EPOCH = 70, 71, 74, 75
UNSUPPORTED_VERSION, INVALID_RECORD, UNKNOWN_TOPIC_ID, SESSION_TOPIC_ID, TXN_ABORTABLE = 35, 87, 100, 106, 120


class Topic:
    """A topic of one partition (or more), written and read by raw requests."""

    def __init__(self, broker, name, partitions=1, configs=None):
        self.broker, self.name = broker, name
        self.client = Client(broker.bootstrap)
        configs = [{"name": k, "value": v} for k, v in (configs or {}).items()]
        answer = self.client.send("CreateTopics", 5, {"topics": [
            {"name": name, "numPartitions": partitions, "replicationFactor": 1, "configs": configs}]})  # fmt: skip
        assert answer["topics"][0]["errorCode"] == 0, answer
        wait_until(lambda: self.describe()["errorCode"] == 0, 30, f"{name} is not there")
        self.id = self.describe()["topicId"]

    def describe(self):
        return self.client.send("Metadata", 12, {"topics": [{"name": self.name}], "allowAutoTopicCreation": False})["topics"][0]

    def epoch(self):
        return self.describe()["partitions"][0]["leaderEpoch"]

    def produce_raw(self, partitions, version=9, acks=-1, **more):
        named = {"topicId": self.id} if version >= 13 else {"name": self.name}
        return self.client.send("Produce", version, {"acks": acks, "timeoutMs": 30000, **more, "topicData": [{**named, "partitionData": partitions}]})

    def produce(self, records, version=9, **more):
        answer = self.produce_raw([{"index": 0, "records": records}], version, **more)
        return answer["responses"][0]["partitionResponses"][0]

    def write(self, records, **more):
        answer = self.produce(records, **more)
        assert answer["errorCode"] == 0, answer
        return answer["baseOffset"]

    def fetch_raw(self, partitions, version=12, client=None, **more):
        request = {"maxWaitMs": 0, "minBytes": 1, "maxBytes": 1 << 20, "sessionEpoch": -1, **more}
        if version < 15:
            request["replicaId"] = -1
        if partitions:
            named = {"topicId": self.id} if version >= 13 else {"topic": self.name}
            request["topics"] = [{**named, "partitions": [
                {"partitionMaxBytes": 1 << 20, **p} for p in partitions]}]  # fmt: skip
        return (client or self.client).send("Fetch", version, request)

    def fetch(self, offset, version=12, **more):
        partition = {k: more.pop(k) for k in ("partitionMaxBytes", "currentLeaderEpoch", "lastFetchedEpoch") if k in more}
        answer = self.fetch_raw([{"partition": 0, "fetchOffset": offset, **partition}], version, **more)
        assert answer["errorCode"] == 0, answer
        return answer["responses"][0]["partitions"][0]

    def list_offset(self, timestamp, version=7, isolation=0, times=1):
        partition = {"partitionIndex": 0, "timestamp": timestamp}
        answer = self.client.send("ListOffsets", version, {
            "replicaId": -1, "isolationLevel": isolation, "topics": [{"name": self.name, "partitions": [partition] * times}]})  # fmt: skip
        return answer["topics"][0]["partitions"]

    def end(self):
        return self.list_offset(-1)[0]["offset"]


@pytest.fixture
def t(shared_broker, topic):
    it = Topic(shared_broker, topic)
    yield it
    it.client.close()


def plain(n=1, value=b"value", **more):
    return batch([(None, value)] * n, timestamp=NOW, **more)


def with_fields(data, crc=True, **fields):
    """Changes header fields of a batch; a new CRC unless told otherwise."""
    places = {"magic": (16, ">b"), "attributes": (21, ">h"), "last_offset_delta": (23, ">i"), "count": (57, ">i"), "length": (8, ">i"),
              "base_offset": (0, ">q")}  # fmt: skip
    data = bytearray(data)
    for name, value in fields.items():
        struct.pack_into(places[name][1], data, places[name][0], value)
    if crc:
        struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


def compressed(records, codec):
    """The batch with its records replaced by `records` as they are, marked with the codec."""
    whole = plain()
    whole = whole[:61] + records
    return with_fields(whole, length=len(whole) - 12, attributes=codec)


# ---- Produce ----


@pytest.mark.parametrize("version", [0, 1, 2])
def test_produce_is_announced_below_what_is_served(shared_broker, version):
    with Client(shared_broker.bootstrap) as client:
        ranges = {k["apiKey"]: (k["minVersion"], k["maxVersion"]) for k in client.send("ApiVersions", 3, {
            "clientSoftwareName": "t", "clientSoftwareVersion": "1"})["apiKeys"]}  # fmt: skip
        assert ranges[0] == (0, 13)
        client.send_bytes(struct.pack(">ihhih", 20, 0, version, 1, -1) + struct.pack(">hii", 1, 1000, 0))
        client.closed()


@better
def test_null_records_are_answered(t):
    assert t.produce(None)["errorCode"] == INVALID_RECORD
    assert t.end() == 0


def test_records_of_no_bytes(t):
    assert t.produce(b"")["errorCode"] == INVALID_RECORD


@better
@pytest.mark.parametrize("version", [9, 13])
def test_a_partition_named_twice_is_refused_and_nothing_written(t, version):
    answer = t.produce_raw([{"index": 0, "records": plain()}, {"index": 0, "records": plain(2)}], version)
    assert [p["errorCode"] for p in answer["responses"][0]["partitionResponses"]] == [INVALID_REQUEST] * 2
    assert t.end() == 0


@pytest.mark.parametrize("behind,error", [(b"", 0), (b"x" * 11, 0), (b"\0" * 11, 0), (b"\xff" * 12, CORRUPT)])
def test_bytes_behind_a_batch(t, behind, error):
    assert t.produce(plain() + behind)["errorCode"] == error
    assert t.end() == (1 if error == 0 else 0)


@pytest.mark.parametrize("cut", [1, 20, 50])
def test_a_batch_that_is_cut_short(t, cut):
    assert t.produce(plain()[:-cut])["errorCode"] == INVALID_RECORD


@pytest.mark.parametrize("name,change,error", [
    ("crc", lambda b: b[:17] + b"\0\0\0\0" + b[21:], CORRUPT),
    ("magic 0", lambda b: with_fields(b, magic=0), None),
    ("magic 3", lambda b: with_fields(b, magic=3), None),
    ("count too high", lambda b: with_fields(b, count=9, last_offset_delta=8), INVALID_RECORD),
    ("count and deltas differ", lambda b: with_fields(b, count=3), INVALID_RECORD),
    ("control batch", lambda b: with_fields(b, attributes=0x20), INVALID_RECORD),
    ("two batches", lambda b: b + b, INVALID_RECORD),
])  # fmt: skip
def test_a_bad_batch_changes_nothing(t, name, change, error):
    answer = t.produce(change(plain()))
    assert answer["errorCode"] == error if error is not None else answer["errorCode"] != 0, answer
    assert (answer["baseOffset"], t.end()) == (-1, 0)


@better
@pytest.mark.parametrize("codec,data", [(1, b"no gzip at all"), (1, gzip.compress(b"\x02\x00")[:-9]), (2, b"\xff" * 30), (3, b"no lz4"),
                                        (4, b"no zstd"), (5, b"no codec of this number"), (7, b"nor this")])  # fmt: skip
def test_what_cannot_be_decompressed_is_corrupt(t, codec, data):
    assert t.produce(compressed(data, codec))["errorCode"] == CORRUPT
    assert t.end() == 0


def test_records_with_ills_are_told_apart(shared_broker, topic):
    t = Topic(shared_broker, topic, configs={"cleanup.policy": "compact"})
    answer = t.produce(batch([(b"k", b"1"), (None, b"2"), (b"k", b"3"), (None, b"4")], timestamp=NOW))
    assert answer["errorCode"] == INVALID_RECORD and answer["errorMessage"]
    assert [e["batchIndex"] for e in answer["recordErrors"]] == [1, 3]
    assert t.produce(batch([(None, b"2")], timestamp=NOW), version=7)["errorCode"] == INVALID_RECORD


def test_log_append_time_changes_the_flag_and_the_largest_timestamp_only(shared_broker, topic):
    t = Topic(shared_broker, topic, configs={"message.timestamp.type": "LogAppendTime"})
    sent = batch([(None, b"v")], timestamp=1_600_000_000_000)
    answer = t.produce(sent)
    assert abs(answer["logAppendTimeMs"] - time.time() * 1000) < 60_000
    stored = t.fetch(0)["records"]
    base, largest = struct.unpack_from(">qq", stored, 27)
    assert (base, largest) == (1_600_000_000_000, answer["logAppendTimeMs"])
    assert struct.unpack_from(">h", stored, 21)[0] & 8
    assert struct.unpack_from(">I", stored, 17)[0] == crc32c(stored[21:])


@pytest.mark.parametrize("acks", [-2, 2, 100])
def test_acks_that_mean_nothing(t, acks):
    assert t.produce(plain(), acks=acks)["errorCode"] == INVALID_ACKS


def send_acks_0(client, t, records, name=None):
    client.post("Produce", 9, {"acks": 0, "timeoutMs": 1000, "topicData": [
        {"name": name or t.name, "partitionData": [{"index": 0, "records": records}]}]})  # fmt: skip


def test_acks_0_is_not_answered(t, shared_broker):
    with Client(shared_broker.bootstrap) as client:
        send_acks_0(client, t, plain())
        assert client.send("Metadata", 4, {"topics": []})["topics"] == []  # the next answer is the next request's
    wait_until(lambda: t.end() == 1, 10, "the record is not there")


def test_acks_0_with_an_error_closes_the_connection(t, shared_broker):
    with Client(shared_broker.bootstrap) as client:
        send_acks_0(client, t, plain(), name=t.name + "-that-is-not-there")
        client.closed()


def test_topics_that_are_not_there(t):
    answer = t.client.send("Produce", 9, {"acks": 1, "timeoutMs": 1000, "topicData": [
        {"name": t.name + "-not-there", "partitionData": [{"index": 0, "records": plain()}]},
        {"name": t.name, "partitionData": [{"index": 7, "records": plain()}, {"index": 0, "records": plain()}]}]})  # fmt: skip
    errors = {(r["name"] == t.name, p["index"]): p["errorCode"] for r in answer["responses"] for p in r["partitionResponses"]}
    assert errors == {(False, 0): UNKNOWN_TOPIC, (True, 7): UNKNOWN_TOPIC, (True, 0): 0}
    answer = t.client.send("Produce", 13, {"acks": 1, "timeoutMs": 1000, "topicData": [
        {"topicId": "AAAAAAAAAAAAAAAAAAAAAQ", "partitionData": [{"index": 0, "records": plain()}]}]})  # fmt: skip
    assert answer["responses"][0]["partitionResponses"][0]["errorCode"] == UNKNOWN_TOPIC_ID


# ---- Idempotence, transactions ----


def from_producer(sequence, n=1, pid=99, epoch=0, **more):
    return plain(n, producer_id=pid, producer_epoch=epoch, base_sequence=sequence, **more)


def test_a_producer_that_is_not_known_may_start_anywhere(t):
    assert t.write(from_producer(1234)) == 0
    assert t.produce(from_producer(1236))["errorCode"] == OUT_OF_ORDER
    assert t.write(from_producer(1235)) == 1


def test_a_duplicate_gets_its_first_answer_and_its_timestamp(t):
    assert t.write(from_producer(0, 3)) == 0
    assert t.write(from_producer(3, 2)) == 3
    again = t.produce(from_producer(0, 3))
    assert (again["errorCode"], again["baseOffset"], again["logAppendTimeMs"], t.end()) == (0, 0, NOW, 5)


def test_only_five_batches_are_remembered(t):
    for i in range(7):
        t.write(from_producer(i))
    assert t.produce(from_producer(2))["errorCode"] == 0
    assert t.produce(from_producer(1))["errorCode"] == OUT_OF_ORDER
    assert t.produce(from_producer(5, 2))["errorCode"] == OUT_OF_ORDER  # an overlap is no duplicate
    assert t.end() == 7


def test_producer_epochs(t):
    t.write(from_producer(5, epoch=3))
    assert t.produce(from_producer(6, epoch=2))["errorCode"] == INVALID_PRODUCER_EPOCH
    assert t.produce(from_producer(1, epoch=4))["errorCode"] == OUT_OF_ORDER  # a new epoch begins at 0
    t.write(from_producer(6, epoch=3))  # what was refused changed nothing
    t.write(from_producer(0, epoch=4))


def test_producer_ids_below_0_are_stored_without_checks(t):
    for sequence in (0, 7, 0):
        t.write(from_producer(sequence, pid=-5))
    for sequence in (3, 3):
        t.write(from_producer(sequence, pid=-1, epoch=0))
    assert t.end() == 5


def test_transactional_records_without_a_transaction(t):
    records = from_producer(0, attributes=0x10)
    answer = t.produce_raw([{"index": 0, "records": records}], 9)
    assert answer["responses"][0]["partitionResponses"][0]["errorCode"] == TXN_ID_AUTHORIZATION
    for version, error in [(9, INVALID_TXN_STATE), (10, INVALID_TXN_STATE), (12, TXN_ABORTABLE), (13, TXN_ABORTABLE)]:
        answer = t.produce_raw([{"index": 0, "records": records}], version, transactionalId="tx")
        if not USE_KAFKA:
            assert answer["responses"][0]["partitionResponses"][0]["errorCode"] == error
    assert t.end() == 0


@better
def test_a_producer_id_is_new_whatever_is_asked(t):
    ids = set()
    for request in ({}, {"producerId": 0, "producerEpoch": 0}, {"transactionTimeoutMs": 2147483647}, {"transactionTimeoutMs": -1}):
        answer = t.client.send("InitProducerId", 4, {"transactionalId": None, "transactionTimeoutMs": 0, **request})
        assert (answer["errorCode"], answer["producerEpoch"]) == (0, 0)
        ids.add(answer["producerId"])
    assert len(ids) == 4
    answer = t.client.send("InitProducerId", 4, {"transactionalId": "tx", "transactionTimeoutMs": 1000})
    assert (answer["errorCode"], answer["producerId"], answer["producerEpoch"]) == (UNSUPPORTED_VERSION, -1, -1)


# ---- Fetch ----


def test_only_the_first_partition_with_data_may_exceed_the_limit(shared_broker, topic):
    t = Topic(shared_broker, topic, partitions=3)
    for index in range(3):
        answer = t.produce_raw([{"index": index, "records": plain(1, b"x" * 1000)}])
        assert answer["responses"][0]["partitionResponses"][0]["errorCode"] == 0
    asked = [{"partition": i, "fetchOffset": 0} for i in range(3)]
    for limit, lengths in [(1, [True, False, False]), (1500, [True, False, False]), (2500, [True, True, False]), (1 << 20, [True] * 3)]:
        answer = t.fetch_raw(asked, maxBytes=limit)
        assert [len(p["records"]) > 0 for p in answer["responses"][0]["partitions"]] == lengths, limit
    answer = t.fetch_raw([{**p, "partitionMaxBytes": 1} for p in asked])
    assert [len(p["records"]) > 0 for p in answer["responses"][0]["partitions"]] == [True, False, False]


def test_a_fetch_ends_at_a_batch_and_begins_with_the_one_that_holds_the_offset(t):
    for _ in range(4):
        t.write(plain(5))
    size = len(plain(5))
    assert len(t.fetch(7, partitionMaxBytes=2 * size)["records"]) == 2 * size
    if not USE_KAFKA:  # which cuts the last batch; clients drop that piece
        assert len(t.fetch(7, partitionMaxBytes=3 * size - 1)["records"]) == 2 * size
    assert struct.unpack_from(">q", t.fetch(7)["records"])[0] == 5


def test_a_fetch_of_one_partition_ends_at_a_segment(shared_broker, topic):
    t = Topic(shared_broker, topic, configs={"segment.bytes": "1048576"})
    for _ in range(3):
        t.write(plain(1, b"x" * 500_000))
    first = t.fetch(0, maxBytes=10 << 20, partitionMaxBytes=10 << 20, minBytes=10 << 20, maxWaitMs=30000)
    assert len(first["records"]) == 2 * len(plain(1, b"x" * 500_000))
    assert struct.unpack_from(">q", t.fetch(2)["records"])[0] == 2


@pytest.mark.parametrize("offset", [-1, 4, 1000])
def test_out_of_range_has_no_marks(t, offset):
    t.write(plain(3))
    answer = t.fetch(offset)
    assert [answer[k] for k in ("errorCode", "highWatermark", "lastStableOffset", "logStartOffset")] == [OUT_OF_RANGE, -1, -1, -1]
    assert not answer["records"]


def test_the_end_is_in_range(t):
    t.write(plain(3))
    answer = t.fetch(3)
    assert (answer["errorCode"], answer["highWatermark"], answer["records"]) == (0, 3, b"")


def test_leader_epochs_of_the_client(t):
    t.write(plain(3))
    epoch = t.epoch()
    assert t.fetch(0, currentLeaderEpoch=epoch)["errorCode"] == 0
    assert t.fetch(0, currentLeaderEpoch=epoch + 1)["errorCode"] == UNKNOWN_EPOCH
    if epoch > 0:
        assert t.fetch(0, currentLeaderEpoch=epoch - 1)["errorCode"] == FENCED_EPOCH
    assert t.fetch(3, lastFetchedEpoch=epoch)["errorCode"] == 0
    beyond = t.fetch(3, lastFetchedEpoch=epoch + 1)
    assert (beyond["errorCode"], beyond["divergingEpoch"]["epoch"]) == (OUT_OF_RANGE, -1)  # even at a valid offset


def test_the_right_epoch_beyond_its_end_diverges(make_kagamid, topic):
    daemon = make_kagamid()
    t = Topic(daemon, topic)
    t.write(plain(3))
    epoch = t.epoch()
    daemon.kill()
    daemon.restart()
    t.client = Client(daemon.bootstrap)
    raised = t.epoch()
    assert raised > epoch  # an unclean end
    t.write(plain(3))
    answer = t.fetch(5, lastFetchedEpoch=epoch)
    assert (answer["errorCode"], answer["divergingEpoch"], answer["records"]) == (0, {"epoch": epoch, "endOffset": 3}, b"")
    assert t.fetch(0, 16, currentLeaderEpoch=epoch)["errorCode"] == FENCED_EPOCH
    fenced = t.fetch_raw([{"partition": 0, "fetchOffset": 0, "currentLeaderEpoch": epoch}], 16)
    assert fenced["responses"][0]["partitions"][0]["currentLeader"]["leaderEpoch"] == raised
    assert [n["port"] for n in fenced["nodeEndpoints"]] == [int(daemon.bootstrap.rpartition(":")[2])]
    ends = t.client.send("OffsetForLeaderEpoch", 4, {"replicaId": -1, "topics": [{"topic": t.name, "partitions": [
        {"partition": 0, "leaderEpoch": e} for e in (epoch, raised, raised + 5)]}]})["topics"][0]["partitions"]  # fmt: skip
    assert [(p["errorCode"], p["leaderEpoch"], p["endOffset"]) for p in ends] == [(0, epoch, 3), (0, raised, 6), (0, -1, -1)]


def test_aborted_lists_are_null_or_empty(t):
    t.write(plain())
    assert t.fetch(0, isolationLevel=0)["abortedTransactions"] is None
    assert t.fetch(0, isolationLevel=1)["abortedTransactions"] == []


def test_a_topic_id_that_is_not_there(t):
    answer = t.client.send("Fetch", 13, {"replicaId": -1, "maxWaitMs": 0, "topics": [
        {"topicId": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [{"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 100}]}]})  # fmt: skip
    assert answer["responses"][0]["partitions"][0]["errorCode"] == UNKNOWN_TOPIC_ID


# ---- Waiting ----


def test_a_fetch_waits_until_its_time_is_over(t):
    begun = time.monotonic()
    assert t.fetch(0, maxWaitMs=300)["records"] == b""
    assert time.monotonic() - begun >= 0.29


@pytest.mark.parametrize("isolation", [0, 1])
def test_a_fetch_that_waits_is_woken_by_a_write(t, shared_broker, isolation):
    answers = []

    def wait():
        with Client(shared_broker.bootstrap) as client:
            answers.append(t.fetch(0, maxWaitMs=60000, client=client, isolationLevel=isolation))

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.2)
    t.write(plain())
    waiting.join(30)
    assert not waiting.is_alive() and answers[0]["records"]


@pytest.mark.skipif(USE_KAFKA, reason="its new partitions are not ready at once, which ends the wait")
def test_a_fetch_waits_for_its_least_bytes_over_all_partitions(shared_broker, topic):
    t = Topic(shared_broker, topic, partitions=2)
    answers = []

    def wait():
        with Client(shared_broker.bootstrap) as client:
            answers.append(t.fetch_raw([{"partition": i, "fetchOffset": 0} for i in range(2)], client=client, maxWaitMs=60000, minBytes=1000))

    waiting = threading.Thread(target=wait)
    waiting.start()
    for index in (0, 1, 1):
        time.sleep(0.2)
        assert not answers
        t.produce_raw([{"index": index, "records": plain(1, b"x" * 300)}])
    waiting.join(30)
    assert not waiting.is_alive()
    assert sum(len(p["records"]) for p in answers[0]["responses"][0]["partitions"]) >= 1000


def test_a_deleted_topic_ends_the_wait(t, shared_broker):
    answers = []

    def wait():
        with Client(shared_broker.bootstrap) as client:
            answers.append(t.fetch(0, maxWaitMs=60000, client=client))

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.3)
    t.client.send("DeleteTopics", 4, {"topicNames": [t.name], "timeoutMs": 30000})
    waiting.join(30)
    assert not waiting.is_alive() and answers[0]["errorCode"] in (UNKNOWN_TOPIC, 6)


# ---- Sessions ----


def session(t, epoch, session_id, partitions=(), version=12, **more):
    answer = t.fetch_raw(list(partitions), version, sessionId=session_id, sessionEpoch=epoch, **more)
    named = [p["partitionIndex"] for r in answer["responses"] for p in r["partitions"]]
    return answer["errorCode"], answer["sessionId"], named


def test_a_session_names_what_changed(shared_broker, topic):
    t = Topic(shared_broker, topic, partitions=3)
    error, number, named = session(t, 0, 0, [{"partition": i, "fetchOffset": 0} for i in range(3)])
    assert (error, named) == (0, [0, 1, 2]) and number != 0
    assert session(t, 1, number) == (0, number, [])
    t.produce_raw([{"index": 1, "records": plain()}])
    assert session(t, 2, number) == (0, number, [1])
    assert session(t, 3, number, [{"partition": 1, "fetchOffset": 1}]) == (0, number, [])
    assert session(t, 9, number) == (INVALID_SESSION_EPOCH, 0, [])
    assert session(t, 4, number) == (0, number, [])  # a wrong epoch keeps the session
    assert session(t, 5, number, version=13) == (SESSION_TOPIC_ID, 0, [])
    assert session(t, 5, number + 1) == (SESSION_NOT_FOUND, 0, [])
    assert session(t, -1, number) == (0, 0, [])
    assert session(t, 5, number) == (SESSION_NOT_FOUND, 0, [])


def test_a_session_forgets(shared_broker, topic):
    t = Topic(shared_broker, topic, partitions=2)
    _, number, _ = session(t, 0, 0, [{"partition": i, "fetchOffset": 0} for i in range(2)], 13)
    t.produce_raw([{"index": 0, "records": plain()}, {"index": 1, "records": plain()}])
    forgotten = [{"topicId": t.id, "partitions": [0]}]
    assert session(t, 1, number, version=13, forgottenTopicsData=forgotten) == (0, number, [1])


# ---- ListOffsets, DeleteRecords ----


def test_offsets_by_time(t):
    for i in range(3):
        t.write(batch([(None, b"a"), (None, b"b")], timestamp=NOW + 1000 * i))
    wanted = [(NOW - 5, NOW, 0), (NOW, NOW, 0), (NOW + 1, NOW + 1000, 2), (NOW + 2000, NOW + 2000, 4), (NOW + 2001, -1, -1)]
    for timestamp, found, offset in wanted:
        (answer,) = t.list_offset(timestamp)
        assert (answer["errorCode"], answer["timestamp"], answer["offset"]) == (0, found, offset)
    (largest,) = t.list_offset(-3)
    assert (largest["timestamp"], largest["offset"]) == (NOW + 2000, 4)


@pytest.mark.parametrize("timestamp,first", [(-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 99)])
def test_special_times_need_their_version(t, timestamp, first):
    for version in (first - 1, first):
        if 1 <= version <= 11:
            (answer,) = t.list_offset(timestamp, version)
            assert answer["errorCode"] == (0 if version >= first else UNSUPPORTED_VERSION), version


def test_a_partition_listed_twice(t):
    assert {p["errorCode"] for p in t.list_offset(-1, times=2)} == {INVALID_REQUEST}


def delete_records(t, offset, index=0):
    answer = t.client.send("DeleteRecords", 2, {"timeoutMs": 30000, "topics": [
        {"name": t.name, "partitions": [{"partitionIndex": index, "offset": offset}]}]})["topics"][0]["partitions"][0]  # fmt: skip
    return answer["errorCode"], answer["lowWatermark"]


def test_deleting_records_inside_a_batch(t):
    t.write(plain(5))
    t.write(plain(5))
    assert delete_records(t, 3) == (0, 3)
    assert t.list_offset(-2)[0]["offset"] == 3
    assert t.fetch(2)["errorCode"] == OUT_OF_RANGE
    assert struct.unpack_from(">q", t.fetch(3)["records"])[0] == 0  # the whole batch that holds it
    assert delete_records(t, 1) == (0, 3)
    assert delete_records(t, 11) == (OUT_OF_RANGE, -1)
    assert delete_records(t, -1) == (0, 10)
    assert delete_records(t, 0, 9) == (UNKNOWN_TOPIC, -1)
    assert t.fetch(10)["errorCode"] == 0


def test_zero_ids_are_unknown(t):
    answer = t.client.send("Fetch", 13, {"replicaId": -1, "maxWaitMs": 0, "topics": [
        {"topicId": ZERO_UUID, "partitions": [{"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 100}]}]})  # fmt: skip
    assert answer["responses"][0]["partitions"][0]["errorCode"] == UNKNOWN_TOPIC_ID


@better
def test_more_partitions_than_a_request_may_name(t, shared_broker):
    """Each costs memory until it is answered; the sender pays with its connection or gets an error."""
    many = 200_001
    name = struct.pack(">h", len(t.name)) + t.name.encode()
    head = struct.pack(">hhihhhii", 0, 3, 1, -1, -1, 1, 1000, 1)  # header; no transactional id, acks, timeout, one topic
    request = head + name + struct.pack(">i", many) + b"".join(struct.pack(">ii", i, -1) for i in range(many))
    with Client(shared_broker.bootstrap) as client:
        client.send_bytes(struct.pack(">i", len(request)) + request)
        client.closed()
    head = struct.pack(">hhihiiiibi", 1, 4, 7, -1, -1, 0, 1, 1 << 20, 0, 1)  # header; replica, wait, least and most bytes, isolation, one topic
    request = head + name + struct.pack(">i", many) + b"".join(struct.pack(">iqi", i, 0, 1) for i in range(many))
    with Client(shared_broker.bootstrap) as client:
        client.send_bytes(struct.pack(">i", len(request)) + request)
        client.closed()  # version 4 has no place for an error
