/*
 * show_rows - see the header.
 *
 * Each row goes through a block of its own (row_block.h), so that its fate is what
 * training would make of it and not another computation.
 */
#include "app/show_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "app/data_arguments.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "data/line_window.h"
#include "data/row.h"
#include "data/row_block.h"
#include "data/row_format.h"
#include "data/row_show.h"
#include "text/tokenizer.h"
#include "train/job_data.h"
#include "train/model_source.h"
#include "train/settings_data.h"

enum { WINDOW_BYTES = 1 << 20 };

/* One run of the command; close_show takes it at any stage. */
struct show {
    const struct show_rows_options *given;
    struct tokenizer *tokenizer;
    struct line_window *lines;
    struct records_options options;
    struct row_format *format;
    struct row_scratch *scratch;
    struct row_block block; /* of one row; its counts add up */
    struct row_show look;
    struct str out;
    struct str first_fault;
    int64_t line;
};

/* --- the format ------------------------------------------------------------------- */

/* Which fields tell a format. An instruction has no fields of its own: they are named
 * in the run file. */
static const struct {
    const char *field;
    enum records_format format;
} telling_fields[] = {
    {"messages", RECORDS_CHAT},    {"conversations", RECORDS_CHAT},
    {"input_ids", RECORDS_TOKENS}, {"completion", RECORDS_PROMPT_COMPLETION},
    {"text", RECORDS_TEXT},
};

/* The format of the first row. Guessed only for showing: training is told. */
static bool guess_format(const char *path, struct settings *settings, struct error *err)
{
    const char *text = NULL;
    size_t length = 0;
    bool is_found = false;
    struct line_window *lines = line_window_open(path, err);
    bool done =
        lines != NULL && line_window_next(lines, WINDOW_BYTES, &text, &length, err);
    if (done) {
        /* Blank lines are no rows. */
        while (length > 0 && text[0] != '\0' && strchr(" \t\r\n", text[0]) != NULL) {
            text++;
            length--;
        }
        const char *newline = length == 0 ? NULL : memchr(text, '\n', length);
        length = newline == NULL ? length : (size_t)(newline - text);
        json_t *row = json_loadb(text, length, JSON_ALLOW_NUL, NULL);
        for (size_t i = 0; i < ARRAY_LENGTH(telling_fields) && !is_found; i++) {
            if (json_object_get(row, telling_fields[i].field) != NULL) {
                settings->data.format = (int)telling_fields[i].format;
                log_note("%s: format %s, from the first row", path,
                         records_format_name(telling_fields[i].format));
                is_found = true;
            }
        }
        json_decref(row);
    }
    line_window_close(lines);
    return done && (is_found ||
                    error_set(err, ERROR_USAGE,
                              "%s: the first row does not tell its format: give a run "
                              "file with --run, or --format and --set",
                              path));
}

/*
 * Everything that rows are read with, cheapest first: settings, then the tokenizer, then
 * the file. Of the model no weights are needed. Colour is for terminals only, and not
 * where the user asked for none (no-color.org: NO_COLOR set to anything but "").
 */
static bool open_show(struct show *show, struct error *err)
{
    const struct show_rows_options *given = show->given;
    struct settings *settings = &given->data->settings;
    if (!data_arguments_read(given->data, err) ||
        (!data_arguments_has_format(given->data) &&
         !guess_format(given->path, settings, err)) ||
        !settings_data_check_format(settings, err)) {
        return false;
    }
    show->tokenizer = model_source_tokenizer(given->model, err);
    if (show->tokenizer == NULL ||
        !job_data_options(settings, given->model, show->tokenizer, 0, &show->options,
                          err)) {
        return false;
    }
    show->format = row_format_create(&show->options, show->tokenizer, err);
    show->lines = show->format == NULL ? NULL : line_window_open(given->path, err);
    if (show->lines == NULL) {
        return false;
    }
    const char *no_colour = getenv("NO_COLOR");
    show->scratch = row_scratch_create(show->format);
    show->look.tokenizer = show->tokenizer;
    show->look.has_colour =
        isatty(STDOUT_FILENO) == 1 && (no_colour == NULL || no_colour[0] == '\0');
    return true;
}

