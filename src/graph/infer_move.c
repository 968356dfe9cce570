/*
 * infer_move - rules of ops that move elements without computing.
 *
 * Moving is linear: partial stays partial (and zeros that pad adds are a sum of zeros).
 * A split stays with its dimension, which has to be whole wherever elements are picked
 * by their position: a rank does not know the others' parts.
 */
#include "graph/infer_rule.h"

/* An axis splits dimension `dim` of x. Elements along it are dealt out: no rank has
 * all. */
static bool is_split(const struct type *x, int dim)
{
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        const struct place place = x->placement.axis[axis];
        if (place.kind == PLACE_SPLIT && place.dim == dim) {
            return true;
        }
    }
    return false;
}

/* result.dim[i] = x.dim[axes[i]]; a split of dimension axes[i] becomes one of i. */
bool infer_transpose(struct infer *infer, struct error *err)
{
    const struct type *x = &infer->inputs[0];
    const struct attributes *attributes = infer->attributes;
    struct shape shape = x->shape;
    int new_dim[SHAPE_MAX_RANK] = {0};
    bool seen[SHAPE_MAX_RANK] = {false};
    bool fits = attributes->n_axes == x->shape.rank;
    for (int i = 0; fits && i < x->shape.rank; i++) {
        const int from = attributes->axes[i];
        fits = from >= 0 && from < x->shape.rank && !seen[from];
        if (fits) {
            seen[from] = true;
            shape.dim[i] = x->shape.dim[from];
            new_dim[from] = i;
        }
    }
    if (!fits) {
        return infer_reject(infer, err, "the axes must be a permutation of 0 .. %d",
                            x->shape.rank - 1);
    }
    struct placement placement = x->placement;
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (placement.axis[axis].kind == PLACE_SPLIT) {
            placement.axis[axis].dim = new_dim[placement.axis[axis].dim];
        }
    }
    return infer_result(infer, x->dtype, shape, placement);
}

/* Shape part of broadcast: from[j] is the operand's dimension that becomes j, or -1. */
static bool broadcast_dims(const struct infer *infer, int from[SHAPE_MAX_RANK],
                           struct error *err)
{
    const struct shape *x = &infer->inputs[0].shape;
    const struct attributes *attributes = infer->attributes;
    for (int j = 0; j < SHAPE_MAX_RANK; j++) {
        from[j] = -1;
    }
    bool fits = attributes->n_axes == x->rank && attributes->shape.rank >= x->rank &&
                attributes->shape.rank <= SHAPE_MAX_RANK;
    for (int i = 0; fits && i < x->rank; i++) {
        const int to = attributes->axes[i];
        fits = to >= 0 && to < attributes->shape.rank &&
               (i == 0 || to > attributes->axes[i - 1]) &&
               (x->dim[i] == attributes->shape.dim[to] || x->dim[i] == 1);
        if (fits) {
            from[to] = i;
        }
    }
    for (int j = 0; fits && j < attributes->shape.rank; j++) {
        fits = attributes->shape.dim[j] >= 1;
    }
    if (!fits) {
        return infer_reject(infer, err,
                            "each dimension must become an equal one, or a length of "
                            "1 a longer one, in ascending order");
    }
    return true;
}

/*
 * Places, per mesh axis; d becomes e:
 *
 *     x         result
 *     same      same, or split over a dimension that is new or stretched
 *     split d   split e, not stretched
 *     partial   partial
 */
bool infer_broadcast(struct infer *infer, struct error *err)
{
    const struct type *x = &infer->inputs[0];
    const struct attributes *attributes = infer->attributes;
    const struct shape *shape = &attributes->shape;
    int from[SHAPE_MAX_RANK];
    if (!broadcast_dims(infer, from, err)) {
        return false;
    }
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        const struct place old = x->placement.axis[axis];
        const struct place new = attributes->placement.axis[axis];
        bool fits = new.kind == old.kind;
        if (new.kind == PLACE_SPLIT) {
            /* -2: there is no such dimension. */
            const int source = new.dim < shape->rank ? from[new.dim] : -2;
            const bool is_kept =
                source >= 0 && x->shape.dim[source] == shape->dim[new.dim];
            if (old.kind == PLACE_SPLIT) {
                fits = is_kept && source == old.dim;
            } else {
                /* A new dimension, or one of global length 1 that is stretched. */
                fits = old.kind == PLACE_SAME &&
                       (source == -1 || (source >= 0 && x->shape.dim[source] == 1 &&
                                         !is_split(x, source)));
            }
        }
        if (!fits) {
            return infer_reject_places(infer, err, axis,
                                       "a result may be split over a new or stretched "
                                       "dimension where the operand is same; other "
                                       "places follow the operand's");
        }
    }
    return infer_result(infer, x->dtype, *shape, attributes->placement);
}

