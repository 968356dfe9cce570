/*
 * comparison - see the header. XLA gets the graph lowered to primitives, the CPU engine gets
 * it as it is, composites with their native kernels.
 */
#include "comparison.h"

#include <math.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/xla/stablehlo.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "graph/rewrite.h"
#include "pjrt.h"

static void **make_arrays(int n_ranks, int n,
                          const struct type *(*type_of)(const struct graph *, int),
                          const struct graph *graph)
{
    void **arrays = mem_alloc_array((size_t)(n_ranks * n) + 1, sizeof(*arrays));
    for (int i = 0; i < n_ranks * n; i++) {
        arrays[i] = mem_alloc(type_bytes(type_of(graph, i % n)));
    }
    return arrays;
}

static void free_arrays(void **owned_arrays, int n)
{
    for (int i = 0; i < n; i++) {
        mem_free(owned_arrays[i]);
    }
    mem_free(owned_arrays);
}

static const struct type *argument_type(const struct graph *graph, int i)
{
    return &graph->arguments[i]->type;
}

static const struct type *output_type(const struct graph *graph, int i)
{
    return &graph->outputs[i].value->type;
}

/* A plain copy; simplify with nothing to simplify would do as well. */
static struct graph *copy_graph(const struct graph *graph)
{
    struct rewrite rewrite = rewrite_begin(graph);
    for (int i = 0; i < graph->n_nodes; i++) {
        rewrite_copy(&rewrite, graph->nodes[i]);
    }
    return rewrite_end(&rewrite);
}

struct comparison *comparison_create(const struct graph *graph)
{
    struct comparison *comparison = mem_alloc(sizeof(*comparison));
    const int n_ranks = mesh_n_ranks(&graph->mesh);
    comparison->graph = copy_graph(graph);
    comparison->n_ranks = n_ranks;
    comparison->arguments =
        make_arrays(n_ranks, graph->n_arguments, argument_type, graph);
    comparison->cpu = make_arrays(n_ranks, graph->n_outputs, output_type, graph);
    comparison->xla = make_arrays(n_ranks, graph->n_outputs, output_type, graph);
    return comparison;
}

void comparison_destroy(struct comparison *comparison)
{
    const struct graph *graph = comparison->graph;
    free_arrays(comparison->arguments, comparison->n_ranks * graph->n_arguments);
    free_arrays(comparison->cpu, comparison->n_ranks * graph->n_outputs);
    free_arrays(comparison->xla, comparison->n_ranks * graph->n_outputs);
    graph_destroy(comparison->graph);
    mem_free(comparison);
}

static bool run_xla(struct comparison *comparison, struct pjrt *pjrt, bool is_tiled,
                    struct error *err)
{
    struct graph *lowered = rewrite_lower(comparison->graph, NULL, is_tiled);
    struct str text = {0};
    struct pjrt_program *program = NULL;
    bool is_done = stablehlo_print(lowered, "compare", &text, err);
    comparison->text_bytes = text.length;
    const int64_t start = clock_now_ns();
    if (is_done) {
        program = pjrt_compile(pjrt, str_text(&text), comparison->n_ranks, err);
        is_done = program != NULL;
    }
    comparison->compile_s = clock_since_ms(start) / 1e3;
    is_done = is_done &&
              pjrt_run(program, lowered, (const void *const *)comparison->arguments,
                       comparison->xla, err);
    pjrt_program_destroy(program);
    str_deinit(&text);
    graph_destroy(lowered);
    return is_done;
}

/* The CPU engine's program with buffers of its own. */
struct cpu {
    struct engine *engine;
    struct program *program;
    struct buffer **arguments, **outputs;
};

