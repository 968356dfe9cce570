/*
 * op_run - see op_run.h. A layout is a text, so that a table of cases stays readable; here
 * it becomes placements, the graph gets its gradient, and the engine runs it.
 */
#include "support/op_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/mem.h"
#include "graph/build.h"
#include "graph/grad.h"
#include "graph/rewrite.h"
#include "graph/verify.h"

enum { MAX_ENGINES = 64 };

/* Engines are shared by all runs of one mesh and one choice of kernels. */
static struct engine_entry {
    struct mesh mesh;
    enum backend_isa isa;
    const char *gemm;
    struct engine *engine;
} engines[MAX_ENGINES];
static int n_engines;

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static struct engine *shared_engine(const struct op_setup *setup)
{
    for (int i = 0; i < n_engines; i++) {
        const struct engine_entry *e = &engines[i];
        if (memcmp(&e->mesh, &setup->mesh, sizeof(e->mesh)) == 0 &&
            e->isa == setup->isa && same_text(e->gemm, setup->gemm)) {
            return e->engine;
        }
    }
    assert_true(n_engines < MAX_ENGINES);
    struct error err;
    const struct backend_options options = {
        .n_threads = 2, .isa = setup->isa, .gemm = setup->gemm};
    struct engine *engine =
        backend_create_cpu(&setup->mesh, 0, mesh_n_ranks(&setup->mesh), &options, &err);
    if (engine == NULL) {
        fail_msg("%s", err.message);
    }
    engines[n_engines++] =
        (struct engine_entry){setup->mesh, setup->isa, setup->gemm, engine};
    return engine;
}

void op_run_cleanup(void)
{
    for (int i = 0; i < n_engines; i++) {
        backend_destroy(engines[i].engine);
    }
    n_engines = 0;
}

/* ---- layouts ---- */

static enum mesh_axis axis_of_letter(char letter)
{
    switch (letter) {
    case 'R':
        return MESH_REPLICA;
    case 'S':
        return MESH_SHARD;
    case 'T':
        return MESH_TENSOR;
    }
    fail_msg("no axis %c", letter);
    return MESH_N_AXES;
}

/* The `index`-th word of the layout as a placement. */
static struct placement parse_placement(const char *layout, int index)
{
    struct placement placement = placement_same();
    if (layout == NULL) {
        return placement;
    }
    const char *at = layout;
    for (int i = 0; i < index; i++) {
        at = strchr(at, ' ');
        assert_non_null(at);
        at++;
    }
    while (*at != '\0' && *at != ' ' && *at != '-') {
        const enum mesh_axis axis = axis_of_letter(at[0]);
        placement = at[1] == 'P'
                        ? placement_with(placement, axis, PLACE_PARTIAL, 0)
                        : placement_with(placement, axis, PLACE_SPLIT, at[1] - '0');
        at += 2;
    }
    return placement;
}

static int n_inputs_of(const struct op_case *op_case)
{
    int n = 0;
    while (n < OP_MAX_INPUTS && op_case->inputs[n].kind != OP_INPUT_NONE) {
        n++;
    }
    return n;
}

/* An axis of the mesh that the layout does not use must have one rank. */
bool op_run_fits(const struct op_case *op_case, const char *layout,
                 const struct mesh *mesh)
{
    static const char letters[] = "RST";
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (strchr(layout, letters[axis]) == NULL && mesh->size[axis] > 1) {
            return false;
        }
    }
    for (int i = 0; i < n_inputs_of(op_case); i++) {
        const struct op_input *input = &op_case->inputs[i];
        const struct placement placement = parse_placement(layout, i);
        for (int d = 0; d < input->rank; d++) {
            if (input->dim[d] % placement_n_blocks(&placement, mesh, d) != 0) {
                return false;
            }
        }
    }
    return true;
}

static enum dtype input_dtype(const struct op_setup *setup, enum op_input_kind kind)
{
    switch (kind) {
    case OP_INPUT_FLOAT:
    case OP_INPUT_PARAMETER:
    case OP_INPUT_FIXED:
        return setup->dtype;
    case OP_INPUT_I32:
    case OP_INPUT_ROWS:
    case OP_INPUT_FIRST_KEY:
        return DTYPE_I32;
    case OP_INPUT_U32:
        return DTYPE_U32;
    case OP_INPUT_BOOL:
        return DTYPE_BOOL;
    case OP_INPUT_NONE:
        break;
    }
    fail_msg("no such input");
    return DTYPE_COUNT;
}

