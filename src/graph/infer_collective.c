/*
 * infer_collective - rules of the ops that change places. Each works along one mesh
 * axis and needs one kind of place there:
 *
 *     all_gather      split d -> same       dimension d times the size of the axis
 *     reduce_scatter  partial -> split d    dimension d divided by it
 *     all_reduce      partial -> same
 *     all_to_all      split d -> split e    d times it, e divided by it
 *     fan_out         same    -> same
 *     take_split      same    -> split d    dimension d divided by it
 *
 * Other axes keep their places. Where another axis splits dimension d too, this one
 * must number the finer blocks (placement.h): only they are neighbours.
 */
#include "graph/infer_rule.h"

/* Operand's kind of place on the op's axis. */
static bool needs(const struct infer *infer, enum place_kind kind, const char *text,
                  struct error *err)
{
    const enum mesh_axis axis = infer->attributes->mesh_axis;
    if ((int)axis < 0 || axis >= MESH_N_AXES) {
        return infer_reject(infer, err, "there is no mesh axis %d", (int)axis);
    }
    if (infer_place(infer, 0, axis).kind != kind) {
        return infer_reject_places(infer, err, axis, text);
    }
    return true;
}

/* The operand is split along `dim` in the finest blocks: makes it whole. */
static bool join(const struct infer *infer, struct type *type, int dim,
                 struct error *err)
{
    const enum mesh_axis axis = infer->attributes->mesh_axis;
    if (!needs(infer, PLACE_SPLIT, "the operand must be split", err)) {
        return false;
    }
    if (type->placement.axis[axis].dim != dim) {
        return infer_reject_places(infer, err, axis,
                                   "the operand is split along another dimension");
    }
    if (!placement_is_finest(&type->placement, axis)) {
        return infer_reject_places(infer, err, axis,
                                   "another axis cuts this dimension finer; join that "
                                   "one first");
    }
    type->shape.dim[dim] *= infer->mesh->size[axis];
    type->placement = placement_with(type->placement, axis, PLACE_SAME, 0);
    return true;
}

/* Cuts dimension `dim` into blocks over the op's axis. */
static bool cut(const struct infer *infer, struct type *type, int dim,
                struct error *err)
{
    const enum mesh_axis axis = infer->attributes->mesh_axis;
    const int size = infer->mesh->size[axis];
    if (!infer_axis_in_range(infer, dim, err)) {
        return false;
    }
    if (type->shape.dim[dim] % size != 0) {
        return infer_reject(infer, err,
                            "dimension %d does not divide by the %d ranks of the %s "
                            "axis",
                            dim, size, mesh_axis_name(axis));
    }
    type->shape.dim[dim] /= size;
    type->placement = placement_with(type->placement, axis, PLACE_SPLIT, dim);
    if (!placement_is_finest(&type->placement, axis)) {
        return infer_reject_places(infer, err, axis,
                                   "another axis already cuts this dimension finer");
    }
    return true;
}

/* The changed type as the op's only result. */
static bool result(struct infer *infer, const struct type *type)
{
    return infer_result(infer, type->dtype, type->shape, type->placement);
}

/* Blocks of the axis side by side are the whole. */
bool infer_all_gather(struct infer *infer, struct error *err)
{
    struct type type = infer->inputs[0];
    return join(infer, &type, infer->attributes->axis, err) && result(infer, &type);
}

/* Sum and cut in one: each rank keeps its block of the sum. */
bool infer_reduce_scatter(struct infer *infer, struct error *err)
{
    struct type type = infer->inputs[0];
    return needs(infer, PLACE_PARTIAL, "the operand must be partial", err) &&
           cut(infer, &type, infer->attributes->axis, err) && result(infer, &type);
}

/* Sum or maximum: the type is the same, verify tells operands apart. */
bool infer_all_reduce(struct infer *infer, struct error *err)
{
    struct type type = infer->inputs[0];
    if (!needs(infer, PLACE_PARTIAL, "the operand must be partial", err)) {
        return false;
    }
    const enum mesh_axis axis = infer->attributes->mesh_axis;
    type.placement = placement_with(type.placement, axis, PLACE_SAME, 0);
    return result(infer, &type);
}

/* A join and a cut in one exchange: nobody ever holds the whole. */
bool infer_all_to_all(struct infer *infer, struct error *err)
{
    struct type type = infer->inputs[0];
    const int *axes = infer->attributes->axes;
    if (infer->attributes->n_axes != 2 || axes[0] == axes[1]) {
        return infer_reject(infer, err, "two different dimensions are needed");
    }
    return join(infer, &type, axes[0], err) && cut(infer, &type, axes[1], err) &&
           result(infer, &type);
}

/* Where ranks go on to use equal values differently (columns of a matrix): nothing
 * moves now, but cotangents that come back are partial and get summed here. */
bool infer_fan_out(struct infer *infer, struct error *err)
{
    struct type type = infer->inputs[0];
    return needs(infer, PLACE_SAME, "the operand must be the same on all ranks", err) &&
           result(infer, &type);
}

/* Nothing moves: each rank keeps one block of what all have. */
bool infer_take_split(struct infer *infer, struct error *err)
{
    struct type type = infer->inputs[0];
    return needs(infer, PLACE_SAME, "the operand must be the same on all ranks", err) &&
           cut(infer, &type, infer->attributes->axis, err) && result(infer, &type);
}
