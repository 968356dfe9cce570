/*
 * What the placement rules promise, tried on numbers: every combination of operand places
 * that a rule accepts is run on 2 x 3 ranks, and what the ranks hold together has to be the
 * result of one rank on the whole operands. All numbers are small integers, so that sums
 * are exact and the comparison is too. (D14, G7)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/error.h"
#include "base/random.h"
#include "graph/build.h"
#include "graph/infer.h"
#include "support/engine_run.h"

static const struct mesh mesh = {.size = {1, 2, 3}};

enum { MAX_OPERANDS = 4 };

/* An op on operands of given local shapes; their places are what varies. */
struct trial {
    enum op op;
    int n_inputs;
    struct type inputs[MAX_OPERANDS];
    struct attributes attributes;
    int n_accepted; /* combinations seen so far */
};

/* ---- the whole and its parts ---- */

static struct type whole_type(const struct type *part)
{
    struct type whole = *part;
    whole.placement = placement_same();
    for (int i = 0; i < part->shape.rank; i++) {
        whole.shape.dim[i] *= placement_n_blocks(&part->placement, &mesh, i);
    }
    return whole;
}

/* Position in the whole of element `index` of a rank's part. */
static int64_t whole_index(const struct type *part, int rank, int64_t index)
{
    int64_t position = 0;
    int64_t stride = 1;
    for (int i = part->shape.rank - 1; i >= 0; i--) {
        const int64_t length = part->shape.dim[i];
        const int block = placement_block(&part->placement, &mesh, rank, i);
        position += (index % length + block * length) * stride;
        stride *= length * placement_n_blocks(&part->placement, &mesh, i);
        index /= length;
    }
    return position;
}

/* Which of the summands of a partial value the rank holds, 0 .. n - 1. */
static int summand(const struct placement *placement, int rank, int *n)
{
    int number = 0;
    *n = 1;
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (placement->axis[axis].kind == PLACE_PARTIAL) {
            number = number * mesh.size[axis] + mesh_coordinate(&mesh, rank, axis);
            *n *= mesh.size[axis];
        }
    }
    return number;
}

/* -4 .. 4, a function of stream and index */
static double small_number(uint64_t stream, uint64_t index)
{
    return (double)(random_bits(7, RANDOM_TEST, stream, index) % 9) - 4.0;
}

/* Element `index` of operand `input` as a whole: ids of rows are in range of 6 rows. */
static double whole_element(int input, enum dtype dtype, int64_t index)
{
    const double x = small_number((uint64_t)input, (uint64_t)index);
    if (dtype == DTYPE_BOOL) {
        return x > 0 ? 1.0 : 0.0;
    }
    if (dtype == DTYPE_I32 || dtype == DTYPE_U32) {
        return x < 0 ? 1.0 : x;
    }
    return x == 0.0 ? 1.0 : x; /* divisors */
}

/* What a rank holds of it. Summands are numbers of their own; the first makes up the
 * difference. */
static double part_element(int input, const struct type *part, int rank, int64_t index)
{
    const int64_t position = whole_index(part, rank, index);
    int n = 0;
    const int number = summand(&part->placement, rank, &n);
    const uint64_t stream = (uint64_t)(100 + input * 8);
    if (number > 0) {
        return small_number(stream + (uint64_t)number, (uint64_t)position);
    }
    double rest = whole_element(input, part->dtype, position);
    for (int i = 1; i < n; i++) {
        rest -= small_number(stream + (uint64_t)i, (uint64_t)position);
    }
    return rest;
}

static void store(void *data, enum dtype dtype, int64_t index, double x)
{
    switch ((int)dtype) {
    case DTYPE_F64:
        ((double *)data)[index] = x;
        break;
    case DTYPE_F32:
        ((float *)data)[index] = (float)x;
        break;
    case DTYPE_I32:
        ((int32_t *)data)[index] = (int32_t)x;
        break;
    case DTYPE_U32:
        ((uint32_t *)data)[index] = (uint32_t)x;
        break;
    case DTYPE_BOOL:
        ((uint8_t *)data)[index] = (uint8_t)x;
        break;
    default:
        fail_msg("dtype %s is not in use here", dtype_name(dtype));
    }
}

