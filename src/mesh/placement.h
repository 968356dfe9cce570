/*
 * placement - how the ranks hold one value; part of its type.
 *
 * Per mesh axis a value is
 *   same     every rank of the axis holds equal elements;
 *   split d  each holds its part of dimension d: rank c of n holds block c of n equal
 *            blocks (shapes in the graph are local: the block's);
 *   partial  the value is the sum over the ranks of what they hold.
 *
 * Several axes may split one dimension: the blocks are numbered with replica as the
 * major axis, then tensor, then shard. (Rows of the batch are split over replica and
 * shard in rank order; a matrix split over tensor and shard along its rows is, once
 * gathered over shard, one run of rows per tensor rank.)
 */
#ifndef MESH_PLACEMENT_H
#define MESH_PLACEMENT_H

#include "mesh/mesh.h"

enum place_kind { PLACE_SAME, PLACE_SPLIT, PLACE_PARTIAL };

struct place {
    enum place_kind kind;
    int dim; /* of PLACE_SPLIT; 0 otherwise */
};

struct placement {
    struct place axis[MESH_N_AXES]; /* all zero: the same everywhere */
};

struct placement placement_same(void);
struct placement placement_split(enum mesh_axis axis, int dim);

/* A copy of `placement` with one axis changed. */
struct placement placement_with(struct placement placement, enum mesh_axis axis,
                                enum place_kind kind, int dim);

bool placement_equal(const struct placement *a, const struct placement *b);
bool placement_is_same(const struct placement *placement);
bool placement_has_partial(const struct placement *placement);

/* "", or for example "{shard: split 0, tensor: partial}". Returns `buffer`. */
const char *placement_format(char buffer[96], const struct placement *placement);

/* True where `axis` splits a dimension and no other axis cuts that dimension's blocks
 * finer: only then is a gather over `axis` one run of it. */
bool placement_is_finest(const struct placement *placement, enum mesh_axis axis);

/* True when axis `a` comes before `b` in the numbering of blocks above. */
bool placement_is_major(enum mesh_axis a, enum mesh_axis b);

/* Into how many blocks dimension `dim` is cut over the whole mesh. */
int placement_n_blocks(const struct placement *placement, const struct mesh *mesh,
                       int dim);

/* Which of these blocks `rank` holds. */
int placement_block(const struct placement *placement, const struct mesh *mesh,
                    int rank, int dim);

#endif
