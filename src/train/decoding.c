/*
 * decoding - which token goes where.
 *
 * What the slots of the caches hold is kept here, as the positions that the graph masks
 * by.
 */
#include "train/decoding.h"

#include <string.h>

#include "base/error.h"
#include "model/config.h"
#include "model/params.h"
#include "train/decoding_parts.h"
#include "train/param_rows.h"

/* A rest of up to so many tokens is cheaper one by one; a longer one fills a part of the
 * shortest pass but one. */
enum { SINGLES = 3 };

/* ---- reading tokens ---- */

/* Token t of row b is at `position` from now on. */
static void place_token(struct decoding *decoding, int32_t T, int32_t b, int32_t t,
                        int32_t id, int32_t position)
{
    const int64_t at = (int64_t)b * T + t;
    decoding->ids[at] = id;
    decoding->position[at] = position;
    for (int kind = 0; kind < GEMMA_CACHE_KINDS; kind++) {
        const int64_t n = decoding->n_slots[kind];
        if (n > 0) {
            const int64_t slot = position % n;
            decoding->slots[kind][at] = (int32_t)slot;
            decoding->key_position[kind][b * n + slot] = position;
        }
    }
}

/* Padding: sees nothing, is seen by nobody, is kept nowhere. */
static void place_padding(struct decoding *decoding, int32_t T, int32_t b, int32_t t)
{
    const int64_t at = (int64_t)b * T + t;
    decoding->ids[at] = decoding->options.config->pad_id;
    decoding->position[at] = -1;
    for (int kind = 0; kind < GEMMA_CACHE_KINDS; kind++) {
        decoding->slots[kind][at] = -1;
    }
}

/* Fills the staging with the next tokens of each row. Logits are wanted of the last one
 * that a row has. */
static void place_rows(struct decoding *decoding, int32_t T, const int32_t *const *ids,
                       const int32_t *n)
{
    for (int32_t b = 0; b < decoding->options.rows; b++) {
        const int32_t start = decoding->n_done[b];
        const int32_t n_taken = (int32_t)base_min(T, n[b] - start);
        for (int32_t t = 0; t < n_taken; t++) {
            place_token(decoding, T, b, t, ids[b][start + t], decoding->n_tokens[b]++);
        }
        for (int32_t t = n_taken; t < T; t++) {
            place_padding(decoding, T, b, t);
        }
        decoding->n_done[b] += n_taken;
        const bool is_last = n_taken > 0 && decoding->n_done[b] == n[b];
        decoding->last[b] = is_last ? b * T + n_taken - 1 : -1;
    }
}

/* NULL: the graph has no such input. */
static bool upload_if(struct buffer *buffer, const void *host, struct error *err)
{
    return buffer == NULL || backend_upload(buffer, 0, host, err);
}

static bool upload(struct decoding *decoding, const struct decoding_pass *pass,
                   struct error *err)
{
    const struct decoding_options *options = &decoding->options;
    if (pass->ple_rows != NULL) {
        const int table = params_index(options->params, PARAM_PLE_TABLE, -1);
        if (!param_rows_look_up(options->params, table, decoding->ids,
                                (int64_t)options->rows * pass->T, decoding->source.read,
                                decoding->source.context, decoding->ple_rows, err)) {
            return false;
        }
    }
    for (int kind = 0; kind < GEMMA_CACHE_KINDS; kind++) {
        if (!upload_if(pass->slots[kind], decoding->slots[kind], err) ||
            !upload_if(decoding->keys[kind], decoding->key_position[kind], err)) {
            return false;
        }
    }
    return upload_if(pass->ple_rows, decoding->ple_rows, err) &&
           upload_if(pass->ids, decoding->ids, err) &&
           upload_if(pass->position, decoding->position, err) &&
           upload_if(pass->last, decoding->last, err);
}

/* Logits of the rows that have come to their end; those of the others stay. */
static bool take_logits(struct decoding *decoding, struct error *err)
{
    bool is_wanted = false;
    for (int32_t b = 0; b < decoding->options.rows; b++) {
        is_wanted = is_wanted || decoding->last[b] >= 0;
    }
    if (!is_wanted) {
        return true;
    }
    if (!backend_fetch(decoding->logits, 0, decoding->pass_logits, err)) {
        return false;
    }
    const int64_t V = decoding->options.config->V;
    for (int32_t b = 0; b < decoding->options.rows; b++) {
        if (decoding->last[b] >= 0) {
            memcpy(decoding->row_logits + b * V, decoding->pass_logits + b * V,
                   (size_t)V * sizeof(float));
        }
    }
    return true;
}

