/*
 * trainer - a run from its start to its end. The parts of a step and what is said and
 * written stand in the files of trainer_parts.h.
 */
#include "train/trainer.h"

#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/job_params.h"
#include "train/machine.h"
#include "train/trainer_parts.h"

/* ---- start ---- */

/* What steps and evaluations write into, made once: the loop allocates nothing. */
static void make_lists(struct trainer *trainer)
{
    const size_t n_groups = (size_t)trainer->job.groups.n;
    const size_t n_sources = (size_t)trainer->job.eval.n_sources;
    trainer->rates = mem_alloc_array(n_groups, sizeof(*trainer->rates));
    trainer->group_metrics = mem_alloc_array(n_groups, sizeof(*trainer->group_metrics));
    trainer->source_loss = mem_alloc_array(n_sources, sizeof(*trainer->source_loss));
    trainer->source_metrics =
        mem_alloc_array(n_sources, sizeof(*trainer->source_metrics));
}

static void free_lists(struct trainer *trainer)
{
    mem_free(trainer->rates);
    mem_free(trainer->group_metrics);
    mem_free(trainer->source_loss);
    mem_free(trainer->source_metrics);
    outlier_deinit(&trainer->loss_guard);
    outlier_deinit(&trainer->norm_guard);
}

static struct sample_options sample_options(const struct job *job)
{
    return (struct sample_options){.settings = job->settings,
                                   .config = &job->source.config,
                                   .params = job->source.params,
                                   .tokenizer = job->source.tokenizer,
                                   .chat_format = job->chat_format};
}

/* Over the parameters that the step trains. */
static bool create_sample(struct trainer *trainer, struct error *err)
{
    const struct sample_options options = sample_options(&trainer->job);
    trainer->sample = sample_create(trainer->job.engine, trainer->step, &options, err);
    return trainer->sample != NULL;
}

/* What can be told before there is a run folder: all that the user may have to change. */
static bool open_job(struct trainer *trainer, const struct settings *settings,
                     const struct trainer_options *options, struct error *err)
{
    if (!trainer_job_open(&trainer->job, settings, options, err)) {
        return false;
    }
    const struct sample_options sampling = sample_options(&trainer->job);
    return settings->sample.prompts.n == 0 || sample_check(&sampling, err);
}

