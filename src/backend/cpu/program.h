/*
 * program - a graph made ready for the CPU engine: lowered, ordered, planned, and every
 * operand of every node resolved to an address before it runs.
 */
#ifndef BACKEND_CPU_PROGRAM_H
#define BACKEND_CPU_PROGRAM_H

#include "backend/cpu/engine.h"
#include "backend/cpu/kernel.h"
#include "graph/plan.h"

/* A copy that must come first: results that overwrite an operand which lives elsewhere,
 * views that the plan could not place on their operand, outputs that are arguments. */
struct program_copy {
    int input, output; /* of the node */
    size_t offset;     /* into the input */
    size_t bytes;
};

/* One node that does something. */
struct program_step {
    const struct node *node;
    const struct kernel *kernel;
    struct kernel_rank *ranks; /* by local rank */
    struct program_copy *copies;
    int n_copies;
    bool is_view;          /* nothing to run but its copy */
    bool is_small;         /* all tasks of all ranks take less than waking a thread */
    int n_phases;          /* the loss head has several per chunk: hundreds */
    int64_t *n_tasks;      /* by phase */
    size_t scratch_offset; /* in the arena */
    double flops;          /* matmul: of one rank; else 0 */

    int64_t time_ns, n_runs; /* profile */
};

/* Where a value lives; index and offset as in the plan. */
struct program_place {
    void **address; /* into some kernel_rank's operands */
    int local_rank;
    enum plan_kind kind;
    int index;
    size_t offset;
};

/* Argument i of the ordered graph: part of a buffer that the caller passes. */
struct program_argument {
    int buffer;    /* index among the caller's arguments */
    size_t offset; /* bytes; not 0 for slices of a stacked parameter */
};

/* Output whose value was not computed in its buffer. */
struct program_delivery {
    int output;
    struct plan_slot slot;
    size_t bytes;
};

struct cpu_program {
    struct program base;
    struct graph *ordered;
    struct plan *plan;
    struct arena *memory; /* everything below */

    struct program_step *steps;
    int n_steps;
    struct program_argument *arguments;

    struct program_place *places; /* all operands; those in the arena last */
    int n_places, n_outside;      /* the first n_outside change with the buffers */
    uint64_t arena_version;       /* that the rest were resolved for */

    struct program_delivery *deliveries;
    int n_deliveries;

    size_t arena_bytes, thread_bytes;
    struct cpu_program *next; /* of the engine */
};

MUST_USE struct program *program_create(struct engine *engine,
                                        struct graph *owned_graph, struct error *err);
void program_destroy(struct program *program);
size_t program_bytes(const struct program *program);
size_t program_plan_bytes(struct engine *engine, const struct graph *graph);

#endif