/* All parts take NULL or their zeroed state; the settings belong to the caller. */
static void close_show(struct show *show)
{
    row_scratch_destroy(show->scratch);
    row_format_destroy(show->format);
    row_block_deinit(&show->block);
    line_window_close(show->lines);
    tokenizer_destroy(show->tokenizer);
    str_deinit(&show->out);
    str_deinit(&show->first_fault);
}

/* --- rows ------------------------------------------------------------------------- */

/* What became of the row, in words: the difference between the counts before and
 * now. */
static void add_fate(struct show *show, const struct records_counts *before,
                     struct str *out)
{
    const struct records_counts *now = &show->block.counts;
    const int32_t limit = show->options.row_tokens;
    if (now->n_too_long > before->n_too_long) {
        str_printf(out, "; longer than row_tokens = %d: left out", limit);
    } else if (now->n_split > before->n_split) {
        str_printf(out, "; longer than row_tokens = %d: split into %lld rows", limit,
                   (long long)(now->n_examples - before->n_examples));
    } else if (now->n_truncated > before->n_truncated) {
        str_printf(out, "; longer than row_tokens = %d: cut", limit);
        if (now->n_dropped == before->n_dropped) {
            str_printf(out, ", %lld with loss are left",
                       (long long)(now->n_targets - before->n_targets));
        }
    }
    if (now->n_dropped > before->n_dropped) {
        str_add(out, "; no token with loss: left out");
    }
    if (now->n_lost_thoughts > before->n_lost_thoughts) {
        str_add(out, "; thoughts (<|channel>) are left out, as the model's template "
                     "does");
    }
}

/*
 * Heading, then the text or the tokens. Counts of tokens in the heading are those of the
 * whole row, as those of what is left follow where they differ; the first token is never
 * a target, whatever its weight. The block's examples are forgotten at once: only its
 * counts are wanted, and a large file should not fill the memory.
 */
static void show_row(struct show *show, struct row *row)
{
    struct records_counts before = show->block.counts;
    const size_t n = row->tokens.n;
    int64_t n_targets = 0;
    for (size_t i = 1; i < n; i++) {
        n_targets += row->weight[i] > 0;
    }
    row_block_keep(&show->block, row, 0, &show->options, row_format_bos(show->format));
    show->block.n_entries = 0;
    show->block.n_words = 0;
    str_printf(&show->out, "--- row %lld (line %lld): %zu tokens, %lld with loss",
               (long long)show->block.counts.n_rows, (long long)show->line, n,
               (long long)n_targets);
    add_fate(show, &before, &show->out);
    str_add_char(&show->out, '\n');
    const bool is_whole =
        show->block.counts.n_split > before.n_split || show->options.row_tokens <= 0;
    const bool is_out = show->block.counts.n_too_long > before.n_too_long;
    show->look.n_kept = is_whole ? n
                        : is_out
                            ? 0
                            : (size_t)base_min((int64_t)n, show->options.row_tokens);
    if (show->given->is_per_token) {
        row_show_tokens(&show->look, row, &show->out);
    } else {
        row_show_text(&show->look, row, &show->out);
    }
}

/* A row that cannot be read stands in its place, so that the others can still be looked
 * at. The first one is kept for the error at the end. */
static void show_fault(struct show *show, const struct error *fault)
{
    show->block.counts.n_rows++;
    show->block.counts.n_bad++;
    str_printf(&show->out, "--- row %lld (line %lld): broken: %s\n",
               (long long)show->block.counts.n_rows, (long long)show->line,
               fault->message);
    if (show->first_fault.length == 0) {
        str_printf(&show->first_fault, "%s:%lld: %s", show->given->path,
                   (long long)show->line, fault->message);
    }
}

