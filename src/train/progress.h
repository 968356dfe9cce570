/*
 * progress - one moving line on a terminal, plain lines at a bounded rate elsewhere.
 *
 *     struct progress progress;
 *     progress_begin(&progress, stderr, "training", n_steps);
 *     progress_update(&progress, step, "loss 2.31  812 tokens/s");
 *     progress_end(&progress);
 *
 * On a terminal, as wide as it is at the moment:
 *
 *     training [#########...............] 120/320  loss 2.31  812 tokens/s  1m 05s left
 *
 * Elsewhere the same without the bar, at most every five seconds, and at the first and
 * last update.
 */
#ifndef TRAIN_PROGRESS_H
#define TRAIN_PROGRESS_H

#include <stdio.h>

#include "base/base.h"

struct str;

struct progress {
    FILE *file;        /* borrowed; NULL: nothing is shown */
    bool is_terminal;  /* a moving line, else plain ones */
    const char *label; /* borrowed */
    int64_t total;     /* what `done` counts to */
    const char
        *unit; /* of both, borrowed: "1/511 MiB"; NULL: steps, rows, a plain count */
    int64_t started_ns;
    int64_t shown_ns; /* last time something was written */
    bool has_line;    /* a line without newline stands on the terminal */
};

void progress_begin(struct progress *progress, FILE *file, const char *label,
                    int64_t total);
void progress_begin_in(struct progress *progress, FILE *file, const char *label,
                       int64_t total, const char *unit);

/* `done` of total, with `text` behind, and the time left. */
void progress_update(struct progress *progress, int64_t done, const char *text);

/* Clears the moving line, so that other lines can be written. */
void progress_pause(struct progress *progress);

/* Clears it for good: what is to be kept stands in the log. */
void progress_end(struct progress *progress);

/* Seconds left by the mean pace so far; below 0 while that says nothing yet: in the
 * first second, unless some percent are done. */
double progress_estimate(double elapsed_ms, int64_t done, int64_t total);

/*
 * Appends the moving line to *out, at most `width` characters: the bar becomes shorter
 * and then goes, before the end of the text is cut. seconds_left below 0: not known.
 */
void progress_print_bar(const struct progress *progress, int64_t done, const char *text,
                        double seconds_left, int width, struct str *out);

#endif
