/*
 * trainer_eval - held-out loss during a run.
 */
#include "base/log.h"
#include "train/evaluate.h"
#include "train/trainer_parts.h"

/* Evaluation keeps the training state as it is: it only runs another program. */
bool trainer_eval(struct trainer *trainer, double *loss, struct error *err)
{
    const struct job *job = &trainer->job;
    const struct evaluate_options options = {
        .B = job->micro_rows,
        .T = (int32_t)job->settings->data.row_tokens,
        .C = job->eval_C,
        /* Whatever data.pack says: it costs less, and each example sees only itself. */
        .is_packed = true,
        .pad_id = (int32_t)job->source.config.pad_id,
    };
    struct evaluate_result result;
    if (!evaluate_run(trainer->step, &job->eval, &options, &result, err)) {
        return false;
    }
    *loss = result.loss;
    trainer->last_eval_loss = result.loss;
    progress_pause(&trainer->progress);
    log_note("step %lld: held-out loss %.4f (%lld targets)",
             (long long)trainer->step_number, result.loss, (long long)result.n_targets);
    return true;
}
