/*
 * verify - is this graph well formed? Run between passes.
 *
 * Order (operands before use), arity, every type equal to what infer gives, outputs
 * never partial unless `allows_partial_outputs` (accumulators reduced later), donors of
 * equal type and used once, unique names of arguments and outputs, names of stacked
 * parameters, bodies of repeats. Values that come from reduce_max over a split
 * dimension reach nothing but moves, casts and an all_reduce of kind max, which takes
 * nothing else.
 */
#ifndef GRAPH_VERIFY_H
#define GRAPH_VERIFY_H

#include "graph/graph.h"

MUST_USE bool verify_graph(const struct graph *graph, bool allows_partial_outputs,
                           struct error *err);

#endif
