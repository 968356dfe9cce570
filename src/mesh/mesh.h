/*
 * mesh - the ranks of a job as a grid, and groups of ranks along one axis. Pure
 * arithmetic.
 *
 * Axes are replica x shard x tensor; a rank's number is row-major in that order, so
 * ranks that differ only in `tensor` are neighbours.
 */
#ifndef MESH_MESH_H
#define MESH_MESH_H

#include "base/base.h"

enum mesh_axis {
    MESH_REPLICA, /* whole copies of the state; different rows */
    MESH_SHARD,   /* state in parts, gathered for use (FSDP); different rows */
    MESH_TENSOR,  /* matrices in parts; the same rows */
    MESH_N_AXES
};

struct mesh {
    int size[MESH_N_AXES]; /* each at least 1 */
};

/* One rank. */
struct mesh mesh_single(void);

int mesh_n_ranks(const struct mesh *mesh);
const char *mesh_axis_name(enum mesh_axis axis); /* "shard" */

/* Where `rank` stands along `axis`, 0 .. size - 1. */
int mesh_coordinate(const struct mesh *mesh, int rank, enum mesh_axis axis);

/* The rank that is `coordinate` along `axis` and otherwise stands where `rank` does. */
int mesh_neighbour(const struct mesh *mesh, int rank, enum mesh_axis axis,
                   int coordinate);

#endif
