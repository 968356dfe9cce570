/*
 * job_data - see the header.
 */
#include "train/job_data.h"

#include "base/error.h"
#include "base/log.h"
#include "train/chat_choice.h"
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

/* Says what was read, and what was cut or left out. */
static bool read_records(struct job *job, const char *path,
                         const struct records_options *shared, int64_t max_rows,
                         struct records *records, struct error *err)
{
    struct records_options options = *shared;
    options.max_rows = max_rows;
    if (!records_read_file(records, path, &options, job->source.tokenizer, err)) {
        return false;
    }
    log_note("%s: %zu examples, %lld tokens, %lld with loss", path, records->n,
             (long long)records->counts.n_tokens, (long long)records->counts.n_targets);
    if (records->counts.n_truncated > 0) {
        log_warning("%s: %lld of %lld rows are longer than row_tokens = %lld and were "
                    "cut",
                    path, (long long)records->counts.n_truncated, (long long)records->counts.n_rows,
                    (long long)job->settings->data.row_tokens);
    }
    if (records->counts.n_dropped > 0) {
        log_warning("%s: %lld of %lld rows have no token with loss and were left out",
                    path, (long long)records->counts.n_dropped, (long long)records->counts.n_rows);
    }
    if (records->n == 0) {
        return error_set(err, ERROR_DATA, "%s: no row that can be learned from", path);
    }
    return true;
}

/* Held-out rows are read only where something will look at them. */
bool job_data_open(struct job *job, struct error *err)
{
    const struct settings *settings = job->settings;
    if (settings->data.row_tokens > job->source.config.max_positions) {
        return error_set(err, ERROR_USAGE,
                         "data.row_tokens is %lld, the model goes to %lld",
                         (long long)settings->data.row_tokens,
                         (long long)job->source.config.max_positions);
    }
    struct records_options options;
    if (!job_data_options(settings, job->source.path, job->source.tokenizer,
                          (int32_t)job->source.config.V, &options, err) ||
        !read_records(job, settings->data.train.items[0], &options, 0, &job->train,
                      err)) {
        return false;
    }
    job->has_eval = settings->data.eval.n > 0 &&
                    (settings->eval.at_epoch_end || settings->eval.every_steps > 0);
    return !job->has_eval || read_records(job, settings->data.eval.items[0], &options,
                                          settings->eval.max_rows, &job->eval, err);
}

/* Takes what open left, and a zeroed one. */
void job_data_close(struct job *job)
{
    records_deinit(&job->eval);
    records_deinit(&job->train);
}
