/*
 * comparison - one graph on the CPU engine and on XLA, from the same host memory.
 */
#ifndef TOOLS_COMPARISON_H
#define TOOLS_COMPARISON_H

#include "graph/graph.h"

struct error;
struct pjrt;

/* Both engines' results of a graph. outputs: [replica * n_outputs + i], of the graph's
 * types; `graph` is a copy that stays valid. */
struct comparison {
    struct graph *graph;
    void **arguments; /* [replica * n_arguments + i], filled by the caller */
    void **cpu, **xla;
    int n_ranks;
    double compile_s; /* of XLA, seconds */
    size_t text_bytes;
};

/* Memory for all arguments, zeroed. The graph is copied. */
struct comparison *comparison_create(const struct graph *graph);
void comparison_destroy(struct comparison *comparison);

/* Runs both; is_tiled picks the form of composites that XLA gets. */
MUST_USE bool comparison_run(struct comparison *comparison, struct pjrt *pjrt,
                             bool is_tiled, struct error *err);

/* ||xla - cpu|| / ||cpu|| of output `i` over all ranks; absolute where cpu is zero. */
double comparison_difference(const struct comparison *comparison, int i);

/* Elements of a numeric array as doubles. */
double comparison_element(enum dtype dtype, const void *data, int64_t i);

#endif
