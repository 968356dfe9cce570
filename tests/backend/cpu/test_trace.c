/*
 * The trace: a slice for each node and run, within that of its program, and one for each
 * thread that shared it; valid JSON, bounded, nothing of programs that have gone.
 */
#include "backend/cpu/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "graph/build.h"
#include "support/engine_run.h"

enum { N_LAYERS = 3, N_RUNS = 4, SIDE = 300 };

static char folder[] = "/tmp/lathe-trace-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    struct error err;
    return !file_remove_tree(folder, &err);
}

/* y = tanh(x x^T) and so on, each layer under a scope; one name needs escapes. */
static struct graph *build_layers(void)
{
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *x =
        build_input(graph, "x", type_make(DTYPE_F32, 2, (int64_t[]){SIDE, SIDE}));
    struct value *y = x;
    for (int layer = 0; layer < N_LAYERS; layer++) {
        char scope[32];
        snprintf(scope, sizeof(scope), "layers.%d\"\\", layer);
        const char *outer = graph_push_scope(graph, scope);
        y = build_tanh(graph, build_linear(graph, y, x));
        graph_pop_scope(graph, outer);
    }
    graph_add_output(graph, "result", y, NULL);
    return graph;
}

static json_t *write_and_read(const struct engine *engine)
{
    struct error err;
    char path[100];
    snprintf(path, sizeof(path), "%s/trace.json", folder);
    if (!backend_trace_write(engine, path, &err)) {
        fail_msg("%s", err.message);
    }
    json_t *root = json_read_file(path, 100 << 20, &err);
    if (root == NULL) {
        fail_msg("%s", err.message);
    }
    return root;
}

static double number(const json_t *event, const char *key)
{
    const json_t *value = json_object_get(event, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static bool is_of(const json_t *event, const char *op)
{
    const char *category = json_string_value(json_object_get(event, "cat"));
    return category != NULL && strcmp(category, op) == 0;
}

/* Events of an op on a track (-1: on those of threads). */
static int count(const json_t *root, const char *op, int track)
{
    const json_t *events = json_object_get(root, "traceEvents");
    int n = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        const int tid = (int)number(event, "tid");
        n += is_of(event, op) && (tid == track || (track < 0 && tid > 0));
    }
    return n;
}

static struct engine_run *run_layers(int n_threads)
{
    const struct backend_options options = {.n_threads = n_threads, .traces = true};
    struct engine_run *run = engine_run_create(build_layers(), &options);
    for (int i = 0; i < N_RUNS; i++) {
        engine_run_execute(run);
    }
    return run;
}

static void a_slice_for_each_node_and_run(void **state)
{
    (void)state;
    struct engine_run *run = run_layers(1);
    json_t *root = write_and_read(engine_run_engine(run));
    assert_int_equal(count(root, "matmul", 0), N_LAYERS * N_RUNS);
    assert_int_equal(count(root, "tanh", 0), N_LAYERS * N_RUNS);
    assert_int_equal(count(root, "program", 0), N_RUNS);
    assert_int_equal(count(root, "matmul", -1), 0); /* there is one thread */
    const json_t *other = json_object_get(root, "otherData");
    assert_int_equal((int)number(other, "left_out"), 0);
    assert_non_null(strstr(json_string_value(json_object_get(other, "engine")), "cpu"));

    /* Nodes lie within the run that they say, and runs do not overlap. */
    const json_t *events = json_object_get(root, "traceEvents");
    double starts[N_RUNS], ends[N_RUNS];
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        if (is_of(event, "program")) {
            const int number_of_run =
                (int)number(json_object_get(event, "args"), "run");
            starts[number_of_run] = number(event, "ts");
            ends[number_of_run] = starts[number_of_run] + number(event, "dur");
            assert_string_equal(json_string_value(json_object_get(event, "name")),
                                "result");
        }
    }
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        if (is_of(event, "tanh")) {
            const int r = (int)number(json_object_get(event, "args"), "run");
            assert_true(number(event, "ts") >= starts[r] - 0.01);
            assert_true(number(event, "ts") + number(event, "dur") <= ends[r] + 0.01);
            assert_memory_equal(json_string_value(json_object_get(event, "name")),
                                "layers.", 7);
        }
    }
    for (int r = 1; r < N_RUNS; r++) {
        assert_true(starts[r] >= ends[r - 1] - 0.01);
    }
    json_decref(root);

    backend_profile_reset(engine_run_engine(run));
    root = write_and_read(engine_run_engine(run));
    assert_int_equal(count(root, "program", 0), 0);
    json_decref(root);
    engine_run_destroy(run);
}

