/* Transaction index of a segment: the aborted transactions whose marker lies in it (Kafka: TransactionIndex, AbortedTxn). File %020lld.txnindex, which is there only when
 * there was one; per entry 34 bytes, big endian:
 *
 *   0 int16 version = 0   2 int64 producer id   10 int64 first offset   18 int64 last offset (the marker's)   26 int64 last stable offset at that time
 *
 * In the order of the markers. Guarded by the log's lock. */
#ifndef KAGAMI_STORAGE_TXN_INDEX_H
#define KAGAMI_STORAGE_TXN_INDEX_H

#include "storage/index_file.h"

#define TXN_INDEX_ENTRY_BYTES 34

struct txn_index {
    struct index_file file;
    int64_t base_offset;
};

struct aborted_txn {
    int64_t producer_id;
    int64_t first_offset;
    int64_t last_offset;
    int64_t last_stable_offset;
};

void txn_index_init(struct txn_index *x, struct fs *fs, const char *path, int64_t base_offset);
void txn_index_fini(struct txn_index *x);
/* ERR_INVALID when its last offset is not above the last entry's. */
MUST_CHECK enum error txn_index_append(struct txn_index *x, const struct aborted_txn *txn);
/* Calls visit for each entry whose transaction overlaps [from, upper). *ret_complete: no later segment needs to be searched (an entry was found whose last stable
 * offset is >= upper). ERR_UNSUPPORTED for entries of another version. */
MUST_CHECK enum error txn_index_collect(struct txn_index *x, int64_t from, int64_t upper,
                                        void (*visit)(void *arg, const struct aborted_txn *txn), void *arg, bool *ret_complete);
/* Keeps the entries with a last offset below the given one. */
MUST_CHECK enum error txn_index_truncate(struct txn_index *x, int64_t offset);
/* ERR_CORRUPT: an entry that ends before the segment begins, or is of another version. */
MUST_CHECK enum error txn_index_check(struct txn_index *x);

void txn_index_decode(const uint8_t *entry, struct aborted_txn *ret_txn); /* 34 bytes whose version was checked */

#endif
