#include "sim_disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

#define SECTOR 512

struct sim_change { /* a write, or a change of size when bytes is NULL */
    struct sim_change *next;
    uint64_t pos;
    size_t len;
    uint8_t *bytes;
};

struct sim_entry {
    struct sim_entry *next;
    char *name;
    struct sim_inode *inode;
};

struct sim_dir_change {
    struct sim_dir_change *next;
    char *from; /* removed; NULL for a creation */
    char *to;   /* stands for inode; NULL for a removal */
    struct sim_inode *inode;
};

struct sim_inode {
    struct sim_inode *next;
    bool is_dir, locked;
    int links, opens;
    /* a file: as a process sees it, as it is on the medium, and what lies between since the last sync */
    struct buf data, durable;
    struct sim_change *changes, **last_change;
    /* a folder, likewise */
    struct sim_entry *entries, *durable_entries;
    struct sim_dir_change *dir_changes, **last_dir_change;
};

struct sim_file {
    struct file file; /* first */
    struct sim_disk *disk;
    struct sim_inode *inode;
    char *path;
    bool lock;
};

/* ---- Failing ---- */

static enum error operation(struct sim_disk *d, enum sim_op op, const char *path)
{
    if (d->paused)
        return OK;
    const char *trace = getenv("SIM_DISK_TRACE");
    if (trace != NULL && strcmp(trace, "all") == 0 && op != SIM_READ)
        fprintf(stderr, "sim_disk: operation %d on %s\n", op, path);
    bool gone = d->fail_all_after && d->failed_op != 0;
    if (gone && op != SIM_READ)
        return d->fail_with;
    if ((d->counted & op) == 0 || ++d->operations != d->fail_at)
        return OK;
    d->failed_op = op;
    snprintf(d->failed_path, sizeof(d->failed_path), "%s", path);
    if (trace != NULL)
        fprintf(stderr, "sim_disk: operation %d on %s fails\n", op, path);
    return d->fail_with;
}

/* *ret_lies: it says OK and does nothing, what was to be synced waits on. */
static enum error sync_operation(struct sim_disk *d, enum sim_op op, const char *path, bool *ret_lies)
{
    bool before = d->failed_op != 0;
    enum error error = operation(d, op, path);
    *ret_lies = error == OK && d->fail_with == OK && !before && d->failed_op != 0;
    return error;
}

void sim_disk_fail(struct sim_disk *d, int kinds, uint64_t at, enum error with, bool all_after)
{
    mutex_lock(&d->mutex);
    d->counted = kinds;
    d->operations = 0;
    d->fail_at = at;
    d->fail_with = with;
    d->fail_all_after = all_after;
    d->failed_op = 0;
    mutex_unlock(&d->mutex);
}

bool sim_disk_has_failed(struct sim_disk *d)
{
    mutex_lock(&d->mutex);
    bool failed = d->failed_op != 0;
    mutex_unlock(&d->mutex);
    return failed;
}

void sim_disk_heal(struct sim_disk *d)
{
    sim_disk_fail(d, SIM_CHANGES, 0, OK, false);
}

/* ---- Content ---- */

static void resize(struct buf *b, uint64_t size)
{
    if (size > b->len)
        memset(buf_reserve(b, size - b->len), 0, size - b->len);
    b->len = size;
}

static void put(struct buf *b, uint64_t pos, const uint8_t *bytes, size_t len)
{
    if (len == 0)
        return;
    if (pos + len > b->len)
        resize(b, pos + len);
    memcpy(b->data + pos, bytes, len);
}

static void set_data(struct sim_disk *d, struct sim_inode *inode, uint64_t size)
{
    d->used_bytes += size;
    d->used_bytes -= inode->data.len;
    resize(&inode->data, size);
}

static void remember_change(struct sim_inode *inode, uint64_t pos, const uint8_t *bytes, size_t len)
{
    struct sim_change *c = mem_calloc(1, sizeof(*c));
    c->pos = pos;
    c->len = len;
    if (len > 0) {
        c->bytes = mem_alloc(len);
        memcpy(c->bytes, bytes, len);
    }
    *inode->last_change = c;
    inode->last_change = &c->next;
}

enum fate { FATE_NONE, FATE_ALL, FATE_FRONT, FATE_ANY, FATES };

