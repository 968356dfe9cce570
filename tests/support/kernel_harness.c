/*
 * kernel_harness - runs one kernel without graph, plan or engine.
 */
#include "support/kernel_harness.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/gemm.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/random.h"

enum { MAX_OPERANDS = 9 };

struct harness {
    const struct kernel *kernel;
    struct node node;
    struct mesh mesh;
    size_t loss_head_bytes;
    struct value in[MAX_OPERANDS], out[MAX_OPERANDS];
    struct value *in_of[MAX_OPERANDS], *out_of[MAX_OPERANDS];
    void *inputs[MAX_OPERANDS], *outputs[MAX_OPERANDS];
    int alias[MAX_OPERANDS]; /* of results; -1 = own memory */
    void *scratch, *thread_scratch;
    size_t scratch_bytes, thread_bytes;
    const struct gemm *gemm;
};

struct harness *harness_create(const struct kernel *kernel)
{
    struct harness *harness = mem_alloc(sizeof *harness);
    harness->kernel = kernel;
    harness->mesh = mesh_single();
    harness->node.inputs = harness->in_of;
    harness->node.outputs = harness->out_of;
    harness->node.name = "test";
    struct error err = {0};
    harness->gemm = gemm_find(NULL, &err);
    assert_non_null(harness->gemm);
    return harness;
}

void harness_destroy(struct harness *harness)
{
    for (int i = 0; i < harness->node.n_inputs; i++) {
        free(harness->inputs[i]);
    }
    for (int i = 0; i < harness->node.n_outputs; i++) {
        if (harness->alias[i] < 0) {
            free(harness->outputs[i]);
        }
    }
    mem_free(harness);
}

struct attributes *harness_attributes(struct harness *harness)
{
    return &harness->node.attributes;
}

void harness_set_loss_head_bytes(struct harness *harness, size_t bytes)
{
    harness->loss_head_bytes = bytes;
}

/* All ones are NaN in f32 and f64. */
static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes > 0 ? bytes : 1);
    assert_non_null(memory);
    memset(memory, 0xFF, bytes);
    return memory;
}

void *harness_input(struct harness *harness, enum dtype dtype, int rank,
                    const int64_t *dim)
{
    const int i = harness->node.n_inputs++;
    assert_true(i < MAX_OPERANDS);
    harness->in[i].type = type_make(dtype, rank, dim);
    harness->in_of[i] = &harness->in[i];
    harness->inputs[i] = allocate(type_bytes(&harness->in[i].type));
    return harness->inputs[i];
}

static int add_output(struct harness *harness, struct type type, void *memory,
                      int alias)
{
    const int i = harness->node.n_outputs++;
    assert_true(i < MAX_OPERANDS);
    harness->out[i].type = type;
    harness->out_of[i] = &harness->out[i];
    harness->outputs[i] = memory;
    harness->alias[i] = alias;
    return i;
}

void *harness_output(struct harness *harness, enum dtype dtype, int rank,
                     const int64_t *dim)
{
    const struct type type = type_make(dtype, rank, dim);
    const int i = add_output(harness, type, allocate(type_bytes(&type)), -1);
    return harness->outputs[i];
}

void *harness_alias(struct harness *harness, int input)
{
    add_output(harness, harness->in[input].type, harness->inputs[input], input);
    return harness->inputs[input];
}

/* ---- running ---- */

