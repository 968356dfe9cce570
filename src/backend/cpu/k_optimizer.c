/*
 * k_optimizer - accumulate, sum of squares, AdamW: one pass over memory each.
 */
#include <string.h>

#include "backend/cpu/k_grid.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/native.h"

/* A task passes over 64 Ki elements: long enough for the memory to stream. */
enum { STREAM_CHUNK = 4 * KERNEL_CHUNK };

/* Flat: shapes do not matter here. */
static int64_t n_stream_tasks(const struct node *node)
{
    return base_div_up(type_elements(&node->inputs[0]->type), STREAM_CHUNK);
}

/* Elements of one task. */
static struct grid_span stream_span(const struct node *node, int64_t task)
{
    return grid_span(task, STREAM_CHUNK, type_elements(&node->inputs[0]->type));
}

/* The same as an n_tasks of a kernel. */
static int64_t n_tasks_of_stream(const struct node *node, int phase, size_t bytes)
{
    (void)phase;
    (void)bytes;
    return n_stream_tasks(node);
}

/* ---- accumulate: acc, keep, g -> acc = g + (keep ? acc : 0) ---- */

/* The first micro-batch overwrites, so nobody has to clear the accumulator. acc is the
 * memory of operand 0. The first gradient is copied, not added to zeros. */
static void run_accumulate(const struct kernel_call *call, int local_rank, int phase,
                           int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct kernel_rank *rank = &call->ranks[local_rank];
    const struct grid_span span = stream_span(call->node, task);
    const int64_t n = span.end - span.begin;
    const bool keeps = *(const bool *)rank->inputs[1];
    const float *g = (const float *)rank->inputs[2] + span.begin;
    float *acc = (float *)rank->outputs[0] + span.begin;

    if (keeps) {
        call->native->row_axpy(1.0F, g, n, acc);
    } else {
        memmove(acc, g, (size_t)n * sizeof(float));
    }
}

/* ---- sum of squares: x -> f64 scalar; the blocks' sums are added in order ---- */

/* f64 [tasks]: one sum each. */
static size_t squares_scratch_bytes(const struct node *node, size_t bytes)
{
    (void)bytes;
    return (size_t)n_stream_tasks(node) * sizeof(double);
}

/* Sums of blocks, then their sum, which is one task. */
static int64_t squares_n_tasks(const struct node *node, int phase, size_t bytes)
{
    (void)bytes;
    return phase == 0 ? n_stream_tasks(node) : 1;
}

/* In f64 from the first square on: the norm decides on clipping at every layout alike.
 * The second phase is one task that adds in order. */
static void run_squares(const struct kernel_call *call, int local_rank, int phase,
                        int64_t task, void *thread_scratch)
{
    (void)thread_scratch;
    const struct kernel_rank *rank = &call->ranks[local_rank];
    double *sums = rank->scratch;
    if (phase == 0) {
        const struct grid_span span = stream_span(call->node, task);
        const float *x = (const float *)rank->inputs[0] + span.begin;
        sums[task] = call->native->sum_squares(x, span.end - span.begin);
        return;
    }
    double total = 0;
    for (int64_t i = 0; i < n_stream_tasks(call->node); i++) {
        total += sums[i];
    }
    *(double *)rank->outputs[0] = total;
}

/* ---- adamw: p, g, m, v, hyper, scale, apply -> p, m, v in place ---- */

/* p, m and v are read and written once, g is read once: the bound is memory. Results
 * lie in the memory of p, m and v. `apply` is false where loss or norm are not finite:
 * then all three stay as they are. */
static void run_adamw(const struct kernel_call *call, int local_rank, int phase,
                      int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct kernel_rank *rank = &call->ranks[local_rank];
    const bool applies = *(const bool *)rank->inputs[6];
    if (!applies) {
        return;
    }
    const struct grid_span span = stream_span(call->node, task);
    call->native->adamw((float *)rank->outputs[0] + span.begin,
                        (const float *)rank->inputs[1] + span.begin,
                        (float *)rank->outputs[1] + span.begin,
                        (float *)rank->outputs[2] + span.begin, rank->inputs[4],
                        *(const float *)rank->inputs[5], span.end - span.begin);
}

const struct kernel kernel_accumulate = {.n_tasks = n_tasks_of_stream,
                                         .run = run_accumulate};

const struct kernel kernel_sum_squares = {
    .scratch_bytes = squares_scratch_bytes,
    .n_phases = grid_two_phases,
    .n_tasks = squares_n_tasks,
    .run = run_squares,
};

const struct kernel kernel_adamw = {.n_tasks = n_tasks_of_stream, .run = run_adamw};
