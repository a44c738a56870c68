"""Metadata, topics and settings by raw requests: what the admin calls answer beyond "it worked", in the order of the request, with the words of a real Kafka.

KAGAMI_TEST_BROKER=kafka runs what both answer alike against a real Kafka."""

import time

import pytest

from batches import batch
from conftest import USE_KAFKA, unique_topic
from kagamid import StartFailed
from waiting import wait_until
from wire import ZERO_UUID, Client, uuid_text

UNKNOWN_SERVER_ERROR, UNKNOWN_TOPIC, INVALID_TOPIC, TOPIC_EXISTS, INVALID_PARTITIONS, INVALID_FACTOR = -1, 3, 17, 36, 37, 38
INVALID_ASSIGNMENT, INVALID_CONFIG, INVALID_REQUEST, POLICY_VIOLATION, DELETION_DISABLED, UNKNOWN_TOPIC_ID = 39, 40, 42, 44, 73, 100
UNSUPPORTED_VERSION, MESSAGE_TOO_LARGE, MISMATCHED_ENDPOINT, UNSUPPORTED_ENDPOINT = 35, 10, 114, 115
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
BY_TOPIC, BY_BROKER, BY_ALL_BROKERS, BY_FILE, BY_DEFAULT = 1, 2, 3, 4, 5
STRANGER = uuid_text(bytes(range(16)))
METADATA_VERSIONS = range(14)

only_kagami = pytest.mark.skipif(USE_KAFKA, reason="this is ours")


class Admin:
    def __init__(self, broker):
        self.broker = broker
        self.client = Client(broker.bootstrap)
        self.send = self.client.send
        self.send("ApiVersions", 3, {"clientSoftwareName": "test", "clientSoftwareVersion": "1"})  # as every client does

    def metadata(self, version, names=None, **more):
        topics = None if names is None else [n if isinstance(n, dict) else {"name": n} for n in names]
        if version >= 4:
            more.setdefault("allowAutoTopicCreation", False)
        return self.send("Metadata", version, {"topics": topics, **more})["topics"]

    def create(self, name, partitions=1, **more):
        answer = self.send("CreateTopics", 7, {"topics": [{"name": name, "numPartitions": partitions, "replicationFactor": 1, **more}]})
        assert answer["topics"][0]["errorCode"] == 0, answer
        self.wait_for(name, partitions)
        return answer["topics"][0]["topicId"]

    def wait_for(self, name, partitions):
        def there():
            topic = self.metadata(12, [name])[0]
            return topic["errorCode"] == 0 and sum(p["errorCode"] == 0 for p in topic["partitions"]) == partitions

        wait_until(there, 30, f"{name} has not {partitions} partitions with leaders")

    def wait_gone(self, name):
        wait_until(lambda: self.metadata(12, [name])[0]["errorCode"] == UNKNOWN_TOPIC, 30, f"{name} is still there")

    def configs(self, kind, name, keys=None, **more):
        request = {"resources": [{"resourceType": kind, "resourceName": name, "configurationKeys": keys}], **more}
        result = self.send("DescribeConfigs", 4, request)["results"][0]
        assert result["errorCode"] == 0, result
        return {c["name"]: c for c in result["configs"]}

    def value(self, name, key, kind=TOPIC):
        return self.configs(kind, name, [key])[key]["value"]

    def alter(self, name, *ops, kind=TOPIC, validate_only=False):
        configs = [{"configOperation": op, "name": key, "value": value} for op, key, value in ops]
        answer = self.send("IncrementalAlterConfigs", 1, {"resources": [{"resourceType": kind, "resourceName": name, "configs": configs}],
                                                          "validateOnly": validate_only})  # fmt: skip
        return answer["responses"][0]["errorCode"], answer["responses"][0]["errorMessage"]

    def leader_epoch(self, name):
        return self.metadata(12, [name])[0]["partitions"][0]["leaderEpoch"]


@pytest.fixture
def admin(shared_broker):
    it = Admin(shared_broker)
    yield it
    it.client.close()


# ---- Metadata ----


@pytest.mark.parametrize("version", METADATA_VERSIONS)
def test_all_topics_none_and_some(admin, topic, version):
    admin.create(topic)
    every = admin.metadata(version, [] if version == 0 else None)
    assert topic in [t["name"] for t in every]
    if version >= 1:
        assert admin.metadata(version, []) == []
    assert [t["name"] for t in admin.metadata(version, [topic, topic])] == [topic]  # named twice, answered once


