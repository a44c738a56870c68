"""kafka-python as a peer program. See ../README.md."""
import time
import uuid

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType, OffsetSpec
from kafka.errors import KafkaError

from peer import Refused, decode, encode, encode_value, headers_in, record_value, serve

producers = {}
TIMESTAMP_TYPES = {0: "CreateTime", 1: "LogAppendTime"}


def error_fields(e):
    name = type(e).__name__
    return {"code": getattr(e, "errno", -1), "name": getattr(e, "message", name), "message": str(e)}


def client_error(function):
    def run(c):
        try:
            return function(c)
        except KafkaError as e:
            fields = error_fields(e)
            raise Refused(fields["code"], fields["name"], fields["message"]) from e
    return run


def hello(_):
    return {"client": "kafka-python", "version": kafka.__version__,
            "features": ["idempotent", "transactions", "admin", "position", "gzip", "snappy", "lz4", "zstd", "max_timestamp", "producers",
                         "message"]}


def open_producer(c):
    acks = c.get("acks", "all")
    compression = c.get("compression", "none")
    extra = {"transactional_id": c["transactional_id"]} if "transactional_id" in c else {}
    producer = KafkaProducer(
        bootstrap_servers=c["bootstrap"], acks=acks if acks == "all" else int(acks), enable_idempotence=c.get("idempotent", True),
        compression_type=None if compression == "none" else compression, linger_ms=c.get("linger_ms", 5),
        delivery_timeout_ms=c.get("delivery_timeout_ms", 60000), request_timeout_ms=c.get("request_timeout_ms", 15000),
        max_request_size=c.get("max_request_bytes", 1048576), **extra)
    if extra:
        producer.init_transactions()
    producers[c["id"]] = producer


def send(c):
    producer = producers[c["id"]]
    sent = []
    for record in c["records"]:
        try:
            sent.append(producer.send(c["topic"], value=record_value(record), key=decode(record.get("key")), headers=headers_in(record),
                                      partition=c.get("partition"), timestamp_ms=record.get("timestamp")))
        except KafkaError as e:
            sent.append(e)
    results = []
    try:
        producer.flush(timeout=120)
    except KafkaError:
        pass # each future has its own
    for future in sent:
        try:
            if isinstance(future, KafkaError):
                raise future
            at = future.get(timeout=120)
            results.append({"offset": at.offset, "partition": at.partition, "timestamp": at.timestamp})
        except KafkaError as e:
            results.append({"error": error_fields(e)})
    return {"results": results}


def read(c):
    consumer = KafkaConsumer(bootstrap_servers=c["bootstrap"], group_id=None, enable_auto_commit=False, auto_offset_reset="none",
                             isolation_level=c.get("isolation", "read_uncommitted"), fetch_max_wait_ms=100)
    try:
        partition = TopicPartition(c["topic"], c.get("partition", 0))
        consumer.assign([partition])
        if "from" in c:
            consumer.seek(partition, c["from"])
        else:
            consumer.seek(partition, consumer.beginning_offsets([partition])[partition])
        end = consumer.end_offsets([partition])[partition]
        deadline = time.monotonic() + c.get("timeout_ms", 30000) / 1000
        records = []
        while consumer.position(partition) < end and time.monotonic() < deadline:
            for r in consumer.poll(timeout_ms=200).get(partition, []):
                records.append({
                    "offset": r.offset, "timestamp": r.timestamp, "timestamp_type": TIMESTAMP_TYPES.get(r.timestamp_type),
                    "leader_epoch": r.leader_epoch, "key": encode_value(r.key), "value": encode_value(r.value),
                    "headers": [[name, encode(value)] for name, value in r.headers],
                })
        return {"records": records, "position": consumer.position(partition), "end": end}
    finally:
        consumer.close()


def admin(function):
    def run(c):
        client = KafkaAdminClient(bootstrap_servers=c["bootstrap"], request_timeout_ms=15000)
        try:
            return function(client, c)
        finally:
            client.close()
    return client_error(run)


def create_topic(client, c):
    configs = {name: str(value) for name, value in c.get("configs", {}).items()}
    client.create_topics({c["topic"]: {"num_partitions": c.get("partitions", 1), "replication_factor": 1, "configs": configs}})


def topics(client, _):
    described = client.describe_topics()
    return {"topics": {t["name"]: {"partitions": len(t["partitions"]), "topic_id": str(t.get("topic_id") or uuid.UUID(int=0))}
                       for t in described}}


def cluster(client, _):
    described = client.describe_cluster()
    return {"cluster_id": described["cluster_id"], "brokers": len(described["brokers"])}


def configs_of(client, c):
    described = client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, c["topic"])], config_filter="all")
    entries = next(iter(next(iter(described.values())).values()))
    return {"configs": {name: entry["value"] if isinstance(entry, dict) else entry for name, entry in entries.items()}}


def alter_configs(client, c):
    ops = {name: (AlterConfigOp.DELETE, None) if value is None else (AlterConfigOp.SET, str(value)) for name, value in c["configs"].items()}
    client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, c["topic"], configs=ops)])


def list_offset(client, c):
    partition = TopicPartition(c["topic"], c.get("partition", 0))
    at = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST, "max_timestamp": OffsetSpec.MAX_TIMESTAMP}.get(c["at"], c["at"])
    result = client.list_partition_offsets({partition: at})[partition]
    return {"offset": result.offset, "timestamp": result.timestamp}


def delete_records(client, c):
    partition = TopicPartition(c["topic"], c.get("partition", 0))
    result = client.delete_records({partition: c["before"]})
    return {"low_watermark": next(iter(result.values()))["low_watermark"]}


def active_producers(client, c):
    partition = TopicPartition(c["topic"], c.get("partition", 0))
    states = client.describe_producers([partition])[partition].active_producers
    return {"producers": [{"producer_id": s.producer_id, "producer_epoch": s.producer_epoch, "last_sequence": s.last_sequence}
                          for s in states]}


serve({
    "hello": hello,
    "producer.open": client_error(open_producer),
    "producer.send": client_error(send),
    "producer.begin": client_error(lambda c: producers[c["id"]].begin_transaction()),
    "producer.commit": client_error(lambda c: producers[c["id"]].commit_transaction() and None),
    "producer.abort": client_error(lambda c: producers[c["id"]].abort_transaction() and None),
    "producer.close": lambda c: producers.pop(c["id"]).close(timeout=c.get("timeout_ms", 10000) / 1000),
    "consumer.read": client_error(read),
    "admin.create_topic": admin(create_topic),
    "admin.delete_topic": admin(lambda client, c: client.delete_topics([c["topic"]]) and None),
    "admin.create_partitions": admin(lambda client, c: client.create_partitions({c["topic"]: c["count"]}) and None),
    "admin.topics": admin(topics),
    "admin.cluster": admin(cluster),
    "admin.configs": admin(configs_of),
    "admin.alter_configs": admin(alter_configs),
    "admin.list_offset": admin(list_offset),
    "admin.delete_records": admin(delete_records),
    "admin.producers": admin(active_producers),
})
