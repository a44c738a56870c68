/* The table. Texts are read by people: in the help, in the man pages. */
#include "tools/commands.h"

const char *const KAGAMI_DESCRIPTION =
    "kagami talks to a Kafka-compatible cluster: it makes mirrors of other clusters and hands them over, creates topics, writes "
    "and "
    "reads records, and shows what is inside log files.\n"
    "\n"
    "The cluster is named by --bootstrap-server or by KAGAMI_BOOTSTRAP_SERVER; for mirrors it is the destination, the one that "
    "copies. Commands print tables for people, and with --json one document (or a line per item where a command goes on and on) "
    "with the protocol's field names.";

const struct option_def GLOBAL_OPTIONS[] = {
    {.name = "bootstrap-server",
     .value = "HOST:PORT[,..]",
     .type = OPTION_TEXT,
     .doc = "brokers of the cluster to talk to; else KAGAMI_BOOTSTRAP_SERVER"},
    {.name = "json", .doc = "print JSON, with the protocol's field names"},
    {.name = "timeout",
     .value = "DURATION",
     .type = OPTION_DURATION,
     .default_text = "30s",
     .doc = "how long to wait for one answer"},
    {.name = "help", .doc = "show the help"},
    {.name = "version", .doc = "show the version"},
    {.name = NULL},
};

const struct command_group COMMAND_GROUPS[] = {
    {"mirror", "Mirrors of other clusters",
     "A mirror is a link that the destination keeps to a source cluster. Its topics are copied offset for offset and refuse "
     "writes "
     "until they are stopped; then they are ordinary topics, and applications go on where the source ended."},
    {"topic", "Topics", "Creates, shows, changes and deletes topics of a cluster."},
    {NULL, NULL, NULL},
};

#define TOPICS_DOC "only these topics of the mirror; all of them otherwise"

static const struct option_def MIRROR_CREATE[] = {
    {.name = "source",
     .value = "HOST:PORT[,..]",
     .type = OPTION_TEXT,
     .doc = "brokers of the cluster to copy from (the setting bootstrap.servers)"},
    {.name = "config",
     .value = "FILE",
     .type = OPTION_TEXT,
     .completion = COMPLETE_FILE,
     .doc = "settings of the mirror as a properties file"},
    {.name = "set", .value = "KEY=VALUE", .type = OPTION_TEXTS, .doc = "one setting; goes before the file's"},
    {.name = NULL},
};
static const struct option_def MIRROR_START[] = {
    {.name = "topics",
     .value = "LIST",
     .type = OPTION_TEXTS,
     .doc = "topics of the source, by name or by pattern, separated by commas"},
    {.name = "discard-local-data", .doc = "throw away what a topic of the same name holds here"},
    {.name = "watch", .doc = "show the progress until everything is copied"},
    {.name = NULL},
};
static const struct option_def MIRROR_STOP[] = {
    {.name = "topics", .value = "LIST", .type = OPTION_TEXTS, .completion = COMPLETE_TOPIC, .doc = TOPICS_DOC},
    {.name = "open-transactions",
     .value = "abort|truncate",
     .type = OPTION_CHOICE,
     .choices = "abort|truncate",
     .doc = "end open transactions by an abort marker, or cut the log before them; else the mirror's own setting"},
    {.name = "force", .doc = "with truncate: also when records of others go with them"},
    {.name = "drain", .doc = "wait until all that the source has is here; stop nothing when that takes too long"},
    {.name = "timeout", .value = "DURATION", .type = OPTION_DURATION, .default_text = "60s", .doc = "how long a drain may take"},
    {.name = "dry-run", .doc = "change nothing, show what would happen"},
    {.name = NULL},
};
static const struct option_def MIRROR_SOME[] = {
    {.name = "topics", .value = "LIST", .type = OPTION_TEXTS, .completion = COMPLETE_TOPIC, .doc = TOPICS_DOC},
    {.name = NULL},
};
static const struct option_def MIRROR_LIST[] = {
    {.name = "names", .doc = "only the names, one a line"},
    {.name = NULL},
};
static const struct option_def MIRROR_DESCRIBE[] = {
    {.name = "topics",
     .value = "LIST",
     .type = OPTION_TEXTS,
     .completion = COMPLETE_TOPIC,
     .doc = "only these topics, by name or by pattern"},
    {.name = "failed", .doc = "only partitions that failed"},
    {.name = "watch", .doc = "go on showing it, until Ctrl-C"},
    {.name = NULL},
};