/* The longest pass that is filled, or the one that takes the rest with padding. */
static const struct decoding_pass *choose_pass(const struct decoding *decoding,
                                               int32_t n_left)
{
    const struct decoding_pass *shortest = &decoding->passes[DECODING_PASSES - 2];
    for (int i = 0; i < DECODING_PASSES - 1; i++) {
        if (decoding->passes[i].program != NULL && decoding->passes[i].T <= n_left) {
            return &decoding->passes[i];
        }
    }
    return shortest->program != NULL && n_left > SINGLES
               ? shortest
               : &decoding->passes[DECODING_PASSES - 1];
}

/* Before anything is read: what does not fit, or is no token. */
static bool check_tokens(const struct decoding *decoding, const int32_t *const *ids,
                         const int32_t *n, struct error *err)
{
    const struct decoding_options *options = &decoding->options;
    for (int32_t b = 0; b < options->rows; b++) {
        if (n[b] > options->context - decoding->n_tokens[b]) {
            return error_set(
                err, ERROR_DATA, "%lld tokens of text, but the context has room for %d",
                (long long)decoding->n_tokens[b] + n[b], (int)options->context);
        }
        for (int32_t i = 0; i < n[b]; i++) {
            if (ids[b][i] < 0 || ids[b][i] >= options->config->V) {
                return error_set(err, ERROR_DATA,
                                 "token %d is outside of the model's vocabulary of "
                                 "%lld; its tokenizer is another model's",
                                 (int)ids[b][i], (long long)options->config->V);
            }
        }
    }
    return true;
}

/* Most tokens that any row has left. */
static int32_t count_left(const struct decoding *decoding, const int32_t *n)
{
    int32_t most = 0;
    for (int32_t b = 0; b < decoding->options.rows; b++) {
        most = (int32_t)base_max(most, n[b] - decoding->n_done[b]);
    }
    return most;
}

/* A pass that fails has perhaps written into caches, so all rows are forgotten. */
bool decoding_feed(struct decoding *decoding, const int32_t *const *ids,
                   const int32_t *n, struct error *err)
{
    if (!check_tokens(decoding, ids, n, err)) {
        return false;
    }
    memset(decoding->n_done, 0, (size_t)decoding->options.rows * sizeof(int32_t));
    for (int32_t left; (left = count_left(decoding, n)) > 0;) {
        const struct decoding_pass *pass = choose_pass(decoding, left);
        place_rows(decoding, pass->T, ids, n);
        if (!upload(decoding, pass, err) ||
            !backend_execute(pass->program, pass->arguments, pass->outputs, err) ||
            !take_logits(decoding, err)) {
            decoding_reset(decoding);
            return false;
        }
    }
    return true;
}

/* ---- what the rows hold ---- */

const float *decoding_logits(const struct decoding *decoding, int32_t row)
{
    return decoding->row_logits + row * decoding->options.config->V;
}

int32_t decoding_n_tokens(const struct decoding *decoding, int32_t row)
{
    return decoding->n_tokens[row];
}

/* The next token will be number n: of each kind it needs the positions that it sees. */
bool decoding_rewind(struct decoding *decoding, int32_t row, int32_t n)
{
    ASSERT(0 <= n && n <= decoding->n_tokens[row]);
    const int64_t window = decoding->options.config->window;
    for (int kind = 0; kind < GEMMA_CACHE_KINDS; kind++) {
        const int64_t n_slots = decoding->n_slots[kind];
        const int32_t *keys = decoding->key_position[kind] + row * n_slots;
        const int64_t first =
            kind == GEMMA_CACHE_SLIDING ? base_max(0, n - window + 1) : 0;
        for (int64_t i = first; i < n && n_slots > 0; i++) {
            if (keys[i % n_slots] != i) {
                return false;
            }
        }
    }
    for (int kind = 0; kind < GEMMA_CACHE_KINDS; kind++) {
        const int64_t n_slots = decoding->n_slots[kind];
        int32_t *keys = decoding->key_position[kind] + row * n_slots;
        for (int64_t i = 0; i < n_slots; i++) {
            keys[i] = keys[i] >= n ? -1 : keys[i];
        }
    }
    decoding->n_tokens[row] = n;
    return true;
}

void decoding_reset(struct decoding *decoding)
{
    for (int32_t row = 0; row < decoding->options.rows; row++) {
        decoding->n_tokens[row] = 0;
    }
    for (int kind = 0; kind < GEMMA_CACHE_KINDS; kind++) {
        for (int64_t i = 0; i < decoding->options.rows * decoding->n_slots[kind]; i++) {
            decoding->key_position[kind][i] = -1;
        }
    }
}

size_t decoding_cache_bytes(const struct decoding *decoding)
{
    struct gemma_cache_shape shape = {.B = decoding->options.rows};
    memcpy(shape.slots, decoding->n_slots, sizeof(shape.slots));
    return (size_t)gemma_cache_elements(decoding->options.config, &shape) *
           sizeof(float);
}
