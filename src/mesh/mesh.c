/*
 * mesh - rank numbers as coordinates and back. Row-major: the last axis is the fastest.
 */
#include "mesh/mesh.h"

/* Single-rank runs use the same graphs: every axis is there, of size 1. */
struct mesh mesh_single(void)
{
    return (struct mesh){.size = {1, 1, 1}};
}

/* Checked on the way: a mesh that somebody forgot to fill has axes of size 0. */
int mesh_n_ranks(const struct mesh *mesh)
{
    int n = 1;
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        ASSERT(mesh->size[axis] >= 1);
        n *= mesh->size[axis];
    }
    return n;
}

const char *mesh_axis_name(enum mesh_axis axis)
{
    static const char *const names[MESH_N_AXES] = {
        [MESH_REPLICA] = "replica",
        [MESH_SHARD] = "shard",
        [MESH_TENSOR] = "tensor",
    };
    ASSERT((int)axis >= 0 && axis < MESH_N_AXES);
    return names[axis];
}

/*
 * How far apart in rank number two neighbours along `axis` are. With
 *
 *     rank = (replica * n_shard + shard) * n_tensor + tensor
 *
 * that is the product of the sizes of the axes behind it.
 */
static int axis_stride(const struct mesh *mesh, enum mesh_axis axis)
{
    int stride = 1;
    for (int i = (int)axis + 1; i < MESH_N_AXES; i++) {
        stride *= mesh->size[i];
    }
    return stride;
}

int mesh_coordinate(const struct mesh *mesh, int rank, enum mesh_axis axis)
{
    ASSERT((int)axis >= 0 && axis < MESH_N_AXES);
    ASSERT(rank >= 0 && rank < mesh_n_ranks(mesh));
    return rank / axis_stride(mesh, axis) % mesh->size[axis];
}

int mesh_neighbour(const struct mesh *mesh, int rank, enum mesh_axis axis,
                   int coordinate)
{
    ASSERT(coordinate >= 0 && coordinate < mesh->size[axis]);
    /* Only the digit of this axis changes: move by whole strides. */
    const int here = mesh_coordinate(mesh, rank, axis);
    return rank + (coordinate - here) * axis_stride(mesh, axis);
}
