/*
 * trainer - the loop: batches in, metrics out.
 */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/random_init.h"
#include "train/evaluate.h"
#include "train/metrics.h"
#include "train/progress.h"
#include "train/run_folder.h"
#include "train/schedule.h"
#include "train/trainer_job.h"

/* Source rows of a step that are named when its loss is not finite. */
enum { MAX_NAMED_ROWS = 8 };

struct trainer {
    struct job job; /* model, data, engine and what was decided */
    struct run_folder folder;
    struct step *step;        /* state and programs */
    struct loader *loader;    /* training rows, in the order of the run */
    struct schedule schedule; /* of the learning rate */
    struct progress progress;
    struct str line;          /* scratch */
    int64_t step_number;      /* of the last step, from 1 */
    int64_t n_skipped_in_row; /* steps without update, the last ones */
    int64_t n_skipped;        /* in the whole run */
    int64_t epoch;            /* that the last step belonged to, from 0 */

    /* Sums over the epoch so far. */
    int64_t epoch_started_ns;
    double epoch_loss_sum, epoch_weight_sum, epoch_step_ms;
    int64_t epoch_real_tokens;

    double first_eval_loss, last_eval_loss; /* NaN: none */
    double first_loss, last_loss;           /* of steps; NaN: none */
    int64_t started_ns;
};

/* ---- start ---- */

/* A weights_read_fn over random_init, for runs that start from nothing. */
static bool read_random(void *context, int param, int64_t first_row, int64_t n_rows,
                        float *target, struct error *err)
{
    (void)err;
    const struct job *job = context;
    random_init_rows(&job->source.config, job->source.params,
                     (uint64_t)job->settings->seed, param, first_row, n_rows, target);
    return true;
}

/* The lines that a log should begin with: enough to see what ran. */
static void describe(const struct trainer *trainer)
{
    const struct job *job = &trainer->job;
    char planned[24];
    str_format_bytes(planned, (double)job->plan_bytes);
    log_note("Starting fine-tuning: model=%s, engine=%s, ranks=1", job->settings->model,
             backend_describe(job->engine));
    log_note("%s, %lld parameters, %lld of them trained; %s planned",
             model_family_name(job->source.config.family),
             (long long)job->source.params->n_elements, (long long)job->n_trained,
             planned);
    log_note("%lld steps of %d rows of %lld tokens, %d rows a pass%s",
             (long long)job->n_steps, (int)job->batch_rows,
             (long long)job->settings->data.row_tokens, (int)job->micro_rows,
             job->recomputes ? ", activations recomputed" : "");
}

/* The loader comes last: nothing after its thread has started can fail. */
/* A disk that is full at the end would cost the whole run: it is told at the start. */
static bool check_disk(const struct trainer *trainer, struct error *err)
{
    const struct job *job = &trainer->job;
    const size_t bytes =
        (size_t)job->source.params->n_elements * dtype_bytes(job->source.config.dtype);
    return !job->settings->train.save_model ||
           file_check_room(trainer->folder.path, bytes,
                           "the tuned model (train.save_model)", err);
}

static bool start(struct trainer *trainer, struct error *err)
{
    struct job *job = &trainer->job;
    if (!check_disk(trainer, err)) {
        return false;
    }
    const struct step_options options = trainer_job_step(job);
    const bool is_random = job->settings->init == INIT_RANDOM;
    /* Gives the rows of a frozen per-layer table too, batch by batch: the job outlives
     * the step. */
    const struct step_source source = {
        .read = is_random ? read_random : model_source_read,
        .context = is_random ? (void *)job : (void *)&job->source,
    };
    trainer->step = step_create(job->engine, &options, &source, err);
    if (trainer->step == NULL || !step_load(trainer->step, err)) {
        return false;
    }
    const struct loader_options loading = trainer_job_loading(job);
    trainer->loader = loader_create(&job->train, &loading, err);
    if (trainer->loader == NULL) {
        return false;
    }
    trainer->schedule = (struct schedule){
        .kind = job->settings->train.schedule.kind,
        .lr = job->settings->train.optimizer.lr,
        .final_lr = job->settings->train.schedule.final_lr,
        .warmup_steps = job->settings->train.schedule.warmup_steps,
        .n_steps = job->n_steps,
    };
    return true;
}

/* ---- evaluation ---- */

/* Evaluation keeps the training state as it is: it only runs another program. */
static bool evaluate(struct trainer *trainer, double *loss, struct error *err)
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

/* ---- one step ---- */

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

/* Skipped steps count in time and tokens, not in the loss. */
static void end_epoch(struct trainer *trainer)
{
    const double seconds = clock_since_ms(trainer->epoch_started_ns) / 1000.0;
    progress_pause(&trainer->progress);
    log_note("Epoch %lld/%lld | loss=%.4f | epoch_time=%.2fs | tokens/s=%.1f",
             (long long)trainer->epoch + 1,
             /* Without a number of epochs, those so far. */
             (long long)base_max(trainer->job.n_epochs, trainer->epoch + 1),
             trainer->epoch_loss_sum / trainer->epoch_weight_sum, seconds,
             metrics_per_second(trainer->epoch_real_tokens, trainer->epoch_step_ms));
    trainer->epoch_started_ns = clock_now_ns();
    trainer->epoch_loss_sum = 0.0;
    trainer->epoch_weight_sum = 0.0;
    trainer->epoch_step_ms = 0.0;
    trainer->epoch_real_tokens = 0;
}

