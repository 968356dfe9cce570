/*
 * define_rules - the definition of each composite, define_NAME, declared from ops.def,
 * and small steps that several of them share.
 */
#ifndef GRAPH_DEFINE_RULES_H
#define GRAPH_DEFINE_RULES_H

#include "graph/define.h"

#define DEFINE_RULE_PRIMITIVE(name)
#define DEFINE_RULE_COMPOSITE(name) void define_##name(struct define *define);
#define DEFINE_RULE_GRADIENT(name)
#define OP(NAME, name, kind, min_inputs, max_inputs, n_outputs) DEFINE_RULE_##kind(name)
#include "graph/ops.def"
#undef OP
#undef DEFINE_RULE_PRIMITIVE
#undef DEFINE_RULE_COMPOSITE
#undef DEFINE_RULE_GRADIENT

/* The type that norms, softmax, losses and activations are computed in: f64 for f64
 * operands, else f32. */
enum dtype define_math_dtype(enum dtype dtype);

/* x itself where it has that type already. */
struct value *define_cast(struct graph *graph, struct value *x, enum dtype dtype);

/* cast to the type of define_math_dtype. */
struct value *define_widen(struct graph *graph, struct value *x);

/* A scalar, or a value of the trailing or any other dimensions `axes`, spread over the
 * shape of `like`, placed as `like` is. */
struct value *define_spread(struct graph *graph, struct value *x,
                            const struct value *like, const int *axes);

/* An input of a loop's body for a value of the graph around it. */
struct value *define_argument(struct graph *body, const char *name,
                              const struct value *outer);

/*
 * ids of rows of a table, as gather_rows wants them: where the table is split by rows
 * they count from the rank's own first row. Those equal to `dropped` become -1, a row
 * that does not exist (pass -1 to keep all).
 */
struct value *define_local_ids(struct graph *graph, const struct value *table,
                               struct value *ids, int64_t dropped);

#endif
