/*
 * k_optimizer - accumulate, sum of squares, AdamW: one pass over memory each. bf16 is
 * widened and rounded block by block on the stack.
 */
#include <string.h>

#include "backend/cpu/k_grid.h"
#include "backend/cpu/k_wide.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/native.h"
#include "base/random.h"
#include "graph/build.h"

/* A task passes over 64 Ki elements: long enough for the memory to stream. */
enum { STREAM_CHUNK = 4 * KERNEL_CHUNK };

enum { BLOCK = 1024 }; /* elements of bf16 at a time */

/* Flat: shapes do not matter here. */
static int64_t n_stream_tasks(const struct node *node)
{
    return base_div_up(type_elements(&node->inputs[0]->type), STREAM_CHUNK);
}

/* Elements of one task. */
static struct grid_span stream_span(const struct node *node, int64_t task)
{
    return grid_span(task, STREAM_CHUNK, type_elements(&node->inputs[0]->type));
}

/* The same as an n_tasks of a kernel. */
static int64_t n_tasks_of_stream(const struct node *node, int phase, size_t bytes)
{
    (void)phase;
    (void)bytes;
    return n_stream_tasks(node);
}

/* ---- accumulate: acc, keep, g -> acc = g + (keep ? acc : 0) ---- */

/* The first micro-batch overwrites, so nobody has to clear the accumulator. acc is the
 * memory of operand 0. The first gradient is copied, not added to zeros. */
static void run_accumulate(const struct kernel_call *call, int local_rank, int phase,
                           int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct kernel_rank *rank = &call->ranks[local_rank];
    const struct grid_span span = stream_span(call->node, task);
    const int64_t n = span.end - span.begin;
    const bool keeps = *(const bool *)rank->inputs[1];
    const struct wide g = wide_input(call, local_rank, 2);
    float *acc = (float *)rank->outputs[0] + span.begin;
    float room[BLOCK];
    const int64_t step = g.dtype == DTYPE_F32 ? n : BLOCK;
    for (int64_t i = 0; i < n; i += step) {
        const int64_t count = base_min(step, n - i);
        const float *part = wide_read(&g, span.begin + i, count, room);
        if (keeps) {
            call->native->row_axpy(1.0F, part, count, acc + i);
        } else {
            memmove(acc + i, part, (size_t)count * sizeof(float));
        }
    }
}

/* Sums are kept in f32, whatever is added. */
static bool accumulate_supports(const struct node *node)
{
    return wide_takes(node) && node->inputs[0]->type.dtype == DTYPE_F32;
}

/* ---- sum of squares: x -> f64 scalar; the blocks' sums are added in order ---- */

/* f64 [tasks]: one sum each. */
static size_t squares_scratch_bytes(const struct node *node, size_t bytes)
{
    (void)bytes;
    return (size_t)n_stream_tasks(node) * sizeof(double);
}

/* The result is f64, whatever is summed. */
static bool squares_supports(const struct node *node)
{
    const enum dtype dtype = node->inputs[0]->type.dtype;
    return dtype == DTYPE_F32 || dtype == DTYPE_BF16;
}

/* Sums of blocks, then their sum, which is one task. */
static int64_t squares_n_tasks(const struct node *node, int phase, size_t bytes)
{
    (void)bytes;
    return phase == 0 ? n_stream_tasks(node) : 1;
}

/* In f64 from the first square on: the norm decides on clipping at every layout alike.
 * The second phase is one task that adds in order. */
static void run_squares(const struct kernel_call *call, int local_rank, int phase,
                        int64_t task, void *thread_scratch)
{
    (void)thread_scratch;
    const struct kernel_rank *rank = &call->ranks[local_rank];
    double *sums = rank->scratch;
    if (phase == 0) {
        const struct grid_span span = stream_span(call->node, task);
        const struct wide x = wide_input(call, local_rank, 0);
        const int64_t step = x.dtype == DTYPE_F32 ? STREAM_CHUNK : BLOCK;
        float room[BLOCK];
        sums[task] = 0;
        for (int64_t i = span.begin; i < span.end; i += step) {
            const int64_t n = base_min(step, span.end - i);
            sums[task] += call->native->sum_squares(wide_read(&x, i, n, room), n);
        }
        return;
    }
    double total = 0;
    for (int64_t i = 0; i < n_stream_tasks(call->node); i++) {
        total += sums[i];
    }
    *(double *)rank->outputs[0] = total;
}

/* ---- adamw: p, g, m, v, hyper, scale, apply -> p, m, v in place ---- */

/* Operands that say by which bits bf16 is rounded; NULL: to nearest. */
struct chance {
    const uint32_t *seed, *step;
    uint64_t first; /* global index of the rank's first element */
};

/* A tensor is split over ranks in dimension 0 at most (see adamw_supports), so the
 * rank's elements follow each other in the whole one. */
