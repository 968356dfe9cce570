/*
 * k_move - kernels that move elements and compute nothing: transposes, broadcasts,
 * slices, pads, concatenation. All are moves (move.h); here stand their strides.
 */
#include <string.h>

#include "backend/cpu/k_grid.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/move.h"

/* A move, and where in operand and result it starts (elements). */
struct shifted_move {
    struct move move;
    int64_t source_start, target_start;
};

/* Address of element `index` of an array of `type`. */
static const unsigned char *source_at(const void *data, const struct type *type,
                                      int64_t index)
{
    return (const unsigned char *)data + index * (int64_t)dtype_bytes(type->dtype);
}

/* The same in the result. */
static unsigned char *target_at(void *data, const struct type *type, int64_t index)
{
    return (unsigned char *)data + index * (int64_t)dtype_bytes(type->dtype);
}

/* One task of a move from operand `input` into the result. Operand and result have one
 * dtype, so one element size serves both. */
static void run_shifted(const struct shifted_move *shifted,
                        const struct kernel_call *call, int local_rank, int input,
                        int64_t task)
{
    const struct kernel_rank *rank = &call->ranks[local_rank];
    const struct type *type = &call->node->outputs[0]->type;
    move_run(&shifted->move,
             source_at(rank->inputs[input], type, shifted->source_start),
             target_at(rank->outputs[0], type, shifted->target_start), task);
}

/* ---- the strides of each op ---- */

/* Result dimension i is dimension axes[i] of x. Walked in the result's order; the
 * source strides are permuted. */
static struct shifted_move make_transpose(const struct node *node)
{
    const struct type *x = &node->inputs[0]->type;
    const struct type *y = &node->outputs[0]->type;
    int64_t x_strides[SHAPE_MAX_RANK];
    int64_t source[SHAPE_MAX_RANK] = {0};
    int64_t target[SHAPE_MAX_RANK];
    move_strides(&x->shape, x_strides);
    move_strides(&y->shape, target);
    for (int i = 0; i < y->shape.rank; i++) {
        source[i] = x_strides[node->attributes.axes[i]];
    }
    return (struct shifted_move){.move = move_make(dtype_bytes(y->dtype), y->shape.rank,
                                                   y->shape.dim, source, target)};
}

/* Dimension i of x is dimension axes[i] of the result; new and stretched ones repeat.
 * Stride 0 reads the same element again. */
static struct shifted_move make_broadcast(const struct node *node)
{
    const struct type *x = &node->inputs[0]->type;
    const struct type *y = &node->outputs[0]->type;
    int64_t x_strides[SHAPE_MAX_RANK];
    int64_t source[SHAPE_MAX_RANK] = {0};
    int64_t target[SHAPE_MAX_RANK];
    move_strides(&x->shape, x_strides);
    move_strides(&y->shape, target);
    for (int i = 0; i < x->shape.rank; i++) {
        source[node->attributes.axes[i]] = x->shape.dim[i] == 1 ? 0 : x_strides[i];
    }
    return (struct shifted_move){.move = move_make(dtype_bytes(y->dtype), y->shape.rank,
                                                   y->shape.dim, source, target)};
}

/* A box out of x that starts at attributes.start; the result is its size. source_start
 * = sum over i of start[i] * stride of dimension i. */
static struct shifted_move make_slice(const struct node *node)
{
    const struct type *x = &node->inputs[0]->type;
    const struct type *y = &node->outputs[0]->type;
    int64_t source[SHAPE_MAX_RANK];
    int64_t target[SHAPE_MAX_RANK];
    move_strides(&x->shape, source);
    move_strides(&y->shape, target);
    struct shifted_move shifted = {.move =
                                       move_make(dtype_bytes(y->dtype), y->shape.rank,
                                                 y->shape.dim, source, target)};
    for (int i = 0; i < x->shape.rank; i++) {
        shifted.source_start += node->attributes.start[i] * source[i];
    }
    return shifted;
}

/* The whole of operand `input` into a box of the result that starts at start[].
 * target_start = sum over i of start[i] * stride of dimension i of the result. */