static bool cpu_open(struct cpu *cpu, const struct comparison *comparison,
                     struct error *err)
{
    const struct graph *graph = comparison->graph;
    const struct backend_options options = {.n_threads = 0, .isa = BACKEND_ISA_BEST};
    cpu->arguments = mem_alloc_array((size_t)graph->n_arguments + 1, sizeof(void *));
    cpu->outputs = mem_alloc_array((size_t)graph->n_outputs + 1, sizeof(void *));
    cpu->engine =
        backend_create_cpu(&graph->mesh, 0, comparison->n_ranks, &options, err);
    if (cpu->engine == NULL) {
        return false;
    }
    cpu->program = backend_compile(cpu->engine, rewrite_expand(graph), err);
    if (cpu->program == NULL) {
        return false;
    }
    for (int i = 0; i < graph->n_arguments; i++) {
        cpu->arguments[i] = backend_buffer_create(cpu->engine, argument_type(graph, i),
                                                  "argument", err);
        if (cpu->arguments[i] == NULL) {
            return false;
        }
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        const struct value *donor = graph->outputs[i].donor;
        for (int a = 0; a < graph->n_arguments; a++) {
            if (graph->arguments[a] == donor) {
                cpu->outputs[i] = cpu->arguments[a];
            }
        }
        if (donor == NULL) {
            cpu->outputs[i] = backend_buffer_create(cpu->engine, output_type(graph, i),
                                                    "output", err);
        }
        if (cpu->outputs[i] == NULL) {
            return false;
        }
    }
    return true;
}

static void cpu_close(struct cpu *cpu, const struct graph *graph)
{
    for (int i = 0; i < graph->n_outputs; i++) {
        if (graph->outputs[i].donor == NULL) {
            backend_buffer_destroy(cpu->outputs[i]);
        }
    }
    for (int i = 0; i < graph->n_arguments; i++) {
        backend_buffer_destroy(cpu->arguments[i]);
    }
    mem_free(cpu->arguments);
    mem_free(cpu->outputs);
    backend_program_destroy(cpu->program);
    backend_destroy(cpu->engine);
}

static bool run_cpu(struct comparison *comparison, struct error *err)
{
    const struct graph *graph = comparison->graph;
    struct cpu cpu = {0};
    bool is_done = cpu_open(&cpu, comparison, err);
    for (int i = 0; is_done && i < comparison->n_ranks * graph->n_arguments; i++) {
        is_done = backend_upload(cpu.arguments[i % graph->n_arguments],
                                 i / graph->n_arguments, comparison->arguments[i], err);
    }
    is_done = is_done && backend_execute(cpu.program, cpu.arguments, cpu.outputs, err);
    for (int i = 0; is_done && i < comparison->n_ranks * graph->n_outputs; i++) {
        is_done = backend_fetch(cpu.outputs[i % graph->n_outputs], i / graph->n_outputs,
                                comparison->cpu[i], err);
    }
    cpu_close(&cpu, graph);
    return is_done;
}

bool comparison_run(struct comparison *comparison, struct pjrt *pjrt, bool is_tiled,
                    struct error *err)
{
    return run_cpu(comparison, err) && run_xla(comparison, pjrt, is_tiled, err);
}

double comparison_element(enum dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case DTYPE_F64:
        return ((const double *)data)[i];
    case DTYPE_F32:
        return (double)((const float *)data)[i];
    case DTYPE_BF16:
        return (double)dtype_f32_from_bf16(((const uint16_t *)data)[i]);
    case DTYPE_F16:
        return (double)dtype_f32_from_f16(((const uint16_t *)data)[i]);
    case DTYPE_I64:
        return (double)((const int64_t *)data)[i];
    case DTYPE_I32:
        return ((const int32_t *)data)[i];
    case DTYPE_U32:
        return ((const uint32_t *)data)[i];
    case DTYPE_U8:
    case DTYPE_BOOL:
        return ((const unsigned char *)data)[i];
    case DTYPE_COUNT:
        break;
    }
    UNREACHABLE();
}

double comparison_difference(const struct comparison *comparison, int i)
{
    const struct type *type = output_type(comparison->graph, i);
    const int64_t n = type_elements(type);
    double squares = 0, total = 0;
    for (int rank = 0; rank < comparison->n_ranks; rank++) {
        const int at = rank * comparison->graph->n_outputs + i;
        for (int64_t k = 0; k < n; k++) {
            const double a = comparison_element(type->dtype, comparison->cpu[at], k);
            const double b = comparison_element(type->dtype, comparison->xla[at], k);
            if (a == b) { /* infinities too */
                total += isfinite(a) ? a * a : 0;
                continue;
            }
            squares += (a - b) * (a - b);
            total += a * a;
        }
    }
    return total > 0 ? sqrt(squares / total) : sqrt(squares);
}
