/*
 * ingest - rounds of one window each: cut, fill on all threads, hand over.
 */
#include "data/ingest.h"

#include <string.h>

#include <jansson.h>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "data/line_window.h"
#include "data/row.h"
#include "data/row_format.h"

enum {
    BLOCK_BYTES = 128 << 10, /* of lines; part of the cache's format */
    BLOCKS_PER_THREAD = 8,   /* of a window: few enough to keep memory flat */
    MAX_FAULTS_KEPT = 100,   /* named again when the cache is used */
};

/* Lines of the window that one task reads. */
struct piece {
    const char *text;
    size_t length;
};

struct ingest {
    const struct ingest_options *options;
    struct ingest_result *result;
    struct row_format *format;
    struct row_scratch **scratch; /* [n_threads] */
    int n_threads;
    struct piece *pieces; /* [n_pieces] of this window */
    size_t n_pieces;
    size_t pieces_capacity;
    struct row_block
        *blocks; /* [n_blocks] filled from them; kept from round to round */
    size_t n_blocks;
    int64_t n_lines; /* of the rounds before */
    size_t done;     /* bytes */
    bool has_all;    /* max_rows were read */
};

/* Nothing but white space: such lines are passed over and not counted as rows. */
static bool is_blank(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (strchr(" \t\r", text[i]) == NULL || text[i] == '\0') {
            return false;
        }
    }
    return true;
}

/* The line at text[0 .. length) without its newline; *next = bytes to the line after
 * it. */
static size_t line_length(const char *text, size_t length, size_t *next)
{
    const char *newline = memchr(text, '\n', length);
    const size_t n = newline == NULL ? length : (size_t)(newline - text);
    *next = newline == NULL ? length : n + 1;
    return n;
}

/* --- on all threads --------------------------------------------------------------- */

/* Fills one block. It stops at a fault that ends the run in any case, so that a file of
 * nothing but faults costs no more than a few of them. */
static void fill_block(void *context, int64_t task, int thread)
{
    const struct ingest *ingest = context;
    const struct records_options *options = ingest->options->records;
    const struct piece *piece = &ingest->pieces[task];
    struct row_block *block = &ingest->blocks[task];
    struct row_scratch *scratch = ingest->scratch[thread];
    const int32_t bos = row_format_bos(ingest->format);
    size_t next;
    row_block_clear(block);
    for (size_t at = 0; at < piece->length; at += next) {
        const size_t length = line_length(piece->text + at, piece->length - at, &next);
        const uint32_t line = block->n_lines++;
        struct error fault = {.message = ""};
        if (is_blank(piece->text + at, length)) {
            continue;
        }
        struct row *row =
            row_format_read(ingest->format, scratch, piece->text + at, length, &fault);
        if (row != NULL) {
            row_block_keep(block, row, line, options, bos);
            continue;
        }
        block->counts.n_rows++;
        block->counts.n_bad++;
        row_block_add_fault(block, line, &fault);
        if (fault.kind != ERROR_DATA || block->counts.n_bad > options->max_bad_rows) {
            break;
        }
    }
    const struct row_block_view view = row_block_view(block, 0, 0);
    block->hash = row_block_hash(&view);
}

/* --- rounds ----------------------------------------------------------------------- */

/* Bytes of the window up to the end of the max_rows-th row of the file. */
static size_t cut_at_max_rows(struct ingest *ingest, const char *text, size_t length)
{
    const int64_t max_rows = ingest->options->records->max_rows;
    int64_t left = max_rows - ingest->result->counts.n_rows;
    size_t at = 0;
    size_t next;
    while (at < length && left > 0) {
        const size_t n = line_length(text + at, length - at, &next);
        left -= !is_blank(text + at, n);
        at += next;
    }
    ingest->has_all = left == 0;
    return at;
}

/* Cuts the lines behind the first newline after each BLOCK_BYTES. The last piece is a
 * short one, unless it ends there by chance; *rest is its length then. */
