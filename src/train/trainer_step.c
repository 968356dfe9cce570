/*
 * trainer_step - one optimizer step: micro-batches into the sums, update, metrics.
 */
#include <math.h>
#include <signal.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/trainer_parts.h"

/* Source rows of a step that are named when its loss is not finite. */
enum { MAX_NAMED_ROWS = 8 };

/* Rows of the data that a step has read, for messages. */
struct step_rows {
    int64_t rows[MAX_NAMED_ROWS];
    int64_t n; /* rows in all, also those not kept */
};

/* Counts all, keeps the first few. */
static void note_rows(struct step_rows *seen, const struct batch *batch)
{
    for (int32_t i = 0; i < batch->n_examples; i++, seen->n++) {
        if (seen->n < MAX_NAMED_ROWS) {
            seen->rows[seen->n] = batch->source_rows[i];
        }
    }
}

/*
 * All micro-batches of the next step into the sums; false at the end too (*is_end).
 * Waiting and computing are timed apart: which of the two limits the run is the first
 * question about its speed.
 */
static bool accumulate(struct trainer *trainer, struct metrics *metrics,
                       struct step_hyper *hyper, struct step_rows *seen, bool *is_end,
                       struct error *err)
{
    /* Every batch says of how many its step consists; before the first one is there,
     * one. */
    for (int32_t micro = 0, n_micro = 1; micro < n_micro; micro++) {
        const int64_t waiting_from = clock_now_ns();
        const struct batch *batch = loader_next(trainer->loader);
        metrics->data_ms += clock_since_ms(waiting_from);
        if (batch == NULL) {
            *is_end = true;
            return true;
        }
        const int64_t computing_from = clock_now_ns();
        double loss_sum = 0.0;
        if (!step_accumulate(trainer->step, batch, &loss_sum, err)) {
            return false;
        }
        metrics->compute_ms += clock_since_ms(computing_from);
        hyper->loss_sum += loss_sum;
        hyper->weight_sum += batch->weight_sum;
        metrics->n_targets += batch->n_targets;
        metrics->n_real_tokens += batch->n_real_tokens;
        metrics->n_slots += (int64_t)batch->rows * batch->row_tokens;
        /* Of the last micro-batch, in the end. */
        metrics->epoch = batch->epoch_after;
        trainer->epoch = batch->epoch;
        n_micro = batch->n_micro;
        note_rows(seen, batch);
    }
    return true;
}

/* Counts a step that was skipped; false when there were too many in a row. */
static bool note_skipped(struct trainer *trainer, const struct metrics *metrics,
                         const struct step_rows *seen, struct error *err)
{
    const struct settings *settings = trainer->job.settings;
    struct str rows = {0};
    for (int64_t i = 0; i < base_min(seen->n, MAX_NAMED_ROWS); i++) {
        str_printf(&rows, "%s%lld", i == 0 ? "" : ", ", (long long)seen->rows[i] + 1);
    }
    if (seen->n > MAX_NAMED_ROWS) {
        str_printf(&rows, " and %lld more", (long long)(seen->n - MAX_NAMED_ROWS));
    }
    trainer->n_skipped++;
    trainer->n_skipped_in_row++;
    progress_pause(&trainer->progress);
    log_warning("step %lld skipped: loss %g, gradient norm %g; rows %s of %s",
                (long long)metrics->step, metrics->loss, metrics->grad_norm,
                str_text(&rows), settings->data.train.items[0]);
    str_deinit(&rows);
    if (trainer->n_skipped_in_row >= settings->train.max_skipped) {
        return error_set(
            err, ERROR_FAILED,
            "%lld steps in a row had a loss or gradient that is not finite "
            "(train.max_skipped): lower train.optimizer.lr, or look at the "
            "rows named in the log",
            (long long)trainer->n_skipped_in_row);
    }
    return true;
}

