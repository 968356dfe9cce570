/*
 * selftest - see the header.
 */
#include "backend/selftest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/native.h"
#include "backend/selftest_cases.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/random.h"
#include "graph/build.h"
#include "graph/grad.h"
#include "graph/rewrite.h"

enum { MAX_OUTPUTS = 16, MAX_CASES = 40 };

/* What one run of a case gives: the outputs one behind the other. */
struct outcome {
    double *values; /* [starts[n]] */
    int64_t starts[MAX_OUTPUTS + 1];
    int n;
};

/* ---- graphs ---- */

static int count_inputs(const struct selftest_case *c)
{
    int n = 0;
    while (n < SELFTEST_MAX_INPUTS && c->inputs[n].kind != SELFTEST_NONE) {
        n++;
    }
    return n;
}

static enum dtype dtype_of(enum selftest_kind kind)
{
    switch (kind) {
    case SELFTEST_FLOAT:
    case SELFTEST_FIXED:
        return DTYPE_F32;
    case SELFTEST_BF16:
        return DTYPE_BF16;
    case SELFTEST_INTEGER:
    case SELFTEST_ROWS:
    case SELFTEST_FIRST_KEY:
        return DTYPE_I32;
    case SELFTEST_TRUE:
        return DTYPE_BOOL;
    case SELFTEST_WORD:
        return DTYPE_U32;
    case SELFTEST_NONE:
        break;
    }
    UNREACHABLE();
}

/* Gradients of the first outputs, with random cotangents, as further outputs. */
static void add_gradients(struct graph *graph, const struct selftest_case *c,
                          struct value *const *inputs, int n_inputs)
{
    static const char *const names[SELFTEST_MAX_INPUTS] = {"d0", "d1", "d2", "d3", "d4",
                                                           "d5", "d6", "d7", "d8"};
    struct value *output = graph->outputs[0].value;
    struct value *seed = build_input(graph, "seed", output->type);
    struct value *wrt[SELFTEST_MAX_INPUTS];
    struct value *gradients[SELFTEST_MAX_INPUTS];
    int n = 0;
    for (int i = 0; i < n_inputs; i++) {
        if (c->inputs[i].kind == SELFTEST_FLOAT) {
            wrt[n++] = inputs[i];
        }
    }
    const struct grad_options options = {0};
    grad_build(graph, 1, &output, &seed, n, wrt, &options, gradients);
    for (int i = 0; i < n; i++) {
        graph_add_output(graph, names[i], gradients[i], NULL);
    }
}

/* is_plain: by the definitions in primitives. */
static struct graph *build_case(const struct selftest_case *c, bool is_plain)
{
    static const char *const names[SELFTEST_MAX_INPUTS] = {"x0", "x1", "x2", "x3", "x4",
                                                           "x5", "x6", "x7", "x8"};
    const struct mesh mesh = mesh_single();
    struct graph *graph = graph_create(&mesh);
    struct value *inputs[SELFTEST_MAX_INPUTS];
    const int n_inputs = count_inputs(c);
    for (int i = 0; i < n_inputs; i++) {
        const struct selftest_input *input = &c->inputs[i];
        inputs[i] = build_input(
            graph, names[i], type_make(dtype_of(input->kind), input->rank, input->dim));
    }
    c->build(graph, inputs);
    if (c->has_gradient) {
        add_gradients(graph, c, inputs, n_inputs);
    }
    if (is_plain) {
        struct graph *lowered = rewrite_lower(graph, NULL, false);
        graph_destroy(graph);
        return lowered;
    }
    return graph;
}

/* ---- data ---- */

