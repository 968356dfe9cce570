/*
 * emit_table - which emitter writes which op, made from ops.def: a primitive without an
 * emitter is a link error.
 */
#include "backend/xla/emit.h"
#include "backend/xla/emit_rules.h"

#define ENTRY_PRIMITIVE(name) emit_op_##name,
#define ENTRY_COMPOSITE(name) NULL,
#define ENTRY_GRADIENT(name)  NULL,

static const emit_fn emitters[OP_COUNT] = {
#define OP(NAME, name, kind, min_inputs, max_inputs, n_outputs) ENTRY_##kind(name)
#include "graph/ops.def"
#undef OP
};

emit_fn emit_of(enum op op)
{
    return emitters[op];
}

/* The graph is in topological order, so one walk is enough. */
void emit_nodes(struct emit *emit, const struct graph *graph)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        emit->node = graph->nodes[i];
        emit_of(emit->node->op)(emit);
    }
}
