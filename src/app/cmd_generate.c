/*
 * cmd_generate - lathe generate: text from a model, for a prompt, a message, or in a
 * conversation.
 *
 * Text goes to standard output as it comes, all else to standard error.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/arguments.h"
#include "app/command.h"
#include "app/conversation.h"
#include "backend/backend.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "text/chat_template.h"
#include "text/token_list.h"
#include "text/tokenizer.h"
#include "train/chat_choice.h"
#include "train/generate.h"
#include "train/model_source.h"

enum {
    DEFAULT_MAX_TOKENS = 512,
    CONVERSATION_TOKENS = 8192, /* context of a conversation, unless --context says */
    MAX_INPUT_BYTES = 1 << 26,
};

/* What the command line gives: numbers as texts, then read and checked. */
struct generate_arguments {
    const char *prompt, *chat, *system, *adapter;
    const char *max_tokens, *context, *temperature, *top_k, *top_p, *seed;
    bool is_raw, is_json, wants_help;
};

/* One run of the command; close_run takes it at any stage. */
struct run {
    const struct generate_arguments *given;
    struct model_source source;
    struct sampler_options sampling;
    int64_t max_tokens;
    int64_t context;       /* 0: as the text needs */
    struct str input;      /* what came by standard input */
    const char *text;      /* the prompt or message; NULL: a conversation */
    size_t length;         /* of text */
    bool is_chat;          /* a message, not a plain prompt */
    struct token_list ids; /* of the text, with BOS */
    struct engine *engine;
    struct generator *generator;
    struct conversation conversation;
};

/* ---- arguments ---- */

/* The whole number of an option within its range; *number stays where it was not
 * given. */
static bool read_integer(const char *option, const char *text, int64_t low,
                         int64_t *number, struct error *err)
{
    if (text == NULL) {
        return true;
    }
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < low) {
        return error_set(err, ERROR_USAGE,
                         "%s %s: expected a whole number from %lld on", option, text,
                         (long long)low);
    }
    *number = value;
    return true;
}

static bool read_number(const char *option, const char *text, double *number,
                        struct error *err)
{
    if (text == NULL) {
        return true;
    }
    char *end = NULL;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value)) {
        return error_set(err, ERROR_USAGE, "%s %s: expected a number", option, text);
    }
    *number = value;
    return true;
}

/* The sampler speaks of "temperature", "top-k" and "top-p": here these are options. */
static bool name_option(bool is_good, struct error *err)
{
    if (is_good) {
        return true;
    }
    const struct error told = *err;
    return error_set(err, told.kind, "--%s", told.message);
}

/* The defaults are those that Google publishes with Gemma's weights. */
static bool read_sampling(struct run *run, struct error *err)
{
    const struct generate_arguments *given = run->given;
    run->sampling = (struct sampler_options){
        .temperature = 1.0, .top_k = 64, .top_p = 0.95, .seed = 0};
    int64_t seed = 0;
    run->max_tokens = DEFAULT_MAX_TOKENS;
    if (!read_number("--temperature", given->temperature, &run->sampling.temperature,
                     err) ||
        !read_integer("--top-k", given->top_k, 0, &run->sampling.top_k, err) ||
        !read_number("--top-p", given->top_p, &run->sampling.top_p, err) ||
        !read_integer("--seed", given->seed, 0, &seed, err) ||
        !read_integer("--max-tokens", given->max_tokens, 1, &run->max_tokens, err) ||
        !read_integer("--context", given->context, 2, &run->context, err)) {
        return false;
    }
    run->sampling.seed = (uint64_t)seed;
    if (given->top_p != NULL && run->sampling.top_p == 0.0) {
        return error_set(err, ERROR_USAGE,
                         "--top-p 0: expected a share above 0, up to 1");
    }
    return name_option(sampler_check(&run->sampling, err), err);
}

