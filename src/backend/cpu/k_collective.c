/*
 * k_collective - kernels of collectives among local ranks.
 *
 * Ranks run in lockstep, so the operands of all of them are there: a collective reads
 * its neighbours' memory. Sums run in the order of the group's coordinates, in f32 (f64
 * for f64; bf16 rounded once at the end), so every rank gets the same bits.
 */
#include <string.h>

#include "backend/cpu/k_grid.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/move.h"
#include "backend/cpu/plain.h"

enum { BLOCK = 1024 }; /* elements summed at a time */

/* Operand 0 of the rank that stands at `coordinate` of this rank's group. check_groups
 * of program.c made sure that it is local. */
static const unsigned char *neighbour_input(const struct kernel_call *call,
                                            int local_rank, int coordinate)
{
    const int rank = mesh_neighbour(call->mesh, call->first_rank + local_rank,
                                    call->node->attributes.mesh_axis, coordinate);
    ASSERT(call->first_rank <= rank && rank < call->first_rank + call->n_ranks);
    return call->ranks[rank - call->first_rank].inputs[0];
}

/* Place of this rank along the axis of the node. */
static int own_coordinate(const struct kernel_call *call, int local_rank)
{
    return mesh_coordinate(call->mesh, call->first_rank + local_rank,
                           call->node->attributes.mesh_axis);
}

/* ---- boxes that move: all_gather, all_to_all, take_split ---- */

/*
 * The box that a node moves between a rank and its neighbours: the smaller of operand
 * and result in every dimension. For coordinate `there` of the other rank and `here` of
 * this one, it starts at multiples of its own lengths.
 */
static struct move box_move(const struct node *node)
{
    const struct type *x = &node->inputs[0]->type;
    const struct type *y = &node->outputs[0]->type;
    int64_t dim[SHAPE_MAX_RANK];
    int64_t source[SHAPE_MAX_RANK];
    int64_t target[SHAPE_MAX_RANK];
    for (int i = 0; i < x->shape.rank; i++) {
        dim[i] = base_min(x->shape.dim[i], y->shape.dim[i]);
    }
    move_strides(&x->shape, source);
    move_strides(&y->shape, target);
    return move_make(dtype_bytes(x->dtype), x->shape.rank, dim, source, target);
}

/* Bytes to block number `block` along `axis` of an array of `type`, cut as the other.
 * offset = block * length * stride of the axis, in elements. */
static size_t block_offset(const struct type *type, const struct type *other, int axis,
                           int block)
{
    int64_t strides[SHAPE_MAX_RANK];
    move_strides(&type->shape, strides);
    const int64_t length = base_min(type->shape.dim[axis], other->shape.dim[axis]);
    return (size_t)(block * length * strides[axis]) * dtype_bytes(type->dtype);
}

/* Ranks in the group, told from the lengths of what they join. */
static int group_size(const struct type *longer, const struct type *shorter, int axis)
{
    return (int)(longer->shape.dim[axis] / shorter->shape.dim[axis]);
}

/* all_gather: one box from each rank of the group, at its coordinate. */
static int64_t count_gather(const struct node *node, int phase, size_t loss_head_bytes)
{
    (void)phase;
    (void)loss_head_bytes;
    const struct move move = box_move(node);
    return move_n_tasks(&move) * group_size(&node->outputs[0]->type,
                                            &node->inputs[0]->type,
                                            node->attributes.axis);
}

/* Task t moves a piece of the box of rank t / (tasks of a box). */
static void run_gather(const struct kernel_call *call, int local_rank, int phase,
                       int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct node *node = call->node;
    const struct move move = box_move(node);
    const int there = (int)(task / move_n_tasks(&move));
    unsigned char *result = call->ranks[local_rank].outputs[0];
    move_run(&move, neighbour_input(call, local_rank, there),
             result + block_offset(&node->outputs[0]->type, &node->inputs[0]->type,
                                   node->attributes.axis, there),
             task % move_n_tasks(&move));
}

/* axes[0]: where the operand is split, axes[1]: where the result is. */
static int64_t count_all_to_all(const struct node *node, int phase,
                                size_t loss_head_bytes)
{
    (void)phase;
    (void)loss_head_bytes;
    const struct move move = box_move(node);
    return move_n_tasks(&move) * group_size(&node->outputs[0]->type,
                                            &node->inputs[0]->type,
                                            node->attributes.axes[0]);
}

/* Reads block `here` of every neighbour and puts it where that neighbour's part begins
 * in the result. */
static void run_all_to_all(const struct kernel_call *call, int local_rank, int phase,
                           int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct node *node = call->node;
    const struct type *x = &node->inputs[0]->type;
    const struct type *y = &node->outputs[0]->type;
    const struct move move = box_move(node);
    const int there = (int)(task / move_n_tasks(&move));
    const int here = own_coordinate(call, local_rank);
    unsigned char *result = call->ranks[local_rank].outputs[0];
    move_run(&move,
             neighbour_input(call, local_rank, there) +
                 block_offset(x, y, node->attributes.axes[1], here),
             result + block_offset(y, x, node->attributes.axes[0], there),
             task % move_n_tasks(&move));
}

/* take_split: the box at the rank's own coordinate; nothing is exchanged. */
static int64_t count_take_split(const struct node *node, int phase,
                                size_t loss_head_bytes)
{
    (void)phase;
    (void)loss_head_bytes;
    const struct move move = box_move(node);
    return move_n_tasks(&move);
}

