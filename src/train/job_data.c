/*
 * job_data - see the header.
 */
#include "train/job_data.h"

#include "base/error.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/str.h"
#include "data/hold_out.h"
#include "train/chat_choice.h"
#include "train/progress.h"
#include "train/settings_data.h"
#include "train/trainer_job.h"

/* The format of turns is asked for only where there are turns: it may warn. */
bool job_data_options(const struct settings *settings, const char *model,
                      const struct tokenizer *tokenizer, int32_t n_vocabulary,
                      struct records_options *options, struct error *err)
{
    *options = (struct records_options){
        .format = (enum records_format)settings->data.format,
        .template_text = settings->data.template_text,
        .response = settings->data.response,
        .ignore = settings->data.ignore.items,
        .n_ignore = (size_t)settings->data.ignore.n,
        .ends_with_eos = settings->data.end == DATA_END_EOS,
        .loss_on = (enum records_loss_on)settings->data.loss_on,
        .overlong = (enum records_overlong)settings->data.overlong,
        .row_tokens = (int32_t)settings->data.row_tokens,
        .max_bad_rows = settings->data.max_bad_rows,
        .n_vocabulary = n_vocabulary,
    };
    return options->format != RECORDS_CHAT ||
           chat_choice(model, tokenizer,
                       (enum chat_format_choice)settings->data.chat_format,
                       &options->chat_format, err);
}

/* ---- reading ---- */

/* Files from here on are worth a line of progress. */
enum { SHOWN_FROM_BYTES = 8 << 20 };

/* The reading of the files of one run. */
struct job_reading {
    struct job *job;
    struct records_options options;
    struct pool *pool;
    struct progress progress; /* of the file that is being read */
    bool is_shown;            /* progress has begun */
};

/* Counts in MB: nobody reads bytes. */
static void show_progress(void *context, const char *path, int64_t done, int64_t total)
{
    struct job_reading *reading = context;
    const int64_t unit = 1000000;
    if (total < SHOWN_FROM_BYTES) {
        return;
    }
    if (!reading->is_shown) {
        progress_begin_in(&reading->progress,
                          reading->job->options->is_quiet ? NULL : stderr, "tokenising",
                          total / unit, "MB");
        reading->is_shown = true;
    }
    progress_update(&reading->progress, done / unit, path);
}

/* Says what became of the rows of a file. */
static void report_source(const struct records_source *source)
{
    const struct records_counts *counts = &source->counts;
    const long long n_rows = (long long)counts->n_rows;
    const struct {
        int64_t n;
        bool is_warning; /* something is lost that may be missed */
        const char *what;
    } lines[] = {
        {counts->n_bad, true, "broken, left out"},
        {counts->n_truncated, true, "longer than data.row_tokens, cut"},
        {counts->n_too_long, true, "longer than data.row_tokens, left out"},
        {counts->n_split, false, "longer than data.row_tokens, split"},
        {counts->n_dropped, true, "without a token with loss, left out"},
        {counts->n_lost_thoughts, false,
         "with a thought of the model, which its template leaves out"},
    };
    log_note("%s: %lld example%s, %lld token%s, %lld with loss%s", source->name,
             (long long)counts->n_examples, str_plural(counts->n_examples),
             (long long)counts->n_tokens, str_plural(counts->n_tokens),
             (long long)counts->n_targets,
             source->is_cached ? " (tokenised by an earlier run)" : "");
    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++) {
        if (lines[i].n > 0 && lines[i].is_warning) {
            log_warning("%s: %lld of %lld row%s: %s", source->name,
                        (long long)lines[i].n, n_rows, str_plural(n_rows),
                        lines[i].what);
        } else if (lines[i].n > 0) {
            log_note("%s: %lld of %lld row%s: %s", source->name, (long long)lines[i].n,
                     n_rows, str_plural(n_rows), lines[i].what);
        }
    }
    if (source->weight != 1.0) {
        log_note("%s: an epoch takes its examples %g times (data.weights)",
                 source->name, source->weight);
    }
}

