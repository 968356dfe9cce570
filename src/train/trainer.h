/*
 * trainer - a whole run: from settings to a tuned model in a run folder.
 *
 * Reads model and data, chooses what the settings leave open (rows of one pass,
 * recomputation), trains, evaluates, writes metrics and at the end the model.
 * Everything a user can get wrong is checked before the run folder is made.
 */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "base/base.h"

struct error;
struct metrics;
struct settings;

/* Called after each optimizer step with its figures; false asks for the end of the run, as
 * SIGINT does (interrupt.h). */
typedef bool (*trainer_visit_fn)(void *context, const struct metrics *metrics,
                                 int64_t n_steps);

struct trainer_options {
    bool overwrites; /* an existing run folder is replaced */
    bool is_dry;     /* check and tell the plan; only the token cache is written */
    bool profiles;   /* at the end print time per kernel, and write trace.json */
    bool is_quiet;   /* no progress on stderr; the plan to the log, not stdout */
    trainer_visit_fn visit; /* or NULL */
    void *context;          /* of visit */
};

/* Settings are checked and complete. */
MUST_USE bool trainer_run(const struct settings *settings,
                          const struct trainer_options *options, struct error *err);

#endif
