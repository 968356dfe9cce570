/*
 * k_gather - kernels of gather_rows and its transpose, scatter_add_rows.
 *
 * A scatter's task owns a range of rows of the accumulator and walks all ids in order,
 * so rows that come several times are added in the same order at any number of threads.
 */
#include <string.h>

#include "backend/cpu/k_grid.h"
#include "backend/cpu/k_wide.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/plain.h"

enum {
    MAX_RANGES = 32,     /* tasks of a scatter, by rows of the accumulator */
    BLOCK = 512,         /* elements widened at a time */
    ADDS_PER_TASK = 8192 /* elements added that are worth a task of their own */
};

/* Elements in one row: everything behind dimension 0 of the table. */
static int64_t row_elements(const struct type *table)
{
    return type_elements(table) / table->shape.dim[0];
}

/* ---- gather_rows ---- */

/* About KERNEL_CHUNK elements to a task. */
static int64_t gather_rows_per_task(const struct node *node)
{
    return base_max(1, KERNEL_CHUNK / row_elements(&node->inputs[0]->type));
}

/* Tasks are blocks of ids, whatever their shape. */
static int64_t count_gather(const struct node *node, int phase, size_t loss_head_bytes)
{
    (void)phase;
    (void)loss_head_bytes;
    return base_div_up(type_elements(&node->inputs[1]->type),
                       gather_rows_per_task(node));
}

/* Rows are copied by bytes; an id that is no row gives zeros (a rank that holds part of
 * the table sees ids of other parts). table [V, ...], ids i32 [n...] -> [n..., ...] */
static void run_gather(const struct kernel_call *call, int local_rank, int phase,
                       int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct node *node = call->node;
    const struct kernel_rank *rank = &call->ranks[local_rank];
    const struct type *table = &node->inputs[0]->type;
    const unsigned char *rows = rank->inputs[0];
    const int32_t *ids = rank->inputs[1];
    unsigned char *result = rank->outputs[0];
    const size_t row_bytes = (size_t)row_elements(table) * dtype_bytes(table->dtype);
    const int64_t per_task = gather_rows_per_task(node);
    const int64_t end =
        base_min((task + 1) * per_task, type_elements(&node->inputs[1]->type));
    for (int64_t i = task * per_task; i < end; i++) {
        unsigned char *target = result + (size_t)i * row_bytes;
        if (ids[i] >= 0 && ids[i] < table->shape.dim[0]) {
            memcpy(target, rows + (size_t)ids[i] * row_bytes, row_bytes);
        } else {
            memset(target, 0, row_bytes);
        }
    }
}

/* ---- scatter_add_rows ---- */

/* Ranges of accumulator rows: no more than the work is worth. From shapes alone, though
 * the work depends on which rows the ids name. */
static int64_t n_ranges(const struct node *node)
{
    const struct type *acc = &node->inputs[0]->type;
    const int64_t adds = type_elements(&node->inputs[2]->type);
    const int64_t wanted = base_max(1, adds / ADDS_PER_TASK);
    return base_min(base_min(wanted, MAX_RANGES), acc->shape.dim[0]);
}

/* Without a keep operand nothing is ever cleared: the first phase is empty. Phase 0
 * clears the accumulator where keep is false, phase 1 adds. */
static int64_t count_scatter(const struct node *node, int phase, size_t loss_head_bytes)
{
    (void)loss_head_bytes;
    if (phase == 1) {
        return n_ranges(node);
    }
    const int64_t elements = type_elements(&node->inputs[0]->type);
    return node->n_inputs < 4 ? 0 : base_div_up(elements, KERNEL_CHUNK);
}

/* BLOCK elements of the type that is added in; 8 bytes each are enough for every
 * type. */
union block {
    double f64[BLOCK];
    int64_t i64[BLOCK];
};

/* target += source, n elements; sums of bf16 and f16 are rounded each time. */
static void add_row(const struct native *native, enum dtype dtype,
                    unsigned char *target, enum dtype source_dtype,
                    const unsigned char *source, int64_t n)
{
    const plain_binary_fn add = plain_loops_of(dtype)->binary[PLAIN_ADD];
    if (dtype == source_dtype && !plain_is_widened(dtype)) {
        add(target, false, source, false, target, n);
        return;
    }
    /* In the wider of f32 and the accumulator's own type. */
    const enum dtype middle = plain_is_widened(dtype) ? DTYPE_F32 : dtype;
    union block sums;
    union block terms;
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = base_min(BLOCK, n - i);
        unsigned char *part = target + (size_t)i * dtype_bytes(dtype);
        wide_convert(native, dtype, part, middle, &sums, count);
        wide_convert(native, source_dtype,
                     source + (size_t)i * dtype_bytes(source_dtype), middle, &terms,
                     count);
        add(&sums, false, &terms, false, &sums, count);
        wide_convert(native, middle, &sums, dtype, part, count);
    }
}

/* Phase 0 where keep may be false: it is read at run time, so the phase is always
 * there. The result is the accumulator's own memory. */
static void clear_chunk(const struct kernel_call *call, int local_rank, int64_t task)
{
    const struct kernel_rank *rank = &call->ranks[local_rank];
    const bool keeps = *(const uint8_t *)rank->inputs[3] != 0;
    if (keeps) {
        return;
    }
    const struct type *acc = &call->node->outputs[0]->type;
    const int64_t start = task * KERNEL_CHUNK;
    const int64_t n = base_min(KERNEL_CHUNK, type_elements(acc) - start);
    const size_t element_bytes = dtype_bytes(acc->dtype);
    memset((unsigned char *)rank->outputs[0] + (size_t)start * element_bytes, 0,
           (size_t)n * element_bytes);
}

/* Every task reads all ids and adds the rows that fall into its range. acc [V, ...] +=
 * rows [n..., ...] at ids i32 [n...]. Range t of r has rows V t / r up to V (t + 1) /
 * r. Reading all ids is cheap: 4 bytes each against a row. */
static void run_scatter(const struct kernel_call *call, int local_rank, int phase,
                        int64_t task, void *thread_scratch)
{
    (void)thread_scratch;
    if (phase == 0) {
        clear_chunk(call, local_rank, task);
        return;
    }
    const struct node *node = call->node;
    const struct kernel_rank *rank = &call->ranks[local_rank];
    const struct type *acc = &node->outputs[0]->type;
    const struct type *rows = &node->inputs[2]->type;
    const int32_t *ids = rank->inputs[1];
    const unsigned char *source = rank->inputs[2];
    unsigned char *target = rank->outputs[0];
    const int64_t n = row_elements(acc);
    const int64_t n_rows = acc->shape.dim[0];
    const int64_t first = n_rows * task / n_ranges(node);
    const int64_t end = n_rows * (task + 1) / n_ranges(node);
    const int64_t n_ids = type_elements(&node->inputs[1]->type);
    for (int64_t i = 0; i < n_ids; i++) {
        if (ids[i] >= first && ids[i] < end && ids[i] != node->attributes.ignore_row) {
            add_row(call->native, acc->dtype,
                    target + (size_t)(ids[i] * n) * dtype_bytes(acc->dtype),
                    rows->dtype, source + (size_t)(i * n) * dtype_bytes(rows->dtype),
                    n);
        }
    }
}

const struct kernel kernel_gather_rows = {.n_tasks = count_gather, .run = run_gather};
const struct kernel kernel_scatter_add_rows = {
    .n_phases = grid_two_phases, .n_tasks = count_scatter, .run = run_scatter};
