/*
 * placement - comparing, printing, and the numbering of blocks.
 *
 * Block numbers of a dimension that several axes split are mixed-radix: replica is the
 * most significant digit, then tensor, then shard. Shard comes last on purpose: state
 * is gathered over shard for use, and what a tensor rank then holds has to be one run.
 */
#include "mesh/placement.h"

#include <stdio.h>

/* The axes from the most to the least significant digit of a block number. */
static const enum mesh_axis significance[MESH_N_AXES] = {
    MESH_REPLICA,
    MESH_TENSOR,
    MESH_SHARD,
};

/* PLACE_SAME is 0, so a zeroed placement is this one. */
struct placement placement_same(void)
{
    return (struct placement){.axis = {{PLACE_SAME, 0}}};
}

struct placement placement_split(enum mesh_axis axis, int dim)
{
    return placement_with(placement_same(), axis, PLACE_SPLIT, dim);
}

/* dim is kept at 0 for the other kinds, so that equal placements have equal fields. */
struct placement placement_with(struct placement placement, enum mesh_axis axis,
                                enum place_kind kind, int dim)
{
    ASSERT((int)axis >= 0 && axis < MESH_N_AXES);
    ASSERT(dim >= 0);
    placement.axis[axis].kind = kind;
    placement.axis[axis].dim = kind == PLACE_SPLIT ? dim : 0;
    return placement;
}

bool placement_equal(const struct placement *a, const struct placement *b)
{
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (a->axis[axis].kind != b->axis[axis].kind ||
            a->axis[axis].dim != b->axis[axis].dim) {
            return false;
        }
    }
    return true;
}

bool placement_is_same(const struct placement *placement)
{
    const struct placement same = placement_same();
    return placement_equal(placement, &same);
}

/* Such a value is not what a rank holds but a sum that nobody has formed yet. */
bool placement_has_partial(const struct placement *placement)
{
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (placement->axis[axis].kind == PLACE_PARTIAL) {
            return true;
        }
    }
    return false;
}

const char *placement_format(char buffer[96], const struct placement *placement)
{
    size_t length = 0;
    buffer[0] = '\0';
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        const struct place place = placement->axis[axis];
        if (place.kind == PLACE_SAME) {
            continue;
        }
        char kind[20] = "partial";
        if (place.kind == PLACE_SPLIT) {
            snprintf(kind, sizeof(kind), "split %d", place.dim);
        }
        length +=
            (size_t)snprintf(buffer + length, 96 - length, "%s%s: %s",
                             length == 0 ? "{" : ", ", mesh_axis_name(axis), kind);
        ASSERT(length < 95);
    }
    if (length > 0) {
        snprintf(buffer + length, 96 - length, "}");
    }
    return buffer;
}

/* True where `axis` cuts dimension `dim`. */
static bool splits(const struct placement *placement, enum mesh_axis axis, int dim)
{
    return placement->axis[axis].kind == PLACE_SPLIT &&
           placement->axis[axis].dim == dim;
}

/* By the positions in `significance`. */
bool placement_is_major(enum mesh_axis a, enum mesh_axis b)
{
    int position_a = 0;
    int position_b = 0;
    for (int i = 0; i < MESH_N_AXES; i++) {
        position_a = significance[i] == a ? i : position_a;
        position_b = significance[i] == b ? i : position_b;
    }
    return position_a < position_b;
}

/* A block of the finest axis lies next to its neighbours' along that axis; with a finer
 * axis inside, other ranks' blocks come between. */
bool placement_is_finest(const struct placement *placement, enum mesh_axis axis)
{
    if (placement->axis[axis].kind != PLACE_SPLIT) {
        return false;
    }
    for (int other = 0; other < MESH_N_AXES; other++) {
        if (splits(placement, other, placement->axis[axis].dim) &&
            placement_is_major(axis, other)) {
            return false;
        }
    }
    return true;
}

/* Every axis that cuts the dimension multiplies the blocks. */
int placement_n_blocks(const struct placement *placement, const struct mesh *mesh,
                       int dim)
{
    int n = 1;
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        n *= splits(placement, axis, dim) ? mesh->size[axis] : 1;
    }
    return n;
}

/* The rank's coordinates on the axes that cut `dim`, as digits, major one first. */
int placement_block(const struct placement *placement, const struct mesh *mesh,
                    int rank, int dim)
{
    int block = 0;
    for (int i = 0; i < MESH_N_AXES; i++) {
        const enum mesh_axis axis = significance[i];
        if (splits(placement, axis, dim)) {
            block = block * mesh->size[axis] + mesh_coordinate(mesh, rank, axis);
        }
    }
    return block;
}