/* The rate is that of the step's number, whether or not earlier ones were skipped. */
static bool update(struct trainer *trainer, struct metrics *metrics,
                   struct step_hyper *hyper, const struct step_rows *seen,
                   struct error *err)
{
    const struct settings *settings = trainer->job.settings;
    /* The mean over no targets is nothing to learn from; records leave out rows without
     * any. */
    if (hyper->weight_sum <= 0.0) {
        return error_set(err, ERROR_DATA, "%s: step %lld has no token with loss",
                         settings->data.train.items[0], (long long)metrics->step);
    }
    hyper->lr = schedule_rate(&trainer->schedule, metrics->step);
    hyper->beta1 = settings->train.optimizer.beta1;
    hyper->beta2 = settings->train.optimizer.beta2;
    hyper->eps = settings->train.optimizer.eps;
    hyper->weight_decay = settings->train.optimizer.weight_decay;
    hyper->clip_norm = settings->train.clip_norm;
    const int64_t updating_from = clock_now_ns();
    struct step_result result;
    if (!step_update(trainer->step, hyper, &result, err)) {
        return false;
    }
    metrics->update_ms = clock_since_ms(updating_from);
    metrics->loss = hyper->loss_sum / hyper->weight_sum;
    metrics->grad_norm = result.grad_norm;
    metrics->lr = hyper->lr;
    metrics->is_skipped = !result.is_applied;
    if (!result.is_applied) {
        return note_skipped(trainer, metrics, seen, err);
    }
    trainer->n_skipped_in_row = 0;
    return true;
}

/* The file is line buffered: a reader sees whole lines. */
static void write_metrics(struct trainer *trainer, const struct metrics *metrics)
{
    str_clear(&trainer->line);
    metrics_print(metrics, &trainer->line);
    fputs(trainer->line.text, trainer->folder.metrics);
    str_clear(&trainer->line);
    str_printf(&trainer->line, "loss %.4f  %.0f tokens/s", metrics->loss,
               metrics_per_second(metrics->n_real_tokens, metrics->step_ms));
    progress_update(&trainer->progress, metrics->step, trainer->line.text);
}
/* Whether this step closes its epoch. The fraction is a quotient of row counts: it may
 * miss the whole number by a rounding. */
static bool is_epoch_end(const struct trainer *trainer, const struct metrics *metrics)
{
    return metrics->epoch >= (double)(trainer->epoch + 1) - 1e-9;
}

/* One optimizer step with what belongs to it. Times and counts of the step are complete
 * before it is evaluated, so that evaluation is in none of them. */
bool trainer_step(struct trainer *trainer, bool *is_end, struct error *err)
{
    const struct settings *settings = trainer->job.settings;
    /* NaN: not known at this step. */
    struct metrics metrics = {
        .step = trainer->step_number + 1, .eval_loss = (double)NAN, .mfu = (double)NAN};
    struct step_hyper hyper = {0};
    struct step_rows seen = {0};
    const int64_t from = clock_now_ns();
    if (!accumulate(trainer, &metrics, &hyper, &seen, is_end, err)) {
        return false;
    }
    if (*is_end) {
        return true;
    }
    if (!update(trainer, &metrics, &hyper, &seen, err)) {
        return false;
    }
    /* A step counts from here on, skipped or not. */
    trainer->step_number = metrics.step;
    metrics.step_ms = clock_since_ms(from);
    metrics.memory_bytes = mem_resident_bytes();
    if (isnan(trainer->first_loss)) {
        trainer->first_loss = metrics.loss;
    }
    trainer->last_loss = metrics.loss;
    /* A loss that is not finite would spoil the sums of the whole epoch. */
    if (!metrics.is_skipped) {
        trainer->epoch_loss_sum += hyper.loss_sum;
        trainer->epoch_weight_sum += hyper.weight_sum;
    }
    trainer->epoch_step_ms += metrics.step_ms;
    trainer->epoch_real_tokens += metrics.n_real_tokens;

    const bool ends_epoch = is_epoch_end(trainer, &metrics);
    const bool is_due = settings->eval.every_steps > 0 &&
                        metrics.step % settings->eval.every_steps == 0;
    if (ends_epoch) {
        trainer_report_epoch(trainer);
    }
    /* The last step is always evaluated: its loss is the run's result. */
    const bool is_last = metrics.step == trainer->job.n_steps;
    const bool evaluates =
        trainer->job.has_eval &&
        (is_due || is_last || (ends_epoch && settings->eval.at_epoch_end));
    const bool done = !evaluates || trainer_eval(trainer, &metrics.eval_loss, err);
    /* The step itself is done, also where its evaluation was abandoned. */
    write_metrics(trainer, &metrics);
    if (!done) {
        return false;
    }
    const struct trainer_options *options = trainer->job.options;
    if (options->visit != NULL &&
        !options->visit(options->context, &metrics, trainer->job.n_steps)) {
        interrupt_note(SIGINT);
    }
    return true;
}