static bool survives(enum fate fate, bool *alive, struct random_source *r)
{
    if (fate == FATE_FRONT && *alive)
        *alive = random_below(r, 4) != 0;
    return fate == FATE_ALL || (fate == FATE_FRONT && *alive) || (fate == FATE_ANY && random_below(r, 2) == 0);
}

/* What was not synced reaches the medium, as far as fate has it, and is forgotten. */
static void settle_file(struct sim_inode *inode, enum fate fate, struct random_source *r)
{
    bool alive = true;
    while (inode->changes != NULL) {
        struct sim_change *c = inode->changes;
        inode->changes = c->next;
        if (c->bytes == NULL && survives(fate, &alive, r))
            resize(&inode->durable, c->pos);
        for (size_t done = 0; done < c->len;) { /* by the sectors of the medium */
            size_t piece = MIN(c->len - done, SECTOR - (size_t)((c->pos + done) % SECTOR));
            if (survives(fate, &alive, r))
                put(&inode->durable, c->pos + done, c->bytes + done, piece);
            done += piece;
        }
        mem_free(c->bytes);
        mem_free(c);
    }
    inode->last_change = &inode->changes;
}

/* ---- Names ---- */

static struct sim_entry **find_entry(struct sim_entry **list, const char *name)
{
    while (*list != NULL && strcmp((*list)->name, name) != 0)
        list = &(*list)->next;
    return list;
}

static void set_entry(struct sim_entry **list, const char *name, struct sim_inode *inode)
{
    struct sim_entry **at = find_entry(list, name);
    if (*at == NULL) {
        struct sim_entry *e = mem_calloc(1, sizeof(*e));
        e->name = mem_strdup(name);
        *at = e;
    }
    (*at)->inode = inode;
}

static void drop_entry(struct sim_entry **at)
{
    struct sim_entry *e = *at;
    if (e == NULL)
        return;
    *at = e->next;
    mem_free(e->name);
    mem_free(e);
}

static void apply_dir_change(struct sim_entry **list, const struct sim_dir_change *c)
{
    struct sim_entry **from = c->from != NULL ? find_entry(list, c->from) : NULL;
    if (from != NULL && *from != NULL && (c->to == NULL || (*from)->inode == c->inode))
        drop_entry(from);
    if (c->to != NULL)
        set_entry(list, c->to, c->inode);
}

static void change_dir(struct sim_inode *dir, const char *from, const char *to, struct sim_inode *inode)
{
    struct sim_dir_change *c = mem_calloc(1, sizeof(*c));
    c->from = from != NULL ? mem_strdup(from) : NULL;
    c->to = to != NULL ? mem_strdup(to) : NULL;
    c->inode = inode;
    apply_dir_change(&dir->entries, c);
    *dir->last_dir_change = c;
    dir->last_dir_change = &c->next;
}

static void settle_dir(struct sim_inode *dir, enum fate fate, struct random_source *r)
{
    bool alive = true;
    while (dir->dir_changes != NULL) {
        struct sim_dir_change *c = dir->dir_changes;
        dir->dir_changes = c->next;
        if (survives(fate, &alive, r))
            apply_dir_change(&dir->durable_entries, c);
        mem_free(c->from);
        mem_free(c->to);
        mem_free(c);
    }
    dir->last_dir_change = &dir->dir_changes;
}

static struct sim_inode *new_inode(struct sim_disk *d, bool is_dir)
{
    struct sim_inode *inode = mem_calloc(1, sizeof(*inode));
    inode->is_dir = is_dir;
    inode->last_change = &inode->changes;
    inode->last_dir_change = &inode->dir_changes;
    inode->next = d->inodes;
    d->inodes = inode;
    return inode;
}

/* The folder that path lies in and the name in it; NULL when there is none. */
static struct sim_inode *parent_of(struct sim_disk *d, const char *path, const char **ret_name)
{
    struct sim_inode *dir = d->root;
    ASSERT(*path == '/');
    for (path++;;) {
        const char *slash = strchr(path, '/');
        if (slash == NULL) {
            *ret_name = path;
            return dir;
        }
        char name[256];
        ASSERT((size_t)(slash - path) < sizeof(name));
        memcpy(name, path, (size_t)(slash - path));
        name[slash - path] = '\0';
        struct sim_entry *e = *find_entry(&dir->entries, name);
        if (e == NULL || !e->inode->is_dir)
            return NULL;
        dir = e->inode;
        path = slash + 1;
    }
}

