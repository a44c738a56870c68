/* The real file system, and what os/file.c makes of any. */
#include "unit.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "os/file.h"

struct folder {
    char path[64];
    char *name[8]; /* ring of names made by in() */
    int next;
};

static char *in(struct folder *f, const char *name)
{
    char **slot = &f->name[f->next++ % 8];
    free(*slot);
    size_t size = strlen(f->path) + strlen(name) + 2;
    *slot = malloc(size);
    snprintf(*slot, size, "%s/%s", f->path, name);
    return *slot;
}

static int make_folder(void **state)
{
    struct folder *f = calloc(1, sizeof(*f));
    snprintf(f->path, sizeof(f->path), "unit-os-file-XXXXXX");
    *state = f;
    return mkdtemp(f->path) == NULL;
}

static int remove_folder(void **state)
{
    struct folder *f = *state;
    enum error e = fs_remove_tree(fs_system(), f->path);
    for (int i = 0; i < 8; i++)
        free(f->name[i]);
    free(f);
    return e;
}

static void a_vector_larger_than_the_systems_is_written_whole(void **state)
{
    enum { COUNT = IOV_MAX + 300 };
    struct iovec *iov = calloc(COUNT, sizeof(*iov));
    uint8_t *data = malloc(COUNT * 3);
    size_t len = 0;
    for (int i = 0; i < COUNT; i++) {
        size_t part = (size_t)i % 4; /* with empty ones */
        iov[i] = (struct iovec){.iov_base = data + len, .iov_len = part};
        for (size_t k = 0; k < part; k++)
            data[len++] = (uint8_t)(i * 7 + (int)k);
    }
    struct file *f;
    assert_ok(fs_open(fs_system(), in(*state, "vector"), FILE_WRITE | FILE_CREATE, &f));
    assert_ok(file_pwritev(f, iov, COUNT, 5));
    uint64_t size;
    assert_ok(file_size(f, &size));
    assert_int_equal(size, len + 5);
    uint8_t *back = malloc(len);
    assert_ok(file_pread_all(f, back, len, 5));
    assert_memory_equal(back, data, len);
    assert_error(file_pread_all(f, back, len, 6), ERR_TRUNCATED);
    size_t got;
    assert_ok(file_pread(f, back, len, size - 2, &got));
    assert_int_equal(got, 2);
    assert_ok(file_pread(f, back, len, size + 10, &got));
    assert_int_equal(got, 0);
    file_close(f);
    free(back);
    free(data);
    free(iov);
}

static void flags_say_what_open_does(void **state)
{
    struct fs *fs = fs_system();
    char *path = in(*state, "a");
    struct file *f;
    assert_error(fs_open(fs, path, FILE_WRITE, &f), ERR_NOT_FOUND);
    assert_ok(fs_open(fs, path, FILE_WRITE | FILE_CREATE | FILE_EXCLUSIVE, &f));
    assert_ok(file_pwrite(f, "hello", 5, 0));
    assert_ok(file_sync(f));
    assert_true(file_fd(f) >= 0);
    file_close(f);
    assert_error(fs_open(fs, path, FILE_WRITE | FILE_CREATE | FILE_EXCLUSIVE, &f), ERR_EXISTS);
    assert_ok(fs_open(fs, path, FILE_READ, &f));
    assert_error(file_pwrite(f, "x", 1, 0), ERR_IO);
    file_close(f);
    assert_ok(fs_open(fs, path, FILE_WRITE | FILE_TRUNCATE, &f));
    uint64_t size;
    assert_ok(file_size(f, &size));
    assert_int_equal(size, 0);
    assert_ok(file_truncate(f, 100));
    assert_ok(file_size(f, &size));
    assert_int_equal(size, 100);
    file_close(f);
    file_close(NULL);
}

static void a_lock_excludes_everybody_until_it_is_closed(void **state)
{
    char *path = in(*state, "lock");
    struct file *first, *second;
    assert_ok(fs_lock(fs_system(), path, &first));
    assert_error(fs_lock(fs_system(), path, &second), ERR_LOCKED);
    file_close(first);
    assert_ok(fs_lock(fs_system(), path, &second));
    file_close(second);
}

static enum error count_entry(void *arg, const char *name, bool is_dir)
{
    int *counts = arg;
    counts[is_dir]++;
    return OK;
}

static enum error stop_at_once(void *arg, const char *name, bool is_dir)
{
    ++*(int *)arg;
    return ERR_CANCELLED;
}