static double load(const void *data, enum dtype dtype, int64_t index)
{
    switch ((int)dtype) {
    case DTYPE_F64:
        return ((const double *)data)[index];
    case DTYPE_F32:
        return (double)((const float *)data)[index];
    case DTYPE_I32:
        return ((const int32_t *)data)[index];
    case DTYPE_U32:
        return ((const uint32_t *)data)[index];
    case DTYPE_BOOL:
        return ((const uint8_t *)data)[index];
    default:
        fail_msg("dtype %s is not in use here", dtype_name(dtype));
        return 0.0;
    }
}

/* ---- one combination ---- */

/* Per-rank maxima mean something only once they are joined. */
static struct value *join_maxima(struct graph *graph, struct value *value)
{
    const bool is_maximum = value->node->op == OP_REDUCE_MAX;
    for (int axis = 0; is_maximum && axis < MESH_N_AXES; axis++) {
        if (value->type.placement.axis[axis].kind == PLACE_PARTIAL) {
            value = build_all_reduce(graph, value, axis, REDUCE_MAX);
        }
    }
    return value;
}

static struct engine_run *run_graph(const struct mesh *ranks, const struct trial *trial,
                                    enum op op, const struct type *inputs,
                                    const struct attributes *attributes)
{
    struct graph *graph = graph_create(ranks);
    struct value *values[MAX_OPERANDS] = {NULL};
    for (int i = 0; i < trial->n_inputs; i++) {
        char name[16];
        snprintf(name, sizeof(name), "x%d", i);
        values[i] = build_input(graph, name, inputs[i]);
    }
    const struct node *node =
        graph_append(graph, op, trial->n_inputs, values, attributes, NULL, NULL);
    graph_add_output(graph, "y", join_maxima(graph, node->outputs[0]), NULL);
    const struct backend_options options = {.n_threads = 1};
    return engine_run_create(graph, &options);
}

/* The same op for one rank. What a collective does to the whole is nothing. */
static enum op whole_op(const struct trial *trial, const struct type *result,
                        struct attributes *attributes)
{
    *attributes = trial->attributes;
    attributes->placement = placement_same();
    attributes->has_placement = false;
    for (int i = 0; i < attributes->shape.rank; i++) {
        attributes->shape.dim[i] *= placement_n_blocks(&result->placement, &mesh, i);
    }
    if (trial->op == OP_SLICE) {
        for (int i = 0; i < trial->inputs[0].shape.rank; i++) {
            attributes->limit[i] *=
                placement_n_blocks(&trial->inputs[0].placement, &mesh, i);
        }
    }
    switch ((int)trial->op) {
    case OP_ALL_GATHER:
    case OP_REDUCE_SCATTER:
    case OP_ALL_REDUCE:
    case OP_ALL_TO_ALL:
    case OP_FAN_OUT:
    case OP_TAKE_SPLIT:
        return OP_BARRIER;
    }
    return trial->op;
}

static void print_trial(const struct trial *trial, const struct type *result)
{
    char type[192];
    print_error("%s: ", op_name(trial->op));
    for (int i = 0; i < trial->n_inputs; i++) {
        print_error("%s ", type_format(type, &trial->inputs[i]));
    }
    print_error("-> %s\n", type_format(type, result));
}

/* What the ranks hold of one element of the result, put together. */
static double put_together(struct engine_run *parts, const struct type *result,
                           int rank, int64_t index)
{
    double total = 0.0;
    for (int other = 0; other < mesh_n_ranks(&mesh); other++) {
        bool is_summand = true;
        for (int axis = 0; axis < MESH_N_AXES; axis++) {
            is_summand =
                is_summand && (result->placement.axis[axis].kind == PLACE_PARTIAL ||
                               mesh_coordinate(&mesh, other, axis) ==
                                   mesh_coordinate(&mesh, rank, axis));
        }
        if (is_summand) {
            total += load(engine_run_output(parts, "y", other), result->dtype, index);
        }
    }
    return total;
}

