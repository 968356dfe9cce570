/*
 * ingest - a file of rows to blocks of examples, on all threads, in the order of the
 * file.
 *
 * Lines are taken in windows; the window's lines are cut into blocks of a fixed size,
 * which threads fill; then the blocks are handed over in order. What they hold depends on
 * the file and the options alone, not on the number of threads. Memory is that of one
 * window, however long the file is.
 */
#ifndef DATA_INGEST_H
#define DATA_INGEST_H

#include "base/base.h"
#include "base/str.h"
#include "data/records.h"
#include "data/row_block.h"

struct line_window;
struct pool;

/* Takes the next block; false stops the reading with *err. */
typedef bool (*ingest_take_fn)(void *context, const struct row_block *block,
                               int64_t first_row, int64_t first_line,
                               struct error *err);

struct ingest_options {
    const char *where; /* the file, for messages */
    const struct records_options *records;
    const struct tokenizer *tokenizer; /* NULL for token rows */
    struct pool *pool;                 /* NULL: the calling thread alone */
    ingest_take_fn take;
    records_progress_fn progress; /* or NULL */
    void *progress_context;
    void *context; /* of take */
};

/* What the blocks add up to. */
struct ingest_result {
    struct records_counts counts;
    struct str faults; /* the first broken rows, "LINE: MESSAGE\n" each; deinit it */
};

/*
 * Reads all lines (or the first max_rows rows). Broken rows are named in the log as they
 * are met; more than max_bad_rows of them are an error, as is any fault that lies in the
 * options. *result starts zeroed.
 */
MUST_USE bool ingest_run(struct line_window *lines,
                         const struct ingest_options *options,
                         struct ingest_result *result, struct error *err);

/* Names the broken rows of an earlier reading, result.faults, in the log again. */
void ingest_report(const char *where, const char *faults, int64_t n_bad);

#endif