static const struct option_def TOPIC_CREATE[] = {
    {.name = "partitions",
     .value = "N",
     .type = OPTION_NUMBER,
     .min = 1,
     .max = 100000,
     .doc = "number of partitions; else the broker's num.partitions"},
    {.name = "replication-factor",
     .value = "N",
     .type = OPTION_NUMBER,
     .min = 1,
     .max = 1000,
     .doc = "replicas of each partition; else the broker's default"},
    {.name = "config", .value = "KEY=VALUE", .type = OPTION_TEXTS, .doc = "a setting of the topic"},
    {.name = "dry-run", .doc = "change nothing, only ask whether it could be done"},
    {.name = NULL},
};
static const struct option_def TOPIC_LIST[] = {
    {.name = "internal", .doc = "internal topics too"},
    {.name = "names", .doc = "only the names, one a line"},
    {.name = NULL},
};
static const struct option_def TOPIC_ALTER[] = {
    {.name = "set", .value = "KEY=VALUE", .type = OPTION_TEXTS, .doc = "change a setting of the topic"},
    {.name = "unset", .value = "KEY", .type = OPTION_TEXTS, .doc = "return a setting to its default"},
    {.name = "partitions",
     .value = "N",
     .type = OPTION_NUMBER,
     .min = 1,
     .max = 100000,
     .doc = "raise the number of partitions to N"},
    {.name = "dry-run", .doc = "change nothing, only ask whether it could be done"},
    {.name = NULL},
};
static const struct option_def NOTHING[] = {{.name = NULL}};

static const struct option_def PRODUCE[] = {
    {.name = "partition",
     .value = "N",
     .type = OPTION_NUMBER,
     .min = 0,
     .max = INT32_MAX,
     .doc = "write to this partition; else keys choose it as Kafka's clients do, and records without a key go round"},
    {.name = "value", .value = "TEXT", .type = OPTION_TEXTS, .doc = "a record, in place of lines from standard input"},
    {.name = "key", .value = "TEXT", .type = OPTION_TEXT, .doc = "the key of every record"},
    {.name = "key-separator", .value = "TEXT", .type = OPTION_TEXT, .doc = "a line is KEY, this text, VALUE"},
    {.name = "headers", .doc = "a line begins with headers NAME:VALUE,NAME:VALUE and a tab"},
    {.name = "null", .value = "TEXT", .type = OPTION_TEXT, .doc = "a key or value that equals this text is null (a tombstone)"},
    {.name = "timestamp",
     .value = "TIME",
     .type = OPTION_TEXT,
     .doc = "timestamp of every record, in milliseconds or as 2026-11-29T15:04:05Z; else the time of sending"},
    {.name = "compression",
     .value = "CODEC",
     .type = OPTION_CHOICE,
     .choices = "none|gzip|snappy|lz4|zstd",
     .default_text = "none",
     .doc = "none, gzip, snappy, lz4 or zstd"},
    {.name = "acks",
     .value = "all|1",
     .type = OPTION_CHOICE,
     .choices = "all|1|-1",
     .default_text = "all",
     .doc = "wait for all in-sync replicas (durable), or for the leader only"},
    {.name = "idempotent", .doc = "write with a producer id and sequences, so that a repeated attempt is not stored twice"},
    {.name = "batch-records",
     .value = "N",
     .type = OPTION_NUMBER,
     .min = 1,
     .max = 100000,
     .default_text = "1000",
     .doc = "records in one batch at most"},
    {.name = NULL},
};
static const struct option_def CONSUME[] = {
    {.name = "partition",
     .value = "N",
     .type = OPTION_NUMBER,
     .min = 0,
     .max = INT32_MAX,
     .doc = "read this partition; else all of them"},
    {.name = "from",
     .value = "WHERE",
     .type = OPTION_TEXT,
     .default_text = "earliest",
     .doc = "earliest, latest, an offset, or @TIME (milliseconds or 2026-11-29T15:04:05Z)"},
    {.name = "count", .value = "N", .type = OPTION_NUMBER, .min = 1, .max = INT64_MAX, .doc = "end after so many records"},
    {.name = "until-end", .doc = "end when all that is there at the start has been read"},
    {.name = "read-committed", .doc = "leave out records of open and aborted transactions"},
    {.name = "format",
     .value = "FORMAT",
     .type = OPTION_TEXT,
     .doc = "how to print a record: %t topic, %p partition, %o offset, %T timestamp (ms), %D time, %k key, %v value, %h headers, "
            "%e leader epoch, %%, \\n, \\t (default: with a key %k TAB %v, else %v)"},
    {.name = NULL},
};
static const struct option_def DUMP_LOG[] = {
    {.name = "records", .doc = "the records of each batch too, with keys, values and headers"},
    {.name = "producers",
     .value = "FILE.snapshot",
     .type = OPTION_TEXTS,
     .completion = COMPLETE_FILE,
     .doc = "a producer snapshot to show as well"},
    {.name = NULL},
};
static const struct option_def HELP[] = {
    {.name = "man", .value = "PAGE", .type = OPTION_TEXT, .hidden = true, .doc = "print a man page"},
    {.name = "man-section",
     .value = "N",
     .type = OPTION_NUMBER,
     .min = 1,
     .max = 8,
     .hidden = true,
     .doc = "section of a page made from standard input"},
    {.name = NULL},
};