/* Appends one file. */
static bool read_file(struct job_reading *reading, const char *path, double weight,
                      int64_t max_rows, struct records *records, struct error *err)
{
    struct job *job = reading->job;
    reading->options.max_rows = max_rows;
    const struct records_reading how = {.pool = reading->pool,
                                        .cache_folder = job->settings->data.cache,
                                        .weight = weight,
                                        .progress = show_progress,
                                        .context = reading};
    const bool is_done = records_open_file(records, path, &reading->options,
                                           job->source.tokenizer, &how, err);
    if (reading->is_shown) {
        progress_end(&reading->progress);
        reading->is_shown = false;
    }
    if (!is_done) {
        return false;
    }
    const struct records_source *source = &records->sources[records->n_sources - 1];
    report_source(source);
    if (source->n == 0) {
        return error_set(err, ERROR_DATA, "%s: no row that can be learned from", path);
    }
    return true;
}

static bool read_train(struct job_reading *reading, struct error *err)
{
    struct job *job = reading->job;
    const struct string_list *files = &job->settings->data.train;
    for (int64_t i = 0; i < files->n; i++) {
        if (!read_file(reading, files->items[i], settings_data_weight(job->settings, i),
                       0, &job->train, err)) {
            return false;
        }
    }
    return true;
}

/* eval.max_rows is shared out, so that each file has a part in the held-out loss. */
static bool read_eval(struct job_reading *reading, struct error *err)
{
    struct job *job = reading->job;
    const struct string_list *files = &job->settings->data.eval;
    for (int64_t i = 0; i < files->n; i++) {
        const int64_t limit =
            hold_out_limit(job->settings->eval.max_rows, (int32_t)i, (int32_t)files->n);
        if (limit < 0) {
            log_warning("%s: eval.max_rows leaves no row for this file",
                        files->items[i]);
        } else if (!read_file(reading, files->items[i], 1.0, limit, &job->eval, err)) {
            return false;
        }
    }
    return true;
}

/* Without files of their own, held-out rows are taken from the training rows. */
static bool hold_out(struct job *job, struct error *err)
{
    const size_t n_all = job->train.n;
    hold_out_split(&job->train, job->settings->data.eval_share,
                   (uint64_t)job->settings->seed, job->settings->eval.max_rows,
                   &job->eval);
    if (job->eval.n == 0) {
        return error_set(err, ERROR_DATA,
                         "data.eval_share: no file of data.train has two rows, so none "
                         "can be held out");
    }
    log_note("Held out: %zu of %zu examples (data.eval_share %g)", job->eval.n, n_all,
             job->settings->data.eval_share);
    return true;
}

/* Held-out rows are read only where something will look at them. */
static bool read_all(struct job_reading *reading, struct error *err)
{
    struct job *job = reading->job;
    const struct settings *settings = job->settings;
    const bool is_evaluated =
        settings->eval.at_epoch_end || settings->eval.every_steps > 0;
    if (!read_train(reading, err)) {
        return false;
    }
    if (is_evaluated && settings->data.eval.n > 0) {
        job->has_eval = true;
        return read_eval(reading, err);
    }
    if (is_evaluated && settings->data.eval_share > 0.0) {
        job->has_eval = true;
        return hold_out(job, err);
    }
    return true;
}

/* The threads are for reading alone: the engine starts its own. */
bool job_data_open(struct job *job, struct error *err)
{
    const struct settings *settings = job->settings;
    if (settings->data.row_tokens > job->source.config.max_positions) {
        return error_set(err, ERROR_USAGE,
                         "data.row_tokens is %lld, the model goes to %lld",
                         (long long)settings->data.row_tokens,
                         (long long)job->source.config.max_positions);
    }
    struct job_reading reading = {.job = job};
    if (!job_data_options(settings, job->source.path, job->source.tokenizer,
                          (int32_t)job->source.config.V, &reading.options, err)) {
        return false;
    }
    job->chat_format = reading.options.chat_format;
    reading.pool = pool_create((int)settings->threads, err);
    const bool is_done = reading.pool != NULL && read_all(&reading, err);
    pool_destroy(reading.pool);
    return is_done;
}

/* Takes what open left, and a zeroed one. */
void job_data_close(struct job *job)
{
    records_deinit(&job->eval);
    records_deinit(&job->train);
}