static void cut_pieces(struct ingest *ingest, const char *text, size_t length,
                       size_t *rest)
{
    ingest->n_pieces = 0;
    *rest = 0;
    size_t to;
    for (size_t from = 0; from < length; from = to) {
        const size_t left = length - from;
        const char *newline = left <= BLOCK_BYTES ? NULL
                                                  : memchr(text + from + BLOCK_BYTES,
                                                           '\n', left - BLOCK_BYTES);
        to = newline == NULL ? length : (size_t)(newline - text) + 1;
        *rest = newline == NULL ? left : 0;
        ingest->pieces =
            mem_reserve_one(ingest->pieces, ingest->n_pieces, &ingest->pieces_capacity,
                            sizeof(*ingest->pieces));
        ingest->pieces[ingest->n_pieces++] =
            (struct piece){.text = text + from, .length = to - from};
    }
}

/* The next lines of the file, cut into pieces; none at the end. A piece that the window
 * cut short goes back: where blocks begin must not depend on the size of windows, which
 * depends on the number of threads. */
static bool next_pieces(struct ingest *ingest, struct line_window *lines,
                        struct error *err)
{
    size_t wanted = (size_t)ingest->n_threads * BLOCKS_PER_THREAD * BLOCK_BYTES;
    const char *text;
    size_t length;
    size_t rest;
    do {
        if (!line_window_next(lines, wanted, &text, &length, err)) {
            return false;
        }
        const size_t length_all = length;
        if (ingest->options->records->max_rows > 0) {
            length = cut_at_max_rows(ingest, text, length);
        }
        cut_pieces(ingest, text, length, &rest);
        if (rest == 0 || ingest->has_all || line_window_is_last(lines)) {
            ingest->done += length_all;
            return true;
        }
        line_window_return(lines, rest);
        ingest->n_pieces--;
        ingest->done += length_all - rest;
        /* Short lines in front of one that does not fit the window yet. */
        wanted *= 2;
    } while (ingest->n_pieces == 0);
    return true;
}

/* Blocks keep their memory from round to round, so there are as many as the fullest
 * round had. */
static void reserve_blocks(struct ingest *ingest)
{
    if (ingest->n_pieces <= ingest->n_blocks) {
        return;
    }
    struct row_block *blocks =
        mem_alloc_array(ingest->n_pieces, sizeof(*ingest->blocks));
    if (ingest->n_blocks > 0) {
        memcpy(blocks, ingest->blocks, ingest->n_blocks * sizeof(*blocks));
    }
    mem_free(ingest->blocks);
    ingest->blocks = blocks;
    ingest->n_blocks = ingest->n_pieces;
}

static void add_counts(struct records_counts *sum, const struct records_counts *more)
{
    sum->n_rows += more->n_rows;
    sum->n_bad += more->n_bad;
    sum->n_truncated += more->n_truncated;
    sum->n_too_long += more->n_too_long;
    sum->n_split += more->n_split;
    sum->n_dropped += more->n_dropped;
    sum->n_lost_thoughts += more->n_lost_thoughts;
    sum->n_examples += more->n_examples;
    sum->n_tokens += more->n_tokens;
    sum->n_targets += more->n_targets;
}

/* The broken rows of a block: named, up to the one that is too many. */
static bool take_faults(struct ingest *ingest, const struct row_block *block,
                        struct error *err)
{
    const int64_t most = ingest->options->records->max_bad_rows;
    int64_t n_bad = ingest->result->counts.n_bad;
    for (size_t i = 0; i < block->n_faults; i++) {
        const struct row_fault *fault = &block->faults[i];
        const long long line = (long long)(ingest->n_lines + fault->line + 1);
        const char *where = ingest->options->where;
        if (fault->kind != ERROR_DATA || most == 0) {
            return error_set(err, fault->kind, "%s:%lld: %s", where, line,
                             fault->message);
        }
        if (++n_bad > most) {
            return error_set(err, fault->kind,
                             "%s:%lld: %s; it is broken row %lld of the file, "
                             "data.max_bad_rows is %lld",
                             where, line, fault->message, (long long)n_bad,
                             (long long)most);
        }
        log_warning("%s:%lld: %s; the row is left out", where, line, fault->message);
        if (n_bad <= MAX_FAULTS_KEPT) {
            str_printf(&ingest->result->faults, "%lld: %s\n", line, fault->message);
        }
    }
    return true;
}

