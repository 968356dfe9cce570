/*
 * random_graph - picks ops and operands by a counter-based generator.
 *
 * All arrays are f32 with one of a few shapes, so that most pairs of values can meet.
 */
#include "support/random_graph.h"

#include "base/mem.h"
#include "base/random.h"
#include "graph/build.h"

enum { N_SHAPES = 4, N_ARGUMENTS = 6, MAX_VALUES = 256 };

static const struct shape shapes[N_SHAPES] = {
    {.rank = 2, .dim = {4, 6}},
    {.rank = 2, .dim = {6, 4}},
    {.rank = 2, .dim = {6, 6}},
    {.rank = 1, .dim = {24}},
};

struct maker {
    struct graph *graph;
    uint64_t seed, n_drawn;
    struct value *values[MAX_VALUES];
    int n_values;
};

static int draw(struct maker *m, int n)
{
    return (int)(random_bits(m->seed, RANDOM_TEST, 0, m->n_drawn++) % (unsigned)n);
}

static struct value *pick(struct maker *m)
{
    return m->values[draw(m, m->n_values)];
}

/* Some value of this shape: one that is there, or a constant. */
static struct value *pick_shape(struct maker *m, const struct shape *shape)
{
    const int start = draw(m, m->n_values);
    for (int i = 0; i < m->n_values; i++) {
        struct value *value = m->values[(start + i) % m->n_values];
        if (type_shape_equal(&value->type.shape, shape)) {
            return value;
        }
    }
    return build_constant(m->graph, type_make(DTYPE_F32, shape->rank, shape->dim),
                          0.25);
}

static void keep(struct maker *m, struct value *value)
{
    if (m->n_values < MAX_VALUES) {
        m->values[m->n_values++] = value;
    }
}

static struct value *make_unary(struct maker *m)
{
    struct value *x = pick(m);
    switch (draw(m, 5)) {
    case 0:
        return build_tanh(m->graph, x);
    case 1:
        return build_sin(m->graph, x);
    case 2:
        return build_cos(m->graph, x);
    case 3:
        return build_cast(m->graph, build_cast(m->graph, x, DTYPE_BF16), DTYPE_F32);
    default:
        return build_barrier(m->graph, x);
    }
}

static struct value *make_binary(struct maker *m)
{
    struct value *x = pick(m);
    struct value *y = pick_shape(m, &x->type.shape);
    switch (draw(m, 4)) {
    case 0:
        return build_add(m->graph, x, y);
    case 1:
        return build_sub(m->graph, x, y);
    case 2:
        return build_max(m->graph, x, y);
    default:
        return build_mul(m->graph, build_tanh(m->graph, x), build_tanh(m->graph, y));
    }
}

static struct value *make_view(struct maker *m)
{
    struct value *x = pick(m);
    if (draw(m, 2) == 0 && type_elements(&x->type) == 24) {
        static const int same_size[] = {0, 1, 3};
        return build_reshape(m->graph, x, shapes[same_size[draw(m, 3)]]);
    }
    if (x->type.shape.rank == 2 && x->type.shape.dim[0] == 6) {
        if (x->type.shape.dim[1] == 6) { /* a run in the middle, [4, 6] */
            return build_slice_axis(m->graph, x, 0, 1, 5);
        }
        return build_transpose(m->graph, x, (int[]){1, 0});
    }
    return build_concat(m->graph, &x, 1, 0);
}

/* Keeps products small: the operands are tamed by tanh and scaled. */
static struct value *make_matmul(struct maker *m, bool has_overwrite)
{
    struct value *a = build_tanh(m->graph, pick_shape(m, &shapes[1]));
    struct value *b = build_tanh(m->graph, pick_shape(m, &shapes[0]));
    if (has_overwrite && draw(m, 2) == 0) {
        struct value *acc = pick_shape(m, &shapes[2]);
        return build_matmul_into(m->graph, a, b, false, false, acc, NULL);
    }
    return build_matmul(m->graph, a, b, false, false, DTYPE_F32);
}

static void add_outputs(struct maker *m, bool has_overwrite)
{
    const int n = 1 + draw(m, 4);
    bool is_donor[N_ARGUMENTS] = {false};
    for (int i = 0; i < n; i++) {
        struct value *value = pick(m);
        struct value *donor = NULL;
        const int a = draw(m, N_ARGUMENTS);
        if (has_overwrite && !is_donor[a] &&
            type_equal(&m->graph->arguments[a]->type, &value->type)) {
            donor = m->graph->arguments[a];
            is_donor[a] = true;
        }
        const char *name = arena_printf(m->graph->arena, "out%d", i);
        graph_add_output(m->graph, name, value, donor);
    }
    graph_add_output(m->graph, "last", m->values[m->n_values - 1], NULL);
}

struct graph *random_graph_create(uint64_t seed, const struct random_graph_options *o)
{
    const struct mesh mesh = mesh_single();
    struct maker m = {.graph = graph_create(&mesh), .seed = seed};
    for (int i = 0; i < N_ARGUMENTS; i++) {
        const struct shape *shape = &shapes[i % N_SHAPES];
        const char *name = arena_printf(m.graph->arena, "arg%d", i);
        keep(&m,
             build_input(m.graph, name, type_make(DTYPE_F32, shape->rank, shape->dim)));
    }
    for (int i = 0; i < o->n_nodes; i++) {
        m.graph->is_backward = i > o->n_nodes / 2;
        m.graph->block = draw(&m, 3) - 1;
        switch (draw(&m, 5)) {
        case 0:
            keep(&m, make_unary(&m));
            break;
        case 1:
        case 2:
            keep(&m, make_binary(&m));
            break;
        case 3:
            keep(&m, make_view(&m));
            break;
        default:
            keep(&m, make_matmul(&m, o->has_overwrite));
            break;
        }
    }
    m.graph->block = -1;
    m.graph->is_backward = false;
    m.graph->next_block = 2;
    add_outputs(&m, o->has_overwrite);
    return m.graph;
}