static struct sim_inode *find_inode(struct sim_disk *d, const char *path)
{
    const char *name;
    struct sim_inode *dir = parent_of(d, path, &name);
    if (dir == NULL || *name == '\0')
        return dir;
    struct sim_entry *e = *find_entry(&dir->entries, name);
    return e != NULL ? e->inode : NULL;
}

static void unlinked(struct sim_disk *d, struct sim_inode *inode)
{
    if (--inode->links == 0 && inode->opens == 0)
        d->used_bytes -= inode->data.len;
}

/* ---- Files ---- */

static void sim_close(struct file *f)
{
    struct sim_file *file = (struct sim_file *)f;
    struct sim_disk *d = file->disk;
    mutex_lock(&d->mutex);
    if (file->lock)
        file->inode->locked = false;
    d->open_files--;
    if (--file->inode->opens == 0 && file->inode->links == 0)
        d->used_bytes -= file->inode->data.len;
    mutex_unlock(&d->mutex);
    mem_free(file->path);
    mem_free(file);
}

static enum error sim_pread(struct file *f, void *out, size_t len, uint64_t pos, size_t *ret_read)
{
    struct sim_file *file = (struct sim_file *)f;
    mutex_lock(&file->disk->mutex);
    const struct buf *data = &file->inode->data;
    enum error error = operation(file->disk, SIM_READ, file->path);
    if (error == OK) {
        size_t n = pos >= data->len ? 0 : MIN(len, data->len - pos);
        if (n > 0)
            memcpy(out, data->data + pos, n);
        *ret_read = n;
    }
    mutex_unlock(&file->disk->mutex);
    return error;
}

static void write_locked(struct sim_file *file, uint64_t pos, const uint8_t *bytes, size_t len)
{
    if (len == 0)
        return;
    if (pos + len > file->inode->data.len)
        set_data(file->disk, file->inode, pos + len);
    memcpy(file->inode->data.data + pos, bytes, len);
    remember_change(file->inode, pos, bytes, len);
}

static enum error sim_pwritev(struct file *f, const struct iovec *iov, int iov_count, uint64_t pos)
{
    struct sim_file *file = (struct sim_file *)f;
    struct sim_disk *d = file->disk;
    mutex_lock(&d->mutex);
    size_t total = 0;
    for (int i = 0; i < iov_count; i++)
        total += iov[i].iov_len;
    enum error error = operation(d, SIM_WRITE, file->path);
    size_t left = error == OK ? total : (size_t)random_below(d->random, total + 1); /* a write that fails has written some */
    uint64_t size = file->inode->data.len;
    if (d->capacity_bytes > 0 && pos + left > size && d->used_bytes + pos + left - size > d->capacity_bytes) {
        error = error != OK ? error : ERR_NO_SPACE;
        left = (size_t)random_below(d->random,
                                    MIN(left, d->capacity_bytes > d->used_bytes ? d->capacity_bytes - d->used_bytes : 0) + 1);
    }
    for (int i = 0; i < iov_count && left > 0; i++) {
        size_t len = MIN(left, iov[i].iov_len);
        write_locked(file, pos, iov[i].iov_base, len);
        pos += len;
        left -= len;
    }
    mutex_unlock(&d->mutex);
    return error;
}

static enum error truncate_locked(struct sim_file *file, uint64_t size)
{
    enum error error = operation(file->disk, SIM_RESIZE, file->path);
    if (error != OK)
        return error;
    set_data(file->disk, file->inode, size);
    remember_change(file->inode, size, NULL, 0);
    return OK;
}

static enum error sim_truncate(struct file *f, uint64_t size)
{
    struct sim_file *file = (struct sim_file *)f;
    mutex_lock(&file->disk->mutex);
    enum error error = truncate_locked(file, size);
    mutex_unlock(&file->disk->mutex);
    return error;
}

