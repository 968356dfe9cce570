/*
 * plan_pack - offsets for buffers whose lifetimes are known: dynamic storage
 * allocation.
 *
 * Two buffers that live at the same time must not overlap. Finding the smallest arena
 * is NP-hard; up to PLAN_PACK_EXACT buffers are solved exactly, more by the best of
 * several orders of placing, improved by placing first what stuck out.
 */
#ifndef GRAPH_PLAN_PACK_H
#define GRAPH_PLAN_PACK_H

#include "base/base.h"

enum { PLAN_PACK_EXACT = 8 };

struct plan_pack_item {
    size_t bytes;   /* a multiple of the alignment */
    int start, end; /* lives from start to end, both included */
    size_t offset;  /* set by plan_pack_items */
};

/* Sets the offsets; returns the size of the arena. */
size_t plan_pack_items(struct plan_pack_item *items, int n);

/* Highest sum of bytes alive at once: no arena can be smaller. */
size_t plan_pack_peak(const struct plan_pack_item *items, int n);

#endif
