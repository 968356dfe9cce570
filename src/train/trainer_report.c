/*
 * trainer_report - what a run says to people: its first lines, its epochs, its end.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "train/job_params.h"
#include "train/trainer_parts.h"

/* How much of the model is learned. */
static void say_trained(const struct job *job, char *text, size_t size)
{
    const long long n = (long long)job->n_trained;
    if (job_params_has_lora(job)) {
        /* Adapters are additional: their share is of the model that they change. */
        const double share = 100.0 * (double)n / (double)job->source.params->n_elements;
        snprintf(text, size, "%lld of adapters of rank %lld trained (%.2g %%)", n,
                 (long long)job->lora.rank, share);
    } else {
        snprintf(text, size, "%lld of them trained", n);
    }
}

/* Before anything is read: what is about to start. */
void trainer_report_first(const struct settings *settings, bool is_dry)
{
    const char *engine = NULL;
    switch ((enum engine_kind)settings->engine) {
    case ENGINE_CPU:
        engine = "cpu";
        break;
    }
    log_note("%s: model=%s, engine=%s, ranks=1",
             is_dry ? "Checking fine-tuning" : "Starting fine-tuning", settings->model,
             engine);
}

/* What was found and chosen: enough to see what runs. */
void trainer_report_start(const struct trainer *trainer)
{
    const struct job *job = &trainer->job;
    char planned[24];
    char mapped[24];
    char trained[100];
    say_trained(job, trained, sizeof(trained));
    str_format_bytes(planned, (double)job->plan_bytes);
    log_note("Engine: %s", backend_describe(job->engine));
    log_note("%s, %lld parameters, %s; %s planned",
             model_family_name(job->source.config.family),
             (long long)job->source.params->n_elements, trained, planned);
    /* Single numbers of a layer are not worth a line. */
    if (job_params_mapped_bytes(job) > (size_t)1 << 20) {
        str_format_bytes(mapped, (double)job_params_mapped_bytes(job));
        log_note("%s of frozen weights are read in place, from the model's file",
                 mapped);
    }
    if (job->settings->precision == PRECISION_BF16 &&
        job->settings->train.rounding == ROUNDING_NEAREST) {
        log_warning(
            "in bf16, rounded to nearest, a weight loses each update below 1/512 "
            "of its size: train.rounding stochastic keeps them on average, "
            "precision bf16-compute exactly");
    }
    const int64_t row_tokens = job->settings->data.row_tokens;
    log_note("%s%lld step%s of %d row%s of %lld token%s, %d row%s a pass%s",
             job->has_estimated_steps ? "about " : "", (long long)job->n_steps,
             str_plural(job->n_steps), (int)job->batch_rows,
             str_plural(job->batch_rows), (long long)row_tokens, str_plural(row_tokens),
             (int)job->micro_rows, str_plural(job->micro_rows),
             job->recomputes ? ", activations recomputed" : "");
}

static bool has_new_cache(const struct records *records)
{
    bool has_new = false;
    for (int32_t i = 0; i < records->n_sources; i++) {
        const struct records_source *source = &records->sources[i];
        has_new = has_new || (source->is_kept && !source->is_cached);
    }
    return has_new;
}

/* Rows that are tokenised for the check are kept: the run that follows begins at once. */
void trainer_report_dry(const struct job *job)
{
    struct error ignored;
    const bool has_new = has_new_cache(&job->train) || has_new_cache(&job->eval);
    char *folder =
        has_new ? records_cache_folder(job->settings->data.cache, &ignored) : NULL;
    if (folder == NULL) {
        log_note("Dry run: settings, model and data are in order; nothing was trained "
                 "or written");
    } else {
        log_note("Dry run: settings, model and data are in order; nothing was trained; "
                 "the token cache was written to %s",
                 folder);
    }
    mem_free(folder);
}

/* Skipped steps count in time and tokens, not in the loss. */
void trainer_report_epoch(struct trainer *trainer)
{
    const double seconds = clock_since_ms(trainer->epoch_started_ns) / 1000.0;
    progress_pause(&trainer->progress);
    log_note("Epoch %lld/%lld | loss=%.4f | epoch_time=%.2fs | tokens/s=%.1f",
             (long long)trainer->epoch + 1,
             /* An estimate may have been too low. */
             (long long)base_max(trainer->job.n_planned_epochs, trainer->epoch + 1),
             /* NaN where every step was skipped. */
             metrics_plain(trainer->epoch_loss_sum / trainer->epoch_weight_sum),
             seconds,
             metrics_per_second(trainer->epoch_real_tokens, trainer->epoch_step_ms));
    trainer->epoch_started_ns = clock_now_ns();
    trainer->epoch_loss_sum = 0.0;
    trainer->epoch_weight_sum = 0.0;
    trainer->epoch_step_ms = 0.0;
    trainer->epoch_real_tokens = 0;
}

