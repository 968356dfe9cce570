/*
 * xla-golden - the graphs of lathe through XLA's CPU plug-in: an independent check of the
 * StableHLO text, of the plain and native kernels, and of autodiff.
 *
 *   1. every primitive, on four ranks (tests/support/every_primitive.c);
 *   2. every composite with its gradient;
 *   3. loss and gradients of the tiny models of tests/golden, against the CPU engine and
 *      against the reference's numbers.
 *
 * Not part of the build. From the project's folder:
 *
 *     make all
 *     pip download --no-deps lammps-jax-pjrt-cpu==0.11.2 && unzip lammps_jax_pjrt_cpu-*.whl
 *     gcc -std=c11 -D_GNU_SOURCE -O2 -Isrc -Itests tools/xla-golden/[a-z]*.c \
 *         tests/support/golden.c tests/support/every_primitive.c \
 *         build/release/liblathe.a -ldnnl -lopenblas -lgomp -lcmocka -ljansson -lyaml \
 *         -lxxhash -lpthread -lm -ldl -o xla-golden
 *     TF_CPP_MIN_LOG_LEVEL=1 ./xla-golden lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so
 *
 * Prints Markdown; a copy stands in docs/results/xla-golden.md.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/random.h"
#include "comparison.h"
#include "composites.h"
#include "pjrt.h"
#include "support/every_primitive.h"
#include "support/golden.h"
#include "train/step_graphs.h"

enum { N_DEVICES = 4 };

static NORETURN void die(const struct error *err)
{
    fprintf(stderr, "xla-golden: %s\n", err->message);
    exit(1);
}

/* Numbers for the arguments of small graphs: floats normal, ids around [-1, 6]. */
static void fill_arguments(struct comparison *comparison)
{
    const struct graph *graph = comparison->graph;
    for (int i = 0; i < comparison->n_ranks * graph->n_arguments; i++) {
        const struct value *argument = graph->arguments[i % graph->n_arguments];
        const struct type *type = &argument->type;
        const int rank = i / graph->n_arguments;
        const bool is_same = placement_is_same(&type->placement);
        const uint64_t stream =
            (uint64_t)(i % graph->n_arguments + (is_same ? 0 : 1000 * rank));
        unsigned char *data = comparison->arguments[i];
        for (int64_t k = 0; k < type_elements(type); k++) {
            float x = random_normal(3, RANDOM_TEST, stream, (uint64_t)k);
            if (strcmp(argument->node->name, "positive") == 0) {
                x = fabsf(x);
            }
            const uint32_t bits = random_bits(3, RANDOM_TEST, stream, (uint64_t)k);
            unsigned char *element = data + (size_t)k * dtype_bytes(type->dtype);
            if (dtype_is_float(type->dtype)) {
                dtype_from_f32(type->dtype, &x, element, 1);
            } else if (type->dtype == DTYPE_BOOL) {
                *element = 1;
            } else {
                const int32_t id = (int32_t)(bits % 8) - 1;
                const uint32_t word = type->dtype == DTYPE_U32 ? bits : (uint32_t)id;
                memcpy(element, &word, sizeof(word));
            }
        }
    }
}

static void compare_small(struct pjrt *pjrt, const struct graph *graph,
                          const char *label, bool is_tiled)
{
    struct error err;
    struct comparison *comparison = comparison_create(graph);
    fill_arguments(comparison);
    composites_fill(comparison->graph, comparison->arguments);
    if (!comparison_run(comparison, pjrt, is_tiled, &err)) {
        error_wrap(&err, "%s", label);
        die(&err);
    }
    for (int i = 0; i < comparison->graph->n_outputs; i++) {
        const struct graph_output *output = &comparison->graph->outputs[i];
        char type[192];
        printf("| %s%s%s | `%s` | %.1e |\n", label, label[0] != '\0' ? ": " : "",
               output->name, type_format(type, &output->value->type),
               comparison_difference(comparison, i));
    }
    comparison_destroy(comparison);
}

