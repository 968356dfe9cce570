/*
 * composites - see the header. The loss is sum(y * "dy") for a fixed random dy, so that
 * every element of the result counts differently.
 */
#include "composites.h"

#include <string.h>

#include "base/mem.h"
#include "graph/build.h"
#include "graph/grad.h"

enum { B = 2, T = 6, H = 4, G = 2, K = 8, D = 12, V = 20, N = B * T, C = 7 };

static struct value *input(struct graph *graph, const char *name, enum dtype dtype,
                           int rank, const int64_t *dims)
{
    return build_input(graph, name, type_make(dtype, rank, dims));
}

static struct value *floats(struct graph *graph, const char *name, int rank,
                            const int64_t *dims)
{
    return input(graph, name, DTYPE_F32, rank, dims);
}

/* Outputs y and the gradients of sum(y * dy) by the given values. */
static void finish(struct graph *graph, struct value *y, struct value *const *wrt,
                   int n)
{
    struct value *gradients[8] = {NULL};
    struct value *dy = build_input(graph, "dy", y->type);
    graph_add_output(graph, "y", y, NULL);
    const struct grad_options options = {.keeps_partial = false};
    grad_build(graph, 1, &y, &dy, n, wrt, &options, gradients);
    for (int i = 0; i < n; i++) {
        const char *name = arena_printf(graph->arena, "d %s", wrt[i]->node->name);
        graph_add_output(graph, name, gradients[i], NULL);
    }
}

static void make_use_param(struct graph *graph)
{
    struct value *x = floats(graph, "x", 2, (int64_t[]){N, D});
    finish(graph, build_use_param(graph, x, DTYPE_BF16), &x, 1);
}

static void make_accumulate(struct graph *graph)
{
    struct value *acc = floats(graph, "acc", 1, (int64_t[]){D});
    struct value *g = floats(graph, "g", 1, (int64_t[]){D});
    struct value *keep = build_input(graph, "keep", type_scalar(DTYPE_BOOL));
    graph_add_output(graph, "y", build_accumulate(graph, acc, keep, g), acc);
}

static void make_sum_squares(struct graph *graph)
{
    struct value *x = floats(graph, "x", 2, (int64_t[]){N, D});
    graph_add_output(graph, "y", build_sum_squares(graph, x), NULL);
}

static void make_rms_norm(struct graph *graph)
{
    struct value *x = floats(graph, "x", 2, (int64_t[]){N, D});
    struct value *weight = floats(graph, "weight", 1, (int64_t[]){D});
    finish(graph, build_rms_norm(graph, x, weight, 1e-6, true),
           (struct value *[]){x, weight}, 2);
}

static void make_rope(struct graph *graph)
{
    struct value *x = floats(graph, "x", 4, (int64_t[]){B, T, H, K});
    struct value *position = input(graph, "position", DTYPE_I32, 2, (int64_t[]){B, T});
    finish(graph, build_rope(graph, x, position, 10000, 1, 3), &x, 1);
}

static void make_gelu_tanh(struct graph *graph)
{
    struct value *x = floats(graph, "x", 2, (int64_t[]){N, D});
    finish(graph, build_gelu_tanh(graph, x), &x, 1);
}

static void make_geglu(struct graph *graph)
{
    struct value *gate = floats(graph, "gate", 2, (int64_t[]){N, D});
    struct value *up = floats(graph, "up", 2, (int64_t[]){N, D});
    finish(graph, build_geglu(graph, gate, up), (struct value *[]){gate, up}, 2);
}

static void make_silu(struct graph *graph)
{
    struct value *x = floats(graph, "x", 2, (int64_t[]){N, D});
    finish(graph, build_silu(graph, x), &x, 1);
}

static void make_softcap(struct graph *graph)
{
    struct value *x = floats(graph, "x", 2, (int64_t[]){N, D});
    finish(graph, build_softcap(graph, x, 1.5), &x, 1);
}

static void make_embed(struct graph *graph)
{
    struct value *table = floats(graph, "table", 2, (int64_t[]){V, D});
    struct value *ids = input(graph, "rows", DTYPE_I32, 2, (int64_t[]){B, T});
    finish(graph, build_embed(graph, table, ids, 3.5, 0), &table, 1);
}

static void make_attention(struct graph *graph, int64_t window)
{
    struct value *q = floats(graph, "q", 4, (int64_t[]){B, T, H, K});
    struct value *k = floats(graph, "k", 4, (int64_t[]){B, T, G, K});
    struct value *v = floats(graph, "v", 4, (int64_t[]){B, T, G, K});
    struct value *first_key =
        input(graph, "first_key", DTYPE_I32, 2, (int64_t[]){B, T});
    struct value *lse = NULL;
    struct value *y = build_attention(graph, q, k, v, first_key, 0.3, window, &lse);
    graph_add_output(graph, "lse", lse, NULL);
    finish(graph, y, (struct value *[]){q, k, v}, 3);
}

static void make_attention_full(struct graph *graph)
{
    make_attention(graph, 0);
}

static void make_attention_sliding(struct graph *graph)
{
    make_attention(graph, 3);
}

