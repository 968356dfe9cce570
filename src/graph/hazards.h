/*
 * hazards - which nodes must run before which, beyond what they read.
 *
 * A node that overwrites memory runs after all other readers of what is lost: of every
 * version of an accumulator or optimizer state, and of an argument whose buffer an
 * output takes over (its donor). Where a reader can only run later, or the memory is
 * not the graph's to overwrite, a copy is needed; hazards_find says which.
 */
#ifndef GRAPH_HAZARDS_H
#define GRAPH_HAZARDS_H

#include "graph/graph.h"
#include "graph/graph_storage.h"

/* `before` reads what `after` overwrites. */
struct hazard {
    const struct node *before, *after;
    int next; /* of the hazards with the same `after`, -1 = last */
};

struct hazards {
    struct graph_storage storage; /* with the copies of copies_operand */
    struct hazard *list;          /* [n] */
    size_t n, capacity;
    int *first;           /* by node id of `after`, -1 = none */
    bool *copies_operand; /* by node id: the overwritten operand must be a copy */
    bool *copies_output;  /* by output: the value must be copied into the output */
    bool turns_back;      /* some hazard goes against program order */
};

/* Freed by hazards_deinit. The edges are those of the graph with the copies it asks
 * for. */
struct hazards hazards_find(const struct graph *graph);
void hazards_deinit(struct hazards *hazards);

#endif