static void run_trial(const struct trial *trial, const struct type *result)
{
    struct attributes attributes;
    struct type wholes[MAX_OPERANDS];
    for (int i = 0; i < trial->n_inputs; i++) {
        wholes[i] = whole_type(&trial->inputs[i]);
    }
    const enum op op = whole_op(trial, result, &attributes);
    const struct mesh single = mesh_single();
    struct engine_run *whole = run_graph(&single, trial, op, wholes, &attributes);
    struct engine_run *parts =
        run_graph(&mesh, trial, trial->op, trial->inputs, &trial->attributes);
    for (int i = 0; i < trial->n_inputs; i++) {
        char name[16];
        snprintf(name, sizeof(name), "x%d", i);
        const enum dtype dtype = wholes[i].dtype;
        for (int64_t j = 0; j < type_elements(&wholes[i]); j++) {
            store(engine_run_argument(whole, name, 0), dtype, j,
                  whole_element(i, dtype, j));
        }
        for (int rank = 0; rank < mesh_n_ranks(&mesh); rank++) {
            for (int64_t j = 0; j < type_elements(&trial->inputs[i]); j++) {
                store(engine_run_argument(parts, name, rank), dtype, j,
                      part_element(i, &trial->inputs[i], rank, j));
            }
        }
    }
    engine_run_execute(whole);
    engine_run_execute(parts);
    for (int rank = 0; rank < mesh_n_ranks(&mesh); rank++) {
        for (int64_t j = 0; j < type_elements(result); j++) {
            const int64_t position = whole_index(result, rank, j);
            const double wanted =
                load(engine_run_output(whole, "y", 0), result->dtype, position);
            const double got = put_together(parts, result, rank, j);
            const double difference = got > wanted ? got - wanted : wanted - got;
            if (!(difference <= (trial->op == OP_DIV ? 1e-12 : 0.0))) {
                print_trial(trial, result);
                fail_msg("rank %d element %lld: %g, should be %g", rank, (long long)j,
                         got, wanted);
            }
        }
    }
    engine_run_destroy(whole);
    engine_run_destroy(parts);
}

/* ---- all combinations ---- */

static void try_places(struct trial *trial, int input);

static void try_types(struct trial *trial)
{
    struct type results[INFER_MAX_OUTPUTS];
    struct error error;
    struct infer infer = {
        .mesh = &mesh,
        .op = trial->op,
        .n_inputs = trial->n_inputs,
        .inputs = trial->inputs,
        .attributes = &trial->attributes,
        .outputs = results,
    };
    if (infer_types(&infer, &error)) {
        trial->n_accepted++;
        for (int axis = 0; axis < MESH_N_AXES && trial->op == OP_REDUCE_MAX; axis++) {
            if (results[0].placement.axis[axis].kind == PLACE_PARTIAL) {
                results[0].placement.axis[axis] = (struct place){PLACE_SAME, 0};
            }
        }
        run_trial(trial, &results[0]);
    }
}

/* Place number n on an axis: same, partial, split 0, split 1, ... */
static struct placement numbered(int shard, int tensor)
{
    struct placement placement = placement_same();
    const int numbers[] = {shard, tensor};
    const enum mesh_axis axes[] = {MESH_SHARD, MESH_TENSOR};
    for (int i = 0; i < 2; i++) {
        if (numbers[i] == 1) {
            placement = placement_with(placement, axes[i], PLACE_PARTIAL, 0);
        } else if (numbers[i] >= 2) {
            placement = placement_with(placement, axes[i], PLACE_SPLIT, numbers[i] - 2);
        }
    }
    return placement;
}

