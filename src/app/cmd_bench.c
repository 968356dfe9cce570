/*
 * cmd_bench - lathe bench: speed and memory of a step, or of generation, on this machine.
 *
 * Most options stand for a setting of run files and are read by the same table, so that
 * ranges and choices are those of a run; --set gives the others.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/arguments.h"
#include "app/bench_print.h"
#include "app/command.h"
#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/str.h"
#include "train/settings.h"

enum {
    DEFAULT_ROWS = 4,
    DEFAULT_STEPS = 3,
    DEFAULT_TOKENS = 32, /* of generation */
    MAX_ROWS = 1 << 16,
    MAX_GENERATE_ROWS = 1024,
    MAX_STEPS = 1 << 20,
};

/* What the command line gives; NULL: the default. */
struct bench_arguments {
    const char *shape, *rows, *row_tokens, *steps, *lora, *precision, *threads;
    const char *memory_limit, *trace;
    struct argument_list sets;
    bool generates, is_json, wants_help;
};

/* A whole number from 1 on; `otherwise` where the option was not given. */
static bool read_count(const char *option, const char *text, int64_t otherwise,
                       int64_t most, int64_t *number, struct error *err)
{
    *number = otherwise;
    if (text == NULL) {
        return true;
    }
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < 1 || value > most) {
        return error_set(err, ERROR_USAGE,
                         "%s %s: expected a whole number from 1 to %lld", option, text,
                         (long long)most);
    }
    *number = value;
    return true;
}

/* An option that stands for a setting. */
static bool take_setting(struct settings *settings, const char *option, const char *key,
                         const char *text, struct error *err)
{
    return text == NULL || settings_set_key(settings, key, text, option, err);
}

/* What was not given has the values that this benchmark is about. The environment is left
 * out: figures should not depend on it. */
static bool read_settings(const struct bench_arguments *given,
                          struct settings *settings, struct error *err)
{
    settings->init = INIT_RANDOM;
    if (!take_setting(settings, "--row-tokens", "data.row_tokens", given->row_tokens,
                      err) ||
        !take_setting(settings, "--lora", "lora.rank", given->lora, err) ||
        !take_setting(settings, "--precision", "precision", given->precision, err) ||
        !take_setting(settings, "--threads", "threads", given->threads, err) ||
        !take_setting(settings, "--memory-limit", "memory_limit", given->memory_limit,
                      err)) {
        return false;
    }
    for (int i = 0; i < given->sets.n; i++) {
        if (!settings_set(settings, given->sets.items[i], err)) {
            return false;
        }
    }
    if (settings->init != INIT_RANDOM || settings->lora.adapter != NULL) {
        return error_set(err, ERROR_USAGE,
                         "bench makes up its weights: init and lora.adapter are of no "
                         "use here");
    }
    return true;
}

static bool run_step(const struct bench_arguments *given, struct settings *settings,
                     struct str *out, struct error *err)
{
    int64_t rows = 0;
    int64_t n_steps = 0;
    if (!read_count("--rows", given->rows, DEFAULT_ROWS, MAX_ROWS, &rows, err) ||
        !read_count("--steps", given->steps, DEFAULT_STEPS, MAX_STEPS, &n_steps, err)) {
        return false;
    }
    settings->train.batch_rows = rows;
    const struct bench_step_wish wish = {.shape = given->shape,
                                         .settings = settings,
                                         .n_steps = (int)n_steps,
                                         .measures_peak = true,
                                         .trace_path = given->trace};
    struct bench_step_result result;
    if (!bench_step_run(&wish, &result, err)) {
        return false;
    }
    (given->is_json ? bench_print_step_json : bench_print_step)(&wish, &result, out);
    return true;
}

