/*
 * random_graph - small graphs for tests of passes and of the memory plan: elementwise ops,
 * products, views, accumulators, outputs with and without donors, from a number.
 */
#ifndef TESTS_RANDOM_GRAPH_H
#define TESTS_RANDOM_GRAPH_H

#include "graph/graph.h"

struct random_graph_options {
    int n_nodes;        /* ops beside arguments */
    bool has_overwrite; /* accumulators and outputs with donors */
};

/* The same graph for the same seed. All values are finite for inputs within [-1, 1]. */
struct graph *random_graph_create(uint64_t seed, const struct random_graph_options *o);

#endif
