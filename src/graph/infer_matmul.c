/*
 * infer_matmul - rules of contraction and reduction.
 *
 * Places of matmul, per mesh axis; batch, M, K and N are the parts that dimensions
 * play:
 *
 *     a            b            result
 *     same         same         same
 *     split batch  split batch  split batch   the same batch dimension
 *     split M      same         split M
 *     same         split N      split N
 *     split K      split K      partial       each rank sums over its part of K
 *     partial      same         partial       linear in a
 *     same         partial      partial       linear in b
 *
 * Everything else is rejected: partial times partial would lose the cross terms, and K
 * split on one side only pairs the wrong elements. An accumulator is placed as the
 * product, so that adding it makes sense on every axis.
 */
#include "graph/infer_rule.h"

/* What an operand's place on an axis means for the product. */
enum part {
    PART_SAME,
    PART_PARTIAL,
    PART_BATCH,
    PART_K,
    PART_FREE /* M of a, N of b */
};

/* What a's (b's) place on an axis means for the product. */
static enum part part_of(const struct infer *infer, int input, enum mesh_axis axis)
{
    const struct place place = infer_place(infer, input, axis);
    const int rank = infer->inputs[input].shape.rank;
    if (place.kind == PLACE_SAME) {
        return PART_SAME;
    }
    if (place.kind == PLACE_PARTIAL) {
        return PART_PARTIAL;
    }
    if (place.dim < rank - 2) {
        return PART_BATCH;
    }
    /* a is [.., M, K] and b is [.., K, N], each turned around by its flag. */
    const bool is_last = place.dim == rank - 1;
    const bool k_is_last =
        input == 0 ? !infer->attributes->transpose_a : infer->attributes->transpose_b;
    return is_last == k_is_last ? PART_K : PART_FREE;
}

/* One line of the table above per condition. */
static bool product_place(const struct infer *infer, enum mesh_axis axis,
                          struct place *result)
{
    const enum part a = part_of(infer, 0, axis);
    const enum part b = part_of(infer, 1, axis);
    const int rank = infer->inputs[0].shape.rank;
    if (a == PART_SAME && b == PART_SAME) {
        *result = (struct place){PLACE_SAME, 0};
        return true;
    }
    if (a == PART_BATCH && b == PART_BATCH) {
        *result = infer_place(infer, 0, axis);
        return infer_place_equal(*result, infer_place(infer, 1, axis));
    }
    if (a == PART_FREE && b == PART_SAME) {
        *result = (struct place){PLACE_SPLIT, rank - 2};
        return true;
    }
    if (a == PART_SAME && b == PART_FREE) {
        *result = (struct place){PLACE_SPLIT, rank - 1};
        return true;
    }
    *result = (struct place){PLACE_PARTIAL, 0};
    return (a == PART_K && b == PART_K) || (a == PART_PARTIAL && b == PART_SAME) ||
           (a == PART_SAME && b == PART_PARTIAL);
}

/* Shapes: equal leading dimensions, equal K. */
static bool product_shape(const struct infer *infer, struct shape *shape,
                          struct error *err)
{
    const struct shape *a = &infer->inputs[0].shape;
    const struct shape *b = &infer->inputs[1].shape;
    if (a->rank < 2 || a->rank != b->rank) {
        return infer_reject(infer, err,
                            "both operands must have the same rank, at least 2");
    }
    *shape = *a;
    for (int i = 0; i < a->rank - 2; i++) {
        if (a->dim[i] != b->dim[i]) {
            return infer_reject(infer, err, "leading dimensions must be equal");
        }
    }
    const int row = a->rank - 2;
    const int column = a->rank - 1;
    const bool ta = infer->attributes->transpose_a;
    const bool tb = infer->attributes->transpose_b;
    /* K of either operand, wherever its flag puts it. */
    const int64_t a_k = a->dim[ta ? row : column];
    const int64_t b_k = b->dim[tb ? column : row];
    if (a_k != b_k) {
        return infer_reject(infer, err,
                            "contracted dimensions must be equal, not %lld%s and "
                            "%lld%s",
                            (long long)a_k, ta ? " (transpose_a)" : "", (long long)b_k,
                            tb ? " (transpose_b)" : "");
    }
    shape->dim[row] = a->dim[ta ? column : row];
    shape->dim[column] = b->dim[tb ? row : column];
    return true;
}