static void run_primitives(struct pjrt *pjrt)
{
    printf("\n## Primitives, four ranks (shard 2, tensor 2)\n\n"
           "| output | type | difference |\n|---|---|---|\n");
    struct graph *graph = every_primitive_create();
    compare_small(pjrt, graph, "", false);
    graph_destroy(graph);
}

static void run_composites(struct pjrt *pjrt)
{
    printf("\n## Composites: definition on XLA, native kernel here\n\n"
           "| output | type | difference |\n|---|---|---|\n");
    for (int i = 0; i < composites_count(); i++) {
        struct graph *graph = composites_create(i);
        compare_small(pjrt, graph, composites_name(i), false);
        graph_destroy(graph);
    }
    for (int i = 0; i < composites_count(); i++) {
        if (composites_is_tiled(i)) {
            char label[100];
            snprintf(label, sizeof(label), "%s, tiled", composites_name(i));
            struct graph *graph = composites_create(i);
            compare_small(pjrt, graph, label, true);
            graph_destroy(graph);
        }
    }
}

/* ---- models ---- */

static void set_argument(struct comparison *comparison, const char *name,
                         const void *data)
{
    for (int i = 0; i < comparison->graph->n_arguments; i++) {
        const struct value *argument = comparison->graph->arguments[i];
        if (strcmp(argument->node->name, name) == 0) {
            memcpy(comparison->arguments[i], data, type_bytes(&argument->type));
        }
    }
}

/* Rows of a frozen per-layer table for the batch's ids. */
static void set_ple_rows(struct comparison *comparison,
                         const struct model_source *source, const struct batch *batch)
{
    const int param = params_index(source->params, PARAM_PLE_TABLE, -1);
    struct value *rows = graph_find_argument(comparison->graph, "ple_rows");
    if (rows == NULL || param < 0) {
        return;
    }
    struct error err;
    float *host = mem_alloc(type_bytes(&rows->type));
    const int64_t width = source->params->info[param].dim[1];
    for (int64_t i = 0; i < (int64_t)batch->rows * batch->row_tokens; i++) {
        if (!weights_read(source->weights, param, batch->ids[i], 1, host + i * width,
                          &err)) {
            die(&err);
        }
    }
    set_argument(comparison, "ple_rows", host);
    mem_free(host);
}

static void set_model(struct comparison *comparison, const struct model_source *source,
                      const struct batch *batch)
{
    struct error err;
    for (int i = 0; i < source->params->n; i++) {
        const struct param_info *info = &source->params->info[i];
        if (graph_find_argument(comparison->graph, info->name) == NULL) {
            continue;
        }
        float *host = mem_alloc_array((size_t)info->n_elements, sizeof(*host));
        if (!weights_read(source->weights, i, 0, info->dim[0], host, &err)) {
            die(&err);
        }
        set_argument(comparison, info->name, host);
        mem_free(host);
    }
    set_ple_rows(comparison, source, batch);
    set_argument(comparison, "ids", batch->ids);
    set_argument(comparison, "position", batch->position);
    set_argument(comparison, "first_key", batch->first_key);
    set_argument(comparison, "loss_rows", batch->loss_rows);
    set_argument(comparison, "targets", batch->targets);
    set_argument(comparison, "weight", batch->weight);
}

struct figures {
    double loss, loss_error;  /* of XLA, relative to the reference */
    double worst_engine;      /* gradients: XLA against the CPU engine */
    const char *worst_tensor; /* of that */
    double worst_reference;   /* gradients: XLA against the reference */
    int n_gradients;
};

