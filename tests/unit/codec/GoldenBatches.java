// Prints golden.c: record batches as Apache Kafka's own builder writes them, to hold ours against. Not part of the build.
// To make it anew:
//   java -cp 'FOLDER_WITH_KAFKA_4.4_JARS/*' GoldenBatches.java > golden.c
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;

public class GoldenBatches {
    static final StringBuilder table = new StringBuilder();

    static void print(String name, ByteBuffer bytes) {
        System.out.print("static const char " + name + "[] =");
        StringBuilder hex = new StringBuilder();
        for (ByteBuffer b = bytes.duplicate(); b.hasRemaining(); )
            hex.append(String.format("%02x", b.get()));
        for (int i = 0; i < hex.length(); i += 120)
            System.out.print("\n    \"" + hex.substring(i, Math.min(i + 120, hex.length())) + "\"");
        System.out.println(";");
        table.append("    {\"" + name + "\", " + name + "},\n");
    }

    static byte[] bytes(String s) { return s.getBytes(StandardCharsets.UTF_8); }

    static ByteBuffer data(Compression compression, TimestampType type, int baseSequence, boolean transactional) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(4096), (byte) 2, compression, type, 1234L,
            1700000009999L, 9001L, (short) 3, baseSequence, transactional, false, 7);
        byte[] a = new byte[200];
        Arrays.fill(a, (byte) 'a');
        builder.append(1700000000000L, bytes("k0"), bytes("value zero"), new Header[0]);
        builder.append(1700000000005L, null, a, 
            new Header[] {new RecordHeader("h1", bytes("x")), new RecordHeader("", (byte[]) null)});
        builder.append(1699999999997L, bytes("k2"), null, new Header[0]);
        return builder.build().buffer();
    }

    // 70000 bytes, more than one block of snappy (32 KiB) and of lz4 (64 KiB).
    static ByteBuffer large(Compression compression) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(4096), (byte) 2, compression,
            TimestampType.CREATE_TIME, 0L, -1L, -1L, (short) -1, -1, false, false, -1);
        byte[] value = new byte[70000];
        for (int i = 0; i < value.length; i++)
            value[i] = (byte) (i % 7);
        builder.append(1L, null, value, new Header[0]);
        return builder.build().buffer();
    }

    static ByteBuffer old(byte magic) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(4096), magic, Compression.NONE,
            TimestampType.CREATE_TIME, 77L);
        builder.append(magic == 0 ? -1L : 1L, bytes("k"), bytes("v"));
        return builder.build().buffer();
    }

    public static void main(String[] args) {
        System.out.println("/* Made by GoldenBatches.java with Apache Kafka 4.4.0: not to be edited. */\n#include \"golden.h\"\n");
        Compression[] codecs = {Compression.NONE, Compression.gzip().build(), Compression.snappy().build(),
            Compression.lz4().build(), Compression.zstd().build()};
        for (Compression codec : codecs)
            print(codec.type().name, data(codec, TimestampType.CREATE_TIME, 5, false));
        for (Compression codec : codecs)
            if (codec.type() != CompressionType.NONE)
                print("large_" + codec.type().name, large(codec));
        print("log_append_time", data(Compression.NONE, TimestampType.LOG_APPEND_TIME, 5, false));
        print("sequence_wraps", data(Compression.NONE, TimestampType.CREATE_TIME, Integer.MAX_VALUE - 1, true));
        print("commit", MemoryRecords.withEndTransactionMarker(50L, 1700000000123L, 9, 9001L, (short) 4,
            new EndTransactionMarker(ControlRecordType.COMMIT, 12)).buffer());
        print("abort_", MemoryRecords.withEndTransactionMarker(51L, 1700000000124L, 9, 9001L, (short) 4,
            new EndTransactionMarker(ControlRecordType.ABORT, 13)).buffer());
        print("leader_change", MemoryRecords.withLeaderChangeMessage(52L, 1700000000125L, 9, ByteBuffer.allocate(512),
            new LeaderChangeMessage().setLeaderId(1)).buffer());
        ByteBuffer empty = ByteBuffer.allocate(61);
        DefaultRecordBatch.writeEmptyHeader(empty, (byte) 2, 9001L, (short) 4, 8, 100L, 104L, 9, TimestampType.CREATE_TIME,
            1700000000126L, true, false);
        empty.flip();
        print("empty", empty);
        print("magic0", old((byte) 0));
        print("magic1", old((byte) 1));
        System.out.println("\nconst struct golden GOLDEN[] = {\n" + table + "};\n"
            + "const int GOLDEN_COUNT = sizeof(GOLDEN) / sizeof(GOLDEN[0]);");
    }
}
