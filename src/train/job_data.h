/*
 * job_data - the rows of a run: from the settings to the examples of struct job.
 */
#ifndef TRAIN_JOB_DATA_H
#define TRAIN_JOB_DATA_H

#include "base/base.h"

struct error;
struct job;

/* Fills job->train, job->eval and job->has_eval; needs job->settings and job->source.
 * Says in the log what was read, cut and left out. */
MUST_USE bool job_data_open(struct job *job, struct error *err);
void job_data_close(struct job *job);

#endif