static void try_places(struct trial *trial, int input)
{
    if (input >= trial->n_inputs || input >= MAX_OPERANDS) {
        try_types(trial);
        return;
    }
    struct type *type = &trial->inputs[input];
    const bool is_number = dtype_is_float(type->dtype);
    for (int shard = 0; shard < type->shape.rank + 2; shard++) {
        for (int tensor = 0; tensor < type->shape.rank + 2; tensor++) {
            if (is_number || (shard != 1 && tensor != 1)) {
                type->placement = numbered(shard, tensor);
                try_places(trial, input + 1);
            }
        }
    }
    type->placement = placement_same();
}

/* Runs all that is accepted, at least `n_least` combinations. */
static void try_all(struct trial trial, int n_least)
{
    try_places(&trial, 0);
    if (trial.n_accepted < n_least) {
        fail_msg("%s: only %d combinations are accepted", op_name(trial.op),
                 trial.n_accepted);
    }
}

/* As try_all, for every placement of the attributes too. */
static void try_all_results(struct trial trial, int n_least)
{
    for (int shard = 0; shard < trial.attributes.shape.rank + 2; shard++) {
        for (int tensor = 0; tensor < trial.attributes.shape.rank + 2; tensor++) {
            trial.attributes.placement = numbered(shard, tensor);
            try_places(&trial, 0);
        }
    }
    if (trial.n_accepted < n_least) {
        fail_msg("%s: only %d combinations are accepted", op_name(trial.op),
                 trial.n_accepted);
    }
}

#define F64(...)                                                 \
    {                                                            \
        DTYPE_F64,                                               \
            {.rank = sizeof((int[]){__VA_ARGS__}) / sizeof(int), \
             .dim = {__VA_ARGS__}},                              \
        {                                                        \
            {                                                    \
                {                                                \
                    PLACE_SAME, 0                                \
                }                                                \
            }                                                    \
        }                                                        \
    }
#define I32(...)                                                 \
    {                                                            \
        DTYPE_I32,                                               \
            {.rank = sizeof((int[]){__VA_ARGS__}) / sizeof(int), \
             .dim = {__VA_ARGS__}},                              \
        {                                                        \
            {                                                    \
                {                                                \
                    PLACE_SAME, 0                                \
                }                                                \
            }                                                    \
        }                                                        \
    }
#define SCALAR(dtype)             \
    {                             \
        dtype, {.rank = 0},       \
        {                         \
            {                     \
                {                 \
                    PLACE_SAME, 0 \
                }                 \
            }                     \
        }                         \
    }
#define SHAPE(...) \
    .shape = {.rank = sizeof((int[]){__VA_ARGS__}) / sizeof(int), .dim = {__VA_ARGS__}}

static void elementwise_ops(void **state)
{
    (void)state;
    static const enum op ops[] = {OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_MAX, OP_COMPARE};
    for (size_t i = 0; i < ARRAY_LENGTH(ops); i++) {
        try_all((struct trial){.op = ops[i],
                               .n_inputs = 2,
                               .inputs = {F64(2, 3), F64(2, 3)},
                               .attributes = {.compare = COMPARE_LE}},
                9);
        try_all((struct trial){.op = ops[i],
                               .n_inputs = 2,
                               .inputs = {F64(2, 3), SCALAR(DTYPE_F64)},
                               .attributes = {.compare = COMPARE_LE}},
                9);
    }
    try_all((struct trial){.op = OP_SELECT,
                           .n_inputs = 3,
                           .inputs = {SCALAR(DTYPE_BOOL), F64(2), F64(2)}},
            9);
    try_all((struct trial){.op = OP_SELECT,
                           .n_inputs = 3,
                           .inputs = {{DTYPE_BOOL, {1, {2}}, {{{PLACE_SAME, 0}}}},
                                      F64(2),
                                      SCALAR(DTYPE_F64)}},
            4);
    try_all((struct trial){.op = OP_CAST,
                           .n_inputs = 1,
                           .inputs = {F64(2, 3)},
                           .attributes = {.dtype = DTYPE_F32}},
            16);
}

