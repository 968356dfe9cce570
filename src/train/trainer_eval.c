/*
 * trainer_eval - held-out loss during a run, and what follows from it: which model is the
 * best one so far, and when to stop.
 */
#include <math.h>

#include "base/log.h"
#include "train/evaluate.h"
#include "train/trainer_parts.h"

/* The loss of each file, for log and metrics. */
static void tell_sources(struct trainer *trainer, struct metrics *metrics)
{
    const struct records *eval = &trainer->job.eval;
    for (int32_t i = 0; i < eval->n_sources; i++) {
        trainer->source_metrics[i] = (struct metrics_source){
            .name = eval->sources[i].name, .loss = trainer->source_loss[i]};
        if (isfinite(trainer->source_loss[i])) {
            log_note("    %s: %.4f", eval->sources[i].name, trainer->source_loss[i]);
        }
    }
    metrics->eval_sources = trainer->source_metrics;
    metrics->n_eval_sources = eval->n_sources;
}

/* Evaluation keeps the training state as it is: it only runs another program. */
static bool measure(struct trainer *trainer, struct metrics *metrics, struct error *err)
{
    const struct job *job = &trainer->job;
    const struct evaluate_options options = {
        .B = job->micro_rows,
        .T = (int32_t)job->settings->data.row_tokens,
        .C = job->eval_C,
        /* Whatever data.pack says: it costs less, and each example sees only itself. */
        .is_packed = true,
        .pad_id = (int32_t)job->source.config.pad_id,
        /* One file's loss is that of all. */
        .source_loss = job->eval.n_sources > 1 ? trainer->source_loss : NULL,
        .n_sources = job->eval.n_sources,
    };
    struct evaluate_result result;
    if (!evaluate_run(trainer->step, &job->eval, &options, &result, err)) {
        return false;
    }
    metrics->eval_loss = result.loss;
    progress_pause(&trainer->progress);
    log_note("step %lld: held-out loss %.4f (%lld target%s)",
             (long long)trainer->step_number, result.loss, (long long)result.n_targets,
             str_plural(result.n_targets));
    if (options.source_loss != NULL) {
        tell_sources(trainer, metrics);
    }
    return true;
}

/* The model that the run started from is on disk already, and no result of it. */
static bool note_best(struct trainer *trainer, double loss, struct error *err)
{
    if (step_n_updates(trainer->step) == 0 || !isfinite(loss) ||
        loss >= trainer->best_loss) { /* false while there is none: NaN */
        return true;
    }
    trainer->best_loss = loss;
    trainer->best_step = trainer->step_number;
    return !trainer_save_keeps_best(trainer) || trainer_save_best(trainer, err);
}

bool trainer_eval(struct trainer *trainer, struct metrics *metrics, struct error *err)
{
    if (!measure(trainer, metrics, err)) {
        return false;
    }
    const double loss = metrics->eval_loss;
    trainer->last_eval_loss = loss;
    if (early_stop_note(&trainer->early_stop, loss)) {
        trainer->is_stopped_early = true;
        log_note("step %lld: %lld evaluation%s without a better held-out loss "
                 "(eval.patience): the run stops",
                 (long long)trainer->step_number,
                 (long long)trainer->early_stop.n_without_gain,
                 str_plural(trainer->early_stop.n_without_gain));
    }
    return note_best(trainer, loss, err);
}