static struct shifted_move make_insert(const struct node *node, int input,
                                       const int64_t *start)
{
    const struct type *x = &node->inputs[input]->type;
    const struct type *y = &node->outputs[0]->type;
    int64_t source[SHAPE_MAX_RANK];
    int64_t target[SHAPE_MAX_RANK];
    move_strides(&x->shape, source);
    move_strides(&y->shape, target);
    struct shifted_move shifted = {.move =
                                       move_make(dtype_bytes(y->dtype), x->shape.rank,
                                                 x->shape.dim, source, target)};
    for (int i = 0; i < y->shape.rank; i++) {
        shifted.target_start += start[i] * target[i];
    }
    return shifted;
}

/* ---- kernels: a task counts, then moves ---- */

static int64_t count_transpose(const struct node *node, int phase,
                               size_t loss_head_bytes)
{
    (void)phase;
    (void)loss_head_bytes;
    const struct shifted_move shifted = make_transpose(node);
    return move_n_tasks(&shifted.move);
}

static void run_transpose(const struct kernel_call *call, int local_rank, int phase,
                          int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct shifted_move shifted = make_transpose(call->node);
    run_shifted(&shifted, call, local_rank, 0, task);
}

static int64_t count_broadcast(const struct node *node, int phase,
                               size_t loss_head_bytes)
{
    (void)phase;
    (void)loss_head_bytes;
    const struct shifted_move shifted = make_broadcast(node);
    return move_n_tasks(&shifted.move);
}

static void run_broadcast(const struct kernel_call *call, int local_rank, int phase,
                          int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct shifted_move shifted = make_broadcast(call->node);
    run_shifted(&shifted, call, local_rank, 0, task);
}

static int64_t count_slice(const struct node *node, int phase, size_t loss_head_bytes)
{
    (void)phase;
    (void)loss_head_bytes;
    const struct shifted_move shifted = make_slice(node);
    return move_n_tasks(&shifted.move);
}

static void run_slice(const struct kernel_call *call, int local_rank, int phase,
                      int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct shifted_move shifted = make_slice(call->node);
    run_shifted(&shifted, call, local_rank, 0, task);
}

/* pad: zeros everywhere in phase 0, then the operand in its place. The operand's part
 * is written twice, which is simpler than zeroing around it. */
static int64_t count_pad(const struct node *node, int phase, size_t loss_head_bytes)
{
    (void)loss_head_bytes;
    if (phase == 0) {
        return base_div_up(type_elements(&node->outputs[0]->type), KERNEL_CHUNK);
    }
    const struct shifted_move shifted = make_insert(node, 0, node->attributes.start);
    return move_n_tasks(&shifted.move);
}

static void run_pad(const struct kernel_call *call, int local_rank, int phase,
                    int64_t task, void *thread_scratch)
{
    (void)thread_scratch;
    if (phase == 0) {
        const struct type *y = &call->node->outputs[0]->type;
        const int64_t start = task * KERNEL_CHUNK;
        const int64_t n = base_min(KERNEL_CHUNK, type_elements(y) - start);
        memset(target_at(call->ranks[local_rank].outputs[0], y, start), 0,
               (size_t)n * dtype_bytes(y->dtype));
        return;
    }
    const struct shifted_move shifted =
        make_insert(call->node, 0, call->node->attributes.start);
    run_shifted(&shifted, call, local_rank, 0, task);
}

/* concat: part p goes behind the parts before it. Its start along the axis is the sum
 * of their lengths. */
static struct shifted_move make_concat(const struct node *node, int part)
{
    const int axis = node->attributes.axis;
    int64_t start[SHAPE_MAX_RANK] = {0};
    for (int i = 0; i < part; i++) {
        start[axis] += node->inputs[i]->type.shape.dim[axis];
    }
    return make_insert(node, part, start);
}

/* A phase per part: parts differ in shape, so each has its own grid. */
static int concat_phases(const struct node *node, size_t loss_head_bytes)
{
    (void)loss_head_bytes;
    return node->n_inputs;
}

