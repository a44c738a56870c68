#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "meta/image.h"
#include "meta/image_build.h"
#include "unit.h"

/* Builds an image from "key json" pairs on top of `before` (taken over). A json of NULL deletes. */
static enum error apply(const struct image *before, const char *const entries[][2], int count, const struct image **ret_image)
{
    struct meta_event events[16] = {0};
    struct problem problem = {0};
    for (int i = 0; i < count; i++) {
        json_t *value = entries[i][1] != NULL ? json_loads(entries[i][1], 0, NULL) : NULL;
        assert_true(entries[i][1] == NULL || value != NULL);
        events[i] = (struct meta_event){.key = entries[i][0], .value = value};
    }
    enum error error = image_apply(before, events, count, before->revision + 1, ret_image, &problem);
    assert_true(error == OK || problem.message[0] != '\0');
    for (int i = 0; i < count; i++)
        json_decref(events[i].value);
    return error;
}

#define ID_A "AAAAAAAAAAAAAAAAAAAAAQ"
#define ID_B "AAAAAAAAAAAAAAAAAAAAAg"
#define PARTITION "{\"leader\":1,\"leaderEpoch\":3,\"partitionEpoch\":4,\"replicas\":[1],\"isr\":[1]}"

static const char *const two_topics[][2] = {
    {"brokers/1", "{\"host\":\"h\",\"port\":9092,\"rack\":null}"},
    {"cluster", "{\"clusterId\":\"" ID_B "\"}"},
    {"configs/brokers-default", "{\"log.retention.ms\":\"5\"}"},
    {"configs/brokers/1", "{\"message.max.bytes\":\"7\"}"},
    {"configs/brokers/2", "{\"message.max.bytes\":\"8\"}"},
    {"configs/topics/a", "{\"retention.ms\":\"1\",\"cleanup.policy\":\"compact\"}"},
    {"partitions/a/0", PARTITION}, /* before their topic, as a listing has them */
    {"partitions/a/1", PARTITION},
    {"partitions/b/0", PARTITION},
    {"topics/b", "{\"topicId\":\"" ID_A "\",\"partitions\":1}"},
    {"topics/a", "{\"topicId\":\"" ID_B "\",\"partitions\":2}"},
};

static const struct image *two_topic_image(void)
{
    const struct image *empty = image_create(1, NULL), *image;
    assert_ok(apply(empty, two_topics, ARRAY_SIZE(two_topics), &image));
    image_unref(empty);
    return image;
}

static void test_lookups(void **state)
{
    const struct image *image = two_topic_image();
    struct uuid id;
    assert_true(uuid_parse(STR(ID_A), &id));
    const struct image_topic *b = image_topic(image, STR("b"));
    assert_non_null(b);
    assert_ptr_equal(image_topic_by_id(image, &id), b);
    assert_null(image_topic(image, STR("c")));
    assert_null(image_topic(image, STR("")));
    assert_null(image_topic_by_id(image, &UUID_ZERO));
    assert_int_equal(image_topic(image, STR("a"))->partition_count, 2);
    assert_null(image_partition(b, 1));
    assert_null(image_partition(b, -1));
    const struct image_partition *p = image_partition(b, 0);
    assert_int_equal(p->leader, 1);
    assert_int_equal(p->leader_epoch, 3);
    assert_int_equal(p->partition_epoch, 4);
    assert_int_equal(p->replica_count, 1);
    assert_int_equal(p->isr[0], 1);
    assert_string_equal(image_config(&image_topic(image, STR("a"))->configs, "retention.ms"), "1");
    assert_null(image_config(&b->configs, "retention.ms"));
    assert_string_equal(image_config(&image->broker_default_configs, "log.retention.ms"), "5");
    assert_string_equal(image_config(&image->broker_configs, "message.max.bytes"), "7"); /* not broker 2's */
    assert_string_equal(image->cluster_id_text, ID_B);
    assert_string_equal(image_broker(image, 1)->host, "h");
    assert_null(image_broker(image, 2));
    image_unref(image);
}

