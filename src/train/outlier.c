/*
 * outlier - see the header. Sums are taken anew each time: a window is short, and running
 * sums would drift.
 */
#include "train/outlier.h"

#include <math.h>

#include "base/mem.h"

/* A loss that has become flat has next to no deviation: without a floor, of a thousandth
 * of the mean, the least ripple would be an outlier. */
static const double LEAST_DEVIATION = 1e-3;

double outlier_limit(const struct outlier *guard)
{
    const int64_t n = base_min(guard->n, guard->window);
    if (guard->z <= 0.0 || n < OUTLIER_MIN_VALUES) {
        return (double)INFINITY;
    }
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        sum += guard->values[i];
    }
    const double mean = sum / (double)n;
    double squares = 0.0;
    for (int64_t i = 0; i < n; i++) {
        squares += (guard->values[i] - mean) * (guard->values[i] - mean);
    }
    const double deviation =
        fmax(sqrt(squares / (double)n), LEAST_DEVIATION * fabs(mean));
    return mean + guard->z * deviation;
}

/* Values that are not finite would make the mean useless; such steps are skipped anyway. */
void outlier_note(struct outlier *guard, double value)
{
    if (guard->z <= 0.0 || !isfinite(value)) {
        return;
    }
    if (guard->values == NULL) {
        guard->values = mem_alloc_array((size_t)guard->window, sizeof(*guard->values));
    }
    guard->values[guard->n++ % guard->window] = value;
}

void outlier_deinit(struct outlier *guard)
{
    mem_free(guard->values);
    guard->values = NULL;
}
