/*
 * kernel - the table of kernels, made from ops.def: each op names a `kernel_NAME` in
 * some k_*.c, so that a missing one is a link error. Here are those of ops that never
 * run.
 */
#include "backend/cpu/kernel.h"

#include <assert.h>

#define OP(NAME, name, kind, min_inputs, max_inputs, n_outputs) \
    extern const struct kernel kernel_##name;
#include "graph/ops.def"
#undef OP

static const struct kernel *const kernels[] = {
#define OP(NAME, name, kind, min_inputs, max_inputs, n_outputs) \
    [OP_##NAME] = &kernel_##name,
#include "graph/ops.def"
#undef OP
};

static_assert(ARRAY_LENGTH(kernels) == OP_COUNT, "one kernel per op");

/* Arguments live in buffers of the caller. */
const struct kernel kernel_parameter = {.run = NULL};
const struct kernel kernel_input = {.run = NULL};

/* Expanded before the program runs. */
const struct kernel kernel_repeat = {.run = NULL};

/* A cast and a gather: the definition is as fast as a kernel would be. */
const struct kernel kernel_use_param = {.run = NULL};

/* By value of the enum: the table has an entry for each. */
const struct kernel *kernel_of(enum op op)
{
    ASSERT((unsigned)op < OP_COUNT);
    return kernels[op];
}

/* A float that kernels written for f32 cannot read. */
static bool is_other_float(enum dtype dtype)
{
    return dtype_is_float(dtype) && dtype != DTYPE_F32;
}

/* Integers and bool are operands of such kernels too (ids, masks, flags), always of the
 * dtype that the op asks for. */
bool kernel_takes_f32(const struct node *node)
{
    for (int i = 0; i < node->n_inputs; i++) {
        if (is_other_float(node->inputs[i]->type.dtype)) {
            return false;
        }
    }
    return true;
}

/* Any of the axes will do: what matters is whether a rank sees all rows. */
bool kernel_is_split_by_rows(const struct value *x)
{
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        const struct place place = x->type.placement.axis[axis];
        if (place.kind == PLACE_SPLIT && place.dim == 0) {
            return true;
        }
    }
    return false;
}

/* Asked by program.c before lowering; a composite that nobody takes runs as its
 * definition. */
bool kernel_takes(const struct node *node)
{
    if (op_kind(node->op) == OP_KIND_PRIMITIVE) {
        /* Plain kernels take every dtype, and there is nothing to lower them to. */
        return true;
    }
    const struct kernel *kernel = kernel_of(node->op);
    if (kernel->run == NULL) {
        return false;
    }
    return kernel->supports != NULL ? kernel->supports(node) : kernel_takes_f32(node);
}
