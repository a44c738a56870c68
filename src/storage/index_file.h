/* A file of fixed-size entries that only grows at its end: what offset, time and transaction index have in common.
 *
 * Kafka preallocates its index files to segment.index.bytes and cuts them when a segment is rolled or closed; what an unclean end leaves has a tail of zeroes. Ours are
 * exactly as long as their entries. A tail of zero entries in what we open is cut off in memory and, when the file is written again, on disk.
 *
 * Crash argument: an index holds nothing that the log does not. After an unclean end the indexes of every segment from the recovery point on are rebuilt; the
 * others were synced when their segment was sealed.
 *
 * The writer keeps all entries in memory and writes them in blocks; a sealed index holds none and is read by binary search over blocks with pread (no mmap: a bad
 * sector answers with an error and not with SIGBUS). Files are opened at the first use. Guarded by the log's lock, but index_file_sync. */
#ifndef KAGAMI_STORAGE_INDEX_FILE_H
#define KAGAMI_STORAGE_INDEX_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "os/file.h"

#define INDEX_MAX_ENTRY 34
/* Largest index file that is taken: positions are int32, so that more than this is damage. */
#define INDEX_MAX_BYTES (512 * 1024 * 1024)

struct index_file {
    struct fs *fs;
    const char *path;  /* the owner's, changed with index_file_moved */
    struct file *file; /* NULL until the first use */
    uint32_t entry_bytes;
    bool loaded;
    bool writable; /* all entries are in memory */
    bool unsynced;
    uint64_t count;   /* entries */
    uint64_t written; /* of them in the file */
    uint64_t file_bytes;
    struct buf entries;   /* writable: all of them */
    uint8_t *block;       /* sealed: last block read; NULL until the first */
    uint64_t block_first; /* its first entry; UINT64_MAX: none */
    uint32_t block_count;
};

/* Takes no memory and opens nothing. */
void index_file_init(struct index_file *x, struct fs *fs, const char *path, uint32_t entry_bytes);
void index_file_fini(struct index_file *x); /* drops what was not written */
/* Reads size and, for a writer, all entries. A missing file is empty (and is created by the first write). ERR_CORRUPT: not a multiple of the entry's size
 * after zeroes are cut off, or too large. Called by the others as needed. */
MUST_CHECK enum error index_file_load(struct index_file *x);
/* The caller is going to append or truncate. */
MUST_CHECK enum error index_file_make_writable(struct index_file *x);
/* Entry i < count, entry_bytes of it, valid until the next call. */
MUST_CHECK enum error index_file_get(struct index_file *x, uint64_t i, const uint8_t **ret_entry);
/* Number of leading entries for which below(entry, key) holds; entries are ordered so that it holds for a first part only. */
MUST_CHECK enum error index_file_search(struct index_file *x, bool (*below)(const uint8_t *entry, int64_t key), int64_t key,
                                        uint64_t *ret_count);
/* Remembers an entry; written when a block is full (or by flush). */
MUST_CHECK enum error index_file_append(struct index_file *x, const uint8_t *entry);
MUST_CHECK enum error index_file_truncate(struct index_file *x, uint64_t count);
/* Writes what is missing in the file and cuts it to its entries. An index without entries gets an (empty) file when `create`. */
MUST_CHECK enum error index_file_flush(struct index_file *x, bool create);
/* Flush, and from now on read by blocks. */
MUST_CHECK enum error index_file_seal(struct index_file *x, bool create);
/* What a process before this one wrote or cut may be in the page cache only, even where nothing is to be changed: the next sync syncs. */
void index_file_distrust(struct index_file *x);
/* fdatasync if anything was written since the last. No lock needed once sealed. */
MUST_CHECK enum error index_file_sync(struct index_file *x);
/* Closes the file of a sealed index that is synced, and gives its block back; it is opened again at the next use. */
void index_file_rest(struct index_file *x);
void index_file_moved(struct index_file *x, const char *path);

#endif