static void test_what_did_not_change_is_shared(void **state)
{
    static const char *const change[][2] = {
        {"partitions/b/0", "{\"leader\":1,\"leaderEpoch\":9,\"partitionEpoch\":5,\"replicas\":[1],\"isr\":[1]}"}};
    const struct image *before = two_topic_image(), *after;
    assert_ok(apply(before, change, 1, &after));
    assert_ptr_equal(image_topic(before, STR("a")), image_topic(after, STR("a")));
    assert_ptr_not_equal(image_topic(before, STR("b")), image_topic(after, STR("b")));
    assert_int_equal(image_topic(before, STR("b"))->partitions[0].leader_epoch, 3);
    image_unref(before);
    assert_int_equal(image_topic(after, STR("b"))->partitions[0].leader_epoch, 9);
    assert_int_equal(image_topic(after, STR("a"))->partition_count, 2);
    image_unref(after);
}

static void test_deleted_and_made_again_in_one_commit(void **state)
{
    static const char *const change[][2] = {
        {"topics/a", NULL},
        {"partitions/a/0", NULL},
        {"partitions/a/1", NULL},
        {"configs/topics/a", NULL},
        {"topics/a", "{\"topicId\":\"AAAAAAAAAAAAAAAAAAAAAw\",\"partitions\":1}"},
        {"partitions/a/0", PARTITION},
    };
    const struct image *before = two_topic_image(), *after;
    assert_ok(apply(before, change, ARRAY_SIZE(change), &after));
    const struct image_topic *a = image_topic(after, STR("a"));
    assert_int_equal(a->partition_count, 1);
    assert_int_equal(a->configs.count, 0);
    assert_int_equal(after->topic_count, 2);
    assert_ptr_equal(image_topic_by_id(after, &a->id), a);
    image_unref(before);
    image_unref(after);
}

