/*
 * schedule - see the header.
 */
#include "train/schedule.h"

#include <math.h>

#include "train/settings.h"

/* How much of the part after the warm-up lies before this step, 0 .. 1. */
static double progress(const struct schedule *schedule, int64_t step)
{
    const int64_t length = schedule->n_steps - schedule->warmup_steps;
    /* A warm-up that is longer than the run leaves no part after it. */
    if (length <= 0 || step > schedule->n_steps) {
        return 1.0;
    }
    return (double)(step - 1 - schedule->warmup_steps) / (double)length;
}

/*
 * linear: lr - (lr - final) x    cosine: final + (lr - final) (1 + cos(pi x)) / 2
 * with x the steps done since the warm-up, as a share: as transformers has it.
 */
double schedule_rate(const struct schedule *schedule, int64_t step)
{
    ASSERT(step >= 1);
    if (step <= schedule->warmup_steps) {
        return schedule->lr * (double)step / (double)schedule->warmup_steps;
    }
    const double range = schedule->lr - schedule->final_lr;
    const double x = progress(schedule, step);
    switch ((enum schedule_kind)schedule->kind) {
    case SCHEDULE_CONSTANT:
        return schedule->lr;
    case SCHEDULE_LINEAR:
        return schedule->lr - range * x;
    case SCHEDULE_COSINE:
        return schedule->final_lr + range * 0.5 * (1.0 + cos(acos(-1.0) * x));
    }
    UNREACHABLE();
}
