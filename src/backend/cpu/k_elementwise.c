/*
 * k_elementwise - kernels of primitives that work element by element.
 *
 * A task is KERNEL_CHUNK elements. bf16 and f16 operands are widened to f32 in blocks
 * on the stack, computed in f32 and rounded once.
 */
#include <assert.h>
#include <string.h>

#include "backend/cpu/k_grid.h"
#include "backend/cpu/k_wide.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/plain.h"

enum { BLOCK = 1024 }; /* elements widened at a time */

static_assert(OP_MAX - OP_ADD == PLAIN_MAX - PLAIN_ADD, "the order of plain.h");
static_assert(OP_SIN - OP_EXP == PLAIN_SIN - PLAIN_EXP, "the order of plain.h");
static_assert(COMPARE_GE + 1 == PLAIN_N_COMPARE, "the order of plain.h");

/* ---- where a task's elements are ---- */

/* One operand of an elementwise node, and how to find element i. */
struct operand {
    const unsigned char *data;
    enum dtype dtype;
    bool is_scalar;
};

/* Operands are scalars or have the shape of the result, by the infer rules. */
static struct operand operand_of(const struct kernel_call *call, int local_rank, int i)
{
    const struct type *type = &call->node->inputs[i]->type;
    return (struct operand){
        .data = call->ranks[local_rank].inputs[i],
        .dtype = type->dtype,
        .is_scalar = type->shape.rank == 0,
    };
}

/* Address of element i; a scalar is its own element at every i. */
static const void *element(const struct operand *operand, int64_t i)
{
    const int64_t index = operand->is_scalar ? 0 : i;
    return operand->data + (size_t)index * dtype_bytes(operand->dtype);
}

/* Elements i .. i + n as f32, in `block`. A scalar is one element, which the loops
 * repeat. */
static void widen(const struct native *native, const struct operand *operand, int64_t i,
                  int64_t n, float *block)
{
    wide_convert(native, operand->dtype, element(operand, i), DTYPE_F32, block,
                 operand->is_scalar ? 1 : n);
}

/* What all the run functions below need: where this task's elements are. */
struct part {
    const struct native *native;
    int64_t start, n;
    enum dtype dtype; /* of the result */
    unsigned char *result;
};

/* Flat indices: what the dimensions are does not matter here. */
static struct part part_of(const struct kernel_call *call, int local_rank, int64_t task)
{
    const struct type *type = &call->node->outputs[0]->type;
    const int64_t start = task * KERNEL_CHUNK;
    unsigned char *result = call->ranks[local_rank].outputs[0];
    return (struct part){
        .native = call->native,
        .start = start,
        .n = base_min(KERNEL_CHUNK, type_elements(type) - start),
        .dtype = type->dtype,
        .result = result + (size_t)start * dtype_bytes(type->dtype),
    };
}

/* ---- two operands ---- */

/* Binary ops and comparisons of bf16 and f16; a comparison's result is bytes. The three
 * blocks are 12 KiB together and stay in the first cache. */
static void run_widened(plain_binary_fn loop, const struct operand *a,
                        const struct operand *b, const struct part *part)
{
    float left[BLOCK];
    float right[BLOCK];
    float result[BLOCK];
    for (int64_t i = 0; i < part->n; i += BLOCK) {
        const int64_t n = base_min(BLOCK, part->n - i);
        unsigned char *target = part->result + (size_t)i * dtype_bytes(part->dtype);
        widen(part->native, a, part->start + i, n, left);
        widen(part->native, b, part->start + i, n, right);
        if (part->dtype == DTYPE_BOOL) {
            loop(left, a->is_scalar, right, b->is_scalar, target, n);
        } else {
            loop(left, a->is_scalar, right, b->is_scalar, result, n);
            wide_convert(part->native, DTYPE_F32, result, part->dtype, target, n);
        }
    }
}

/* The loop on this task's elements. A result may lie in an operand's memory: element i
 * is read before it is written, in the widened form block by block. */
static void run_loop(const struct kernel_call *call, int local_rank, int64_t task,
                     plain_binary_fn loop)
{
    const struct part part = part_of(call, local_rank, task);
    const struct operand a = operand_of(call, local_rank, 0);
    const struct operand b = operand_of(call, local_rank, 1);
    if (plain_is_widened(a.dtype)) {
        run_widened(loop, &a, &b, &part);
    } else {
        loop(element(&a, part.start), a.is_scalar, element(&b, part.start), b.is_scalar,
             part.result, part.n);
    }
}

/* Operands have the dtype of the result. */
static void run_binary(const struct kernel_call *call, int local_rank, int phase,
                       int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct node *node = call->node;
    const struct plain_loops *loops = plain_loops_of(node->inputs[0]->type.dtype);
    run_loop(call, local_rank, task, loops->binary[node->op - OP_ADD]);
}

/* Operands have one dtype, the result is bool. */
static void run_compare(const struct kernel_call *call, int local_rank, int phase,
                        int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct node *node = call->node;
    const struct plain_loops *loops = plain_loops_of(node->inputs[0]->type.dtype);
    run_loop(call, local_rank, task, loops->compare[node->attributes.compare]);
}

/* ---- one operand ---- */

/* As run_loop. is_finite gives bytes, the others their own dtype. */
static void run_one_operand(const struct kernel_call *call, int local_rank,
                            int64_t task, plain_unary_fn loop)
{
    const struct part part = part_of(call, local_rank, task);
    const struct operand x = operand_of(call, local_rank, 0);
    if (!plain_is_widened(x.dtype)) {
        loop(element(&x, part.start), part.result, part.n);
        return;
    }
    float block[BLOCK];
    for (int64_t i = 0; i < part.n; i += BLOCK) {
        const int64_t n = base_min(BLOCK, part.n - i);
        unsigned char *target = part.result + (size_t)i * dtype_bytes(part.dtype);
        widen(part.native, &x, part.start + i, n, block);
        if (part.dtype == DTYPE_BOOL) {
            loop(block, target, n);
        } else {
            loop(block, block, n);
            wide_convert(part.native, DTYPE_F32, block, part.dtype, target, n);
        }
    }
}