/* Blocks in order: only here do they learn their place in the file. */
static bool take_blocks(struct ingest *ingest, struct error *err)
{
    for (size_t i = 0; i < ingest->n_pieces; i++) {
        const struct row_block *block = &ingest->blocks[i];
        struct records_counts *counts = &ingest->result->counts;
        if (!take_faults(ingest, block, err)) {
            return false;
        }
        if (block->n_entries > 0 &&
            !ingest->options->take(ingest->options->context, block, counts->n_rows,
                                   ingest->n_lines + 1, err)) {
            return false;
        }
        add_counts(counts, &block->counts);
        ingest->n_lines += block->n_lines;
    }
    return true;
}

/* One window. */
static bool run_round(struct ingest *ingest, struct line_window *lines, bool *is_end,
                      struct error *err)
{
    const struct ingest_options *options = ingest->options;
    /* A large file takes minutes: a signal does not wait for them. */
    if (!interrupt_check(err) || !next_pieces(ingest, lines, err)) {
        return false;
    }
    *is_end = ingest->n_pieces == 0 || ingest->has_all;
    reserve_blocks(ingest);
    if (options->pool != NULL && ingest->n_pieces > 0) {
        pool_run(options->pool, (int64_t)ingest->n_pieces, fill_block, ingest);
    }
    for (size_t i = 0; options->pool == NULL && i < ingest->n_pieces; i++) {
        fill_block(ingest, (int64_t)i, 0);
    }
    if (!take_blocks(ingest, err)) {
        return false;
    }
    if (options->progress != NULL && ingest->n_pieces > 0) {
        options->progress(options->progress_context, options->where,
                          (int64_t)ingest->done, (int64_t)line_window_bytes(lines));
    }
    return true;
}

/* jansson draws the seed of its tables at the first object; doing it here leaves nothing
 * for threads to race for. */
bool ingest_run(struct line_window *lines, const struct ingest_options *options,
                struct ingest_result *result, struct error *err)
{
    json_object_seed(0);
    struct ingest ingest = {.options = options, .result = result};
    ingest.format = row_format_create(options->records, options->tokenizer, err);
    if (ingest.format == NULL) {
        return false;
    }
    ingest.n_threads = options->pool == NULL ? 1 : pool_n_threads(options->pool);
    ingest.scratch =
        mem_alloc_array((size_t)ingest.n_threads, sizeof(struct row_scratch *));
    for (int i = 0; i < ingest.n_threads; i++) {
        ingest.scratch[i] = row_scratch_create(ingest.format);
    }
    bool is_end = false;
    bool is_done = true;
    while (is_done && !is_end) {
        is_done = run_round(&ingest, lines, &is_end, err);
    }
    for (size_t i = 0; i < ingest.n_blocks; i++) {
        row_block_deinit(&ingest.blocks[i]);
    }
    for (int i = 0; i < ingest.n_threads; i++) {
        row_scratch_destroy(ingest.scratch[i]);
    }
    mem_free(ingest.blocks);
    mem_free(ingest.pieces);
    mem_free(ingest.scratch);
    row_format_destroy(ingest.format);
    return is_done;
}

void ingest_report(const char *where, const char *faults, int64_t n_bad)
{
    const char *at = faults;
    while (*at != '\0') {
        const size_t length = strcspn(at, "\n");
        log_warning("%s:%.*s; the row is left out", where, (int)length, at);
        at += length + (at[length] == '\n');
    }
    if (n_bad > MAX_FAULTS_KEPT) {
        log_warning("%s: %lld more broken rows are left out", where,
                    (long long)(n_bad - MAX_FAULTS_KEPT));
    }
}