static void products_and_reductions(void **state)
{
    (void)state;
    for (int flags = 0; flags < 4; flags++) {
        try_all((struct trial){.op = OP_MATMUL,
                               .n_inputs = 2,
                               .inputs = {F64(2, 2), F64(2, 2)},
                               .attributes = {.dtype = DTYPE_F64,
                                              .transpose_a = (flags & 1) != 0,
                                              .transpose_b = (flags & 2) != 0}},
                30);
    }
    try_all((struct trial){.op = OP_MATMUL,
                           .n_inputs = 2,
                           .inputs = {F64(2, 1, 3), F64(2, 3, 2)},
                           .attributes = {.dtype = DTYPE_F64}},
            40);
    static const enum op ops[] = {OP_REDUCE_SUM, OP_REDUCE_MAX};
    for (int i = 0; i < 2; i++) {
        for (int axis = 0; axis < 3; axis++) {
            try_all((struct trial){.op = ops[i],
                                   .n_inputs = 1,
                                   .inputs = {F64(2, 1, 3)},
                                   .attributes = {.n_axes = 1, .axes = {axis}}},
                    16);
        }
        try_all((struct trial){.op = ops[i],
                               .n_inputs = 1,
                               .inputs = {F64(2, 1, 3)},
                               .attributes = {.n_axes = 2, .axes = {0, 2}}},
                16);
    }
}

static void moves(void **state)
{
    (void)state;
    try_all((struct trial){.op = OP_TRANSPOSE,
                           .n_inputs = 1,
                           .inputs = {F64(2, 1, 3)},
                           .attributes = {.n_axes = 3, .axes = {2, 0, 1}}},
            25);
    try_all((struct trial){.op = OP_SLICE,
                           .n_inputs = 1,
                           .inputs = {F64(2, 4)},
                           .attributes = {.start = {0, 1}, .limit = {2, 3}}},
            9);
    try_all((struct trial){.op = OP_PAD,
                           .n_inputs = 1,
                           .inputs = {F64(2, 4)},
                           .attributes = {.start = {0, 1}, .limit = {0, 2}}},
            9);
    try_all((struct trial){.op = OP_CONCAT,
                           .n_inputs = 2,
                           .inputs = {F64(2, 1), F64(2, 3)},
                           .attributes = {.axis = 1}},
            9);
    try_all((struct trial){.op = OP_DYNAMIC_SLICE,
                           .n_inputs = 2,
                           .inputs = {F64(2, 5), SCALAR(DTYPE_I32)},
                           .attributes = {.axis = 1, .size = 2}},
            9);
    try_all((struct trial){.op = OP_DYNAMIC_UPDATE_SLICE,
                           .n_inputs = 3,
                           .inputs = {F64(2, 5), F64(2, 2), SCALAR(DTYPE_I32)},
                           .attributes = {.axis = 1}},
            9);
    try_all_results(
        (struct trial){.op = OP_BROADCAST,
                       .n_inputs = 1,
                       .inputs = {F64(2, 1)},
                       .attributes = {.n_axes = 2, .axes = {0, 2}, SHAPE(2, 3, 2)}},
        16);
}

/* Merging, coming apart, lengths of 1, by the rule and with any placement given. */
static void reshapes(void **state)
{
    (void)state;
    static const struct trial trials[] = {
        {OP_RESHAPE, 1, {F64(2, 3, 2)}, {SHAPE(6, 2)}, 0},
        {OP_RESHAPE, 1, {F64(2, 3, 2)}, {SHAPE(2, 6)}, 0},
        {OP_RESHAPE, 1, {F64(6, 2)}, {SHAPE(2, 3, 2)}, 0},
        {OP_RESHAPE, 1, {F64(1, 1, 4)}, {SHAPE(1, 4)}, 0},
        {OP_RESHAPE, 1, {F64(1, 4)}, {SHAPE(4)}, 0},
        {OP_RESHAPE, 1, {F64(4)}, {SHAPE(1, 2, 2)}, 0},
        {OP_RESHAPE, 1, {F64(2, 1, 2)}, {SHAPE(2, 2)}, 0},
        {OP_RESHAPE, 1, {F64(2, 1, 1)}, {SHAPE(1, 2, 1)}, 0},
        {OP_RESHAPE, 1, {F64(1, 1)}, {SHAPE(1, 1, 1)}, 0},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(trials); i++) {
        try_all(trials[i], 4);
        struct trial given = trials[i];
        given.attributes.has_placement = true;
        try_all_results(given, 4);
    }
}