/* ---- graphs ---- */

static bool has_gradient(enum op_input_kind kind)
{
    return kind == OP_INPUT_FLOAT || kind == OP_INPUT_PARAMETER;
}

/* The case's own graph, without gradients: inputs x0 .., outputs y0 ... */
static struct graph *build_forward(const struct op_setup *setup)
{
    const struct op_case *c = setup->op_case;
    struct graph *graph = graph_create(&setup->mesh);
    struct value *inputs[OP_MAX_INPUTS];
    for (int i = 0; i < n_inputs_of(c); i++) {
        const struct op_input *input = &c->inputs[i];
        struct type type =
            type_make(input_dtype(setup, input->kind), input->rank, input->dim);
        type.placement = parse_placement(setup->layout, i);
        for (int d = 0; d < input->rank; d++) {
            type.shape.dim[d] /= placement_n_blocks(&type.placement, &setup->mesh, d);
        }
        char name[24];
        snprintf(name, sizeof(name), "x%d", i);
        inputs[i] = input->kind == OP_INPUT_PARAMETER
                        ? build_parameter(graph, name, type, true)
                        : build_input(graph, name, type);
    }
    struct op_build build = {
        .graph = graph, .dtype = setup->dtype, .inputs = inputs, .numbers = c->numbers};
    c->build(&build);
    for (int i = 0; i < build.n_outputs; i++) {
        char name[24];
        snprintf(name, sizeof(name), "y%d", i);
        graph_add_output(graph, name, build.outputs[i],
                         build.donors[i] > 0 ? inputs[build.donors[i] - 1] : NULL);
    }
    return graph;
}

/* Cotangents have the type of the output, but where it is partial they are the same. */
static struct value *make_seed(struct graph *graph, const struct op_case *op_case,
                               const struct value *output, int index)
{
    struct type type = output->type;
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (type.placement.axis[axis].kind == PLACE_PARTIAL) {
            type.placement =
                placement_with(type.placement, (enum mesh_axis)axis, PLACE_SAME, 0);
        }
    }
    char name[24];
    snprintf(name, sizeof(name), "seed%d", index);
    return op_case->seed_is_one ? build_constant(graph, type, 1.0)
                                : build_input(graph, name, type);
}

/* Adds gradients dx0 .. of the outputs y0 .. to the graph. */
static void add_gradients(struct graph *graph, const struct op_case *op_case)
{
    struct value *outputs[OP_MAX_OUTPUTS], *seeds[OP_MAX_OUTPUTS];
    int n_outputs = 0;
    const int n_seeded = op_case->n_seeded > 0 ? op_case->n_seeded : graph->n_outputs;
    for (int i = 0; i < n_seeded; i++) {
        struct value *output = graph->outputs[i].value;
        if (dtype_is_float(output->type.dtype)) {
            outputs[n_outputs] = output;
            seeds[n_outputs++] = make_seed(graph, op_case, output, i);
        }
    }
    struct value *wrt[OP_MAX_INPUTS], *gradients[OP_MAX_INPUTS];
    int indices[OP_MAX_INPUTS], n_wrt = 0;
    for (int i = 0; i < n_inputs_of(op_case); i++) {
        char name[24];
        snprintf(name, sizeof(name), "x%d", i);
        if (has_gradient(op_case->inputs[i].kind)) {
            indices[n_wrt] = i;
            wrt[n_wrt++] = graph_find_argument(graph, name);
        }
    }
    if (n_outputs == 0 || n_wrt == 0) {
        return;
    }
    const struct grad_options options = {.keeps_partial = false};
    grad_build(graph, n_outputs, outputs, seeds, n_wrt, wrt, &options, gradients);
    for (int i = 0; i < n_wrt; i++) {
        char name[24];
        snprintf(name, sizeof(name), "dx%d", indices[i]);
        if (gradients[i] != NULL) {
            graph_add_output(graph, name, gradients[i], NULL);
        }
    }
}

static struct graph *replace(struct graph *owned_old, struct graph *fresh)
{
    graph_destroy(owned_old);
    return fresh;
}

