/*
 * same_results - two graphs that should mean the same, run on the CPU engine from the same
 * arguments (filled by name, so that their order may differ).
 */
#ifndef SUPPORT_SAME_RESULTS_H
#define SUPPORT_SAME_RESULTS_H

#include "graph/graph.h"

/* A copy, node by node: for passes and engines that take the graph. */
struct graph *same_results_copy(const struct graph *graph);

/* Fails the test unless each output of `before` is the output of that name of `after`:
 * bit by bit (tolerance 0) or within `tolerance` in relative L2 (floats). Verifies both. */
void same_results_check(const struct graph *before, const struct graph *after,
                        double tolerance);

#endif
