/*
 * build - sources, elementwise ops, contraction and reduction, collectives. (Moves are
 * in build_move.c, composites in build_composite.c.)
 *
 * Each function only puts operands and attributes in the op's order; rules are in
 * infer.
 */
#include "graph/build.h"

/* Sources have no operands: their attributes are their type. */
static struct attributes of_type(struct type type)
{
    return (struct attributes){
        .dtype = type.dtype,
        .shape = type.shape,
        .placement = type.placement,
    };
}

/* ---- sources ---- */

/* Names are copied; the node carries what checkpoints and export need to know. */
struct value *build_stacked_parameter(struct graph *graph, const char *name,
                                      const char *const *names, int n_names,
                                      struct type type, bool is_trainable)
{
    ASSERT(n_names >= 1);
    const struct attributes attributes = of_type(type);
    struct node *node =
        graph_append(graph, OP_PARAMETER, 0, NULL, &attributes, NULL, name);
    const char **copies =
        arena_alloc_array(graph->arena, (size_t)n_names, sizeof(*copies));
    for (int i = 0; i < n_names; i++) {
        copies[i] = arena_strdup(graph->arena, names[i]);
    }
    node->names = copies;
    node->n_names = n_names;
    node->is_trainable = is_trainable;
    return node->outputs[0];
}

/* A parameter that is no stack is a stack of one: it has one name. */
struct value *build_parameter(struct graph *graph, const char *name, struct type type,
                              bool is_trainable)
{
    return build_stacked_parameter(graph, name, &name, 1, type, is_trainable);
}

struct value *build_input(struct graph *graph, const char *name, struct type type)
{
    const struct attributes attributes = of_type(type);
    return graph_append(graph, OP_INPUT, 0, NULL, &attributes, NULL, name)->outputs[0];
}

struct value *build_constant(struct graph *graph, struct type type, double value)
{
    struct attributes attributes = of_type(type);
    attributes.value = value;
    return graph_append_value(graph, OP_CONSTANT, 0, NULL, &attributes);
}

struct value *build_scalar(struct graph *graph, enum dtype dtype, double value)
{
    return build_constant(graph, type_scalar(dtype), value);
}

struct value *build_iota(struct graph *graph, struct type type, int axis)
{
    struct attributes attributes = of_type(type);
    attributes.axis = axis;
    return graph_append_value(graph, OP_IOTA, 0, NULL, &attributes);
}

struct value *build_random_bits(struct graph *graph, struct value *seed,
                                struct value *step, uint32_t purpose, struct type type)
{
    struct attributes attributes = of_type(type);
    attributes.purpose = purpose;
    return graph_append_value(graph, OP_RANDOM_BITS, 2, (struct value *[]){seed, step},
                              &attributes);
}

/* The type (i32 scalar) is the rule's. */
struct value *build_axis_index(struct graph *graph, enum mesh_axis axis)
{
    const struct attributes attributes = {.mesh_axis = axis};
    return graph_append_value(graph, OP_AXIS_INDEX, 0, NULL, &attributes);
}

/* ---- elementwise ---- */

/* Ops without attributes. */
static struct value *unary(struct graph *graph, enum op op, struct value *x)
{
    return graph_append_value(graph, op, 1, &x, &(struct attributes){0});
}

static struct value *binary(struct graph *graph, enum op op, struct value *a,
                            struct value *b)
{
    return graph_append_value(graph, op, 2, (struct value *[]){a, b},
                              &(struct attributes){0});
}

struct value *build_cast(struct graph *graph, struct value *x, enum dtype dtype)
{
    return graph_append_value(graph, OP_CAST, 1, &x,
                              &(struct attributes){.dtype = dtype});
}

struct value *build_bitcast(struct graph *graph, struct value *x, enum dtype dtype)
{
    return graph_append_value(graph, OP_BITCAST, 1, &x,
                              &(struct attributes){.dtype = dtype});
}

struct value *build_add(struct graph *graph, struct value *a, struct value *b)
{
    return binary(graph, OP_ADD, a, b);
}

struct value *build_sub(struct graph *graph, struct value *a, struct value *b)
{
    return binary(graph, OP_SUB, a, b);
}

