/*
 * decoder - a model that reads tokens and remembers them: keys and values of what it
 * has read stay in a cache, so that each further token costs one pass over the weights.
 *
 *     struct decoder *decoder = decoder_create(engine, &options, &source, err);
 *     decoder_feed(decoder, ids, n, err);          any number of tokens, per row
 *     const float *logits = decoder_logits(decoder, row);
 *     decoder_destroy(decoder);
 *
 * Rows are texts of their own that share each pass. Prompts go through programs of a few
 * fixed lengths, single tokens through one of length 1. Everything is allocated by
 * decoder_create.
 */
#ifndef TRAIN_DECODER_H
#define TRAIN_DECODER_H

#include "backend/backend.h"
#include "model/weights.h"

struct decoder;
struct model_config;

struct decoder_options {
    const struct model_config *config; /* borrowed, as params */
    const struct params *params; /* with adapters, where the source has them apart */
    const enum dtype *stored;    /* [params->n] of parameters in memory, F32 or BF16;
                                    NULL: all F32; borrowed */
    int32_t rows;                /* texts at a time */
    int32_t context;             /* most tokens of a row */
};

/* Where the parameters come from; must stay valid as long as the decoder. */
struct decoder_source {
    /* The parameter as a buffer of the same engine, of the stored dtype; it stays the
     * source's, and may change between calls. NULL, or a NULL result: the decoder has
     * its own copy, filled by `read`. */
    struct buffer *(*buffer)(void *context, int param);
    /* Gives rows; also those of a per-layer table, which is never held in memory. */
    weights_read_fn read;
    void *context; /* of both */
};

MUST_USE struct decoder *decoder_create(struct engine *engine,
                                        const struct decoder_options *options,
                                        const struct decoder_source *source,
                                        struct error *err);
void decoder_destroy(struct decoder *decoder); /* takes NULL; before the engine */

/*
 * Appends n[row] tokens ids[row] to each row (0: none). A row that would become longer
 * than the context is an error, and nothing is read. After any other failure the rows
 * hold nothing.
 */
MUST_USE bool decoder_feed(struct decoder *decoder, const int32_t *const *ids,
                           const int32_t *n, struct error *err);

/* Of the last token that was fed to the row: [V], after the soft cap. */
const float *decoder_logits(const struct decoder *decoder, int32_t row);

/* Tokens that the row holds. */
int32_t decoder_n_tokens(const struct decoder *decoder, int32_t row);

/*
 * Forgets what the row holds behind its first n tokens. False, and nothing has changed:
 * the window before token n is gone from the ring buffers; rewinding to 0 always works.
 */
MUST_USE bool decoder_rewind(struct decoder *decoder, int32_t row, int32_t n);

/* Forgets all rows, as when the parameters have changed. */
void decoder_reset(struct decoder *decoder);

/* Bytes of the caches, and of the parameters that the decoder holds itself. */
size_t decoder_cache_bytes(const struct decoder *decoder);
size_t decoder_parameter_bytes(const struct decoder *decoder);

#endif
