/*
 * engine_run - see engine_run.h.
 */
#include "support/engine_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/random.h"

struct engine_run {
    struct engine *engine;
    struct program *program;
    struct buffer **arguments;
    struct buffer **outputs;
    bool *owns_output;
};

static void check(bool is_done, const struct error *err)
{
    if (!is_done) {
        fail_msg("%s", err->message);
    }
}

struct engine_run *engine_run_create(struct graph *owned_graph,
                                     const struct backend_options *options)
{
    const struct backend_options plain = {.n_threads = 2, .isa = BACKEND_ISA_BEST};
    struct error err;
    struct engine_run *run = mem_alloc(sizeof(*run));
    const struct mesh mesh = owned_graph->mesh;
    run->engine = backend_create_cpu(&mesh, 0, mesh_n_ranks(&mesh),
                                     options != NULL ? options : &plain, &err);
    check(run->engine != NULL, &err);
    run->program = backend_compile(run->engine, owned_graph, &err);
    check(run->program != NULL, &err);
    const struct graph *graph = backend_program_graph(run->program);
    run->arguments = mem_alloc_array((size_t)graph->n_arguments + 1, sizeof(void *));
    run->outputs = mem_alloc_array((size_t)graph->n_outputs + 1, sizeof(void *));
    run->owns_output = mem_alloc_array((size_t)graph->n_outputs + 1, sizeof(bool));
    for (int i = 0; i < graph->n_arguments; i++) {
        const struct value *value = graph->arguments[i];
        run->arguments[i] =
            backend_buffer_create(run->engine, &value->type, value->node->name, &err);
        check(run->arguments[i] != NULL, &err);
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        const struct graph_output *output = &graph->outputs[i];
        if (output->donor == NULL) {
            run->outputs[i] = backend_buffer_create(run->engine, &output->value->type,
                                                    output->name, &err);
            check(run->outputs[i] != NULL, &err);
            run->owns_output[i] = true;
        }
        for (int j = 0; j < graph->n_arguments; j++) {
            if (output->donor == graph->arguments[j]) {
                run->outputs[i] = run->arguments[j];
            }
        }
    }
    return run;
}

void engine_run_destroy(struct engine_run *run)
{
    const struct graph *graph = backend_program_graph(run->program);
    for (int i = 0; i < graph->n_arguments; i++) {
        backend_buffer_destroy(run->arguments[i]);
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        if (run->owns_output[i]) {
            backend_buffer_destroy(run->outputs[i]);
        }
    }
    mem_free(run->arguments);
    mem_free(run->outputs);
    mem_free(run->owns_output);
    backend_program_destroy(run->program);
    backend_destroy(run->engine);
    mem_free(run);
}

struct engine *engine_run_engine(struct engine_run *run)
{
    return run->engine;
}

struct program *engine_run_program(struct engine_run *run)
{
    return run->program;
}

void *engine_run_argument(struct engine_run *run, const char *name, int rank)
{
    const struct graph *graph = backend_program_graph(run->program);
    for (int i = 0; i < graph->n_arguments; i++) {
        if (strcmp(graph->arguments[i]->node->name, name) == 0) {
            return backend_buffer_host(run->arguments[i], rank);
        }
    }
    fail_msg("no argument %s", name);
    return NULL;
}

const void *engine_run_output(struct engine_run *run, const char *name, int rank)
{
    const int i = graph_find_output(backend_program_graph(run->program), name);
    assert_true(i >= 0);
    return backend_buffer_host(run->outputs[i], rank);
}

static void fill(void *data, const struct type *type, uint64_t seed, uint64_t stream,
                 double scale)
{
    const int64_t n = type_elements(type);
    for (int64_t i = 0; i < n; i++) {
        const double x =
            scale * (double)random_normal(seed, RANDOM_TEST, stream, (uint64_t)i);
        if (type->dtype == DTYPE_F64) {
            ((double *)data)[i] = x;
        } else {
            const float rounded = (float)x;
            dtype_from_f32(type->dtype, &rounded,
                           (unsigned char *)data + (size_t)i * dtype_bytes(type->dtype),
                           1);
        }
    }
}

void engine_run_fill(struct engine_run *run, uint64_t seed, double scale)
{
    const struct graph *graph = backend_program_graph(run->program);
    for (int i = 0; i < graph->n_arguments; i++) {
        const struct type *type = &graph->arguments[i]->type;
        for (int rank = 0; rank < mesh_n_ranks(&graph->mesh); rank++) {
            const int source = placement_is_same(&type->placement) ? 0 : rank;
            if (dtype_is_float(type->dtype)) {
                fill(backend_buffer_host(run->arguments[i], rank), type, seed,
                     (uint64_t)(i * 64 + source), scale);
            }
        }
    }
}

void engine_run_execute(struct engine_run *run)
{
    struct error err;
    check(backend_execute(run->program, run->arguments, run->outputs, &err), &err);
}
