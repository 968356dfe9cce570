/*
 * infer_rule - what the infer_*.c files share: one rule per primitive, and ways to say
 * which part of it is broken.
 *
 * Placement rules are per mesh axis: a rule looks at the places of the operands on one
 * axis and gives the place of the result there, or rejects them. What no rule names is
 * rejected, so a mix that would be wrong numbers is an error when the graph is built.
 */
#ifndef GRAPH_INFER_RULE_H
#define GRAPH_INFER_RULE_H

#include "base/error.h"
#include "graph/infer.h"

/* infer_NAME for every primitive of ops.def. */
#define INFER_DECLARE_PRIMITIVE(name) \
    bool infer_##name(struct infer *infer, struct error *err);
#define INFER_DECLARE_COMPOSITE(name)
#define INFER_DECLARE_GRADIENT(name)
#define OP(NAME, name, kind, min_inputs, max_inputs, n_outputs) \
    INFER_DECLARE_##kind(name)
#include "graph/ops.def"
#undef OP

/* "matmul(f32[4,8], f32[8,2]): REASON"; returns false, always. */
PRINTF_LIKE(3, 4)
bool infer_reject(const struct infer *infer, struct error *err, const char *format,
                  ...);

/* As infer_reject, with the reason "on the shard axis: RULE" for operands whose places
 * no line of the op's table accepts. */
bool infer_reject_places(const struct infer *infer, struct error *err,
                         enum mesh_axis axis, const char *rule);

/* Sets the only result: dtype, shape and placement. Returns true. */
bool infer_result(struct infer *infer, enum dtype dtype, struct shape shape,
                  struct placement placement);

/* The place of operand `input` on a mesh axis. */
struct place infer_place(const struct infer *infer, int input, enum mesh_axis axis);
bool infer_place_equal(struct place a, struct place b);

/* Operand `input` is a scalar of this dtype, the same on all ranks, or says what it
 * must be (`what`: "keep"). */
MUST_USE bool infer_scalar_same(const struct infer *infer, int input, enum dtype dtype,
                                const char *what, struct error *err);

/* `axis` is a dimension of operand 0, or says that there is none. */
MUST_USE bool infer_axis_in_range(const struct infer *infer, int axis,
                                  struct error *err);

#endif
