/*
 * plot - from the figures of runs to series. See the header.
 */
#include "app/plot.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "train/metrics_read.h"

/* About so many points are left of a curve when smoothing is not given. */
enum { WANTED_POINTS = 150 };

/* Losses and steps are never so large; sums and differences of what is stay finite. */
static bool is_drawable(double value)
{
    return isfinite(value) && fabs(value) < 1e100;
}

/* Steps a point is the mean of: the number given, or what leaves a readable curve. */
static int choose_smoothing(const struct metrics_curves *curves, int smoothing)
{
    return smoothing > 0 ? smoothing
                         : (int)base_max(1, (int64_t)curves->n / WANTED_POINTS);
}

/* Appends a series for the panel, with room for n points. */
static struct plot_series *add_series(struct plot *plot, enum plot_panel panel,
                                      size_t n)
{
    ASSERT(plot->n_series[panel] < PLOT_MAX_SERIES);
    struct plot_series *series = &plot->series[panel][plot->n_series[panel]++];
    *series = (struct plot_series){
        .x = mem_alloc_array(base_max(1, (int64_t)n), sizeof(double)),
        .y = mem_alloc_array(base_max(1, (int64_t)n), sizeof(double)),
        .run = plot->n_runs};
    return series;
}

/* Means over blocks of steps: a block is drawn in the middle of its steps. Figures that
 * are not finite are in no mean; a block without any gives no point. */
static void add_line(struct plot *plot, enum plot_panel panel,
                     const struct metrics_curves *curves, enum metrics_figure figure,
                     int smoothing)
{
    struct plot_series *series = add_series(plot, panel, curves->n);
    const double *steps = curves->values[METRICS_STEP];
    const double *values = curves->values[figure];
    for (size_t from = 0; from < curves->n; from += (size_t)smoothing) {
        const size_t to =
            (size_t)base_min((int64_t)curves->n, (int64_t)from + smoothing);
        double sum = 0.0;
        double steps_sum = 0.0;
        int n = 0;
        for (size_t i = from; i < to; i++) {
            if (is_drawable(values[i]) && is_drawable(steps[i])) {
                sum += values[i];
                steps_sum += steps[i];
                n++;
            }
        }
        if (n > 0) {
            series->x[series->n] = steps_sum / n;
            series->y[series->n++] = sum / n;
        }
    }
}

/* Each as it is: there are few. */
static void add_markers(struct plot *plot, enum plot_panel panel,
                        const struct metrics_curves *curves, enum metrics_figure figure)
{
    struct plot_series *series = add_series(plot, panel, curves->n);
    series->is_markers = true;
    for (size_t i = 0; i < curves->n; i++) {
        const double step = curves->values[METRICS_STEP][i];
        const double value = curves->values[figure][i];
        if (is_drawable(step) && is_drawable(value)) {
            series->x[series->n] = step;
            series->y[series->n++] = value;
        }
    }
}

/* The rate is exact at every step, so it is thinned out, not averaged: its mean over a
 * block is the same but at bends. */
void plot_add_run(struct plot *plot, const char *name,
                  const struct metrics_curves *curves, int smoothing)
{
    ASSERT(plot->n_runs < PLOT_MAX_RUNS);
    const int n_steps = choose_smoothing(curves, smoothing);
    plot->names[plot->n_runs] = mem_strdup(name);
    plot->smoothing[plot->n_runs] = n_steps;
    add_line(plot, PLOT_LOSS, curves, METRICS_LOSS, n_steps);
    add_markers(plot, PLOT_LOSS, curves, METRICS_EVAL_LOSS);
    add_line(plot, PLOT_RATE, curves, METRICS_LR, n_steps);
    add_line(plot, PLOT_SPEED, curves, METRICS_TOKENS_PER_S, n_steps);
    plot->n_runs++;
}

void plot_deinit(struct plot *plot)
{
    for (int panel = 0; panel < PLOT_PANEL_COUNT; panel++) {
        for (int i = 0; i < plot->n_series[panel]; i++) {
            mem_free(plot->series[panel][i].x);
            mem_free(plot->series[panel][i].y);
        }
    }
    for (int i = 0; i < plot->n_runs; i++) {
        mem_free(plot->names[i]);
    }
    *plot = (struct plot){0};
}

const char *plot_title(enum plot_panel panel)
{
    switch (panel) {
    case PLOT_LOSS:
        return "loss";
    case PLOT_RATE:
        return "learning rate";
    case PLOT_SPEED:
        return "tokens/s";
    case PLOT_PANEL_COUNT:
        break;
    }
    UNREACHABLE();
}

/* ---- table ---- */

/* A number, or nothing where there is none. */
static void print_cell(struct str *out, const char *before, double value, int digits)
{
    str_add(out, before);
    if (isfinite(value)) {
        str_printf(out, "%.*g", digits, value);
    }
}

/* The mean of what is finite in values[from .. to); NaN: nothing is. */
static double finite_mean(const double *values, size_t from, size_t to)
{
    double sum = 0.0;
    int64_t n = 0;
    for (size_t i = from; i < to; i++) {
        sum += isfinite(values[i]) ? values[i] : 0.0;
        n += isfinite(values[i]);
    }
    return n > 0 ? sum / (double)n : (double)NAN;
}

/* Loss and speed are means of the block, held-out loss is the last one in it, the rest
 * those of its last step. Unlike curves a table is whole unless asked for less: what
 * reads it can take means itself. */
void plot_csv_print(const struct metrics_curves *curves, int smoothing, struct str *out)
{
    const size_t block = (size_t)base_max(1, smoothing);
    str_add(out, "step,epoch,lr,loss,eval_loss,real_tokens_per_s\n");
    for (size_t from = 0; from < curves->n; from += block) {
        const size_t to = (size_t)base_min((int64_t)curves->n, (int64_t)(from + block));
        double eval_loss = (double)NAN;
        for (size_t i = from; i < to; i++) {
            const double held_out = curves->values[METRICS_EVAL_LOSS][i];
            eval_loss = isfinite(held_out) ? held_out : eval_loss;
        }
        print_cell(out, "", curves->values[METRICS_STEP][to - 1], 15);
        print_cell(out, ",", curves->values[METRICS_EPOCH][to - 1], 5);
        print_cell(out, ",", curves->values[METRICS_LR][to - 1], 4);
        print_cell(out, ",", finite_mean(curves->values[METRICS_LOSS], from, to), 5);
        print_cell(out, ",", eval_loss, 5);
        print_cell(out, ",",
                   finite_mean(curves->values[METRICS_TOKENS_PER_S], from, to), 5);
        str_add_char(out, '\n');
    }
}