/* Standard input to its end, without the line feed that editors and echo put there. */
static bool read_input(struct run *run, struct error *err)
{
    char block[1 << 16];
    for (size_t n; (n = fread(block, 1, sizeof(block), stdin)) > 0;) {
        str_add_bytes(&run->input, block, n);
        if (run->input.length > MAX_INPUT_BYTES) {
            return error_set(err, ERROR_DATA,
                             "standard input: more than %d MiB of text",
                             MAX_INPUT_BYTES >> 20);
        }
    }
    if (ferror(stdin)) {
        return error_set_errno(err, errno, "standard input");
    }
    size_t length = run->input.length;
    if (length > 0 && run->input.text[length - 1] == '\n') {
        length--;
    }
    if (length == 0) {
        return error_set(
            err, ERROR_USAGE,
            "standard input is empty; expected a text there, --prompt TEXT, "
            "or --chat TEXT");
    }
    run->text = run->input.text;
    run->length = length;
    return true;
}

/* Where the text is: on the command line, on standard input, or with a person. */
static bool choose_text(struct run *run, struct error *err)
{
    const struct generate_arguments *given = run->given;
    run->is_chat = given->prompt == NULL && !given->is_raw;
    if (given->prompt != NULL || given->chat != NULL) {
        run->text = given->prompt != NULL ? given->prompt : given->chat;
        run->length = strlen(run->text);
        return true;
    }
    if (!isatty(STDIN_FILENO)) {
        return read_input(run, err);
    }
    if (given->is_raw || given->is_json) {
        return error_set(
            err, ERROR_USAGE, "%s is for a text: --prompt TEXT%s, or standard input",
            given->is_raw ? "--raw" : "--json", given->is_raw ? "" : ", --chat TEXT");
    }
    return true;
}

/* ---- the model ---- */

/* A base model has the marks in its vocabulary too, and goes on from a turn without
 * having learned to answer or to end. What a user has tuned to conversations may have
 * no template either, so this is no warning. */
static bool note_missing_template(const char *path, struct error *err)
{
    struct str template = {0};
    const bool done = chat_template_read(path, &template, err);
    if (done && template.length == 0) {
        log_note("%s: no chat template in it, so it may not be tuned to conversations "
                 "(--prompt TEXT goes on from plain text)",
                 path);
    }
    str_deinit(&template);
    return done;
}

/* Turns need a vocabulary with marks for them. */
static bool open_conversation(struct run *run, struct error *err)
{
    run->conversation = (struct conversation){
        .tokenizer = run->source.tokenizer,
        .system = run->given->system,
        .sampling = &run->sampling,
    };
    if (!chat_format_of_tokenizer(run->source.tokenizer, &run->conversation.format)) {
        return error_set(err, ERROR_DATA,
                         "%s: its vocabulary has no turn marks of Gemma 3 or Gemma 4; "
                         "use --prompt TEXT (or --raw with standard input)",
                         run->source.path);
    }
    /* The template may speak for another of the formats, or for none. */
    return chat_choice(run->source.path, run->source.tokenizer, CHAT_FORMAT_AUTO,
                       &run->conversation.format, err) &&
           note_missing_template(run->source.path, err);
}

/* The text as tokens, so that the context can be as long as they need. */
static bool encode_text(struct run *run, struct error *err)
{
    if (run->text == NULL) {
        return true;
    }
    return run->is_chat ? conversation_encode(&run->conversation, run->text,
                                              run->length, &run->ids, err)
                        : chat_encode(run->source.tokenizer, run->text, run->length,
                                      &run->ids, err);
}

/* Tokens that the caches have room for. */
static int64_t context_tokens(const struct run *run)
{
    const int64_t most = run->source.config.max_positions;
    if (run->context > 0) {
        return run->context;
    }
    if (run->text == NULL) {
        return base_min(most, CONVERSATION_TOKENS);
    }
    return base_min(most, (int64_t)run->ids.n + base_min(run->max_tokens, most));
}