static void run_phases(struct harness *harness, const struct native *native,
                       bool in_order)
{
    const struct kernel *kernel = harness->kernel;
    const struct node *node = &harness->node;
    const struct kernel_rank rank = {
        .inputs = harness->inputs,
        .outputs = harness->outputs,
        .scratch = harness->scratch,
    };
    const struct kernel_call call = {
        .node = node,
        .mesh = &harness->mesh,
        .n_ranks = 1,
        .ranks = &rank,
        .gemm = harness->gemm,
        .native = native,
        .loss_head_bytes = harness->loss_head_bytes,
    };
    const size_t bytes = harness->loss_head_bytes;
    const int n_phases = kernel->n_phases == NULL ? 1 : kernel->n_phases(node, bytes);
    for (int phase = 0; phase < n_phases; phase++) {
        const int64_t n =
            kernel->n_tasks == NULL ? 1 : kernel->n_tasks(node, phase, bytes);
        int32_t *order = mem_alloc_array((size_t)n, sizeof *order);
        random_permutation(7, RANDOM_TEST, (uint64_t)phase, n, order);
        for (int64_t i = 0; i < n; i++) {
            memset(harness->thread_scratch, 0xFF, harness->thread_bytes);
            kernel->run(&call, 0, phase, in_order ? i : order[i],
                        harness->thread_scratch);
        }
        mem_free(order);
    }
}

static void take_scratch(struct harness *harness)
{
    const struct kernel *kernel = harness->kernel;
    const struct node *node = &harness->node;
    harness->scratch_bytes =
        kernel->scratch_bytes == NULL
            ? 0
            : kernel->scratch_bytes(node, harness->loss_head_bytes);
    harness->thread_bytes =
        kernel->thread_bytes == NULL ? 0 : kernel->thread_bytes(node);
    harness->scratch = allocate(harness->scratch_bytes);
    harness->thread_scratch = allocate(harness->thread_bytes);
}

static void drop_scratch(struct harness *harness)
{
    free(harness->scratch);
    free(harness->thread_scratch);
}

void harness_run_once(struct harness *harness, const struct native *native)
{
    take_scratch(harness);
    run_phases(harness, native, true);
    drop_scratch(harness);
}

static size_t output_bytes(const struct harness *harness, int i)
{
    return type_bytes(&harness->out[i].type);
}

void harness_run(struct harness *harness, const struct native *native)
{
    void *before[MAX_OPERANDS]; /* results as they are now */
    void *first[MAX_OPERANDS];  /* results of the first run */
    const int n = harness->node.n_outputs;
    for (int i = 0; i < n; i++) {
        before[i] = allocate(output_bytes(harness, i));
        first[i] = allocate(output_bytes(harness, i));
        memcpy(before[i], harness->outputs[i], output_bytes(harness, i));
    }
    harness_run_once(harness, native);
    for (int i = 0; i < n; i++) {
        memcpy(first[i], harness->outputs[i], output_bytes(harness, i));
        memcpy(harness->outputs[i], before[i], output_bytes(harness, i));
    }
    take_scratch(harness);
    run_phases(harness, native, false);
    drop_scratch(harness);
    for (int i = 0; i < n; i++) {
        assert_memory_equal(harness->outputs[i], first[i], output_bytes(harness, i));
        free(before[i]);
        free(first[i]);
    }
}

/* ---- numbers ---- */

void harness_fill(float *x, int64_t n, uint64_t stream, double scale)
{
    for (int64_t i = 0; i < n; i++) {
        const float normal = random_normal(1, RANDOM_TEST, stream, (uint64_t)i);
        x[i] = (float)((double)normal * scale);
    }
}

double *harness_doubles(const float *x, int64_t n)
{
    double *copy = mem_alloc_array((size_t)n, sizeof *copy);
    for (int64_t i = 0; i < n; i++) {
        copy[i] = (double)x[i];
    }
    return copy;
}

double harness_error(const float *x, const double *reference, int64_t n)
{
    double largest = 0;
    double error = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) {
            return HUGE_VAL;
        }
        largest = fmax(largest, fabs(reference[i]));
        error = fmax(error, fabs((double)x[i] - reference[i]));
    }
    return largest > 0 ? error / largest : error;
}

void harness_check(const char *what, const struct native *native, const float *x,
                   const double *reference, int64_t n, double bound)
{
    const double error = harness_error(x, reference, n);
    if (!(error <= bound)) {
        fail_msg("%s, %s: error %.3g, bound %.3g", what, native->name, error, bound);
    }
}
