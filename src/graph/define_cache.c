/*
 * define_cache - what the ops of generation mean: attention over a cache of keys and
 * values in any order, and writing rows into one.
 */
#include "graph/build.h"
#include "graph/define_attention.h"
#include "graph/define_rules.h"

/*
 * Which slots each query sees, bool [B, T, S]:
 *
 *     max(0, position - window + 1) <= key_position <= position
 *
 * What is later than the query becomes -1, which is below every lower bound, to need one
 * comparison.
 */
static struct value *visible_slots(struct graph *graph, struct value *position,
                                   struct value *key_position, int64_t window)
{
    const int64_t dims[3] = {position->type.shape.dim[0], position->type.shape.dim[1],
                             key_position->type.shape.dim[1]};
    const struct shape shape = type_shape(3, dims);
    const int query_axes[2] = {0, 1}, key_axes[2] = {0, 2};
    struct value *zero = build_scalar(graph, DTYPE_I32, 0.0);
    struct value *low = zero;
    if (window > 0) {
        low =
            build_max(graph, build_shift(graph, position, 1.0 - (double)window), zero);
        low = build_broadcast_like_x(graph, low, shape, query_axes);
    }
    struct value *high = build_broadcast_like_x(graph, position, shape, query_axes);
    struct value *key = build_broadcast_like_x(graph, key_position, shape, key_axes);
    key = build_select(graph, build_compare(graph, COMPARE_LE, key, high), key,
                       build_scalar(graph, DTYPE_I32, -1.0));
    return build_compare(graph, COMPARE_GE, key, low);
}

/* As attention, but for the mask; slots are in no order. */
void define_attention_cached(struct define *define)
{
    struct graph *graph = define->graph;
    const struct define_attention_layout layout = define_attention_layout_of(define);
    /* q [B, G, R * T, K]; k, v [B, G, S, K] */
    struct value *q = define_attention_rows(graph, &layout, define->inputs[0]);
    struct value *k = define_attention_keys(graph, define->inputs[1]);
    struct value *v = define_attention_keys(graph, define->inputs[2]);
    struct value *visible = visible_slots(graph, define->inputs[3], define->inputs[4],
                                          define->attributes->window);
    struct value *mask;
    struct value *s = define_attention_masked(graph, &layout, q, k, visible,
                                              define->attributes->value, &mask);
    struct value *lse;
    define->outputs[0] = define_attention_mix(graph, &layout, s, mask, v, &lse);
}

/* slots [B, T] as rows of the flat cache [B * S, ...]; -1: none. */
static struct value *flat_slots(struct graph *graph, struct value *slots, int64_t S)
{
    struct value *zero = build_scalar(graph, DTYPE_I32, 0.0);
    struct value *end = build_scalar(graph, DTYPE_I32, (double)S);
    struct value *first =
        build_scale(graph, build_iota(graph, slots->type, 0), (double)S);
    struct value *is_row =
        build_select(graph, build_compare(graph, COMPARE_GE, slots, zero),
                     build_compare(graph, COMPARE_LT, slots, end),
                     build_scalar(graph, DTYPE_BOOL, 0.0));
    return build_select(graph, is_row, build_add(graph, slots, first),
                        build_scalar(graph, DTYPE_I32, -1.0));
}

/* Rows that are hit become zero, and the new ones are added to them. */
void define_write_rows(struct define *define)
{
    struct graph *graph = define->graph;
    struct value *cache = define->inputs[0];
    const struct shape *shape = &cache->type.shape;
    /* [B, S, ...] -> [B * S, ...] */
    struct shape flat = {.rank = shape->rank - 1};
    flat.dim[0] = shape->dim[0] * shape->dim[1];
    for (int i = 2; i < shape->rank; i++) {
        flat.dim[i - 1] = shape->dim[i];
    }
    struct value *ids = flat_slots(graph, define->inputs[2], shape->dim[1]);
    struct value *old = build_reshape(graph, cache, flat);

    struct value *none = build_constant(graph, type_make(DTYPE_I32, 1, flat.dim), 0.0);
    struct value *one = build_constant(graph, ids->type, 1.0);
    struct value *hits = build_scatter_add_rows(graph, none, ids, one, NULL, -1);
    const int first_axis = 0;
    struct value *is_hit = define_spread(
        graph,
        build_compare(graph, COMPARE_GT, hits, build_scalar(graph, DTYPE_I32, 0.0)),
        old, &first_axis);
    struct value *kept =
        build_select(graph, is_hit, build_scalar(graph, cache->type.dtype, 0.0), old);
    struct value *written =
        build_scatter_add_rows(graph, kept, ids, define->inputs[1], NULL, -1);
    define->outputs[0] = build_reshape(graph, written, *shape);
}