/* One rank, all threads; weights in bf16 where the file has them so. */
static bool open_generator(struct run *run, struct error *err)
{
    const int64_t context = context_tokens(run);
    if (context > run->source.config.max_positions) {
        return error_set(
            err, ERROR_USAGE, "--context %lld: the model goes to %lld tokens",
            (long long)context, (long long)run->source.config.max_positions);
    }
    const struct mesh mesh = mesh_single();
    const struct backend_options backend = {.isa = BACKEND_ISA_BEST,
                                            .abandon = interrupt_flag()};
    run->engine = backend_create_cpu(&mesh, 0, 1, &backend, err);
    if (run->engine == NULL) {
        return false;
    }
    const struct generate_options options = {.decoding = {.config = &run->source.config,
                                                          .params = run->source.params,
                                                          .rows = 1,
                                                          .context = (int32_t)context},
                                             .tokenizer = run->source.tokenizer,
                                             .stop = interrupt_flag()};
    const struct decoding_source source = {
        .view = model_source_view, .read = model_source_read, .context = &run->source};
    run->generator = generate_create(run->engine, &options, &source, err);
    return run->generator != NULL;
}

/* ---- answers ---- */

/* A reader that has gone away (a closed pipe) ends the answer. */
static bool print_text(void *context, int request, const char *text, size_t length)
{
    (void)context;
    (void)request;
    return fwrite(text, 1, length, stdout) == length && fflush(stdout) == 0;
}

static const char *end_name(enum generate_end end)
{
    switch (end) {
    case GENERATE_END_OF_TURN:
        return "end";
    case GENERATE_MAX_TOKENS:
        return "max-tokens";
    case GENERATE_CONTEXT_FULL:
        return "context-full";
    case GENERATE_STOPPED:
        return "stopped";
    }
    UNREACHABLE();
}

/* Tokens per second, or null where there were none. */
static json_t *rate_or_null(int64_t n, double seconds)
{
    return n > 0 && seconds > 0.0 ? json_real((double)n / seconds) : json_null();
}

static void print_json(const struct run *run, const struct generate_result *result)
{
    const struct generate_speed speed = generate_last_speed(run->generator);
    json_t *ids = json_array();
    for (int32_t i = 0; i < result->n; i++) {
        json_array_append_new(ids, json_integer(result->ids[i]));
    }
    json_t *root = json_object();
    json_put(root, "text", json_text(result->text, result->text_length));
    json_put(root, "ids", ids);
    json_put(root, "end", json_string(end_name(result->end)));
    json_put(root, "prompt_tokens", json_integer((json_int_t)run->ids.n));
    json_put(root, "prompt_tokens_per_s",
             rate_or_null(speed.prompt_tokens, speed.prompt_seconds));
    json_put(root, "tokens_per_s",
             rate_or_null(speed.answer_tokens, speed.answer_seconds));
    const size_t cache_bytes = decoding_cache_bytes(generate_decoding(run->generator));
    json_put(root, "cache_bytes", json_integer((json_int_t)cache_bytes));
    char *text = json_print(root, JSON_REAL_PRECISION(6));
    puts(text);
    free(text);
    json_decref(root);
}

/* One text, one answer. What was said before a signal is shown, and the exit code tells
 * of it. */
static bool answer_text(struct run *run, struct error *err)
{
    const struct generate_request request = {
        .ids = run->ids.ids,
        .n = (int32_t)run->ids.n,
        .max_tokens = (int32_t)base_min(run->max_tokens, INT32_MAX),
        .on_text = run->given->is_json ? NULL : print_text,
    };
    struct generate_result result = {0};
    if (!generate_run(run->generator, &request, 1, &run->sampling, &result, err)) {
        generate_result_deinit(&result);
        return false;
    }
    if (run->given->is_json) {
        print_json(run, &result);
    } else {
        putchar('\n');
    }
    fflush(stdout);
    if (result.end == GENERATE_CONTEXT_FULL) {
        log_warning("the answer was cut at the end of the context (%lld tokens)",
                    (long long)context_tokens(run));
    }
    const struct generate_speed speed = generate_last_speed(run->generator);
    conversation_note_speed(&speed);
    generate_result_deinit(&result);
    return interrupt_check(err);
}