static int64_t count_concat(const struct node *node, int phase, size_t loss_head_bytes)
{
    (void)loss_head_bytes;
    const struct shifted_move shifted = make_concat(node, phase);
    return move_n_tasks(&shifted.move);
}

static void run_concat(const struct kernel_call *call, int local_rank, int phase,
                       int64_t task, void *thread_scratch)
{
    (void)thread_scratch;
    const struct shifted_move shifted = make_concat(call->node, phase);
    run_shifted(&shifted, call, local_rank, phase, task);
}

/* Where a dynamic op begins along its axis: operand `input`, clamped so that `size`
 * elements fit into `length`. As XLA does it, so that both engines agree on starts that
 * are out of range. */
static int64_t dynamic_start(const struct kernel_call *call, int local_rank, int input,
                             int64_t size, int64_t length)
{
    const int32_t *start = call->ranks[local_rank].inputs[input];
    return base_max(0, base_min(*start, length - size));
}

/* The grid is that of a slice of the same size: it must not depend on the start, which
 * is known at run time only. */
static int64_t count_dynamic_slice(const struct node *node, int phase,
                                   size_t loss_head_bytes)
{
    return count_slice(node, phase, loss_head_bytes);
}

/* A slice whose start along one axis is read from memory. The other axes start at 0. */
static void run_dynamic_slice(const struct kernel_call *call, int local_rank, int phase,
                              int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct node *node = call->node;
    const int axis = node->attributes.axis;
    const struct shape *x = &node->inputs[0]->type.shape;
    struct shifted_move shifted = make_slice(node);
    int64_t strides[SHAPE_MAX_RANK];
    move_strides(x, strides);
    shifted.source_start =
        strides[axis] *
        dynamic_start(call, local_rank, 1, node->attributes.size, x->dim[axis]);
    run_shifted(&shifted, call, local_rank, 0, task);
}

/* The result is the operand's memory already: only the part is written. The grid is
 * that of the part, wherever it goes. */
static int64_t count_update(const struct node *node, int phase, size_t loss_head_bytes)
{
    (void)phase;
    (void)loss_head_bytes;
    const int64_t start[SHAPE_MAX_RANK] = {0};
    const struct shifted_move shifted = make_insert(node, 1, start);
    return move_n_tasks(&shifted.move);
}

/* Operands: x, part, start; the result lies in x's memory, so operand 1 is what
 * moves. */
static void run_update(const struct kernel_call *call, int local_rank, int phase,
                       int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct node *node = call->node;
    const int axis = node->attributes.axis;
    int64_t start[SHAPE_MAX_RANK] = {0};
    start[axis] =
        dynamic_start(call, local_rank, 2, node->inputs[1]->type.shape.dim[axis],
                      node->outputs[0]->type.shape.dim[axis]);
    const struct shifted_move shifted = make_insert(node, 1, start);
    run_shifted(&shifted, call, local_rank, 1, task);
}

const struct kernel kernel_transpose = {.n_tasks = count_transpose,
                                        .run = run_transpose};
const struct kernel kernel_broadcast = {.n_tasks = count_broadcast,
                                        .run = run_broadcast};
const struct kernel kernel_slice = {.n_tasks = count_slice, .run = run_slice};
const struct kernel kernel_pad = {
    .n_phases = grid_two_phases, .n_tasks = count_pad, .run = run_pad};
const struct kernel kernel_concat = {
    .n_phases = concat_phases, .n_tasks = count_concat, .run = run_concat};
const struct kernel kernel_dynamic_slice = {.n_tasks = count_dynamic_slice,
                                            .run = run_dynamic_slice};
const struct kernel kernel_dynamic_update_slice = {.n_tasks = count_update,
                                                   .run = run_update};

/* The same memory, read differently: the executor passes it on, or copies it. */
const struct kernel kernel_reshape = {.run = NULL};
const struct kernel kernel_bitcast = {.run = NULL};
const struct kernel kernel_barrier = {.run = NULL};
const struct kernel kernel_stop_gradient = {.run = NULL};
const struct kernel kernel_fan_out = {.run = NULL};
