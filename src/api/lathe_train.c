/*
 * lathe_train - a run through the public interface, with a callback for each step and a
 * way to end it.
 *
 * Log, signals and the engine's threads belong to the process, so there is one run at a
 * time. Stopping takes the way of a signal (base/interrupt.h): the trainer polls that
 * flag wherever it can end.
 */
#include <signal.h>
#include <stdatomic.h>

#include "api/lathe_parts.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "train/metrics.h"
#include "train/trainer.h"

/* Whether a run is going on; lathe_train_stop may come from a signal handler. */
static _Atomic bool is_running;

/* What the trainer calls back with. */
struct visitor {
    lathe_step_fn on_step;
    void *context; /* of on_step */
};

/* A trainer_visit_fn: the figures in the form of the interface. */
static bool visit(void *context, const struct metrics *metrics, int64_t n_steps)
{
    const struct visitor *visitor = context;
    const struct lathe_step step = {
        .step = metrics->step,
        .n_steps = n_steps,
        .epoch = metrics->epoch,
        .loss = metrics->loss,
        .eval_loss = metrics->eval_loss,
        .grad_norm = metrics->grad_norm,
        .lr = metrics->lr,
        .n_targets = metrics->n_targets,
        .n_real_tokens = metrics->n_real_tokens,
        .step_ms = metrics->step_ms,
        .memory_bytes = metrics->memory_bytes,
        .is_skipped = metrics->is_skipped,
    };
    return visitor->on_step(visitor->context, &step);
}

/* With the claim on the process already made. */
static bool run(const struct settings *settings, unsigned flags,
                struct visitor *visitor, struct error *err)
{
    const unsigned known = LATHE_TRAIN_OVERWRITE | LATHE_TRAIN_DRY_RUN;
    if ((flags & ~known) != 0) {
        return error_set(err, ERROR_USAGE, "lathe_train: unknown flags %#x",
                         flags & ~known);
    }
    const struct trainer_options options = {
        .overwrites = (flags & LATHE_TRAIN_OVERWRITE) != 0,
        .is_dry = (flags & LATHE_TRAIN_DRY_RUN) != 0,
        .is_quiet = true,
        .visit = visitor->on_step == NULL ? NULL : visit,
        .context = visitor,
    };
    return settings_check(settings, err) && trainer_run(settings, &options, err);
}

bool lathe_train(const struct lathe_settings *settings, unsigned flags,
                 lathe_step_fn on_step, void *context, struct lathe_error *error)
{
    struct error err;
    bool expected = false;
    if (!atomic_compare_exchange_strong(&is_running, &expected, true)) {
        error_set(&err, ERROR_FAILED, "a run is going on in this process already");
        return lathe_report(error, &err);
    }
    /* What was asked of an earlier run is not meant for this one. */
    interrupt_note(0);
    struct visitor visitor = {.on_step = on_step, .context = context};
    const bool done = run(&settings->settings, flags, &visitor, &err);
    interrupt_note(0);
    atomic_store(&is_running, false);
    return done || lathe_report(error, &err);
}

void lathe_train_stop(void)
{
    if (atomic_load(&is_running)) {
        interrupt_note(SIGINT);
    }
}
