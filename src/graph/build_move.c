/*
 * build_move - ops that move elements, and repeat.
 */
#include "graph/build.h"

struct value *build_reshape(struct graph *graph, struct value *x, struct shape shape)
{
    return graph_append_value(graph, OP_RESHAPE, 1, &x,
                              &(struct attributes){.shape = shape});
}

/* For callers that know more than shapes say; infer still proves that it is right. */
struct value *build_reshape_placed(struct graph *graph, struct value *x,
                                   struct shape shape, struct placement placement)
{
    const struct attributes attributes = {
        .shape = shape,
        .placement = placement,
        .has_placement = true,
    };
    return graph_append_value(graph, OP_RESHAPE, 1, &x, &attributes);
}

struct value *build_transpose(struct graph *graph, struct value *x, const int *axes)
{
    struct attributes attributes = {.n_axes = x->type.shape.rank};
    for (int i = 0; i < attributes.n_axes; i++) {
        attributes.axes[i] = axes[i];
    }
    return graph_append_value(graph, OP_TRANSPOSE, 1, &x, &attributes);
}

/* axes has one entry per dimension of x; all other dimensions of the result are new. */
struct value *build_broadcast(struct graph *graph, struct value *x, struct shape shape,
                              const int *axes, struct placement placement)
{
    struct attributes attributes = {
        .n_axes = x->type.shape.rank,
        .shape = shape,
        .placement = placement,
    };
    for (int i = 0; i < attributes.n_axes; i++) {
        attributes.axes[i] = axes[i];
    }
    return graph_append_value(graph, OP_BROADCAST, 1, &x, &attributes);
}

/* Splits go where their dimensions go; what is new is the same on all ranks. */
struct value *build_broadcast_like_x(struct graph *graph, struct value *x,
                                     struct shape shape, const int *axes)
{
    struct placement placement = x->type.placement;
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (placement.axis[axis].kind == PLACE_SPLIT) {
            placement.axis[axis].dim = axes[placement.axis[axis].dim];
        }
    }
    return build_broadcast(graph, x, shape, axes, placement);
}

/* slice and pad both keep two numbers per dimension in start and limit. */
static struct value *with_bounds(struct graph *graph, enum op op, struct value *x,
                                 const int64_t *start, const int64_t *limit)
{
    struct attributes attributes = {0};
    for (int i = 0; i < x->type.shape.rank; i++) {
        attributes.start[i] = start[i];
        attributes.limit[i] = limit[i];
    }
    return graph_append_value(graph, op, 1, &x, &attributes);
}

struct value *build_slice(struct graph *graph, struct value *x, const int64_t *start,
                          const int64_t *limit)
{
    return with_bounds(graph, OP_SLICE, x, start, limit);
}

/* All other dimensions stay whole. */
struct value *build_slice_axis(struct graph *graph, struct value *x, int axis,
                               int64_t start, int64_t limit)
{
    ASSERT(axis >= 0 && axis < x->type.shape.rank);
    int64_t starts[SHAPE_MAX_RANK] = {0};
    int64_t limits[SHAPE_MAX_RANK];
    for (int i = 0; i < x->type.shape.rank; i++) {
        limits[i] = x->type.shape.dim[i];
    }
    starts[axis] = start;
    limits[axis] = limit;
    return build_slice(graph, x, starts, limits);
}

struct value *build_pad(struct graph *graph, struct value *x, const int64_t *before,
                        const int64_t *after)
{
    return with_bounds(graph, OP_PAD, x, before, after);
}

struct value *build_concat(struct graph *graph, struct value *const *parts, int n_parts,
                           int axis)
{
    return graph_append_value(graph, OP_CONCAT, n_parts, parts,
                              &(struct attributes){.axis = axis});
}

struct value *build_dynamic_slice(struct graph *graph, struct value *x,
                                  struct value *start, int axis, int64_t size)
{
    return graph_append_value(graph, OP_DYNAMIC_SLICE, 2, (struct value *[]){x, start},
                              &(struct attributes){.axis = axis, .size = size});
}

struct value *build_dynamic_update_slice(struct graph *graph, struct value *x,
                                         struct value *part, struct value *start,
                                         int axis)
{
    return graph_append_value(graph, OP_DYNAMIC_UPDATE_SLICE, 3,
                              (struct value *[]){x, part, start},
                              &(struct attributes){.axis = axis});
}

struct value *build_gather_rows(struct graph *graph, struct value *table,
                                struct value *ids, int64_t ignore_row)
{
    return graph_append_value(graph, OP_GATHER_ROWS, 2, (struct value *[]){table, ids},
                              &(struct attributes){.ignore_row = ignore_row});
}

/* keep is left out of the operands where it is NULL: three operands mean `always`. */
struct value *build_scatter_add_rows(struct graph *graph, struct value *acc,
                                     struct value *ids, struct value *rows,
                                     struct value *keep, int64_t ignore_row)
{
    return graph_append_value(graph, OP_SCATTER_ADD_ROWS, keep == NULL ? 3 : 4,
                              (struct value *[]){acc, ids, rows, keep},
                              &(struct attributes){.ignore_row = ignore_row});
}

/*
 * Operands are one list: carries, stacked, invariants; attributes say where to cut it.
 */
struct node *build_repeat(struct graph *graph, int n_iterations,
                          struct graph *owned_body, struct value *const *carries,
                          int n_carries, struct value *const *stacked, int n_stacked,
                          struct value *const *invariants, int n_invariants,
                          const char *name)
{
    const struct attributes attributes = {
        .n_iterations = n_iterations,
        .n_carries = n_carries,
        .n_stacked = n_stacked,
    };
    struct value *const *const groups[] = {carries, stacked, invariants};
    const int counts[] = {n_carries, n_stacked, n_invariants};
    const int n_inputs = n_carries + n_stacked + n_invariants;
    /* One more than needed: a loop may have no operands. */
    struct value **inputs =
        arena_alloc_array(graph->arena, (size_t)n_inputs + 1, sizeof(struct value *));
    int next = 0;
    for (int group = 0; group < 3; group++) {
        for (int i = 0; i < counts[group]; i++) {
            inputs[next++] = groups[group][i];
        }
    }
    return graph_append(graph, OP_REPEAT, n_inputs, inputs, &attributes, owned_body,
                        name);
}