/* bf16 is how published weights are stored, and what generation reads in place. */
static bool run_generate(const struct bench_arguments *given,
                         const struct settings *settings, struct str *out,
                         struct error *err)
{
    int64_t rows = 0;
    int64_t n_tokens = 0;
    if (settings->lora.rank > 0) {
        return error_set(err, ERROR_USAGE,
                         "--lora does not go with --generate: adapters are measured in "
                         "training");
    }
    if (!read_count("--rows", given->rows, 1, MAX_GENERATE_ROWS, &rows, err) ||
        !read_count("--steps", given->steps, DEFAULT_TOKENS, MAX_STEPS, &n_tokens,
                    err)) {
        return false;
    }
    const bool is_wide =
        given->precision != NULL && settings->precision == PRECISION_F32;
    const struct bench_generate_wish wish = {.shape = given->shape,
                                             .stored = is_wide ? DTYPE_F32 : DTYPE_BF16,
                                             .rows = (int32_t)rows,
                                             .prompt_tokens =
                                                 (int32_t)settings->data.row_tokens,
                                             .n_tokens = (int32_t)n_tokens,
                                             .n_threads = (int)settings->threads,
                                             .trace_path = given->trace};
    struct bench_generate_result result;
    if (!bench_generate_run(&wish, &result, err)) {
        return false;
    }
    (given->is_json ? bench_print_generate_json : bench_print_generate)(&wish, &result,
                                                                        out);
    return true;
}

/* Before minutes of work: whether the trace will have a place. */
static bool check_trace(const char *path, struct error *err)
{
    if (path == NULL) {
        return true;
    }
    struct file_writer *writer = file_writer_open(path, err);
    file_writer_abort(writer);
    return writer != NULL;
}

static bool run(const struct bench_arguments *given, struct error *err)
{
    struct settings settings;
    struct str out = {0};
    settings_init(&settings);
    interrupt_install();
    const bool done = check_trace(given->trace, err) &&
                      read_settings(given, &settings, err) &&
                      (given->generates ? run_generate(given, &settings, &out, err)
                                        : run_step(given, &settings, &out, err));
    if (done) {
        fputs(str_text(&out), stdout);
    }
    str_deinit(&out);
    settings_deinit(&settings);
    return done;
}

bool cmd_bench(const struct command *command, int argc, char *const *argv,
               struct error *err)
{
    struct bench_arguments given = {.shape = "gemma3-270m"};
    const struct argument_option options[] = {
        {"--model-shape", "NAME", ARGUMENT_TEXT, &given.shape,
         "a published size (gemma3-270m), or a model folder"},
        {"--rows", "N", ARGUMENT_TEXT, &given.rows,
         "rows of a step (4); with --generate, texts at a time (1)"},
        {"--row-tokens", "N", ARGUMENT_TEXT, &given.row_tokens,
         "tokens of a row (512); with --generate, of the prompt"},
        {"--steps", "N", ARGUMENT_TEXT, &given.steps,
         "steps after the first (3); with --generate, tokens (32)"},
        {"--lora", "RANK", ARGUMENT_TEXT, &given.lora,
         "train adapters of this rank, everything else is frozen"},
        {"--precision", "KIND", ARGUMENT_TEXT, &given.precision,
         "f32, bf16-compute or bf16 (f32; with --generate bf16)"},
        {"--threads", "N", ARGUMENT_TEXT, &given.threads, "(one per processor)"},
        {"--memory-limit", "BYTES", ARGUMENT_TEXT, &given.memory_limit,
         "what the planner keeps to (what the machine has)"},
        {"--set", "KEY=VALUE", ARGUMENT_LIST, &given.sets,
         "another setting of run files, as train.micro_rows or lora.base"},
        {"--generate", NULL, ARGUMENT_SWITCH, &given.generates,
         "measure generation, not a training step"},
        {"--profile", "FILE", ARGUMENT_TEXT, &given.trace,
         "write a Chrome trace, the first step included"},
        {"--json", NULL, ARGUMENT_SWITCH, &given.is_json,
         "one JSON object, for programs"},
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
    if (arguments.n > 0) {
        return command_usage_error(command, "no arguments expected", err);
    }
    return run(&given, err);
}
