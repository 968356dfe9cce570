/*
 * k_activation - elementwise composites: GELU, GEGLU, SiLU, softcap and their
 * gradients.
 *
 * One phase, KERNEL_CHUNK elements a task. A result may be the memory of an operand.
 */
#include "backend/cpu/k_grid.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/native.h"

/* One task's part of the operands and results. */
struct part {
    const struct native *native;
    int64_t n;          /* elements; the last task may have fewer */
    const float *in[3]; /* [n] each, in the order of the operands */
    float *out[2];      /* [n] each */
    float cap;          /* of softcap */
};

/* All operands and results have one shape, so one span holds for all. Entries that a
 * node does not have stay NULL. */
static struct part part_of(const struct kernel_call *call, int local_rank, int64_t task)
{
    const struct node *node = call->node;
    const struct kernel_rank *rank = &call->ranks[local_rank];
    const int64_t total = type_elements(&node->inputs[0]->type);
    const struct grid_span span = grid_span(task, KERNEL_CHUNK, total);

    struct part part = {
        .native = call->native,
        .n = span.end - span.begin,
        .cap = (float)node->attributes.value,
    };
    for (int i = 0; i < node->n_inputs; i++) {
        part.in[i] = (const float *)rank->inputs[i] + span.begin;
    }
    for (int i = 0; i < node->n_outputs; i++) {
        part.out[i] = (float *)rank->outputs[i] + span.begin;
    }
    return part;
}

/* y = gelu(x) */
static void run_gelu_tanh(const struct kernel_call *call, int local_rank, int phase,
                          int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct part part = part_of(call, local_rank, task);
    part.native->gelu_tanh(part.in[0], part.n, part.out[0]);
}

/* dx = dy gelu'(x); operands x, dy. */
static void run_gelu_tanh_grad(const struct kernel_call *call, int local_rank,
                               int phase, int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct part part = part_of(call, local_rank, task);
    part.native->gelu_tanh_grad(part.in[0], part.in[1], part.n, part.out[0]);
}

/* y = gelu(gate) up */
static void run_geglu(const struct kernel_call *call, int local_rank, int phase,
                      int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct part part = part_of(call, local_rank, task);
    part.native->geglu(part.in[0], part.in[1], part.n, part.out[0]);
}

/* dgate = dy up gelu'(gate), dup = dy gelu(gate); operands gate, up, dy. */
static void run_geglu_grad(const struct kernel_call *call, int local_rank, int phase,
                           int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct part part = part_of(call, local_rank, task);
    part.native->geglu_grad(part.in[0], part.in[1], part.in[2], part.n, part.out[0],
                            part.out[1]);
}

/* y = x / (1 + exp(-x)) */
static void run_silu(const struct kernel_call *call, int local_rank, int phase,
                     int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct part part = part_of(call, local_rank, task);
    part.native->silu(part.in[0], part.n, part.out[0]);
}

/* dx = dy silu'(x); operands x, dy. */
static void run_silu_grad(const struct kernel_call *call, int local_rank, int phase,
                          int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct part part = part_of(call, local_rank, task);
    part.native->silu_grad(part.in[0], part.in[1], part.n, part.out[0]);
}

/* y = cap tanh(x / cap) */
static void run_softcap(const struct kernel_call *call, int local_rank, int phase,
                        int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct part part = part_of(call, local_rank, task);
    part.native->softcap(part.in[0], part.cap, part.n, part.out[0]);
}

/* dx = dy (1 - tanh(x / cap)^2); operands x, dy. */
static void run_softcap_grad(const struct kernel_call *call, int local_rank, int phase,
                             int64_t task, void *thread_scratch)
{
    (void)phase;
    (void)thread_scratch;
    const struct part part = part_of(call, local_rank, task);
    part.native->softcap_grad(part.in[0], part.in[1], part.cap, part.n, part.out[0]);
}

const struct kernel kernel_gelu_tanh = {.n_tasks = grid_element_tasks,
                                        .run = run_gelu_tanh};
const struct kernel kernel_gelu_tanh_grad = {.n_tasks = grid_element_tasks,
                                             .run = run_gelu_tanh_grad};
const struct kernel kernel_geglu = {.n_tasks = grid_element_tasks, .run = run_geglu};
const struct kernel kernel_geglu_grad = {.n_tasks = grid_element_tasks,
                                         .run = run_geglu_grad};
const struct kernel kernel_silu = {.n_tasks = grid_element_tasks, .run = run_silu};
const struct kernel kernel_silu_grad = {.n_tasks = grid_element_tasks,
                                        .run = run_silu_grad};
const struct kernel kernel_softcap = {.n_tasks = grid_element_tasks,
                                      .run = run_softcap};
const struct kernel kernel_softcap_grad = {.n_tasks = grid_element_tasks,
                                           .run = run_softcap_grad};
