/*
 * model - a model on disk: its facts, its tensors, its loss on tokens, its answers, and
 * writing it in another form.
 *
 *     struct lathe_model *model = lathe_model_open("runs/demo/model", NULL, &error);
 *     struct lathe_generator *generator = lathe_generator_create(model, 512, &error);
 *     char *answer = lathe_generate(generator, ids, n, NULL, NULL, NULL, &error);
 *     lathe_free(answer);
 *     lathe_generator_destroy(generator);
 *     lathe_model_close(model);
 */
#ifndef LATHE_MODEL_H
#define LATHE_MODEL_H

#include "lathe/common.h"
#include "lathe/tokens.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Weights stay in the mapped file until they are used. Facts, tensors and the tokenizer
 * may be read by several threads at once. */
struct lathe_model;

/*
 * `path`: a folder in Hugging Face layout, or a .gguf file. `adapter`: a folder in PEFT
 * layout whose adapters are added to the weights, or NULL. Both strings are copied. NULL:
 * failed; a missing or misshapen tensor is named.
 */
LATHE_API struct lathe_model *lathe_model_open(const char *path, const char *adapter,
                                               struct lathe_error *error);
LATHE_API void lathe_model_close(struct lathe_model *model); /* takes NULL */

enum lathe_fact {
    LATHE_FACT_PARAMETERS, /* elements of all tensors */
    LATHE_FACT_LAYERS,
    LATHE_FACT_WIDTH,      /* of the hidden state */
    LATHE_FACT_HEADS,      /* query heads of a layer */
    LATHE_FACT_VOCABULARY, /* rows of the embedding table */
    LATHE_FACT_WINDOW,     /* tokens that a sliding layer sees */
    LATHE_FACT_POSITIONS   /* longest row of tokens the model is made for */
};

/* A number by enum lathe_fact; "Gemma 3" or "Gemma 4". */
LATHE_API int64_t lathe_model_fact(const struct lathe_model *model, int fact);
LATHE_API const char *lathe_model_family(const struct lathe_model *model);

/* The model's tokenizer, borrowed until the model is closed; NULL where it has none, which
 * lathe_tokenizer_open explains. */
LATHE_API const struct lathe_tokenizer *
lathe_model_tokenizer(const struct lathe_model *model);

/* One tensor; the strings live as long as the model. */
struct lathe_tensor {
    const char *name; /* as in Hugging Face layout */
    const char *type; /* as in the file: "bf16", "Q8_0" */
    int rank;         /* 1 or 2 */
    int64_t dim[2];   /* row-major; dim[1] is 1 for rank 1 */
};

/* Tensors by number, 0 .. lathe_model_n_tensors - 1; adapters are not among them. */
LATHE_API int lathe_model_n_tensors(const struct lathe_model *model);
LATHE_API void lathe_model_tensor(const struct lathe_model *model, int i,
                                  struct lathe_tensor *tensor);

/* Rows first .. first + n_rows - 1 of tensor i into target[n_rows * dim[1]], as f32, with
 * the adapter in them. */
LATHE_API bool lathe_model_read(const struct lathe_model *model, int i, int64_t first,
                                int64_t n_rows, float *target,
                                struct lathe_error *error);

/*
 * Writes the model to `folder`, which must not exist or be empty, in Hugging Face layout:
 * dtype is "f32", "bf16" or "f16"; an adapter is merged into the weights. The folder
 * appears whole or not at all. LATHE_RESOURCE when the disk is full.
 */
LATHE_API bool lathe_model_write(const struct lathe_model *model, const char *folder,
                                 const char *dtype, struct lathe_error *error);

/* Threads that scoring and generating use from the next call or generator on; 0, as at
 * first: one per processor. */
LATHE_API void lathe_model_set_threads(struct lathe_model *model, int n_threads);

/* A row of tokens to be scored. */
struct lathe_row {
    const int32_t *ids;  /* [n] with BOS, as the model is to see them */
    const float *weight; /* [n] of each token as a target; NULL: 1 for all */
    size_t n;            /* the first token is no target: nothing predicts it */
};

/* The loss of a row is loss_sum / weight_sum, in nats a token. */
struct lathe_score {
    double loss_sum;   /* over the targets: weight times loss */
    double weight_sum; /* 0: the row has no target */
    int64_t n_targets; /* tokens with a weight above 0 */
};

/*
 * Loss of n rows, each on its own, into scores[n]. token_loss: NULL, or one array for each
 * row, [rows[i].n], that gets the loss of each target and NaN elsewhere; a NULL among them
 * is left out. Memory does not depend on n. One thread at a time per model; fails for ids
 * outside the vocabulary and rows that are longer than the model goes (LATHE_USAGE).
 */
LATHE_API bool lathe_model_score(struct lathe_model *model,
                                 const struct lathe_row *rows, size_t n,
                                 struct lathe_score *scores, float *const *token_loss,
                                 struct lathe_error *error);

/* Weights in memory, and what has been read of one conversation. One thread at a time. */
struct lathe_generator;

/* For texts of at most context_tokens, prompt and answer together. The model is borrowed;
 * close it later. */
LATHE_API struct lathe_generator *lathe_generator_create(struct lathe_model *model,
                                                         int32_t context_tokens,
                                                         struct lathe_error *error);
LATHE_API void
lathe_generator_destroy(struct lathe_generator *generator); /* takes NULL */

/*
 * How tokens are chosen. All zero, or NULL in its place: the likeliest token, up to 256 of
 * them. The same seed gives the same text.
 */
struct lathe_sampling {
    int32_t max_tokens; /* of the answer; 0: 256 */
    double temperature; /* 0: always the likeliest */
    int64_t top_k;      /* of the k likeliest; 0: off */
    double top_p;       /* of the fewest that add up to it; 0: off */
    uint64_t seed;
};

/* Gets an answer piece by piece, whole characters of UTF-8, not NUL-terminated; false ends
 * the answer there. */
typedef bool (*lathe_text_fn)(void *context, const char *text, size_t length);

/*
 * Goes on behind ids[0 .. n), the whole text so far with BOS; what was read by an earlier
 * call is not read again. Returns the answer, NUL-terminated, without special tokens and
 * with U+FFFD for a NUL byte in it, for lathe_free; NULL: failed. It ends at the end of the
 * turn or text, after max_tokens, with the context, or when on_text (NULL: none) says so.
 */
LATHE_API char *lathe_generate(struct lathe_generator *generator, const int32_t *ids,
                               size_t n, const struct lathe_sampling *sampling,
                               lathe_text_fn on_text, void *context,
                               struct lathe_error *error);

#ifdef __cplusplus
}
#endif

#endif
