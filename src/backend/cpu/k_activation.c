/*
 * k_activation - elementwise composites: GELU, GEGLU, SiLU, softcap and their
 * gradients.
 *
 * One phase, KERNEL_CHUNK elements a task. A result may be the memory of an operand.
 * bf16 is widened, computed and rounded block by block.
 */
#include "backend/cpu/k_grid.h"
#include "backend/cpu/k_wide.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/native.h"

enum { MAX_IN = 3, MAX_OUT = 2, BLOCK = 1024 };

/* Elements of the operands and results that are computed at once. */
struct part {
    const struct native *native;
    int64_t n;               /* elements; the last part may have fewer */
    const float *in[MAX_IN]; /* [n] each, in the order of the operands */
    float *out[MAX_OUT];     /* [n] each */
    float cap;               /* of softcap */
};

/* What one op does to a part. */
typedef void (*part_fn)(const struct part *part);

/* All operands and results have one shape, so one span holds for all. f32 is one part
 * where it lies; bf16 goes through room for a block, read before it is written. */
static void run_parts(const struct kernel_call *call, int local_rank, int64_t task,
                      part_fn run)
{
    const struct node *node = call->node;
    const int64_t total = type_elements(&node->inputs[0]->type);
    const struct grid_span span = grid_span(task, KERNEL_CHUNK, total);
    const int64_t step = wide_has_bf16(node) ? BLOCK : KERNEL_CHUNK;
    struct part part = {.native = call->native, .cap = (float)node->attributes.value};
    float room[MAX_IN + MAX_OUT][BLOCK];
    for (int64_t at = span.begin; at < span.end; at += step) {
        part.n = base_min(step, span.end - at);
        for (int i = 0; i < node->n_inputs; i++) {
            const struct wide in = wide_input(call, local_rank, i);
            part.in[i] = wide_read(&in, at, part.n, room[i]);
        }
        for (int i = 0; i < node->n_outputs; i++) {
            const struct wide out = wide_output(call, local_rank, i);
            part.out[i] = wide_target(&out, at, room[MAX_IN + i]);
        }
        run(&part);
        for (int i = 0; i < node->n_outputs; i++) {
            const struct wide out = wide_output(call, local_rank, i);
            wide_store(&out, at, part.n, part.out[i]);
        }
    }
}

/* y = gelu(x) */
static void gelu_tanh(const struct part *part)
{
    part->native->gelu_tanh(part->in[0], part->n, part->out[0]);
}

/* dx = dy gelu'(x); operands x, dy. */
static void gelu_tanh_grad(const struct part *part)
{
    part->native->gelu_tanh_grad(part->in[0], part->in[1], part->n, part->out[0]);
}

/* y = gelu(gate) up */
static void geglu(const struct part *part)
{
    part->native->geglu(part->in[0], part->in[1], part->n, part->out[0]);
}

/* dgate = dy up gelu'(gate), dup = dy gelu(gate); operands gate, up, dy. */
static void geglu_grad(const struct part *part)
{
    part->native->geglu_grad(part->in[0], part->in[1], part->in[2], part->n,
                             part->out[0], part->out[1]);
}

/* y = x / (1 + exp(-x)) */
static void silu(const struct part *part)
{
    part->native->silu(part->in[0], part->n, part->out[0]);
}

/* dx = dy silu'(x); operands x, dy. */
static void silu_grad(const struct part *part)
{
    part->native->silu_grad(part->in[0], part->in[1], part->n, part->out[0]);
}

/* y = cap tanh(x / cap) */
static void softcap(const struct part *part)
{
    part->native->softcap(part->in[0], part->cap, part->n, part->out[0]);
}

/* dx = dy (1 - tanh(x / cap)^2); operands x, dy. */
static void softcap_grad(const struct part *part)
{
    part->native->softcap_grad(part->in[0], part->in[1], part->cap, part->n,
                               part->out[0]);
}

/* The `run` of a kernel: kernels have no place for a function of their own. */
#define RUN(name)                                                                     \
    static void run_##name(const struct kernel_call *call, int local_rank, int phase, \
                           int64_t task, void *thread_scratch)                        \
    {                                                                                 \
        (void)phase;                                                                  \
        (void)thread_scratch;                                                         \
        run_parts(call, local_rank, task, name);                                      \
    }

RUN(gelu_tanh)
RUN(gelu_tanh_grad)
RUN(geglu)
RUN(geglu_grad)
RUN(silu)
RUN(silu_grad)
RUN(softcap)
RUN(softcap_grad)

#define KERNEL(name)                                                             \
    {                                                                            \
        .supports = wide_takes, .n_tasks = grid_element_tasks, .run = run_##name \
    }

const struct kernel kernel_gelu_tanh = KERNEL(gelu_tanh);
const struct kernel kernel_gelu_tanh_grad = KERNEL(gelu_tanh_grad);
const struct kernel kernel_geglu = KERNEL(geglu);
const struct kernel kernel_geglu_grad = KERNEL(geglu_grad);
const struct kernel kernel_silu = KERNEL(silu);
const struct kernel kernel_silu_grad = KERNEL(silu_grad);
const struct kernel kernel_softcap = KERNEL(softcap);
const struct kernel kernel_softcap_grad = KERNEL(softcap_grad);
