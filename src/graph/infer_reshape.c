/*
 * infer_reshape - reading the same elements in another shape, each rank its own block.
 *
 * Locally nothing moves. What has to be proven is that all ranks together also read one
 * global array in another shape. A split dimension of local length l with p local
 * elements in front puts the rank's coordinate between p and l as a digit of the global
 * position: the result means the same array exactly if its split has as many elements
 * in front. So the split goes to a dimension with that many in front: it stays where it
 * is if all is as it was up to there, or takes the first longer than 1 of them
 * (attributes->placement may choose another), and digits of several axes keep their
 * order.
 */
#include "graph/infer_rule.h"

/* The product of the lengths in front of dimension `dim`. */
static int64_t elements_before(const struct shape *shape, int dim)
{
    int64_t n = 1;
    for (int i = 0; i < dim; i++) {
        n *= shape->dim[i];
    }
    return n;
}

/* The dimension of `shape` that takes over a split with `before` elements in front, or
 * -1. */
static int split_target(const struct shape *shape, int64_t before)
{
    int target = -1;
    for (int i = 0; i < shape->rank; i++) {
        if (elements_before(shape, i) == before) {
            target = i; /* the last such one is the first longer than 1 */
        }
    }
    return target;
}

/* True when the coordinate of axis `a` is a more significant digit than that of `b`. */
static bool is_before(const struct placement *placement, enum mesh_axis a,
                      enum mesh_axis b)
{
    const int dim_a = placement->axis[a].dim;
    const int dim_b = placement->axis[b].dim;
    return dim_a != dim_b ? dim_a < dim_b : placement_is_major(a, b);
}

/* Dimensions 0 .. dim are the same in both shapes. */
static bool is_front_equal(const struct shape *a, const struct shape *b, int dim)
{
    bool is_equal = dim < b->rank;
    for (int i = 0; is_equal && i <= dim; i++) {
        is_equal = a->dim[i] == b->dim[i];
    }
    return is_equal;
}

/* Two axes whose splits meet in one dimension are numbered by placement_is_major there;
 * that has to be the order in which they stood. */
static bool keeps_digit_order(const struct placement *from, const struct placement *to)
{
    for (int a = 0; a < MESH_N_AXES; a++) {
        for (int b = 0; b < MESH_N_AXES; b++) {
            if (a != b && from->axis[a].kind == PLACE_SPLIT &&
                from->axis[b].kind == PLACE_SPLIT &&
                is_before(from, a, b) != is_before(to, a, b)) {
                return false;
            }
        }
    }
    return true;
}

/* The result's place on one axis: by the rule, or as given and proven. */
static bool reshape_place(const struct infer *infer, enum mesh_axis axis,
                          struct place *result)
{
    const struct attributes *attributes = infer->attributes;
    const struct shape *from = &infer->inputs[0].shape;
    const struct shape *to = &attributes->shape;
    const struct place old = infer_place(infer, 0, axis);
    *result = attributes->has_placement ? attributes->placement.axis[axis] : old;
    if (old.kind != PLACE_SPLIT) {
        return result->kind == old.kind;
    }
    const int64_t before = elements_before(from, old.dim);
    if (attributes->has_placement) {
        return result->kind == PLACE_SPLIT && result->dim < to->rank &&
               elements_before(to, result->dim) == before;
    }
    if (is_front_equal(from, to, old.dim)) {
        return true;
    }
    const int target = split_target(to, before);
    *result = (struct place){PLACE_SPLIT, target};
    return target >= 0;
}

/* The dtype and the number of elements stay; each axis is proven by itself, their order
 * together. */
bool infer_reshape(struct infer *infer, struct error *err)
{
    const struct type *x = &infer->inputs[0];
    const struct shape *shape = &infer->attributes->shape;
    bool fits = shape->rank >= 0 && shape->rank <= SHAPE_MAX_RANK;
    for (int i = 0; fits && i < shape->rank; i++) {
        fits = shape->dim[i] >= 1;
    }
    if (!fits || type_shape_elements(shape) != type_elements(x)) {
        char type[192];
        const struct type wanted = {x->dtype, *shape, placement_same()};
        return infer_reject(infer, err, "%s has another number of elements",
                            type_format(type, &wanted));
    }
    struct placement placement = placement_same();
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (!reshape_place(infer, axis, &placement.axis[axis])) {
            return infer_reject_places(infer, err, axis,
                                       "a split dimension must be the first of those "
                                       "it merges with and stay the first of those it "
                                       "becomes; same and partial stay");
        }
    }
    if (!keeps_digit_order(&x->placement, &placement)) {
        return infer_reject(infer, err,
                            "axes that split different dimensions would change "
                            "their order in the merged one");
    }
    return infer_result(infer, x->dtype, *shape, placement);
}