/* The elements of argument `index`; the same for every engine. Freed with mem_free. */
static void *make_data(const struct selftest_case *c, int index,
                       const struct type *type)
{
    const struct selftest_input seed = {SELFTEST_FIXED, -1.0, 1.0, 0, {0}};
    const struct selftest_input *input =
        index < count_inputs(c) ? &c->inputs[index] : &seed;
    const int64_t n = type_elements(type);
    const int64_t T = input->rank > 1 ? input->dim[1] : 1;
    const int64_t span = (int64_t)(input->high - input->low) + 1;
    void *data = mem_alloc(type_bytes(type));
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = random_bits(1, RANDOM_TEST, (uint64_t)index, (uint64_t)i);
        const double share = (double)(bits >> 8) / (double)(1 << 24);
        const float x = (float)(input->low + share * (input->high - input->low));
        switch (input->kind) {
        case SELFTEST_FLOAT:
        case SELFTEST_FIXED:
            ((float *)data)[i] = x;
            break;
        case SELFTEST_BF16:
            ((uint16_t *)data)[i] = dtype_bf16_from_f32(x);
            break;
        case SELFTEST_INTEGER:
            ((int32_t *)data)[i] = (int32_t)((int64_t)input->low + bits % span);
            break;
        case SELFTEST_ROWS:
            ((int32_t *)data)[i] = (int32_t)i;
            break;
        case SELFTEST_FIRST_KEY:
            ((int32_t *)data)[i] = (int32_t)(i % T < T / 2 ? 0 : T / 2);
            break;
        case SELFTEST_TRUE:
            ((uint8_t *)data)[i] = 1;
            break;
        case SELFTEST_WORD:
            ((uint32_t *)data)[i] = (uint32_t)input->low;
            break;
        case SELFTEST_NONE:
            UNREACHABLE();
        }
    }
    return data;
}

/* Appends the elements of a buffer to the outcome. */
static bool take_output(struct outcome *outcome, struct buffer *buffer,
                        struct error *err)
{
    const struct type *type = backend_buffer_type(buffer);
    const int64_t n = type_elements(type);
    const int64_t from = outcome->starts[outcome->n];
    void *host = mem_alloc(type_bytes(type));
    float *floats = mem_alloc_array((size_t)n, sizeof(float));
    const bool done = backend_fetch(buffer, 0, host, err);
    outcome->values = mem_grow_array(outcome->values, (size_t)from, (size_t)(from + n),
                                     sizeof(double));
    if (type->dtype != DTYPE_F64) {
        dtype_to_f32(type->dtype, host, floats, (size_t)n);
    }
    for (int64_t i = 0; i < n; i++) {
        outcome->values[from + i] =
            type->dtype == DTYPE_F64 ? ((const double *)host)[i] : (double)floats[i];
    }
    outcome->starts[++outcome->n] = from + n;
    mem_free(floats);
    mem_free(host);
    return done;
}

/* ---- running ---- */

/* Buffers of one run; an output with a donor has the donor's. */
struct run {
    struct buffer *arguments[SELFTEST_MAX_INPUTS + 1];
    struct buffer *outputs[MAX_OUTPUTS];
    bool is_owned[MAX_OUTPUTS];
};

static bool make_buffers(struct run *run, struct engine *engine,
                         const struct selftest_case *c, const struct graph *graph,
                         struct error *err)
{
    for (int i = 0; i < graph->n_arguments; i++) {
        const struct type *type = &graph->arguments[i]->type;
        run->arguments[i] = backend_buffer_create(engine, type, c->name, err);
        if (run->arguments[i] == NULL) {
            return false;
        }
        void *data = make_data(c, i, type);
        const bool done = backend_upload(run->arguments[i], 0, data, err);
        mem_free(data);
        if (!done) {
            return false;
        }
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        const struct graph_output *output = &graph->outputs[i];
        for (int j = 0; j < graph->n_arguments; j++) {
            if (output->donor == graph->arguments[j]) {
                run->outputs[i] = run->arguments[j];
            }
        }
        if (run->outputs[i] == NULL) {
            run->outputs[i] =
                backend_buffer_create(engine, &output->value->type, c->name, err);
            run->is_owned[i] = true;
        }
        if (run->outputs[i] == NULL) {
            return false;
        }
    }
    return true;
}

static void destroy_buffers(struct run *run)
{
    for (int i = 0; i < MAX_OUTPUTS; i++) {
        if (run->is_owned[i]) {
            backend_buffer_destroy(run->outputs[i]);
        }
    }
    for (int i = 0; i <= SELFTEST_MAX_INPUTS; i++) {
        backend_buffer_destroy(run->arguments[i]);
    }
}

/* The outcome's values are freed with mem_free, whatever is returned. */
static bool run_case(const struct selftest_case *c, struct engine *engine,
                     bool is_plain, struct outcome *outcome, struct error *err)
{
    struct graph *graph = build_case(c, is_plain);
    struct run run = {0};
    *outcome = (struct outcome){0};
    ASSERT(graph->n_outputs <= MAX_OUTPUTS);
    const int n_outputs = graph->n_outputs;
    struct program *program = NULL;
    bool done = make_buffers(&run, engine, c, graph, err);
    if (done) {
        program = backend_compile(engine, graph, err);
        done = program != NULL;
    } else {
        graph_destroy(graph);
    }
    done = done && backend_execute(program, run.arguments, run.outputs, err);
    for (int i = 0; i < n_outputs && done; i++) {
        done = take_output(outcome, run.outputs[i], err);
    }
    backend_program_destroy(program);
    destroy_buffers(&run);
    return done;
}

