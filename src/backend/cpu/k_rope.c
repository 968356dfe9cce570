/*
 * k_rope - rotary position embedding and its gradient, which turns back.
 *
 * Phase 0 computes the frequencies once, in f64, rounded to f32 as the reference holds
 * them; the angle is their f32 product with the position. In phase 1 a task is a block
 * of tokens: cosines and sines are computed once per token and used for all its heads.
 */
#include <math.h>

#include "backend/cpu/k_grid.h"
#include "backend/cpu/k_wide.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/native.h"

/* Frequencies, shared by all tasks. */
static size_t scratch_bytes(const struct node *node, size_t bytes)
{
    (void)bytes;
    return (size_t)node->attributes.pairs * sizeof(float);
}

/* Cosines and sines of the token at hand; a head before and after, of bf16. */
static size_t thread_bytes(const struct node *node)
{
    return 2 * (size_t)node->attributes.pairs * sizeof(float) +
           wide_room_bytes(node, 2, node->inputs[0]->type.shape.dim[3]);
}

/* x [B, T, H, K]: a task has whole tokens, all heads of each. */
static int64_t n_tasks(const struct node *node, int phase, size_t bytes)
{
    (void)bytes;
    const int64_t *dim = node->inputs[0]->type.shape.dim;
    return phase == 0 ? 1 : grid_row_tasks(dim[0] * dim[1], dim[2] * dim[3]);
}

/* theta^(-2d/K) / factor. Partial rotary embedding keeps the exponent of the whole head
 * and turns only the first pairs. */
static void compute_frequencies(const struct node *node, float *frequencies)
{
    const struct attributes *attributes = &node->attributes;
    const double K = (double)node->inputs[0]->type.shape.dim[3];
    for (int64_t d = 0; d < attributes->pairs; d++) {
        const double power = pow(attributes->theta, -2.0 * (double)d / K);
        frequencies[d] = (float)(power / attributes->factor);
    }
}

/* x [B, T, H, K] -> y, turned by sign * angle; position i32 [B, T]. (y[d], y[d + K/2])
 * = (x[d] cos a - x[d + K/2] sin a, x[d + K/2] cos a + x[d] sin a), a = position *
 * frequency[d]. */
static void turn_tokens(const struct kernel_call *call, int local_rank,
                        const struct wide *x, float sign, int64_t task, float *cosines)
{
    const struct node *node = call->node;
    const struct kernel_rank *rank = &call->ranks[local_rank];
    const struct wide y = wide_output(call, local_rank, 0);
    const int64_t *dim = node->inputs[0]->type.shape.dim;
    const int64_t H = dim[2];
    const int64_t K = dim[3];
    const int64_t pairs = node->attributes.pairs;
    const struct grid_span tokens =
        grid_span(task, grid_rows_per_task(H * K), dim[0] * dim[1]);

    const int32_t *position = rank->inputs[1];
    const float *frequencies = rank->scratch;
    float *sines = cosines + pairs;
    float *room = sines + pairs;
    for (int64_t t = tokens.begin; t < tokens.end; t++) {
        call->native->rope_angles((float)position[t], frequencies, pairs, cosines,
                                  sines);
        for (int64_t h = 0; h < H; h++) {
            const int64_t at = (t * H + h) * K;
            float *target = wide_target(&y, at, room + K);
            call->native->rope_row(wide_read(x, at, K, room), cosines, sines, K / 2,
                                   pairs, sign, target);
            wide_store(&y, at, K, target);
        }
    }
}

/* Operands: x, position. */
static void run_forward(const struct kernel_call *call, int local_rank, int phase,
                        int64_t task, void *thread_scratch)
{
    if (phase == 0) {
        compute_frequencies(call->node, call->ranks[local_rank].scratch);
    } else {
        const struct wide x = wide_input(call, local_rank, 0);
        turn_tokens(call, local_rank, &x, 1.0F, task, thread_scratch);
    }
}

/* Operands: x (not read), position, dy. The rotation is orthogonal, so its transpose is
 * the rotation by -a. */
static void run_grad(const struct kernel_call *call, int local_rank, int phase,
                     int64_t task, void *thread_scratch)
{
    if (phase == 0) {
        compute_frequencies(call->node, call->ranks[local_rank].scratch);
    } else {
        const struct wide x = wide_input(call, local_rank, 2);
        turn_tokens(call, local_rank, &x, -1.0F, task, thread_scratch);
    }
}

const struct kernel kernel_rope = {
    .supports = wide_takes,
    .scratch_bytes = scratch_bytes,
    .thread_bytes = thread_bytes,
    .n_phases = grid_two_phases,
    .n_tasks = n_tasks,
    .run = run_forward,
};

const struct kernel kernel_rope_grad = {
    .supports = wide_takes,
    .scratch_bytes = scratch_bytes,
    .thread_bytes = thread_bytes,
    .n_phases = grid_two_phases,
    .n_tasks = n_tasks,
    .run = run_grad,
};
