/*
 * example_store - a sorted list of blocks; an example is found by binary search.
 */
#include "data/example_store.h"

#include <string.h>

#include "base/mem.h"
#include "data/row_cache.h"

/* Pages of this many blocks of a cache are looked at before they are given back. */
enum { BLOCKS_PER_DROP = 64 };

struct stored_block {
    struct row_block_view view;
    size_t first;   /* index of its first example */
    int32_t source; /* number of its file */
    uint32_t *copy; /* what the view points to, NULL for one in a cache */
};

struct example_store *example_store_create(void)
{
    struct example_store *store = mem_alloc(sizeof(*store));
    store->n_users = 1;
    return store;
}

void example_store_share(struct example_store *store)
{
    store->n_users++;
}

void example_store_release(struct example_store *store)
{
    if (store == NULL || --store->n_users > 0) {
        return;
    }
    for (size_t i = 0; i < store->n_blocks; i++) {
        mem_free(store->blocks[i].copy);
    }
    for (size_t i = 0; i < store->n_caches; i++) {
        row_cache_close(store->caches[i]);
    }
    mem_free(store->blocks);
    mem_free(store->caches);
    mem_free(store->lengths);
    mem_free(store->target_counts);
    mem_free(store);
}

/* Enters a block and the lengths of its examples. */
static void add(struct example_store *store, const struct stored_block *block)
{
    store->blocks = mem_reserve_one(store->blocks, store->n_blocks,
                                    &store->blocks_capacity, sizeof(*store->blocks));
    store->blocks[store->n_blocks++] = *block;
    for (size_t i = 0; i < block->view.n_entries; i++) {
        const struct row_entry *entry = &block->view.entries[i];
        store->lengths =
            mem_reserve_one(store->lengths, store->n, &store->lengths_capacity,
                            sizeof(*store->lengths));
        store->target_counts = mem_reserve_one(store->target_counts, store->n,
                                               &store->target_counts_capacity,
                                               sizeof(*store->target_counts));
        store->lengths[store->n] = entry->n;
        store->target_counts[store->n] = entry->n_targets;
        store->n++;
    }
}

/* Words and entries of the copy share one allocation of the exact size: the block that
 * was filled has room to spare, and is filled again. */
void example_store_add_block(struct example_store *store, const struct row_block *block,
                             int64_t first_row, int64_t first_line, int32_t source)
{
    const size_t entry_words = sizeof(struct row_entry) / sizeof(uint32_t);
    struct stored_block kept = {
        .view = row_block_view(block, first_row, first_line),
        .first = store->n,
        .source = source,
        .copy = mem_alloc_array(block->n_words + block->n_entries * entry_words,
                                sizeof(uint32_t)),
    };
    void *entries = kept.copy + block->n_words;
    memcpy(kept.copy, block->words, block->n_words * sizeof(uint32_t));
    memcpy(entries, block->entries, block->n_entries * sizeof(*block->entries));
    kept.view.words = kept.copy;
    kept.view.entries = entries;
    add(store, &kept);
}

void example_store_add_cache(struct example_store *store, struct row_cache *owned_cache,
                             int32_t source)
{
    store->caches =
        mem_reserve_one(store->caches, store->n_caches, &store->caches_capacity,
                        sizeof(struct row_cache *));
    store->caches[store->n_caches++] = owned_cache;
    for (size_t i = 0; i < row_cache_n_blocks(owned_cache); i++) {
        const struct stored_block block = {.view = row_cache_block(owned_cache, i),
                                           .first = store->n,
                                           .source = source};
        add(store, &block);
        if (i % BLOCKS_PER_DROP == BLOCKS_PER_DROP - 1) {
            row_cache_drop(owned_cache);
        }
    }
    row_cache_drop(owned_cache);
}

/* The last block that begins at i or before it. Blocks have one example at least, so no
 * two begin at the same. */
static const struct stored_block *find_block(const struct example_store *store,
                                             size_t i)
{
    size_t low = 0;
    size_t high = store->n_blocks;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (store->blocks[middle].first <= i) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &store->blocks[low];
}

struct example example_store_get(const struct example_store *store, size_t i)
{
    ASSERT(i < store->n);
    const struct stored_block *block = find_block(store, i);
    struct example example = row_block_example(&block->view, i - block->first);
    example.source = block->source;
    return example;
}

void example_store_drop(const struct example_store *store)
{
    for (size_t i = 0; i < store->n_caches; i++) {
        row_cache_drop(store->caches[i]);
    }
}
