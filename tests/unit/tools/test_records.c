/* Topic lists, partitioning, lines of input, formats of output, comparing of batches. */
#include <string.h>

#include "base/assert.h"
#include "codec/batch_builder.h"
#include "tools/batch_compare.h"
#include "tools/line_format.h"
#include "tools/partitioner.h"
#include "tools/record_format.h"
#include "tools/topic_list.h"
#include "unit.h"

#define BYTES(text) ((struct bytes){(const uint8_t *)(text), (int64_t)strlen(text)})

/* ---- --topics ---- */

static enum error list_of(const char *const *argv, int argc, struct topic_list *list, struct problem *problem)
{
    struct args args;
    assert_ok(args_parse(argc, argv, &args, problem));
    enum error error = topic_list_parse(&args, list, problem);
    args_fini(&args);
    return error;
}

static void test_topic_lists(void **state)
{
    (void)state;
    static const char *const argv[] = {"mirror",   "start", "dc2", "--topics", "orders, pay.ments_1-x,o(rders|ther),a{1,3}",
                                       "--topics", "zoo"};
    struct topic_list list;
    struct problem problem = {0};
    assert_ok(list_of(argv, ARRAY_SIZE(argv), &list, &problem));
    assert_int_equal(list.name_count, 3);
    assert_str(list.names[0], "orders");
    assert_str(list.names[1], "pay.ments_1-x");
    assert_str(list.names[2], "zoo");
    assert_int_equal(list.pattern_count, 2);
    assert_str(list.patterns[0], "o(rders|ther)");
    assert_str(list.patterns[1], "a{1,3}");
    static const struct {
        const char *topic;
        bool in;
    } cases[] = {{"orders", true}, {"other", true}, {"others", false},       {"aaa", true},
                 {"aaaa", false},  {"zoo", true},   {"payxments_1-x", false}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(topic_list_has(&list, str_of(cases[i].topic)), cases[i].in);
    topic_list_fini(&list);
    assert_true(topic_list_has(&list, STR("anything"))); /* an empty list */
}

static void test_topic_lists_that_are_none(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "a,,b", "a,", "orders-(", "["};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        const char *argv[] = {"mirror", "start", "dc2", "--topics", bad[i]};
        struct topic_list list;
        struct problem problem = {0};
        assert_error(list_of(argv, ARRAY_SIZE(argv), &list, &problem), ERR_INVALID);
    }
}

/* ---- Partitioning: hashes that Kafka's own class Utils gives ---- */

static void test_murmur2(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        int32_t hash;
    } cases[] = {{"21", -973932308},
                 {"foobar", -790332482},
                 {"a-little-bit-long-string", -985981536},
                 {"a-little-bit-longer-string", -1486304829},
                 {"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971},
                 {"abc", 479470107}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal((int32_t)murmur2(BYTES(cases[i].key)), cases[i].hash);
        assert_int_equal(partition_for_key(BYTES(cases[i].key), 7), (cases[i].hash & 0x7fffffff) % 7);
    }
}

/* ---- Lines ---- */

static void test_lines(void **state)
{
    (void)state;
    struct line_format f = {.separator = "::", .null_text = "NULL", .headers = true};
    struct parsed_line line;
    struct problem problem = {0};
    assert_ok(line_format_parse(&f, BYTES("a:1,b:NULL\tkey::value::more"), 1, &line, &problem));
    assert_int_equal(line.header_count, 2);
    assert_str(line.headers[0].key, "a");
    assert_int_equal(line.headers[0].value.len, 1);
    assert_null(line.headers[1].value.p);
    assert_int_equal(line.key.len, 3);
    assert_int_equal(line.value.len, 11);
    assert_ok(line_format_parse(&f, BYTES("\tNULL::NULL"), 2, &line, &problem));
    assert_int_equal(line.header_count, 0);
    assert_null(line.key.p);
    assert_null(line.value.p);
    assert_ok(line_format_parse(&f, BYTES("\t::"), 3, &line, &problem));
    assert_non_null(line.key.p); /* empty is not null */
    assert_int_equal(line.value.len, 0);
    static const char *const bad[] = {"no tab::x", "noname\tk::v", "\tno separator", ""};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_error(line_format_parse(&f, BYTES(bad[i]), 17, &line, &problem), ERR_INVALID);
        assert_non_null(strstr(problem.message, "17"));
    }
    line_format_fini(&f);
}

