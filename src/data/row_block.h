/*
 * row_block - the examples of some neighbouring rows as two flat arrays, the same in
 * memory and in a cache file.
 *
 *     words    [ids[n] weights[n] first tokens of documents[n_documents]] of each example
 *     entries  one for each example: where its words are
 *
 * A block is filled by one thread; row_block_example reads one wherever it lies.
 */
#ifndef DATA_ROW_BLOCK_H
#define DATA_ROW_BLOCK_H

#include "base/base.h"
#include "base/error.h"
#include "data/records.h"

struct row;

/* Part of the cache file: 4-byte words only. */
struct row_entry {
    uint32_t at; /* word of the block where its arrays begin */
    int32_t n;   /* tokens */
    int32_t n_documents;
    int32_t n_targets;
    uint32_t row;  /* rows of the block before its own */
    uint32_t line; /* lines of the block before its own */
};

/* A row that could not be read. */
struct row_fault {
    uint32_t line; /* lines of the block before it */
    enum error_kind kind;
    char *message;
};

/* A block that is being filled; starts zeroed, its memory is reused. */
struct row_block {
    uint32_t *words; /* [n_words] */
    size_t n_words;
    size_t words_capacity;
    struct row_entry *entries; /* [n_entries] */
    size_t n_entries;
    size_t entries_capacity;
    struct row_fault *faults; /* [n_faults] in order of lines */
    size_t n_faults;
    size_t faults_capacity;
    uint32_t n_lines;
    struct records_counts counts;
    uint64_t hash; /* row_block_hash, once it is complete */
};

/* A complete block, wherever it lies. */
struct row_block_view {
    const uint32_t *words;
    const struct row_entry *entries;
    size_t n_words;
    size_t n_entries;
    int64_t first_row; /* of the file */
    int64_t first_line;
};

void row_block_deinit(struct row_block *block);
void row_block_clear(struct row_block *block);

/*
 * Takes the row of line `line` of the block: cuts it, leaves it out or splits it where
 * it is longer than options->row_tokens, leaves it out where no loss is left (C6), and
 * counts all of that. The pieces of a split row each begin with the token `bos`, unless
 * that is negative.
 */
void row_block_keep(struct row_block *block, struct row *row, uint32_t line,
                    const struct records_options *options, int32_t bos);

/* Notes that the row of this line is broken. */
void row_block_add_fault(struct row_block *block, uint32_t line,
                         const struct error *fault);

struct row_block_view row_block_view(const struct row_block *block, int64_t first_row,
                                     int64_t first_line);

/* Of words and entries. */
uint64_t row_block_hash(const struct row_block_view *view);

/* Whether every entry lies inside the words and has at most `most` tokens. */
bool row_block_check(const struct row_block_view *view, int64_t most);

/* Example i of the block; source is 0. */
struct example row_block_example(const struct row_block_view *view, size_t i);

#endif
