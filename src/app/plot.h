/*
 * plot - curves over steps: what is drawn (panels of series), axes, and the two ways to
 * draw them.
 *
 *     struct plot plot = {0};
 *     plot_add_run(&plot, "demo", &curves, 10);
 *     plot_text_print(&plot, &style, &text);
 *     plot_svg_print(&plot, &text);
 *     plot_deinit(&plot);
 *
 * plot.c makes panels from metrics; plot_axis.c picks ticks; plot_text.c draws with
 * characters, plot_svg.c a picture. None of them reads files.
 */
#ifndef APP_PLOT_H
#define APP_PLOT_H

#include "base/base.h"

struct metrics_curves;
struct str;

enum { PLOT_MAX_RUNS = 16, PLOT_MAX_SERIES = 2 * PLOT_MAX_RUNS };

/* What is drawn where. */
enum plot_panel { PLOT_LOSS, PLOT_RATE, PLOT_SPEED, PLOT_PANEL_COUNT };

/* Points (x, y) in the order of x; all are finite. */
struct plot_series {
    double *x, *y; /* [n] */
    size_t n;
    int run;         /* index: gives the colour */
    bool is_markers; /* held-out losses: single points, not a line */
};

struct plot {
    char *names[PLOT_MAX_RUNS]; /* of the runs, for the legend; owned */
    int n_runs;
    int smoothing[PLOT_MAX_RUNS]; /* steps that a point of the lines is the mean of */
    struct plot_series series[PLOT_PANEL_COUNT][PLOT_MAX_SERIES];
    int n_series[PLOT_PANEL_COUNT];
};

/*
 * Adds the curves of a run. smoothing: steps that a point is the mean of; 0: chosen by
 * the number of steps. There must be room for one more run.
 */
void plot_add_run(struct plot *plot, const char *name,
                  const struct metrics_curves *curves, int smoothing);
void plot_deinit(struct plot *plot);

/* "training loss", and "step" for what lies below all of them. */
const char *plot_title(enum plot_panel panel);

/* ---- axes ---- */

struct plot_axis {
    double low, high; /* what the panel shows */
    double first;     /* tick */
    double step;      /* between ticks: 1, 2 or 5 times a power of ten */
    int n_ticks;
};

/* An axis for values low .. high, with at most max_ticks (2 or more) ticks in it. */
struct plot_axis plot_axis_make(double low, double high, int max_ticks);
double plot_axis_tick(const struct plot_axis *axis, int i);

/* A tick's number with as many digits as the step needs. Returns `buffer`. */
const char *plot_axis_format(char buffer[32], const struct plot_axis *axis,
                             double value);

/* The axes of a panel: x over all panels (so that they line up), y over its series. */
struct plot_axis plot_axis_x(const struct plot *plot, int max_ticks);
struct plot_axis plot_axis_y(const struct plot *plot, enum plot_panel panel,
                             int max_ticks);

/* ---- drawing ---- */

struct plot_text_style {
    int width;       /* columns */
    bool has_utf8;   /* braille dots and box lines, else ASCII */
    bool has_colour; /* one per run, else one mark per run */
};

void plot_text_print(const struct plot *plot, const struct plot_text_style *style,
                     struct str *out);

/* A whole SVG file, readable on light and dark ground. */
void plot_svg_print(const struct plot *plot, struct str *out);

/* The lines as a table: step, epoch, lr, loss, eval_loss, real_tokens_per_s, each row
 * the mean of `smoothing` steps (0: a row for every step). */
void plot_csv_print(const struct metrics_curves *curves, int smoothing,
                    struct str *out);

#endif
