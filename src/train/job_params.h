/*
 * job_params - the tensors of a run: its adapters, which tensors are trained, in which
 * number format each is in memory, where their first values come from, and what is
 * written at the end.
 *
 * With LoRA the table of job->source gets the adapters' rows, only these are trained,
 * and the result is an adapter folder instead of a model. Frozen tensors that lie in
 * the model's file as they are needed are read there and take no memory of the run.
 */
#ifndef TRAIN_JOB_PARAMS_H
#define TRAIN_JOB_PARAMS_H

#include "train/step.h"

struct error;
struct job;

/* Needs job->settings and job->source; fills job->lora, adapter, is_trainable, stored,
 * has_ple_rows and n_trained. */
MUST_USE bool job_params_open(struct job *job, struct error *err);
void job_params_close(struct job *job);

/* Whether adapters are trained. */
bool job_params_has_lora(const struct job *job);

/* Gives the tensors' first values, and the rows of a frozen per-layer table; the job
 * outlives the step. */
struct step_source job_params_source(const struct job *job);

/* Bytes of parameters, gradient sums and moments in memory of the run, and of frozen
 * parameters that are read in the model's file. */
size_t job_params_state_bytes(const struct job *job);
size_t job_params_mapped_bytes(const struct job *job);

/* What the run writes as its result: name of the folder, and about how many bytes. */
const char *job_params_result_name(const struct job *job);
size_t job_params_result_bytes(const struct job *job);

/* Writes it as the folder `path`, with the parameters of `step` as they are now. */
MUST_USE bool job_params_write(const struct job *job, struct step *step,
                               const char *path, struct error *err);

#endif
