/*
 * generate - texts from a model, token by token, for commands, for samples during
 * training, and for the public interface.
 *
 *     struct generator *generator = generate_create(engine, &options, &source, err);
 *     struct generate_request request = {.ids = ids, .n = n, .max_tokens = 100,
 *                                        .on_text = print, .context = stdout};
 *     struct generate_result result = {0};
 *     generate_run(generator, &request, 1, &sampling, &result, err);
 *     generate_result_deinit(&result);
 *     generate_destroy(generator);
 *
 * A request is the whole text so far. What a row has read already is not read again, so
 * the next turn of a conversation costs its own tokens only. A generator over the live
 * parameters of a training step gives decoding_source.buffer; after they have changed,
 * generate_forget.
 */
#ifndef TRAIN_GENERATE_H
#define TRAIN_GENERATE_H

#include "train/decoding.h"
#include "train/sampler.h"

struct generator;
struct tokenizer;

struct generate_options {
    struct decoding_options decoding;  /* .rows: most requests at a time */
    const struct tokenizer *tokenizer; /* borrowed */
    /* Nonzero, from any thread: generate_run ends after the token at hand. Or NULL. */
    const _Atomic int *stop;
};

MUST_USE struct generator *generate_create(struct engine *engine,
                                           const struct generate_options *options,
                                           const struct decoding_source *source,
                                           struct error *err);
void generate_destroy(struct generator *generator); /* takes NULL; before the engine */

/* Whole characters of request `request`, as they come. False stops all requests. */
typedef bool (*generate_text_fn)(void *context, int request, const char *text,
                                 size_t length);

struct generate_request {
    const int32_t *ids;       /* [n] BOS and all */
    int32_t n;                /* at least 1 */
    int32_t max_tokens;       /* of the answer */
    generate_text_fn on_text; /* or NULL */
    void *context;            /* of on_text */
};

enum generate_end {
    GENERATE_END_OF_TURN, /* or of the text */
    GENERATE_MAX_TOKENS,
    GENERATE_CONTEXT_FULL,
    GENERATE_STOPPED /* by on_text, or from outside */
};

struct generate_result {
    int32_t *ids; /* [n] the answer, without the token that ended it */
    char *text;   /* [text_length] and a NUL: the answer without special tokens */
    int32_t n;
    size_t text_length;
    int32_t n_read; /* tokens of the prompt that had to be read */
    enum generate_end end;
};

/* Times of one generate_run, all requests together. */
struct generate_speed {
    double prompt_seconds, answer_seconds;
    int64_t prompt_tokens, answer_tokens; /* that went through the model */
};

/*
 * Answers n requests at once. results: [n] zeroed; deinit them also after a failure.
 * A prompt that leaves no room for one token of an answer is an error.
 */
MUST_USE bool generate_run(struct generator *generator,
                           const struct generate_request *requests, int n,
                           const struct sampler_options *sampling,
                           struct generate_result *results, struct error *err);
void generate_result_deinit(struct generate_result *result); /* a zeroed one too */

/* Of the last generate_run. */
struct generate_speed generate_last_speed(const struct generator *generator);

/* The parameters have changed: nothing that was read counts any more. */
void generate_forget(struct generator *generator);

/* The one that it feeds, for questions. */
const struct decoding *generate_decoding(const struct generator *generator);

#endif
