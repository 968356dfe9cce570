/*
 * job_data - the rows of a run: from the settings to the examples of struct job.
 */
#ifndef TRAIN_JOB_DATA_H
#define TRAIN_JOB_DATA_H

#include "base/base.h"

struct error;
struct job;
struct records_options;
struct settings;
struct tokenizer;

/*
 * How rows are read, from the settings of a run, of which *options borrows texts. For
 * chat rows the turn format is chosen, of which the log may say something (chat_choice.h).
 * `model` is its path; n_vocabulary that of the model, or 0.
 */
MUST_USE bool job_data_options(const struct settings *settings, const char *model,
                               const struct tokenizer *tokenizer, int32_t n_vocabulary,
                               struct records_options *options, struct error *err);

/* Fills job->train, job->eval and job->has_eval; needs job->settings and job->source.
 * Says in the log what was read, cut and left out. */
MUST_USE bool job_data_open(struct job *job, struct error *err);
void job_data_close(struct job *job);

#endif
