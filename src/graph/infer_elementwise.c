/*
 * infer_elementwise - rules of ops whose result element i depends on element i of each
 * operand. Operands have one shape and dtype, or some are scalars.
 *
 * Places, per mesh axis (a scalar is never split; "same" next to a split is for
 * scalars):
 *
 *     a        b         result
 *     same     same      same
 *     split d  split d   split d
 *     split d  same*     split d    * a scalar, either side
 *     partial  partial   partial    add, sub: a sum of sums
 *     partial  same      partial    mul (either side), div (partial above): distributes
 *     partial  -         partial    one operand, linear op
 *
 * Everything else is rejected: adding a same value to a partial one would count it once
 * per rank, and f(sum) is not the sum of f.
 */
#include "graph/infer_rule.h"

enum linearity {
    LINEARITY_NONE,     /* partial operands have no meaning */
    LINEARITY_SUM,      /* of both operands together */
    LINEARITY_PRODUCT,  /* of each operand alone */
    LINEARITY_QUOTIENT, /* of the first operand */
};

/* A scalar goes with any shape. */
static bool is_scalar(const struct infer *infer, int input)
{
    return infer->inputs[input].shape.rank == 0;
}

/* The one shape of all operands that are no scalars; scalar if all are. */
static bool common_shape(const struct infer *infer, struct shape *shape,
                         struct error *err)
{
    *shape = type_shape(0, NULL);
    for (int i = 0; i < infer->n_inputs; i++) {
        if (is_scalar(infer, i)) {
            continue;
        }
        if (shape->rank == 0) {
            *shape = infer->inputs[i].shape;
        } else if (!type_shape_equal(shape, &infer->inputs[i].shape)) {
            return infer_reject(infer, err,
                                "operands must have one shape, or be scalars");
        }
    }
    return true;
}

/* Places of two operands on one axis, by the table above. */
static bool combine(const struct infer *infer, int a, int b, enum linearity linearity,
                    enum mesh_axis axis, struct place *result)
{
    const struct place x = infer_place(infer, a, axis);
    const struct place y = infer_place(infer, b, axis);
    *result = x.kind == PLACE_SAME ? y : x;
    if (infer_place_equal(x, y)) {
        return x.kind != PLACE_PARTIAL || linearity == LINEARITY_SUM;
    }
    if (x.kind == PLACE_SPLIT && y.kind == PLACE_SAME) {
        return is_scalar(infer, b);
    }
    if (x.kind == PLACE_SAME && y.kind == PLACE_SPLIT) {
        return is_scalar(infer, a);
    }
    if (x.kind == PLACE_PARTIAL && y.kind == PLACE_SAME) {
        return linearity == LINEARITY_PRODUCT || linearity == LINEARITY_QUOTIENT;
    }
    if (x.kind == PLACE_SAME && y.kind == PLACE_PARTIAL) {
        return linearity == LINEARITY_PRODUCT;
    }
    return false;
}

/* What a rejected combination should have been. */
static const char *rule_text(enum linearity linearity)
{
    switch (linearity) {
    case LINEARITY_NONE:
        return "operands must be placed alike and none may be partial";
    case LINEARITY_SUM:
        return "operands must be placed alike; partial goes with partial only";
    case LINEARITY_PRODUCT:
        return "operands must be placed alike, or one partial and the other same";
    case LINEARITY_QUOTIENT:
        return "operands must be placed alike, or the first partial and the second "
               "same";
    }
    UNREACHABLE();
}

/* Shapes, then places axis by axis. */
static bool binary(struct infer *infer, enum dtype result, enum linearity linearity,
                   struct error *err)
{
    if (infer->inputs[0].dtype != infer->inputs[1].dtype) {
        return infer_reject(infer, err, "operands must have one dtype");
    }
    struct shape shape;
    if (!common_shape(infer, &shape, err)) {
        return false;
    }
    struct placement placement = placement_same();
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (!combine(infer, 0, 1, linearity, axis, &placement.axis[axis])) {
            return infer_reject_places(infer, err, axis, rule_text(linearity));
        }
    }
    return infer_result(infer, result, shape, placement);
}

/* All dtypes but bool: positions and row numbers are integers. */
static bool arithmetic(struct infer *infer, enum linearity linearity, struct error *err)
{
    if (infer->inputs[0].dtype == DTYPE_BOOL) {
        return infer_reject(infer, err, "operands must be numbers");
    }
    return binary(infer, infer->inputs[0].dtype, linearity, err);
}

/* sum over ranks of (a + b) = sum of a + sum of b. */
bool infer_add(struct infer *infer, struct error *err)
{
    return arithmetic(infer, LINEARITY_SUM, err);
}

bool infer_sub(struct infer *infer, struct error *err)
{
    return arithmetic(infer, LINEARITY_SUM, err);
}

/* sum over ranks of (a b) = (sum of a) b, where b is the same on all. */
bool infer_mul(struct infer *infer, struct error *err)
{
    return arithmetic(infer, LINEARITY_PRODUCT, err);
}

