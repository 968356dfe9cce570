/*
 * backend - one call for every engine: checks what all engines ask of their callers,
 * then hands on. Which engine it is was decided by the function that made it.
 */
#include "backend/backend.h"

#include "backend/cpu/engine.h"
#include "backend/dispatch.h"
#include "base/error.h"
#include "graph/graph.h"

struct engine *backend_create_cpu(const struct mesh *mesh, int first_rank,
                                  int n_local_ranks,
                                  const struct backend_options *options,
                                  struct error *err)
{
    /* Which ranks are ours is arithmetic of the launcher's, so a misfit is a bug. */
    ASSERT(n_local_ranks >= 1 && first_rank >= 0);
    ASSERT(first_rank + n_local_ranks <= mesh_n_ranks(mesh));
    return engine_create(mesh, first_rank, n_local_ranks, options, err);
}

/* Programs and buffers keep a pointer to their engine, so they go first. */
void backend_destroy(struct engine *engine)
{
    if (engine != NULL) {
        engine->dispatch->destroy(engine);
    }
}

const char *backend_describe(const struct engine *engine)
{
    return engine->dispatch->describe(engine);
}

int backend_n_local_ranks(const struct engine *engine)
{
    return engine->n_local_ranks;
}

bool backend_expands_repeats(const struct engine *engine)
{
    return engine->dispatch->expands_repeats;
}

struct program *backend_compile(struct engine *engine, struct graph *owned_graph,
                                struct error *err)
{
    /* Local shapes depend on the mesh: another one means another graph. */
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        ASSERT(owned_graph->mesh.size[axis] == engine->mesh.size[axis]);
    }
    return engine->dispatch->compile(engine, owned_graph, err);
}

/* Reached through the program, so that callers need not keep the engine at hand. */
void backend_program_destroy(struct program *program)
{
    if (program != NULL) {
        program->engine->dispatch->program_destroy(program);
    }
}

/* A mark on the program: engines look at it when they run one. */
void backend_program_allow_abandon(struct program *program)
{
    program->can_be_abandoned = true;
}

/* The graph as it was given, not as the engine runs it: its arguments and outputs are
 * what execute counts by. */
const struct graph *backend_program_graph(const struct program *program)
{
    return program->graph;
}

size_t backend_program_bytes(const struct program *program)
{
    return program->engine->dispatch->program_bytes(program);
}

/* Also a real planning, only without memory: the figure cannot differ from what compile
 * asks for. */
size_t backend_plan_bytes(struct engine *engine, const struct graph *graph)
{
    return engine->dispatch->plan_bytes(engine, graph);
}

struct buffer *backend_buffer_create(struct engine *engine, const struct type *type,
                                     const char *name, struct error *err)
{
    return engine->dispatch->buffer_create(engine, type, name, err);
}

/* Kernels read elements by plain loads, hence the alignment. */
struct buffer *backend_buffer_borrow(struct engine *engine, const struct type *type,
                                     const char *name, const void *host,
                                     struct error *err)
{
    ASSERT((uintptr_t)host % dtype_bytes(type->dtype) == 0);
    return engine->dispatch->buffer_borrow(engine, type, name, host, err);
}

void backend_buffer_destroy(struct buffer *buffer)
{
    if (buffer != NULL) {
        buffer->engine->dispatch->buffer_destroy(buffer);
    }
}

const struct type *backend_buffer_type(const struct buffer *buffer)
{
    return &buffer->type;
}

bool backend_upload(struct buffer *buffer, int local, const void *host,
                    struct error *err)
{
    ASSERT(0 <= local && local < buffer->engine->n_local_ranks);
    ASSERT(!buffer->is_borrowed);
    return buffer->engine->dispatch->upload(buffer, local, host, err);
}

bool backend_fetch(struct buffer *buffer, int local, void *host, struct error *err)
{
    ASSERT(0 <= local && local < buffer->engine->n_local_ranks);
    return buffer->engine->dispatch->fetch(buffer, local, host, err);
}

/* NULL is an answer, not a failure: the caller then copies. */
void *backend_buffer_host(struct buffer *buffer, int local)
{
    ASSERT(0 <= local && local < buffer->engine->n_local_ranks);
    return buffer->engine->dispatch->buffer_host(buffer, local);
}

/* Shapes and dtypes only: the caller may hold a split value under another name. */
static void check_buffer(const struct program *program, const struct buffer *buffer,
                         const struct type *type)
{
    ASSERT(buffer != NULL && buffer->engine == program->engine);
    ASSERT(buffer->type.dtype == type->dtype);
    ASSERT(type_shape_equal(&buffer->type.shape, &type->shape));
}

bool backend_execute(struct program *program, struct buffer *const *arguments,
                     struct buffer *const *outputs, struct error *err)
{
    /* Once per run and a few hundred comparisons: cheap beside a wrong step. */
    const struct graph *graph = program->graph;
    for (int i = 0; i < graph->n_arguments; i++) {
        check_buffer(program, arguments[i], &graph->arguments[i]->type);
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        check_buffer(program, outputs[i], &graph->outputs[i].value->type);
        ASSERT(!outputs[i]->is_borrowed);
    }
    return program->engine->dispatch->execute(program, arguments, outputs, err);
}

void backend_profile_print(const struct engine *engine, struct str *out)
{
    engine->dispatch->profile_print(engine, out);
}

void backend_profile_reset(struct engine *engine)
{
    engine->dispatch->profile_reset(engine);
}

int backend_profile_ops(const struct engine *engine, struct backend_profile_row *rows,
                        int capacity)
{
    return engine->dispatch->profile_ops(engine, rows, capacity);
}

bool backend_trace_write(const struct engine *engine, const char *path,
                         struct error *err)
{
    return engine->dispatch->trace_write(engine, path, err);
}

double backend_measure_gemm_gflops(struct engine *engine)
{
    return engine->dispatch->measure_gemm_gflops(engine);
}

double backend_measure_best_gemm(struct engine *engine, const char **provider)
{
    return engine->dispatch->measure_best_gemm(engine, provider);
}
