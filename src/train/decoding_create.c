/*
 * decoding_create - buffers and programs of a decoding.
 *
 * The programs differ in their number of tokens only; they share parameters, caches and
 * logits.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/config.h"
#include "model/params.h"
#include "train/decoding_parts.h"
#include "train/param_rows.h"

/* Tokens of a pass, the longest first. */
static const int32_t pass_lengths[] = {512, 128, 16, 1};
static_assert(ARRAY_LENGTH(pass_lengths) == DECODING_PASSES,
              "one pass for each length");

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
            (struct decoding_buffer){mem_strdup(name), owned_buffer};
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
                                  const struct decoding_pass *pass, const char *name)
{
    char full[64];
    snprintf(full, sizeof(full), "%d.%s", (int)pass->T, name);
    return find_buffer(decoding, full);
}

/* ---- programs ---- */

static bool bind_arguments(struct decoding *decoding, struct decoding_pass *pass,
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
static bool bind_outputs(struct decoding *decoding, struct decoding_pass *pass,
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

static bool create_pass(struct decoding *decoding, int32_t T,
                        struct decoding_pass *pass, struct error *err)
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
    for (int i = 0; i < DECODING_PASSES && longest == 1; i++) {
        longest = pass_lengths[i] <= options->context ? pass_lengths[i] : 1;
    }
    gemma_cache_slots(options->config, options->context, longest, decoding->n_slots);
    if (!create_staging(decoding, longest, err)) {
        goto fail;
    }
    for (int i = 0; i < DECODING_PASSES; i++) {
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
    for (int i = 0; i < DECODING_PASSES; i++) {
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
