/* The Java client as a peer program: JSON commands on stdin, one a line, an answer a line on stdout. ../README.md says which. */
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.internals.AppInfoParser;

public final class Peer {
    private static final int LONG_VALUE = 4096; // longer ones are told by size and hash

    private final ObjectMapper json = new ObjectMapper();
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false, StandardCharsets.UTF_8);
        System.setOut(System.err); // nothing but answers on stdout
        Peer peer = new Peer();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null;) {
            ObjectNode answer = peer.json.createObjectNode();
            try {
                answer.put("ok", true);
                peer.run(peer.json.readTree(line), answer);
            } catch (Throwable t) {
                answer = peer.json.createObjectNode();
                answer.put("ok", false);
                answer.set("error", peer.error(t));
            }
            out.println(peer.json.writeValueAsString(answer));
            out.flush();
        }
        for (KafkaProducer<byte[], byte[]> producer : peer.producers.values())
            producer.close(Duration.ZERO);
        System.exit(0);
    }

    private void run(JsonNode in, ObjectNode out) throws Exception {
        switch (in.get("op").asText()) {
            case "hello" -> {
                out.put("client", "java").put("version", AppInfoParser.getVersion());
                for (String feature : new String[] {"idempotent", "transactions", "admin", "position", "gzip", "snappy", "lz4", "zstd",
                        "max_timestamp", "producers", "message"})
                    out.withArray("features").add(feature);
            }
            case "producer.open" -> openProducer(in);
            case "producer.send" -> send(in, out);
            case "producer.begin" -> producer(in).beginTransaction();
            case "producer.commit" -> producer(in).commitTransaction();
            case "producer.abort" -> producer(in).abortTransaction();
            case "producer.close" -> producers.remove(in.get("id").asText()).close(Duration.ofMillis(in.path("timeout_ms").asLong(10000)));
            case "consumer.read" -> read(in, out);
            default -> {
                try (Admin admin = Admin.create(Map.of("bootstrap.servers", in.get("bootstrap").asText(),
                        "default.api.timeout.ms", "30000", "request.timeout.ms", "15000"))) {
                    admin(admin, in, out);
                }
            }
        }
    }

    // ---- Producing ----

    private KafkaProducer<byte[], byte[]> producer(JsonNode in) {
        KafkaProducer<byte[], byte[]> producer = producers.get(in.get("id").asText());
        if (producer == null)
            throw new IllegalArgumentException("no producer " + in.get("id").asText());
        return producer;
    }

    private void openProducer(JsonNode in) {
        Properties p = new Properties();
        p.put("bootstrap.servers", in.get("bootstrap").asText());
        p.put("key.serializer", ByteArraySerializer.class.getName());
        p.put("value.serializer", ByteArraySerializer.class.getName());
        p.put("acks", in.path("acks").asText("all"));
        p.put("enable.idempotence", in.path("idempotent").asText("true"));
        p.put("compression.type", in.path("compression").asText("none"));
        p.put("linger.ms", in.path("linger_ms").asText("5"));
        p.put("delivery.timeout.ms", in.path("delivery_timeout_ms").asText("60000"));
        p.put("request.timeout.ms", in.path("request_timeout_ms").asText("15000"));
        p.put("max.block.ms", in.path("max_block_ms").asText("60000"));
        p.put("max.request.size", in.path("max_request_bytes").asText("1048576"));
        p.put("buffer.memory", String.valueOf(128L << 20));
        if (in.has("transactional_id")) {
            p.put("transactional.id", in.get("transactional_id").asText());
            p.put("transaction.timeout.ms", "600000"); // a transaction that a test leaves open stays so
        }
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(p);
        if (in.has("transactional_id"))
            producer.initTransactions();
        producers.put(in.get("id").asText(), producer);
    }

    private static byte[] decode(JsonNode text) {
        return text == null || text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    private void send(JsonNode in, ObjectNode out) throws Exception {
        KafkaProducer<byte[], byte[]> producer = producer(in);
        List<Future<RecordMetadata>> futures = new ArrayList<>();
        ArrayNode results = out.putArray("results");
        for (JsonNode r : in.get("records")) {
            byte[] value = r.has("value_file") ? Files.readAllBytes(Path.of(r.get("value_file").asText())) : decode(r.get("value"));
            List<Header> headers = new ArrayList<>();
            for (JsonNode h : r.path("headers"))
                headers.add(new RecordHeader(h.get(0).asText(), decode(h.get(1))));
            Integer partition = in.has("partition") ? in.get("partition").asInt() : null;
            Long timestamp = r.has("timestamp") ? r.get("timestamp").asLong() : null;
            futures.add(producer.send(new ProducerRecord<>(in.get("topic").asText(), partition, timestamp, decode(r.get("key")), value, headers)));
        }
        producer.flush();
        for (Future<RecordMetadata> future : futures) {
            ObjectNode result = results.addObject();
            try {
                RecordMetadata at = future.get();
                result.put("offset", at.offset()).put("partition", at.partition()).put("timestamp", at.timestamp());
            } catch (ExecutionException e) {
                result.set("error", error(e));
            }
        }
    }

    private ObjectNode error(Throwable t) {
        while (t instanceof ExecutionException && t.getCause() != null)
            t = t.getCause();
        ObjectNode error = json.createObjectNode();
        error.put("code", t instanceof ApiException ? Errors.forException(t).code() : -1);
        error.put("name", t instanceof ApiException ? Errors.forException(t).name() : t.getClass().getSimpleName());
        error.put("message", String.valueOf(t.getMessage()));
        return error;
    }

    // ---- Consuming ----

    private void value(ObjectNode record, String name, byte[] value) throws Exception {
        if (value == null)
            record.putNull(name);
        else if (value.length <= LONG_VALUE)
            record.put(name, Base64.getEncoder().encodeToString(value));
        else
            record.putObject(name).put("size", value.length).put("sha256",
                    HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(value)));
    }

    private void read(JsonNode in, ObjectNode out) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", in.get("bootstrap").asText());
        p.put("key.deserializer", ByteArrayDeserializer.class.getName());
        p.put("value.deserializer", ByteArrayDeserializer.class.getName());
        p.put("isolation.level", in.path("isolation").asText("read_uncommitted"));
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "none");
        TopicPartition tp = new TopicPartition(in.get("topic").asText(), in.path("partition").asInt(0));
        long deadline = System.currentTimeMillis() + in.path("timeout_ms").asLong(30000);
        ArrayNode records = out.putArray("records");
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(p)) {
            consumer.assign(List.of(tp));
            if (in.has("from"))
                consumer.seek(tp, in.get("from").asLong());
            else
                consumer.seekToBeginning(List.of(tp));
            long end = consumer.endOffsets(List.of(tp)).get(tp);
            while (consumer.position(tp) < end && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(200))) {
                    ObjectNode record = records.addObject();
                    record.put("offset", r.offset()).put("timestamp", r.timestamp()).put("timestamp_type", r.timestampType().name);
                    Optional<Integer> epoch = r.leaderEpoch();
                    if (epoch.isPresent())
                        record.put("leader_epoch", epoch.get());
                    value(record, "key", r.key());
                    value(record, "value", r.value());
                    ArrayNode headers = record.putArray("headers");
                    for (Header h : r.headers()) {
                        ArrayNode pair = headers.addArray().add(h.key());
                        if (h.value() == null)
                            pair.addNull();
                        else
                            pair.add(Base64.getEncoder().encodeToString(h.value()));
                    }
                }
            }
            out.put("position", consumer.position(tp)).put("end", end);
        }
    }

    // ---- Admin ----

    private static OffsetSpec spec(JsonNode at) {
        return switch (at.asText()) {
            case "earliest" -> OffsetSpec.earliest();
            case "latest" -> OffsetSpec.latest();
            case "max_timestamp" -> OffsetSpec.maxTimestamp();
            default -> OffsetSpec.forTimestamp(at.asLong());
        };
    }

    private void admin(Admin admin, JsonNode in, ObjectNode out) throws Exception {
        String topic = in.path("topic").asText();
        TopicPartition tp = new TopicPartition(topic, in.path("partition").asInt(0));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        switch (in.get("op").asText()) {
            case "admin.create_topic" -> {
                Map<String, String> configs = new HashMap<>();
                in.path("configs").fields().forEachRemaining(e -> configs.put(e.getKey(), e.getValue().asText()));
                Uuid id = admin.createTopics(List.of(new NewTopic(topic, in.path("partitions").asInt(1), (short) 1).configs(configs)))
                        .topicId(topic).get();
                out.put("topic_id", id.toString());
            }
            case "admin.delete_topic" -> admin.deleteTopics(List.of(topic)).all().get();
            case "admin.create_partitions" ->
                admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(in.get("count").asInt()))).all().get();
            case "admin.topics" -> {
                ObjectNode topics = out.putObject("topics");
                admin.describeTopics(new ArrayList<>(admin.listTopics().names().get())).allTopicNames().get()
                        .forEach((name, d) -> topics.putObject(name).put("partitions", d.partitions().size()).put("topic_id", d.topicId().toString()));
            }
            case "admin.cluster" -> out.put("cluster_id", admin.describeCluster().clusterId().get())
                    .put("brokers", admin.describeCluster().nodes().get().size());
            case "admin.configs" -> {
                ObjectNode configs = out.putObject("configs");
                for (ConfigEntry e : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries())
                    configs.put(e.name(), e.value());
            }
            case "admin.alter_configs" -> {
                List<AlterConfigOp> ops = new ArrayList<>();
                in.get("configs").fields().forEachRemaining(e -> ops.add(new AlterConfigOp(new ConfigEntry(e.getKey(), e.getValue().asText()),
                        e.getValue().isNull() ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET)));
                admin.incrementalAlterConfigs(Map.of(resource, ops)).all().get();
            }
            case "admin.list_offset" -> {
                var at = admin.listOffsets(Map.of(tp, spec(in.get("at")))).partitionResult(tp).get();
                out.put("offset", at.offset()).put("timestamp", at.timestamp());
            }
            case "admin.delete_records" -> out.put("low_watermark", admin.deleteRecords(Map.of(tp, RecordsToDelete.beforeOffset(in.get("before").asLong())))
                    .lowWatermarks().get(tp).get().lowWatermark());
            case "admin.producers" -> {
                ArrayNode producers = out.putArray("producers");
                for (ProducerState s : admin.describeProducers(List.of(tp)).partitionResult(tp).get().activeProducers()) {
                    ObjectNode state = producers.addObject();
                    state.put("producer_id", s.producerId()).put("producer_epoch", s.producerEpoch()).put("last_sequence", s.lastSequence());
                    if (s.currentTransactionStartOffset().isPresent())
                        state.put("transaction_start", s.currentTransactionStartOffset().getAsLong());
                }
            }
            default -> throw new UnsupportedOperationException(in.get("op").asText());
        }
    }
}
