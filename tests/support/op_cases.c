/*
 * op_cases - the cases of primitives. Shapes are odd where nothing needs them to divide;
 * dimensions that layouts split are 12 (2, 3 and 4 ranks) or 24.
 */
#include "support/op_cases.h"

#include "base/base.h"
#include "graph/build.h"
#include "support/op_case_macros.h"

int op_cases_count(void)
{
    return op_cases_n_primitive + op_cases_n_composite;
}

const struct op_case *op_cases_get(int index)
{
    ASSERT(0 <= index && index < op_cases_count());
    return index < op_cases_n_primitive
               ? &op_cases_primitive[index]
               : &op_cases_composite[index - op_cases_n_primitive];
}

static void give(struct op_build *b, struct value *value)
{
    b->outputs[b->n_outputs++] = value;
}

/* ---- sources ---- */

static void square(struct op_build *b)
{
    give(b, build_mul(b->graph, b->inputs[0], b->inputs[0]));
}

static void constant(struct op_build *b)
{
    struct value *c = build_constant(b->graph, b->inputs[0]->type, 0.75);
    give(b, build_mul(b->graph, b->inputs[0], c));
}

/* x times its own position along dimension numbers[0]. */
static void iota(struct op_build *b)
{
    struct type type = b->inputs[0]->type;
    type.dtype = DTYPE_I32;
    struct value *position = build_iota(b->graph, type, (int)b->numbers[0]);
    give(b,
         build_mul(b->graph, b->inputs[0], build_cast(b->graph, position, b->dtype)));
}

/* 24 bits, which are exact in f32. */
static void random_bits_case(struct op_build *b)
{
    struct type type = b->inputs[0]->type;
    type.dtype = DTYPE_U32;
    struct value *bits =
        build_random_bits(b->graph, b->inputs[1], b->inputs[2], 7, type);
    struct value *u = build_scale(b->graph, build_cast(b->graph, bits, DTYPE_F64),
                                  1.0 / 4294967296.0);
    give(b, build_mul(b->graph, b->inputs[0], build_cast(b->graph, u, b->dtype)));
}

/* Rows of a table that is split by rows over tensor: others' rows are out of range. */
static void axis_index(struct op_build *b)
{
    const double n_rows = (double)b->inputs[0]->type.shape.dim[0];
    struct value *first =
        build_scale(b->graph, build_axis_index(b->graph, MESH_TENSOR), n_rows);
    struct value *ids = build_sub(b->graph, b->inputs[1], first);
    give(b, build_gather_rows(b->graph, b->inputs[0], ids, -1));
}

/* ---- elementwise ---- */

static void cast(struct op_build *b)
{
    give(b, build_cast(b->graph, b->inputs[0], DTYPE_F64));
}

static void cast_down(struct op_build *b)
{
    give(b, build_cast(b->graph, b->inputs[0], DTYPE_BF16));
    give(b, build_cast(b->graph, b->inputs[0], DTYPE_I32));
    struct value *positive = build_compare(b->graph, COMPARE_GT, b->inputs[0],
                                           build_scalar(b->graph, b->dtype, 0.0));
    give(b, build_cast(b->graph, positive, b->dtype));
}

static void bitcast(struct op_build *b)
{
    struct value *bits = build_bitcast(b->graph, b->inputs[1], DTYPE_U32);
    give(b, build_bitcast(b->graph, bits, DTYPE_I32));
    give(b, b->inputs[0]);
}