/* What was learned, in numbers. */
static void report_losses(const struct trainer *trainer, const char *stopped_by)
{
    char duration[24];
    clock_format_duration(duration, clock_since_ms(trainer->started_ns) / 1000.0);
    const long long step = (long long)trainer->step_number;
    if (stopped_by == NULL) {
        log_note("Done: %lld step%s in %s, training loss %.4f -> %.4f", step,
                 str_plural(step), duration, trainer->first_loss, trainer->last_loss);
    } else {
        log_note("Stopped after step %lld of %lld by %s, in %s, training loss %.4f -> "
                 "%.4f",
                 step, (long long)trainer->job.n_steps, stopped_by, duration,
                 trainer->first_loss, trainer->last_loss);
    }
    if (!isnan(trainer->first_eval_loss)) {
        log_note("Held-out loss %.4f -> %.4f", trainer->first_eval_loss,
                 trainer->last_eval_loss);
    }
    if (trainer->best_loss > trainer->first_eval_loss) {
        log_warning("the held-out loss was never below that of the model before "
                    "training");
    }
    if (trainer->n_skipped > 0) {
        log_warning("%lld step%s skipped: loss or gradient not finite, or an outlier",
                    (long long)trainer->n_skipped,
                    trainer->n_skipped == 1 ? " was" : "s were");
    }
}

/* One word of a shell's command line: as it is where that is safe, in $'...' where a
 * line ends in it. */
static void add_quoted(struct str *out, const char *text)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789_-./:=@%+,";
    if (*text != '\0' && strspn(text, safe) == strlen(text)) {
        str_add(out, text);
        return;
    }
    const bool has_lines = strpbrk(text, "\n\r\t") != NULL;
    str_add(out, has_lines ? "$'" : "'");
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\'') {
            str_add(out, has_lines ? "\\'" : "'\\''");
        } else if (*c == '\n') {
            str_add(out, "\\n");
        } else if (*c == '\r') {
            str_add(out, "\\r");
        } else if (*c == '\t') {
            str_add(out, "\\t");
        } else if (*c == '\\' && has_lines) {
            str_add(out, "\\\\");
        } else {
            str_add_char(out, *c);
        }
    }
    str_add_char(out, '\'');
}

/* A template with its fields as placeholders; {{ is a brace. */
static void add_template(struct str *out, const char *text)
{
    struct str plain = {0};
    for (const char *c = text; *c != '\0'; c++) {
        str_add_char(&plain, *c);
        c += (*c == '{' || *c == '}') && c[1] == *c;
    }
    add_quoted(out, str_text(&plain));
    str_deinit(&plain);
}

/* A command that asks the better model in the way its rows did: generate without a prompt
 * is a chat, which only chat rows have taught. */
static void report_try(const struct trainer *trainer)
{
    const struct settings *settings = trainer->job.settings;
    const bool is_best_better = trainer->best_updates > 0 &&
                                trainer->best_updates != step_n_updates(trainer->step);
    char *path = file_join(trainer->folder.path,
                           is_best_better ? "best" : trainer_save_name(trainer));
    struct str line = {0};
    if (job_params_has_lora(&trainer->job)) {
        add_quoted(&line, settings->model);
        str_add(&line, " --adapter ");
    }
    add_quoted(&line, path);
    switch ((enum records_format)settings->data.format) {
    case RECORDS_INSTRUCTION:
        str_add(&line, " --prompt ");
        add_template(&line, settings->data.template_text);
        break;
    case RECORDS_PROMPT_COMPLETION:
        str_add(&line, " --prompt '{a prompt like those of the rows}'");
        break;
    case RECORDS_TEXT:
        str_add(&line, " --prompt '{the beginning of a text}'");
        break;
    case RECORDS_CHAT:
    case RECORDS_TOKENS:
        break;
    }
    log_note("Try it:   lathe generate %s", str_text(&line));
    str_deinit(&line);
    mem_free(path);
}

/* Where everything is, and what can be done with it. */
static void report_places(const struct trainer *trainer)
{
    const struct settings *settings = trainer->job.settings;
    const char *run = trainer->folder.path;
    const char *name = trainer_save_name(trainer);
    if (settings->train.save_model) {
        log_note("Result:   %s/%s", run, name);
    }
    if (trainer->best_updates > 0) {
        log_note("Best:     %s/best (held-out loss %.4f after step %lld)", run,
                 trainer->best_loss, (long long)trainer->best_step);
    }
    log_note("Metrics:  %s/metrics.jsonl (lathe plot %s)", run, run);
    if (settings->sample.prompts.n > 0) {
        log_note("Samples:  %s/samples.jsonl", run);
    }
    log_note("Log:      %s/log.txt", run);
    if (settings->train.save_model) {
        report_try(trainer);
    }
}

/* The last lines of a run. */
void trainer_report_end(const struct trainer *trainer, const char *stopped_by)
{
    char peak[24];
    str_format_bytes(peak, (double)mem_peak_resident_bytes());
    report_losses(trainer, stopped_by);
    log_note("Run folder: %s (peak memory %s)", trainer->folder.path, peak);
    report_places(trainer);
}
