/*
 * k_embed - rows of a table by token id, scaled: a copy. Ids out of range give zeros.
 */
#include <string.h>

#include "backend/cpu/k_grid.h"
#include "backend/cpu/k_wide.h"
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

/* A row of bf16 before and after. */
static size_t thread_bytes(const struct node *node)
{
    return wide_room_bytes(node, 2, node->inputs[0]->type.shape.dim[1]);
}

/* table [V, D], ids i32 [n] -> y [n, D] */
static void run(const struct kernel_call *call, int local_rank, int phase, int64_t task,
                void *thread_scratch)
{
    (void)phase;
    const struct node *node = call->node;
    const int64_t V = node->inputs[0]->type.shape.dim[0];
    const int64_t D = node->inputs[0]->type.shape.dim[1];
    const int64_t n = type_elements(&node->inputs[1]->type);
    const struct grid_span rows = grid_span(task, grid_rows_per_task(D), n);

    const struct wide table = wide_input(call, local_rank, 0);
    const struct wide y = wide_output(call, local_rank, 0);
    const int32_t *ids = call->ranks[local_rank].inputs[1];
    float *room = thread_scratch;
    for (int64_t i = rows.begin; i < rows.end; i++) {
        const int64_t id = ids[i];
        float *target = wide_target(&y, i * D, room + D);
        if (id < 0 || id >= V) {
            memset(target, 0, (size_t)D * sizeof(float));
        } else {
            call->native->row_copy_scaled((float)node->attributes.value,
                                          wide_read(&table, id * D, D, room), D,
                                          target);
        }
        wide_store(&y, i * D, D, target);
    }
}

/* With parts of the vocabulary on each rank, ids have to be shifted: the definition
 * does. */
static bool supports(const struct node *node)
{
    return wide_takes(node) && !kernel_is_split_by_rows(node->inputs[0]);
}

const struct kernel kernel_embed = {
    .supports = supports,
    .thread_bytes = thread_bytes,
    .n_tasks = n_tasks,
    .run = run,
};
