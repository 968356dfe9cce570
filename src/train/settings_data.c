/*
 * settings_data - see the header. A key that the chosen format has no use for is an error
 * where it was given: ignored in silence it would change what is learned.
 */
#include "train/settings_data.h"

#include <stdlib.h>

#include "base/error.h"
#include "train/settings.h"

/* Beyond this a weight is more likely a slip. */
static const double MAX_WEIGHT = 1000.0;

static bool check_instruction(const struct settings *settings, struct error *err)
{
    if (settings->data.template_text == NULL || settings->data.response == NULL) {
        return error_set(err, ERROR_USAGE,
                         "data.%s is missing: format instruction needs a template, as "
                         "\"Q: {question}\\nA: \", and the field of the response",
                         settings->data.template_text == NULL ? "template"
                                                              : "response");
    }
    return true;
}

/* Also for those who only look at rows and have no run. */
bool settings_data_check_format(const struct settings *settings, struct error *err)
{
    const enum records_format format = (enum records_format)settings->data.format;
    const char *name = records_format_name(format);
    const bool has_template = settings->data.template_text != NULL;
    if (format == RECORDS_INSTRUCTION) {
        if (!check_instruction(settings, err)) {
            return false;
        }
    } else if (has_template || settings->data.response != NULL) {
        return error_set(err, ERROR_USAGE,
                         "data.%s is for data.format instruction, but data.format is "
                         "%s: leave one of them out",
                         has_template ? "template" : "response", name);
    }
    if (format != RECORDS_CHAT && settings->data.chat_format != CHAT_FORMAT_AUTO) {
        return error_set(err, ERROR_USAGE,
                         "data.chat_format is for data.format chat, but data.format is "
                         "%s",
                         name);
    }
    if (settings->data.overlong == RECORDS_SPLIT && format != RECORDS_TEXT) {
        return error_set(err, ERROR_USAGE,
                         "data.overlong split is for data.format text, but data.format "
                         "is %s: its rows mean something as a whole (truncate, drop)",
                         name);
    }
    if (format == RECORDS_TOKENS && settings->data.loss_on == RECORDS_LOSS_ON_ALL) {
        return error_set(err, ERROR_USAGE,
                         "data.loss_on all: token rows say it themselves, by their "
                         "labels (rows without labels have loss on all)");
    }
    return true;
}

/* The number that a text is as a whole; false: it is none. */
static bool read_weight(const char *text, double *weight)
{
    char *end;
    *weight = strtod(text, &end);
    return end != text && *end == '\0';
}

/* The comparison is written so that NaN fails it. */
static bool check_weights(const struct settings *settings, struct error *err)
{
    const struct string_list *weights = &settings->data.weights;
    if (weights->n != 0 && weights->n != settings->data.train.n) {
        return error_set(err, ERROR_USAGE,
                         "data.weights has %lld numbers, data.train has %lld files: "
                         "give one for each",
                         (long long)weights->n, (long long)settings->data.train.n);
    }
    for (int64_t i = 0; i < weights->n; i++) {
        double weight;
        if (!read_weight(weights->items[i], &weight) ||
            !(weight > 0 && weight <= MAX_WEIGHT)) {
            return error_set(err, ERROR_USAGE,
                             "data.weights: \"%s\" is not a number above 0, %g at most",
                             weights->items[i], MAX_WEIGHT);
        }
    }
    return true;
}

/* An empty name is one that a script has not filled in. */
static bool check_names(const struct string_list *files, const char *key,
                        struct error *err)
{
    for (int64_t i = 0; i < files->n; i++) {
        if (files->items[i][0] == '\0') {
            return error_set(err, ERROR_USAGE,
                             "%s: name %lld is empty: expected a JSONL file", key,
                             (long long)i + 1);
        }
    }
    return true;
}

bool settings_data_check(const struct settings *settings, struct error *err)
{
    if (settings->data.train.n == 0) {
        return error_set(err, ERROR_USAGE, "data.train is missing: a JSONL file");
    }
    if (!check_names(&settings->data.train, "data.train", err) ||
        !check_names(&settings->data.eval, "data.eval", err)) {
        return false;
    }
    if (settings->data.eval.n > 0 && settings->data.eval_share > 0.0) {
        return error_set(
            err, ERROR_USAGE,
            "data.eval and data.eval_share both say what is held out: give "
            "one");
    }
    if (settings->data.eval.n == 0 && settings->data.eval_share == 0.0 &&
        settings->eval.every_steps > 0) {
        return error_set(err, ERROR_USAGE,
                         "eval.every_steps is %lld, but there is no data.eval and no "
                         "data.eval_share",
                         (long long)settings->eval.every_steps);
    }
    return settings_data_check_format(settings, err) && check_weights(settings, err);
}

double settings_data_weight(const struct settings *settings, int64_t i)
{
    double weight = 1.0;
    if (i < settings->data.weights.n &&
        !read_weight(settings->data.weights.items[i], &weight)) {
        UNREACHABLE(); /* settings_data_check has seen it */
    }
    return weight;
}
