/*
 * trainer_job - what a run has opened and decided before the first step.
 */
#ifndef TRAIN_TRAINER_JOB_H
#define TRAIN_TRAINER_JOB_H

#include "backend/backend.h"
#include "data/loader.h"
#include "data/records.h"
#include "train/model_source.h"
#include "train/settings.h"
#include "train/step.h"
#include "train/tensor_groups.h"
#include "train/trainer.h"

struct job {
    const struct settings *settings; /* borrowed */
    const struct trainer_options *options;
    struct model_source source;   /* open until the job is closed */
    struct records train, eval;   /* token ids of all rows */
    bool has_eval;                /* `eval` has been read */
    enum chat_format chat_format; /* of chat rows */
    struct engine *engine;
    struct lora_options lora; /* of the adapters; rank 0: there are none */
    struct lora *adapter;     /* that the run goes on from, or NULL */
    bool *is_trainable;       /* [params->n] */
    enum dtype *stored;       /* [params->n] in memory, F32 or BF16 */
    bool has_ple_rows;        /* the per-layer table is frozen and stays in its file */
    struct tensor_groups groups; /* of the trained tensors */
    int32_t batch_rows;          /* of an optimizer step */
    int32_t micro_rows;          /* of one pass */
    int32_t train_C, eval_C;     /* entries of loss_rows of a pass */
    bool recomputes; /* activations inside a layer again in the backward pass */
    int64_t n_steps, n_epochs; /* n_epochs 0: only steps count */
    int64_t n_planned_epochs;  /* that these steps begin; never 0 */
    bool has_estimated_steps;  /* too many to walk: the loader says when it ends */
    int64_t n_trained;         /* elements */
    size_t plan_bytes;         /* state and working memory that the plan needs */
    size_t working_bytes;      /* of it, working memory of the programs */
};

/* Opens and checks everything; on failure *job can still be closed. */
MUST_USE bool trainer_job_open(struct job *job, const struct settings *settings,
                               const struct trainer_options *options,
                               struct error *err);
void trainer_job_close(struct job *job);

/* Sets n_steps, train_C, eval_C and what else follows from job->micro_rows. */
typedef void (*trainer_job_measure_fn)(struct job *job);

/* Part of opening a job: chooses micro_rows and recomputes for the memory limit and sets
 * what follows from them. The engine is there, and batch_rows. */
MUST_USE bool trainer_job_choose_pass(struct job *job, trainer_job_measure_fn measure,
                                      struct error *err);

/* The options of the training loader. */
struct loader_options trainer_job_loading(const struct job *job);

/* The step for the choices made. */
struct step_options trainer_job_step(const struct job *job);

#endif
