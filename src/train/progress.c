/*
 * progress - see the header. A terminal is refreshed at most ten times a second, a pipe
 * or file gets a line every five seconds at most; the last update is always shown.
 */
#include "train/progress.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"

enum {
    TERMINAL_INTERVAL_MS = 100,
    PLAIN_INTERVAL_MS = 5000,
    MAX_BAR_WIDTH = 24,
    MIN_BAR_WIDTH = 6,
    DEFAULT_WIDTH = 80,
    ESTIMATE_FROM_MS = 1000,  /* before that the pace is that of the start */
    ESTIMATE_FROM_PERCENT = 5 /* unless so much is done */
};

/* A terminal that can do no more than print is written to as to a file. */
static bool is_moving_terminal(FILE *file)
{
    const char *kind = getenv("TERM");
    return file != NULL && isatty(fileno(file)) == 1 &&
           (kind == NULL || strcmp(kind, "dumb") != 0);
}

/* On a terminal the line stands there from the start: the first step may take long. */
void progress_begin_in(struct progress *progress, FILE *file, const char *label,
                       int64_t total, const char *unit)
{
    *progress = (struct progress){.file = file,
                                  .is_terminal = is_moving_terminal(file),
                                  .label = label,
                                  .total = total,
                                  .unit = unit,
                                  .started_ns = clock_now_ns()};
    if (progress->is_terminal) {
        progress_update(progress, 0, "");
    }
}

void progress_begin(struct progress *progress, FILE *file, const char *label,
                    int64_t total)
{
    progress_begin_in(progress, file, label, total, NULL);
}

/* Asked for each time: windows are made wider and narrower. */
static int terminal_width(FILE *file)
{
    struct winsize size;
    if (ioctl(fileno(file), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
        return DEFAULT_WIDTH;
    }
    return size.ws_col;
}

/* "120/320 UNIT  TEXT  1m 05s left", as far as each is known. */
static void print_counts(const struct progress *progress, int64_t done,
                         const char *text, double seconds_left, struct str *out)
{
    str_printf(out, " %lld/%lld", (long long)done, (long long)progress->total);
    if (progress->unit != NULL) {
        str_printf(out, " %s", progress->unit);
    }
    if (text[0] != '\0') {
        str_printf(out, "  %s", text);
    }
    if (seconds_left >= 0.0) {
        char left[24];
        str_printf(out, "  %s left", clock_format_duration(left, seconds_left));
    }
}

/* Full to the part that is done, rounded down. */
static void print_bar(const struct progress *progress, int64_t done, int width,
                      struct str *out)
{
    const double share =
        progress->total > 0 ? (double)done / (double)progress->total : 1.0;
    const int full = (int)(share * (double)width);
    str_add(out, " [");
    for (int i = 0; i < width; i++) {
        str_add_char(out, i < full ? '#' : '.');
    }
    str_add_char(out, ']');
}

void progress_print_bar(const struct progress *progress, int64_t done, const char *text,
                        double seconds_left, int width, struct str *out)
{
    struct str counts = {0};
    print_counts(progress, done, text, seconds_left, &counts);
    const size_t from = out->length;
    str_add(out, progress->label);
    /* Three characters go around a bar. */
    const int room = width - (int)(strlen(progress->label) + counts.length) - 3;
    if (room >= MIN_BAR_WIDTH) {
        print_bar(progress, done, (int)base_min(room, MAX_BAR_WIDTH), out);
    }
    const int64_t left = width - (int64_t)(out->length - from);
    str_add_bytes(out, counts.text,
                  (size_t)base_max(0, base_min(left, (int64_t)counts.length)));
    str_deinit(&counts);
}

/* One write for a line, so that nothing comes between its parts. The last column stays
 * free: terminals that wrap there would leave the line behind. */
static void show(struct progress *progress, int64_t done, const char *text,
                 double seconds_left)
{
    struct str line = {0};
    if (progress->is_terminal) {
        str_add(&line, "\r\033[K");
        progress_print_bar(progress, done, text, seconds_left,
                           terminal_width(progress->file) - 1, &line);
    } else {
        str_add(&line, progress->label);
        print_counts(progress, done, text, seconds_left, &line);
        str_add_char(&line, '\n');
    }
    fwrite(line.text, 1, line.length, progress->file);
    fflush(progress->file);
    progress->has_line = progress->is_terminal;
    str_deinit(&line);
}

double progress_estimate(double elapsed_ms, int64_t done, int64_t total)
{
    const bool is_early = elapsed_ms < ESTIMATE_FROM_MS &&
                          (double)done * 100.0 < (double)total * ESTIMATE_FROM_PERCENT;
    return done <= 0 || is_early
               ? -1.0
               : elapsed_ms / 1000.0 * (double)(total - done) / (double)done;
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
    if (!is_last && progress->shown_ns != 0 && done > 0 &&
        now - progress->shown_ns < interval_ms * 1000000) {
        return;
    }
    progress->shown_ns = now;
    const double elapsed_ms = clock_since_ms(progress->started_ns);
    show(progress, done, text, progress_estimate(elapsed_ms, done, progress->total));
}

/* A carriage return and "erase to the end": the line is gone, and the next update draws
 * it again. */
void progress_pause(struct progress *progress)
{
    if (progress->has_line) {
        fputs("\r\033[K", progress->file);
        fflush(progress->file);
        progress->has_line = false;
        progress->shown_ns = 0; /* not later than the next update */
    }
}

void progress_end(struct progress *progress)
{
    progress_pause(progress);
}