static void rows_by_number(void **state)
{
    (void)state;
    /* Tables that are split by rows are left out: their ids count from the rank's own
     * first row, so operands drawn as a whole do not fit them. */
    struct trial gather = {
        .op = OP_GATHER_ROWS,
        .n_inputs = 2,
        .inputs = {F64(6, 2), I32(3, 1)},
        .attributes = {.ignore_row = -1},
    };
    static const int places[] = {0, 1, 3}; /* same, partial, split 1 */
    for (int i = 0; i < 9; i++) {
        gather.inputs[0].placement = numbered(places[i / 3], places[i % 3]);
        try_places(&gather, 1);
    }
    assert_true(gather.n_accepted >= 25);

    struct trial scatter = {
        .op = OP_SCATTER_ADD_ROWS,
        .n_inputs = 3,
        .inputs = {F64(6, 2), I32(3), F64(3, 2)},
        .attributes = {.ignore_row = -1},
    };
    for (int i = 0; i < 9; i++) {
        scatter.inputs[0].placement = numbered(places[i / 3], places[i % 3]);
        try_places(&scatter, 1);
    }
    assert_true(scatter.n_accepted >= 9);
}

static void sources(void **state)
{
    (void)state;
    try_all_results(
        (struct trial){.op = OP_IOTA,
                       .attributes = {.dtype = DTYPE_I32, .axis = 1, SHAPE(2, 3)}},
        9);
    try_all_results(
        (struct trial){.op = OP_CONSTANT,
                       .attributes = {.dtype = DTYPE_F64, .value = 3, SHAPE(2, 3)}},
        9);
    try_all_results((struct trial){.op = OP_CONSTANT,
                                   .attributes = {.dtype = DTYPE_F64, SHAPE(2, 3)}},
                    16);
    /* The same bits at every layout. */
    try_all_results(
        (struct trial){.op = OP_RANDOM_BITS,
                       .n_inputs = 2,
                       .inputs = {SCALAR(DTYPE_U32), SCALAR(DTYPE_U32)},
                       .attributes = {.dtype = DTYPE_U32, .purpose = 5, SHAPE(2, 3)}},
        9);
}

static void collectives(void **state)
{
    (void)state;
    static const enum mesh_axis axes[] = {MESH_SHARD, MESH_TENSOR};
    static const enum op ops[] = {OP_ALL_GATHER, OP_REDUCE_SCATTER, OP_ALL_REDUCE,
                                  OP_FAN_OUT, OP_TAKE_SPLIT};
    for (int i = 0; i < 2; i++) {
        for (size_t j = 0; j < ARRAY_LENGTH(ops); j++) {
            for (int axis = 0; axis < 2; axis++) {
                try_all(
                    (struct trial){.op = ops[j],
                                   .n_inputs = 1,
                                   .inputs = {F64(6, 6)},
                                   .attributes = {.mesh_axis = axes[i], .axis = axis}},
                    3);
            }
        }
        try_all(
            (struct trial){
                .op = OP_ALL_TO_ALL,
                .n_inputs = 1,
                .inputs = {F64(6, 6)},
                .attributes = {.mesh_axis = axes[i], .n_axes = 2, .axes = {1, 0}}},
            2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise_ops), cmocka_unit_test(products_and_reductions),
        cmocka_unit_test(moves),           cmocka_unit_test(reshapes),
        cmocka_unit_test(rows_by_number),  cmocka_unit_test(sources),
        cmocka_unit_test(collectives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
