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
    int32_t sources[MAX_NAMED_ROWS]; /* the file of each */
    int64_t n;                       /* rows in all, also those not kept */
};

/* Counts all, keeps the first few. */
static void note_rows(struct step_rows *seen, const struct batch *batch)
{
    for (int32_t i = 0; i < batch->n_examples; i++, seen->n++) {
        if (seen->n < MAX_NAMED_ROWS) {
            seen->rows[seen->n] = batch->source_rows[i];
            seen->sources[seen->n] = batch->sources[i];
        }
    }
}

/* What a step has gone through. */
struct step_sums {
    struct step_rows seen;
    struct flops_counts flops; /* where the machine's peak is known */
};

/*
 * All micro-batches of the next step into the sums; false at the end too (*is_end).
 * Waiting and computing are timed apart: which of the two limits the run is the first
 * question about its speed.
 */
static bool accumulate(struct trainer *trainer, struct metrics *metrics,
                       struct step_hyper *hyper, struct step_sums *sums, bool *is_end,
                       struct error *err)
{
    const int64_t window = trainer->job.source.config.window;
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
        note_rows(&sums->seen, batch);
        if (trainer->peak_gflops > 0.0) {
            flops_count(batch, window, &sums->flops);
        }
    }
    return true;
}

/* "1, 2 of a.jsonl; 7 of b.jsonl and 3 more" */
static void print_rows(const struct trainer *trainer, const struct step_rows *seen,
                       struct str *out)
{
    const struct records *train = &trainer->job.train;
    const int64_t n_named = base_min(seen->n, MAX_NAMED_ROWS);
    for (int64_t i = 0; i < n_named; i++) {
        const bool is_first = i == 0 || seen->sources[i] != seen->sources[i - 1];
        const bool is_last =
            i + 1 == n_named || seen->sources[i] != seen->sources[i + 1];
        str_printf(out, "%s%lld",
                   i == 0     ? ""
                   : is_first ? "; "
                              : ", ",
                   (long long)seen->rows[i] + 1);
        if (is_last) {
            str_printf(out, " of %s", train->sources[seen->sources[i]].name);
        }
    }
    if (seen->n > n_named) {
        str_printf(out, " and %lld more", (long long)(seen->n - n_named));
    }
}

/* Counts a step that was skipped; false when there were too many in a row. */
static bool note_skipped(struct trainer *trainer, const struct metrics *metrics,
                         const struct step_rows *seen, struct error *err)
{
    const struct settings *settings = trainer->job.settings;
    struct str rows = {0};
    print_rows(trainer, seen, &rows);
    trainer->n_skipped++;
    trainer->n_skipped_in_row++;
    progress_pause(&trainer->progress);
    log_warning("step %lld skipped%s: loss %g, gradient norm %g; rows %s",
                (long long)metrics->step,
                metrics->is_outlier ? " (train.outlier_z)" : "", metrics->loss,
                metrics->grad_norm, str_text(&rows));
    str_deinit(&rows);
    if (trainer->n_skipped_in_row >= settings->train.max_skipped) {
        return error_set(
            err, ERROR_FAILED,
            "%lld step%s in a row had a loss or gradient that is not finite%s "
            "(train.max_skipped): lower train.optimizer.lr, or look at the "
            "rows named in the log",
            (long long)trainer->n_skipped_in_row, str_plural(trainer->n_skipped_in_row),
            settings->train.outlier_z > 0.0 ? ", or an outlier" : "");
    }
    return true;
}

/* Everything that the update is told. A loss that is an outlier leaves no norm that is
 * small enough. */
static void choose_hyper(struct trainer *trainer, const struct metrics *metrics,
                         bool has_outlier_loss, struct step_hyper *hyper)
{
    const struct settings *settings = trainer->job.settings;
    const double limit = outlier_limit(&trainer->norm_guard);
    hyper->lr = schedule_rate(&trainer->schedule, metrics->step);
    hyper->beta1 = settings->train.optimizer.beta1;
    hyper->beta2 = settings->train.optimizer.beta2;
    hyper->eps = settings->train.optimizer.eps;
    hyper->weight_decay = settings->train.optimizer.weight_decay;
    hyper->clip_norm = settings->train.clip_norm;
    tensor_groups_rates(&trainer->job.groups, hyper->lr, trainer->rates);
    hyper->groups = trainer->rates;
    hyper->max_norm = has_outlier_loss ? -1.0 : isinf(limit) ? 0.0 : limit;
    hyper->wants_norms = settings->train.norms_every > 0 &&
                         metrics->step % settings->train.norms_every == 0;
}