static void test_entries_that_cannot_be(void **state)
{
    static const char *const bad[][2] = {
        {"topics/c", "{\"topicId\":\"" ID_A "\",\"partitions\":0}"},
        {"topics/c", "{\"topicId\":\"" ID_A "\",\"partitions\":100000000}"},
        {"topics/c", "{\"topicId\":\"short\",\"partitions\":1}"},
        {"topics/c", "{\"topicId\":\"AAAAAAAAAAAAAAAAAAAAAA\",\"partitions\":1}"},
        {"topics/c", "[]"},
        {"topics/..", "{\"topicId\":\"" ID_A "\",\"partitions\":1}"}, /* a name is a folder's, too */
        {"topics/c", "{\"topicId\":\"" ID_A "\",\"partitions\":1}"},  /* without its partition */
        {"topics/a", "{\"topicId\":\"" ID_B "\",\"partitions\":1}"},  /* fewer than its partitions */
        {"partitions/a/0", NULL},
        {"partitions/a/x", PARTITION},
        {"partitions/a", PARTITION},
        {"partitions/a/-1", PARTITION},
        {"partitions/a/100000", PARTITION},
        {"partitions/a/0", "{}"},
        {"partitions/a/0", "{\"leader\":1,\"leaderEpoch\":-1,\"partitionEpoch\":4,\"replicas\":[1],\"isr\":[1]}"},
        {"partitions/a/0", "{\"leader\":1,\"leaderEpoch\":1,\"partitionEpoch\":4,\"replicas\":[\"1\"],\"isr\":[1]}"},
        {"partitions/a/0", "{\"leader\":1,\"leaderEpoch\":1,\"partitionEpoch\":4,\"replicas\":[1],\"isr\":1}"},
        {"configs/topics/a", "{\"retention.ms\":1}"},
        {"configs/topics/a", "[]"},
        {"cluster", "{\"clusterId\":\"?\"}"},
        {"brokers/x", "{\"host\":\"h\",\"port\":1}"},
        {"brokers/1", "{\"host\":\"h\",\"port\":70000}"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        const struct image *before = two_topic_image(), *after;
        assert_error(apply(before, &bad[i], 1, &after), ERR_CORRUPT);
        image_unref(before);
    }
}

/* ---- Differences ---- */

static void note(void *arg, const struct image_topic *before, const struct image_topic *after)
{
    char *text = arg;
    strcat(text, before != NULL ? before->name : "-");
    strcat(text, ">");
    strcat(text, after != NULL ? after->name : "-");
    strcat(text, " ");
}

static void test_differences(void **state)
{
    static const char *const changes[][2] = {
        {"topics/a", "{\"topicId\":\"AAAAAAAAAAAAAAAAAAAAAw\",\"partitions\":2}"}, /* another id */
        {"topics/b", NULL},
        {"partitions/b/0", NULL},
        {"topics/aa", "{\"topicId\":\"AAAAAAAAAAAAAAAAAAAABA\",\"partitions\":1}"},
        {"partitions/aa/0", PARTITION},
        {"topics/z", "{\"topicId\":\"AAAAAAAAAAAAAAAAAAAABQ\",\"partitions\":1}"},
        {"partitions/z/0", PARTITION},
    };
    static const char *const epoch[][2] = {
        {"partitions/z/0", "{\"leader\":1,\"leaderEpoch\":8,\"partitionEpoch\":5,\"replicas\":[1],\"isr\":[1]}"}};
    const struct image *first = two_topic_image(), *second, *third;
    char text[200] = "";
    assert_ok(apply(first, changes, ARRAY_SIZE(changes), &second));
    assert_ok(apply(second, epoch, 1, &third));
    image_diff(NULL, first, note, text);
    assert_string_equal(text, "->a ->b ");
    text[0] = '\0';
    image_diff(first, second, note, text);
    assert_string_equal(text, "a>- ->a ->aa b>- ->z ");
    text[0] = '\0';
    image_diff(second, third, note, text);
    assert_string_equal(text, "z>z ");
    text[0] = '\0';
    image_diff(third, third, note, text);
    assert_string_equal(text, "");
    image_unref(first);
    image_unref(second);
    image_unref(third);
}

/* ---- The cell ---- */

struct follower {
    struct image_listener listener;
    int64_t revisions[8];
    int count;
};

static void follow(struct image_listener *listener, const struct image *before, const struct image *after)
{
    struct follower *f = CONTAINER_OF(listener, struct follower, listener);
    assert_true(before == NULL ? f->count == 0 : before->revision == f->revisions[f->count - 1]);
    f->revisions[f->count++] = after->revision;
}

static const struct image *next_image(const struct image *before)
{
    const struct image *next;
    static const char *const change[][2] = {{"partitions/b/0", PARTITION}};
    assert_ok(apply(before, change, 1, &next));
    return next;
}

static void test_listeners_see_every_swap(void **state)
{
    struct image_cell cell;
    struct follower f = {.listener = {.changed = follow}};
    image_cell_init(&cell, two_topic_image());
    image_cell_listen(&cell, &f.listener);
    const struct image *held = image_cell_get(&cell);
    image_cell_swap(&cell, next_image(held));
    assert_int_equal(image_topic(held, STR("a"))->partition_count, 2); /* still whole */
    image_unref(held);
    held = image_cell_get(&cell);
    image_cell_swap(&cell, next_image(held));
    image_cell_unlisten(&cell, &f.listener);
    image_unref(held);
    held = image_cell_get(&cell);
    image_cell_swap(&cell, next_image(held));
    image_unref(held);
    assert_int_equal(f.count, 3);
    assert_int_equal(f.revisions[2], 3);
    image_cell_fini(&cell);
}

struct race {
    struct image_cell cell;
    _Atomic bool stop;
};

static void *look_up(void *arg)
{
    struct race *race = arg;
    int64_t last = 0;
    while (!atomic_load(&race->stop)) {
        const struct image *image = image_cell_get(&race->cell);
        const struct image_topic *b = image_topic(image, STR("b"));
        assert_true(image->revision >= last); /* never an older one again */
        assert_int_equal(b->partitions[0].isr[0], 1);
        assert_ptr_equal(image_topic_by_id(image, &b->id), b);
        last = image->revision;
        image_unref(image);
    }
    return NULL;
}

static void test_lookups_while_swapping(void **state)
{
    struct race race = {.stop = false};
    pthread_t threads[3];
    image_cell_init(&race.cell, two_topic_image());
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, look_up, &race), 0);
    for (int i = 0; i < 500; i++) {
        const struct image *held = image_cell_get(&race.cell);
        image_cell_swap(&race.cell, next_image(held));
        image_unref(held);
    }
    atomic_store(&race.stop, true);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        pthread_join(threads[i], NULL);
    image_cell_fini(&race.cell);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lookups),
        cmocka_unit_test(test_what_did_not_change_is_shared),
        cmocka_unit_test(test_deleted_and_made_again_in_one_commit),
        cmocka_unit_test(test_entries_that_cannot_be),
        cmocka_unit_test(test_differences),
        cmocka_unit_test(test_listeners_see_every_swap),
        cmocka_unit_test(test_lookups_while_swapping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
