/*
 * run - settings, and training as they say.
 *
 *     struct lathe_settings *settings = lathe_settings_create();
 *     if (!lathe_settings_read_file(settings, "run.yaml", &error) ||
 *         !lathe_settings_set(settings, "train.epochs", "3", &error) ||
 *         !lathe_train(settings, LATHE_TRAIN_OVERWRITE, on_step, NULL, &error)) ...
 *     lathe_settings_destroy(settings);
 *
 * The keys are those of a run file: `lathe settings` and docs/settings.md list them.
 * Afterwards the run folder (setting `run`) holds model/, the tuned model, for
 * lathe_model_open; a run with LoRA leaves adapter/ instead, which lathe_model_open takes
 * beside the model that was tuned. With held-out data best/ is the model, or adapter, with
 * the lowest held-out loss.
 */
#ifndef LATHE_RUN_H
#define LATHE_RUN_H

#include "lathe/common.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One thread at a time per object; reading it (print, check, train) changes nothing. */
struct lathe_settings;

/* Defaults for everything; never NULL. */
LATHE_API struct lathe_settings *lathe_settings_create(void);
LATHE_API void lathe_settings_destroy(struct lathe_settings *settings); /* takes NULL */

/* Takes over what a run file (YAML, at most 1 MiB) says; other settings stay. An unknown
 * key or a wrong value is LATHE_USAGE with line, column and the nearest key. */
LATHE_API bool lathe_settings_read_file(struct lathe_settings *settings,
                                        const char *path, struct lathe_error *error);

/* The same from yaml[0 .. length); `where` names it in messages. */
LATHE_API bool lathe_settings_read_text(struct lathe_settings *settings,
                                        const char *yaml, size_t length,
                                        const char *where, struct lathe_error *error);

/* LATHE_TRAIN_EPOCHS=3 in the environment, as the program takes it. */
LATHE_API bool lathe_settings_read_environment(struct lathe_settings *settings,
                                               struct lathe_error *error);

/* One setting: key "train.optimizer.lr", value as it would stand in a run file ("2e-5",
 * "[a, b]", "null"). */
LATHE_API bool lathe_settings_set(struct lathe_settings *settings, const char *key,
                                  const char *value, struct lathe_error *error);

/* False when settings are missing or do not go together. lathe_train begins with it. */
LATHE_API bool lathe_settings_check(const struct lathe_settings *settings,
                                    struct lathe_error *error);

/* All settings as a run file that gives the same settings again; NUL-terminated, for
 * lathe_free. */
LATHE_API char *lathe_settings_print(const struct lathe_settings *settings);

/* The table of settings, for forms and help: key number i from 0 on, NULL behind the last
 * one; and what a key means, its choices ("a | b") or NULL where it is free, NULL for an
 * unknown key. Strings of the library; any thread. */
LATHE_API const char *lathe_settings_key(size_t i);
LATHE_API const char *lathe_settings_help(const char *key);
LATHE_API const char *lathe_settings_choices(const char *key);

/* What an optimizer step was like; grows at its end. NaN: not known at this step. */
struct lathe_step {
    int64_t step, n_steps; /* counted from 1; of the run */
    double epoch;          /* epochs done, a fraction */
    double loss;           /* mean over the step's targets, in nats */
    double eval_loss;      /* held-out loss, at steps that evaluate */
    double grad_norm;      /* before clipping */
    double lr;             /* learning rate */
    int64_t n_targets;     /* tokens with loss */
    int64_t n_real_tokens; /* tokens that are no padding */
    double step_ms;        /* without evaluation */
    size_t memory_bytes;   /* resident, of the process */
    bool is_skipped;       /* loss or gradient not finite, or an outlier: no update */
};

/*
 * Called by lathe_train after each step, on its thread; *step is valid during the call.
 * False ends the run as lathe_train_stop does.
 */
typedef bool (*lathe_step_fn)(void *context, const struct lathe_step *step);

/* For `flags`, or-ed together. */
enum lathe_train_flag {
    LATHE_TRAIN_OVERWRITE = 1, /* replace the run folder, if it is one of lathe's */
    LATHE_TRAIN_DRY_RUN = 2    /* check settings, data and model; train nothing */
};

/*
 * A whole run: reads model and data, trains, evaluates, writes the run folder. on_step may
 * be NULL; `context` is passed on to it. Notes go to the log handler; nothing else is
 * shown. Blocks until the run has ended; one run at a time per process (a second one is
 * LATHE_FAILED).
 *
 * A dry run tells the log handler, as notes, what a run would take: parameters, memory by
 * purpose, steps, time, and what rows become. It makes no run folder; rows that it
 * tokenises go to the token cache (setting data.cache), where the run finds them.
 */
LATHE_API bool lathe_train(const struct lathe_settings *settings, unsigned flags,
                           lathe_step_fn on_step, void *context,
                           struct lathe_error *error);

/*
 * Asks the running lathe_train to end: work in flight is abandoned, the model of the last
 * completed update is written, and lathe_train fails with LATHE_INTERRUPTED. From any
 * thread, and from a signal handler. Without a run it does nothing.
 */
LATHE_API void lathe_train_stop(void);

#ifdef __cplusplus
}
#endif

#endif
