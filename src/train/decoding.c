/*
 * decoding - buffers, programs, and which token goes where.
 *
 * The programs differ in their number of tokens only; they share parameters, caches and
 * logits. What the slots hold is kept here, as the positions that the graph masks by.
 */
#include "train/decoding.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/config.h"
#include "model/gemma_cache.h"
#include "model/params.h"
#include "train/param_rows.h"

/* Tokens of a pass, the longest first. A rest of up to SINGLES tokens is cheaper one by
 * one; a longer one fills a part of the shortest pass but one. */
static const int32_t pass_lengths[] = {512, 128, 16, 1};
enum { N_PASSES = 4, SINGLES = 3 };
static_assert(ARRAY_LENGTH(pass_lengths) == N_PASSES, "one pass for each length");

/* A buffer by its name in the graphs; inputs of one pass have its length in front. */
struct named_buffer {
    char *name; /* owned */
    struct buffer *buffer;
};

/* The program for T tokens of each row; empty where the context is shorter. */
struct pass {
    int32_t T;
    struct program *program;
    struct buffer **arguments, **outputs; /* in the graph's order; borrowed */
    struct buffer *ids, *position, *last, *ple_rows, *slots[GEMMA_CACHE_KINDS];
};

struct decoding {
    struct engine *engine;
    struct decoding_options options;
    struct decoding_source source;
    int64_t n_slots[GEMMA_CACHE_KINDS];
    enum dtype *stored; /* [params->n] of parameters in memory */
    struct pass passes[N_PASSES];
    struct named_buffer *buffers; /* owned ones, of all kinds */
    size_t n_buffers, buffer_capacity;
    struct buffer *logits;                  /* [rows, V] of the last pass */
    struct buffer *keys[GEMMA_CACHE_KINDS]; /* [rows, slots] */

    /* Staging, and what the caches hold. */
    int32_t *ids, *position, *last;           /* [rows * T], the same, [rows] */
    int32_t *slots[GEMMA_CACHE_KINDS];        /* [rows * T] */
    int32_t *key_position[GEMMA_CACHE_KINDS]; /* [rows, slots]; -1: nothing */
    float *ple_rows;                          /* [rows * T, L*P], or NULL */
    float *row_logits;                        /* [rows, V] of each row's last token */
    float *pass_logits;                       /* [rows, V] as fetched */
    int32_t *n_tokens;                        /* [rows] */
    int32_t *n_done;                          /* [rows] of the tokens to be fed */
};

/* ---- buffers ---- */

static struct buffer *find_buffer(const struct decoding *decoding, const char *name)
{
    for (size_t i = 0; i < decoding->n_buffers; i++) {
        if (strcmp(decoding->buffers[i].name, name) == 0) {
            return decoding->buffers[i].buffer;
        }
    }
    return NULL;
}

/* Keeps the buffer under the name, to be destroyed with the decoding. */
static struct buffer *keep_buffer(struct decoding *decoding, const char *name,
                                  struct buffer *owned_buffer)
{
    if (owned_buffer != NULL) {
        decoding->buffers =
            mem_reserve_one(decoding->buffers, decoding->n_buffers,
                            &decoding->buffer_capacity, sizeof(*decoding->buffers));
        decoding->buffers[decoding->n_buffers++] =
            (struct named_buffer){mem_strdup(name), owned_buffer};
    }
    return owned_buffer;
}

/* The buffer of that name, made if it is not there. */
static struct buffer *need_buffer(struct decoding *decoding, const char *name,
                                  const struct type *type, struct error *err)
{
    struct buffer *buffer = find_buffer(decoding, name);
    if (buffer != NULL) {
        return buffer;
    }
    return keep_buffer(decoding, name,
                       backend_buffer_create(decoding->engine, type, name, err));
}

/* A parameter: the source's own buffer, its memory, or a copy. */
static struct buffer *parameter_buffer(struct decoding *decoding, const char *name,
                                       const struct type *type, struct error *err)
{
    const struct decoding_source *source = &decoding->source;
    const struct params *params = decoding->options.params;
    const int param = params_find(params, name);
    ASSERT(param >= 0);
    struct buffer *buffer =
        source->buffer == NULL ? NULL : source->buffer(source->context, param);
    if (buffer == NULL) {
        buffer = find_buffer(decoding, name);
    }
    if (buffer != NULL) {
        return buffer;
    }
    enum dtype dtype = DTYPE_F32;
    const void *view =
        source->view == NULL ? NULL : source->view(source->context, param, &dtype);
    if (view != NULL && dtype == type->dtype) {
        return keep_buffer(
            decoding, name,
            backend_buffer_borrow(decoding->engine, type, name, view, err));
    }
    buffer = need_buffer(decoding, name, type, err);
    if (buffer == NULL ||
        !param_rows_load(buffer, params, param, source->read, source->context, err)) {
        return NULL;
    }
    return buffer;
}

