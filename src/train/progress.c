/*
 * progress - see the header. A terminal is refreshed at most ten times a second, a pipe
 * or file gets a line every five seconds at most; the last update is always shown.
 */
#include "train/progress.h"

#include <unistd.h>

#include "base/clock.h"

enum { TERMINAL_INTERVAL_MS = 100, PLAIN_INTERVAL_MS = 5000, BAR_WIDTH = 24 };

void progress_begin(struct progress *progress, FILE *file, const char *label,
                    int64_t total)
{
    *progress =
        (struct progress){.file = file,
                          .is_terminal = file != NULL && isatty(fileno(file)) == 1,
                          .label = label,
                          .total = total,
                          .started_ns = clock_now_ns()};
}

/* Full to the part that is done, rounded down. */
static void draw_bar(const struct progress *progress, int64_t done)
{
    const int64_t full =
        progress->total > 0 ? done * BAR_WIDTH / progress->total : BAR_WIDTH;
    fputs(" [", progress->file);
    for (int i = 0; i < BAR_WIDTH; i++) {
        fputc(i < full ? '#' : '.', progress->file);
    }
    fputc(']', progress->file);
}

/* The first and the last call always write. */
void progress_update(struct progress *progress, int64_t done, const char *text)
{
    if (progress->file == NULL) {
        return;
    }
    const int64_t now = clock_now_ns();
    const int64_t interval_ms =
        progress->is_terminal ? TERMINAL_INTERVAL_MS : PLAIN_INTERVAL_MS;
    const bool is_last = done >= progress->total;
    if (!is_last && progress->shown_ns != 0 &&
        now - progress->shown_ns < interval_ms * 1000000) {
        return;
    }
    progress->shown_ns = now;
    const double seconds = clock_since_ms(progress->started_ns) / 1000.0;
    /* By the mean pace so far. */
    const double left =
        done > 0 ? seconds * (double)(progress->total - done) / (double)done : 0.0;
    char left_text[24];
    clock_format_duration(left_text, left);
    if (progress->is_terminal) {
        fprintf(progress->file, "\r\033[K%s", progress->label);
        draw_bar(progress, done);
    } else {
        fprintf(progress->file, "%s", progress->label);
    }
    fprintf(progress->file, " %lld/%lld  %s  %s left", (long long)done,
            (long long)progress->total, text, left_text);
    if (!progress->is_terminal) {
        fputc('\n', progress->file);
    }
    progress->has_line = progress->is_terminal;
    fflush(progress->file);
}

/* A carriage return and "erase to the end": the line is gone, and the next update draws
 * it again. */
void progress_pause(struct progress *progress)
{
    if (progress->has_line) {
        fputs("\r\033[K", progress->file);
        fflush(progress->file);
        progress->has_line = false;
    }
}

void progress_end(struct progress *progress)
{
    if (progress->has_line) {
        fputc('\n', progress->file);
        fflush(progress->file);
        progress->has_line = false;
    }
}