@pytest.mark.parametrize("version", [v for v in METADATA_VERSIONS if v >= 4])
def test_topics_that_are_not_there(admin, topic, version):
    answers = {t["name"]: t for t in admin.metadata(version, [topic, "no/topic", "x" * 250])}
    assert {name: t["errorCode"] for name, t in answers.items()} == {topic: UNKNOWN_TOPIC, "no/topic": INVALID_TOPIC, "x" * 250: INVALID_TOPIC}
    assert all(t["partitions"] == [] for t in answers.values())
    assert admin.metadata(12, [topic])[0]["errorCode"] == UNKNOWN_TOPIC  # and asking did not make it


@only_kagami  # the peers' Kafka runs without auto-creation
@pytest.mark.parametrize("version", METADATA_VERSIONS)
def test_a_topic_that_is_asked_for_comes_into_being(admin, topic, version):
    def ask():
        more = {"allowAutoTopicCreation": True} if version >= 4 else {}
        return admin.metadata(version, [topic], **more)[0]["errorCode"]

    assert ask() == UNKNOWN_TOPIC  # facts 7
    wait_until(lambda: ask() == 0, 10, "it was not created")


@only_kagami
def test_a_topic_that_cannot_come_into_being_says_why(admin):
    a = unique_topic("auto").replace(".", "_")
    admin.create(a)
    colliding = a.replace("_", ".")
    assert admin.metadata(12, [colliding], allowAutoTopicCreation=True)[0]["errorCode"] == INVALID_TOPIC
    assert admin.metadata(12, ["__of_a_coordinator"], allowAutoTopicCreation=True)[0]["errorCode"] == UNKNOWN_TOPIC
    assert admin.metadata(12, ["__of_a_coordinator"])[0]["errorCode"] == UNKNOWN_TOPIC


@pytest.mark.parametrize("version", [12, 13])
def test_topics_by_id(admin, topic, version):
    topic_id = admin.create(topic)
    by_id = {"name": None, "topicId": topic_id}
    found = admin.metadata(version, [by_id, {"name": None, "topicId": STRANGER}, by_id])
    assert {(t["topicId"], t["name"], t["errorCode"]) for t in found} == {(topic_id, topic, 0), (STRANGER, None, UNKNOWN_TOPIC_ID)}
    assert len(found) == 2
    # Facts 6: ids and names mixed give the ids; a topic with neither is an error of the whole request.
    assert [t["name"] for t in admin.metadata(version, [by_id, {"name": "other"}])] == [topic]
    assert [t["errorCode"] for t in admin.metadata(version, [{"name": None, "topicId": ZERO_UUID}])] == [UNKNOWN_SERVER_ERROR]


@pytest.mark.parametrize("version", [10, 11])
def test_ids_in_versions_that_only_carry_them(admin, topic, version):
    topic_id = admin.create(topic)
    assert admin.metadata(version, [topic])[0]["topicId"] == topic_id
    assert [t["errorCode"] for t in admin.metadata(version, [{"name": topic, "topicId": topic_id}])] == [INVALID_REQUEST]
    assert [t["errorCode"] for t in admin.metadata(version, [{"name": None, "topicId": topic_id}])] == [INVALID_REQUEST]


def test_authorized_operations(admin, topic):
    admin.create(topic)
    request = {"topics": [{"name": topic}], "includeClusterAuthorizedOperations": True, "includeTopicAuthorizedOperations": True}
    answer = admin.send("Metadata", 10, request)
    assert (answer["clusterAuthorizedOperations"], answer["topics"][0]["topicAuthorizedOperations"]) == (8096, 3576)
    answer = admin.send("Metadata", 10, {"topics": [{"name": topic}]})
    assert answer["clusterAuthorizedOperations"] == answer["topics"][0]["topicAuthorizedOperations"] == -(2**31)
    assert admin.send("DescribeCluster", 2, {"includeClusterAuthorizedOperations": True})["clusterAuthorizedOperations"] == 8096
    assert admin.send("DescribeTopicPartitions", 0, {"topics": [{"name": topic}]})["topics"][0]["topicAuthorizedOperations"] == 3576


