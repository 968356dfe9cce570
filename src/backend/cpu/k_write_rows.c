/*
 * k_write_rows - rows into their slots of a cache, in place: copies, of any dtype.
 */
#include <string.h>

#include "backend/cpu/k_grid.h"
#include "backend/cpu/kernel.h"

/* Elements of one row: what stands behind [B, T] of the rows. */
static int64_t row_elements(const struct node *node)
{
    const struct shape *rows = &node->inputs[1]->type.shape;
    int64_t n = 1;
    for (int i = 2; i < rows->rank; i++) {
        n *= rows->dim[i];
    }
    return n;
}

static int64_t n_tasks(const struct node *node, int phase, size_t loss_head_bytes)
{
    (void)phase;
    (void)loss_head_bytes;
    return grid_row_tasks(type_elements(&node->inputs[2]->type), row_elements(node));
}

/* The slots of one b differ, so no two tasks write the same place. cache [B, S, ...] is
 * the result's own memory. */
static void run(const struct kernel_call *call, int local_rank, int phase, int64_t task,
                void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct node *node = call->node;
    const struct kernel_rank *rank = &call->ranks[local_rank];
    const struct shape *cache = &node->inputs[0]->type.shape;
    const int64_t S = cache->dim[1];
    const int64_t T = node->inputs[2]->type.shape.dim[1];
    const int64_t n = row_elements(node);
    const size_t row_bytes = (size_t)n * dtype_bytes(node->inputs[0]->type.dtype);
    const struct grid_span span =
        grid_span(task, grid_rows_per_task(n), cache->dim[0] * T);
    const unsigned char *rows = rank->inputs[1];
    const int32_t *slots = rank->inputs[2];
    unsigned char *target = rank->outputs[0];
    for (int64_t i = span.begin; i < span.end; i++) {
        if (slots[i] >= 0 && slots[i] < S) {
            const int64_t at = i / T * S + slots[i];
            memcpy(target + (size_t)at * row_bytes, rows + (size_t)i * row_bytes,
                   row_bytes);
        }
    }
}

/* Bytes are bytes. */
static bool supports(const struct node *node)
{
    (void)node;
    return true;
}

const struct kernel kernel_write_rows = {
    .supports = supports, .n_tasks = n_tasks, .run = run};