/* Floats only; the order of the ops is that of plain.h. */
static void run_unary(const struct kernel_call *call, int local_rank, int phase,
                      int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct node *node = call->node;
    const struct plain_loops *loops = plain_loops_of(node->inputs[0]->type.dtype);
    run_one_operand(call, local_rank, task, loops->unary[node->op - OP_EXP]);
}

/* Neither infinite nor NaN. */
static void run_is_finite(const struct kernel_call *call, int local_rank, int phase,
                          int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct plain_loops *loops = plain_loops_of(call->node->inputs[0]->type.dtype);
    run_one_operand(call, local_rank, task, loops->is_finite);
}

/* All pairs, those with bf16 in vectors. Rewriting passes also use it, with equal types, to
 * copy. */
static void run_cast(const struct kernel_call *call, int local_rank, int phase,
                     int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct part part = part_of(call, local_rank, task);
    const struct operand x = operand_of(call, local_rank, 0);
    wide_convert(part.native, x.dtype, element(&x, part.start), part.dtype, part.result,
                 part.n);
}

/* One loop per element size; `a` and `b` step by 1, or by 0 where they are scalars. */
#define SELECT_LOOP(TYPE)                                                       \
    static void select_##TYPE(const uint8_t *condition, int64_t condition_step, \
                              const void *a, int64_t a_step, const void *b,     \
                              int64_t b_step, void *y, int64_t n)               \
    {                                                                           \
        const TYPE *left = a;                                                   \
        const TYPE *right = b;                                                  \
        TYPE *result = y;                                                       \
        for (int64_t i = 0; i < n; i++) {                                       \
            const TYPE x = left[i * a_step];                                    \
            const TYPE z = right[i * b_step];                                   \
            result[i] = condition[i * condition_step] ? x : z;                  \
        }                                                                       \
    }

SELECT_LOOP(uint8_t)
SELECT_LOOP(uint16_t)
SELECT_LOOP(uint32_t)
SELECT_LOOP(uint64_t)

/* A scalar condition picks a whole operand; otherwise element by element. Only moves
 * elements, so it goes by their size. Operands: condition (bool), a, b; the result is a
 * where the condition holds. */
static void run_select(const struct kernel_call *call, int local_rank, int phase,
                       int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct part part = part_of(call, local_rank, task);
    const struct operand condition = operand_of(call, local_rank, 0);
    const struct operand a = operand_of(call, local_rank, 1);
    const struct operand b = operand_of(call, local_rank, 2);
    const uint8_t *bits = element(&condition, part.start);
    const void *left = element(&a, part.start);
    const void *right = element(&b, part.start);
    if (condition.is_scalar && !a.is_scalar && !b.is_scalar) {
        memmove(part.result, *bits ? left : right,
                (size_t)part.n * dtype_bytes(part.dtype));
        return;
    }
    const int64_t condition_step = condition.is_scalar ? 0 : 1;
    const int64_t a_step = a.is_scalar ? 0 : 1;
    const int64_t b_step = b.is_scalar ? 0 : 1;
    switch (dtype_bytes(part.dtype)) {
    case 1:
        select_uint8_t(bits, condition_step, left, a_step, right, b_step, part.result,
                       part.n);
        break;
    case 2:
        select_uint16_t(bits, condition_step, left, a_step, right, b_step, part.result,
                        part.n);
        break;
    case 4:
        select_uint32_t(bits, condition_step, left, a_step, right, b_step, part.result,
                        part.n);
        break;
    case 8:
        select_uint64_t(bits, condition_step, left, a_step, right, b_step, part.result,
                        part.n);
        break;
    }
}

const struct kernel kernel_add = {.n_tasks = grid_element_tasks, .run = run_binary};
const struct kernel kernel_sub = {.n_tasks = grid_element_tasks, .run = run_binary};
const struct kernel kernel_mul = {.n_tasks = grid_element_tasks, .run = run_binary};
const struct kernel kernel_div = {.n_tasks = grid_element_tasks, .run = run_binary};
const struct kernel kernel_max = {.n_tasks = grid_element_tasks, .run = run_binary};
const struct kernel kernel_compare = {.n_tasks = grid_element_tasks,
                                      .run = run_compare};
const struct kernel kernel_exp = {.n_tasks = grid_element_tasks, .run = run_unary};
const struct kernel kernel_log = {.n_tasks = grid_element_tasks, .run = run_unary};
const struct kernel kernel_tanh = {.n_tasks = grid_element_tasks, .run = run_unary};
const struct kernel kernel_sqrt = {.n_tasks = grid_element_tasks, .run = run_unary};
const struct kernel kernel_rsqrt = {.n_tasks = grid_element_tasks, .run = run_unary};
const struct kernel kernel_cos = {.n_tasks = grid_element_tasks, .run = run_unary};
const struct kernel kernel_sin = {.n_tasks = grid_element_tasks, .run = run_unary};
const struct kernel kernel_is_finite = {.n_tasks = grid_element_tasks,
                                        .run = run_is_finite};
const struct kernel kernel_cast = {.n_tasks = grid_element_tasks, .run = run_cast};
const struct kernel kernel_select = {.n_tasks = grid_element_tasks, .run = run_select};