static struct graph *build_graph(struct op_run *run)
{
    const struct op_setup *setup = &run->setup;
    struct graph *graph = build_forward(setup);
    for (int i = 0; i < graph->n_nodes; i++) {
        run->op_seen[graph->nodes[i]->op] = true;
    }
    if (setup->op_case->expands) {
        graph = replace(graph, rewrite_expand(graph));
    }
    if (setup->has_gradient) {
        add_gradients(graph, setup->op_case);
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        run->op_seen[graph->nodes[i]->op] = true;
    }
    struct error err;
    if (!verify_graph(graph, true, &err)) {
        fail_msg("%s: %s", setup->op_case->name, err.message);
    }
    if (setup->is_lowered) {
        graph = replace(graph, rewrite_lower(graph, NULL, setup->is_tiled));
        if (!verify_graph(graph, true, &err)) {
            fail_msg("%s, lowered: %s", setup->op_case->name, err.message);
        }
    }
    return graph;
}

/* ---- runs ---- */

static struct buffer *make_buffer(struct op_run *run, const struct op_tensor *tensor)
{
    struct error err;
    struct buffer *buffer =
        backend_buffer_create(run->engine, &tensor->type, tensor->name, &err);
    if (buffer == NULL) {
        fail_msg("%s", err.message);
    }
    return buffer;
}

struct op_run *op_run_create(const struct op_setup *setup)
{
    struct op_run *run = mem_alloc(sizeof(*run));
    run->setup = *setup;
    run->engine = shared_engine(setup);
    struct graph *graph = build_graph(run);
    run->n_arguments = graph->n_arguments;
    run->n_results = graph->n_outputs;
    for (int i = 0; i < graph->n_arguments; i++) {
        const struct value *argument = graph->arguments[i];
        struct op_tensor *tensor = &run->arguments[i];
        op_tensor_init(tensor, argument->node->name, &argument->type, &setup->mesh);
        op_tensor_fill(tensor, setup->op_case);
        if (setup->rounds_inputs && dtype_is_float(tensor->type.dtype)) {
            op_tensor_round_to_bf16(tensor);
        }
        run->argument_buffers[i] = make_buffer(run, tensor);
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        const struct graph_output *output = &graph->outputs[i];
        op_tensor_init(&run->results[i], output->name, &output->value->type,
                       &setup->mesh);
        for (int j = 0; j < graph->n_arguments; j++) {
            if (output->donor == graph->arguments[j]) {
                run->result_buffers[i] = run->argument_buffers[j];
            }
        }
        if (run->result_buffers[i] == NULL) {
            run->result_buffers[i] = make_buffer(run, &run->results[i]);
        }
    }
    struct error err;
    run->program = backend_compile(run->engine, graph, &err);
    if (run->program == NULL) {
        fail_msg("%s: %s", setup->op_case->name, err.message);
    }
    return run;
}

void op_run_destroy(struct op_run *run)
{
    backend_program_destroy(run->program);
    for (int i = 0; i < run->n_results; i++) {
        bool is_donated = false;
        for (int j = 0; j < run->n_arguments; j++) {
            is_donated =
                is_donated || run->result_buffers[i] == run->argument_buffers[j];
        }
        if (!is_donated) {
            backend_buffer_destroy(run->result_buffers[i]);
        }
        op_tensor_deinit(&run->results[i]);
    }
    for (int i = 0; i < run->n_arguments; i++) {
        backend_buffer_destroy(run->argument_buffers[i]);
        op_tensor_deinit(&run->arguments[i]);
    }
    mem_free(run);
}

/* The first row of input 0 that the rank holds, for row numbers that count from there. */
static int64_t first_row(const struct op_run *run, int index, int rank)
{
    const struct op_tensor *table = &run->arguments[0];
    const struct op_tensor *tensor = &run->arguments[index];
    if (tensor->name[0] != 'x' ||
        run->setup.op_case->inputs[tensor->name[1] - '0'].kind != OP_INPUT_ROWS) {
        return 0;
    }
    struct placement both = table->type.placement;
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (tensor->type.placement.axis[axis].kind != PLACE_SPLIT) {
            both = placement_with(both, (enum mesh_axis)axis, PLACE_SAME, 0);
        }
    }
    return placement_block(&both, &run->setup.mesh, rank, 0) * table->type.shape.dim[0];
}

