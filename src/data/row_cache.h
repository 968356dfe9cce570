/*
 * row_cache - the tokenised rows of one file, in a file of their own that is mapped.
 *
 * Its name is its key: a hash of the rows, of the tokenizer and of every option that
 * decides what rows become. So a cache file is never out of date; it can be removed at
 * any time.
 *
 *     struct row_cache *cache = row_cache_open(folder, &key, row_tokens, pool, err);
 *     if (cache == NULL) {
 *         struct row_cache_writer *writer = row_cache_create(folder, &key, err);
 *         ... row_cache_add(writer, &block, err) ...
 *         cache = row_cache_finish(writer, &counts, faults, err);
 *     }
 *     ... row_cache_block(cache, i) ...
 *     row_cache_close(cache);
 *
 * Several processes may do this at once: a file appears under its name whole, and those
 * of one key are equal. A file that is damaged is told from a good one by its hashes.
 */
#ifndef DATA_ROW_CACHE_H
#define DATA_ROW_CACHE_H

#include "base/base.h"
#include "data/line_window.h"
#include "data/records.h"
#include "data/row_block.h"

struct error;
struct pool;
struct row_cache;
struct row_cache_writer;
struct tokenizer;

/* Raised when the layout changes, or what a row becomes: rules of the tokenizer or of
 * formats that no option names. */
enum { ROW_CACHE_VERSION = 1 };

struct row_cache_key {
    uint64_t low, high;
};

/* Of a file with these bytes, read in this way; the tokenizer may be NULL. max_bad_rows
 * and the place of the file do not matter. */
struct row_cache_key row_cache_key(const struct line_hash *file,
                                   const struct records_options *options,
                                   const struct tokenizer *tokenizer);

/* "folder/KEY.rows", freed with mem_free. */
char *row_cache_path(const char *folder, const struct row_cache_key *key);

/* The cache of this key, checked as a whole on the threads of pool (NULL: on this one).
 * ERROR_NOT_FOUND: there is none; another error: it cannot be used. `most`: tokens of
 * the longest example that there may be. */
MUST_USE struct row_cache *row_cache_open(const char *folder,
                                          const struct row_cache_key *key, int64_t most,
                                          struct pool *pool, struct error *err);
void row_cache_close(struct row_cache *cache); /* takes NULL */

size_t row_cache_n_blocks(const struct row_cache *cache);
struct row_block_view row_cache_block(const struct row_cache *cache, size_t i);
const struct records_counts *row_cache_counts(const struct row_cache *cache);
const char *row_cache_faults(const struct row_cache *cache); /* as of ingest_result */
bool row_cache_is_kept(const struct row_cache *cache); /* has a name, for later runs */

/* Tells the system that pages which were read can go; they come back by themselves. */
void row_cache_drop(const struct row_cache *cache);

/* A new file in this folder, which is made. With key NULL the folder has to be there and
 * the file gets no name: it is gone when it is closed. */
MUST_USE struct row_cache_writer *row_cache_create(const char *folder,
                                                   const struct row_cache_key *key,
                                                   struct error *err);
MUST_USE bool row_cache_add(struct row_cache_writer *writer,
                            const struct row_block *block, int64_t first_row,
                            int64_t first_line, struct error *err);

/* Puts the file in its place and maps it. Where it cannot get its name, a warning says
 * so and the file serves this process alone. */
MUST_USE struct row_cache *row_cache_finish(struct row_cache_writer *owned_writer,
                                            const struct records_counts *counts,
                                            const char *faults, struct error *err);
void row_cache_abort(struct row_cache_writer *owned_writer); /* takes NULL */

#endif
