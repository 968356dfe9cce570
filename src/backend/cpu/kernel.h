/*
 * kernel - what the CPU executor asks of the code for one op.
 *
 * A kernel runs a node as a fixed number of phases, each a grid of independent tasks;
 * the executor shares out the tasks of all local ranks together and puts a barrier
 * between phases. Grids depend on shapes only and each task writes its own part, in a
 * fixed order of sums: so the same bits come out at any number of threads.
 *
 * Operands and results are contiguous, row-major. Kernels allocate nothing; scratch
 * comes from the plan (per node and rank, kept over the phases) and from the thread.
 */
#ifndef BACKEND_CPU_KERNEL_H
#define BACKEND_CPU_KERNEL_H

#include "graph/graph.h"

struct gemm;
struct native;

struct kernel_rank {
    void *const *inputs;  /* by operand */
    void *const *outputs; /* by result; an aliased result equals its operand */
    void *scratch;        /* scratch_bytes, not cleared */
};

struct kernel_call {
    const struct node *node;
    const struct mesh *mesh;
    int first_rank, n_ranks;         /* the local ranks */
    const struct kernel_rank *ranks; /* by local rank: collectives read them all */
    const struct gemm *gemm;         /* single-threaded products */
    const struct native *native;     /* vectorised inner loops for this processor */
    size_t loss_head_bytes;
};

struct kernel {
    /* True if `run` takes the node. NULL: it takes f32 (no f64, bf16, f16 operand).
     * Nodes of composites that it does not take run by their definition. */
    bool (*supports)(const struct node *node);
    /* Each NULL entry means: 0 bytes, 1 phase, 1 task. */
    size_t (*scratch_bytes)(const struct node *node, size_t loss_head_bytes);
    size_t (*thread_bytes)(const struct node *node); /* per thread, uninitialised */
    int (*n_phases)(const struct node *node, size_t loss_head_bytes);
    int64_t (*n_tasks)(const struct node *node, int phase, size_t loss_head_bytes);
    void (*run)(const struct kernel_call *call, int local_rank, int phase, int64_t task,
                void *thread_scratch);
};

/* kernel_of(op): the table made from ops.def. Ops that never run (arguments, repeats,
 * composites that are always lowered) have run NULL. */
const struct kernel *kernel_of(enum op op);

/* False: the node must be lowered to its definition before it can run. */
bool kernel_takes(const struct node *node);

/* For `supports`: no operand is f64, bf16 or f16. */
bool kernel_takes_f32(const struct node *node);

/* For `supports`: ranks hold different rows (dimension 0) of x. */
bool kernel_is_split_by_rows(const struct value *x);

/* Elements per task of elementwise kernels. */
enum { KERNEL_CHUNK = 16384 };

#endif
