/*
 * infer_source - rules of ops without tensor operands: their attributes are the type.
 */
#include "graph/infer_rule.h"

/*
 * Dimensions are at least 1; a split one exists. Partial is for inputs (accumulators
 * that are reduced later) and for constant zero: a sum of zeros over the ranks is zero.
 */
static bool source_result(struct infer *infer, bool allows_partial, struct error *err)
{
    const struct attributes *attributes = infer->attributes;
    const struct shape *shape = &attributes->shape;
    if (shape->rank < 0 || shape->rank > SHAPE_MAX_RANK) {
        return infer_reject(infer, err, "rank %d is not in 0 .. %d", shape->rank,
                            SHAPE_MAX_RANK);
    }
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dim[i] < 1) {
            return infer_reject(infer, err, "dimension %d has length %lld", i,
                                (long long)shape->dim[i]);
        }
    }
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        const struct place place = attributes->placement.axis[axis];
        if (place.kind == PLACE_SPLIT && place.dim >= shape->rank) {
            return infer_reject(infer, err, "rank %d has no dimension %d to split",
                                shape->rank, place.dim);
        }
        if (place.kind == PLACE_PARTIAL && !allows_partial) {
            return infer_reject_places(infer, err, axis,
                                       "of sources, only inputs and constant zero may "
                                       "be partial");
        }
    }
    return infer_result(infer, attributes->dtype, *shape, attributes->placement);
}

/* State is what the optimizer updates: a sum that nobody has formed is no state. */
bool infer_parameter(struct infer *infer, struct error *err)
{
    return source_result(infer, false, err);
}

/* Accumulators of gradients come in as the partial sums they are. */
bool infer_input(struct infer *infer, struct error *err)
{
    return source_result(infer, true, err);
}

/* "Every element is value" has to hold of the whole, so a partial one is zero. */
bool infer_constant(struct infer *infer, struct error *err)
{
    const bool is_zero = infer->attributes->value == 0.0;
    return source_result(infer, is_zero, err);
}

/* Along a split dimension each rank counts on from its own block. */
bool infer_iota(struct infer *infer, struct error *err)
{
    const int axis = infer->attributes->axis;
    if (axis < 0 || axis >= infer->attributes->shape.rank) {
        return infer_reject(infer, err, "there is no dimension %d to count along",
                            axis);
    }
    if (infer->attributes->dtype == DTYPE_BOOL) {
        return infer_reject(infer, err, "counts are not of dtype bool");
    }
    return source_result(infer, false, err);
}

/* Seed and step are the same everywhere: bits are a function of the global position. */
bool infer_random_bits(struct infer *infer, struct error *err)
{
    if (infer->attributes->dtype != DTYPE_U32) {
        return infer_reject(infer, err, "the result is u32, not %s",
                            dtype_name(infer->attributes->dtype));
    }
    return infer_scalar_same(infer, 0, DTYPE_U32, "seed", err) &&
           infer_scalar_same(infer, 1, DTYPE_U32, "step", err) &&
           source_result(infer, false, err);
}

/* The only value whose type says `same` while ranks hold different numbers: it is for
 * finding the rank's own part of something (rows of a split table). */
bool infer_axis_index(struct infer *infer, struct error *err)
{
    (void)err;
    return infer_result(infer, DTYPE_I32, type_shape(0, NULL), placement_same());
}
