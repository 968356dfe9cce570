/*
 * row_block - filling and reading blocks of examples.
 */
#include "data/row_block.h"

#include <string.h>

#include <xxhash.h>

#include "base/mem.h"
#include "data/row.h"

void row_block_deinit(struct row_block *block)
{
    row_block_clear(block);
    mem_free(block->words);
    mem_free(block->entries);
    mem_free(block->faults);
    *block = (struct row_block){0};
}

void row_block_clear(struct row_block *block)
{
    for (size_t i = 0; i < block->n_faults; i++) {
        mem_free(block->faults[i].message);
    }
    block->n_faults = 0;
    block->n_words = 0;
    block->n_entries = 0;
    block->n_lines = 0;
    block->counts = (struct records_counts){0};
}

void row_block_add_fault(struct row_block *block, uint32_t line,
                         const struct error *fault)
{
    block->faults = mem_reserve_one(block->faults, block->n_faults,
                                    &block->faults_capacity, sizeof(*block->faults));
    block->faults[block->n_faults++] = (struct row_fault){
        .line = line, .kind = fault->kind, .message = mem_strdup(fault->message)};
}

/* Room for n more words; grows to twice the size at least. */
static uint32_t *new_words(struct row_block *block, size_t n)
{
    if (n > block->words_capacity - block->n_words) {
        const size_t capacity = 2 * block->words_capacity + n;
        block->words =
            mem_grow_array(block->words, block->n_words, capacity, sizeof(uint32_t));
        block->words_capacity = capacity;
    }
    uint32_t *words = block->words + block->n_words;
    block->n_words += n;
    return words;
}

/* Appends one example, with `lead` in front unless that is negative. All three arrays
 * have elements of four bytes. */
static void append(struct row_block *block, uint32_t line, int32_t lead,
                   const int32_t *ids, const float *weight, size_t n,
                   const int32_t *documents, size_t n_documents)
{
    const float no_loss = 0.0F;
    const size_t n_lead = lead >= 0 ? 1 : 0;
    const size_t n_all = n + n_lead;
    struct row_entry entry = {.at = (uint32_t)block->n_words,
                              .n = (int32_t)n_all,
                              .n_documents = (int32_t)n_documents,
                              .row = (uint32_t)block->counts.n_rows - 1,
                              .line = line};
    /* The words of a block count to 2^32: a block is at most LINE_WINDOW_MAX_BYTES of
     * text, and a token comes from at least one byte. */
    ASSERT(block->n_words + 2 * n_all + n_documents <= UINT32_MAX);
    for (size_t i = 0; i < n; i++) {
        entry.n_targets += weight[i] > 0;
    }
    uint32_t *words = new_words(block, 2 * n_all + n_documents);
    if (n_lead > 0) {
        memcpy(words, &lead, sizeof(lead));
        memcpy(words + n_all, &no_loss, sizeof(no_loss));
    }
    memcpy(words + n_lead, ids, n * sizeof(*ids));
    memcpy(words + n_all + n_lead, weight, n * sizeof(*weight));
    memcpy(words + 2 * n_all, documents, n_documents * sizeof(*documents));
    block->entries = mem_reserve_one(block->entries, block->n_entries,
                                     &block->entries_capacity, sizeof(*block->entries));
    block->entries[block->n_entries++] = entry;
    block->counts.n_examples++;
    block->counts.n_tokens += entry.n;
    block->counts.n_targets += entry.n_targets;
}

/* A row of text that goes on in further examples. Those repeat BOS, so that each has
 * exactly one (C11) and no token is lost as a target: the first one behind BOS is
 * predicted from it. Without BOS the first token of each piece has no loss. */
static void append_pieces(struct row_block *block, struct row *row, uint32_t line,
                          size_t limit, int32_t bos)
{
    static const int32_t start = 0;
    size_t to;
    for (size_t from = 0; from < row->n; from = to) {
        const int32_t lead = from > 0 ? bos : -1;
        to = (size_t)base_min((int64_t)row->n,
                              (int64_t)(from + limit - (lead >= 0 ? 1 : 0)));
        if (lead < 0) {
            row->weight[from] = 0;
        }
        append(block, line, lead, row->tokens.ids + from, row->weight + from, to - from,
               &start, 1);
        /* A piece of one token at the end has nothing to predict. */
        if (block->entries[block->n_entries - 1].n_targets == 0) {
            block->n_words = block->entries[--block->n_entries].at;
            block->counts.n_examples--;
            block->counts.n_tokens -= (int64_t)(to - from) + (lead >= 0 ? 1 : 0);
        }
    }
}

/* Rows that are dropped keep their number: it counts rows of the file. */
void row_block_keep(struct row_block *block, struct row *row, uint32_t line,
                    const struct records_options *options, int32_t bos)
{
    struct records_counts *counts = &block->counts;
    const size_t limit =
        options->row_tokens > 0 ? (size_t)options->row_tokens : INT32_MAX;
    const bool is_long = row->n > limit;
    const size_t n_before = block->n_entries;
    counts->n_rows++;
    counts->n_lost_thoughts += row->has_lost_thought;
    if (is_long && options->overlong == RECORDS_DROP) {
        counts->n_too_long++;
        return;
    }
    if (is_long && options->overlong == RECORDS_SPLIT) {
        counts->n_split++;
        append_pieces(block, row, line, limit, bos);
    } else {
        counts->n_truncated += is_long;
        const size_t n = is_long ? limit : row->n;
        if (row_finish(row, n) > 0) {
            append(block, line, -1, row->tokens.ids, row->weight, n, row->document_from,
                   row->n_documents);
        }
    }
    counts->n_dropped += block->n_entries == n_before;
}

struct row_block_view row_block_view(const struct row_block *block, int64_t first_row,
                                     int64_t first_line)
{
    return (struct row_block_view){.words = block->words,
                                   .entries = block->entries,
                                   .n_words = block->n_words,
                                   .n_entries = block->n_entries,
                                   .first_row = first_row,
                                   .first_line = first_line};
}

/* The words' hash is the seed of that of the entries. */
uint64_t row_block_hash(const struct row_block_view *view)
{
    const uint64_t words = XXH3_64bits(view->words, view->n_words * sizeof(uint32_t));
    return XXH3_64bits_withSeed(view->entries,
                                view->n_entries * sizeof(struct row_entry), words);
}

/* In 64 bits, so that nothing wraps: counts are at most 2^31. */
bool row_block_check(const struct row_block_view *view, int64_t most)
{
    for (size_t i = 0; i < view->n_entries; i++) {
        const struct row_entry *entry = &view->entries[i];
        if (entry->n <= 0 || entry->n > most || entry->n_documents <= 0 ||
            entry->n_documents > entry->n || entry->n_targets <= 0 ||
            entry->n_targets > entry->n) {
            return false;
        }
        const uint64_t end =
            (uint64_t)entry->at + 2 * (uint64_t)entry->n + (uint64_t)entry->n_documents;
        if (end > view->n_words) {
            return false;
        }
    }
    return true;
}

struct example row_block_example(const struct row_block_view *view, size_t i)
{
    ASSERT(i < view->n_entries);
    const struct row_entry *entry = &view->entries[i];
    const void *ids = view->words + entry->at;
    const void *weight = view->words + entry->at + entry->n;
    const void *documents = view->words + entry->at + 2 * (size_t)entry->n;
    return (struct example){.ids = ids,
                            .loss_weight = weight,
                            .document_from = documents,
                            .n = entry->n,
                            .n_documents = entry->n_documents,
                            .n_targets = entry->n_targets,
                            .source_row = view->first_row + entry->row,
                            .line = view->first_line + entry->line};
}