/* ---- Formats ---- */

static void test_formats(void **state)
{
    (void)state;
    assert_null(record_format_check("%t-%p@%o %T %D %k=%v [%h] %e %% \\n\\t\\\\"));
    assert_non_null(record_format_check("%x"));
    assert_non_null(record_format_check("ends in %"));
    assert_non_null(record_format_check("\\q"));
    struct out out;
    out_init(&out, -1);
    struct record_place place = {"orders", 3, 5, false};
    struct record record = {.offset = 42, .timestamp = 1700000000123, .key = BYTES("k"), .value = {NULL, 0}};
    record_print(&out, "%t-%p@%o %T e%e %k=%v %%\\t", &place, &record);
    record_print(&out, NULL, &place, &record);
    record.key = (struct bytes){NULL, 0};
    record.value = BYTES("v\x1b");
    record_print(&out, NULL, &place, &record); /* not to a terminal: as it is */
    assert_string_equal(buf_cstr(&out.buf), "orders-3@42 1700000000123 e5 k=null %\t\nk\tnull\nv\x1b\n");
    out.buf.len = 0;
    record_print_json(&out, &place, &record);
    assert_string_equal(
        buf_cstr(&out.buf),
        "{\"topic\":\"orders\",\"partition\":3,\"offset\":42,\"timestamp\":1700000000123,\"timestampType\":\"CreateTime\","
        "\"leaderEpoch\":5,\"key\":null,\"value\":\"v\\u001b\",\"headers\":[]}\n");
    out_fini(&out);
}

/* ---- Comparing ---- */

static void build(struct buf *out, const char *value, int64_t producer_id)
{
    struct batch_builder builder;
    struct batch_params params = BATCH_PARAMS_INIT;
    params.base_offset = 100;
    params.leader_epoch = 7;
    params.producer_id = producer_id;
    batch_builder_init(&builder, &params);
    assert_ok(batch_builder_add(&builder, &(struct batch_record){.timestamp = 1, .value = BYTES(value)}));
    assert_ok(batch_builder_finish(&builder, out));
    batch_builder_fini(&builder);
}

static void test_what_differs_is_named(void **state)
{
    (void)state;
    struct buf a = {0}, b = {0};
    struct batch_difference d;
    build(&a, "value", 1);
    build(&b, "value", 1);
    assert_true(batch_compare(a.data, b.data, &d));
    batch_set_leader_epoch(b.data, 8);
    assert_false(batch_compare(a.data, b.data, &d));
    assert_string_equal(d.field, "partitionLeaderEpoch");
    assert_int_equal(d.offset, 100);
    assert_int_equal(d.source, 7);
    assert_int_equal(d.destination, 8);
    buf_clear(&b);
    build(&b, "value", 2);
    assert_false(batch_compare(a.data, b.data, &d));
    assert_string_equal(d.field, "producerId");
    buf_clear(&b);
    build(&b, "longer value", 1);
    assert_false(batch_compare(a.data, b.data, &d));
    assert_string_equal(d.field, "size");
    buf_clear(&b);
    build(&b, "valuE", 1);
    assert_false(batch_compare(a.data, b.data, &d));
    assert_string_equal(d.field, "crc");
    memcpy(b.data + BATCH_POS_CRC, a.data + BATCH_POS_CRC, 4); /* damaged behind its header */
    assert_false(batch_compare(a.data, b.data, &d));
    assert_string_equal(d.field, "records");
    assert_int_equal(a.data[d.source], 'e');
    buf_fini(&a);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_topic_lists), cmocka_unit_test(test_topic_lists_that_are_none),
        cmocka_unit_test(test_murmur2),     cmocka_unit_test(test_lines),
        cmocka_unit_test(test_formats),     cmocka_unit_test(test_what_differs_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
