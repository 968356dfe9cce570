/*
 * The StableHLO text of a graph that holds every primitive, compared with a recorded text;
 * that text has been run by XLA (docs/results/xla-golden.md).
 *
 * After a wanted change: LATHE_RECORD=1 build/release/tests/backend/xla/test_stablehlo, run
 * tools/xla-golden again, and review the difference.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "backend/xla/stablehlo.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "graph/build.h"
#include "graph/rewrite.h"
#include "support/every_primitive.h"

static const char recorded_path[] = "tests/backend/xla/every_primitive.mlir";

static void every_primitive_is_in_the_graph(void **state)
{
    (void)state;
    struct graph *graph = every_primitive_create();
    bool is_there[OP_COUNT] = {false};
    for (int i = 0; i < graph->n_nodes; i++) {
        is_there[graph->nodes[i]->op] = true;
    }
    for (int op = 0; op < OP_COUNT; op++) {
        if (op_kind((enum op)op) == OP_KIND_PRIMITIVE && !is_there[op]) {
            fail_msg("no %s", op_name((enum op)op));
        }
    }
    graph_destroy(graph);
}

/* Fails at the first line that differs, printing both. */
static void compare_lines(const char *got, const char *wanted)
{
    int line = 1;
    while (*got != '\0' || *wanted != '\0') {
        const size_t n_got = strcspn(got, "\n");
        const size_t n_wanted = strcspn(wanted, "\n");
        if (n_got != n_wanted || memcmp(got, wanted, n_got) != 0) {
            fail_msg("line %d is\n%.*s\nnot\n%.*s", line, (int)n_got, got,
                     (int)n_wanted, wanted);
        }
        got += n_got + (got[n_got] == '\n');
        wanted += n_wanted + (wanted[n_wanted] == '\n');
        line++;
    }
}

static void text_is_as_recorded(void **state)
{
    (void)state;
    struct error err;
    struct graph *graph = every_primitive_create();
    struct str text = {0};
    if (!stablehlo_print(graph, "every_primitive", &text, &err)) {
        fail_msg("%s", err.message);
    }
    if (getenv("LATHE_RECORD") != NULL) {
        assert_true(file_write_atomic(recorded_path, text.text, text.length, &err));
    }
    size_t length;
    char *recorded = file_read(recorded_path, 1 << 20, &length, &err);
    if (recorded == NULL) {
        fail_msg("%s", err.message);
    }
    compare_lines(str_text(&text), recorded);
    mem_free(recorded);
    str_deinit(&text);
    graph_destroy(graph);
}

static void composites_are_refused_by_name(void **state)
{
    (void)state;
    struct error err;
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *x = build_input(graph, "x", type_make(DTYPE_F32, 1, (int64_t[]){4}));
    graph_push_scope(graph, "mlp");
    graph_add_output(graph, "y", build_gelu_tanh(graph, x), NULL);
    struct str text = {0};
    assert_false(stablehlo_print(graph, "step", &text, &err));
    assert_non_null(strstr(err.message, "mlp.gelu_tanh"));
    assert_non_null(strstr(err.message, "not a primitive"));
    str_deinit(&text);
    graph_destroy(graph);
}

/* The ops of generation have no rule of their own here: their definitions are printed. */
static void generation_is_printed_by_definition(void **state)
{
    (void)state;
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *cache =
        build_input(graph, "cache", type_make(DTYPE_F32, 4, (int64_t[]){2, 7, 1, 4}));
    struct value *rows =
        build_input(graph, "rows", type_make(DTYPE_F32, 4, (int64_t[]){2, 3, 1, 4}));
    struct value *slots =
        build_input(graph, "slots", type_make(DTYPE_I32, 2, (int64_t[]){2, 3}));
    struct value *keys =
        build_input(graph, "keys", type_make(DTYPE_I32, 2, (int64_t[]){2, 7}));
    struct value *written = build_write_rows(graph, cache, rows, slots);
    graph_add_output(
        graph, "y",
        build_attention_cached(graph, rows, written, written, slots, keys, 0.5, 3),
        NULL);
    graph_add_output(graph, "cache", written, cache);
    struct graph *lowered = rewrite_lower(graph, NULL, false);
    struct str text = {0};
    struct error err;
    if (!stablehlo_print(lowered, "generation", &text, &err)) {
        fail_msg("%s", err.message);
    }
    assert_non_null(strstr(text.text, "stablehlo.scatter"));
    assert_non_null(strstr(text.text, "stablehlo.dot_general"));
    assert_non_null(strstr(text.text, "tf.aliasing_output = 1 : i32"));
    str_deinit(&text);
    graph_destroy(lowered);
    graph_destroy(graph);
}

static void donated_arguments_name_their_output(void **state)
{
    (void)state;
    struct error err;
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *x = build_input(graph, "x", type_make(DTYPE_F32, 1, (int64_t[]){4}));
    graph_add_output(graph, "a", build_tanh(graph, x), NULL);
    graph_add_output(graph, "b", build_exp(graph, x), x);
    struct str text = {0};
    assert_true(stablehlo_print(graph, "step", &text, &err));
    assert_non_null(
        strstr(str_text(&text), "%arg0: tensor<4xf32> {tf.aliasing_output = 1 : i32}"));
    str_deinit(&text);
    graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_primitive_is_in_the_graph),
        cmocka_unit_test(text_is_as_recorded),
        cmocka_unit_test(composites_are_refused_by_name),
        cmocka_unit_test(generation_is_printed_by_definition),
        cmocka_unit_test(donated_arguments_name_their_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
