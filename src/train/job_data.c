/*
 * job_data - see the header.
 */
#include "train/job_data.h"

#include "base/error.h"
#include "base/log.h"
#include "train/trainer_job.h"

/* What both data files have in common. */
static struct records_options records_options(const struct job *job)
{
    const struct settings *settings = job->settings;
    return (struct records_options){
        .format = (enum records_format)settings->data.format,
        .template_text = settings->data.template_text,
        .response = settings->data.response,
        .ignore = settings->data.ignore.items,
        .n_ignore = (size_t)settings->data.ignore.n,
        .ends_with_eos = settings->data.end == DATA_END_EOS,
        .loss_on = (enum records_loss_on)settings->data.loss_on,
        .row_tokens = (int32_t)settings->data.row_tokens,
        .n_vocabulary = (int32_t)job->source.config.V,
    };
}

/* Says what was read, and what was cut or left out. */
static bool read_records(struct job *job, const char *path, int64_t max_rows,
                         struct records *records, struct error *err)
{
    struct records_options options = records_options(job);
    options.max_rows = max_rows;
    if (!records_read_file(records, path, &options, job->source.tokenizer, err)) {
        return false;
    }
    log_note("%s: %zu examples, %lld tokens, %lld with loss", path, records->n,
             (long long)records->n_tokens, (long long)records->n_targets);
    if (records->n_truncated > 0) {
        log_warning("%s: %lld of %lld rows are longer than row_tokens = %lld and were "
                    "cut",
                    path, (long long)records->n_truncated, (long long)records->n_rows,
                    (long long)job->settings->data.row_tokens);
    }
    if (records->n_dropped > 0) {
        log_warning("%s: %lld of %lld rows have no token with loss and were left out",
                    path, (long long)records->n_dropped, (long long)records->n_rows);
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
    if (!read_records(job, settings->data.train.items[0], 0, &job->train, err)) {
        return false;
    }
    job->has_eval = settings->data.eval.n > 0 &&
                    (settings->eval.at_epoch_end || settings->eval.every_steps > 0);
    return !job->has_eval || read_records(job, settings->data.eval.items[0],
                                          settings->eval.max_rows, &job->eval, err);
}

/* Takes what open left, and a zeroed one. */
void job_data_close(struct job *job)
{
    records_deinit(&job->eval);
    records_deinit(&job->train);
}
