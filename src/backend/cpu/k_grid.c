/*
 * k_grid - cutting work into tasks whose number depends on shapes only.
 */
#include "backend/cpu/k_grid.h"

#include "backend/cpu/kernel.h"

/* Tasks past the end get an empty span, so grids may be larger than the work at hand
 * (the loss head has fewer rows than its shapes say). */
struct grid_span grid_span(int64_t task, int64_t per_task, int64_t n_items)
{
    const int64_t begin = base_min(task * per_task, n_items);
    return (struct grid_span){begin, base_min(begin + per_task, n_items)};
}

/* KERNEL_CHUNK elements take some microseconds: more than sharing a task out costs.
 * Rows longer than that are a task each. */
int64_t grid_rows_per_task(int64_t row_elements)
{
    return base_max(1, KERNEL_CHUNK / base_max(1, row_elements));
}

int64_t grid_row_tasks(int64_t n_rows, int64_t row_elements)
{
    return base_div_up(n_rows, grid_rows_per_task(row_elements));
}

/* Row-major: a row is what lies together in memory. */
int64_t grid_row_length(const struct type *type)
{
    return type->shape.rank == 0 ? 1 : type->shape.dim[type->shape.rank - 1];
}

/* The product of all dimensions but the last; 1 for scalars and vectors. */
int64_t grid_n_rows(const struct type *type)
{
    int64_t n = 1;
    for (int i = 0; i < type->shape.rank - 1; i++) {
        n *= type->shape.dim[i];
    }
    return n;
}

/* The result and not an operand, as that may be a scalar. */
int64_t grid_element_tasks(const struct node *node, int phase, size_t loss_head_bytes)
{
    (void)phase;
    (void)loss_head_bytes;
    return base_div_up(type_elements(&node->outputs[0]->type), KERNEL_CHUNK);
}

int grid_two_phases(const struct node *node, size_t loss_head_bytes)
{
    (void)node;
    (void)loss_head_bytes;
    return 2;
}
