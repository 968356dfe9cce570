/*
 * every_primitive - arguments x, y [4, 6] f32, ids [5] i32, and what can be made of them.
 */
#include "support/every_primitive.h"

#include "graph/build.h"

struct inputs {
    struct value *x, *y, *ids, *acc, *wide, *flag, *seed, *split, *start;
};

static void out(struct graph *graph, const char *name, struct value *value)
{
    graph_add_output(graph, name, value, NULL);
}

static struct inputs add_inputs(struct graph *graph)
{
    const struct type matrix = type_make(DTYPE_F32, 2, (int64_t[]){4, 6});
    struct type split = matrix;
    split.placement = placement_split(MESH_SHARD, 0);
    return (struct inputs){
        .x = build_parameter(graph, "x", matrix, true),
        .y = build_input(graph, "y", matrix),
        .ids = build_input(graph, "ids", type_make(DTYPE_I32, 1, (int64_t[]){5})),
        .acc = build_input(graph, "acc", matrix),
        .wide = build_input(graph, "wide", type_make(DTYPE_F32, 2, (int64_t[]){6, 6})),
        .flag = build_input(graph, "flag", type_scalar(DTYPE_BOOL)),
        .seed = build_input(graph, "seed", type_scalar(DTYPE_U32)),
        .split = build_input(graph, "split", split),
        .start = build_input(graph, "start", type_scalar(DTYPE_I32)),
    };
}

static void add_sources(struct graph *graph, const struct inputs *in)
{
    struct type split = type_make(DTYPE_U32, 2, (int64_t[]){3, 4});
    split.placement = placement_split(MESH_TENSOR, 1);
    out(graph, "constant",
        build_constant(graph, type_make(DTYPE_F32, 1, (int64_t[]){3}), 0.1));
    out(graph, "constant_bf16",
        build_constant(graph, type_make(DTYPE_BF16, 1, (int64_t[]){3}), 0.1));
    out(graph, "infinity", build_scalar(graph, DTYPE_F32, -1.0 / 0.0));
    out(graph, "iota",
        build_iota(graph, type_make(DTYPE_I32, 2, (int64_t[]){3, 4}), 1));
    out(graph, "iota_split", build_iota(graph, split, 1));
    out(graph, "random_bits", build_random_bits(graph, in->seed, in->seed, 7, split));
    out(graph, "axis_index", build_axis_index(graph, MESH_TENSOR));
}

static void add_elementwise(struct graph *graph, const struct inputs *in)
{
    struct value *x = in->x;
    struct value *y = in->y;
    struct value *square = build_mul(graph, x, x);
    struct value *positive = build_shift(graph, square, 0.5);
    out(graph, "cast", build_cast(graph, x, DTYPE_BF16));
    out(graph, "bitcast", build_bitcast(graph, x, DTYPE_U32));
    out(graph, "add", build_add(graph, x, y));
    out(graph, "sub", build_sub(graph, x, y));
    out(graph, "mul", build_scale(graph, x, 3));
    out(graph, "div", build_div(graph, x, positive));
    out(graph, "max", build_max(graph, x, y));
    out(graph, "exp", build_exp(graph, x));
    out(graph, "log", build_log(graph, positive));
    out(graph, "tanh", build_tanh(graph, x));
    out(graph, "sqrt", build_sqrt(graph, positive));
    out(graph, "rsqrt", build_rsqrt(graph, positive));
    out(graph, "cos", build_cos(graph, x));
    out(graph, "sin", build_sin(graph, x));
    struct value *less = build_compare(graph, COMPARE_LT, x, y);
    out(graph, "compare", less);
    out(graph, "select",
        build_select(graph, less, x, build_scalar(graph, DTYPE_F32, 2)));
    out(graph, "select_scalar", build_select(graph, in->flag, x, y));
    out(graph, "is_finite", build_is_finite(graph, x));
    out(graph, "stop_gradient", build_stop_gradient(graph, build_tanh(graph, y)));
    out(graph, "barrier", build_barrier(graph, square));
}

static void add_contractions(struct graph *graph, const struct inputs *in)
{
    struct value *x = in->x;
    struct value *batched =
        build_reshape(graph, x, type_shape(3, (int64_t[]){2, 3, 4}));
    struct value *short_x = build_cast(graph, x, DTYPE_BF16);
    struct value *short_y = build_cast(graph, in->y, DTYPE_BF16);
    out(graph, "matmul", build_matmul(graph, x, in->wide, false, false, DTYPE_F32));
    out(graph, "matmul_transposed",
        build_matmul(graph, x, in->y, true, false, DTYPE_F32));
    out(graph, "matmul_batched",
        build_matmul(graph, batched, batched, false, true, DTYPE_F32));
    out(graph, "matmul_bf16",
        build_matmul(graph, short_x, short_y, false, true, DTYPE_BF16));
    struct value *sum =
        build_matmul_into(graph, x, in->wide, false, true, in->acc, in->flag);
    graph_add_output(graph, "matmul_into", sum, in->acc);
    out(graph, "reduce_sum", build_reduce_sum(graph, x, 1, (int[]){1}));
    out(graph, "reduce_sum_bf16", build_reduce_sum(graph, short_x, 2, (int[]){0, 1}));
    out(graph, "reduce_max", build_reduce_max(graph, x, 1, (int[]){0}));
}

