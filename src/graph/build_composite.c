/*
 * build_composite - ops with a definition (define.h) and native kernels.
 */
#include "graph/build.h"

/* Parameters are gathered over shard alone: tensor parts are used as they are. */
struct value *build_use_param(struct graph *graph, struct value *shard,
                              enum dtype dtype)
{
    return graph_append_value(
        graph, OP_USE_PARAM, 1, &shard,
        &(struct attributes){.dtype = dtype, .mesh_axis = MESH_SHARD});
}

struct value *build_accumulate(struct graph *graph, struct value *acc,
                               struct value *keep, struct value *g)
{
    return graph_append_value(graph, OP_ACCUMULATE, 3, (struct value *[]){acc, keep, g},
                              &(struct attributes){0});
}

struct value *build_sum_squares(struct graph *graph, struct value *x)
{
    return graph_append_value(graph, OP_SUM_SQUARES, 1, &x, &(struct attributes){0});
}

/* With and without a weight are two arities of one op. */
struct value *build_rms_norm(struct graph *graph, struct value *x, struct value *weight,
                             double eps, bool adds_one)
{
    return graph_append_value(graph, OP_RMS_NORM, weight == NULL ? 1 : 2,
                              (struct value *[]){x, weight},
                              &(struct attributes){.eps = eps, .adds_one = adds_one});
}

struct value *build_rope(struct graph *graph, struct value *x, struct value *position,
                         double theta, double factor, int64_t pairs)
{
    const struct attributes attributes = {
        .theta = theta,
        .factor = factor,
        .pairs = pairs,
    };
    return graph_append_value(graph, OP_ROPE, 2, (struct value *[]){x, position},
                              &attributes);
}

struct value *build_gelu_tanh(struct graph *graph, struct value *x)
{
    return graph_append_value(graph, OP_GELU_TANH, 1, &x, &(struct attributes){0});
}

struct value *build_geglu(struct graph *graph, struct value *gate, struct value *up)
{
    return graph_append_value(graph, OP_GEGLU, 2, (struct value *[]){gate, up},
                              &(struct attributes){0});
}

struct value *build_silu(struct graph *graph, struct value *x)
{
    return graph_append_value(graph, OP_SILU, 1, &x, &(struct attributes){0});
}

/* The cap is in `value`. */
struct value *build_softcap(struct graph *graph, struct value *x, double cap)
{
    return graph_append_value(graph, OP_SOFTCAP, 1, &x,
                              &(struct attributes){.value = cap});
}

/* The scale is in `value`; ignore_row goes on to the scatter of the gradient. */
struct value *build_embed(struct graph *graph, struct value *table, struct value *ids,
                          double scale, int64_t ignore_row)
{
    return graph_append_value(
        graph, OP_EMBED, 2, (struct value *[]){table, ids},
        &(struct attributes){.value = scale, .ignore_row = ignore_row});
}

/* Whoever does not need lse still gets it made: the backward reads it. */
struct value *build_attention(struct graph *graph, struct value *q, struct value *k,
                              struct value *v, struct value *first_key, double scale,
                              int64_t window, struct value **lse)
{
    struct value *const inputs[] = {q, k, v, first_key};
    const struct attributes attributes = {.value = scale, .window = window};
    struct node *node =
        graph_append(graph, OP_ATTENTION, 4, inputs, &attributes, NULL, NULL);
    if (lse != NULL) {
        *lse = node->outputs[1];
    }
    return node->outputs[0];
}

struct value *build_attention_cached(struct graph *graph, struct value *q,
                                     struct value *k, struct value *v,
                                     struct value *position, struct value *key_position,
                                     double scale, int64_t window)
{
    struct value *const inputs[] = {q, k, v, position, key_position};
    return graph_append_value(graph, OP_ATTENTION_CACHED, 5, inputs,
                              &(struct attributes){.value = scale, .window = window});
}

struct value *build_write_rows(struct graph *graph, struct value *cache,
                               struct value *rows, struct value *slots)
{
    return graph_append_value(graph, OP_WRITE_ROWS, 3,
                              (struct value *[]){cache, rows, slots},
                              &(struct attributes){0});
}

/* Optional operands come last, and keep only with acc, so their number says which. */
struct node *build_loss_head(struct graph *graph, struct value *hidden,
                             struct value *table, struct value *loss_rows,
                             struct value *targets, struct value *weight,
                             const struct loss_head_options *options, struct value *acc,
                             struct value *keep)
{
    ASSERT(acc != NULL || keep == NULL);
    ASSERT(acc == NULL || !options->freezes_table);
    struct value *const inputs[] = {hidden, table, loss_rows, targets,
                                    weight, acc,   keep};
    const int n_inputs = 5 + (acc != NULL) + (keep != NULL);
    const struct attributes attributes = {
        .value = options->cap,
        .z_loss = options->z_loss,
        .label_smoothing = options->label_smoothing,
        .with_gradient = options->with_gradient,
        .freezes_table = options->freezes_table,
    };
    return graph_append(graph, OP_LOSS_HEAD, n_inputs, inputs, &attributes, NULL, NULL);
}

/* The three results take the memory of p, m and v; hyper holds what changes per step,
 * so that one graph serves the whole run. */
struct node *build_adamw(struct graph *graph, struct value *p, struct value *g,
                         struct value *m, struct value *v, struct value *hyper,
                         struct value *scale, struct value *apply)
{
    struct value *const inputs[] = {p, g, m, v, hyper, scale, apply};
    return graph_append(graph, OP_ADAMW, 7, inputs, &(struct attributes){0}, NULL,
                        NULL);
}

/* Two operands more say that chance decides. */
struct node *build_adamw_stochastic(struct graph *graph, struct value *p,
                                    struct value *g, struct value *m, struct value *v,
                                    struct value *hyper, struct value *scale,
                                    struct value *apply, struct value *seed,
                                    struct value *step)
{
    ASSERT(p->type.dtype == DTYPE_BF16);
    struct value *const inputs[] = {p, g, m, v, hyper, scale, apply, seed, step};
    return graph_append(graph, OP_ADAMW, 9, inputs, &(struct attributes){0}, NULL,
                        NULL);
}
