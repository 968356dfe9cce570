/*
 * Logits and hidden states of the reference, layer by layer, from the expanded forward
 * graph (golden cases).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "graph/build.h"
#include "graph/rewrite.h"
#include "model/gemma.h"
#include "support/golden.h"

#define CHECK(call)                      \
    do {                                 \
        if (!(call)) {                   \
            fail_msg("%s", err.message); \
        }                                \
    } while (0)

/* ---- forward pass with its inner values as outputs ---- */

/* The expanded forward graph with outputs logits, hidden.embed, hidden.N (the last value
 * of layer N's block) and hidden.final_norm. */
static struct graph *forward_graph(struct golden *golden)
{
    const struct mesh mesh = mesh_single();
    const struct model_source *source = golden_source(golden);
    struct graph *graph = graph_create(&mesh);
    const struct gemma_inputs inputs = gemma_build_inputs(
        graph, &source->config, golden_B(golden), golden_T(golden), false);
    const struct gemma_options options = {.compute = DTYPE_F32,
                                          .is_trainable = golden_trainable(golden)};
    const struct gemma_forward forward =
        gemma_build_forward(graph, &source->config, source->params, &inputs, &options);
    graph_add_output(graph, "hidden.embed", forward.embedded, NULL);
    graph_add_output(graph, "hidden.final_norm", forward.hidden, NULL);
    graph_add_output(graph, "logits",
                     gemma_build_logits(graph, &source->config, &forward), NULL);
    struct graph *expanded = rewrite_expand(graph);
    graph_destroy(graph);

    /* Layers are the blocks in program order; the last node of each is its output. */
    int layer = -1;
    int block = -1;
    struct value *last = NULL;
    const int n_nodes = expanded->n_nodes;
    for (int i = 0; i <= n_nodes; i++) {
        const struct node *node = i < n_nodes ? expanded->nodes[i] : NULL;
        if (last != NULL && (node == NULL || node->block != block)) {
            graph_add_output(expanded,
                             arena_printf(expanded->arena, "hidden.%d", layer), last,
                             NULL);
            last = NULL;
        }
        if (node != NULL && node->block >= 0) {
            layer += node->block != block;
            last = node->outputs[0];
        }
        block = node == NULL ? -1 : node->block;
    }
    assert_int_equal(layer + 1, source->config.L);
    return expanded;
}

/* Arguments filled with the case's weights and batch 0. */
static struct buffer *make_argument(struct golden *golden, struct engine *engine,
                                    const struct value *argument)
{
    struct error err;
    const char *name = argument->node->name;
    struct buffer *buffer = backend_buffer_create(engine, &argument->type, name, &err);
    assert_non_null(buffer);
    const struct batch *batch = golden_batch(golden, 0);
    const struct model_source *source = golden_source(golden);
    if (argument->node->op == OP_PARAMETER) {
        const int param = params_find(source->params, name);
        assert_true(param >= 0);
        const struct step_source from = golden_step_source(golden);
        CHECK(from.read(from.context, param, 0, source->params->info[param].dim[0],
                        backend_buffer_host(buffer, 0), &err));
    } else if (strcmp(name, "ids") == 0) {
        CHECK(backend_upload(buffer, 0, batch->ids, &err));
    } else if (strcmp(name, "position") == 0) {
        CHECK(backend_upload(buffer, 0, batch->position, &err));
    } else {
        assert_string_equal(name, "first_key");
        CHECK(backend_upload(buffer, 0, batch->first_key, &err));
    }
    return buffer;
}

/* Largest difference over real tokens; *magnitude: the reference's largest value. */
static double compare(struct golden *golden, const float *ours, const float *expected,
                      int64_t width, double *magnitude)
{
    const int32_t T = golden_T(golden);
    double worst = 0.0;
    *magnitude = 0.0;
    for (int32_t b = 0; b < golden_B(golden); b++) {
        const int32_t first = golden_first_column(golden, b);
        for (int32_t t = 0; t < golden_row_length(golden, b); t++) {
            const float *x = ours + ((int64_t)b * T + t) * width;
            const float *y = expected + ((int64_t)b * T + t + first) * width;
            for (int64_t i = 0; i < width; i++) {
                worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
                *magnitude = fmax(*magnitude, fabs((double)y[i]));
            }
        }
    }
    return worst;
}

static void check_output(struct golden *golden, const char *name, struct buffer *buffer,
                         double *worst_logits, double *worst_hidden)
{
    int64_t n = 0;
    const float *expected = golden_tensor(golden, name, &n);
    if (expected == NULL) {
        return;
    }
    const struct shape *shape = &backend_buffer_type(buffer)->shape;
    const int64_t width = shape->dim[shape->rank - 1];
    double magnitude = 0.0;
    const double worst =
        compare(golden, backend_buffer_host(buffer, 0), expected, width, &magnitude);
    const bool is_logits = strcmp(name, "logits") == 0;
    const double relative = is_logits ? worst : worst / magnitude;
    if (relative > 1e-4) {
        fail_msg("%s: off by %.3g (largest value %.3g)", name, worst, magnitude);
    }
    double *into = is_logits ? worst_logits : worst_hidden;
    *into = fmax(*into, relative);
}

static void check_forward(const char *name)
{
    struct golden *golden = golden_open(name);
    struct engine *engine = golden_engine(2);
    struct error err;
    struct program *program = backend_compile(engine, forward_graph(golden), &err);
    if (program == NULL) {
        fail_msg("%s", err.message);
    }
    const struct graph *graph = backend_program_graph(program);
    struct buffer *arguments[1024];
    struct buffer *outputs[64];
    assert_true((size_t)graph->n_arguments <= ARRAY_LENGTH(arguments) &&
                (size_t)graph->n_outputs <= ARRAY_LENGTH(outputs));
    for (int i = 0; i < graph->n_arguments; i++) {
        arguments[i] = make_argument(golden, engine, graph->arguments[i]);
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        outputs[i] = backend_buffer_create(engine, &graph->outputs[i].value->type,
                                           graph->outputs[i].name, &err);
        assert_non_null(outputs[i]);
    }
    CHECK(backend_execute(program, arguments, outputs, &err));
    double logits = 0.0;
    double hidden = 0.0;
    for (int i = 0; i < graph->n_outputs; i++) {
        check_output(golden, graph->outputs[i].name, outputs[i], &logits, &hidden);
    }
    assert_true(logits > 0.0); /* something was compared */
    printf("# %-28s logits within %.1e, hidden states within %.1e\n", name, logits,
           hidden);
    for (int i = 0; i < graph->n_arguments; i++) {
        backend_buffer_destroy(arguments[i]);
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        backend_buffer_destroy(outputs[i]);
    }
    backend_program_destroy(program);
    backend_destroy(engine);
    golden_close(golden);
}

static void logits_and_hidden_states_are_the_references(void **state)
{
    (void)state;
    const char *const names[] = {"gemma4-e2b-tiny",          "gemma4-e4b-tiny",
                                 "gemma4-31b-tiny",          "gemma3-tiny",
                                 "gemma4-e2b-tiny-packed",   "gemma3-tiny-packed",
                                 "gemma4-e2b-tiny-rightpad", "gemma4-e2b-tiny-leftpad",
                                 "gemma4-e2b-tiny-lora"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        check_forward(names[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_and_hidden_states_are_the_references),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