struct value *build_mul(struct graph *graph, struct value *a, struct value *b)
{
    return binary(graph, OP_MUL, a, b);
}

struct value *build_div(struct graph *graph, struct value *a, struct value *b)
{
    return binary(graph, OP_DIV, a, b);
}

struct value *build_max(struct graph *graph, struct value *a, struct value *b)
{
    return binary(graph, OP_MAX, a, b);
}

struct value *build_exp(struct graph *graph, struct value *x)
{
    return unary(graph, OP_EXP, x);
}

struct value *build_log(struct graph *graph, struct value *x)
{
    return unary(graph, OP_LOG, x);
}

struct value *build_tanh(struct graph *graph, struct value *x)
{
    return unary(graph, OP_TANH, x);
}

struct value *build_sqrt(struct graph *graph, struct value *x)
{
    return unary(graph, OP_SQRT, x);
}

struct value *build_rsqrt(struct graph *graph, struct value *x)
{
    return unary(graph, OP_RSQRT, x);
}

struct value *build_cos(struct graph *graph, struct value *x)
{
    return unary(graph, OP_COS, x);
}

struct value *build_sin(struct graph *graph, struct value *x)
{
    return unary(graph, OP_SIN, x);
}

struct value *build_compare(struct graph *graph, enum compare compare, struct value *a,
                            struct value *b)
{
    return graph_append_value(graph, OP_COMPARE, 2, (struct value *[]){a, b},
                              &(struct attributes){.compare = compare});
}

struct value *build_select(struct graph *graph, struct value *condition,
                           struct value *a, struct value *b)
{
    return graph_append_value(graph, OP_SELECT, 3, (struct value *[]){condition, a, b},
                              &(struct attributes){0});
}

struct value *build_is_finite(struct graph *graph, struct value *x)
{
    return unary(graph, OP_IS_FINITE, x);
}

struct value *build_stop_gradient(struct graph *graph, struct value *x)
{
    return unary(graph, OP_STOP_GRADIENT, x);
}

struct value *build_barrier(struct graph *graph, struct value *x)
{
    return unary(graph, OP_BARRIER, x);
}

/* The scalar is the same everywhere, so a partial x stays partial. */
struct value *build_scale(struct graph *graph, struct value *x, double value)
{
    return build_mul(graph, x, build_scalar(graph, x->type.dtype, value));
}

/* Refused for a partial x, which would get the number once per rank. */
struct value *build_shift(struct graph *graph, struct value *x, double value)
{
    return build_add(graph, x, build_scalar(graph, x->type.dtype, value));
}

/* ---- contraction and reduction ---- */

struct value *build_matmul(struct graph *graph, struct value *a, struct value *b,
                           bool transpose_a, bool transpose_b, enum dtype dtype)
{
    const struct attributes attributes = {
        .transpose_a = transpose_a,
        .transpose_b = transpose_b,
        .dtype = dtype,
    };
    return graph_append_value(graph, OP_MATMUL, 2, (struct value *[]){a, b},
                              &attributes);
}

/* The accumulator decides the dtype: f32 sums of bf16 products. */
struct value *build_matmul_into(struct graph *graph, struct value *a, struct value *b,
                                bool transpose_a, bool transpose_b, struct value *acc,
                                struct value *keep)
{
    const struct attributes attributes = {
        .transpose_a = transpose_a,
        .transpose_b = transpose_b,
        .dtype = acc->type.dtype,
    };
    return graph_append_value(graph, OP_MATMUL, keep == NULL ? 3 : 4,
                              (struct value *[]){a, b, acc, keep}, &attributes);
}

/*
 * The leading dimensions of x are merged into one, so that the weight needs no copies:
 * [..., K] -> [R, K] . [N, K]^T -> [R, N] -> [..., N]. Placements are given, because
 * with lengths of 1 (decoding one token) the rule for reshape would not know rows from
 * columns.
 */
