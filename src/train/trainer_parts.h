/*
 * trainer_parts - what the files of the trainer share: the run's state, and what each
 * of them does with it.
 *
 *     trainer.c          start, loop, end
 *     trainer_step.c     one optimizer step
 *     trainer_eval.c     held-out loss
 *     trainer_save.c     models on disk
 *     trainer_report.c   lines for people
 *     trainer_plan.c     what a dry run tells
 */
#ifndef TRAIN_TRAINER_PARTS_H
#define TRAIN_TRAINER_PARTS_H

#include "base/str.h"
#include "train/early_stop.h"
#include "train/flops.h"
#include "train/metrics.h"
#include "train/outlier.h"
#include "train/progress.h"
#include "train/run_folder.h"
#include "train/sample.h"
#include "train/schedule.h"
#include "train/trainer_job.h"

struct trainer {
    struct job job; /* model, data, engine and what was decided */
    struct run_folder folder;
    struct step *step;        /* state and programs */
    struct sample *sample;    /* answers to fixed prompts; NULL: none are wanted */
    struct loader *loader;    /* training rows, in the order of the run */
    struct schedule schedule; /* of the learning rate */
    struct progress progress;
    struct str line;                       /* scratch */
    struct step_group *rates;              /* [job.groups.n] of the step at hand */
    struct metrics_group *group_metrics;   /* [job.groups.n] */
    struct metrics_source *source_metrics; /* [job.eval.n_sources] */
    double *source_loss;                   /* [job.eval.n_sources] */
    struct outlier loss_guard, norm_guard; /* train.outlier_z */
    double peak_gflops;                    /* of the machine; 0: never measured */
    int64_t step_number;                   /* of the last step, from 1 */
    int64_t n_skipped_in_row;              /* steps without update, the last ones */
    int64_t n_skipped;                     /* in the whole run */
    int64_t epoch;                         /* that the last step belonged to, from 0 */

    /* Sums over the epoch so far. */
    int64_t epoch_started_ns;
    double epoch_loss_sum, epoch_weight_sum, epoch_step_ms;
    int64_t epoch_real_tokens;

    double first_eval_loss, last_eval_loss; /* NaN: none */
    struct early_stop early_stop;           /* eval.patience */
    bool is_stopped_early;                  /* by it */
    double best_loss;     /* lowest held-out loss after an update; NaN: none */
    int64_t best_step;    /* after which it was */
    int64_t best_updates; /* updates that the model of best/ has had; 0: no best/ */
    double first_loss, last_loss; /* of steps; NaN: none */
    int64_t started_ns;
    bool is_complete; /* the result is written */
};

/* One optimizer step with what belongs to it; *is_end: there was none left. */
MUST_USE bool trainer_step(struct trainer *trainer, bool *is_end, struct error *err);

/* Held-out loss now, into *metrics and the log. Keeps the model if it is the best so far, and
 * sets trainer->is_stopped_early when there was no better one for too long. */
MUST_USE bool trainer_eval(struct trainer *trainer, struct metrics *metrics,
                           struct error *err);

/* False where the disk has no room for what the run will write. */
MUST_USE bool trainer_save_check(const struct trainer *trainer, struct error *err);

/* Whether models with the lowest held-out loss are kept in best/. */
bool trainer_save_keeps_best(const struct trainer *trainer);

/* The model as it is now becomes best/, in one move; the one before it goes. */
MUST_USE bool trainer_save_best(struct trainer *trainer, struct error *err);

/* The model as it is now, as the result of the run. Where it is the best one, too, best/
 * becomes a link to it. */
MUST_USE bool trainer_save_latest(struct trainer *trainer, struct error *err);

/* Name of the result in the run folder. */
const char *trainer_save_name(const struct trainer *trainer);

/* The first line of all, before anything is read. */
void trainer_report_first(const struct settings *settings, bool is_dry);

/* What was found and chosen: enough to see what runs. */
void trainer_report_start(const struct trainer *trainer);

/* The last line of a dry run: what it has written, if anything. */
void trainer_report_dry(const struct job *job);

/* The line of an epoch that has ended; its sums begin anew. */
void trainer_report_epoch(struct trainer *trainer);

/* The last lines of a run; stopped_by: the name of the signal that ended it, or NULL. */
void trainer_report_end(const struct trainer *trainer, const char *stopped_by);

/* What a dry run is for: parameters, memory, work and rows; on standard output, or line by
 * line in the log where the run is to be quiet. */
void trainer_plan_tell(const struct job *job);

#endif
