/*
 * k_norm - RMS norm over the last dimension, forward and backward, of f32 or bf16.
 *
 * A task is a block of rows. The gradient of the weight is a sum over all rows (tokens,
 * and heads where a row is a head): every block adds up its own in scratch, and a
 * second phase adds the blocks in order.
 */
#include <string.h>

#include "backend/cpu/k_grid.h"
#include "backend/cpu/k_wide.h"
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

/* Rows of room for bf16: weight, x, y, and in the gradient dy. */
enum { ROOM_ROWS = 4 };

static size_t thread_bytes(const struct node *node)
{
    return wide_room_bytes(node, ROOM_ROWS, grid_row_length(&node->inputs[0]->type));
}

/* Operands: x [rows, n], weight [n] or none. y = x r g with r = (mean(x^2) +
 * eps)^(-1/2); g = weight, or 1 + weight with adds_one, or 1. */
static void run_forward(const struct kernel_call *call, int local_rank, int phase,
                        int64_t task, void *thread_scratch)
{
    (void)phase;
    const struct node *node = call->node;
    const struct type *type = &node->inputs[0]->type;
    const int64_t n = grid_row_length(type);
    const struct grid_span rows =
        grid_span(task, grid_rows_per_task(n), grid_n_rows(type));

    float *room = thread_scratch;
    const struct wide x = wide_input(call, local_rank, 0);
    const struct wide y = wide_output(call, local_rank, 0);
    const float *weight = NULL;
    if (node->n_inputs > 1) {
        const struct wide given = wide_input(call, local_rank, 1);
        weight = wide_read(&given, 0, n, room);
    }
    const float eps = (float)node->attributes.eps;
    for (int64_t i = rows.begin; i < rows.end; i++) {
        float *target = wide_target(&y, i * n, room + 2 * n);
        call->native->rms_norm_row(wide_read(&x, i * n, n, room + n), weight,
                                   node->attributes.adds_one, eps, n, target);
        wide_store(&y, i * n, n, target);
    }
}

/* ---- gradient: x [rows, n], weight [n] or none, dy -> dx, dweight [n] ---- */

/* x, weight, dy */
static bool has_weight(const struct node *node)
{
    return node->n_inputs == 3;
}

/* The gradient of a weight that is not frozen is the second result. */
static bool gives_dweight(const struct node *node)
{
    return node->n_outputs > 1;
}

/* One row of sums per block. */
static size_t grad_scratch_bytes(const struct node *node, size_t bytes)
{
    (void)bytes;
    const int64_t n = grid_row_length(&node->inputs[0]->type);
    return gives_dweight(node) ? (size_t)(n_blocks(node) * n) * sizeof(float) : 0;
}

/* Without dweight there is nothing to sum over rows. */
static int grad_n_phases(const struct node *node, size_t bytes)
{
    (void)bytes;
    return gives_dweight(node) ? 2 : 1;
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
static void grad_rows(const struct kernel_call *call, int local_rank, int64_t task,
                      float *room)
{
    const struct node *node = call->node;
    const struct type *type = &node->inputs[0]->type;
    const int64_t n = grid_row_length(type);
    const struct grid_span rows =
        grid_span(task, grid_rows_per_task(n), grid_n_rows(type));

    const struct wide x = wide_input(call, local_rank, 0);
    const struct wide dy = wide_input(call, local_rank, node->n_inputs - 1);
    const struct wide dx = wide_output(call, local_rank, 0);
    const float *weight = NULL;
    float *dweight = NULL;
    if (has_weight(node)) {
        const struct wide given = wide_input(call, local_rank, 1);
        weight = wide_read(&given, 0, n, room);
    }
    if (gives_dweight(node)) {
        dweight = (float *)call->ranks[local_rank].scratch + task * n;
        memset(dweight, 0, (size_t)n * sizeof(float));
    }
    for (int64_t i = rows.begin; i < rows.end; i++) {
        float *target = wide_target(&dx, i * n, room + 2 * n);
        call->native->rms_norm_grad_row(
            wide_read(&x, i * n, n, room + n), weight, node->attributes.adds_one,
            (float)node->attributes.eps, n, wide_read(&dy, i * n, n, room + 3 * n),
            target, dweight);
        wide_store(&dx, i * n, n, target);
    }
}

/* Phase 1: some columns of dweight, over all blocks in order. dweight[i] = sum over
 * blocks of scratch[block][i], rounded at the end. */
static void grad_weight(const struct kernel_call *call, int local_rank, int64_t task)
{
    const int64_t n = grid_row_length(&call->node->inputs[0]->type);
    const struct grid_span columns = grid_span(task, COLUMNS_PER_TASK, n);
    const int64_t length = columns.end - columns.begin;
    const float *parts = (const float *)call->ranks[local_rank].scratch + columns.begin;
    const struct wide dweight = wide_output(call, local_rank, 1);
    float room[COLUMNS_PER_TASK];
    float *sums = wide_target(&dweight, columns.begin, room);

    memset(sums, 0, (size_t)length * sizeof(float));
    for (int64_t block = 0; block < n_blocks(call->node); block++) {
        call->native->row_axpy(1.0F, parts + block * n, length, sums);
    }
    wide_store(&dweight, columns.begin, length, sums);
}

static void run_grad(const struct kernel_call *call, int local_rank, int phase,
                     int64_t task, void *thread_scratch)
{
    if (phase == 0) {
        grad_rows(call, local_rank, task, thread_scratch);
    } else {
        grad_weight(call, local_rank, task);
    }
}

const struct kernel kernel_rms_norm = {
    .supports = wide_takes,
    .thread_bytes = thread_bytes,
    .n_tasks = n_tasks_forward,
    .run = run_forward,
};

const struct kernel kernel_rms_norm_grad = {
    .supports = wide_takes,
    .scratch_bytes = grad_scratch_bytes,
    .thread_bytes = thread_bytes,
    .n_phases = grad_n_phases,
    .n_tasks = grad_n_tasks,
    .run = run_grad,
};