/* Caches and what their slots hold are shared by all passes. */
static bool is_shared(const char *name)
{
    return str_starts_with(name, "cache.") || str_ends_with(name, ".keys");
}

/* An input of one pass by its name in the graph, or NULL. */
static struct buffer *pass_buffer(const struct decoding *decoding,
                                  const struct pass *pass, const char *name)
{
    char full[64];
    snprintf(full, sizeof(full), "%d.%s", (int)pass->T, name);
    return find_buffer(decoding, full);
}

/* ---- programs ---- */

static bool bind_arguments(struct decoding *decoding, struct pass *pass,
                           const struct graph *graph, struct error *err)
{
    pass->arguments =
        mem_alloc_array((size_t)graph->n_arguments, sizeof(struct buffer *));
    for (int i = 0; i < graph->n_arguments; i++) {
        const struct value *argument = graph->arguments[i];
        const char *name = argument->node->name;
        char full[64];
        if (argument->node->op == OP_PARAMETER) {
            pass->arguments[i] = parameter_buffer(decoding, name, &argument->type, err);
        } else {
            snprintf(full, sizeof(full), "%d.%s", (int)pass->T, name);
            pass->arguments[i] = need_buffer(decoding, is_shared(name) ? name : full,
                                             &argument->type, err);
        }
        if (pass->arguments[i] == NULL) {
            return false;
        }
    }
    return true;
}

/* Caches are written where they are; logits have one place for all passes. */
static bool bind_outputs(struct decoding *decoding, struct pass *pass,
                         const struct graph *graph, struct error *err)
{
    pass->outputs = mem_alloc_array((size_t)graph->n_outputs, sizeof(struct buffer *));
    for (int i = 0; i < graph->n_outputs; i++) {
        const struct graph_output *output = &graph->outputs[i];
        pass->outputs[i] =
            need_buffer(decoding, output->name, &output->value->type, err);
        if (pass->outputs[i] == NULL) {
            return false;
        }
    }
    return true;
}

static bool create_pass(struct decoding *decoding, int32_t T, struct pass *pass,
                        struct error *err)
{
    const struct decoding_options *options = &decoding->options;
    const struct mesh mesh = mesh_single();
    struct gemma_cache_shape shape = {.B = options->rows, .T = T};
    memcpy(shape.slots, decoding->n_slots, sizeof(shape.slots));
    pass->T = T;
    pass->program =
        backend_compile(decoding->engine,
                        gemma_cache_build(&mesh, options->config, options->params,
                                          decoding->stored, &shape),
                        err);
    if (pass->program == NULL) {
        return false;
    }
    backend_program_allow_abandon(pass->program);
    const struct graph *graph = backend_program_graph(pass->program);
    if (!bind_arguments(decoding, pass, graph, err) ||
        !bind_outputs(decoding, pass, graph, err)) {
        return false;
    }
    pass->ids = pass_buffer(decoding, pass, "ids");
    pass->position = pass_buffer(decoding, pass, "position");
    pass->last = pass_buffer(decoding, pass, "last");
    pass->ple_rows = pass_buffer(decoding, pass, "ple_rows");
    pass->slots[GEMMA_CACHE_FULL] = pass_buffer(decoding, pass, "full.slots");
    pass->slots[GEMMA_CACHE_SLIDING] = pass_buffer(decoding, pass, "sliding.slots");
    return true;
}

/* ---- creation ---- */

/* As the source has it, each parameter for itself: layers with caches are not stacked, so
 * those of one role may differ (where an adapter is merged into some). Vectors without a
 * buffer are copies in f32, which saves a cast in each pass. */
static void choose_dtypes(struct decoding *decoding)
{
    const struct decoding_source *source = &decoding->source;
    const struct params *params = decoding->options.params;
    decoding->stored = mem_alloc_array((size_t)params->n, sizeof(*decoding->stored));
    for (int i = 0; i < params->n; i++) {
        struct buffer *buffer =
            source->buffer == NULL ? NULL : source->buffer(source->context, i);
        enum dtype dtype = DTYPE_F32;
        if (buffer != NULL) {
            dtype = backend_buffer_type(buffer)->dtype;
        } else if (source->view == NULL || params->info[i].rank < 2 ||
                   source->view(source->context, i, &dtype) == NULL) {
            dtype = DTYPE_F32;
        }
        decoding->stored[i] = dtype;
    }
}

