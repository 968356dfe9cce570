/*
 * infer_rows - looking up rows by number, and its transpose, adding rows by number.
 *
 * Places of gather_rows, per mesh axis; ids has rank s, table [V, ...]:
 *
 *     table          ids       result
 *     same           same      same
 *     same           split d   split d             each rank looks up its own ids
 *     split t (> 0)  same      split s + t - 1     each rank has part of every row
 *     split 0        same      partial             see below
 *     split 0        split d   split d             each rank has its own rows and ids,
 *                                                  which number the rank's rows
 *     partial        same      partial             linear in the table
 *
 * and of scatter_add_rows, whose result is placed as its accumulator:
 *
 *     acc            ids       rows
 *     same           same      same
 *     split t (> 0)  same      split s + t - 1
 *     split 0        same      same                see below
 *     partial        same      partial             linear in the rows
 *     partial        split d   split d             each rank adds its own rows
 *     split 0        split d   split d             to its own part
 *
 * A table split by rows (by vocabulary) is used with ids that count from the rank's own
 * first row, id - axis_index * V: rows of other ranks are out of range, which gives
 * zeros (adds nothing), so that the sum over the ranks is the whole.
 */
#include "graph/infer_rule.h"

/* All ranks of the axis hold equal elements. */
static bool is_same(struct place place)
{
    return place.kind == PLACE_SAME;
}

/* The result's place for a table's and ids' place, by the first table. */
static bool gather_place(struct place table, struct place ids, int ids_rank,
                         struct place *result)
{
    const bool is_own = table.kind == PLACE_SPLIT && table.dim == 0;
    if ((is_same(table) && ids.kind != PLACE_PARTIAL) ||
        (is_own && ids.kind == PLACE_SPLIT)) {
        *result = ids;
        return true;
    }
    if (table.kind == PLACE_SPLIT && table.dim > 0) {
        *result = (struct place){PLACE_SPLIT, ids_rank + table.dim - 1};
    } else {
        *result = (struct place){PLACE_PARTIAL, 0};
    }
    return is_same(ids);
}

/* Whether an accumulator's place goes with the operands', by the second table. */
static bool scatter_fits(struct place acc, struct place ids, struct place rows,
                         int ids_rank)
{
    if (!is_same(ids)) {
        const bool is_own = acc.kind == PLACE_SPLIT && acc.dim == 0;
        return (acc.kind == PLACE_PARTIAL || is_own) && ids.kind == PLACE_SPLIT &&
               infer_place_equal(ids, rows);
    }
    if (acc.kind == PLACE_SPLIT && acc.dim > 0) {
        return rows.kind == PLACE_SPLIT && rows.dim == ids_rank + acc.dim - 1;
    }
    if (acc.kind == PLACE_PARTIAL) {
        return rows.kind == PLACE_PARTIAL;
    }
    return is_same(rows);
}

/* [S..., ...] for ids [S...] and table [V, ...]. */
static bool rows_shape(const struct infer *infer, int table, int ids,
                       struct shape *shape, struct error *err)
{
    const struct shape *t = &infer->inputs[table].shape;
    const struct shape *s = &infer->inputs[ids].shape;
    if (infer->inputs[ids].dtype != DTYPE_I32) {
        return infer_reject(infer, err, "ids must be i32");
    }
    if (t->rank < 1 || s->rank + t->rank - 1 > SHAPE_MAX_RANK) {
        return infer_reject(infer, err,
                            "the table needs a first dimension, and rows at most "
                            "rank %d",
                            SHAPE_MAX_RANK);
    }
    /* The ids' dimensions, then those of a row. */
    *shape = *s;
    for (int i = 1; i < t->rank; i++) {
        shape->dim[shape->rank++] = t->dim[i];
    }
    return true;
}

/* [S..., ...]: a row of the table for each id. */
bool infer_gather_rows(struct infer *infer, struct error *err)
{
    const struct type *table = &infer->inputs[0];
    const int ids_rank = infer->inputs[1].shape.rank;
    struct shape shape;
    if (!rows_shape(infer, 0, 1, &shape, err)) {
        return false;
    }
    struct placement placement = placement_same();
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (!gather_place(infer_place(infer, 0, axis), infer_place(infer, 1, axis),
                          ids_rank, &placement.axis[axis])) {
            return infer_reject_places(infer, err, axis,
                                       "ids may be split where the table is same or "
                                       "split by rows, and must be same elsewhere");
        }
    }
    return infer_result(infer, table->dtype, shape, placement);
}

/* The accumulator decides: the result is the same memory. */
bool infer_scatter_add_rows(struct infer *infer, struct error *err)
{
    const struct type *acc = &infer->inputs[0];
    const struct type *rows = &infer->inputs[2];
    const int ids_rank = infer->inputs[1].shape.rank;
    struct shape shape;
    if (!rows_shape(infer, 0, 1, &shape, err)) {
        return false;
    }
    if (rows->dtype != acc->dtype || acc->dtype == DTYPE_BOOL ||
        !type_shape_equal(&rows->shape, &shape)) {
        return infer_reject(infer, err,
                            "rows must have the accumulator's dtype and one row per "
                            "id");
    }
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (!scatter_fits(infer_place(infer, 0, axis), infer_place(infer, 1, axis),
                          infer_place(infer, 2, axis), ids_rank)) {
            return infer_reject_places(
                infer, err, axis,
                "the accumulator must be partial (or split by "
                "rows) where ids and rows are split alike, "
                "partial where rows are, and otherwise be placed "
                "as the rows");
        }
    }
    if (infer->n_inputs == 4 && !infer_scalar_same(infer, 3, DTYPE_BOOL, "keep", err)) {
        return false;
    }
    return infer_result(infer, acc->dtype, acc->shape, acc->placement);
}