static void add_moves(struct graph *graph, const struct inputs *in)
{
    struct value *x = in->x;
    struct value *row = build_slice_axis(graph, x, 0, 1, 2);
    out(graph, "reshape", build_reshape(graph, x, type_shape(1, (int64_t[]){24})));
    out(graph, "transpose", build_transpose(graph, x, (int[]){1, 0}));
    out(graph, "broadcast",
        build_broadcast_like_x(graph, row, type_shape(3, (int64_t[]){2, 3, 6}),
                               (int[]){1, 2}));
    out(graph, "slice", build_slice(graph, x, (int64_t[]){1, 2}, (int64_t[]){3, 5}));
    out(graph, "pad", build_pad(graph, x, (int64_t[]){1, 0}, (int64_t[]){0, 2}));
    out(graph, "concat", build_concat(graph, (struct value *[]){x, row, in->y}, 3, 0));
    out(graph, "dynamic_slice", build_dynamic_slice(graph, x, in->start, 1, 2));
    out(graph, "dynamic_update_slice",
        build_dynamic_update_slice(graph, build_tanh(graph, x), row, in->start, 0));
    out(graph, "gather_rows", build_gather_rows(graph, x, in->ids, -1));
    struct value *rows = build_gather_rows(graph, in->y, in->ids, -1);
    out(graph, "scatter_add_rows",
        build_scatter_add_rows(graph, build_tanh(graph, x), in->ids, rows, in->flag,
                               2));
}

/* h = tanh(h * row) three times, over the rows of the first half of `wide`; each h kept. */
static void add_repeat(struct graph *graph, const struct inputs *in)
{
    const struct type row = type_make(DTYPE_F32, 1, (int64_t[]){6});
    struct graph *body = graph_create(&graph->mesh);
    struct value *iteration = build_input(body, "i", type_scalar(DTYPE_I32));
    struct value *h = build_input(body, "h", row);
    struct value *slice = build_input(body, "slice", row);
    struct value *scale = build_input(body, "scale", type_scalar(DTYPE_F32));
    struct value *step = build_mul(body, build_mul(body, h, slice), scale);
    struct value *next =
        build_tanh(body, build_add(body, step, build_cast(body, iteration, DTYPE_F32)));
    graph_add_output(body, "h", next, NULL);
    graph_add_output(body, "step", step, NULL);
    struct value *start = build_reduce_sum(graph, in->x, 1, (int[]){0});
    struct value *stacked = build_slice_axis(graph, in->wide, 0, 0, 3);
    struct value *three = build_scalar(graph, DTYPE_F32, 3);
    const struct node *repeat =
        build_repeat(graph, 3, body, &start, 1, &stacked, 1, &three, 1, "loop");
    out(graph, "repeat", repeat->outputs[0]);
    out(graph, "repeat_stacked", repeat->outputs[1]);
}

static void add_collectives(struct graph *graph, const struct inputs *in)
{
    struct value *split = in->split;
    /* over a split dimension: partial */
    struct value *partial = build_matmul(graph, split, split, true, false, DTYPE_F32);
    out(graph, "all_gather", build_all_gather(graph, split, MESH_SHARD, 0));
    out(graph, "reduce_scatter", build_reduce_scatter(graph, partial, MESH_SHARD, 1));
    out(graph, "all_reduce", build_all_reduce(graph, partial, MESH_SHARD, REDUCE_SUM));
    struct value *largest = build_reduce_max(graph, split, 1, (int[]){0});
    out(graph, "all_reduce_max",
        build_all_reduce(graph, largest, MESH_SHARD, REDUCE_MAX));
    out(graph, "all_to_all", build_all_to_all(graph, split, MESH_SHARD, 0, 1));
    out(graph, "fan_out", build_fan_out(graph, build_tanh(graph, in->y), MESH_TENSOR));
    out(graph, "take_split", build_take_split(graph, in->x, MESH_TENSOR, 1));
}

struct graph *every_primitive_create(void)
{
    const struct mesh mesh = {.size = {1, 2, 2}};
    struct graph *graph = graph_create(&mesh);
    const struct inputs in = add_inputs(graph);
    add_sources(graph, &in);
    add_elementwise(graph, &in);
    add_contractions(graph, &in);
    add_moves(graph, &in);
    add_repeat(graph, &in);
    add_collectives(graph, &in);
    return graph;
}
