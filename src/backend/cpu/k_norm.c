/*
 * k_norm - RMS norm over the last dimension, forward and backward.
 *
 * A task is a block of rows. The gradient of the weight is a sum over all rows (tokens,
 * and heads where a row is a head): every block adds up its own in scratch, and a
 * second phase adds the blocks in order.
 */
#include <string.h>

#include "backend/cpu/k_grid.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/native.h"

/* Blocks of rows: tasks of the forward run and of the gradient's first phase. */
static int64_t n_blocks(const struct node *node)
{
    const struct type *x = &node->inputs[0]->type;
    return grid_row_tasks(grid_n_rows(x), grid_row_length(x));
}

/* One phase. */
static int64_t n_tasks_forward(const struct node *node, int phase, size_t bytes)
{
    (void)phase;
    (void)bytes;
    return n_blocks(node);
}

/* Operands: x [rows, n], weight [n] or none. y = x r g with r = (mean(x^2) +
 * eps)^(-1/2); g = weight, or 1 + weight with adds_one, or 1. */
static void run_forward(const struct kernel_call *call, int local_rank, int phase,
                        int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct node *node = call->node;
    const struct kernel_rank *rank = &call->ranks[local_rank];
    const struct type *type = &node->inputs[0]->type;
    const int64_t n = grid_row_length(type);
    const struct grid_span rows =
        grid_span(task, grid_rows_per_task(n), grid_n_rows(type));

    const float *x = rank->inputs[0];
    const float *weight = node->n_inputs > 1 ? rank->inputs[1] : NULL;
    float *y = rank->outputs[0];
    const float eps = (float)node->attributes.eps;
    for (int64_t i = rows.begin; i < rows.end; i++) {
        call->native->rms_norm_row(x + i * n, weight, node->attributes.adds_one, eps, n,
                                   y + i * n);
    }
}

/* ---- gradient: x [rows, n], weight [n] or none, dy -> dx, dweight [n] ---- */

/* Its gradient is the second result. */
static bool has_weight(const struct node *node)
{
    return node->n_outputs > 1;
}

/* One row of sums per block. */
static size_t grad_scratch_bytes(const struct node *node, size_t bytes)
{
    (void)bytes;
    const int64_t n = grid_row_length(&node->inputs[0]->type);
    return has_weight(node) ? (size_t)(n_blocks(node) * n) * sizeof(float) : 0;
}

/* Without a weight there is nothing to sum over rows. */
static int grad_n_phases(const struct node *node, size_t bytes)
{
    (void)bytes;
    return has_weight(node) ? 2 : 1;
}

/* The second phase's tasks: columns. */
enum { COLUMNS_PER_TASK = 1024 };

/* The first grid is that of the forward run. */
static int64_t grad_n_tasks(const struct node *node, int phase, size_t bytes)
{
    (void)bytes;
    const int64_t n = grid_row_length(&node->inputs[0]->type);
    return phase == 0 ? n_blocks(node) : base_div_up(n, COLUMNS_PER_TASK);
}

/* Phase 0: dx of a block, and its part of dweight into scratch. dx = r (g dy) - x r^3 /
 * n sum(g dy x), row by row. Each task writes its own row of scratch [n_blocks, n]. */
static void grad_rows(const struct kernel_call *call, const struct kernel_rank *rank,
                      int64_t task)
{
    const struct node *node = call->node;
    const struct type *type = &node->inputs[0]->type;
    const int64_t n = grid_row_length(type);
    const struct grid_span rows =
        grid_span(task, grid_rows_per_task(n), grid_n_rows(type));

    const float *x = rank->inputs[0];
    const float *weight = has_weight(node) ? rank->inputs[1] : NULL;
    const float *dy = rank->inputs[node->n_inputs - 1];
    float *dx = rank->outputs[0];
    float *dweight = has_weight(node) ? (float *)rank->scratch + task * n : NULL;
    if (dweight != NULL) {
        memset(dweight, 0, (size_t)n * sizeof(float));
    }
    for (int64_t i = rows.begin; i < rows.end; i++) {
        call->native->rms_norm_grad_row(x + i * n, weight, node->attributes.adds_one,
                                        (float)node->attributes.eps, n, dy + i * n,
                                        dx + i * n, dweight);
    }
}

/* Phase 1: some columns of dweight, over all blocks in order. dweight[i] = sum over
 * blocks of scratch[block][i]. */
static void grad_weight(const struct kernel_call *call, const struct kernel_rank *rank,
                        int64_t task)
{
    const int64_t n = grid_row_length(&call->node->inputs[0]->type);
    const struct grid_span columns = grid_span(task, COLUMNS_PER_TASK, n);
    const int64_t length = columns.end - columns.begin;
    const float *parts = (const float *)rank->scratch + columns.begin;
    float *dweight = (float *)rank->outputs[1] + columns.begin;

    memset(dweight, 0, (size_t)length * sizeof(float));
    for (int64_t block = 0; block < n_blocks(call->node); block++) {
        call->native->row_axpy(1.0F, parts + block * n, length, dweight);
    }
}

static void run_grad(const struct kernel_call *call, int local_rank, int phase,
                     int64_t task, void *thread_scratch)
{
    (void)thread_scratch;
    const struct kernel_rank *rank = &call->ranks[local_rank];
    if (phase == 0) {
        grad_rows(call, rank, task);
    } else {
        grad_weight(call, rank, task);
    }
}

const struct kernel kernel_rms_norm = {.n_tasks = n_tasks_forward, .run = run_forward};

const struct kernel kernel_rms_norm_grad = {
    .scratch_bytes = grad_scratch_bytes,
    .n_phases = grad_n_phases,
    .n_tasks = grad_n_tasks,
    .run = run_grad,
};