static bool run_generate(struct run *run, const char *model, struct error *err)
{
    if (!read_sampling(run, err) || !choose_text(run, err) ||
        !model_source_open(&run->source, model, true, true, err)) {
        return false;
    }
    if (run->given->adapter != NULL &&
        !model_source_open_adapter(&run->source, run->given->adapter, err)) {
        return false;
    }
    if ((run->is_chat && !open_conversation(run, err)) || !encode_text(run, err)) {
        return false;
    }
    interrupt_install();
    if (!open_generator(run, err)) {
        return false;
    }
    if (run->text != NULL) {
        return answer_text(run, err);
    }
    run->conversation.generator = run->generator;
    run->conversation.max_tokens = (int32_t)base_min(run->max_tokens, INT32_MAX);
    run->conversation.on_text = print_text;
    return conversation_on_terminal(&run->conversation, err);
}

/* The generator before its engine, the model after both. */
static void close_run(struct run *run)
{
    conversation_deinit(&run->conversation);
    generate_destroy(run->generator);
    backend_destroy(run->engine);
    token_list_deinit(&run->ids);
    str_deinit(&run->input);
    model_source_close(&run->source);
}

bool cmd_generate(const struct command *command, int argc, char *const *argv,
                  struct error *err)
{
    struct generate_arguments given = {0};
    const struct argument_option options[] = {
        {"--prompt", "TEXT", ARGUMENT_TEXT, &given.prompt, "plain text to go on from"},
        {"--chat", "TEXT", ARGUMENT_TEXT, &given.chat,
         "a message that the model answers"},
        {"--system", "TEXT", ARGUMENT_TEXT, &given.system,
         "instructions in front of a message or conversation"},
        {"--raw", NULL, ARGUMENT_SWITCH, &given.is_raw,
         "standard input is plain text, not a message"},
        {"--adapter", "DIR", ARGUMENT_TEXT, &given.adapter,
         "with the LoRA adapter of this folder"},
        {"--max-tokens", "N", ARGUMENT_TEXT, &given.max_tokens, "longest answer (512)"},
        {"--temperature", "T", ARGUMENT_TEXT, &given.temperature,
         "0: always the likeliest token (1)"},
        {"--top-k", "K", ARGUMENT_TEXT, &given.top_k,
         "only the K likeliest tokens; 0: off (64)"},
        {"--top-p", "P", ARGUMENT_TEXT, &given.top_p,
         "only the likeliest that make up P; 1: off (0.95)"},
        {"--seed", "S", ARGUMENT_TEXT, &given.seed,
         "the same seed gives the same text (0)"},
        {"--context", "N", ARGUMENT_TEXT, &given.context,
         "tokens of text and answers together (as needed)"},
        {"--json", NULL, ARGUMENT_SWITCH, &given.is_json, "one JSON object"},
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
    if (arguments.n != 1 || (given.prompt != NULL && given.chat != NULL)) {
        return command_usage_error(
            command, "expected one model and at most one of --prompt and --chat", err);
    }
    if ((given.is_raw && given.chat != NULL) ||
        (given.system != NULL && (given.is_raw || given.prompt != NULL))) {
        return command_usage_error(
            command, "--raw and --prompt are plain text, --chat and --system are turns",
            err);
    }
    struct run run = {.given = &given};
    log_set_level(given.is_json ? LOG_WARNING : LOG_NOTE);
    const bool done = run_generate(&run, arguments.items[0], err);
    close_run(&run);
    return done;
}
