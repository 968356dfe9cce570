/*
 * progress - one moving line on a terminal, plain lines at a bounded rate elsewhere.
 *
 *     struct progress progress;
 *     progress_begin(&progress, stderr, "training", n_steps);
 *     progress_update(&progress, step, "loss 2.31");
 *     progress_end(&progress);
 */
#ifndef TRAIN_PROGRESS_H
#define TRAIN_PROGRESS_H

#include <stdio.h>

#include "base/base.h"

struct progress {
    FILE *file;        /* borrowed; NULL: nothing is shown */
    bool is_terminal;  /* a moving line, else plain ones */
    const char *label; /* borrowed */
    int64_t total;     /* what `done` counts to */
    int64_t started_ns;
    int64_t shown_ns; /* last time something was written */
    bool has_line;    /* a line without newline stands on the terminal */
};

void progress_begin(struct progress *progress, FILE *file, const char *label,
                    int64_t total);

/* `done` of total, with `text` behind; time left is estimated from the pace so far. */
void progress_update(struct progress *progress, int64_t done, const char *text);

/* Clears the moving line, so that other lines can be written. */
void progress_pause(struct progress *progress);
void progress_end(struct progress *progress);

#endif
