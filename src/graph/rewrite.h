/*
 * rewrite - passes that make a new graph from an old one. The old one is left as it is;
 * arguments and outputs keep names, order and donors, unless the pass says otherwise.
 */
#ifndef GRAPH_REWRITE_H
#define GRAPH_REWRITE_H

#include "graph/graph.h"

/* A walk that copies `from` into a new graph; map[value id of from] = value in `to`. */
struct rewrite {
    const struct graph *from; /* borrowed; stays as it is */
    struct graph *to;
    struct value **map; /* NULL where nothing stands for a value yet */
};

struct rewrite rewrite_begin(const struct graph *from);
/* Copies one node with mapped inputs and maps its outputs. */
struct node *rewrite_copy(struct rewrite *rewrite, const struct node *node);
/* The same with other inputs, values of the new graph. */
struct node *rewrite_copy_with(struct rewrite *rewrite, const struct node *node,
                               struct value *const *inputs);
/* The node's inputs in the new graph, each mapped before; freed by mem_free. */
struct value **rewrite_inputs(const struct rewrite *rewrite, const struct node *node);
/* Copies the outputs list and frees the map; returns the new graph. */
struct graph *rewrite_end(struct rewrite *rewrite);

/* Composites and gradient ops replaced by their definitions: all of them, or those that
 * `wants` (NULL: all) picks. */
typedef bool (*rewrite_wants_fn)(const struct node *node);
/* is_tiled: definitions come in their form with loops where they have one
 * (define.h). */
struct graph *rewrite_lower(const struct graph *graph, rewrite_wants_fn wants,
                            bool is_tiled);

/*
 * Repeats unrolled, inner ones too. A stacked parameter becomes one parameter per slice
 * under its own name; other stacked operands are sliced. Each instance of an innermost
 * body gets its own `block`. Arguments change accordingly: stacked parameters are
 * replaced in place by their slices.
 */
struct graph *rewrite_expand(const struct graph *graph);

/*
 * Accumulation: for gradient output number i named outputs[i], adds arguments
 * "acc.NAME" (donor of the output) and folds the sum into the matmul, scatter_add_rows
 * or loss_head that makes the gradient where possible, an accumulate op otherwise.
 * `keep` is a new bool input "keep": false for the first micro-batch.
 */
struct graph *rewrite_accumulate(const struct graph *graph, int n,
                                 const char *const *outputs);

/*
 * Dead nodes removed; constants folded where trivial (x * 1, x + 0, casts to the same
 * type, reshape of reshape, transposes that cancel, slices of the whole, use_param that
 * does nothing); common subexpressions merged, not across barriers and not between
 * forward and recomputed nodes.
 */
struct graph *rewrite_simplify(const struct graph *graph);

/*
 * Weights stored in bf16 (f16) and used in f32: products and lookups read the parameter
 * itself, widened piece by piece, instead of a cast of the whole. For engines whose
 * kernels do so; nodes that are left without use go with the next rewrite_simplify.
 */
struct graph *rewrite_narrow(const struct graph *graph);

/*
 * Recomputation by block: within each block (>= 0) the forward values that backward
 * nodes read, other than the block's own inputs and those of `saves`, are computed
 * again just before the block's backward part, behind barriers.
 */
typedef bool (*rewrite_saves_fn)(const struct value *value);
struct graph *rewrite_recompute(const struct graph *graph, rewrite_saves_fn saves);

/*
 * Program order for execution: stable topological order with write-after-read edges for
 * every aliased or donated operand; a copy is inserted where an accumulator is read
 * after its overwriting and no order can help. Recomputed nodes come as late as
 * possible.
 */
struct graph *rewrite_order(const struct graph *graph);

#endif