/* x / y is linear in x alone. */
bool infer_div(struct infer *infer, struct error *err)
{
    return arithmetic(infer, LINEARITY_QUOTIENT, err);
}

/* The maximum of sums is not the sum of maxima. */
bool infer_max(struct infer *infer, struct error *err)
{
    return arithmetic(infer, LINEARITY_NONE, err);
}

/* Any dtype, bool too; the result is bool. */
bool infer_compare(struct infer *infer, struct error *err)
{
    return binary(infer, DTYPE_BOOL, LINEARITY_NONE, err);
}

/*
 * select(condition, a, b): for one condition it is linear in a and b together, so both
 * may be partial where the condition is the same; otherwise all three are placed alike.
 */
bool infer_select(struct infer *infer, struct error *err)
{
    if (infer->inputs[0].dtype != DTYPE_BOOL) {
        return infer_reject(infer, err, "the condition must be bool");
    }
    if (infer->inputs[1].dtype != infer->inputs[2].dtype) {
        return infer_reject(infer, err, "both branches must have one dtype");
    }
    struct shape shape;
    if (!common_shape(infer, &shape, err)) {
        return false;
    }
    struct placement placement = placement_same();
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        const struct place condition = infer_place(infer, 0, axis);
        struct place branches;
        struct place unused;
        bool fits = combine(infer, 1, 2, LINEARITY_SUM, axis, &branches);
        if (branches.kind == PLACE_PARTIAL) {
            fits = fits && condition.kind == PLACE_SAME;
        } else {
            fits = fits && combine(infer, 0, 1, LINEARITY_NONE, axis, &unused) &&
                   combine(infer, 0, 2, LINEARITY_NONE, axis, &unused);
        }
        if (!fits) {
            return infer_reject_places(infer, err, axis,
                                       "condition and branches must be placed alike, "
                                       "or both branches partial and the condition "
                                       "same");
        }
        placement.axis[axis] = branches.kind == PLACE_SAME ? condition : branches;
    }
    return infer_result(infer, infer->inputs[1].dtype, shape, placement);
}

/* One operand; partial values are kept by linear ops and refused by others. */
static bool unary(struct infer *infer, enum dtype result, bool is_linear,
                  struct error *err)
{
    const struct type *x = &infer->inputs[0];
    for (int axis = 0; axis < MESH_N_AXES && !is_linear; axis++) {
        if (x->placement.axis[axis].kind == PLACE_PARTIAL) {
            return infer_reject_places(infer, err, axis,
                                       "the op is not linear, so its operand may not "
                                       "be partial");
        }
    }
    return infer_result(infer, result, x->shape, x->placement);
}

/* Functions of real numbers. */
static bool function(struct infer *infer, struct error *err)
{
    if (!dtype_is_float(infer->inputs[0].dtype)) {
        return infer_reject(infer, err, "the operand must be floating point");
    }
    return unary(infer, infer->inputs[0].dtype, false, err);
}

/* Between floats a cast is linear but for rounding; to integers it is not. */
bool infer_cast(struct infer *infer, struct error *err)
{
    const enum dtype to = infer->attributes->dtype;
    const bool is_linear = dtype_is_float(infer->inputs[0].dtype) && dtype_is_float(to);
    return unary(infer, to, is_linear, err);
}

/* Bits of a sum are not the sum of bits, unless nothing changes. */
bool infer_bitcast(struct infer *infer, struct error *err)
{
    const enum dtype from = infer->inputs[0].dtype;
    const enum dtype to = infer->attributes->dtype;
    if (dtype_bytes(from) != dtype_bytes(to)) {
        return infer_reject(infer, err, "%s and %s differ in size", dtype_name(from),
                            dtype_name(to));
    }
    return unary(infer, to, from == to, err);
}

bool infer_exp(struct infer *infer, struct error *err)
{
    return function(infer, err);
}

bool infer_log(struct infer *infer, struct error *err)
{
    return function(infer, err);
}

bool infer_tanh(struct infer *infer, struct error *err)
{
    return function(infer, err);
}

bool infer_sqrt(struct infer *infer, struct error *err)
{
    return function(infer, err);
}

bool infer_rsqrt(struct infer *infer, struct error *err)
{
    return function(infer, err);
}

bool infer_cos(struct infer *infer, struct error *err)
{
    return function(infer, err);
}

bool infer_sin(struct infer *infer, struct error *err)
{
    return function(infer, err);
}

/* A finite sum may have summands that are not, and the reverse. */
bool infer_is_finite(struct infer *infer, struct error *err)
{
    if (!dtype_is_float(infer->inputs[0].dtype)) {
        return infer_reject(infer, err, "the operand must be floating point");
    }
    return unary(infer, DTYPE_BOOL, false, err);
}

/* Identity: all places stay. */
bool infer_stop_gradient(struct infer *infer, struct error *err)
{
    return unary(infer, infer->inputs[0].dtype, true, err);
}

/* Identity: all places stay. */
bool infer_barrier(struct infer *infer, struct error *err)
{
    return unary(infer, infer->inputs[0].dtype, true, err);
}