struct value *build_linear(struct graph *graph, struct value *x, struct value *weight)
{
    /* x [..., K] */
    const struct shape *shape = &x->type.shape;
    const int last = shape->rank - 1;
    ASSERT(shape->rank >= 1);
    if (shape->rank == 2) {
        return build_matmul(graph, x, weight, false, true, x->type.dtype);
    }
    const int64_t K = shape->dim[last];
    const struct shape rows_shape =
        type_shape(2, (int64_t[]){type_elements(&x->type) / K, K});
    struct placement rows_placement = x->type.placement;
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        /* A split of columns stays one of columns (1), any other is one of rows (0). */
        if (rows_placement.axis[axis].kind == PLACE_SPLIT) {
            rows_placement.axis[axis].dim = rows_placement.axis[axis].dim == last;
        }
    }
    /* [R, K], then [R, N] */
    struct value *rows = build_reshape_placed(graph, x, rows_shape, rows_placement);
    struct value *y = build_matmul(graph, rows, weight, false, true, x->type.dtype);

    struct shape result_shape = *shape;
    result_shape.dim[last] = y->type.shape.dim[1];
    struct placement placement = y->type.placement;
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        /* The other way: rows go back to the dimension they came from. */
        if (placement.axis[axis].kind == PLACE_SPLIT) {
            placement.axis[axis].dim =
                placement.axis[axis].dim == 1 ? last : x->type.placement.axis[axis].dim;
        }
    }
    return build_reshape_placed(graph, y, result_shape, placement);
}

/* Reducing over no dimension is allowed: it is the identity. */
static struct value *reduce(struct graph *graph, enum op op, struct value *x,
                            int n_axes, const int *axes)
{
    ASSERT(n_axes >= 0 && n_axes <= SHAPE_MAX_RANK);
    struct attributes attributes = {.n_axes = n_axes};
    for (int i = 0; i < n_axes; i++) {
        attributes.axes[i] = axes[i];
    }
    return graph_append_value(graph, op, 1, &x, &attributes);
}

struct value *build_reduce_sum(struct graph *graph, struct value *x, int n_axes,
                               const int *axes)
{
    return reduce(graph, OP_REDUCE_SUM, x, n_axes, axes);
}

struct value *build_reduce_max(struct graph *graph, struct value *x, int n_axes,
                               const int *axes)
{
    return reduce(graph, OP_REDUCE_MAX, x, n_axes, axes);
}

/* ---- collectives ---- */

/* One mesh axis, one dimension (0 for fan_out, which has none). */
static struct value *collective(struct graph *graph, enum op op, struct value *x,
                                enum mesh_axis mesh_axis, int axis)
{
    const struct attributes attributes = {.mesh_axis = mesh_axis, .axis = axis};
    return graph_append_value(graph, op, 1, &x, &attributes);
}

struct value *build_all_gather(struct graph *graph, struct value *x,
                               enum mesh_axis mesh_axis, int axis)
{
    return collective(graph, OP_ALL_GATHER, x, mesh_axis, axis);
}

struct value *build_reduce_scatter(struct graph *graph, struct value *x,
                                   enum mesh_axis mesh_axis, int axis)
{
    return collective(graph, OP_REDUCE_SCATTER, x, mesh_axis, axis);
}

struct value *build_all_reduce(struct graph *graph, struct value *x,
                               enum mesh_axis mesh_axis, enum reduce_kind reduce)
{
    const struct attributes attributes = {.mesh_axis = mesh_axis, .reduce = reduce};
    return graph_append_value(graph, OP_ALL_REDUCE, 1, &x, &attributes);
}

/* axes[0] becomes whole, axes[1] gets cut. */
struct value *build_all_to_all(struct graph *graph, struct value *x,
                               enum mesh_axis mesh_axis, int from_axis, int to_axis)
{
    const struct attributes attributes = {
        .mesh_axis = mesh_axis,
        .n_axes = 2,
        .axes = {from_axis, to_axis},
    };
    return graph_append_value(graph, OP_ALL_TO_ALL, 1, &x, &attributes);
}

struct value *build_fan_out(struct graph *graph, struct value *x,
                            enum mesh_axis mesh_axis)
{
    return collective(graph, OP_FAN_OUT, x, mesh_axis, 0);
}

struct value *build_take_split(struct graph *graph, struct value *x,
                               enum mesh_axis mesh_axis, int axis)
{
    return collective(graph, OP_TAKE_SPLIT, x, mesh_axis, axis);
}