/* Norms of the groups that have a trained tensor. */
static void take_norms(struct trainer *trainer, const struct step_norms *norms,
                       struct metrics *metrics)
{
    const struct tensor_groups *groups = &trainer->job.groups;
    metrics->groups = trainer->group_metrics;
    for (int k = 0; k < groups->n; k++) {
        if (groups->n_tensors[k] > 0) {
            trainer->group_metrics[metrics->n_groups++] =
                (struct metrics_group){.name = groups->name[k],
                                       .grad_norm = norms[k].grad,
                                       .update_norm = norms[k].update,
                                       .weight_norm = norms[k].weight};
        }
    }
}

/* The rate is that of the step's number, whether or not earlier ones were skipped. */
static bool update(struct trainer *trainer, struct metrics *metrics,
                   struct step_hyper *hyper, const struct step_rows *seen,
                   struct error *err)
{
    /* The mean over no targets is nothing to learn from; records leave out rows without
     * any. */
    if (hyper->weight_sum <= 0.0) {
        return error_set(err, ERROR_DATA, "%s: step %lld has no token with loss",
                         trainer->job.settings->data.train.items[0],
                         (long long)metrics->step);
    }
    metrics->loss = metrics_plain(hyper->loss_sum / hyper->weight_sum);
    const bool has_outlier_loss = metrics->loss > outlier_limit(&trainer->loss_guard);
    choose_hyper(trainer, metrics, has_outlier_loss, hyper);
    const int64_t updating_from = clock_now_ns();
    struct step_result result;
    if (!step_update(trainer->step, hyper, &result, err)) {
        return false;
    }
    metrics->update_ms = clock_since_ms(updating_from);
    metrics->grad_norm = metrics_plain(result.grad_norm);
    metrics->lr = hyper->lr;
    metrics->is_skipped = !result.is_applied;
    if (result.norms != NULL) {
        take_norms(trainer, result.norms, metrics);
    }
    if (!result.is_applied) {
        metrics->is_outlier = isfinite(metrics->loss) && isfinite(metrics->grad_norm);
        return note_skipped(trainer, metrics, seen, err);
    }
    outlier_note(&trainer->loss_guard, metrics->loss);
    outlier_note(&trainer->norm_guard, metrics->grad_norm);
    trainer->n_skipped_in_row = 0;
    return true;
}

/* The model's work in this time as a share of what the machine can do. A step above the
 * peak shows that the peak was measured while others worked: no share of it means
 * anything. */
static double utilisation(struct trainer *trainer, const struct flops_counts *counts,
                          double ms)
{
    const struct job *job = &trainer->job;
    if (trainer->peak_gflops <= 0.0 || ms <= 0.0) {
        return (double)NAN;
    }
    const double flops = flops_training(&job->source.config, job->source.params,
                                        job->is_trainable, counts);
    const double share = flops / (trainer->peak_gflops * 1e9 * ms / 1000.0);
    if (share <= 1.0) {
        return share;
    }
    progress_pause(&trainer->progress);
    log_note(
        "no mfu from step %lld on: the kept peak of this machine (%.3g GFLOP/s) is "
        "too low; `lathe doctor` on an idle machine measures it again",
        (long long)trainer->step_number, trainer->peak_gflops);
    trainer->peak_gflops = 0.0;
    return (double)NAN;
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

/* Whether the prompts are answered after this step: as the settings say, by default
 * with each evaluation, or else with each epoch; and after the last one. */
static bool samples(const struct trainer *trainer, const struct metrics *metrics,
                    bool evaluates, bool ends_epoch)
{
    const int64_t every = trainer->job.settings->sample.every_steps;
    if (trainer->sample == NULL) {
        return false;
    }
    if (metrics->step == trainer->job.n_steps) {
        return true;
    }
    return every > 0 ? metrics->step % every == 0
                     : evaluates || (!trainer->job.has_eval && ends_epoch);
}

static bool answer(struct trainer *trainer, struct error *err)
{
    progress_pause(&trainer->progress);
    return sample_run(trainer->sample, trainer->step_number, trainer->folder.samples,
                      err);
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
    struct step_sums sums = {0};
    const int64_t from = clock_now_ns();
    if (!accumulate(trainer, &metrics, &hyper, &sums, is_end, err)) {
        return false;
    }
    if (*is_end) {
        return true;
    }
    if (!update(trainer, &metrics, &hyper, &sums.seen, err)) {
        return false;
    }
    /* A step counts from here on, skipped or not. */
    trainer->step_number = metrics.step;
    metrics.step_ms = clock_since_ms(from);
    metrics.mfu = utilisation(trainer, &sums.flops, metrics.step_ms);
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
    const bool done =
        (!evaluates || trainer_eval(trainer, &metrics, err)) &&
        (!samples(trainer, &metrics, evaluates, ends_epoch) || answer(trainer, err));
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