/* The loader comes last: nothing after its thread has started can fail. */
static bool start(struct trainer *trainer, struct error *err)
{
    struct job *job = &trainer->job;
    if (!trainer_save_check(trainer, err)) {
        return false;
    }
    const struct step_options options = trainer_job_step(job);
    const struct step_source source = job_params_source(job);
    trainer->step = step_create(job->engine, &options, &source, err);
    if (trainer->step == NULL || !step_load(trainer->step, err)) {
        return false;
    }
    if (job->settings->sample.prompts.n > 0 && !create_sample(trainer, err)) {
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
    const struct settings *settings = job->settings;
    trainer->loss_guard = (struct outlier){.z = settings->train.outlier_z,
                                           .window = settings->train.outlier_window};
    trainer->norm_guard = trainer->loss_guard;
    trainer->peak_gflops = machine_peak_gflops(backend_describe(job->engine));
    make_lists(trainer);
    trainer->early_stop = (struct early_stop){
        .patience = job->settings->eval.patience,
        .min_delta = job->settings->eval.min_delta,
    };
    return true;
}

/* ---- loop ---- */

/* A signal between two programs is seen here, one inside of them by the engine. */
static bool run_steps(struct trainer *trainer, struct error *err)
{
    bool is_end = false;
    const struct job *job = &trainer->job;
    while (!is_end && !trainer->is_stopped_early &&
           (job->has_estimated_steps || trainer->step_number < job->n_steps)) {
        if (!interrupt_check(err) || !trainer_step(trainer, &is_end, err)) {
            return false;
        }
    }
    return true;
}

/* The first evaluation, before any step, is what the last one is compared with. */
static bool train(struct trainer *trainer, struct error *err)
{
    trainer->started_ns = clock_now_ns();
    if (trainer->job.has_eval) {
        struct metrics metrics = {0};
        if (!trainer_eval(trainer, &metrics, err)) {
            return false;
        }
        trainer->first_eval_loss = metrics.eval_loss;
    }
    if (trainer->sample != NULL &&
        !sample_run(trainer->sample, 0, trainer->folder.samples, err)) {
        return false;
    }
    trainer->epoch_started_ns = clock_now_ns();
    progress_begin(&trainer->progress, trainer->job.options->is_quiet ? NULL : stderr,
                   "training", trainer->job.n_steps);
    const bool done = run_steps(trainer, err);
    progress_end(&trainer->progress);
    return done;
}

/* ---- end ---- */

/* Whether the work ended because somebody asked for it, and not for a fault. */
static bool is_stopped(const struct error *err)
{
    return interrupt_requested() != 0 &&
           (err->kind == ERROR_INTERRUPTED || err->kind == ERROR_CANCELLED);
}

/* The table to standard output: it is what was asked for, not a log line. The trace into
 * the run folder. Nothing unless profiles. */
static bool tell_profile(struct trainer *trainer, struct error *err)
{
    if (!trainer->job.options->profiles) {
        return true;
    }
    str_clear(&trainer->line);
    backend_profile_print(trainer->job.engine, &trainer->line);
    fputs(str_text(&trainer->line), stdout);
    fflush(stdout);
    char *path = file_join(trainer->folder.path, "trace.json");
    const bool done = backend_trace_write(trainer->job.engine, path, err);
    if (done) {
        log_note("Trace of the first steps: %s (for ui.perfetto.dev)", path);
    }
    mem_free(path);
    return done;
}

/* What a run that was stopped has learned is kept: the model of the last completed
 * update. Says where, as the error that ends the program. */
static bool keep_stopped(struct trainer *trainer, struct error *err)
{
    const char *signal_name = interrupt_name();
    struct error reason;
    if (interrupt_check(&reason)) {
        return true; /* taken back meanwhile */
    }
    if (trainer->step == NULL || step_n_updates(trainer->step) == 0) {
        return error_set(err, reason.kind,
                         "stopped by %s before the first update: no model was written",
                         signal_name);
    }
    const long long step = (long long)trainer->step_number;
    if (!trainer->job.settings->train.save_model) {
        return error_set(err, reason.kind,
                         "stopped by %s after step %lld; train.save_model is false: no "
                         "model was written",
                         signal_name, step);
    }
    if (!trainer_save_latest(trainer, err)) {
        return error_wrap(err, "stopped by %s after step %lld", signal_name, step);
    }
    trainer_report_end(trainer, signal_name);
    if (!tell_profile(trainer, err)) {
        return false;
    }
    return error_set(err, reason.kind,
                     "stopped by %s after step %lld of %lld; the model of that step is "
                     "%s/%s",
                     signal_name, step, (long long)trainer->job.n_steps,
                     trainer->folder.path, trainer_save_name(trainer));
}

/* Where every step was skipped there is no result: the model is the one that the run was
 * started with. */
static bool check_learned(const struct trainer *trainer, struct error *err)
{
    return step_n_updates(trainer->step) > 0 ||
           error_set(
               err, ERROR_FAILED,
               "all %lld step%s had a loss or gradient that is not finite: nothing "
               "was learned and no model was written; lower train.optimizer.lr, or "
               "look at the rows named in the log",
               (long long)trainer->step_number, str_plural(trainer->step_number));
}

/* A signal that comes while the model is written waits for it, and still counts. */
static bool finish(struct trainer *trainer, struct error *err)
{
    if (!check_learned(trainer, err)) {
        return false;
    }
    if (trainer->job.settings->train.save_model && !trainer_save_latest(trainer, err)) {
        return false;
    }
    trainer_report_end(trainer, NULL);
    trainer->is_complete = true;
    if (!tell_profile(trainer, err)) {
        return false;
    }
    struct error reason;
    return interrupt_check(&reason) ||
           error_set(err, reason.kind,
                     "%s came after the last step: the run is complete",
                     interrupt_name());
}

/* The folder is made after everything else has been checked; all that is opened is
 * closed at the end, in whatever state. */
bool trainer_run(const struct settings *settings, const struct trainer_options *options,
                 struct error *err)
{
    struct trainer trainer = {.first_eval_loss = (double)NAN,
                              .last_eval_loss = (double)NAN,
                              .best_loss = (double)NAN,
                              .first_loss = (double)NAN,
                              .last_loss = (double)NAN};
    bool done = false;
    if (!options->is_dry) {
        run_folder_hold_log(&trainer.folder);
    }
    trainer_report_first(settings, options->is_dry);
    /* A dry run leaves the folder alone, so an existing one is no matter. */
    if ((!options->is_dry && !run_folder_check(settings, options->overwrites, err)) ||
        !open_job(&trainer, settings, options, err)) {
        goto end;
    }
    if (options->is_dry) {
        trainer_report_start(&trainer);
        trainer_plan_tell(&trainer.job);
        if (!run_folder_check(settings, options->overwrites, err)) {
            log_warning("a real run would be refused: %s", err->message);
        }
        trainer_report_dry(&trainer.job);
        done = true;
        goto end;
    }
    if (!run_folder_create(&trainer.folder, settings, options->overwrites, err)) {
        goto end;
    }
    trainer_report_start(&trainer);
    if (!start(&trainer, err) || !train(&trainer, err) || !finish(&trainer, err)) {
        goto end;
    }
    done = true;

end:
    if (!done && !trainer.is_complete && is_stopped(err)) {
        done = keep_stopped(&trainer, err);
    }
    if (!done) {
        run_folder_note_error(&trainer.folder, err);
    }
    str_deinit(&trainer.line);
    free_lists(&trainer);
    loader_destroy(trainer.loader);
    sample_destroy(trainer.sample);
    step_destroy(trainer.step);
    trainer_job_close(&trainer.job);
    run_folder_close(&trainer.folder);
    return done;
}