static enum error sim_sync(struct file *f)
{
    struct sim_file *file = (struct sim_file *)f;
    struct sim_disk *d = file->disk;
    if (d->on_sync != NULL)
        d->on_sync(d->on_sync_arg, file->path);
    mutex_lock(&d->mutex);
    bool lies = false;
    enum error error = sync_operation(d, SIM_SYNC, file->path, &lies);
    if (error == OK && !lies)
        settle_file(file->inode, FATE_ALL, d->random);
    else if (error != OK && !d->fail_all_after)
        settle_file(file->inode, (enum fate)random_below(d->random, FATES),
                    d->random); /* and the rest is lost without another word */
    mutex_unlock(&d->mutex);
    return error;
}

static enum error sim_size(struct file *f, uint64_t *ret_size)
{
    struct sim_file *file = (struct sim_file *)f;
    mutex_lock(&file->disk->mutex);
    enum error error = operation(file->disk, SIM_READ, file->path);
    if (error == OK)
        *ret_size = file->inode->data.len;
    mutex_unlock(&file->disk->mutex);
    return error;
}

static int sim_fd(struct file *f)
{
    return -1;
}

/* What is on the medium, and what still waits to go there. */
static void sim_forget(struct file *f)
{
    struct sim_file *file = (struct sim_file *)f;
    struct sim_inode *inode = file->inode;
    mutex_lock(&file->disk->mutex);
    uint64_t before = inode->data.len;
    buf_clear(&inode->data);
    buf_append(&inode->data, inode->durable.data, inode->durable.len);
    for (struct sim_change *c = inode->changes; c != NULL; c = c->next) {
        if (c->bytes == NULL)
            resize(&inode->data, c->pos);
        put(&inode->data, c->pos, c->bytes, c->len);
    }
    file->disk->used_bytes += inode->data.len;
    file->disk->used_bytes -= before;
    mutex_unlock(&file->disk->mutex);
}

static const struct file_ops FILE_OPS = {sim_close, sim_pread, sim_pwritev, sim_truncate, sim_sync, sim_size, sim_fd, sim_forget};

/* ---- The file system ---- */

static enum error open_locked(struct sim_disk *d, const char *path, int flags, struct sim_file **ret_file)
{
    const char *name;
    struct sim_inode *dir = parent_of(d, path, &name);
    struct sim_entry *e = dir != NULL ? *find_entry(&dir->entries, name) : NULL;
    struct sim_inode *inode = e != NULL ? e->inode : NULL;
    enum error error = operation(d, SIM_READ, path);
    if (error != OK)
        return error;
    if (inode == NULL && ((flags & FILE_CREATE) == 0 || dir == NULL))
        return ERR_NOT_FOUND;
    if (inode != NULL && inode->is_dir)
        return ERR_IO;
    if (inode != NULL && (flags & FILE_EXCLUSIVE) != 0)
        return ERR_EXISTS;
    if (inode == NULL) {
        error = operation(d, SIM_CREATE, path);
        if (error != OK)
            return error;
        inode = new_inode(d, false);
        inode->links = 1;
        change_dir(dir, NULL, name, inode);
    }
    struct sim_file file = {.file.ops = &FILE_OPS, .disk = d, .inode = inode};
    file.path = (char *)path;
    if ((flags & FILE_TRUNCATE) != 0 && inode->data.len > 0 && (error = truncate_locked(&file, 0)) != OK)
        return error;
    inode->opens++;
    d->open_files++;
    *ret_file = mem_calloc(1, sizeof(file));
    **ret_file = file;
    (*ret_file)->path = mem_strdup(path);
    return OK;
}

static enum error sim_open(struct fs *fs, const char *path, int flags, struct file **ret_file)
{
    struct sim_disk *d = (struct sim_disk *)fs;
    struct sim_file *file;
    mutex_lock(&d->mutex);
    enum error error = open_locked(d, path, flags, &file);
    if (error == OK)
        *ret_file = &file->file;
    mutex_unlock(&d->mutex);
    return error;
}

static enum error sim_lock(struct fs *fs, const char *path, struct file **ret_file)
{
    struct sim_disk *d = (struct sim_disk *)fs;
    struct sim_file *file = NULL;
    mutex_lock(&d->mutex);
    struct sim_inode *inode = find_inode(d, path);
    enum error error = inode != NULL && inode->locked ? ERR_LOCKED : open_locked(d, path, FILE_WRITE | FILE_CREATE, &file);
    if (error == OK) {
        file->lock = file->inode->locked = true;
        *ret_file = &file->file;
    }
    mutex_unlock(&d->mutex);
    return error;
}

