/*
 * decoding - a model that reads tokens and remembers them: keys and values of what it
 * has read stay in a cache, so that each further token costs one pass over the weights.
 *
 *     struct decoding *decoding = decoding_create(engine, &options, &source, err);
 *     decoding_feed(decoding, ids, n, err);          any number of tokens, per row
 *     const float *logits = decoding_logits(decoding, row);
 *     decoding_destroy(decoding);
 *
 * Rows are texts of their own that share each pass. Prompts go through programs of a few
 * fixed lengths, single tokens through one of length 1. Everything is allocated by
 * decoding_create.
 */
#ifndef TRAIN_DECODING_H
#define TRAIN_DECODING_H

#include "backend/backend.h"
#include "model/weights.h"

struct decoding;
struct model_config;
struct params;

struct decoding_options {
    const struct model_config *config; /* borrowed, as params */
    const struct params *params; /* with adapters, where the source has them apart */
    int32_t rows;                /* texts at a time */
    int32_t context;             /* most tokens of a row */
};

/* Where the parameters come from; must stay valid as long as the decoding. */
struct decoding_source {
    /* The parameter as a buffer of the same engine, F32 or BF16; it stays the source's,
     * and its values may change between calls. NULL, or a NULL result: see below. */
    struct buffer *(*buffer)(void *context, int param);
    /* Where the parameter lies in memory as it is, and its dtype, F32 or BF16: matrices
     * are read there. NULL, or a NULL result: the decoding has a copy in F32. */
    const void *(*view)(void *context, int param, enum dtype *dtype);
    /* Gives rows; also those of a per-layer table, which is never held in memory. */
    weights_read_fn read;
    void *context; /* of all three */
};

MUST_USE struct decoding *decoding_create(struct engine *engine,
                                          const struct decoding_options *options,
                                          const struct decoding_source *source,
                                          struct error *err);
void decoding_destroy(struct decoding *decoding); /* takes NULL; before the engine */

/*
 * Appends n[row] tokens ids[row] to each row (0: none). A row that would become longer
 * than the context is an error, and nothing is read. After any other failure the rows
 * hold nothing.
 */
MUST_USE bool decoding_feed(struct decoding *decoding, const int32_t *const *ids,
                            const int32_t *n, struct error *err);

/* Of the last token that was fed to the row: [V], after the soft cap. */
const float *decoding_logits(const struct decoding *decoding, int32_t row);

/* Tokens that the row holds. */
int32_t decoding_n_tokens(const struct decoding *decoding, int32_t row);

/*
 * Forgets what the row holds behind its first n tokens. False, and nothing has changed:
 * the window before token n is gone from the ring buffers; rewinding to 0 always works.
 */
MUST_USE bool decoding_rewind(struct decoding *decoding, int32_t row, int32_t n);

/* Forgets all rows, as when the parameters have changed. */
void decoding_reset(struct decoding *decoding);

/* Bytes of the caches of keys and values. */
size_t decoding_cache_bytes(const struct decoding *decoding);

#endif
