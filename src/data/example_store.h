/*
 * example_store - the examples of several files behind one index, in memory or in mapped
 * cache files.
 *
 * The index of all examples costs 8 bytes each (their lengths, which packing needs at
 * once); everything else lies in the blocks. A store has users, as two sets of records
 * may share it; the last one to let go destroys it. Reading is safe from any number of
 * threads, adding is not.
 */
#ifndef DATA_EXAMPLE_STORE_H
#define DATA_EXAMPLE_STORE_H

#include "base/base.h"
#include "data/row_block.h"

struct row_cache;

struct example_store {
    struct stored_block *blocks; /* [n_blocks] in order of their examples */
    size_t n_blocks;
    size_t blocks_capacity;
    struct row_cache **caches; /* [n_caches] owned */
    size_t n_caches;
    size_t caches_capacity;
    size_t n;               /* examples */
    int32_t *lengths;       /* [n] tokens of each */
    int32_t *target_counts; /* [n] tokens with loss of each */
    size_t lengths_capacity;
    size_t target_counts_capacity;
    int n_users;
};

struct example_store *example_store_create(void); /* one user */
void example_store_share(struct example_store *store);
void example_store_release(struct example_store *store); /* takes NULL */

/* Copies a block of file number `source` behind the others. */
void example_store_add_block(struct example_store *store, const struct row_block *block,
                             int64_t first_row, int64_t first_line, int32_t source);

/* Adds all blocks of a cache, which stays mapped. */
void example_store_add_cache(struct example_store *store, struct row_cache *owned_cache,
                             int32_t source);

struct example example_store_get(const struct example_store *store, size_t i);

/* Tells the system that mapped pages which were read can go. */
void example_store_drop(const struct example_store *store);

#endif
