/*
 * emit_rules - emit_op_NAME(emit) for every primitive of ops.def: writes the node
 * emit->node and names its results.
 */
#ifndef BACKEND_XLA_EMIT_RULES_H
#define BACKEND_XLA_EMIT_RULES_H

struct emit;

#define EMITTER_PRIMITIVE(name) void emit_op_##name(struct emit *emit);
#define EMITTER_COMPOSITE(name)
#define EMITTER_GRADIENT(name)
#define OP(NAME, name, kind, min_inputs, max_inputs, n_outputs) EMITTER_##kind(name)
#include "graph/ops.def"
#undef OP
#undef EMITTER_PRIMITIVE
#undef EMITTER_COMPOSITE
#undef EMITTER_GRADIENT

#endif
