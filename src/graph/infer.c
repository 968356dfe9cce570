/*
 * infer - the dispatcher: arity, then the op's rule; composites through their
 * definition.
 *
 * The table of rules is made from ops.def, so a primitive without infer_NAME does not
 * link. A composite's types are those of its definition, built in a scratch graph on
 * inputs of the operands' types: what it means is also what it accepts.
 */
#include "graph/infer.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"
#include "graph/build.h"
#include "graph/define.h"
#include "graph/graph_trap.h"
#include "graph/infer_rule.h"

/* The operands' types are most of what one needs to see the mistake, so they come
 * first. */
bool infer_reject(const struct infer *infer, struct error *err, const char *format, ...)
{
    struct str message = {0};
    str_printf(&message, "%s(", op_name(infer->op));
    for (int i = 0; i < infer->n_inputs; i++) {
        char type[192];
        str_printf(&message, "%s%s", i == 0 ? "" : ", ",
                   type_format(type, &infer->inputs[i]));
    }
    str_add(&message, "): ");

    char reason[400];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    str_add(&message, reason);

    error_set(err, ERROR_FAILED, "%s", str_text(&message));
    str_deinit(&message);
    return false;
}

bool infer_reject_places(const struct infer *infer, struct error *err,
                         enum mesh_axis axis, const char *rule)
{
    return infer_reject(infer, err, "on the %s axis: %s", mesh_axis_name(axis), rule);
}

bool infer_result(struct infer *infer, enum dtype dtype, struct shape shape,
                  struct placement placement)
{
    infer->n_outputs = 1;
    infer->outputs[0] = (struct type){dtype, shape, placement};
    return true;
}

struct place infer_place(const struct infer *infer, int input, enum mesh_axis axis)
{
    return infer->inputs[input].placement.axis[axis];
}

bool infer_place_equal(struct place a, struct place b)
{
    return a.kind == b.kind && a.dim == b.dim;
}

bool infer_scalar_same(const struct infer *infer, int input, enum dtype dtype,
                       const char *what, struct error *err)
{
    const struct type *type = &infer->inputs[input];
    if (type->dtype != dtype || type->shape.rank != 0 ||
        !placement_is_same(&type->placement)) {
        return infer_reject(infer, err,
                            "%s (operand %d) must be a %s scalar, the same everywhere",
                            what, input, dtype_name(dtype));
    }
    return true;
}

bool infer_axis_in_range(const struct infer *infer, int axis, struct error *err)
{
    if (axis < 0 || axis >= infer->inputs[0].shape.rank) {
        return infer_reject(infer, err, "there is no dimension %d", axis);
    }
    return true;
}

/* The part that runs under the trap: everything it makes lives in the scratch graph. */
static void build_definition(struct infer *infer, struct graph *scratch)
{
    struct value **inputs =
        arena_alloc_array(scratch->arena, (size_t)infer->n_inputs + 1, sizeof(*inputs));
    for (int i = 0; i < infer->n_inputs; i++) {
        inputs[i] = build_input(scratch, "operand", infer->inputs[i]);
    }
    const int n_outputs =
        define_n_outputs(infer->op, infer->n_inputs, infer->attributes);
    ASSERT(n_outputs >= 1 && n_outputs <= INFER_MAX_OUTPUTS);
    struct value *outputs[INFER_MAX_OUTPUTS] = {NULL};
    struct define define = {
        .graph = scratch,
        .n_inputs = infer->n_inputs,
        .inputs = inputs,
        .attributes = infer->attributes,
        .n_outputs = n_outputs,
        .outputs = outputs,
    };
    define_op(infer->op, &define);
    infer->n_outputs = n_outputs;
    for (int i = 0; i < n_outputs; i++) {
        ASSERT(outputs[i] != NULL);
        infer->outputs[i] = outputs[i]->type;
    }
}

/*
 * graph_append jumps back here when a rule inside the definition is broken; the scratch
 * graph owns all that was built until then.
 */
static bool infer_definition(struct infer *infer, struct error *err)
{
    struct graph_trap trap;
    struct graph *const scratch = graph_create(infer->mesh);
    scratch->trap = &trap;
    if (setjmp(trap.jump) != 0) {
        graph_destroy(scratch);
        return infer_reject(infer, err, "in its definition, %s", trap.error.message);
    }
    build_definition(infer, scratch);
    graph_destroy(scratch);
    return true;
}

typedef bool (*infer_rule_fn)(struct infer *infer, struct error *err);

static const struct {
    int min_inputs, max_inputs; /* max -1: any number */
    infer_rule_fn rule;
} rules[OP_COUNT] = {
#define RULE_PRIMITIVE(name) infer_##name
#define RULE_COMPOSITE(name) infer_definition
#define RULE_GRADIENT(name)  infer_definition
#define OP(NAME, name, kind, min_inputs, max_inputs, n_outputs) \
    [OP_##NAME] = {min_inputs, max_inputs, RULE_##kind(name)},
#include "graph/ops.def"
#undef OP
};

/* Arity is checked here once, so rules may index the operands that ops.def promises. */
bool infer_types(struct infer *infer, struct error *err)
{
    ASSERT((int)infer->op >= 0 && infer->op < OP_COUNT);
    const int min_inputs = rules[infer->op].min_inputs;
    const int max_inputs = rules[infer->op].max_inputs;
    if (infer->n_inputs < min_inputs ||
        (max_inputs >= 0 && infer->n_inputs > max_inputs)) {
        return infer_reject(infer, err, "takes %d to %d operands, got %d", min_inputs,
                            max_inputs, infer->n_inputs);
    }
    if ((infer->body != NULL) != (infer->op == OP_REPEAT)) {
        return infer_reject(infer, err, "a body belongs to repeat alone");
    }
    infer->n_outputs = 0;
    return rules[infer->op].rule(infer, err);
}