static struct figures judge(const struct comparison *comparison, struct golden *golden,
                            double weight_sum)
{
    struct figures figures = {.worst_tensor = ""};
    for (int i = 0; i < comparison->graph->n_outputs; i++) {
        const struct graph_output *output = &comparison->graph->outputs[i];
        if (strcmp(output->name, "loss_sum") == 0) {
            const double expected = golden_number(golden, NULL, "loss", -1);
            figures.loss = *(const double *)comparison->xla[i] / weight_sum;
            figures.loss_error = (figures.loss - expected) / expected;
        }
        if (strncmp(output->name, "grad.", 5) != 0) {
            continue;
        }
        figures.n_gradients++;
        const double apart = comparison_difference(comparison, i);
        if (apart > figures.worst_engine) {
            figures.worst_engine = apart;
            figures.worst_tensor = output->name;
        }
        int64_t n = 0;
        const float *expected = golden_tensor(golden, output->name, &n);
        if (expected == NULL) {
            continue;
        }
        float *mean = mem_alloc_array((size_t)n, sizeof(*mean));
        for (int64_t k = 0; k < n; k++) {
            mean[k] =
                (float)((double)((const float *)comparison->xla[i])[k] / weight_sum);
        }
        figures.worst_reference =
            fmax(figures.worst_reference, golden_relative_l2(mean, expected, n));
        mem_free(mean);
    }
    return figures;
}

static void run_model(struct pjrt *pjrt, const char *name, bool recomputes,
                      bool is_tiled)
{
    struct error err;
    struct golden *golden = golden_open(name);
    const struct model_source *source = golden_source(golden);
    const struct batch *batch = golden_batch(golden, 0);
    const int table = params_index(source->params, PARAM_PLE_TABLE, -1);
    const struct step_shape shape = {
        .config = &source->config,
        .params = source->params,
        .is_trainable = golden_trainable(golden),
        .has_ple_rows = table >= 0 && !golden_trainable(golden)[table],
        .B = golden_B(golden),
        .T = golden_T(golden),
        .C = batch->target_capacity,
        .compute = DTYPE_F32,
        .recomputes = recomputes,
    };
    const struct mesh mesh = mesh_single();
    struct graph *graph = step_graphs_grad(&mesh, &shape);
    struct comparison *comparison = comparison_create(graph);
    set_model(comparison, source, batch);
    if (!comparison_run(comparison, pjrt, is_tiled, &err)) {
        error_wrap(&err, "%s", name);
        die(&err);
    }
    const struct figures f = judge(comparison, golden, batch->weight_sum);
    printf("| %s%s%s | %.8f | %+.1e | %d | %.1e (%s) | %.1e | %.0f | %.1f |\n", name,
           recomputes ? ", recomputed" : "", is_tiled ? ", tiled" : "", f.loss,
           f.loss_error, f.n_gradients, f.worst_engine, f.worst_tensor,
           f.worst_reference, (double)comparison->text_bytes / 1e3,
           comparison->compile_s);
    fflush(stdout);
    comparison_destroy(comparison);
    graph_destroy(graph);
    golden_close(golden);
}

static void run_models(struct pjrt *pjrt)
{
    static const char *const names[] = {
        "gemma3-tiny",
        "gemma3-tiny-packed",
        "gemma4-31b-tiny",
        "gemma4-e4b-tiny",
        "gemma4-e2b-tiny",
        "gemma4-e2b-tiny-packed",
        "gemma4-e2b-tiny-frozen-ple",
        "gemma4-e2b-tiny-rightpad",
    };
    printf("\n## Models: loss and gradients of one batch\n\n"
           "| case | loss on XLA | against reference | gradients | worst against CPU "
           "engine | worst against reference | text kB | compile s |\n"
           "|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        run_model(pjrt, names[i], false, false);
    }
    run_model(pjrt, "gemma3-tiny", true, false);
    run_model(pjrt, "gemma4-e2b-tiny", true, false);
    run_model(pjrt, "gemma3-tiny", false, true);
}

int main(int argc, char **argv)
{
    struct error err;
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: xla-golden PLUGIN.so [CASE of tests/golden]\n");
        return 2;
    }
    struct pjrt *pjrt = pjrt_open(argv[1], N_DEVICES, &err);
    if (pjrt == NULL) {
        die(&err);
    }
    if (argc == 3) {
        run_model(pjrt, argv[2], false, false);
        return 0;
    }
    run_primitives(pjrt);
    run_composites(pjrt);
    run_models(pjrt);
    return 0;
}