#define BINARY_CASE(name)                                            \
    static void name(struct op_build *b)                             \
    {                                                                \
        give(b, build_##name(b->graph, b->inputs[0], b->inputs[1])); \
    }
#define UNARY_CASE(name)                               \
    static void name##_case(struct op_build *b)        \
    {                                                  \
        give(b, build_##name(b->graph, b->inputs[0])); \
    }

BINARY_CASE(add)
BINARY_CASE(sub)
BINARY_CASE(mul)
BINARY_CASE(div)
BINARY_CASE(max)
UNARY_CASE(exp)
UNARY_CASE(log)
UNARY_CASE(tanh)
UNARY_CASE(sqrt)
UNARY_CASE(rsqrt)
UNARY_CASE(cos)
UNARY_CASE(sin)

static void compare(struct op_build *b)
{
    for (int c = COMPARE_EQ; c <= COMPARE_GE; c++) {
        const enum compare how = (enum compare)c;
        give(b, build_compare(b->graph, how, b->inputs[0], b->inputs[1]));
    }
    give(b, build_compare(b->graph, COMPARE_LT, b->inputs[2], b->inputs[3]));
}

static void select_case(struct op_build *b)
{
    give(b, build_select(b->graph, b->inputs[0], b->inputs[1], b->inputs[2]));
}

static void is_finite(struct op_build *b)
{
    give(b, build_is_finite(b->graph, build_log(b->graph, b->inputs[0])));
}

static void stop_gradient(struct op_build *b)
{
    give(b, build_mul(b->graph, b->inputs[0],
                      build_stop_gradient(b->graph, b->inputs[1])));
}

static void barrier(struct op_build *b)
{
    give(b, build_mul(b->graph, b->inputs[0], build_barrier(b->graph, b->inputs[0])));
}

/* ---- products and reductions ---- */

/* numbers: transpose_a, transpose_b */
static void matmul(struct op_build *b)
{
    give(b, build_matmul(b->graph, b->inputs[0], b->inputs[1], b->numbers[0] != 0.0,
                         b->numbers[1] != 0.0, b->dtype));
}

static void matmul_into(struct op_build *b)
{
    give(b, build_matmul_into(b->graph, b->inputs[0], b->inputs[1], false, false,
                              b->inputs[2], b->inputs[3]));
    b->donors[0] = 3;
}

static void linear(struct op_build *b)
{
    give(b, build_linear(b->graph, b->inputs[0], b->inputs[1]));
}

/* numbers: n_axes, axes */
static void reduce_sum(struct op_build *b)
{
    const int axes[3] = {(int)b->numbers[1], (int)b->numbers[2], (int)b->numbers[3]};
    give(b, build_reduce_sum(b->graph, b->inputs[0], (int)b->numbers[0], axes));
}

static void reduce_max(struct op_build *b)
{
    const int axes[3] = {(int)b->numbers[1], (int)b->numbers[2], (int)b->numbers[3]};
    give(b, build_reduce_max(b->graph, b->inputs[0], (int)b->numbers[0], axes));
}

/* ---- moving elements ---- */

/* [a, b, c] -> [a * b, c] -> [a, b * c], tripled between: no view of a view. */
static void reshape(struct op_build *b)
{
    const int64_t *dim = b->inputs[0]->type.shape.dim;
    const int64_t front[2] = {dim[0] * dim[1], dim[2]};
    const int64_t back[2] = {dim[0], dim[1] * dim[2]};
    struct value *x = build_reshape(b->graph, b->inputs[0], type_shape(2, front));
    x = build_scale(b->graph, x, 3.0);
    struct placement placement = b->inputs[0]->type.placement;
    give(b, build_reshape_placed(b->graph, x, type_shape(2, back), placement));
}

/* numbers: the permutation */
static void transpose(struct op_build *b)
{
    int axes[4];
    for (int i = 0; i < 4; i++) {
        axes[i] = (int)b->numbers[i];
    }
    give(b, build_transpose(b->graph, b->inputs[0], axes));
}

/* x0 spread over x1's shape, times x1; numbers: the axes. */
static void broadcast(struct op_build *b)
{
    const int axes[3] = {(int)b->numbers[0], (int)b->numbers[1], (int)b->numbers[2]};
    const struct type *type = &b->inputs[1]->type;
    struct value *spread =
        build_broadcast(b->graph, b->inputs[0], type->shape, axes, type->placement);
    give(b, build_mul(b->graph, spread, b->inputs[1]));
}

static void slice(struct op_build *b)
{
    const int64_t length = b->inputs[0]->type.shape.dim[0];
    const int64_t start[2] = {0, 2}, limit[2] = {length, 5};
    give(b, build_slice(b->graph, b->inputs[0], start, limit));
    give(b, build_slice_axis(b->graph, b->inputs[0], 1, 4, 7));
}

static void pad(struct op_build *b)
{
    const int64_t before[2] = {0, 3}, after[2] = {0, 1};
    give(b, build_pad(b->graph, b->inputs[0], before, after));
}

static void concat(struct op_build *b)
{
    struct value *parts[3] = {b->inputs[0], b->inputs[1], b->inputs[0]};
    give(b, build_concat(b->graph, parts, 3, 1));
}

static void dynamic_slice(struct op_build *b)
{
    give(b, build_dynamic_slice(b->graph, b->inputs[0], b->inputs[1], 1, 3));
}

static void dynamic_update_slice(struct op_build *b)
{
    give(b, build_dynamic_update_slice(b->graph, b->inputs[0], b->inputs[1],
                                       b->inputs[2], 1));
}

/* numbers: ignore_row */
static void gather_rows(struct op_build *b)
{
    give(b, build_gather_rows(b->graph, b->inputs[0], b->inputs[1],
                              (int64_t)b->numbers[0]));
}

static void scatter_add_rows(struct op_build *b)
{
    give(b, build_scatter_add_rows(b->graph, b->inputs[0], b->inputs[1], b->inputs[2],
                                   b->inputs[3], (int64_t)b->numbers[0]));
    b->donors[0] = 1;
}

/* ---- control ---- */

/* c' = tanh(c v + w[i]) + i / 10, and c c' stacked. */
static void repeat(struct op_build *b)
{
    struct graph *body = graph_create(&b->graph->mesh);
    const struct type *type = &b->inputs[0]->type;
    struct value *i = build_input(body, "i", type_scalar(DTYPE_I32));
    struct value *c = build_input(body, "c", *type);
    struct value *w = build_input(body, "w", *type);
    struct value *v = build_input(body, "v", *type);
    struct value *inner = build_add(body, build_mul(body, c, v), w);
    struct value *step = build_scale(body, build_cast(body, i, b->dtype), 0.1);
    struct value *next = build_add(body, build_tanh(body, inner), step);
    graph_add_output(body, "c", next, NULL);
    graph_add_output(body, "r", build_mul(body, c, next), NULL);
    const struct node *node =
        build_repeat(b->graph, 4, body, &b->inputs[0], 1, &b->inputs[1], 1,
                     &b->inputs[2], 1, "repeat");
    give(b, node->outputs[0]);
    give(b, node->outputs[1]);
}

/* ---- collectives ---- */

/* Same values afterwards: the cotangent is the same too. */
static void all_gather(struct op_build *b)
{
    struct value *x = build_all_gather(b->graph, b->inputs[0], MESH_SHARD, 0);
    give(b, build_mul(b->graph, x, b->inputs[1]));
}

/* Used differently per rank: the cotangent is partial. */
static void all_gather_matmul(struct op_build *b)
{
    struct value *x = build_all_gather(b->graph, b->inputs[0], MESH_SHARD, 0);
    give(b, build_matmul(b->graph, x, b->inputs[1], false, false, b->dtype));
}

static void reduce_scatter(struct op_build *b)
{
    struct value *x = build_reduce_scatter(b->graph, b->inputs[0], MESH_SHARD, 1);
    give(b, build_mul(b->graph, x, x));
}

static void all_reduce(struct op_build *b)
{
    struct value *x = build_all_reduce(b->graph, b->inputs[0], MESH_TENSOR, REDUCE_SUM);
    give(b, build_mul(b->graph, x, x));
}

static void all_reduce_matmul(struct op_build *b)
{
    struct value *x = build_all_reduce(b->graph, b->inputs[0], MESH_TENSOR, REDUCE_SUM);
    give(b, build_matmul(b->graph, x, b->inputs[1], false, false, b->dtype));
}

static void all_reduce_max(struct op_build *b)
{
    const int axis = 1;
    struct value *x = build_reduce_max(b->graph, b->inputs[0], 1, &axis);
    give(b, build_all_reduce(b->graph, x, MESH_TENSOR, REDUCE_MAX));
}

static void all_to_all(struct op_build *b)
{
    struct value *x = build_all_to_all(b->graph, b->inputs[0], MESH_TENSOR, 0, 1);
    give(b, build_mul(b->graph, x, x));
}

/* The sum over ranks happens in the gradient, before the square's derivative. */
static void fan_out(struct op_build *b)
{
    struct value *x = build_mul(b->graph, b->inputs[0], b->inputs[0]);
    x = build_fan_out(b->graph, x, MESH_TENSOR);
    give(b, build_matmul(b->graph, x, b->inputs[1], false, false, b->dtype));
}

static void take_split(struct op_build *b)
{
    struct value *x = build_take_split(b->graph, b->inputs[0], MESH_SHARD, 0);
    give(b, build_mul(b->graph, x, b->inputs[1]));
}

// clang-format off
const struct op_case op_cases_primitive[] = {
    {.op = OP_PARAMETER, "parameter", square, {PARAMETER(-2, 2, 12, 5)}, .layouts = {"S0"}},
    {.op = OP_INPUT, "input", square, {X(-2, 2, 12, 24)}, .layouts = {"S0", "T1", "S0T1"}},
    {.op = OP_CONSTANT, "constant", constant, {X(-2, 2, 12, 5)}, .layouts = {"S0"}},
    {.op = OP_IOTA, "iota rows", iota, {X(-2, 2, 12, 24)}, {0}, {"S0", "T1", "R0S0T1"}},
    {.op = OP_IOTA, "iota columns", iota, {X(-2, 2, 3, 5, 12)}, {2}, {"S2", "T2", "S2T2"}},
    {.op = OP_RANDOM_BITS, "random_bits", random_bits_case,
     {X(-2, 2, 12, 24), U32_SCALAR(3, 9), U32_SCALAR(1, 99)}, {0},
     {"S0 - -", "T1 - -", "S0T1 - -"}},
    {.op = OP_AXIS_INDEX, "axis_index", axis_index, {X(-2, 2, 12, 5), I32(0, 11, 7)}, {0},
     {"T0 -"}},

    {.op = OP_CAST, "cast up", cast, {X(-2, 2, 12, 5)}, .layouts = {"S0", "TP"}},
    {.op = OP_CAST, "cast down", cast_down, {FIXED(-9, 9, 7, 5)}},
    {.op = OP_BITCAST, "bitcast", bitcast, {X(-2, 2, 3, 5), I32(-9, 9, 12, 5)}, {0}, {"- S0"}},
    {.op = OP_ADD, "add", add, {X(-2, 2, 12, 5), X(-2, 2, 12, 5)}, {0}, {"S0 S0", "TP TP"}},
    {.op = OP_ADD, "add scalar", add, {X(-2, 2, 12, 5), X_SCALAR(-2, 2)}, {0}, {"S0 -"}},
    {.op = OP_SUB, "sub", sub, {X(-2, 2, 12, 5), X(-2, 2, 12, 5)}, {0}, {"S0 S0", "TP TP"}},
    {.op = OP_SUB, "sub from scalar", sub, {X_SCALAR(-2, 2), X(-2, 2, 12, 5)}, {0}, {"- S0"}},
    {.op = OP_MUL, "mul", mul, {X(-2, 2, 12, 5), X(-2, 2, 12, 5)}, {0},
     {"S0 S0", "TP -", "- TP"}},
    {.op = OP_MUL, "mul by scalar", mul, {X(-2, 2, 12, 5), X_SCALAR(-2, 2)}, {0},
     {"S0 -", "TP -"}},
    {.op = OP_DIV, "div", div, {X(-2, 2, 12, 5), X(0.5, 3, 12, 5)}, {0}, {"S0 S0", "TP -"}},
    {.op = OP_DIV, "div of scalar", div, {X_SCALAR(1, 2), X(0.5, 3, 12, 5)}, {0}, {"- S0"},
     .bf16_bound = 2, .native_bound = 1e-4, .reason = "a sum of 60 quotients that nearly cancel"},
    {.op = OP_DIV, "div by scalar", div, {X(-2, 2, 12, 5), X_SCALAR(1, 2)}, {0}, {"T0 -"}},
    {.op = OP_MAX, "max", max, {X(-2, 2, 12, 5), X(-1.9, 2.1, 12, 5)}, {0}, {"S0 S0"}},
    {.op = OP_MAX, "max with scalar", max, {X(-2, 2, 12, 5), X_SCALAR(0.2, 0.21)}, {0}, {"S0 -"}},
    {.op = OP_EXP, "exp", exp_case, {X(-4, 2, 12, 5)}, .layouts = {"S0"}},
    {.op = OP_LOG, "log", log_case, {X(0.3, 5, 12, 5)}, .layouts = {"S0"}},
    {.op = OP_TANH, "tanh", tanh_case, {X(-3, 3, 12, 5)}, .layouts = {"S0"}},
    {.op = OP_SQRT, "sqrt", sqrt_case, {X(0.3, 5, 12, 5)}, .layouts = {"S0"}},
    {.op = OP_RSQRT, "rsqrt", rsqrt_case, {X(0.3, 5, 12, 5)}, .layouts = {"S0"}},
    {.op = OP_COS, "cos", cos_case, {X(-9, 9, 12, 5)}, .layouts = {"S0"}},
    {.op = OP_SIN, "sin", sin_case, {X(-9, 9, 12, 5)}, .layouts = {"S0"}},
    {.op = OP_COMPARE, "compare", compare,
     {I32(0, 2, 12, 5), I32(0, 2, 12, 5), FIXED(-1, 1, 12, 5), FIXED(-1, 1, 12, 5)}, {0},
     {"S0 S0 S0 S0"}},
    {.op = OP_SELECT, "select", select_case,
     {BOOL(12, 5), X(-2, 2, 12, 5), X(-2, 2, 12, 5)}, {0}, {"S0 S0 S0", "- TP TP"}},
    {.op = OP_SELECT, "select scalar", select_case, {BOOL(12, 5), X(-2, 2, 12, 5), X_SCALAR(-2, 2)},
     {0}, {"S0 S0 -"}},
    {.op = OP_SELECT, "select by scalar", select_case,
     {BOOL_SCALAR, X(-2, 2, 12, 5), X(-2, 2, 12, 5)}, {0}, {"- S0 S0", "- TP TP"}},
    {.op = OP_IS_FINITE, "is_finite", is_finite, {FIXED(-1, 1, 12, 5)}, .layouts = {"S0"}},
    {.op = OP_STOP_GRADIENT, "stop_gradient", stop_gradient,
     {X(-2, 2, 12, 5), FIXED(-2, 2, 12, 5)}, {0}, {"S0 S0"}},
    {.op = OP_BARRIER, "barrier", barrier, {X(-2, 2, 12, 5)}, .layouts = {"S0"}},

    {.op = OP_MATMUL, "matmul", matmul, {X(-1, 1, 5, 7), X(-1, 1, 7, 3)}, {0, 0}},
    {.op = OP_MATMUL, "matmul ta", matmul, {X(-1, 1, 7, 5), X(-1, 1, 7, 3)}, {1, 0}},
    {.op = OP_MATMUL, "matmul tb", matmul, {X(-1, 1, 5, 7), X(-1, 1, 3, 7)}, {0, 1}},
    {.op = OP_MATMUL, "matmul ta tb", matmul, {X(-1, 1, 7, 5), X(-1, 1, 3, 7)}, {1, 1}},
    {.op = OP_MATMUL, "matmul batch", matmul, {X(-1, 1, 12, 2, 5, 1), X(-1, 1, 12, 2, 3, 1)}, {0, 1},
     {"S0 S0", "TP -"}},
    {.op = OP_MATMUL, "matmul batch ta", matmul, {X(-1, 1, 3, 7, 12), X(-1, 1, 3, 7, 5)}, {1, 0},
     {"T2 -", "- TP"}},
    {.op = OP_MATMUL, "matmul mesh", matmul, {X(-1, 1, 12, 24), X(-1, 1, 24, 12)}, {0, 0},
     {"S0 -", "- S1", "S1 S0", "S0 T1", "S0T1 T0", "TP -"}},
    {.op = OP_MATMUL, "matmul mesh ta tb", matmul, {X(-1, 1, 24, 12), X(-1, 1, 12, 24)}, {1, 1},
     {"S1 -", "- S0", "S0 S1", "S1 T0", "S1T0 T1"}},
    {.op = OP_MATMUL, "matmul tiles", matmul, {X(-1, 1, 131, 67), X(-1, 1, 67, 140)}, {0, 0}},
    {.op = OP_MATMUL, "matmul into", matmul_into,
     {X(-1, 1, 12, 7), X(-1, 1, 7, 5), X(-1, 1, 12, 5), BOOL_SCALAR}, {0}, {"S0 - S0 -"}},
    {.op = OP_MATMUL, "linear", linear, {X(-1, 1, 4, 3, 24), X(-1, 1, 12, 24)}, {0},
     {"S0 -", "- T0", "S0 T0", "T2 T1", "S0T2 T1"}},
    {.op = OP_REDUCE_SUM, "reduce_sum middle", reduce_sum, {X(-2, 2, 12, 24, 5)}, {1, 1},
     {"S0", "T1", "S0T1", "TP"}},
    {.op = OP_REDUCE_SUM, "reduce_sum outer", reduce_sum, {X(-2, 2, 12, 3, 5)}, {2, 0, 2}, {"S0"}},
    {.op = OP_REDUCE_SUM, "reduce_sum all", reduce_sum, {X(-2, 2, 12, 3, 5)}, {3, 0, 1, 2}, {"S0"}},
    {.op = OP_REDUCE_MAX, "reduce_max last", reduce_max, {X(-2, 2, 12, 3, 5)}, {1, 2}, {"S0"}},
    {.op = OP_REDUCE_MAX, "reduce_max outer", reduce_max, {X(-2, 2, 7, 12, 5)}, {2, 0, 2}, {"S1"}},

    {.op = OP_RESHAPE, "reshape", reshape, {X(-2, 2, 12, 3, 5)}, .layouts = {"S0", "TP"}},
    {.op = OP_TRANSPOSE, "transpose", transpose, {X(-2, 2, 12, 3, 5, 24)}, {2, 0, 3, 1},
     {"S0", "T3", "S0T3", "TP"}},
    {.op = OP_TRANSPOSE, "transpose last", transpose, {X(-2, 2, 2, 3, 12, 7)}, {0, 1, 3, 2}, {"S2"}},
    {.op = OP_BROADCAST, "broadcast last", broadcast, {X(-2, 2, 7), X(-2, 2, 12, 7)}, {1},
     {"- S0"}},
    {.op = OP_BROADCAST, "broadcast first", broadcast, {X(-2, 2, 12), X(-2, 2, 12, 24)}, {0},
     {"S0 S0", "- T1", "S0 S0T1"}},
    {.op = OP_BROADCAST, "broadcast middle", broadcast, {X(-2, 2, 3, 5), X(-2, 2, 3, 12, 5)}, {0, 2},
     {"- S1"}},
    {.op = OP_BROADCAST, "broadcast stretched", broadcast, {X(-2, 2, 12, 1), X(-2, 2, 12, 24)}, {0, 1},
     {"S0 S0", "S0 S0T1"}},
    {.op = OP_BROADCAST, "broadcast scalar", broadcast, {X_SCALAR(-2, 2), X(-2, 2, 12, 5)}, {0},
     {"- S0"}},
    {.op = OP_SLICE, "slice", slice, {X(-2, 2, 12, 9)}, .layouts = {"S0", "TP"}},
    {.op = OP_PAD, "pad", pad, {X(-2, 2, 12, 9)}, .layouts = {"S0", "TP"}},
    {.op = OP_CONCAT, "concat", concat, {X(-2, 2, 12, 3, 2), X(-2, 2, 12, 5, 2)}, {0},
     {"S0 S0", "TP TP"}},
    {.op = OP_DYNAMIC_SLICE, "dynamic_slice", dynamic_slice, {X(-2, 2, 12, 9, 2), I32_SCALAR(2, 5)},
     {0}, {"S0 -", "TP -"}},
    {.op = OP_DYNAMIC_SLICE, "dynamic_slice clamped", dynamic_slice,
     {X(-2, 2, 3, 9), I32_SCALAR(50, 60)}},
    {.op = OP_DYNAMIC_UPDATE_SLICE, "dynamic_update_slice", dynamic_update_slice,
     {X(-2, 2, 12, 9, 2), X(-2, 2, 12, 3, 2), I32_SCALAR(2, 5)}, {0}, {"S0 S0 -", "TP TP -"}},
    {.op = OP_GATHER_ROWS, "gather_rows", gather_rows, {X(-2, 2, 9, 24), I32(-2, 10, 12)}, {-1},
     {"- S0", "T1 -", "T1 S0", "TP -"}},
    {.op = OP_GATHER_ROWS, "gather_rows of own", gather_rows, {X(-2, 2, 24, 5), ROWS(12)}, {-1},
     {"S0 S0"}},
    {.op = OP_GATHER_ROWS, "gather_rows 2d", gather_rows, {X(-2, 2, 5, 2, 3), I32(0, 4, 12, 2)}, {-1},
     {"- S0"}},
    {.op = OP_GATHER_ROWS, "gather_rows ignoring", gather_rows, {X(-2, 2, 5, 3), I32(0, 4, 12)}, {2},
     {"- S0"}, .is_not_true = true},
    {.op = OP_SCATTER_ADD_ROWS, "scatter_add_rows", scatter_add_rows,
     {X(-2, 2, 9, 24), I32(-2, 10, 12), X(-2, 2, 12, 24), BOOL_SCALAR}, {4},
     {"SP S0 S0 -", "T1 - T1 -", "TP - TP -"}},
    {.op = OP_SCATTER_ADD_ROWS, "scatter_add_rows to own", scatter_add_rows,
     {X(-2, 2, 24, 5), ROWS(12), X(-2, 2, 12, 5), BOOL_SCALAR}, {-1}, {"S0 S0 S0 -"}},

    {.op = OP_REPEAT, "repeat", repeat, {X(-1, 1, 12, 3), X(-1, 1, 4, 12, 3), X(-1, 1, 12, 3)}, {0},
     {"S0 S1 S0"}, .expands = true},

    {.op = OP_ALL_GATHER, "all_gather", all_gather, {X(-2, 2, 12, 5), X(-2, 2, 12, 5)}, {0},
     {"S0 -", "S0T1 T1"}},
    {.op = OP_ALL_GATHER, "all_gather matmul", all_gather_matmul, {X(-1, 1, 12, 5), X(-1, 1, 5, 24)},
     {0}, {"S0 S1"}},
    {.op = OP_REDUCE_SCATTER, "reduce_scatter", reduce_scatter, {X(-2, 2, 3, 12, 2)}, .layouts = {"SP"}},
    {.op = OP_ALL_REDUCE, "all_reduce", all_reduce, {X(-2, 2, 12, 5)}, .layouts = {"TP", "S0TP"}},
    {.op = OP_ALL_REDUCE, "all_reduce matmul", all_reduce_matmul, {X(-1, 1, 7, 5), X(-1, 1, 5, 12)},
     {0}, {"TP T1"}},
    {.op = OP_ALL_REDUCE, "all_reduce max", all_reduce_max, {FIXED(-2, 2, 5, 12)}, .layouts = {"T1"}},
    {.op = OP_ALL_TO_ALL, "all_to_all", all_to_all, {X(-2, 2, 12, 24, 3)}, .layouts = {"T0"}},
    {.op = OP_FAN_OUT, "fan_out", fan_out, {X(-1, 1, 7, 5), X(-1, 1, 5, 12)}, {0}, {"- T1"}},
    {.op = OP_TAKE_SPLIT, "take_split", take_split, {X(-2, 2, 12, 5), X(-2, 2, 12, 5)}, {0}, {"- S0"}},
};
// clang-format on

const int op_cases_n_primitive = (int)ARRAY_LENGTH(op_cases_primitive);
