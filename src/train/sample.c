/*
 * sample - see the header. Prompts are answered one after the other: one row of cache is
 * enough, and a text does not depend on how many others there are.
 */
#include "train/sample.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/config.h"
#include "text/token_list.h"
#include "text/tokenizer.h"
#include "train/settings.h"
#include "train/step.h"

struct sample {
    struct generator *generator;
    struct token_list *ids;          /* [prompts.n] */
    struct string_list prompts;      /* borrowed */
    struct sampler_options sampling; /* the same at every step */
    int32_t max_tokens;
};

/* One user's turn, and the opening of the model's. */
static bool encode_turn(const struct sample_options *options, const char *prompt,
                        struct token_list *ids, struct error *err)
{
    const struct chat_message turn = {
        .role = "user", .text = prompt, .length = strlen(prompt)};
    struct str text = {0};
    const bool done =
        chat_render(options->chat_format, &turn, 1, true, &text, NULL, err) &&
        chat_encode(options->tokenizer, text.text, text.length, ids, err);
    str_deinit(&text);
    return done;
}

/* Special tokens as training rows of text get them. */
static bool encode(const struct sample_options *options, const char *prompt,
                   struct token_list *ids, struct error *err)
{
    if (options->settings->data.format == RECORDS_CHAT) {
        return encode_turn(options, prompt, ids, err);
    }
    tokenizer_encode(options->tokenizer, prompt, strlen(prompt), true, ids);
    return ids->n > 0 ||
           error_set(err, ERROR_USAGE, "sample.prompts: \"%s\" has no token", prompt);
}

/* All prompts as ids; *longest of them. */
static bool encode_all(struct sample *sample, const struct sample_options *options,
                       int64_t *longest, struct error *err)
{
    *longest = 0;
    for (int64_t i = 0; i < sample->prompts.n; i++) {
        if (!encode(options, sample->prompts.items[i], &sample->ids[i], err)) {
            return false;
        }
        const int64_t n = (int64_t)sample->ids[i].n;
        if (n + sample->max_tokens > options->config->max_positions) {
            return error_set(err, ERROR_USAGE,
                             "sample.prompts: number %lld has %lld tokens; with "
                             "sample.max_tokens %d that is more than the model's %lld",
                             (long long)i + 1, (long long)n, (int)sample->max_tokens,
                             (long long)options->config->max_positions);
        }
        *longest = base_max(*longest, n);
    }
    return true;
}

/* Without a generator yet. */
static struct sample *make(const struct sample_options *options)
{
    const struct settings *settings = options->settings;
    struct sample *sample = mem_alloc(sizeof(*sample));
    sample->prompts = settings->sample.prompts;
    sample->max_tokens = (int32_t)settings->sample.max_tokens;
    sample->sampling = (struct sampler_options){
        .temperature = settings->sample.temperature, .seed = (uint64_t)settings->seed};
    sample->ids = mem_alloc_array((size_t)sample->prompts.n, sizeof(*sample->ids));
    return sample;
}

bool sample_check(const struct sample_options *options, struct error *err)
{
    struct sample *sample = make(options);
    int64_t longest = 0;
    const bool done = encode_all(sample, options, &longest, err);
    sample_destroy(sample);
    return done;
}

struct sample *sample_create(struct engine *engine, struct step *step,
                             const struct sample_options *options, struct error *err)
{
    struct sample *sample = make(options);
    int64_t longest = 0;
    if (encode_all(sample, options, &longest, err)) {
        const struct generate_options generating = {
            .decoding = {.config = options->config,
                         .params = options->params,
                         .rows = 1,
                         .context = (int32_t)longest + sample->max_tokens},
            .tokenizer = options->tokenizer,
            .stop = interrupt_flag(),
        };
        const struct decoding_source live = {
            .buffer = step_param_buffer, .read = step_read_param, .context = step};
        sample->generator = generate_create(engine, &generating, &live, err);
    }
    if (sample->generator == NULL) {
        sample_destroy(sample);
        return NULL;
    }
    return sample;
}

void sample_destroy(struct sample *sample)
{
    if (sample == NULL) {
        return;
    }
    generate_destroy(sample->generator);
    for (int64_t i = 0; i < sample->prompts.n; i++) {
        token_list_deinit(&sample->ids[i]);
    }
    mem_free(sample->ids);
    mem_free(sample);
}

/* One line, in the order in which one reads it. */
static void write_line(FILE *file, int64_t step_number, const char *prompt,
                       const struct generate_result *result)
{
    json_t *line = json_object();
    json_put(line, "step", json_integer(step_number));
    json_put(line, "prompt", json_text(prompt, strlen(prompt)));
    json_put(line, "text", json_text(result->text, result->text_length));
    char *text = json_print(line, 0);
    fprintf(file, "%s\n", text);
    free(text);
    json_decref(line);
}

/* Line breaks would end the log's line, a NUL what is printed of it. */
static void add_on_one_line(const char *text, size_t length, struct str *out)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\n') {
            str_add(out, "\\n");
        } else if (text[i] == '\0') {
            str_add(out, "\\0");
        } else {
            str_add_char(out, text[i]);
        }
    }
}

static void log_sample(int64_t step_number, const char *prompt,
                       const struct generate_result *result)
{
    struct str line = {0};
    add_on_one_line(prompt, strlen(prompt), &line);
    str_add(&line, " -> ");
    add_on_one_line(result->text, result->text_length, &line);
    log_note("step %lld: sample: %s", (long long)step_number, line.text);
    str_deinit(&line);
}

/* An output that is not finite is the only fault of a model that training can leave
 * behind. Training says itself when it has diverged, and may find back: the run goes on. */
static bool pass_over(int64_t step_number, const char *prompt, const struct error *err)
{
    if (err->kind != ERROR_DATA) {
        return false;
    }
    struct str line = {0};
    add_on_one_line(prompt, strlen(prompt), &line);
    log_warning("step %lld: sample failed: %s: %s", (long long)step_number, line.text,
                err->message);
    str_deinit(&line);
    return true;
}

/* What the generator has read was read with other parameters. The other prompts of a
 * model whose output is not finite would fail as well. */
bool sample_run(struct sample *sample, int64_t step_number, FILE *file,
                struct error *err)
{
    generate_forget(sample->generator);
    bool done = true;
    for (int64_t i = 0; i < sample->prompts.n && done; i++) {
        const char *prompt = sample->prompts.items[i];
        const struct generate_request request = {.ids = sample->ids[i].ids,
                                                 .n = (int32_t)sample->ids[i].n,
                                                 .max_tokens = sample->max_tokens};
        struct generate_result result = {0};
        /* Half an answer would look like what the model says. */
        done = generate_run(sample->generator, &request, 1, &sample->sampling, &result,
                            err) &&
               interrupt_check(err);
        if (done) {
            log_sample(step_number, prompt, &result);
            write_line(file, step_number, prompt, &result);
        }
        generate_result_deinit(&result);
        if (!done && pass_over(step_number, prompt, err)) {
            return true;
        }
    }
    return done;
}
