"""librdkafka, through confluent-kafka, as a peer program. See ../README.md."""
import time

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, OffsetSpec)

from peer import Refused, decode, encode, encode_value, headers_in, record_value, serve

producers = {}
TIMESTAMP_TYPES = {0: "NoTimestampType", 1: "CreateTime", 2: "LogAppendTime"}


def error_fields(error):
    try:
        return {"code": error.code(), "name": error.name().lstrip("_"), "message": error.str()}
    except SystemError as e: # so the binding shows, in a callback, that the producer has failed for good
        return error_fields(e.__cause__.args[0])


def hello(_):
    return {"client": "librdkafka", "version": f"{confluent_kafka.libversion()[0]} ({confluent_kafka.version()})",
            "features": ["idempotent", "transactions", "admin", "position", "gzip", "snappy", "lz4", "zstd", "max_timestamp"]}


def open_producer(c):
    config = {
        "bootstrap.servers": c["bootstrap"],
        "acks": c.get("acks", "all"),
        "enable.idempotence": c.get("idempotent", True),
        "compression.type": c.get("compression", "none"),
        "linger.ms": c.get("linger_ms", 5),
        "delivery.timeout.ms": c.get("delivery_timeout_ms", 60000),
        "request.timeout.ms": c.get("request_timeout_ms", 15000),
        "message.max.bytes": c.get("max_request_bytes", 1000000),
        "reconnect.backoff.max.ms": 500,
    }
    if "transactional_id" in c:
        config["transactional.id"] = c["transactional_id"]
        config["transaction.timeout.ms"] = 60000
    producer = Producer(config)
    if "transactional_id" in c:
        producer.init_transactions(60)
    producers[c["id"]] = producer


def send(c):
    producer = producers[c["id"]]
    results = [None] * len(c["records"])

    def delivered(i):
        def callback(error, message):
            results[i] = {"error": error_fields(error)} if error else {"offset": message.offset(), "partition": message.partition()}
        return callback

    for i, record in enumerate(c["records"]):
        extra = {"partition": c["partition"]} if "partition" in c else {}
        if "timestamp" in record:
            extra["timestamp"] = record["timestamp"]
        while True:
            try:
                producer.produce(c["topic"], key=decode(record.get("key")), value=record_value(record), headers=headers_in(record),
                                 on_delivery=delivered(i), **extra)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    try:
        producer.flush()
    except SystemError: # the same, after all callbacks ran
        pass
    return {"results": results}


def close(c):
    producer = producers.pop(c["id"])
    producer.purge()
    producer.flush(1)


def read(c):
    consumer = Consumer({
        "bootstrap.servers": c["bootstrap"],
        "group.id": "unused",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "isolation.level": c.get("isolation", "read_uncommitted"),
        "fetch.wait.max.ms": 100,
    })
    try:
        partition = TopicPartition(c["topic"], c.get("partition", 0))
        partition.offset = c["from"] if "from" in c else consumer.get_watermark_offsets(partition, 15)[0]
        consumer.assign([partition])
        deadline = time.monotonic() + c.get("timeout_ms", 30000) / 1000
        records, position = [], partition.offset
        while time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is None:
                continue
            if message.error():
                if message.error().code() == KafkaError._PARTITION_EOF:
                    position = message.offset()
                    break
                raise KafkaException(message.error())
            kind, timestamp = message.timestamp()
            records.append({
                "offset": message.offset(), "timestamp": timestamp, "timestamp_type": TIMESTAMP_TYPES[kind],
                "leader_epoch": message.leader_epoch(), "key": encode_value(message.key()), "value": encode_value(message.value()),
                "headers": [[name, encode(value)] for name, value in message.headers() or []],
            })
            position = message.offset() + 1
        return {"records": records, "position": position}
    finally:
        consumer.close()


def admin(function):
    def run(c):
        try:
            return function(AdminClient({"bootstrap.servers": c["bootstrap"], "socket.timeout.ms": 15000}), c)
        except KafkaException as e:
            fields = error_fields(e.args[0])
            raise Refused(fields["code"], fields["name"], fields["message"]) from e
    return run


def transactional(method):
    def run(c):
        try:
            getattr(producers[c["id"]], method)(*([30] if method != "begin_transaction" else []))
        except KafkaException as e:
            fields = error_fields(e.args[0])
            raise Refused(fields["code"], fields["name"], fields["message"]) from e
    return run


def wait(futures):
    return [future.result(30) for future in futures.values()]


def create_topic(client, c):
    configs = {name: str(value) for name, value in c.get("configs", {}).items()}
    wait(client.create_topics([NewTopic(c["topic"], c.get("partitions", 1), 1, config=configs)]))


def topics(client, _):
    names = [name for name in client.list_topics(timeout=15).topics]
    described = wait(client.describe_topics(TopicCollection(names))) if names else []
    return {"topics": {t.name: {"partitions": len(t.partitions), "topic_id": str(t.topic_id)} for t in described}}


def cluster(client, _):
    described = client.describe_cluster().result(15)
    return {"cluster_id": described.cluster_id, "brokers": len(described.nodes)}


def configs_of(client, c):
    entries = wait(client.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, c["topic"])]))[0]
    return {"configs": {name: entry.value for name, entry in entries.items()}}


def alter_configs(client, c):
    entries = [ConfigEntry(name, value if value is None else str(value), incremental_operation=AlterConfigOpType.DELETE if value is None
                           else AlterConfigOpType.SET) for name, value in c["configs"].items()]
    wait(client.incremental_alter_configs([ConfigResource(ConfigResource.Type.TOPIC, c["topic"], incremental_configs=entries)]))


def list_offset(client, c):
    at = {"earliest": OffsetSpec.earliest(), "latest": OffsetSpec.latest(), "max_timestamp": OffsetSpec.max_timestamp()}.get(
        c["at"]) or OffsetSpec.for_timestamp(c["at"])
    result = wait(client.list_offsets({TopicPartition(c["topic"], c.get("partition", 0)): at}))[0]
    return {"offset": result.offset, "timestamp": result.timestamp}


def delete_records(client, c):
    result = wait(client.delete_records([TopicPartition(c["topic"], c.get("partition", 0), c["before"])]))[0]
    return {"low_watermark": result.low_watermark}


serve({
    "hello": hello,
    "producer.open": open_producer,
    "producer.send": send,
    "producer.begin": transactional("begin_transaction"),
    "producer.commit": transactional("commit_transaction"),
    "producer.abort": transactional("abort_transaction"),
    "producer.close": close,
    "consumer.read": read,
    "admin.create_topic": admin(create_topic),
    "admin.delete_topic": admin(lambda client, c: wait(client.delete_topics([c["topic"]])) and None),
    "admin.create_partitions": admin(lambda client, c: wait(client.create_partitions([NewPartitions(c["topic"], c["count"])])) and None),
    "admin.topics": admin(topics),
    "admin.cluster": admin(cluster),
    "admin.configs": admin(configs_of),
    "admin.alter_configs": admin(alter_configs),
    "admin.list_offset": admin(list_offset),
    "admin.delete_records": admin(delete_records),
})