/* x[start .. limit), never empty: no dimension of a value is 0. */
bool infer_slice(struct infer *infer, struct error *err)
{
    const struct type *x = &infer->inputs[0];
    const struct attributes *attributes = infer->attributes;
    struct shape shape = x->shape;
    for (int i = 0; i < shape.rank; i++) {
        const int64_t start = attributes->start[i];
        const int64_t limit = attributes->limit[i];
        if (start < 0 || limit <= start || limit > x->shape.dim[i]) {
            return infer_reject(infer, err, "[%lld, %lld) is no part of dimension %d",
                                (long long)start, (long long)limit, i);
        }
        shape.dim[i] = limit - start;
        if (shape.dim[i] != x->shape.dim[i] && is_split(x, i)) {
            return infer_reject(infer, err,
                                "dimension %d is split, so it must stay whole", i);
        }
    }
    return infer_result(infer, x->dtype, shape, x->placement);
}

/* Zeros belong to the front and back of the whole, which a rank with a block lacks. */
bool infer_pad(struct infer *infer, struct error *err)
{
    const struct type *x = &infer->inputs[0];
    const struct attributes *attributes = infer->attributes;
    struct shape shape = x->shape;
    for (int i = 0; i < shape.rank; i++) {
        if (attributes->start[i] < 0 || attributes->limit[i] < 0) {
            return infer_reject(infer, err, "padding of dimension %d is negative", i);
        }
        shape.dim[i] += attributes->start[i] + attributes->limit[i];
        if (shape.dim[i] != x->shape.dim[i] && is_split(x, i)) {
            return infer_reject(infer, err,
                                "dimension %d is split, so it must stay whole", i);
        }
    }
    return infer_result(infer, x->dtype, shape, x->placement);
}

/* Parts follow each other along `axis`. Partial parts make a partial whole. */
bool infer_concat(struct infer *infer, struct error *err)
{
    const struct type *first = &infer->inputs[0];
    const int axis = infer->attributes->axis;
    if (!infer_axis_in_range(infer, axis, err)) {
        return false;
    }
    struct shape shape = first->shape;
    shape.dim[axis] = 0;
    for (int i = 0; i < infer->n_inputs; i++) {
        const struct type *part = &infer->inputs[i];
        /* The first part's shape, but for the length along `axis`. */
        struct shape expected = first->shape;
        expected.dim[axis] = part->shape.rank > axis ? part->shape.dim[axis] : 0;
        if (part->dtype != first->dtype || !type_shape_equal(&part->shape, &expected) ||
            !placement_equal(&part->placement, &first->placement)) {
            return infer_reject(infer, err,
                                "parts must have one dtype, one placement and one "
                                "shape but for dimension %d",
                                axis);
        }
        shape.dim[axis] += part->shape.dim[axis];
    }
    if (is_split(first, axis)) {
        return infer_reject(infer, err, "dimension %d is split, so it must stay whole",
                            axis);
    }
    return infer_result(infer, first->dtype, shape, first->placement);
}

/* start is clamped at run time; that it is the same on all ranks keeps the result
 * whole. */
bool infer_dynamic_slice(struct infer *infer, struct error *err)
{
    const struct type *x = &infer->inputs[0];
    const int axis = infer->attributes->axis;
    const int64_t size = infer->attributes->size;
    if (!infer_axis_in_range(infer, axis, err) ||
        !infer_scalar_same(infer, 1, DTYPE_I32, "start", err)) {
        return false;
    }
    if (size < 1 || size > x->shape.dim[axis]) {
        return infer_reject(infer, err, "size %lld does not fit into dimension %d",
                            (long long)size, axis);
    }
    if (is_split(x, axis)) {
        return infer_reject(infer, err, "dimension %d is split, so it must stay whole",
                            axis);
    }
    struct shape shape = x->shape;
    shape.dim[axis] = size;
    return infer_result(infer, x->dtype, shape, x->placement);
}

/* A partial value may only take a partial part: the rest would count it per rank. */
bool infer_dynamic_update_slice(struct infer *infer, struct error *err)
{
    const struct type *x = &infer->inputs[0];
    const struct type *part = &infer->inputs[1];
    const int axis = infer->attributes->axis;
    if (!infer_axis_in_range(infer, axis, err) ||
        !infer_scalar_same(infer, 2, DTYPE_I32, "start", err)) {
        return false;
    }
    /* The type of x, but for the length along `axis`. */
    struct type expected = *x;
    expected.shape.dim[axis] = part->shape.rank > axis ? part->shape.dim[axis] : 0;
    if (!type_equal(part, &expected) || expected.shape.dim[axis] > x->shape.dim[axis]) {
        return infer_reject(infer, err,
                            "the part must have the operand's type, but for a "
                            "dimension %d no longer than its",
                            axis);
    }
    if (is_split(x, axis)) {
        return infer_reject(infer, err, "dimension %d is split, so it must stay whole",
                            axis);
    }
    return infer_result(infer, x->dtype, x->shape, x->placement);
}