static enum error sim_mkdir(struct fs *fs, const char *path)
{
    struct sim_disk *d = (struct sim_disk *)fs;
    const char *name;
    mutex_lock(&d->mutex);
    struct sim_inode *dir = parent_of(d, path, &name);
    enum error error = dir == NULL ? ERR_NOT_FOUND : *find_entry(&dir->entries, name) != NULL ? ERR_EXISTS : OK;
    if (error == OK)
        error = operation(d, SIM_CREATE, path);
    if (error == OK) {
        struct sim_inode *inode = new_inode(d, true);
        inode->links = 1;
        change_dir(dir, NULL, name, inode);
    }
    mutex_unlock(&d->mutex);
    return error;
}

static enum error remove_name(struct fs *fs, const char *path, bool is_dir)
{
    struct sim_disk *d = (struct sim_disk *)fs;
    const char *name;
    mutex_lock(&d->mutex);
    struct sim_inode *dir = parent_of(d, path, &name);
    struct sim_entry *e = dir != NULL ? *find_entry(&dir->entries, name) : NULL;
    enum error error = e == NULL ? ERR_NOT_FOUND : e->inode->is_dir != is_dir || e->inode->entries != NULL ? ERR_IO : OK;
    if (error == OK)
        error = operation(d, SIM_REMOVE, path);
    if (error == OK) {
        struct sim_inode *inode = e->inode;
        change_dir(dir, name, NULL, inode);
        unlinked(d, inode);
    }
    mutex_unlock(&d->mutex);
    return error;
}

static enum error sim_rmdir(struct fs *fs, const char *path)
{
    return remove_name(fs, path, true);
}

static enum error sim_unlink(struct fs *fs, const char *path)
{
    return remove_name(fs, path, false);
}

static enum error sim_rename(struct fs *fs, const char *from, const char *to)
{
    struct sim_disk *d = (struct sim_disk *)fs;
    const char *from_name, *to_name;
    mutex_lock(&d->mutex);
    struct sim_inode *dir = parent_of(d, from, &from_name), *to_dir = parent_of(d, to, &to_name);
    struct sim_entry *e = dir != NULL ? *find_entry(&dir->entries, from_name) : NULL;
    ASSERT(dir == to_dir);
    enum error error = e == NULL ? ERR_NOT_FOUND : operation(d, SIM_RENAME, from);
    if (error == OK) {
        struct sim_inode *inode = e->inode;
        struct sim_entry *old = *find_entry(&dir->entries, to_name);
        ASSERT(old == NULL || !old->inode->is_dir);
        if (old != NULL)
            unlinked(d, old->inode);
        change_dir(dir, from_name, to_name, inode);
    }
    mutex_unlock(&d->mutex);
    return error;
}

static enum error sim_sync_dir(struct fs *fs, const char *path)
{
    struct sim_disk *d = (struct sim_disk *)fs;
    mutex_lock(&d->mutex);
    struct sim_inode *dir = find_inode(d, path);
    bool lies = false;
    enum error error = dir == NULL || !dir->is_dir ? ERR_NOT_FOUND : sync_operation(d, SIM_SYNC_DIR, path, &lies);
    if (error == OK && !lies)
        settle_dir(dir, FATE_ALL, d->random);
    mutex_unlock(&d->mutex);
    return error;
}

/* Visits may change names: what is to be visited is noted first. */
static enum error sim_list(struct fs *fs, const char *path, enum error (*visit)(void *arg, const char *name, bool is_dir),
                           void *arg)
{
    struct sim_disk *d = (struct sim_disk *)fs;
    struct buf names = {0};
    mutex_lock(&d->mutex);
    struct sim_inode *dir = find_inode(d, path);
    enum error error = dir == NULL || !dir->is_dir ? ERR_NOT_FOUND : operation(d, SIM_READ, path);
    for (struct sim_entry *e = dir != NULL ? dir->entries : NULL; e != NULL && error == OK; e = e->next) {
        buf_putc(&names, e->inode->is_dir ? 'd' : 'f');
        buf_append(&names, e->name, strlen(e->name) + 1);
    }
    mutex_unlock(&d->mutex);
    for (size_t i = 0; i < names.len && error == OK; i += strlen((char *)names.data + i) + 1)
        error = visit(arg, (char *)names.data + i + 1, names.data[i] == 'd');
    buf_fini(&names);
    return error;
}

