/*
 * k_source - kernels of ops without tensor operands: constants, counting, random bits.
 *
 * What counts elements counts global ones: a rank that holds block c of a split
 * dimension starts where block c starts, so the values do not depend on the layout.
 */
#include <string.h>

#include "backend/cpu/k_grid.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/plain.h"
#include "base/random.h"

enum { BLOCK = 256 }; /* elements made at a time, on the stack */

/* Address of element `index` of the result. */
static unsigned char *result_at(const struct kernel_call *call, int local_rank,
                                int64_t index)
{
    unsigned char *result = call->ranks[local_rank].outputs[0];
    return result + index * (int64_t)dtype_bytes(call->node->outputs[0]->type.dtype);
}

/* Global index of the first element along `dim` that this rank holds. Blocks of a split
 * dimension have equal lengths, so block c starts at c times the local one. */
static int64_t global_start(const struct kernel_call *call, int local_rank, int dim)
{
    const struct type *type = &call->node->outputs[0]->type;
    return type->shape.dim[dim] * placement_block(&type->placement, call->mesh,
                                                  call->first_rank + local_rank, dim);
}

/* The value is a double whatever the dtype; one block of them is cast over and over. */
static void run_constant(const struct kernel_call *call, int local_rank, int phase,
                         int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct type *type = &call->node->outputs[0]->type;
    double block[BLOCK];
    const int64_t start = task * KERNEL_CHUNK;
    const int64_t end = base_min(start + KERNEL_CHUNK, type_elements(type));
    for (int i = 0; i < BLOCK; i++) {
        block[i] = call->node->attributes.value;
    }
    for (int64_t i = start; i < end; i += BLOCK) {
        plain_cast(DTYPE_F64, block, type->dtype, result_at(call, local_rank, i),
                   base_min(BLOCK, end - i));
    }
}

/* Element i stands at i / inner mod length along the axis. Counted in i64 and cast
 * once, so that all dtypes count alike. */
static void run_iota(const struct kernel_call *call, int local_rank, int phase,
                     int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct type *type = &call->node->outputs[0]->type;
    const int axis = call->node->attributes.axis;
    int64_t inner = 1; /* elements per step along the axis */
    for (int i = axis + 1; i < type->shape.rank; i++) {
        inner *= type->shape.dim[i];
    }
    const int64_t first = global_start(call, local_rank, axis);
    const int64_t start = task * KERNEL_CHUNK;
    const int64_t end = base_min(start + KERNEL_CHUNK, type_elements(type));
    int64_t block[BLOCK];
    for (int64_t i = start; i < end; i += BLOCK) {
        const int64_t n = base_min(BLOCK, end - i);
        for (int64_t j = 0; j < n; j++) {
            block[j] = first + (i + j) / inner % type->shape.dim[axis];
        }
        plain_cast(DTYPE_I64, block, type->dtype, result_at(call, local_rank, i), n);
    }
}

/* Row-major index in the global array of local element `index`. global = sum over i of
 * (start_i + local index i) stride_i, with the strides of the global shape: each of its
 * dimensions is the local one times its number of blocks. */
static int64_t global_index(const struct kernel_call *call, const int64_t *starts,
                            int64_t index)
{
    const struct type *type = &call->node->outputs[0]->type;
    int64_t global = 0;
    int64_t stride = 1;
    for (int i = type->shape.rank - 1; i >= 0; i--) {
        const int64_t length = type->shape.dim[i];
        global += (starts[i] + index % length) * stride;
        index /= length;
        stride *= length * placement_n_blocks(&type->placement, call->mesh, i);
    }
    return global;
}

/* Whether this rank holds the whole array, so that local indices are global ones. */
static bool is_whole(const struct kernel_call *call)
{
    const struct type *type = &call->node->outputs[0]->type;
    for (int i = 0; i < type->shape.rank; i++) {
        if (placement_n_blocks(&type->placement, call->mesh, i) > 1) {
            return false;
        }
    }
    return true;
}

/* Neighbours mostly share a block of four words, so the last one is kept at hand.
 * Element i of the global array is word i mod 4 of block i / 4 of the stream (seed,
 * purpose, step): what a rank gets does not depend on how the array is split. */
static void run_random_bits(const struct kernel_call *call, int local_rank, int phase,
                            int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct kernel_rank *rank = &call->ranks[local_rank];
    const struct type *type = &call->node->outputs[0]->type;
    const uint32_t seed = *(const uint32_t *)rank->inputs[0];
    const uint32_t step = *(const uint32_t *)rank->inputs[1];
    const uint32_t purpose = call->node->attributes.purpose;
    uint32_t *result = rank->outputs[0];
    if (is_whole(call)) {
        const int64_t begin = task * KERNEL_CHUNK;
        const int64_t n = base_min(KERNEL_CHUNK, type_elements(type) - begin);
        random_fill(seed, purpose, step, (uint64_t)begin, n, result + begin);
        return;
    }
    int64_t starts[SHAPE_MAX_RANK] = {0};
    for (int i = 0; i < type->shape.rank; i++) {
        starts[i] = global_start(call, local_rank, i);
    }
    const int64_t start = task * KERNEL_CHUNK;
    const int64_t end = base_min(start + KERNEL_CHUNK, type_elements(type));
    uint32_t words[4] = {0};
    uint64_t block = UINT64_MAX; /* whose words are at hand */
    for (int64_t i = start; i < end; i++) {
        const uint64_t index = (uint64_t)global_index(call, starts, i);
        if (index / 4 != block) {
            block = index / 4;
            random_block(seed, purpose, step, block, words);
        }
        result[i] = words[index % 4];
    }
}

/* One i32: where this rank stands along the axis. */
static void run_axis_index(const struct kernel_call *call, int local_rank, int phase,
                           int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)task;
    (void)thread_scratch;
    int32_t *result = call->ranks[local_rank].outputs[0];
    *result = mesh_coordinate(call->mesh, call->first_rank + local_rank,
                              call->node->attributes.mesh_axis);
}

const struct kernel kernel_constant = {.n_tasks = grid_element_tasks,
                                       .run = run_constant};
const struct kernel kernel_iota = {.n_tasks = grid_element_tasks, .run = run_iota};
const struct kernel kernel_random_bits = {.n_tasks = grid_element_tasks,
                                          .run = run_random_bits};
const struct kernel kernel_axis_index = {.run = run_axis_index};
