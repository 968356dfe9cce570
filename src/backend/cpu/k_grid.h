/*
 * k_grid - cutting work into tasks whose number depends on shapes only.
 */
#ifndef BACKEND_CPU_K_GRID_H
#define BACKEND_CPU_K_GRID_H

#include "graph/graph.h"

struct grid_span {
    int64_t begin, end; /* items begin .. end - 1 */
};

/* Items that `task` of a grid with `per_task` items each has; the last has fewer. */
struct grid_span grid_span(int64_t task, int64_t per_task, int64_t n_items);

/* How many rows of `row_elements` make a task of about KERNEL_CHUNK elements; not 0. */
int64_t grid_rows_per_task(int64_t row_elements);

/* The same for `n_rows` rows: the number of tasks. */
int64_t grid_row_tasks(int64_t n_rows, int64_t row_elements);

/* Length of the last dimension (1 for a scalar), and the number of rows of that
 * length. */
int64_t grid_row_length(const struct type *type);
int64_t grid_n_rows(const struct type *type);

/* n_tasks of elementwise kernels: KERNEL_CHUNK elements of result 0 each. */
int64_t grid_element_tasks(const struct node *node, int phase, size_t loss_head_bytes);

/* n_phases of kernels that always have two. */
int grid_two_phases(const struct node *node, size_t loss_head_bytes);

#endif