/* The largest difference of an output over its largest magnitude; infinite where a
 * number is not finite. */
static double compare(const struct outcome *ours, const struct outcome *theirs)
{
    double worst = 0.0;
    for (int k = 0; k < theirs->n; k++) {
        double largest = 0.0;
        double error = 0.0;
        for (int64_t i = theirs->starts[k]; i < theirs->starts[k + 1]; i++) {
            if (!isfinite(ours->values[i]) || !isfinite(theirs->values[i])) {
                return (double)INFINITY;
            }
            largest = fmax(largest, fabs(theirs->values[i]));
            error = fmax(error, fabs(ours->values[i] - theirs->values[i]));
        }
        worst = fmax(worst, error / fmax(largest, 1e-30));
    }
    return worst;
}

/* ---- engines ---- */

/* One thread is enough: results are the same at any number. */
static struct engine *make_engine(enum backend_isa isa, const char *gemm,
                                  struct error *err)
{
    const struct mesh mesh = mesh_single();
    const struct backend_options options = {.n_threads = 1, .isa = isa, .gemm = gemm};
    return backend_create_cpu(&mesh, 0, 1, &options, err);
}

/* Outcomes of the definitions, by case. */
struct reference {
    struct outcome outcomes[MAX_CASES];
};

/* All cases on one engine, or the products only. */
static bool test_engine(const struct reference *reference, const struct native *native,
                        const char *gemm, bool is_products, double bound_scale,
                        selftest_report_fn report, void *context, struct error *err)
{
    struct engine *engine = make_engine(native->isa, gemm, err);
    if (engine == NULL) {
        return false;
    }
    char name[40];
    snprintf(name, sizeof(name), "%s, %s", native->name, gemm);
    bool done = true;
    for (int i = 0; i < selftest_cases_count && done; i++) {
        const struct selftest_case *c = &selftest_cases[i];
        if (is_products && strncmp(c->name, "matmul", 6) != 0) {
            continue;
        }
        struct outcome outcome;
        done = run_case(c, engine, false, &outcome, err);
        if (done) {
            struct selftest_result result = {.kernel = c->name, .engine = name};
            result.error = compare(&outcome, &reference->outcomes[i]);
            result.bound = c->bound * bound_scale;
            result.is_fine = result.error <= result.bound;
            report(context, &result);
        }
        mem_free(outcome.values);
    }
    backend_destroy(engine);
    return done;
}

/* Each instruction set with the provider that runs use, then the other providers with
 * the best set. */
static bool test_engines(const struct reference *reference, double bound_scale,
                         selftest_report_fn report, void *context, struct error *err)
{
    static const char *const providers[] = {"openblas", "onednn", "plain"};
    const struct gemm *usual = gemm_find(NULL, err);
    if (usual == NULL) {
        return false;
    }
    const struct native *sets[3];
    const int n = native_list(sets);
    bool done = true;
    for (int i = 0; i < n && done; i++) {
        done = test_engine(reference, sets[i], usual->name, false, bound_scale, report,
                           context, err);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(providers) && done; i++) {
        struct error absent;
        /* Builds for the thread sanitizer have the plain one only. */
        if (strcmp(providers[i], usual->name) != 0 &&
            gemm_find(providers[i], &absent) != NULL) {
            done = test_engine(reference, sets[n - 1], providers[i], true, bound_scale,
                               report, context, err);
        }
    }
    return done;
}

bool selftest_run(double bound_scale, selftest_report_fn report, void *context,
                  struct error *err)
{
    struct reference *reference = mem_alloc(sizeof(*reference));
    ASSERT(selftest_cases_count <= MAX_CASES);
    struct engine *plain = make_engine(BACKEND_ISA_PLAIN, "plain", err);
    bool done = plain != NULL;
    for (int i = 0; i < selftest_cases_count && done; i++) {
        done = run_case(&selftest_cases[i], plain, true, &reference->outcomes[i], err);
    }
    backend_destroy(plain);
    done = done && test_engines(reference, bound_scale, report, context, err);
    for (int i = 0; i < selftest_cases_count; i++) {
        mem_free(reference->outcomes[i].values);
    }
    mem_free(reference);
    return done;
}
