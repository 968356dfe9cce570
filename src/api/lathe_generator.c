/*
 * lathe_generator - answers through the public interface.
 */
#include <string.h>

#include "api/lathe_parts.h"
#include "backend/backend.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "text/tokenizer.h"
#include "train/generate.h"

enum { DEFAULT_TOKENS = 256 };

struct lathe_generator {
    struct lathe_model *model; /* borrowed */
    struct engine *engine;
    struct generator *generator;
};

/* Without a tokenizer there is no text: the reason is that of reading it. */
static bool need_tokenizer(const struct lathe_model *model, struct error *err)
{
    if (model->tokenizer.tokenizer != NULL) {
        return true;
    }
    struct tokenizer *tokenizer = model_source_tokenizer(model->path, err);
    tokenizer_destroy(tokenizer);
    return tokenizer == NULL
               ? false
               : error_set(err, ERROR_DATA,
                           "%s: the tokenizer was not there when the model was opened",
                           model->path);
}

/* One row; weights as the file has them, where that is f32 or bf16. */
static bool open_generator(struct lathe_generator *generator, int32_t context_tokens,
                           struct error *err)
{
    struct lathe_model *model = generator->model;
    const int64_t most = model->source.config.max_positions;
    if (context_tokens < 2 || context_tokens > most) {
        return error_set(
            err, ERROR_USAGE,
            "a context of %d tokens: expected 2 to %lld, as the model goes",
            (int)context_tokens, (long long)most);
    }
    if (!need_tokenizer(model, err)) {
        return false;
    }
    generator->engine = lathe_model_engine(model, err);
    if (generator->engine == NULL) {
        return false;
    }
    const struct generate_options options = {
        .decoding = {.config = &model->source.config,
                     .params = model->source.params,
                     .rows = 1,
                     .context = context_tokens},
        .tokenizer = model->tokenizer.tokenizer,
    };
    const struct decoding_source source = {.view = model_source_view,
                                           .read = model_source_read,
                                           .context = &model->source};
    generator->generator = generate_create(generator->engine, &options, &source, err);
    return generator->generator != NULL;
}

struct lathe_generator *lathe_generator_create(struct lathe_model *model,
                                               int32_t context_tokens,
                                               struct lathe_error *error)
{
    struct error err;
    struct lathe_generator *generator = mem_alloc(sizeof(*generator));
    generator->model = model;
    if (!open_generator(generator, context_tokens, &err)) {
        lathe_generator_destroy(generator);
        lathe_report(error, &err);
        return NULL;
    }
    return generator;
}

/* The programs go before the engine that runs them. */
void lathe_generator_destroy(struct lathe_generator *generator)
{
    if (generator != NULL) {
        generate_destroy(generator->generator);
        backend_destroy(generator->engine);
        mem_free(generator);
    }
}

/* What the callback of the interface gets less: it has one request. */
struct listener {
    lathe_text_fn on_text;
    void *context; /* of on_text */
};

/* A generate_text_fn. */
static bool hand_on(void *context, int request, const char *text, size_t length)
{
    (void)request;
    const struct listener *listener = context;
    return listener->on_text(listener->context, text, length);
}

/* False before any work, for what only a caller can get wrong. */
static bool check_prompt(const struct lathe_generator *generator, const int32_t *ids,
                         size_t n, struct error *err)
{
    const int64_t V = generator->model->source.config.V;
    if (n == 0 || n > INT32_MAX) {
        return error_set(err, ERROR_USAGE, "a prompt of %zu tokens", n);
    }
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= V) {
            return error_set(err, ERROR_USAGE, "token %zu is %d, expected 0 to %lld", i,
                             (int)ids[i], (long long)V - 1);
        }
    }
    return true;
}

/* The answer as a C string: a NUL within it would cut it. U+FFFD, as in place of any other
 * byte that cannot be shown. */
static char *copy_text(const struct generate_result *result)
{
    struct str text = {0};
    for (size_t i = 0; i < result->text_length; i++) {
        if (result->text[i] == '\0') {
            str_add(&text, "\xEF\xBF\xBD");
        } else {
            str_add_char(&text, result->text[i]);
        }
    }
    char *copy = mem_strdup(str_text(&text));
    str_deinit(&text);
    return copy;
}

char *lathe_generate(struct lathe_generator *generator, const int32_t *ids, size_t n,
                     const struct lathe_sampling *sampling, lathe_text_fn on_text,
                     void *context, struct lathe_error *error)
{
    static const struct lathe_sampling greedy = {0};
    const struct lathe_sampling *wanted = sampling == NULL ? &greedy : sampling;
    struct error err;
    struct listener listener = {.on_text = on_text, .context = context};
    const struct generate_request request = {
        .ids = ids,
        .n = (int32_t)n,
        .max_tokens = wanted->max_tokens == 0 ? DEFAULT_TOKENS : wanted->max_tokens,
        .on_text = on_text == NULL ? NULL : hand_on,
        .context = &listener,
    };
    const struct sampler_options options = {.temperature = wanted->temperature,
                                            .top_k = wanted->top_k,
                                            .top_p = wanted->top_p,
                                            .seed = wanted->seed};
    struct generate_result result = {0};
    char *answer = NULL;
    if (check_prompt(generator, ids, n, &err) && sampler_check(&options, &err) &&
        generate_run(generator->generator, &request, 1, &options, &result, &err)) {
        answer = copy_text(&result);
    } else {
        lathe_report(error, &err);
    }
    generate_result_deinit(&result);
    return answer;
}
