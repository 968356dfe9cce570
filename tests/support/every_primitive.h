/*
 * every_primitive - one graph that holds every primitive of ops.def at least once, on a
 * mesh of 2 x 2 ranks (shard, tensor), an output for each.
 *
 * The StableHLO printer is tested on it, and tools/xla-golden runs it on both engines.
 */
#ifndef SUPPORT_EVERY_PRIMITIVE_H
#define SUPPORT_EVERY_PRIMITIVE_H

#include "graph/graph.h"

struct graph *every_primitive_create(void);

#endif
