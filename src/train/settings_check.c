/*
 * settings_check - what one key alone cannot tell: things that are missing, or do not go
 * together. Those of data.* are in settings_data.c.
 */
#include <stddef.h>

#include "base/error.h"
#include "train/settings.h"
#include "train/settings_data.h"

/* A key of lora.* that is not as it is by default, or NULL: without adapters it would do
 * nothing, in silence. The defaults are those of settings.def. */
static const char *given_for_adapters(const struct settings *settings)
{
    struct settings usual;
    settings_init(&usual);
    const char *key = settings->lora.targets.n > 0               ? "targets"
                      : settings->lora.dropout > 0.0             ? "dropout"
                      : settings->lora.alpha != usual.lora.alpha ? "alpha"
                      : settings->lora.base != usual.lora.base   ? "base"
                                                                 : NULL;
    settings_deinit(&usual);
    return key;
}

/* Adapters have a rank of their own, or that of the adapter to go on from. */
static bool check_lora(const struct settings *settings, struct error *err)
{
    if (settings->lora.adapter != NULL && settings->lora.targets.n > 0) {
        return error_set(err, ERROR_USAGE,
                         "lora.targets and lora.adapter do not go together: the "
                         "adapter says which weights it changes");
    }
    const char *given = given_for_adapters(settings);
    if (settings->lora.rank == 0 && settings->lora.adapter == NULL && given != NULL) {
        return error_set(err, ERROR_USAGE,
                         "lora.%s is given, but lora.rank is 0: give a rank, as 8 or "
                         "16, to train adapters",
                         given);
    }
    if (settings->lora.rank > 0 && settings->lora.alpha <= 0.0) {
        return error_set(err, ERROR_USAGE,
                         "lora.alpha is %g, which takes all effect from the adapters: "
                         "give a number above 0, as twice lora.rank",
                         settings->lora.alpha);
    }
    return true;
}

/* Patience without an evaluation would never end. */
static bool check_evaluation(const struct settings *settings, struct error *err)
{
    const bool has_rows = settings->data.eval.n > 0 || settings->data.eval_share > 0.0;
    if (settings->eval.patience > 0 && !has_rows) {
        return error_set(err, ERROR_USAGE,
                         "eval.patience is %lld, but there is no data.eval and no "
                         "data.eval_share",
                         (long long)settings->eval.patience);
    }
    if (settings->eval.patience > 0 && settings->eval.every_steps == 0 &&
        !settings->eval.at_epoch_end) {
        return error_set(err, ERROR_USAGE,
                         "eval.patience is %lld, but nothing is evaluated: set "
                         "eval.every_steps or eval.at_epoch_end",
                         (long long)settings->eval.patience);
    }
    return true;
}

/* How to sample says nothing about what. */
static bool check_sample(const struct settings *settings, struct error *err)
{
    struct settings usual;
    settings_init(&usual);
    const char *given =
        settings->sample.every_steps != usual.sample.every_steps   ? "every_steps"
        : settings->sample.max_tokens != usual.sample.max_tokens   ? "max_tokens"
        : settings->sample.temperature != usual.sample.temperature ? "temperature"
                                                                   : NULL;
    settings_deinit(&usual);
    return settings->sample.prompts.n > 0 || given == NULL ||
           error_set(err, ERROR_USAGE,
                     "sample.%s is given, but there are no sample.prompts to answer",
                     given);
}

/* In the order in which a user would fill a run file. */
bool settings_check(const struct settings *settings, struct error *err)
{
    if (settings->model == NULL || settings->model[0] == '\0') {
        return error_set(err, ERROR_USAGE,
                         "model is missing: a folder in Hugging Face layout or a .gguf "
                         "file");
    }
    if (settings->run == NULL) {
        return error_set(err, ERROR_USAGE, "run is missing: the folder to write to");
    }
    if (!settings_data_check(settings, err)) {
        return false;
    }
    if (!check_evaluation(settings, err)) {
        return false;
    }
    if (settings->train.rounding == ROUNDING_STOCHASTIC &&
        settings->precision != PRECISION_BF16) {
        return error_set(err, ERROR_USAGE,
                         "train.rounding stochastic rounds weights that are kept in "
                         "bf16: it needs precision bf16 (f32 and bf16-compute keep "
                         "f32 weights)");
    }
    if (settings->train.epochs == 0 && settings->train.steps == 0) {
        return error_set(err, ERROR_USAGE,
                         "give train.epochs or train.steps: how long to train");
    }
    if (settings->train.batch_rows > 0 && settings->train.batch_rows_per_rank > 0) {
        return error_set(err, ERROR_USAGE,
                         "train.batch_rows and train.batch_rows_per_rank say the same "
                         "thing twice: give one");
    }
    return check_lora(settings, err) && check_sample(settings, err);
}