const struct command COMMANDS[] = {
    {"mirror create", "NAME", 1, 1, COMPLETE_NOTHING, "Makes a mirror of a source cluster",
     "Connects to the source, learns its cluster id and keeps both. Nothing is copied until topics are started.\n"
     "\n"
     "Settings are those of the mirror, such as fetch.max.bytes, fetchers or open.transactions. An unknown one is refused, with "
     "the "
     "nearest that exists.",
     "kagami mirror create dc2 --source kafka1:9092,kafka2:9092\nkagami mirror create dc2 --config dc2.properties --set "
     "fetchers=2",
     MIRROR_CREATE, run_mirror_create, false},
    {"mirror start", "NAME", 1, 1, COMPLETE_MIRROR, "Starts to copy topics",
     "Each topic is created here with the source's id, name and number of partitions, and follows the source from then on. It "
     "refuses "
     "writes of clients until it is stopped.\n"
     "\n"
     "An item with other characters than letters, digits, '.', '-' and '_' is a pattern (a regular expression that must match "
     "the whole "
     "name). A topic that holds data here already is refused unless --discard-local-data is given.",
     "kagami mirror start dc2 --topics orders,payments --watch\nkagami mirror start dc2 --topics 'orders-.*'", MIRROR_START,
     run_mirror_start, false},
    {"mirror stop", "NAME", 1, 1, COMPLETE_MIRROR, "Takes over: ends the copying and makes topics writable",
     "The failover. It needs no answer from the source. For each partition it raises the leader epoch, ends open transactions, "
     "and writes "
     "the barrier that keeps producers of both clusters apart; then the topic is an ordinary one. The report says for each "
     "partition what "
     "was copied and what may be missing.\n"
     "\n"
     "A planned switch is --drain: stop the writers, then this waits until everything is here. When the time is over nothing is "
     "stopped.",
     "kagami mirror stop dc2\nkagami mirror stop dc2 --topics orders --drain --timeout 60s\nkagami mirror stop dc2 --dry-run",
     MIRROR_STOP, run_mirror_stop, false},
    {"mirror pause", "NAME", 1, 1, COMPLETE_MIRROR, "Interrupts the copying",
     "The topics stay mirrors and refuse writes. \"mirror resume\" goes on where it was.",
     "kagami mirror pause dc2 --topics orders", MIRROR_SOME, run_mirror_pause, false},
    {"mirror resume", "NAME", 1, 1, COMPLETE_MIRROR, "Goes on copying after a pause",
     "Copying goes on where it was, nothing is cut off.", "kagami mirror resume dc2", MIRROR_SOME, run_mirror_resume, false},
    {"mirror recover", "NAME", 1, 1, COMPLETE_MIRROR, "Tries failed partitions again",
     "For partitions that are FAILED and do not retry by themselves: once the reason is gone, this starts them again.",
     "kagami mirror describe dc2 --failed\nkagami mirror recover dc2 --topics orders", MIRROR_SOME, run_mirror_recover, false},
    {"mirror list", "", 0, 0, COMPLETE_NOTHING, "Shows all mirrors",
     "One line a mirror, with its source and the states of its partitions.", "kagami mirror list", MIRROR_LIST, run_mirror_list,
     false},
    {"mirror describe", "[NAME]", 0, 1, COMPLETE_MIRROR, "Shows the partitions of mirrors",
     "State, offsets and lag of each partition, what failed and what to do about it, gaps that the source's retention left, and "
     "the report "
     "of the last stop. LAG is what the source's high watermark was ahead when it was last seen.",
     "kagami mirror describe dc2\nkagami mirror describe --failed\nkagami mirror describe dc2 --watch", MIRROR_DESCRIBE,
     run_mirror_describe, false},
    {"mirror delete", "NAME", 1, 1, COMPLETE_MIRROR, "Deletes a mirror",
     "All its topics must be stopped. The topics and their data stay.", "kagami mirror delete dc2", NOTHING, run_mirror_delete,
     false},
    {"mirror verify", "NAME", 1, 1, COMPLETE_MIRROR, "Compares source and destination, batch by batch",
     "Reads both clusters and compares every byte of every record batch, from where both logs begin up to the lower high "
     "watermark (for a "
     "stopped topic: up to where it was stopped). Says the first difference, or how much was compared. The exit status is 1 when "
     "anything "
     "differs.",
     "kagami mirror verify dc2\nkagami mirror verify dc2 --topics orders", MIRROR_SOME, run_mirror_verify, false},
    {"topic create", "NAME", 1, 1, COMPLETE_NOTHING, "Creates a topic", "Asks the cluster to create a topic.",
     "kagami topic create orders --partitions 12 --config retention.ms=604800000", TOPIC_CREATE, run_topic_create, false},
    {"topic list", "", 0, 0, COMPLETE_NOTHING, "Shows all topics", "One line a topic.", "kagami topic list", TOPIC_LIST,
     run_topic_list, false},
    {"topic describe", "NAME..", 1, -1, COMPLETE_TOPIC, "Shows topics: partitions, offsets, settings",
     "Leader, epoch, replicas and offsets of each partition, and the settings that differ from the default. LAST STABLE is where "
     "readers "
     "with read_committed end.",
     "kagami topic describe orders payments", NOTHING, run_topic_describe, false},
    {"topic alter", "NAME", 1, 1, COMPLETE_TOPIC, "Changes settings or the number of partitions",
     "Settings not named stay as they are.",
     "kagami topic alter orders --set retention.ms=86400000 --unset segment.bytes\nkagami topic alter orders --partitions 24",
     TOPIC_ALTER, run_topic_alter, false},
    {"topic delete", "NAME..", 1, -1, COMPLETE_TOPIC, "Deletes topics with their data", "There is no way back. It does not ask.",
     "kagami topic delete old-orders", NOTHING, run_topic_delete, false},
    {"produce", "TOPIC", 1, 1, COMPLETE_TOPIC, "Writes records, one a line of standard input",
     "Lines are sent as they come, in batches where many come at once. With --json every batch that was written is a line.",
     "echo hello | kagami produce greetings\nkagami produce orders --key-separator : --idempotent < orders.txt\nkagami produce "
     "orders --key 17 --value \"one record\"",
     PRODUCE, run_produce, false},
    {"consume", "TOPIC", 1, 1, COMPLETE_TOPIC, "Reads records",
     "Reads without a consumer group, so that it disturbs nobody. With --json each record is a line; keys and values that are no "
     "UTF-8 are "
     "in keyBase64 and valueBase64.",
     "kagami consume orders --until-end\nkagami consume orders --partition 3 --from 1200 --count 10\nkagami consume orders "
     "--from @2026-11-29T15:00:00Z --read-committed --json",
     CONSUME, run_consume, false},
    {"dump-log", "FILE..", 1, -1, COMPLETE_FILE, "Shows what is in log files",
     "Reads .log, .index, .timeindex, .txnindex and .snapshot files and the checkpoints of Kagami and of Apache Kafka (by their "
     "names), and "
     "changes nothing. Field names are those of Kafka's own dump tool. Control records are decoded, the mirror's barrier "
     "MIRROR_PID_RESET "
     "too. Where a file is damaged it shows everything before, says where and what, and ends with status 1.\n"
     "\n"
     "With --json each batch, record or entry is a line.",
     "kagami dump-log data/orders-0/*.log\nkagami dump-log data/orders-0/00000000000000000000.log --records --json", DUMP_LOG,
     run_dump_log, true},
    {"completion", "", 0, 0, COMPLETE_NOTHING, "Prints the completion script for bash",
     "For your ~/.bashrc; packages install it.", "source <(kagami completion)", NOTHING, run_completion, true},
    {"help", "[COMMAND..]", 0, 2, COMPLETE_NOTHING, "Shows the help of a command", "The same as --help behind it.",
     "kagami help mirror stop", HELP, run_help, true},
    {.words = NULL},
};