/* Arrays for passes of up to `longest` tokens. */
static bool create_staging(struct decoding *decoding, int32_t longest,
                           struct error *err)
{
    const struct decoding_options *options = &decoding->options;
    const size_t rows = (size_t)options->rows;
    const size_t tokens = rows * (size_t)longest;
    const size_t V = (size_t)options->config->V;
    decoding->ids = mem_alloc_array(tokens, sizeof(int32_t));
    decoding->position = mem_alloc_array(tokens, sizeof(int32_t));
    decoding->last = mem_alloc_array(rows, sizeof(int32_t));
    decoding->n_tokens = mem_alloc_array(rows, sizeof(int32_t));
    decoding->n_done = mem_alloc_array(rows, sizeof(int32_t));
    for (int kind = 0; kind < GEMMA_CACHE_KINDS; kind++) {
        decoding->slots[kind] = mem_alloc_array(tokens, sizeof(int32_t));
        decoding->key_position[kind] = mem_alloc_array(
            rows * (size_t)decoding->n_slots[kind] + 1, sizeof(int32_t));
    }
    decoding->row_logits = mem_try_alloc(rows * V * sizeof(float), "logits", err);
    decoding->pass_logits = mem_try_alloc(rows * V * sizeof(float), "logits", err);
    if (decoding->row_logits == NULL || decoding->pass_logits == NULL) {
        return false;
    }
    memset(decoding->row_logits, 0, rows * V * sizeof(float));
    if (options->config->P > 0) {
        const size_t width = (size_t)(options->config->L * options->config->P);
        decoding->ple_rows = mem_try_alloc(tokens * width * sizeof(float),
                                           "rows of the per-layer table", err);
        return decoding->ple_rows != NULL;
    }
    return true;
}

/* The longest pass that the context can fill comes first, so that the engine's memory
 * grows once. */
struct decoding *decoding_create(struct engine *engine,
                                 const struct decoding_options *options,
                                 const struct decoding_source *source,
                                 struct error *err)
{
    ASSERT(options->rows > 0 && options->context > 0);
    struct decoding *decoding = mem_alloc(sizeof(*decoding));
    decoding->engine = engine;
    decoding->options = *options;
    decoding->source = *source;
    choose_dtypes(decoding);
    int32_t longest = 1;
    for (int i = 0; i < N_PASSES && longest == 1; i++) {
        longest = pass_lengths[i] <= options->context ? pass_lengths[i] : 1;
    }
    gemma_cache_slots(options->config, options->context, longest, decoding->n_slots);
    if (!create_staging(decoding, longest, err)) {
        goto fail;
    }
    for (int i = 0; i < N_PASSES; i++) {
        if (pass_lengths[i] <= longest &&
            !create_pass(decoding, pass_lengths[i], &decoding->passes[i], err)) {
            goto fail;
        }
    }
    decoding->logits = find_buffer(decoding, "logits");
    decoding->keys[GEMMA_CACHE_FULL] = find_buffer(decoding, "full.keys");
    decoding->keys[GEMMA_CACHE_SLIDING] = find_buffer(decoding, "sliding.keys");
    decoding_reset(decoding);
    return decoding;

fail:
    decoding_destroy(decoding);
    return NULL;
}

/* Programs before the buffers that they are bound to. */
void decoding_destroy(struct decoding *decoding)
{
    if (decoding == NULL) {
        return;
    }
    for (int i = 0; i < N_PASSES; i++) {
        backend_program_destroy(decoding->passes[i].program);
        mem_free(decoding->passes[i].arguments);
        mem_free(decoding->passes[i].outputs);
    }
    for (size_t i = 0; i < decoding->n_buffers; i++) {
        backend_buffer_destroy(decoding->buffers[i].buffer);
        mem_free(decoding->buffers[i].name);
    }
    for (int kind = 0; kind < GEMMA_CACHE_KINDS; kind++) {
        mem_free(decoding->slots[kind]);
        mem_free(decoding->key_position[kind]);
    }
    mem_free(decoding->buffers);
    mem_free(decoding->stored);
    mem_free(decoding->ids);
    mem_free(decoding->position);
    mem_free(decoding->last);
    mem_free(decoding->ple_rows);
    mem_free(decoding->row_logits);
    mem_free(decoding->pass_logits);
    mem_free(decoding->n_tokens);
    mem_free(decoding->n_done);
    mem_free(decoding);
}

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

static bool upload(struct decoding *decoding, const struct pass *pass,
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
static const struct pass *choose_pass(const struct decoding *decoding, int32_t n_left)
{
    const struct pass *shortest = &decoding->passes[N_PASSES - 2];
    for (int i = 0; i < N_PASSES - 1; i++) {
        if (decoding->passes[i].program != NULL && decoding->passes[i].T <= n_left) {
            return &decoding->passes[i];
        }
    }
    return shortest->program != NULL && n_left > SINGLES
               ? shortest
               : &decoding->passes[N_PASSES - 1];
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
        const struct pass *pass = choose_pass(decoding, left);
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
