// Writes the topic whose files are the golden data of the storage units: run by make-golden against a fresh Apache Kafka.
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.StringSerializer;

public class MakeGolden {
    static final String TOPIC = "golden";
    static long time = 1700000000000L;

    static KafkaProducer<String, String> producer(String bootstrap, String transactionalId) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        config.put("linger.ms", 0);
        config.put("enable.idempotence", true);
        if (transactionalId != null)
            config.put("transactional.id", transactionalId);
        KafkaProducer<String, String> p = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        if (transactionalId != null)
            p.initTransactions();
        return p;
    }

    static void send(KafkaProducer<String, String> p, int count, String text) throws Exception {
        for (int i = 0; i < count; i++) {
            time += 1000;
            long stamp = i % 7 == 3 ? time + 500000 : time; // some batches are ahead of those behind them
            p.send(new ProducerRecord<>(TOPIC, 0, stamp, "k" + i, text + "-" + i)).get();
        }
    }

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            NewTopic topic = new NewTopic(TOPIC, 1, (short) 1);
            topic.configs(Map.of("index.interval.bytes", "200", "segment.index.bytes", "4096"));
            admin.createTopics(List.of(topic)).all().get();
        }
        KafkaProducer<String, String> plain = producer(bootstrap, null);
        send(plain, 30, "plain");
        KafkaProducer<String, String> a = producer(bootstrap, "a");
        KafkaProducer<String, String> b = producer(bootstrap, "b");
        KafkaProducer<String, String> c = producer(bootstrap, "c");
        a.beginTransaction();
        send(a, 3, "a1");
        a.abortTransaction();
        a.beginTransaction();
        send(a, 2, "a2");
        a.commitTransaction();
        b.beginTransaction();
        send(b, 2, "b1");
        a.beginTransaction();
        send(a, 1, "a3");
        a.abortTransaction(); // while b's is open
        b.abortTransaction();
        send(plain, 2, "more");
        c.beginTransaction();
        send(c, 2, "c1"); // stays open
        System.exit(0);
    }
}