static void upload(const struct op_run *run, int index)
{
    const struct op_tensor *tensor = &run->arguments[index];
    const struct mesh *mesh = &run->setup.mesh;
    void *host = mem_alloc(type_bytes(&tensor->type));
    for (int rank = 0; rank < mesh_n_ranks(mesh); rank++) {
        op_tensor_cut(tensor, mesh, rank, first_row(run, index, rank), host);
        struct error err;
        if (!backend_upload(run->argument_buffers[index], rank, host, &err)) {
            fail_msg("%s", err.message);
        }
    }
    mem_free(host);
}

/* The rank that holds what `rank` must hold too: coordinate 0 where the value is same. */
static int twin_of(const struct placement *placement, const struct mesh *mesh, int rank)
{
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (placement->axis[axis].kind == PLACE_SAME) {
            rank = mesh_neighbour(mesh, rank, (enum mesh_axis)axis, 0);
        }
    }
    return rank;
}

static void fetch(struct op_run *run, int index)
{
    struct op_tensor *tensor = &run->results[index];
    const struct mesh *mesh = &run->setup.mesh;
    const size_t bytes = type_bytes(&tensor->type);
    const int n_ranks = mesh_n_ranks(mesh);
    unsigned char *host = mem_alloc_array((size_t)n_ranks, bytes);
    memset(tensor->data, 0, (size_t)tensor->n * sizeof(double));
    for (int rank = 0; rank < n_ranks; rank++) {
        unsigned char *own = host + (size_t)rank * bytes;
        struct error err;
        if (!backend_fetch(run->result_buffers[index], rank, own, &err)) {
            fail_msg("%s", err.message);
        }
        const int twin = twin_of(&tensor->type.placement, mesh, rank);
        if (twin != rank) {
            if (memcmp(own, host + (size_t)twin * bytes, bytes) != 0) {
                fail_msg("%s (%s): %s differs between ranks %d and %d",
                         run->setup.op_case->name, run->setup.layout, tensor->name,
                         twin, rank);
            }
            continue;
        }
        op_tensor_add_part(tensor, mesh, rank, own);
    }
    mem_free(host);
}

void op_run_execute(struct op_run *run)
{
    for (int i = 0; i < run->n_arguments; i++) {
        upload(run, i);
    }
    struct error err;
    if (!backend_execute(run->program, run->argument_buffers, run->result_buffers,
                         &err)) {
        fail_msg("%s: %s", run->setup.op_case->name, err.message);
    }
    for (int i = 0; i < run->n_results; i++) {
        fetch(run, i);
    }
}

const struct op_tensor *op_run_find(const struct op_run *run, const char *name)
{
    for (int i = 0; i < run->n_results; i++) {
        if (strcmp(run->results[i].name, name) == 0) {
            return &run->results[i];
        }
    }
    return NULL;
}

int op_run_compare(const struct op_run *run, const struct op_run *reference,
                   double bound, const char *what)
{
    int n_over = 0;
    for (int r = 0; r < run->n_results; r++) {
        const struct op_tensor *ours = &run->results[r];
        const struct op_tensor *theirs = op_run_find(reference, ours->name);
        if (theirs == NULL || theirs->n != ours->n) {
            print_error("%s, %s: %s is missing or misshapen\n",
                        run->setup.op_case->name, what, ours->name);
            n_over++;
            continue;
        }
        double largest = 0.0, error = 0.0;
        bool is_finite = true;
        for (int64_t i = 0; i < ours->n; i++) {
            largest = fmax(largest, fabs(theirs->data[i]));
            error = fmax(error, fabs(ours->data[i] - theirs->data[i]));
            is_finite =
                is_finite && isfinite(ours->data[i]) && isfinite(theirs->data[i]);
        }
        if (!is_finite || error > bound * fmax(largest, 1e-30)) {
            print_error("%s, %s, layout %s: %s is off by %.3g of %.3g, bound %.3g%s\n",
                        run->setup.op_case->name, what,
                        run->setup.layout == NULL ? "-" : run->setup.layout, ours->name,
                        error, largest, bound, is_finite ? "" : ", not finite");
            n_over++;
        }
    }
    if (run->n_results != reference->n_results) {
        print_error("%s, %s: %d results, not %d\n", run->setup.op_case->name, what,
                    run->n_results, reference->n_results);
        n_over++;
    }
    return n_over;
}