/* Slots in any order, some of them empty. */
static void make_attention_cached(struct graph *graph)
{
    struct value *q = floats(graph, "q", 4, (int64_t[]){B, T, H, K});
    struct value *k = floats(graph, "k", 4, (int64_t[]){B, C, G, K});
    struct value *v = floats(graph, "v", 4, (int64_t[]){B, C, G, K});
    struct value *position =
        input(graph, "query_position", DTYPE_I32, 2, (int64_t[]){B, T});
    struct value *keys = input(graph, "key_position", DTYPE_I32, 2, (int64_t[]){B, C});
    graph_add_output(graph, "y",
                     build_attention_cached(graph, q, k, v, position, keys, 0.3, 4),
                     NULL);
}

static void make_write_rows(struct graph *graph)
{
    struct value *cache = floats(graph, "cache", 3, (int64_t[]){B, C, D});
    struct value *rows = floats(graph, "new_rows", 3, (int64_t[]){B, T, D});
    struct value *slots = input(graph, "slots", DTYPE_I32, 2, (int64_t[]){B, T});
    graph_add_output(graph, "y", build_write_rows(graph, cache, rows, slots), cache);
}

static void make_loss_head(struct graph *graph)
{
    struct value *hidden = floats(graph, "hidden", 2, (int64_t[]){N, D});
    struct value *table = floats(graph, "table", 2, (int64_t[]){V, D});
    struct value *rows = input(graph, "rows", DTYPE_I32, 1, (int64_t[]){C});
    struct value *targets = input(graph, "targets", DTYPE_I32, 1, (int64_t[]){C});
    struct value *weight = floats(graph, "positive", 1, (int64_t[]){C});
    struct value *acc = floats(graph, "acc", 2, (int64_t[]){V, D});
    struct value *keep = build_input(graph, "keep", type_scalar(DTYPE_BOOL));
    const struct node *head = build_loss_head(
        graph, hidden, table, rows, targets, weight,
        &(struct loss_head_options){.cap = 30, .with_gradient = true}, acc, keep);
    static const char *const names[] = {"loss_sum", "token_loss", "lse", "d hidden",
                                        "d table"};
    for (int i = 0; i < 5; i++) {
        graph_add_output(graph, names[i], head->outputs[i], i == 4 ? acc : NULL);
    }
}

static void make_adamw(struct graph *graph)
{
    struct value *p = floats(graph, "p", 1, (int64_t[]){D});
    struct value *g = floats(graph, "g", 1, (int64_t[]){D});
    struct value *m = floats(graph, "m", 1, (int64_t[]){D});
    struct value *v = build_mul(graph, m, m);
    struct value *hyper = floats(graph, "positive", 1, (int64_t[]){ADAMW_N_HYPER});
    struct value *scale = build_input(graph, "scale", type_scalar(DTYPE_F32));
    struct value *apply = build_input(graph, "apply", type_scalar(DTYPE_BOOL));
    const struct node *node = build_adamw(graph, p, g, m, v, hyper, scale, apply);
    graph_add_output(graph, "p", node->outputs[0], p);
    graph_add_output(graph, "m", node->outputs[1], NULL);
    graph_add_output(graph, "v", node->outputs[2], NULL);
}

struct composite_case {
    const char *name;
    void (*make)(struct graph *graph);
    bool is_tiled;
};

static const struct composite_case cases[] = {
    {"use_param", make_use_param, false},
    {"accumulate", make_accumulate, false},
    {"sum_squares", make_sum_squares, false},
    {"rms_norm", make_rms_norm, false},
    {"rope", make_rope, false},
    {"gelu_tanh", make_gelu_tanh, false},
    {"geglu", make_geglu, false},
    {"silu", make_silu, false},
    {"softcap", make_softcap, false},
    {"embed", make_embed, false},
    {"attention", make_attention_full, true},
    {"attention, window 3", make_attention_sliding, true},
    {"attention_cached", make_attention_cached, false},
    {"write_rows", make_write_rows, false},
    {"loss_head", make_loss_head, true},
    {"adamw", make_adamw, false},
};

int composites_count(void)
{
    return (int)ARRAY_LENGTH(cases);
}

const char *composites_name(int i)
{
    return cases[i].name;
}

bool composites_is_tiled(int i)
{
    return cases[i].is_tiled;
}

struct graph *composites_create(int i)
{
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    cases[i].make(graph);
    return graph;
}

void composites_fill(const struct graph *graph, void *const *arguments)
{
    for (int i = 0; i < graph->n_arguments; i++) {
        const struct value *argument = graph->arguments[i];
        const char *name = argument->node->name;
        int32_t *data = arguments[i];
        for (int64_t k = 0; k < type_elements(&argument->type); k++) {
            if (strcmp(name, "position") == 0) {
                data[k] = (int32_t)(k % T * 37);
            } else if (strcmp(name, "first_key") == 0) {
                /* row 0: two documents; row 1: one, then padding */
                const int32_t t = (int32_t)(k % T);
                data[k] = k < T ? (t < 4 ? 0 : 4) : (t < 5 ? 0 : T);
            } else if (strcmp(name, "query_position") == 0) {
                data[k] = (int32_t)(k % T) + 3;
            } else if (strcmp(name, "key_position") == 0) {
                data[k] = (int32_t)(k * 3 % C) - (k == 2);
            } else if (strcmp(name, "slots") == 0) {
                data[k] = (int32_t)(k % T * 3 % C) - (k == 0);
            } else if (strcmp(name, "rows") == 0) {
                data[k] = (int32_t)(k * 3 % N);
            } else if (strcmp(name, "targets") == 0) {
                data[k] = (int32_t)(k * 5 % V);
            }
        }
    }
}
