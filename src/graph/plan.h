/*
 * plan - where every value of an ordered graph lives, before anything runs.
 *
 * Values that are arguments or outputs live in buffers of the caller; all others in one
 * arena per rank, at offsets such that no two values that are alive at once overlap.
 * Views and in-place results share their operand's storage. Each node may have scratch,
 * alive while it runs.
 */
#ifndef GRAPH_PLAN_H
#define GRAPH_PLAN_H

#include "graph/graph.h"

enum plan_kind {
    PLAN_ARENA,    /* base + offset in the arena */
    PLAN_ARGUMENT, /* buffer of argument `index` (+ offset for views) */
    PLAN_OUTPUT,   /* buffer of output `index` */
    PLAN_NONE,     /* never read, never written */
};

/* Where one value is while the program runs. */
struct plan_slot {
    enum plan_kind kind;
    int index;     /* of the argument or output; 0 otherwise */
    size_t offset; /* bytes */
};

struct plan {
    size_t arena_bytes;      /* per rank */
    struct plan_slot *slots; /* by value id */
    size_t *scratch_offsets; /* by position in program order */
    int n_slots, n_nodes;    /* lengths of the two arrays */
};

enum { PLAN_ALIGNMENT = 64 };

/* Scratch that the engine's kernel for this node needs, in bytes per rank. */
typedef size_t (*plan_scratch_fn)(const struct node *node, void *context);

struct plan *plan_create(const struct graph *ordered, plan_scratch_fn scratch,
                         void *context);
void plan_destroy(struct plan *plan); /* takes NULL */

/* For tests and reports: highest sum of live bytes over the program (a lower bound of
 * arena_bytes). */
size_t plan_live_peak(const struct graph *ordered, plan_scratch_fn scratch,
                      void *context);

#endif
