/*
 * The profile's tables: layers are one row, counts are right, nothing unless asked for.
 */
#include "backend/cpu/profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "graph/build.h"
#include "support/engine_run.h"

static struct engine_run *run_layers(bool profiles)
{
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *x =
        build_input(graph, "x", type_make(DTYPE_F32, 2, (int64_t[]){80, 80}));
    struct value *y = x;
    for (int layer = 0; layer < 12; layer++) {
        char scope[32];
        snprintf(scope, sizeof(scope), "layers.%d.mlp", layer);
        const char *outer = graph_push_scope(graph, scope);
        y = build_tanh(graph, build_linear(graph, y, x));
        graph_pop_scope(graph, outer);
    }
    graph_add_output(graph, "y", y, NULL);
    const struct backend_options options = {.n_threads = 1, .profiles = profiles};
    struct engine_run *run = engine_run_create(graph, &options);
    for (int i = 0; i < 5; i++) {
        engine_run_execute(run);
    }
    return run;
}

/* The runs column of the first row that starts with `label`; -1 when there is none. */
static long runs_of(const char *text, const char *label)
{
    for (const char *line = text; line != NULL;
         line = strchr(line, '\n') != NULL ? strchr(line, '\n') + 1 : NULL) {
        double time_ms;
        double share;
        long n_runs;
        if (strncmp(line, label, strlen(label)) == 0 &&
            sscanf(line + strlen(label), "%lf %lf%% %ld", &time_ms, &share, &n_runs) ==
                3) {
            return n_runs;
        }
    }
    return -1;
}

static void layers_are_one_row(void **state)
{
    (void)state;
    struct engine_run *run = run_layers(true);
    struct str text = {0};
    profile_print(engine_run_engine(run), &text);
    assert_int_equal(runs_of(str_text(&text), "matmul "), 60);
    assert_int_equal(runs_of(str_text(&text), "tanh "), 60);
    assert_int_equal(runs_of(str_text(&text), "layers.*.mlp.tanh "), 60);
    assert_null(strstr(str_text(&text), "layers.3"));

    profile_reset(engine_run_engine(run));
    engine_run_execute(run);
    str_clear(&text);
    profile_print(engine_run_engine(run), &text);
    assert_int_equal(runs_of(str_text(&text), "matmul "), 12);
    str_deinit(&text);
    engine_run_destroy(run);
}

static void ops_are_sorted_by_time(void **state)
{
    (void)state;
    struct engine_run *run = run_layers(true);
    struct backend_profile_row rows[40];
    const int n = profile_ops(engine_run_engine(run), rows, 40);
    assert_int_equal(n, 2);
    for (int i = 0; i < n; i++) {
        const bool is_matmul = strcmp(rows[i].op, "matmul") == 0;
        assert_true(is_matmul || strcmp(rows[i].op, "tanh") == 0);
        assert_int_equal(rows[i].n_runs, 60);
        /* 60 products of 80^3, two operations each. */
        assert_true(rows[i].gflop == (is_matmul ? 60 * 2 * 512e3 / 1e9 : 0.0));
        assert_true(i == 0 || rows[i].ms <= rows[i - 1].ms);
    }
    assert_int_equal(profile_ops(engine_run_engine(run), rows, 1), 1);
    engine_run_destroy(run);
}

static void nothing_unless_asked_for(void **state)
{
    (void)state;
    struct engine_run *run = run_layers(false);
    struct backend_profile_row row;
    assert_int_equal(profile_ops(engine_run_engine(run), &row, 1), 0);
    struct str text = {0};
    profile_print(engine_run_engine(run), &text);
    assert_string_equal(str_text(&text), "");
    str_deinit(&text);
    engine_run_destroy(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_one_row),
        cmocka_unit_test(ops_are_sorted_by_time),
        cmocka_unit_test(nothing_unless_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