/* One floating-point dtype, or f32 beside bf16 or f16 (a weight as it is stored). */
static bool goes_with(enum dtype a, enum dtype b)
{
    if (!dtype_is_float(a) || !dtype_is_float(b)) {
        return false;
    }
    return a == b || (a == DTYPE_F32 && dtype_bytes(b) == 2) ||
           (b == DTYPE_F32 && dtype_bytes(a) == 2);
}

/* Operands: a, b[, acc[, keep]]. The accumulator's type is the product's, so it is
 * checked against the result just found. */
bool infer_matmul(struct infer *infer, struct error *err)
{
    const struct type *inputs = infer->inputs;
    const enum dtype dtype = infer->attributes->dtype;
    if (!goes_with(inputs[0].dtype, inputs[1].dtype) || !dtype_is_float(dtype)) {
        return infer_reject(infer, err,
                            "operands must have one floating-point dtype (or one is "
                            "f32 and the other shorter), and the result (%s) must be "
                            "floating point",
                            dtype_name(dtype));
    }
    struct shape shape;
    if (!product_shape(infer, &shape, err)) {
        return false;
    }
    struct placement placement = placement_same();
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (!product_place(infer, axis, &placement.axis[axis])) {
            return infer_reject_places(infer, err, axis,
                                       "accepted are: one batch dimension split on "
                                       "both; M or N split and the other operand "
                                       "same; K split on both; one partial and the "
                                       "other same");
        }
    }
    infer_result(infer, dtype, shape, placement);
    if (infer->n_inputs >= 3 && !type_equal(&inputs[2], &infer->outputs[0])) {
        char type[192];
        return infer_reject(infer, err,
                            "the accumulator must have the product's type %s",
                            type_format(type, &infer->outputs[0]));
    }
    return infer->n_inputs < 4 || infer_scalar_same(infer, 3, DTYPE_BOOL, "keep", err);
}

/*
 * Dimensions that are reduced away. Places, per mesh axis:
 *
 *     x                    reduce_sum   reduce_max
 *     same                 same         same
 *     split, dim kept      split        split
 *     split, dim reduced   partial      partial: for all_reduce of maxima only (verify)
 *     partial              partial      rejected
 */
static bool reduce(struct infer *infer, bool is_linear, struct error *err)
{
    const struct type *x = &infer->inputs[0];
    const struct attributes *attributes = infer->attributes;
    /*
     * Where each dimension of x goes; the axes are ascending, so one walk finds them.
     */
    int new_dim[SHAPE_MAX_RANK]; /* -1: reduced */
    struct shape shape = {.rank = 0};
    int next = 0;
    for (int i = 0; i < x->shape.rank; i++) {
        if (next < attributes->n_axes && attributes->axes[next] == i) {
            next++;
            new_dim[i] = -1;
            continue;
        }
        new_dim[i] = shape.rank;
        shape.dim[shape.rank++] = x->shape.dim[i];
    }
    if (next != attributes->n_axes) {
        return infer_reject(infer, err,
                            "the axes must be dimensions of the operand, ascending");
    }
    struct placement placement = x->placement;
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        const struct place place = x->placement.axis[axis];
        if (place.kind == PLACE_PARTIAL && !is_linear) {
            return infer_reject_places(infer, err, axis,
                                       "the op is not linear, so its operand may not "
                                       "be partial");
        }
        if (place.kind == PLACE_SPLIT) {
            const bool is_reduced = new_dim[place.dim] < 0;
            placement = placement_with(placement, axis,
                                       is_reduced ? PLACE_PARTIAL : PLACE_SPLIT,
                                       is_reduced ? 0 : new_dim[place.dim]);
        }
    }
    return infer_result(infer, x->dtype, shape, placement);
}

/* A sum over the local part is one summand of the sum over all: partial. */
bool infer_reduce_sum(struct infer *infer, struct error *err)
{
    if (infer->inputs[0].dtype == DTYPE_BOOL) {
        return infer_reject(infer, err, "the operand must hold numbers");
    }
    return reduce(infer, true, err);
}

/*
 * The largest of the local part says `partial` for want of a fourth kind of place.
 * Types cannot tell it from a summand; verify follows it to the all_reduce that joins
 * it.
 */
bool infer_reduce_max(struct infer *infer, struct error *err)
{
    return reduce(infer, false, err);
}