/* Whether this step closes its epoch. The fraction is a quotient of row counts: it may
 * miss the whole number by a rounding. */
static bool is_epoch_end(const struct trainer *trainer, const struct metrics *metrics)
{
    return metrics->epoch >= (double)(trainer->epoch + 1) - 1e-9;
}

/* One optimizer step with what belongs to it. Times and counts of the step are complete
 * before it is evaluated, so that evaluation is in none of them. */
static bool run_step(struct trainer *trainer, bool *is_end, struct error *err)
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
        end_epoch(trainer);
    }
    /* The last step is always evaluated: its loss is the run's result. */
    const bool is_last = metrics.step == trainer->job.n_steps;
    if (trainer->job.has_eval &&
        (is_due || is_last || (ends_epoch && settings->eval.at_epoch_end)) &&
        !evaluate(trainer, &metrics.eval_loss, err)) {
        return false;
    }
    write_metrics(trainer, &metrics);
    return true;
}

/* ---- end ---- */

/* In the type of the source; its config and tokenizer come along. */
static bool write_model(struct trainer *trainer, struct error *err)
{
    const struct job *job = &trainer->job;
    char *path = file_join(trainer->folder.path, "model");
    const struct weights_output output = {
        .config = &job->source.config,
        .params = job->source.params,
        /* Master weights are f32; the file gets the precision that the model came
         * in. */
        .dtype = job->source.config.dtype,
        .read = step_read_param,
        .context = trainer->step,
        .source_path = job->settings->model,
    };
    const bool done = weights_write_folder(path, &output, err);
    if (done) {
        log_note("Tuned model: %s", path);
    }
    mem_free(path);
    return done;
}

/* The last lines of a run. */
static void summarise(const struct trainer *trainer)
{
    char duration[24];
    clock_format_duration(duration, clock_since_ms(trainer->started_ns) / 1000.0);
    log_note("Done: %lld steps in %s, training loss %.4f -> %.4f",
             (long long)trainer->step_number, duration, trainer->first_loss,
             trainer->last_loss);
    if (!isnan(trainer->first_eval_loss)) {
        log_note("Held-out loss %.4f -> %.4f", trainer->first_eval_loss,
                 trainer->last_eval_loss);
    }
    if (trainer->n_skipped > 0) {
        log_warning("%lld steps were skipped: loss or gradient not finite",
                    (long long)trainer->n_skipped);
    }
    char peak[24];
    str_format_bytes(peak, (double)mem_peak_resident_bytes());
    log_note("Run folder: %s (peak memory %s)", trainer->folder.path, peak);
}

/* The first evaluation, before any step, is what the last one is compared with. */
static bool train(struct trainer *trainer, struct error *err)
{
    trainer->started_ns = clock_now_ns();
    if (trainer->job.has_eval && !evaluate(trainer, &trainer->first_eval_loss, err)) {
        return false;
    }
    trainer->epoch_started_ns = clock_now_ns();
    progress_begin(&trainer->progress, stderr, "training", trainer->job.n_steps);
    bool is_end = false;
    while (!is_end && trainer->step_number < trainer->job.n_steps) {
        if (!run_step(trainer, &is_end, err)) {
            progress_end(&trainer->progress);
            return false;
        }
    }
    progress_end(&trainer->progress);
    if (trainer->job.settings->train.save_model && !write_model(trainer, err)) {
        return false;
    }
    summarise(trainer);
    return true;
}

/* To standard output: it is what was asked for, not a log line. */
static void print_profile(struct trainer *trainer)
{
    str_clear(&trainer->line);
    backend_profile_print(trainer->job.engine, &trainer->line);
    fputs(str_text(&trainer->line), stdout);
}

/* The folder is made after everything else has been checked; all that is opened is
 * closed at the end, in whatever state. */
bool trainer_run(const struct settings *settings, const struct trainer_options *options,
                 struct error *err)
{
    struct trainer trainer = {.first_eval_loss = (double)NAN,
                              .last_eval_loss = (double)NAN,
                              .first_loss = (double)NAN,
                              .last_loss = (double)NAN};
    bool done = false;
    /* A dry run leaves the folder alone, so an existing one is no matter. */
    if ((!options->is_dry && !run_folder_check(settings, options->overwrites, err)) ||
        !trainer_job_open(&trainer.job, settings, options, err)) {
        goto end;
    }
    if (options->is_dry) {
        describe(&trainer);
        if (!run_folder_check(settings, options->overwrites, err)) {
            log_warning("a real run would be refused: %s", err->message);
        }
        log_note("Dry run: settings, model and data are in order; nothing was trained "
                 "or written");
        done = true;
        goto end;
    }
    if (!run_folder_create(&trainer.folder, settings, options->overwrites, err)) {
        goto end;
    }
    describe(&trainer);
    if (!start(&trainer, err) || !train(&trainer, err)) {
        goto end;
    }
    if (options->profiles) {
        print_profile(&trainer);
    }
    done = true;

end:
    str_deinit(&trainer.line);
    loader_destroy(trainer.loader);
    step_destroy(trainer.step);
    trainer_job_close(&trainer.job);
    run_folder_close(&trainer.folder);
    return done;
}
