/*
 * infer_repeat - the body's arguments and outputs against the operands.
 *
 * Body arguments: iteration i32 scalar, carries, one slice of each stacked operand,
 * invariants. Body outputs: the carries again, then results, which the node stacks.
 */
#include "graph/infer_rule.h"

/* The type of one slice of a stacked value [n, ...]; dimension 0 is never split. */
static bool slice_of(const struct infer *infer, const struct type *stacked,
                     struct type *slice, struct error *err)
{
    const int n = infer->attributes->n_iterations;
    if (stacked->shape.rank < 1 || stacked->shape.dim[0] != n) {
        return infer_reject(infer, err, "a stacked operand must be [%d, ...]", n);
    }
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        const struct place place = stacked->placement.axis[axis];
        if (place.kind == PLACE_SPLIT && place.dim == 0) {
            return infer_reject_places(infer, err, axis,
                                       "the stacked dimension 0 must not be split");
        }
    }
    *slice = type_slice(stacked, 1);
    return true;
}

/* Argument `index` of the body against the type that the operands call for. */
static bool argument_fits(const struct infer *infer, int index,
                          const struct type *expected, struct error *err)
{
    const struct value *argument = infer->body->arguments[index];
    if (argument->node->op != OP_INPUT || !type_equal(&argument->type, expected)) {
        char got[192];
        char wanted[192];
        return infer_reject(infer, err,
                            "argument %d of the body (%s) is %s, but should be an "
                            "input %s",
                            index, argument->node->name,
                            type_format(got, &argument->type),
                            type_format(wanted, expected));
    }
    return true;
}

/* All of them, in the order iteration, carries, slices, invariants. */
static bool arguments_fit(const struct infer *infer, struct error *err)
{
    const struct attributes *attributes = infer->attributes;
    if (infer->body->n_arguments != infer->n_inputs + 1) {
        return infer_reject(infer, err,
                            "the body takes %d arguments; iteration and operands are "
                            "%d",
                            infer->body->n_arguments, infer->n_inputs + 1);
    }
    const struct type iteration = type_scalar(DTYPE_I32);
    if (!argument_fits(infer, 0, &iteration, err)) {
        return false;
    }
    for (int i = 0; i < infer->n_inputs; i++) {
        /* Carries and invariants as they are, stacked operands by their slice. */
        struct type expected = infer->inputs[i];
        const bool is_stacked = i >= attributes->n_carries &&
                                i < attributes->n_carries + attributes->n_stacked;
        if (is_stacked && !slice_of(infer, &infer->inputs[i], &expected, err)) {
            return false;
        }
        if (!argument_fits(infer, i + 1, &expected, err)) {
            return false;
        }
    }
    return true;
}

/* Carries keep their type over the iterations; what the body gives beyond them is
 * stacked. */
bool infer_repeat(struct infer *infer, struct error *err)
{
    const struct attributes *attributes = infer->attributes;
    const struct graph *body = infer->body;
    if (body == NULL || attributes->n_iterations < 1 || attributes->n_carries < 0 ||
        attributes->n_stacked < 0 ||
        attributes->n_carries + attributes->n_stacked > infer->n_inputs) {
        return infer_reject(infer, err,
                            "a body, at least 1 iteration, and no more carries and "
                            "stacked operands than operands are needed");
    }
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (body->mesh.size[axis] != infer->mesh->size[axis]) {
            return infer_reject(infer, err, "the body is made for another mesh");
        }
    }
    if (!arguments_fit(infer, err)) {
        return false;
    }
    if (body->n_outputs < attributes->n_carries ||
        body->n_outputs > INFER_MAX_OUTPUTS) {
        return infer_reject(infer, err, "the body has %d outputs for %d carries",
                            body->n_outputs, attributes->n_carries);
    }
    infer->n_outputs = body->n_outputs;
    for (int i = 0; i < body->n_outputs; i++) {
        const struct type *output = &body->outputs[i].value->type;
        if (i >= attributes->n_carries) {
            if (output->shape.rank >= SHAPE_MAX_RANK) {
                return infer_reject(infer, err, "result %d has too many dimensions", i);
            }
            infer->outputs[i] = type_stack(output, attributes->n_iterations);
            continue;
        }
        if (!type_equal(output, &infer->inputs[i])) {
            char got[192];
            char wanted[192];
            return infer_reject(infer, err, "carry %d becomes %s, but should stay %s",
                                i, type_format(got, output),
                                type_format(wanted, &infer->inputs[i]));
        }
        infer->outputs[i] = *output;
    }
    return true;
}