static void run_take_split(const struct kernel_call *call, int local_rank, int phase,
                           int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct node *node = call->node;
    const struct move move = box_move(node);
    const unsigned char *x = call->ranks[local_rank].inputs[0];
    move_run(&move,
             x + block_offset(&node->inputs[0]->type, &node->outputs[0]->type,
                              node->attributes.axis, own_coordinate(call, local_rank)),
             call->ranks[local_rank].outputs[0], task);
}

/* ---- sums: reduce_scatter, all_reduce ---- */

/* BLOCK elements of the type that is summed in. */
union block {
    double f64[BLOCK];
    int64_t i64[BLOCK];
};

/*
 * result[i] = sum (or largest) over the group's coordinates of x[i], for n elements
 * that start at byte `source` of each operand.
 */
/* Coordinate 0 starts the sum and the others follow, on every rank alike. Terms are
 * read BLOCK elements at a time, so the sums stay in the first cache. */
static void reduce_run(const struct kernel_call *call, int local_rank, size_t source,
                       unsigned char *result, int64_t n)
{
    const struct node *node = call->node;
    const enum dtype dtype = node->inputs[0]->type.dtype;
    const enum dtype wide = plain_is_widened(dtype) ? DTYPE_F32 : dtype;
    const bool is_max =
        node->op == OP_ALL_REDUCE && node->attributes.reduce == REDUCE_MAX;
    const plain_binary_fn join =
        plain_loops_of(dtype)->binary[is_max ? PLAIN_MAX : PLAIN_ADD];
    const int n_coordinates = call->mesh->size[node->attributes.mesh_axis];
    union block sums;
    union block terms;
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = base_min(BLOCK, n - i);
        const size_t offset = (size_t)i * dtype_bytes(dtype);
        for (int c = 0; c < n_coordinates; c++) {
            const unsigned char *x = neighbour_input(call, local_rank, c);
            plain_cast(dtype, x + source + offset, wide, c == 0 ? &sums : &terms,
                       count);
            if (c > 0) {
                join(&sums, false, &terms, false, &sums, count);
            }
        }
        plain_cast(wide, &sums, dtype, result + offset, count);
    }
}

/* Operand and result have one shape, so one offset serves both. Each rank sums for
 * itself: with operands at hand that costs less than passing results on, and gives the
 * same bits as a reduce_scatter with an all_gather behind it. */
static void run_all_reduce(const struct kernel_call *call, int local_rank, int phase,
                           int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct type *y = &call->node->outputs[0]->type;
    const int64_t start = task * KERNEL_CHUNK;
    const size_t offset = (size_t)start * dtype_bytes(y->dtype);
    unsigned char *result = call->ranks[local_rank].outputs[0];
    reduce_run(call, local_rank, offset, result + offset,
               base_min(KERNEL_CHUNK, type_elements(y) - start));
}

/* The result seen as rows: dimensions before the split one, times a run in memory. */
struct rows {
    int64_t n_rows, run, runs_per_task, tasks_per_run;
};

/* The cut of a reduce_scatter: several short runs per task, or parts of a long one. */
static struct rows scatter_rows(const struct node *node)
{
    const struct shape *y = &node->outputs[0]->type.shape;
    struct rows rows = {.n_rows = 1, .run = 1};
    for (int i = 0; i < y->rank; i++) {
        if (i < node->attributes.axis) {
            rows.n_rows *= y->dim[i];
        } else {
            rows.run *= y->dim[i];
        }
    }
    rows.runs_per_task = base_max(1, KERNEL_CHUNK / rows.run);
    rows.tasks_per_run = base_div_up(rows.run, KERNEL_CHUNK);
    return rows;
}

/* Either runs_per_task or tasks_per_run is 1. */
static int64_t count_reduce_scatter(const struct node *node, int phase,
                                    size_t loss_head_bytes)
{
    (void)phase;
    (void)loss_head_bytes;
    const struct rows rows = scatter_rows(node);
    return base_div_up(rows.n_rows, rows.runs_per_task) * rows.tasks_per_run;
}

/* Operand rows are n_blocks runs long; this rank sums run number `here` of each. */
static void run_reduce_scatter(const struct kernel_call *call, int local_rank,
                               int phase, int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct node *node = call->node;
    const struct rows rows = scatter_rows(node);
    const size_t element_bytes = dtype_bytes(node->outputs[0]->type.dtype);
    const int64_t n_blocks = call->mesh->size[node->attributes.mesh_axis];
    const int64_t here = own_coordinate(call, local_rank);
    unsigned char *result = call->ranks[local_rank].outputs[0];
    const int64_t column = task % rows.tasks_per_run * KERNEL_CHUNK;
    const int64_t first = task / rows.tasks_per_run * rows.runs_per_task;
    const int64_t end = base_min(first + rows.runs_per_task, rows.n_rows);
    for (int64_t row = first; row < end; row++) {
        const int64_t source = (row * n_blocks + here) * rows.run + column;
        const int64_t target = row * rows.run + column;
        reduce_run(call, local_rank, (size_t)source * element_bytes,
                   result + (size_t)target * element_bytes,
                   base_min(KERNEL_CHUNK, rows.run - column));
    }
}

const struct kernel kernel_all_gather = {.n_tasks = count_gather, .run = run_gather};
const struct kernel kernel_all_to_all = {.n_tasks = count_all_to_all,
                                         .run = run_all_to_all};
const struct kernel kernel_take_split = {.n_tasks = count_take_split,
                                         .run = run_take_split};
const struct kernel kernel_all_reduce = {.n_tasks = grid_element_tasks,
                                         .run = run_all_reduce};
const struct kernel kernel_reduce_scatter = {.n_tasks = count_reduce_scatter,
                                             .run = run_reduce_scatter};
