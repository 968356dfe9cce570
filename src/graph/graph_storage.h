/*
 * graph_storage - which values of a graph are the same memory.
 *
 * A view (reshape, contiguous slice ...) is its operand's memory, and a result that
 * must overwrite an operand (accumulators, optimizer state) takes that operand's.
 * Values that hang together like this form a group; its root is the value that was
 * there first.
 *
 * A *version* of a group is what it holds between two overwritings: the values that are
 * not derived from an overwriting node's result are lost when that node runs, so every
 * other reader of them has to come before it.
 */
#ifndef GRAPH_GRAPH_STORAGE_H
#define GRAPH_GRAPH_STORAGE_H

#include "graph/graph.h"

struct graph_storage {
    const struct graph *graph;
    const struct value **values; /* by value id */
    int *parent;                 /* by value id: whose memory it is directly, or -1 */
    int *root;                   /* by value id */
    size_t *offset;              /* by value id: bytes from the start of the root */
    int *next_member;            /* by value id: next of the group, or -1 */
    int *first_member;           /* by value id of a root */
    int *reader_start;           /* readers[reader_start[id] .. reader_start[id + 1]) */
    struct node **readers;       /* in program order; a node once per operand */
    int *position;               /* by node id, in program order */
};

/* breaks_alias: by node id, nodes whose overwritten operand will be a copy (NULL:
 * none). */
struct graph_storage graph_storage_create(const struct graph *graph,
                                          const bool *breaks_alias);
void graph_storage_deinit(struct graph_storage *storage);

/* Is `value` (an id) the result of `node`, or made from that in the same memory? */
bool graph_storage_is_derived(const struct graph_storage *storage, int value,
                              const struct node *node);

#endif
