/*
 * graph_memory - what ops say about memory: which result must overwrite an operand,
 * which may, and which is the operand itself, read differently.
 */
#include "graph/graph.h"

/* By op and arity alone. The memory plan gives such results their operand's place, and
 * kernels rely on it: nothing else says which operands are overwritten. */
int graph_node_alias(const struct node *node, int index)
{
    ASSERT(index >= 0 && index < node->n_outputs);
    switch ((int)node->op) {
    case OP_MATMUL: /* a, b, acc */
        return node->n_inputs >= 3 ? 2 : -1;
    case OP_SCATTER_ADD_ROWS: /* acc, ids, rows */
    case OP_DYNAMIC_UPDATE_SLICE:
    case OP_ACCUMULATE: /* acc, keep, g */
    case OP_WRITE_ROWS: /* cache, rows, slots */
        return 0;
    case OP_LOSS_HEAD: /* acc is operand 5, d_table result 4 */
        return index == 4 && node->n_inputs >= 6 ? 5 : -1;
    case OP_ADAMW: /* p, g, m, v -> p, m, v */
        return index == 0 ? 0 : index + 1;
    }
    return -1;
}

/* Result element i depends on element i of each operand alone, and is written once. */
static bool is_elementwise(enum op op)
{
    switch ((int)op) {
    case OP_CAST:
    case OP_BITCAST:
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_MAX:
    case OP_EXP:
    case OP_LOG:
    case OP_TANH:
    case OP_SQRT:
    case OP_RSQRT:
    case OP_COS:
    case OP_SIN:
    case OP_COMPARE:
    case OP_SELECT:
    case OP_IS_FINITE:
    case OP_GELU_TANH:
    case OP_GELU_TANH_GRAD:
    case OP_GEGLU:
    case OP_SILU:
    case OP_SILU_GRAD:
    case OP_SOFTCAP:
    case OP_SOFTCAP_GRAD:
        return true;
    }
    return false;
}

/* Scalars next to tensors are read for every element, so they are no candidates; the
 * shapes rule them out. */
bool graph_node_may_reuse(const struct node *node, int input)
{
    ASSERT(input >= 0 && input < node->n_inputs);
    if (!is_elementwise(node->op)) {
        return false;
    }
    const struct type *operand = &node->inputs[input]->type;
    const struct type *result = &node->outputs[0]->type;
    return type_shape_equal(&operand->shape, &result->shape) &&
           dtype_bytes(operand->dtype) == dtype_bytes(result->dtype);
}

/*
 * A slice is one run of its operand when, after the first dimension whose result is
 * longer than 1, everything is whole: x[3:4, 2:5, :] is, x[3:5, 2:4, :] is not.
 */
static bool slice_is_run(const struct node *node, size_t *offset_bytes)
{
    const struct shape *from = &node->inputs[0]->type.shape;
    const struct shape *to = &node->outputs[0]->type.shape;
    int64_t offset = 0;
    bool must_be_whole = false;
    for (int i = 0; i < from->rank; i++) {
        if (must_be_whole && to->dim[i] != from->dim[i]) {
            return false;
        }
        must_be_whole = must_be_whole || to->dim[i] > 1;
        offset = offset * from->dim[i] + node->attributes.start[i];
    }
    *offset_bytes = (size_t)offset * dtype_bytes(node->inputs[0]->type.dtype);
    return true;
}

/* Bitcast keeps the element size (infer), so its elements stay where they are. */
bool graph_node_is_view(const struct node *node, size_t *offset_bytes)
{
    *offset_bytes = 0;
    switch ((int)node->op) {
    case OP_RESHAPE:
    case OP_BITCAST:
    case OP_BARRIER:
    case OP_STOP_GRADIENT:
    case OP_FAN_OUT:
        return true;
    case OP_SLICE:
        return slice_is_run(node, offset_bytes);
    }
    return false;
}
