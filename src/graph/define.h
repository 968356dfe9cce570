/*
 * define - what composites mean: define_NAME writes an op in primitives.
 *
 * Native kernels and their gradients are tested against these; engines without a kernel
 * run them. The definition of X_grad is the autodiff of X's definition.
 */
#ifndef GRAPH_DEFINE_H
#define GRAPH_DEFINE_H

#include "graph/graph.h"

/* What a definition sees; it sets outputs[0 .. n_outputs). */
struct define {
    struct graph *graph; /* the definition is appended to it */
    int n_inputs;
    struct value *const *inputs;         /* operands, values of `graph` */
    const struct attributes *attributes; /* of the op; read by its own fields */
    int n_outputs;                       /* as define_n_outputs says */
    struct value **outputs;
    bool is_tiled; /* prefer the form with a loop, where there is one */
};

/* Writes the definition of a composite or gradient op into define->graph. */
void define_op(enum op op, struct define *define);

/* How many outputs the op has with these operands and attributes. */
int define_n_outputs(enum op op, int n_inputs, const struct attributes *attributes);

#endif