static void folders_are_made_listed_and_removed_with_their_content(void **state)
{
    struct fs *fs = fs_system();
    assert_ok(fs_mkdirs(fs, in(*state, "x//y/z")));
    assert_ok(fs_mkdirs(fs, in(*state, "x/y/z/")));
    assert_error(fs_mkdir(fs, in(*state, "x")), ERR_EXISTS);
    for (int i = 0; i < 100; i++) {
        char name[32];
        snprintf(name, sizeof(name), "x/y/%d", i);
        assert_ok(fs_write_atomic(fs, in(*state, name), "data", 4));
    }
    /* A link to a folder is removed, not followed. */
    assert_ok(fs_mkdir(fs, in(*state, "outside")));
    assert_ok(fs_write_atomic(fs, in(*state, "outside/kept"), "", 0));
    assert_int_equal(symlink("../../outside", in(*state, "x/y/link")), 0);
    int counts[2] = {0};
    assert_ok(fs_list(fs, in(*state, "x/y"), count_entry, counts));
    assert_int_equal(counts[false], 101);
    assert_int_equal(counts[true], 1);
    int visits = 0;
    assert_error(fs_list(fs, in(*state, "x/y"), stop_at_once, &visits), ERR_CANCELLED);
    assert_int_equal(visits, 1);
    assert_error(fs_rmdir(fs, in(*state, "x")), ERR_EXISTS); /* not empty */
    assert_ok(fs_remove_tree(fs, in(*state, "x")));
    assert_false(fs_exists(fs, in(*state, "x")));
    assert_true(fs_exists(fs, in(*state, "outside/kept")));
    assert_ok(fs_remove_tree(fs, in(*state, "x")));
    assert_error(fs_list(fs, in(*state, "x"), count_entry, counts), ERR_NOT_FOUND);
    assert_error(fs_mkdirs(fs, in(*state, "outside/kept")), ERR_EXISTS); /* a file */
}

static void replacing_a_file_leaves_nothing_behind(void **state)
{
    struct fs *fs = fs_system();
    char *path = in(*state, "checkpoint");
    assert_ok(fs_write_atomic(fs, path, "first", 5));
    assert_ok(fs_write_atomic(fs, path, "the second", 10));
    struct buf b = {0};
    assert_error(fs_read_file(fs, path, 9, &b), ERR_TOO_LARGE);
    assert_int_equal(b.len, 0);
    assert_ok(fs_read_file(fs, path, 10, &b));
    assert_str(buf_str(&b), "the second");
    assert_false(fs_exists(fs, in(*state, "checkpoint.tmp")));
    /* The rename fails: the old content and no temporary file. */
    assert_ok(fs_mkdirs(fs, in(*state, "busy/inside")));
    enum error e = fs_write_atomic(fs, in(*state, "busy"), "x", 1);
    assert_int_not_equal(e, OK);
    assert_false(fs_exists(fs, in(*state, "busy.tmp")));
    assert_error(fs_read_file(fs, in(*state, "absent"), 10, &b), ERR_NOT_FOUND);
    buf_fini(&b);
}

static void stat_and_space_tell_sizes(void **state)
{
    struct fs *fs = fs_system();
    char *path = in(*state, "s");
    assert_ok(fs_write_atomic(fs, path, "12345", 5));
    bool is_dir = true;
    uint64_t size = 0, total = 0, usable = 0;
    int64_t mtime_ms = 0;
    assert_ok(fs_stat(fs, path, &is_dir, &size, &mtime_ms));
    assert_false(is_dir);
    assert_int_equal(size, 5);
    assert_true(mtime_ms > 1600000000000);
    assert_ok(fs_stat(fs, ((struct folder *)*state)->path, &is_dir, NULL, NULL));
    assert_true(is_dir);
    assert_ok(fs_space(fs, path, &total, &usable));
    assert_true(total >= usable && total > 0);
    assert_ok(fs_rename(fs, path, in(*state, "t")));
    assert_error(fs_stat(fs, path, NULL, NULL, NULL), ERR_NOT_FOUND);
    assert_error(fs_rename(fs, path, in(*state, "t")), ERR_NOT_FOUND);
    assert_ok(fs_sync_dir(fs, ((struct folder *)*state)->path));
    assert_error(fs_sync_dir(fs, in(*state, "absent")), ERR_NOT_FOUND);
    assert_ok(fs_unlink(fs, in(*state, "t")));
    assert_error(fs_unlink(fs, in(*state, "t")), ERR_NOT_FOUND);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_vector_larger_than_the_systems_is_written_whole),
        TEST(flags_say_what_open_does),
        TEST(a_lock_excludes_everybody_until_it_is_closed),
        TEST(folders_are_made_listed_and_removed_with_their_content),
        TEST(replacing_a_file_leaves_nothing_behind),
        TEST(stat_and_space_tell_sizes),
    };
    return cmocka_run_group_tests_name("os/file", tests, NULL, NULL);
}
