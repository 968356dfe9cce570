/*
 * print - a stable text form of a graph, one line per node, for people, dumps and
 * tests:
 *
 *     %7 = matmul(%3, %5) {transpose_b} : f32[512,640]  # layers.0.mlp.down
 */
#ifndef GRAPH_PRINT_H
#define GRAPH_PRINT_H

#include "base/str.h"
#include "graph/graph.h"

void print_graph(const struct graph *graph, struct str *out);

#endif
