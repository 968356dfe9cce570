/*
 * k_embed - rows of a table by token id, scaled: a copy. Ids out of range give zeros.
 */
#include <string.h>

#include "backend/cpu/k_grid.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/native.h"

/* Blocks of ids. */
static int64_t n_tasks(const struct node *node, int phase, size_t bytes)
{
    (void)phase;
    (void)bytes;
    return grid_row_tasks(type_elements(&node->inputs[1]->type),
                          node->inputs[0]->type.shape.dim[1]);
}

/* table [V, D], ids i32 [n] -> y [n, D] */
static void run(const struct kernel_call *call, int local_rank, int phase, int64_t task,
                void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct node *node = call->node;
    const struct kernel_rank *rank = &call->ranks[local_rank];
    const int64_t V = node->inputs[0]->type.shape.dim[0];
    const int64_t D = node->inputs[0]->type.shape.dim[1];
    const int64_t n = type_elements(&node->inputs[1]->type);
    const struct grid_span rows = grid_span(task, grid_rows_per_task(D), n);

    const float *table = rank->inputs[0];
    const int32_t *ids = rank->inputs[1];
    float *y = rank->outputs[0];
    for (int64_t i = rows.begin; i < rows.end; i++) {
        const int64_t id = ids[i];
        if (id < 0 || id >= V) {
            memset(y + i * D, 0, (size_t)D * sizeof(float));
            continue;
        }
        call->native->row_copy_scaled((float)node->attributes.value, table + id * D, D,
                                      y + i * D);
    }
}

/* With parts of the vocabulary on each rank, ids have to be shifted: the definition
 * does. */
static bool supports(const struct node *node)
{
    return kernel_takes_f32(node) && !kernel_is_split_by_rows(node->inputs[0]);
}

const struct kernel kernel_embed = {
    .supports = supports, .n_tasks = n_tasks, .run = run};
