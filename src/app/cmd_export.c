/*
 * cmd_export - lathe export RUN TO: the result of a run, as a folder of its own.
 *
 * A run keeps its last state in model/ (or, when it trained an adapter, in adapter/) and
 * the one with the lowest held-out loss in best/, which may be a link to the other.
 */
#include <stdio.h>
#include <string.h>

#include "app/arguments.h"
#include "app/command.h"
#include "app/model_copy.h"
#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "base/publish.h"
#include "model/lora.h"
#include "train/settings.h"

/* What the command line gives. */
struct export_arguments {
    const char *run;
    const char *to;
    const char *dtype;
    bool is_best, is_latest, merges, wants_help;
};

/* A folder with a result in it: an adapter, or a model. */
static bool is_result(const char *path)
{
    return lora_is_folder(path) || model_copy_has_file(path, "config.json");
}

/* RUN/NAME if there is a result there; else NULL. Freed with mem_free. */
static char *find(const char *run, const char *name)
{
    char *path = file_join(run, name);
    if (is_result(path)) {
        return path;
    }
    mem_free(path);
    return NULL;
}

static bool check_run(const char *run, struct error *err)
{
    if (!file_exists(run)) {
        return error_set(err, ERROR_NOT_FOUND, "%s: no such run folder", run);
    }
    if (model_copy_has_file(run, "run.yaml")) {
        return true;
    }
    return error_set(
        err, ERROR_USAGE, "%s: not a run folder (no run.yaml in it)%s", run,
        is_result(run) || !file_is_folder(run) ? "; lathe convert copies models" : "");
}

/* The folder of the result that is asked for: the best one unless told otherwise, or,
 * where a run has none (no held-out data), the latest. Freed with mem_free. */
static char *choose(const struct export_arguments *given, struct error *err)
{
    char *best = given->is_latest ? NULL : find(given->run, "best");
    if (best != NULL) {
        return best;
    }
    if (given->is_best) {
        error_set(err, ERROR_DATA,
                  "%s: no best model: that takes held-out data (data.eval) and "
                  "eval.save_best; --latest exports the last one",
                  given->run);
        return NULL;
    }
    char *latest = find(given->run, "model");
    if (latest == NULL) {
        latest = find(given->run, "adapter");
    }
    if (latest == NULL) {
        error_set(err, ERROR_DATA,
                  "%s: no tuned model in it: the run is not finished, failed, or has "
                  "train.save_model off (see %s/log.txt)",
                  given->run, given->run);
    }
    return latest;
}

/* A publish_fill_fn; context is the adapter's folder. */
static bool copy_adapter(void *context, const char *folder, struct error *err)
{
    static const char *const names[] = {"adapter_config.json",
                                        "adapter_model.safetensors"};
    bool done = true;
    for (size_t i = 0; i < ARRAY_LENGTH(names) && done; i++) {
        char *from = file_join(context, names[i]);
        char *to = file_join(folder, names[i]);
        done = file_copy(from, to, err);
        mem_free(from);
        mem_free(to);
    }
    return done;
}

/* The files as they are: the model they belong to need not be here. */
static bool export_adapter(const struct export_arguments *given, char *adapter,
                           struct error *err)
{
    if (given->dtype != NULL) {
        return error_set(err, ERROR_USAGE,
                         "--dtype: the run made an adapter, which is copied as it is; "
                         "with --merge a whole model is written");
    }
    if (!publish_folder(given->to, "the adapter", copy_adapter, adapter, err)) {
        return false;
    }
    printf("%s: adapter, from %s\n", given->to, adapter);
    return true;
}

/* The base model is the one that the run was started with, which run.yaml names as it
 * was given: relative to the folder where the run was started. */
static bool export_merged(const struct export_arguments *given, const char *adapter,
                          struct error *err)
{
    struct settings settings;
    settings_init(&settings);
    char *path = file_join(given->run, "run.yaml");
    bool done = settings_read_file(&settings, path, err);
    if (done && !file_exists(settings.model)) {
        done = error_set(err, ERROR_NOT_FOUND,
                         "%s: the model that %s says the adapter belongs to is not "
                         "here; use lathe convert MODEL %s --adapter %s",
                         settings.model, path, given->to, adapter);
    }
    if (done) {
        const struct model_copy copy = {.from = settings.model,
                                        .adapter = adapter,
                                        .to = given->to,
                                        .dtype = given->dtype};
        done = model_copy_run(&copy, err);
    }
    settings_deinit(&settings);
    mem_free(path);
    return done;
}

/* Models go through the reader and the writer, so what is exported has been checked. */
static bool export_result(const struct export_arguments *given, char *result,
                          struct error *err)
{
    if (!model_copy_check_apart(given->run, given->to, err)) {
        return false;
    }
    if (lora_is_folder(result)) {
        return given->merges ? export_merged(given, result, err)
                             : export_adapter(given, result, err);
    }
    if (given->merges) {
        return error_set(err, ERROR_USAGE,
                         "--merge: %s is a whole model, there is no adapter to merge",
                         result);
    }
    const struct model_copy copy = {
        .from = result, .to = given->to, .dtype = given->dtype};
    return model_copy_run(&copy, err);
}

bool cmd_export(const struct command *command, int argc, char *const *argv,
                struct error *err)
{
    struct export_arguments given = {0};
    const struct argument_option options[] = {
        {"--best", NULL, ARGUMENT_SWITCH, &given.is_best,
         "the model with the lowest held-out loss; this is what is taken anyway where "
         "the run has one"},
        {"--latest", NULL, ARGUMENT_SWITCH, &given.is_latest,
         "the model after the last step"},
        {"--merge", NULL, ARGUMENT_SWITCH, &given.merges,
         "of a run with an adapter: the whole model with the adapter in it"},
        {"--dtype", "f32|bf16|f16", ARGUMENT_TEXT, &given.dtype,
         "without it the type of the run's model"},
        {"--help", NULL, ARGUMENT_SWITCH, &given.wants_help, "this text"},
        {0}};
    struct arguments arguments;
    if (!command_parse(command, argc, argv, options, &given.wants_help, &arguments,
                       err)) {
        return false;
    }
    if (given.wants_help) {
        return true;
    }
    if (arguments.n != 2) {
        return command_usage_error(command, "expected a run and a folder to write",
                                   err);
    }
    if (given.is_best && given.is_latest) {
        return command_usage_error(command, "--best and --latest exclude each other",
                                   err);
    }
    given.run = arguments.items[0];
    given.to = arguments.items[1];
    interrupt_install();
    char *result = check_run(given.run, err) ? choose(&given, err) : NULL;
    const bool done = result != NULL && export_result(&given, result, err);
    mem_free(result);
    return done;
}
