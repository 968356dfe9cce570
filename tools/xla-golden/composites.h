/*
 * composites - a small graph per composite: its results, and the gradients of all its
 * float operands where it has any.
 */
#ifndef TOOLS_COMPOSITES_H
#define TOOLS_COMPOSITES_H

#include "graph/graph.h"

int composites_count(void);
const char *composites_name(int i);
bool composites_is_tiled(int i); /* has a definition with a loop */
struct graph *composites_create(int i);

/* Sets integer arguments that need sense: "position", "first_key", "rows", "targets". */
void composites_fill(const struct graph *graph, void *const *arguments);

#endif