/* Blank lines are no rows, as for ingest.c. A fault of the options, not of the row, ends
 * the showing. */
static bool show_line(struct show *show, const char *text, size_t length,
                      struct error *err)
{
    struct error fault = {.message = ""};
    size_t n_blank = 0;
    while (n_blank < length && strchr(" \t\r\n", text[n_blank]) != NULL &&
           text[n_blank] != '\0') {
        n_blank++;
    }
    if (n_blank == length) {
        return true;
    }
    struct row *row =
        row_format_read(show->format, show->scratch, text, length, &fault);
    if (row == NULL && fault.kind != ERROR_DATA) {
        *err = fault;
        return false;
    }
    if (row == NULL) {
        show_fault(show, &fault);
    } else {
        show_row(show, row);
    }
    fwrite(str_text(&show->out), 1, show->out.length, stdout);
    str_clear(&show->out);
    return true;
}

/* Whether --rows rows were shown, broken ones counted. */
static bool is_enough(const struct show *show)
{
    return show->given->max_rows > 0 &&
           show->block.counts.n_rows >= show->given->max_rows;
}

/* Window by window, each of whole lines; output goes out line by line, so that what is
 * long can be watched or stopped. */
static bool show_lines(struct show *show, struct error *err)
{
    const char *text = NULL;
    size_t length = 0;
    while (!is_enough(show)) {
        if (!line_window_next(show->lines, WINDOW_BYTES, &text, &length, err)) {
            return false;
        }
        if (length == 0) {
            return true;
        }
        size_t to;
        for (size_t from = 0; from < length && !is_enough(show); from = to) {
            const char *newline = memchr(text + from, '\n', length - from);
            to = newline == NULL ? length : (size_t)(newline - text) + 1;
            show->line++;
            if (!show_line(show, text + from, to - from, err)) {
                return false;
            }
        }
    }
    return true;
}

/* The sum, in the words of the training log. Kinds of rows that did not occur are not
 * named. */
static void print_summary(const struct show *show)
{
    const struct records_counts *counts = &show->block.counts;
    const struct {
        int64_t n;
        const char *what;
    } fates[] = {{counts->n_truncated, "cut"},
                 {counts->n_split, "split"},
                 {counts->n_too_long, "left out as too long"},
                 {counts->n_dropped, "left out without loss"},
                 {counts->n_bad, "broken"},
                 {counts->n_lost_thoughts, "without thoughts"}};
    printf("--- rows %lld: examples %lld, tokens %lld, with loss %lld",
           (long long)counts->n_rows, (long long)counts->n_examples,
           (long long)counts->n_tokens, (long long)counts->n_targets);
    for (size_t i = 0; i < ARRAY_LENGTH(fates); i++) {
        if (fates[i].n > 0) {
            printf("; %s %lld", fates[i].what, (long long)fates[i].n);
        }
    }
    putchar('\n');
}

/* Broken rows are an error only when all was shown: who looks at rows wants to see what
 * is wrong with each. */
bool show_rows(const struct show_rows_options *options, struct error *err)
{
    struct show show = {.given = options};
    bool done = open_show(&show, err);
    if (done) {
        if (options->is_per_token) {
            str_add(&show.out, " token      id weight text\n");
        } else {
            row_show_legend(show.look.has_colour, &show.out);
        }
        fputs(show.out.text, stdout);
        str_clear(&show.out);
        done = show_lines(&show, err);
    }
    if (done) {
        print_summary(&show);
        const int64_t n_bad = show.block.counts.n_bad;
        done = n_bad <= show.options.max_bad_rows ||
               error_set(err, ERROR_DATA, "%s (%lld of %lld rows are broken)",
                         show.first_fault.text, (long long)n_bad,
                         (long long)show.block.counts.n_rows);
    }
    close_show(&show);
    return done;
}