def test_the_endpoint_type_of_describe_cluster(admin):
    for version in (1, 2):
        assert admin.send("DescribeCluster", version, {"endpointType": 1})["endpointType"] == 1
        assert admin.send("DescribeCluster", version, {"endpointType": 2})["errorCode"] == MISMATCHED_ENDPOINT
        assert admin.send("DescribeCluster", version, {"endpointType": 9})["errorCode"] == UNSUPPORTED_ENDPOINT


def test_pages_of_topic_partitions(admin):
    names = sorted(unique_topic("pages") for _ in range(3))
    for name in names:
        admin.create(name, 2)

    def page(limit, cursor, wanted):
        request = {"topics": [{"name": n} for n in wanted], "responsePartitionLimit": limit, "cursor": cursor}
        answer = admin.send("DescribeTopicPartitions", 0, request)
        return [(t["name"], t["errorCode"], [p["partitionIndex"] for p in t["partitions"]]) for t in answer["topics"]], answer["nextCursor"]

    wanted = [names[2], names[0], names[1], names[0]]  # any order, one twice: answered in the order of names, once
    seen, cursor = page(3, None, wanted)
    assert seen == [(names[0], 0, [0, 1]), (names[1], 0, [0])]
    assert cursor == {"topicName": names[1], "partitionIndex": 1}
    seen, cursor = page(3, cursor, wanted)
    assert seen == [(names[1], 0, [1]), (names[2], 0, [0, 1])]
    assert cursor is None
    seen, cursor = page(2, None, wanted)
    assert (seen, cursor) == ([(names[0], 0, [0, 1])], {"topicName": names[1], "partitionIndex": 0})
    seen, _ = page(100, None, [names[0], "not-there", "no/topic"])
    assert sorted(s for s in seen) == sorted([(names[0], 0, [0, 1]), ("not-there", UNKNOWN_TOPIC, []), ("no/topic", INVALID_TOPIC, [])])
    request = {"topics": [], "responsePartitionLimit": 2000}
    every = admin.send("DescribeTopicPartitions", 0, request)["topics"]
    assert set(names) <= {t["name"] for t in every} and [t["name"] for t in every] == sorted(t["name"] for t in every)


# ---- Creating, deleting, growing ----


def create_answers(admin, topics, version=7, **more):
    answer = admin.send("CreateTopics", version, {"topics": [{"numPartitions": 1, "replicationFactor": 1, **t} for t in topics], **more})
    return {t["name"]: t for t in answer["topics"]}


def assigned(*lists, **more):
    return {"numPartitions": -1, "replicationFactor": -1, "assignments": [{"partitionIndex": i, "brokerIds": ids} for i, ids in lists], **more}


