/*
 * stablehlo - a graph of primitives as StableHLO text, the way in to XLA.
 *
 * The module is for one replica per rank (num_replicas = ranks of the mesh, one
 * partition): shapes are local and collectives name their groups of ranks. Arguments
 * and results of `main` are those of the graph, in order; an argument that is an
 * output's donor is marked as aliasing it. A line is one node, or one step of a node
 * that has no op of its own there; its location is the node's name.
 *
 *     struct graph *lowered = rewrite_lower(graph, NULL, true);
 *     struct str text = {0};
 *     if (!stablehlo_print(lowered, "step", &text, err)) ...
 */
#ifndef BACKEND_XLA_STABLEHLO_H
#define BACKEND_XLA_STABLEHLO_H

#include "base/str.h"
#include "graph/graph.h"

struct error;

/*
 * stablehlo_print(graph, name, out, err): appends the module called `name` (letters,
 * digits, underscores) to `out`. Composites are an error that names the node: lower
 * first.
 */
MUST_USE bool stablehlo_print(const struct graph *graph, const char *name,
                              struct str *out, struct error *err);

#endif
