/*
 * emit - what the emitters of single ops share: numbering, types, lines, helpers.
 *
 * Every line defines %N with a new number; numbers run through the whole module, bodies
 * of loops included. Texts (names, types) live in the module's arena.
 */
#ifndef BACKEND_XLA_EMIT_H
#define BACKEND_XLA_EMIT_H

#include "base/arena.h"
#include "base/str.h"
#include "graph/graph.h"

/* One op's emitter: writes its lines and names its results (emit_bind). */
struct emit;
typedef void (*emit_fn)(struct emit *emit);

struct emit {
    const struct mesh *mesh;
    struct arena *arena;
    struct str *out;
    int n_numbers;
    int depth;               /* indentation, in steps of two spaces */
    const struct node *node; /* being written */
    const char **names;      /* by value id of the graph (or body) being written */
};

/* The emitter of a primitive, NULL for composites. */
emit_fn emit_of(enum op op);

/* Writes all nodes of a graph (arguments are named by the caller). */
void emit_nodes(struct emit *emit, const struct graph *graph);

/* Writes "%N = TEXT loc(NAME OF NODE)"; returns "%N". */
PRINTF_LIKE(2, 3)
const char *emit_line(struct emit *emit, const char *format, ...);

/* Writes an indented line as it is. */
PRINTF_LIKE(2, 3) void emit_raw(struct emit *emit, const char *format, ...);

/* The location of the node being written: loc("layers.3.mlp.down"). */
const char *emit_location(struct emit *emit);

/* A new name, "%N". */
const char *emit_number(struct emit *emit);

/* Names output `index` of the node being written. */
void emit_bind(struct emit *emit, int index, const char *name);

/* Name and type of operand `i`; type of output 0. */
const char *emit_operand(const struct emit *emit, int i);
const struct type *emit_operand_type(const struct emit *emit, int i);
const struct type *emit_result_type(const struct emit *emit);

/* "tensor<4x8xf32>" */
const char *emit_type(struct emit *emit, const struct type *type);
const char *emit_shape(struct emit *emit, enum dtype dtype, const struct shape *shape);
const char *emit_scalar_type(struct emit *emit, enum dtype dtype);
const char *emit_element(enum dtype dtype); /* "f32", "i1" */

/* "(tensor<4xf32>) -> tensor<4xi32>": from operand 0 to output 0. */
const char *emit_arrow(struct emit *emit);

/* "[1, 0, 2]" */
const char *emit_list(struct emit *emit, const int64_t *items, int n);
const char *emit_int_list(struct emit *emit, const int *items, int n);

/* A number as the dtype's literal, exact: "1.250000000e+00", "0xFF800000", "true". */
const char *emit_literal(struct emit *emit, enum dtype dtype, double value);

/* ---- helpers that write lines; they return the new name ---- */

const char *emit_constant(struct emit *emit, enum dtype dtype,
                          const struct shape *shape, double value);
const char *emit_scalar(struct emit *emit, enum dtype dtype, double value);
const char *emit_convert(struct emit *emit, const char *x, const struct shape *shape,
                         enum dtype from, enum dtype to);

/* A scalar stretched to a shape. */
const char *emit_fill(struct emit *emit, const char *scalar, enum dtype dtype,
                      const struct shape *shape);

/* Operand `i`, stretched to `shape` when it is a scalar and that is not. */
const char *emit_stretched(struct emit *emit, int i, const struct shape *shape);

/* "stablehlo.add", two operands and a result of one type. */
const char *emit_binary(struct emit *emit, const char *op, const char *a, const char *b,
                        enum dtype dtype, const struct shape *shape);

/* i32 scalar: entry `rank` of a table over all ranks. */
const char *emit_rank_table(struct emit *emit, const int64_t *by_rank);

/* dynamic_slice along one axis, start an i32 scalar. */
const char *emit_slice_at(struct emit *emit, const char *x, const struct type *type,
                          const char *start, int axis, int64_t size);

/* `part` written into x at `start` (i32 scalar) along one axis. */
const char *emit_update_at(struct emit *emit, const char *x, const struct type *type,
                           const char *part, const struct type *part_type,
                           const char *start, int axis);

/*
 * An op with a region over scalars: emit_begin_region writes "%N = TEXT" and returns
 * "%N", emit_region what adds (or takes the larger of) two scalars, emit_end_region
 * TEXT and the location.
 */
PRINTF_LIKE(2, 3)
const char *emit_begin_region(struct emit *emit, const char *format, ...);
void emit_region(struct emit *emit, const char *op, enum dtype dtype);
PRINTF_LIKE(2, 3) void emit_end_region(struct emit *emit, const char *format, ...);

struct shape emit_scalar_shape(void);

#endif
