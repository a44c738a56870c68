#include "net/frame.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

/* What one call reads at most: one connection with much to say does not hold up its loop. */
#define READ_PER_CALL (1024 * 1024)

void frame_reader_init(struct frame_reader *r, size_t limit_bytes)
{
    *r = (struct frame_reader){.limit_bytes = limit_bytes};
}

void frame_reader_fini(struct frame_reader *r)
{
    mem_free(r->data);
    mem_free(r->behind);
    r->data = r->behind = NULL;
}

bool frame_reader_drained(const struct frame_reader *r)
{
    return r->short_read && r->behind == NULL;
}

bool frame_reader_inside(const struct frame_reader *r)
{
    return r->length_got > 0 || r->data != NULL || r->behind != NULL;
}

static enum error check_length(struct frame_reader *r)
{
    int32_t size = get_i32(r->length);
    if (size < 0)
        return ERR_MALFORMED;
    if ((size_t)size > r->limit_bytes)
        return ERR_TOO_LARGE;
    r->size = (size_t)size;
    r->got = 0;
    return OK;
}

static enum error begin_frame(struct frame_reader *r)
{
    enum error e = check_length(r);
    if (e != OK)
        return e;
    r->capacity = MIN(r->size, (size_t)FRAME_EAGER_BYTES);
    r->data = mem_alloc(MAX(r->capacity, (size_t)1));
    return OK;
}

static bool is_whole(const struct frame_reader *r)
{
    return r->data != NULL && r->got == r->size;
}

/* Takes what belongs to the frame from the front of p. OK: the frame is whole; ERR_NOT_FOUND: all was taken and more is
 * needed. */
static enum error feed(struct frame_reader *r, const uint8_t *p, size_t len, size_t *ret_used)
{
    size_t used = 0;
    if (r->data == NULL) {
        used = MIN(len, sizeof(r->length) - r->length_got);
        memcpy(r->length + r->length_got, p, used);
        r->length_got += (uint32_t)used;
        if (r->length_got < sizeof(r->length))
            return ERR_NOT_FOUND;
        enum error e = begin_frame(r);
        if (e != OK)
            return e;
    }
    size_t part = MIN(len - used, r->size - r->got);
    ASSERT(part <= r->capacity - r->got); /* a scratch buffer is smaller than what is taken eagerly */
    memcpy(r->data + r->got, p + used, part);
    r->got += part;
    *ret_used = used + part;
    return is_whole(r) ? OK : ERR_NOT_FOUND;
}

static enum error hand_over(struct frame_reader *r, uint8_t **ret_data, size_t *ret_len)
{
    *ret_data = r->data;
    *ret_len = r->size;
    r->data = NULL;
    r->length_got = 0;
    r->last_size = r->size;
    return OK;
}

static enum error feed_from_behind(struct frame_reader *r)
{
    size_t used = 0;
    enum error e = feed(r, r->behind + r->behind_pos, r->behind_len - r->behind_pos, &used);
    r->behind_pos += used;
    if (e != OK || r->behind_pos == r->behind_len) {
        mem_free(r->behind);
        r->behind = NULL;
    }
    return e;
}

static void keep_behind(struct frame_reader *r, const uint8_t *p, size_t len)
{
    ASSERT(r->behind == NULL);
    if (len == 0)
        return;
    r->behind = mem_alloc(len);
    memcpy(r->behind, p, len);
    r->behind_pos = 0;
    r->behind_len = len;
}

static void grow(struct frame_reader *r)
{
    if (r->got < r->capacity || r->capacity == r->size)
        return;
    r->capacity = MIN(r->size, r->capacity * 2);
    r->data = mem_realloc(r->data, r->capacity);
}

static bool expects_large(const struct frame_reader *r)
{
    return r->last_size >= FRAME_LARGE_BYTES;
}

/* One read where a frame as large as the one before is likely to begin: its length, and its content into what may become its place. */
static enum error read_expected(struct frame_reader *r, struct transport *t, size_t *ret_read, size_t *ret_room)
{
    size_t capacity = MIN(r->last_size, (size_t)FRAME_EAGER_BYTES), got = 0;
    uint8_t *place = mem_alloc(capacity);
    struct iovec iov[2] = {{r->length, sizeof(r->length)}, {place, capacity}};
    enum error e = t->ops->readv(t, iov, 2, &got);
    *ret_read = e == OK ? got : 0;
    *ret_room = sizeof(r->length) + capacity;
    r->length_got = (uint32_t)MIN(*ret_read, sizeof(r->length));
    if (e == OK)
        e = r->length_got < sizeof(r->length) ? ERR_NOT_FOUND : check_length(r);
    if (e != OK) {
        mem_free(place);
        return e;
    }
    size_t content = got - sizeof(r->length);
    r->data = place;
    r->capacity = MIN(capacity, MAX(r->size, (size_t)1));
    r->got = MIN(content, r->size);
    keep_behind(r, place + r->got, content - r->got);
    return is_whole(r) ? OK : ERR_NOT_FOUND;
}

/* One read: the rest of the frame into its place, what comes behind it (or an unknown beginning) into scratch. Behind a large frame nothing is read:
 * one more call costs less than copying twice. */
static enum error read_once(struct frame_reader *r, struct transport *t, uint8_t *scratch, size_t *ret_read, size_t *ret_room)
{
    struct iovec iov[2];
    int n = 0;
    size_t direct = 0, room = 0;
    if (r->data == NULL && r->length_got == 0 && expects_large(r))
        return read_expected(r, t, ret_read, ret_room);
    if (r->data != NULL) {
        grow(r);
        direct = r->capacity - r->got;
        iov[n++] = (struct iovec){.iov_base = r->data + r->got, .iov_len = direct};
    }
    if (r->data == NULL || (r->capacity == r->size && !(expects_large(r) && r->size >= FRAME_LARGE_BYTES))) {
        iov[n++] = (struct iovec){.iov_base = scratch, .iov_len = FRAME_SCRATCH_BYTES};
        room = FRAME_SCRATCH_BYTES;
    }
    size_t got;
    enum error e = t->ops->readv(t, iov, n, &got);
    if (e != OK)
        return e;
    *ret_read = got;
    *ret_room = direct + room;
    size_t in_place = MIN(direct, got);
    r->got += in_place;
    if (is_whole(r)) {
        keep_behind(r, scratch, got - in_place);
        return OK;
    }
    if (r->data != NULL)
        return ERR_NOT_FOUND;
    size_t used = 0;
    e = feed(r, scratch, got, &used);
    if (e == OK)
        keep_behind(r, scratch + used, got - used);
    return e;
}

enum error frame_reader_next(struct frame_reader *r, struct transport *t, uint8_t *scratch, uint8_t **ret_data, size_t *ret_len,
                             size_t *ret_read)
{
    *ret_read = 0;
    enum error e = r->behind != NULL ? feed_from_behind(r) : ERR_NOT_FOUND;
    while (e == ERR_NOT_FOUND && *ret_read < READ_PER_CALL) {
        size_t got = 0, room = 0;
        e = read_once(r, t, scratch, &got, &room);
        *ret_read += got;
        r->short_read = got == 0 || got < room;
        if (r->short_read)
            break; /* nothing there, or not more: no further call to be told so */
    }
    return e == OK ? hand_over(r, ret_data, ret_len) : e;
}