/* Which threads get a task is chance; none is busy for longer than the node ran. */
static void threads_have_tracks(void **state)
{
    (void)state;
    struct engine_run *run = run_layers(3);
    json_t *root = write_and_read(engine_run_engine(run));
    const json_t *events = json_object_get(root, "traceEvents");
    int n_tracks = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        const char *kind = json_string_value(json_object_get(event, "ph"));
        n_tracks += strcmp(kind, "M") == 0;
        if (strcmp(kind, "X") == 0 && number(event, "tid") > 0.0) {
            const double busy = number(json_object_get(event, "args"), "busy_us");
            assert_true(busy >= 0.0 && busy <= number(event, "dur") + 0.01);
        }
    }
    assert_int_equal(n_tracks, 4);
    assert_true(count(root, "matmul", -1) <= 3 * N_LAYERS * N_RUNS);
    json_decref(root);
    engine_run_destroy(run);
}

/* A program of its own beside the run's: its slices go with it. */
static void programs_that_have_gone_are_forgotten(void **state)
{
    (void)state;
    struct engine_run *run = run_layers(1);
    struct engine *engine = engine_run_engine(run);
    struct error err;
    struct program *other = backend_compile(engine, build_layers(), &err);
    assert_non_null(other);
    const struct graph *graph = backend_program_graph(other);
    struct buffer *x =
        backend_buffer_create(engine, &graph->arguments[0]->type, "x", &err);
    struct buffer *y =
        backend_buffer_create(engine, &graph->outputs[0].value->type, "y", &err);
    assert_true(backend_execute(other, &x, &y, &err));
    json_t *root = write_and_read(engine);
    assert_int_equal(count(root, "program", 0), N_RUNS + 1);
    json_decref(root);
    backend_program_destroy(other);
    root = write_and_read(engine);
    assert_int_equal(count(root, "program", 0), N_RUNS);
    assert_int_equal(count(root, "tanh", 0), N_LAYERS * N_RUNS);
    json_decref(root);
    backend_buffer_destroy(x);
    backend_buffer_destroy(y);
    engine_run_destroy(run);
}

/* Far more slices than are kept: they are counted, and the file stays small. */
static void the_trace_is_bounded(void **state)
{
    (void)state;
    struct engine_run *run = run_layers(1);
    struct trace *trace = trace_create(1);
    const struct cpu_program *program =
        (const struct cpu_program *)engine_run_program(run);
    const struct node *node =
        backend_program_graph(engine_run_program(run))->arguments[0]->node;
    for (int i = 0; i < 200000; i++) {
        trace_note_step(trace, program, node, 0);
    }
    struct error err;
    char path[100];
    snprintf(path, sizeof(path), "%s/large.json", folder);
    assert_true(trace_write(trace, "engine", path, &err));
    size_t length;
    char *text = file_read(path, 100 << 20, &length, &err);
    assert_non_null(text);
    int n_lines = 0;
    for (const char *c = text; *c != '\0'; c++) {
        n_lines += *c == '\n';
    }
    const int kept = n_lines - 5; /* two of the head, two tracks, the end */
    assert_in_range(kept, 100000, 150000);
    char left_out[40];
    snprintf(left_out, sizeof(left_out), "\"left_out\": %d}", 200000 - kept);
    assert_non_null(strstr(text, left_out));
    mem_free(text);
    trace_destroy(trace);
    engine_run_destroy(run);
}

static void a_path_that_cannot_be_written(void **state)
{
    (void)state;
    struct engine_run *run = run_layers(1);
    struct error err;
    assert_false(
        backend_trace_write(engine_run_engine(run), "/proc/none/trace.json", &err));
    assert_non_null(strstr(err.message, "/proc/none/trace.json"));
    engine_run_destroy(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slice_for_each_node_and_run),
        cmocka_unit_test(threads_have_tracks),
        cmocka_unit_test(programs_that_have_gone_are_forgotten),
        cmocka_unit_test(the_trace_is_bounded),
        cmocka_unit_test(a_path_that_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
