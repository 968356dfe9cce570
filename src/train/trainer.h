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
struct settings;

struct trainer_options {
    bool overwrites; /* an existing run folder is replaced */
    bool is_dry;     /* check and report, train nothing, write nothing */
    bool profiles;   /* print time per kernel at the end */
};

/* Settings are checked and complete. */
MUST_USE bool trainer_run(const struct settings *settings,
                          const struct trainer_options *options, struct error *err);

#endif