static enum error sim_stat(struct fs *fs, const char *path, bool *ret_is_dir, uint64_t *ret_size, int64_t *ret_mtime_ms)
{
    struct sim_disk *d = (struct sim_disk *)fs;
    mutex_lock(&d->mutex);
    const struct sim_inode *inode = find_inode(d, path);
    enum error error = operation(d, SIM_READ, path);
    if (error == OK && inode == NULL)
        error = ERR_NOT_FOUND;
    if (error == OK) {
        *ret_is_dir = inode->is_dir;
        *ret_size = inode->data.len;
        *ret_mtime_ms = 0;
    }
    mutex_unlock(&d->mutex);
    return error;
}

static enum error sim_space(struct fs *fs, const char *path, uint64_t *ret_total, uint64_t *ret_usable)
{
    *ret_total = *ret_usable = 1 << 30;
    return OK;
}

static const struct fs_ops FS_OPS = {
    .open = sim_open,
    .mkdir = sim_mkdir,
    .rmdir = sim_rmdir,
    .unlink = sim_unlink,
    .rename = sim_rename,
    .sync_dir = sim_sync_dir,
    .list = sim_list,
    .lock = sim_lock,
    .stat = sim_stat,
    .space = sim_space,
};

/* ---- Life and power ---- */

void sim_disk_init(struct sim_disk *d, struct random_source *random)
{
    *d = (struct sim_disk){.fs.ops = &FS_OPS, .random = random, .counted = SIM_CHANGES};
    mutex_init(&d->mutex);
    d->root = new_inode(d, true);
    d->root->links = 1;
}

static void free_inode(struct sim_inode *inode, struct random_source *r)
{
    settle_file(inode, FATE_NONE, r);
    settle_dir(inode, FATE_NONE, r);
    while (inode->entries != NULL)
        drop_entry(&inode->entries);
    while (inode->durable_entries != NULL)
        drop_entry(&inode->durable_entries);
    buf_fini(&inode->data);
    buf_fini(&inode->durable);
    mem_free(inode);
}

void sim_disk_fini(struct sim_disk *d)
{
    while (d->inodes != NULL) {
        struct sim_inode *inode = d->inodes;
        d->inodes = inode->next;
        free_inode(inode, d->random);
    }
    mutex_fini(&d->mutex);
}

static void find_again(struct sim_disk *d, struct sim_inode *inode)
{
    if (inode->links++ > 0)
        return;
    d->used_bytes += inode->data.len;
    for (struct sim_entry *e = inode->entries; e != NULL; e = e->next)
        find_again(d, e->inode);
}

void sim_disk_power_cut(struct sim_disk *d)
{
    ASSERT(d->open_files == 0);
    if (getenv("SIM_DISK_TRACE") != NULL)
        fprintf(stderr, "sim_disk: power cut\n");
    enum fate names = (enum fate)random_below(d->random, FATES);
    for (struct sim_inode *inode = d->inodes; inode != NULL; inode = inode->next) {
        inode->links = 0;
        settle_file(inode, (enum fate)random_below(d->random, FATES), d->random);
        settle_dir(inode, names, d->random);
        buf_clear(&inode->data);
        buf_append(&inode->data, inode->durable.data, inode->durable.len);
        while (inode->entries != NULL)
            drop_entry(&inode->entries);
        for (struct sim_entry *e = inode->durable_entries; e != NULL; e = e->next)
            set_entry(&inode->entries, e->name, e->inode);
    }
    d->used_bytes = 0;
    find_again(d, d->root);
    for (struct sim_inode **at = &d->inodes; *at != NULL;) { /* what no name leads to is gone */
        struct sim_inode *inode = *at;
        if (inode->links > 0) {
            at = &inode->next;
            continue;
        }
        *at = inode->next;
        free_inode(inode, d->random);
    }
    sim_disk_heal(d);
}
