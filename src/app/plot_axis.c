/*
 * plot_axis - ranges and ticks; pure arithmetic.
 */
#include <math.h>
#include <stdio.h>

#include "app/plot.h"

/* The smallest of 1, 2, 5 times a power of ten that is not below `wanted`. */
static double nice_step(double wanted)
{
    const double power = pow(10.0, floor(log10(wanted)));
    static const double factors[] = {1.0, 2.0, 5.0, 10.0};
    for (size_t i = 0; i < ARRAY_LENGTH(factors); i++) {
        /* A hair below: 0.3 / 3 is not quite 0.1. */
        if (factors[i] * power >= wanted * (1.0 - 1e-9)) {
            return factors[i] * power;
        }
    }
    return 10.0 * power;
}

/* Equal ends (a constant, or one point) get room on both sides. */
struct plot_axis plot_axis_make(double low, double high, int max_ticks)
{
    ASSERT(max_ticks >= 2 && low <= high);
    if (high - low <= 1e-12 * fmax(fabs(low), fabs(high))) {
        const double room = low == 0.0 ? 1.0 : 0.1 * fabs(low);
        low -= room;
        high += room;
    }
    struct plot_axis axis = {.low = low, .high = high};
    axis.step = nice_step((high - low) / max_ticks);
    axis.first = ceil(low / axis.step - 1e-9) * axis.step;
    axis.n_ticks = (int)floor((high - axis.first) / axis.step + 1e-9) + 1;
    return axis;
}

/* A zero is exact, and has no sign. */
double plot_axis_tick(const struct plot_axis *axis, int i)
{
    const double value = axis->first + i * axis->step;
    return fabs(value) < 1e-9 * axis->step ? 0.0 : value;
}

/* Learning rates are short in powers of ten, everything else is read better without. */
const char *plot_axis_format(char buffer[32], const struct plot_axis *axis,
                             double value)
{
    const double largest = fmax(fabs(axis->low), fabs(axis->high));
    if (value == 0.0) {
        snprintf(buffer, 32, "0");
    } else if (largest < 1e-2 || largest >= 1e7) {
        snprintf(buffer, 32, "%.3g", value);
    } else {
        const int digits = (int)fmax(0.0, ceil(-log10(axis->step) - 1e-9));
        snprintf(buffer, 32, "%.*f", digits, value);
    }
    return buffer;
}

/* Widens low .. high to what the series hold. */
static void widen(const double *values, size_t n, double *low, double *high)
{
    for (size_t i = 0; i < n; i++) {
        *low = fmin(*low, values[i]);
        *high = fmax(*high, values[i]);
    }
}

/* From 0: steps are counted from the start of the run. */
struct plot_axis plot_axis_x(const struct plot *plot, int max_ticks)
{
    double low = 0.0;
    double high = 1.0;
    for (int panel = 0; panel < PLOT_PANEL_COUNT; panel++) {
        for (int i = 0; i < plot->n_series[panel]; i++) {
            const struct plot_series *series = &plot->series[panel][i];
            widen(series->x, series->n, &low, &high);
        }
    }
    return plot_axis_make(low, high, max_ticks);
}

/* Rates and speeds from 0, so that a small change looks small; a loss close around its
 * values, with a little room. */
struct plot_axis plot_axis_y(const struct plot *plot, enum plot_panel panel,
                             int max_ticks)
{
    double low = panel == PLOT_LOSS ? (double)INFINITY : 0.0;
    double high = panel == PLOT_LOSS ? (double)-INFINITY : 0.0;
    for (int i = 0; i < plot->n_series[panel]; i++) {
        const struct plot_series *series = &plot->series[panel][i];
        widen(series->y, series->n, &low, &high);
    }
    if (low > high) {
        return plot_axis_make(0.0, 1.0, max_ticks);
    }
    const double room = 0.04 * (high - low);
    return plot_axis_make(panel == PLOT_LOSS ? low - room : low, high + room,
                          max_ticks);
}