def test_what_may_not_be_created(admin, topic):
    admin.create(topic)
    one = admin.send("DescribeCluster", 1, {})["brokers"][0]["brokerId"]
    dotted, under = topic + ".x", topic.replace(".", "_") + "_x"
    admin.create(dotted)
    cases = {
        topic: ({}, TOPIC_EXISTS, f"Topic '{topic}' already exists."),
        under: ({}, INVALID_TOPIC, f"Topic '{under}' collides with existing topic: {dotted}"),
        "no/topic": ({}, INVALID_TOPIC, "'no/topic' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        "..": ({}, INVALID_TOPIC, "'..' is not allowed"),
        "": ({}, INVALID_TOPIC, "the empty string is not allowed"),
        "x" * 250: ({}, INVALID_TOPIC, "longer than the max allowed length 249"),
        "c-zero": ({"numPartitions": 0}, INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."),
        "c-minus": ({"numPartitions": -2}, INVALID_PARTITIONS, "non-positive"),
        "c-none": ({"replicationFactor": 0}, INVALID_FACTOR, "Replication factor must be larger than 0, or -1 to use the default value."),
        "c-two": ({"replicationFactor": 2}, INVALID_FACTOR, "The target replication factor of 2 cannot be reached because only 1 broker(s) are registered"),
        "c-unknown": ({"configs": [{"name": "nope", "value": "1"}]}, INVALID_CONFIG, "Unknown topic config name: nope"),
        "c-bad": ({"configs": [{"name": "retention.ms", "value": "x"}]}, INVALID_CONFIG,
                  "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        "c-null": ({"configs": [{"name": "retention.ms", "value": None}]}, INVALID_CONFIG, "Null value not supported for topic configs: retention.ms"),
        "c-hole": (assigned((0, [one]), (2, [one])), INVALID_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"),
        "c-stranger": (assigned((0, [one + 1])), INVALID_ASSIGNMENT, f"includes broker {one + 1}, but no such broker is registered."),
        "c-double": (assigned((0, [one, one])), INVALID_ASSIGNMENT, f"The manual partition assignment includes the broker {one} more than once."),
        "c-empty": (assigned((0, [])), INVALID_ASSIGNMENT, "The manual partition assignment includes an empty replica list."),
        "c-both": (assigned((0, [one]), replicationFactor=1), INVALID_REQUEST, "replication factor was not set to -1"),
        "__cluster_metadata": ({}, INVALID_REQUEST, "Creation of internal topic __cluster_metadata is prohibited."),
    }  # fmt: skip
    for validate_only in (True, False):
        for version in (2, 7):
            answers = create_answers(admin, [{"name": name, **more} for name, (more, _, _) in cases.items()], version, validateOnly=validate_only)
            assert {name: a["errorCode"] for name, a in answers.items()} == {name: code for name, (_, code, _) in cases.items()}
            for name, (_, _, text) in cases.items():
                assert text in answers[name]["errorMessage"], name
    assert admin.metadata(12, ["c-zero"])[0]["errorCode"] == UNKNOWN_TOPIC


@only_kagami
def test_a_misspelled_setting_gets_the_nearest_name(admin):
    answer = create_answers(admin, [{"name": "n", "configs": [{"name": "retention.mss", "value": "1"}]}])["n"]
    assert answer["errorMessage"].endswith("Did you mean retention.ms?")


def test_good_topics_of_a_request_are_made_beside_bad_ones(admin, topic):
    good, bad, twice = topic + "-good", "no/topic", topic + "-twice"
    topics = [{"name": n, "numPartitions": 1, "replicationFactor": 1} for n in (good, bad, twice, twice)]
    answer = admin.send("CreateTopics", 7, {"topics": topics})["topics"]
    assert {t["name"]: t["errorCode"] for t in answer} == {good: 0, bad: INVALID_TOPIC, twice: INVALID_REQUEST}
    if not USE_KAFKA:
        assert [t["name"] for t in answer] == [good, bad, twice, twice]  # in the order of the request
    admin.wait_for(good, 1)
    assert admin.metadata(12, [twice])[0]["errorCode"] == UNKNOWN_TOPIC


def test_defaults_assignments_and_what_the_answer_says(admin, topic):
    one = admin.send("DescribeCluster", 1, {})["brokers"][0]["brokerId"]
    answers = create_answers(admin, [
        {"name": topic + "-d", "numPartitions": -1, "replicationFactor": -1},
        {"name": topic + "-a", **assigned((1, [one]), (0, [one])), "configs": [{"name": "cleanup.policy", "value": "compact"}]}])  # fmt: skip
    default, placed = answers[topic + "-d"], answers[topic + "-a"]
    assert (default["errorCode"], default["numPartitions"], default["replicationFactor"]) == (0, 1, 1)
    assert (placed["errorCode"], placed["numPartitions"], placed["replicationFactor"]) == (0, 2, 1)
    configs = {c["name"]: c for c in placed["configs"]}
    assert (configs["cleanup.policy"]["value"], configs["cleanup.policy"]["configSource"]) == ("compact", BY_TOPIC)
    assert (configs["segment.bytes"]["value"], configs["segment.bytes"]["configSource"]) == ("1073741824", BY_DEFAULT)
    admin.wait_for(topic + "-a", 2)
    assert placed["topicId"] == admin.metadata(12, [topic + "-a"])[0]["topicId"] != ZERO_UUID


def test_deleting_by_name_and_by_id(admin, topic):
    ids = {name: admin.create(name) for name in (topic + "-1", topic + "-2", topic + "-3")}
    wanted = [{"name": topic + "-1"}, {"name": None, "topicId": ids[topic + "-2"]}, {"name": "not-there"}, {"name": None, "topicId": STRANGER}]
    responses = admin.send("DeleteTopics", 6, {"topics": wanted, "timeoutMs": 30000})["responses"]
    assert {(r["name"], r["errorCode"]) for r in responses} == {(topic + "-1", 0), (topic + "-2", 0), ("not-there", UNKNOWN_TOPIC), (None, UNKNOWN_TOPIC_ID)}
    for name in (topic + "-1", topic + "-2"):
        admin.wait_gone(name)
    for version in range(1, 6):
        responses = admin.send("DeleteTopics", version, {"topicNames": ["not-there"], "timeoutMs": 30000})["responses"]
        assert [(r["name"], r["errorCode"]) for r in responses] == [("not-there", UNKNOWN_TOPIC)]
    twice = admin.send("DeleteTopics", 6, {"topics": [{"name": topic + "-3"}, {"name": topic + "-3"}], "timeoutMs": 30000})["responses"]
    assert {r["errorCode"] for r in twice} == {INVALID_REQUEST}
    assert admin.metadata(12, [topic + "-3"])[0]["errorCode"] == 0


def test_a_name_that_is_used_again_is_another_topic(admin, topic):
    first = admin.create(topic, 2)
    admin.send("DeleteTopics", 6, {"topics": [{"name": topic}], "timeoutMs": 30000})
    admin.wait_gone(topic)
    assert admin.create(topic, 1) != first
    assert len(admin.metadata(12, [topic])[0]["partitions"]) == 1
    offsets = admin.send("ListOffsets", 5, {"replicaId": -1, "topics": [{"name": topic, "partitions": [{"partitionIndex": 0, "timestamp": -1}]}]})
    assert offsets["topics"][0]["partitions"][0]["offset"] == 0


def test_growing(admin, topic):
    admin.create(topic, 4)
    one = admin.send("DescribeCluster", 1, {})["brokers"][0]["brokerId"]

    def grow(count, assignments=None, name=topic, validate_only=False):
        assignments = None if assignments is None else [{"brokerIds": ids} for ids in assignments]
        answer = admin.send("CreatePartitions", 3, {"topics": [{"name": name, "count": count, "assignments": assignments}], "timeoutMs": 30000,
                                                    "validateOnly": validate_only})  # fmt: skip
        return answer["results"][0]["errorCode"], answer["results"][0]["errorMessage"] or ""

    for answer, code, text in (
        (grow(4), INVALID_PARTITIONS, "Topic already has 4 partition(s)."),
        (grow(3), INVALID_PARTITIONS, f"The topic {topic} currently has 4 partition(s); 3 would not be an increase."),
        (grow(6, name="not-there"), UNKNOWN_TOPIC, ""),
        (grow(6, [[one]]), INVALID_ASSIGNMENT, "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."),
        (grow(6, [[one], [one + 1]]), INVALID_ASSIGNMENT, "no such broker is registered"),
        (grow(2000000), POLICY_VIOLATION, "Excessively large number of additional partitions per request"),
    ):
        assert answer[0] == code and text in answer[1]
    assert grow(6, validate_only=True) == (0, "")
    assert len(admin.metadata(12, [topic])[0]["partitions"]) == 4
    assert grow(6, [[one], [one]]) == (0, "")
    admin.wait_for(topic, 6)


# ---- Settings ----


def test_where_a_topic_s_settings_come_from(admin, topic):
    admin.create(topic, configs=[{"name": "retention.ms", "value": "1234"}])
    configs = admin.configs(TOPIC, topic, includeSynonyms=True, includeDocumentation=True)
    assert len(configs) == 37  # all that TopicConfig of Kafka 4.4 has
    retention = configs["retention.ms"]
    assert (retention["value"], retention["configSource"], retention["configType"]) == ("1234", BY_TOPIC, 5)
    assert retention["synonyms"][0] == {"name": "retention.ms", "value": "1234", "source": BY_TOPIC}
    segment = configs["segment.bytes"]
    assert (segment["value"], segment["configSource"], segment["configType"]) == ("1073741824", BY_DEFAULT, 3)
    assert segment["synonyms"] == [{"name": "log.segment.bytes", "value": "1073741824", "source": BY_DEFAULT}]
    assert configs["segment.ms"]["value"] == "604800000"
    assert configs["flush.ms"]["value"] == "9223372036854775807" and configs["flush.ms"]["synonyms"] == []
    assert configs["max.message.bytes"]["configSource"] == BY_FILE  # the broker of these tests was started with it
    assert all(c["documentation"] and not c["readOnly"] and not c["isSensitive"] for c in configs.values())
    plain = admin.configs(TOPIC, topic)
    assert all(c["synonyms"] == [] and c["documentation"] is None for c in plain.values())
    assert set(admin.configs(TOPIC, topic, ["retention.ms", "nope"])) == {"retention.ms"}


def test_what_cannot_be_described(admin):
    resources = [{"resourceType": kind, "resourceName": name, "configurationKeys": None}
                 for kind, name in ((TOPIC, "not-there"), (TOPIC, "no/topic"), (TOPIC, ""), (BROKER, "99"), (BROKER, "x"))]  # fmt: skip
    results = admin.send("DescribeConfigs", 4, {"resources": resources})["results"]
    assert [(r["resourceName"], r["errorCode"]) for r in results] == [
        ("not-there", UNKNOWN_TOPIC), ("no/topic", INVALID_TOPIC), ("", INVALID_TOPIC), ("99", INVALID_REQUEST), ("x", INVALID_REQUEST)]  # fmt: skip
    assert all(r["configs"] == [] for r in results)


# What a real Kafka 4.4 answered, word for word where it has words; the unit tests have the whole table.
ALTERATIONS = [
    ((SET, "nope", "1"), INVALID_CONFIG, "Unknown topic config name: nope"),
    ((SET, "retention.ms", "-2"), INVALID_CONFIG, "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
    ((SET, "segment.bytes", "99999999999"), INVALID_CONFIG, "Invalid value 99999999999 for configuration segment.bytes: Not a number of type INT"),
    ((SET, "cleanup.policy", "foo"), INVALID_CONFIG, "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete"),
    ((SET, "preallocate", "yes"), INVALID_CONFIG, "Invalid value yes for configuration preallocate: Expected value to be either true or false"),
    ((APPEND, "retention.ms", "1"), INVALID_CONFIG, "Can't APPEND to key retention.ms because its type is not LIST."),
    ((SUBTRACT, "retention.ms", "1"), INVALID_CONFIG, "Can't SUBTRACT to key retention.ms because its type is not LIST."),
    ((SET, "cleanup.policy", ""), 0, None),
    ((SET, "cleanup.policy", "compact,delete"), 0, None),
    ((SET, "retention.ms", "+5"), 0, None),
    ((DELETE, "nope", None), 0, None),
]


@pytest.mark.parametrize("op,code,message", ALTERATIONS, ids=[f"{op}-{code}" for op, code, _ in ALTERATIONS])
def test_alterations(admin, topic, op, code, message):
    admin.create(topic)
    answer = admin.alter(topic, op)
    assert answer[0] == code
    if message:
        assert answer[1].startswith(message)


def test_lists_grow_and_shrink(admin, topic):
    admin.create(topic)
    steps = [((APPEND, "compact"), {"compact", "delete"}), ((APPEND, "compact"), {"compact", "delete"}), ((SUBTRACT, "delete"), {"compact"}),
             ((DELETE, None), {"delete"})]  # fmt: skip
    for (op, value), expected in steps:
        assert admin.alter(topic, (op, "cleanup.policy", value))[0] == 0
        wait_until(lambda expected=expected: set(admin.value(topic, "cleanup.policy").split(",")) == expected, 30, f"not {expected}")


def test_one_bad_alteration_stops_all_of_a_resource(admin, topic):
    admin.create(topic)
    code, _ = admin.alter(topic, (SET, "retention.ms", "5"), (SET, "segment.ms", "0"))
    assert code == INVALID_CONFIG
    assert admin.alter(topic, (SET, "retention.ms", "5"), validate_only=True)[0] == 0
    assert admin.configs(TOPIC, topic)["retention.ms"]["configSource"] == BY_DEFAULT
    assert admin.alter(topic, (SET, "retention.ms", "5"), (SET, "retention.ms", "6"))[0] == INVALID_REQUEST


def test_resources_are_answered_in_order_and_one_at_a_time(admin, topic):
    admin.create(topic)
    def change(name):
        return {"resourceType": TOPIC, "resourceName": name, "configs": [{"configOperation": SET, "name": "retention.ms", "value": "77"}]}
    answer = admin.send("IncrementalAlterConfigs", 1, {"resources": [change("not-there"), change(topic), change("no/topic")]})["responses"]
    by_name = {r["resourceName"]: r["errorCode"] for r in answer}
    assert by_name == {"not-there": UNKNOWN_TOPIC, topic: 0, "no/topic": INVALID_TOPIC}
    if not USE_KAFKA:
        assert [r["resourceName"] for r in answer] == ["not-there", topic, "no/topic"]
    wait_until(lambda: admin.value(topic, "retention.ms") == "77", 30, "it was not set")
    twice = admin.send("IncrementalAlterConfigs", 1, {"resources": [change(topic), change(topic)]})["responses"]
    assert {r["errorCode"] for r in twice} == {INVALID_REQUEST}


def test_alter_configs_replaces_what_was_set(admin, topic):
    admin.create(topic, configs=[{"name": "retention.ms", "value": "1"}, {"name": "flush.ms", "value": "2"}])
    configs = [{"name": "flush.ms", "value": "3"}]
    answer = admin.send("AlterConfigs", 2, {"resources": [{"resourceType": TOPIC, "resourceName": topic, "configs": configs}]})
    assert answer["responses"][0]["errorCode"] == 0
    wait_until(lambda: admin.value(topic, "flush.ms") == "3", 30, "it was not set")
    assert admin.configs(TOPIC, topic)["retention.ms"]["configSource"] == BY_DEFAULT


def test_broker_settings(admin):
    one = str(admin.send("DescribeCluster", 1, {})["brokers"][0]["brokerId"])
    configs = admin.configs(BROKER, one, includeSynonyms=True)
    assert configs["node.id"]["readOnly"] and (configs["node.id"]["value"], configs["node.id"]["configType"]) == (one, 3)
    assert not configs["log.cleanup.policy"]["readOnly"] and configs["log.cleanup.policy"]["value"] == "delete"
    assert not configs["background.threads"]["readOnly"]
    assert configs["message.max.bytes"]["configSource"] == BY_FILE
    for op, code in (((SET, "log.flush.interval.ms", "x"), INVALID_REQUEST), ((SET, "node.id", "4"), INVALID_REQUEST),
                     ((SET, "num.partitions", "4"), INVALID_REQUEST), ((SET, "log.flush.interval.ms", "100000"), 0)):  # fmt: skip
        assert admin.alter(one, op, kind=BROKER)[0] == code, op
    wait_until(lambda: admin.configs(BROKER, one)["log.flush.interval.ms"]["value"] == "100000", 30, "it was not set")
    assert admin.configs(BROKER, one)["log.flush.interval.ms"]["configSource"] == BY_BROKER
    assert admin.alter("", (SET, "log.flush.interval.ms", "200000"), kind=BROKER)[0] == 0
    wait_until(lambda: "log.flush.interval.ms" in admin.configs(BROKER, ""), 30, "it was not set for all")
    assert admin.configs(BROKER, "")["log.flush.interval.ms"]["value"] == "200000"
    assert admin.configs(BROKER, one)["log.flush.interval.ms"]["value"] == "100000"
    assert admin.alter(one, (DELETE, "log.flush.interval.ms", None), kind=BROKER)[0] == 0
    wait_until(lambda: admin.configs(BROKER, one)["log.flush.interval.ms"]["value"] == "200000", 30, "it did not fall back")
    assert admin.configs(BROKER, one)["log.flush.interval.ms"]["configSource"] == BY_ALL_BROKERS
    assert admin.alter("", (DELETE, "log.flush.interval.ms", None), kind=BROKER)[0] == 0
    wait_until(lambda: admin.configs(BROKER, one)["log.flush.interval.ms"]["configSource"] == BY_DEFAULT, 30, "it did not go")


def produce_error(admin, topic, value):
    now = int(time.time() * 1000)
    answer = admin.send("Produce", 9, {"acks": -1, "timeoutMs": 30000, "topicData": [
        {"name": topic, "partitionData": [{"index": 0, "records": batch([(None, value)], timestamp=now)}]}]})  # fmt: skip
    return answer["responses"][0]["partitionResponses"][0]["errorCode"]


def test_a_changed_setting_is_followed_at_once(admin, topic):
    admin.create(topic)
    wait_until(lambda: produce_error(admin, topic, b"x" * 2000) == 0, 30, "nothing can be written")
    assert admin.alter(topic, (SET, "max.message.bytes", "1000"))[0] == 0
    wait_until(lambda: produce_error(admin, topic, b"x" * 2000) == MESSAGE_TOO_LARGE, 30, "the limit does not hold")
    assert admin.alter(topic, (DELETE, "max.message.bytes", None))[0] == 0
    wait_until(lambda: produce_error(admin, topic, b"x" * 2000) == 0, 30, "the limit still holds")


def test_resources_that_have_settings(admin, topic):
    admin.create(topic)
    one = str(admin.send("DescribeCluster", 1, {})["brokers"][0]["brokerId"])
    every = admin.send("ListConfigResources", 1, {"resourceTypes": []})
    found = {(r["resourceType"], r["resourceName"]) for r in every["configResources"]}
    assert {(TOPIC, topic), (BROKER, one)} <= found
    brokers = admin.send("ListConfigResources", 1, {"resourceTypes": [BROKER]})["configResources"]
    assert [(r["resourceType"], r["resourceName"]) for r in brokers] == [(BROKER, one)]
    assert admin.send("ListConfigResources", 1, {"resourceTypes": [99]})["errorCode"] == UNSUPPORTED_VERSION


# ---- Over restarts, and with other settings ----


@only_kagami
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_what_was_acknowledged_is_there_after_the_end(make_kagamid, topic, end):
    daemon = make_kagamid()
    admin = Admin(daemon)
    topic_id = admin.create(topic, 3, configs=[{"name": "retention.ms", "value": "1234567"}])
    admin.create(topic + "-gone")
    assert admin.alter(topic, (SET, "cleanup.policy", "compact"))[0] == 0
    assert admin.alter("", (SET, "log.segment.delete.delay.ms", "7"), kind=BROKER)[0] == 0
    admin.send("DeleteTopics", 6, {"topics": [{"name": topic + "-gone"}], "timeoutMs": 30000})
    epoch = admin.leader_epoch(topic)
    getattr(daemon, end)()
    daemon.restart()
    admin = Admin(daemon)
    described = admin.metadata(12, [topic, topic + "-gone"])
    assert [(t["errorCode"], len(t["partitions"])) for t in described] == [(0, 3), (UNKNOWN_TOPIC, 0)]
    assert described[0]["topicId"] == topic_id
    assert (admin.value(topic, "retention.ms"), admin.value(topic, "cleanup.policy")) == ("1234567", "compact")
    assert admin.configs(TOPIC, topic)["file.delete.delay.ms"]["configSource"] == BY_ALL_BROKERS
    # After an unclean end a lost tail must show as another epoch (design section 5); a clean end costs none.
    assert (admin.leader_epoch(topic) > epoch) == (end == "kill")


@only_kagami
def test_settings_of_the_start(make_kagamid, topic):
    daemon = make_kagamid({"auto.create.topics.enable": "false", "delete.topic.enable": "false", "num.partitions": "3", "log.retention.hours": "2"})
    admin = Admin(daemon)
    for version in (1, 12):
        more = {"allowAutoTopicCreation": True} if version >= 4 else {}
        assert admin.metadata(version, [topic], **more)[0]["errorCode"] == UNKNOWN_TOPIC
        assert admin.metadata(12, [topic])[0]["errorCode"] == UNKNOWN_TOPIC
    admin.send("CreateTopics", 7, {"topics": [{"name": topic, "numPartitions": -1, "replicationFactor": -1}]})
    assert len(admin.metadata(12, [topic])[0]["partitions"]) == 3
    retention = admin.configs(TOPIC, topic, includeSynonyms=True)["retention.ms"]
    assert (retention["value"], retention["configSource"]) == ("7200000", BY_FILE)
    assert retention["synonyms"][0] == {"name": "log.retention.hours", "value": "2", "source": BY_FILE}
    for version, code in ((2, INVALID_REQUEST), (5, DELETION_DISABLED)):
        assert admin.send("DeleteTopics", version, {"topicNames": [topic], "timeoutMs": 1})["responses"][0]["errorCode"] == code
    assert admin.metadata(12, [topic])[0]["errorCode"] == 0


@only_kagami
@pytest.mark.parametrize("name,value,text", [
    ("num.partition", "3", "Did you mean num.partitions?"),
    ("num.partitions", "x", "Invalid value x for configuration num.partitions: Not a number of type INT"),
])  # fmt: skip
def test_a_setting_that_is_wrong_stops_the_start(make_kagamid, name, value, text):
    with pytest.raises(StartFailed) as failed:
        make_kagamid({name: value})
    assert failed.value.status != 0 and text in failed.value.log
