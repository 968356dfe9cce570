/*
 * early_stop - see the header.
 */
#include "train/early_stop.h"

#include <math.h>

/* A gain is measured from the last gain: many small ones add up to one. */
bool early_stop_note(struct early_stop *stop, double loss)
{
    const bool is_gain =
        isfinite(loss) && (!stop->has_loss || loss < stop->reference - stop->min_delta);
    if (is_gain) {
        stop->has_loss = true;
        stop->reference = loss;
        stop->n_without_gain = 0;
    } else {
        stop->n_without_gain++;
    }
    return stop->patience > 0 && stop->n_without_gain >= stop->patience;
}
