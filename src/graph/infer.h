/*
 * infer - result types of a node from its operands and attributes: shapes, dtypes and
 * placements, one rule per op (infer_NAME). Composites: from their definition.
 */
#ifndef GRAPH_INFER_H
#define GRAPH_INFER_H

#include "graph/graph.h"

/* A node to be: what the rule reads, and where it leaves the result. */
struct infer {
    const struct mesh *mesh; /* sizes of the axes, for collectives */
    enum op op;
    int n_inputs;
    const struct type *inputs;           /* types of the operands */
    const struct attributes *attributes; /* borrowed from the node or the caller */
    const struct graph *body;            /* repeat */
    int n_outputs;                       /* set by the rule */
    struct type *outputs; /* set by the rule; room for INFER_MAX_OUTPUTS */
};

enum { INFER_MAX_OUTPUTS = 64 };

/* Fills n_outputs and outputs, or says which rule is broken. */
MUST_USE bool infer_types(struct infer *infer, struct error *err);

#endif