static struct chance chance_of(const struct kernel_call *call, int local_rank)
{
    const struct node *node = call->node;
    const struct type *type = &node->inputs[0]->type;
    if (node->n_inputs < 9) {
        return (struct chance){0};
    }
    const int64_t block = type->shape.rank == 0
                              ? 0
                              : placement_block(&type->placement, call->mesh,
                                                call->first_rank + local_rank, 0);
    return (struct chance){
        .seed = call->ranks[local_rank].inputs[7],
        .step = call->ranks[local_rank].inputs[8],
        .first = (uint64_t)(block * type_elements(type)),
    };
}

/* p, m and v of one block: new values in f32, and where they are stored. */
struct adamw_block {
    float value[3][BLOCK];
    uint16_t *stored[3]; /* at the block's first element */
};

/* Which half of its word decides for p, m and v: build_adamw_stochastic. */
static void store_block(const struct native *native, const struct chance *chance,
                        int64_t at, int64_t n, struct adamw_block *block)
{
    static const uint32_t factors[3] = {1, 1, ADAMW_MIX};
    static const int shifts[3] = {0, 16, 16};
    uint32_t words[BLOCK];
    if (chance->seed != NULL) {
        native->random_words(*chance->seed, RANDOM_ROUNDING, *chance->step,
                             chance->first + (uint64_t)at, n, words);
    }
    for (int i = 0; i < 3; i++) {
        if (chance->seed != NULL) {
            native->round_bf16_by_chance(block->value[i], words, factors[i], shifts[i],
                                         n, block->stored[i]);
        } else {
            native->round_bf16(block->value[i], n, block->stored[i]);
        }
    }
}

/* One task's part of p, m and v in bf16. */
static void update_narrow(const struct kernel_call *call, int local_rank,
                          struct grid_span span)
{
    const struct kernel_rank *rank = &call->ranks[local_rank];
    const struct native *native = call->native;
    const struct chance chance = chance_of(call, local_rank);
    const float *g = rank->inputs[1];
    struct adamw_block block;
    for (int64_t at = span.begin; at < span.end; at += BLOCK) {
        const int64_t n = base_min(BLOCK, span.end - at);
        for (int i = 0; i < 3; i++) {
            block.stored[i] = (uint16_t *)rank->outputs[i] + at;
            native->widen_bf16(block.stored[i], n, block.value[i]);
        }
        native->adamw(block.value[0], g + at, block.value[1], block.value[2],
                      rank->inputs[4], *(const float *)rank->inputs[5], n);
        store_block(native, &chance, at, n, &block);
    }
}

/* p, m and v are read and written once, g is read once: the bound is memory. Results
 * lie in the memory of p, m and v. `apply` is false where loss or norm are not finite:
 * then all three stay as they are. */
static void run_adamw(const struct kernel_call *call, int local_rank, int phase,
                      int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct kernel_rank *rank = &call->ranks[local_rank];
    const bool applies = *(const bool *)rank->inputs[6];
    const struct grid_span span = stream_span(call->node, task);
    if (!applies) {
        return;
    }
    if (call->node->outputs[0]->type.dtype == DTYPE_BF16) {
        update_narrow(call, local_rank, span);
        return;
    }
    call->native->adamw((float *)rank->outputs[0] + span.begin,
                        (const float *)rank->inputs[1] + span.begin,
                        (float *)rank->outputs[1] + span.begin,
                        (float *)rank->outputs[2] + span.begin, rank->inputs[4],
                        *(const float *)rank->inputs[5], span.end - span.begin);
}

/* True if dimensions other than the first are shared out: the rank's elements are then
 * not neighbours in the whole tensor. */
static bool is_split_inside(const struct type *type)
{
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        const struct place place = type->placement.axis[axis];
        if (place.kind == PLACE_SPLIT && place.dim > 0) {
            return true;
        }
    }
    return false;
}

/* p, m and v all f32 or all bf16; everything else f32. */
static bool adamw_supports(const struct node *node)
{
    const enum dtype stored = node->inputs[0]->type.dtype;
    for (int i = 0; i < 6; i++) {
        const bool is_state = i == 0 || i == 2 || i == 3;
        const enum dtype dtype = node->inputs[i]->type.dtype;
        if (dtype != (is_state ? stored : DTYPE_F32)) {
            return false;
        }
    }
    return stored == DTYPE_F32 ||
           (stored == DTYPE_BF16 &&
            (node->n_inputs < 9 || !is_split_inside(&node->inputs[0]->type)));
}

const struct kernel kernel_accumulate = {
    .supports = accumulate_supports,
    .n_tasks = n_tasks_of_stream,
    .run = run_accumulate,
};

const struct kernel kernel_sum_squares = {
    .supports = squares_supports,
    .scratch_bytes = squares_scratch_bytes,
    .n_phases = grid_two_phases,
    .n_tasks = squares_n_tasks,
    .run = run_squares,
};

const struct kernel kernel_adamw = {
    .supports = adamw_supports,
    .n_tasks = n_tasks_of_stream,
    .run = run_adamw,
};
