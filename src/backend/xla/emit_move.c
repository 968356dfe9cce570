/*
 * emit_move - ops that move elements without changing them.
 */
#include "backend/xla/emit.h"
#include "backend/xla/emit_rules.h"

/* Row-major order of the elements, in the graph and there. */
void emit_op_reshape(struct emit *emit)
{
    emit_bind(emit, 0,
              emit_line(emit, "stablehlo.reshape %s : %s", emit_operand(emit, 0),
                        emit_arrow(emit)));
}

/* dims[i] is the operand's dimension that becomes dimension i, as in the graph. */
void emit_op_transpose(struct emit *emit)
{
    const int rank = emit_result_type(emit)->shape.rank;
    emit_bind(emit, 0,
              emit_line(emit, "stablehlo.transpose %s, dims = %s : %s",
                        emit_operand(emit, 0),
                        emit_int_list(emit, emit->node->attributes.axes, rank),
                        emit_arrow(emit)));
}

/* dims[i] is the result's dimension that dimension i of the operand becomes; one of
 * length 1 is stretched. */
void emit_op_broadcast(struct emit *emit)
{
    const int rank = emit_operand_type(emit, 0)->shape.rank;
    emit_bind(emit, 0,
              emit_line(emit, "stablehlo.broadcast_in_dim %s, dims = %s : %s",
                        emit_operand(emit, 0),
                        emit_int_list(emit, emit->node->attributes.axes, rank),
                        emit_arrow(emit)));
}

/* Half-open ranges, step 1. */
void emit_op_slice(struct emit *emit)
{
    const struct attributes *attributes = &emit->node->attributes;
    struct str ranges = {0};
    for (int i = 0; i < emit_result_type(emit)->shape.rank; i++) {
        str_printf(&ranges, "%s%lld:%lld", i > 0 ? ", " : "",
                   (long long)attributes->start[i], (long long)attributes->limit[i]);
    }
    emit_bind(emit, 0,
              emit_line(emit, "stablehlo.slice %s [%s] : %s", emit_operand(emit, 0),
                        str_text(&ranges), emit_arrow(emit)));
    str_deinit(&ranges);
}

/* Zeros only: start[] in front and limit[] behind, per dimension; nothing between
 * elements. */
void emit_op_pad(struct emit *emit)
{
    const struct attributes *attributes = &emit->node->attributes;
    const struct type *result = emit_result_type(emit);
    const int rank = result->shape.rank;
    const int64_t interior[SHAPE_MAX_RANK] = {0};
    const char *zero = emit_scalar(emit, result->dtype, 0);
    emit_bind(
        emit, 0,
        emit_line(emit,
                  "stablehlo.pad %s, %s, low = %s, high = %s, interior = %s : "
                  "(%s, %s) -> %s",
                  emit_operand(emit, 0), zero, emit_list(emit, attributes->start, rank),
                  emit_list(emit, attributes->limit, rank),
                  emit_list(emit, interior, rank),
                  emit_type(emit, emit_operand_type(emit, 0)),
                  emit_scalar_type(emit, result->dtype), emit_type(emit, result)));
}

/* The order of the operands is that along the axis. */
void emit_op_concat(struct emit *emit)
{
    struct str names = {0};
    struct str types = {0};
    for (int i = 0; i < emit->node->n_inputs; i++) {
        const char *comma = i > 0 ? ", " : "";
        str_printf(&names, "%s%s", comma, emit_operand(emit, i));
        str_printf(&types, "%s%s", comma, emit_type(emit, emit_operand_type(emit, i)));
    }
    emit_bind(emit, 0,
              emit_line(emit, "stablehlo.concatenate %s, dim = %d : (%s) -> %s",
                        str_text(&names), emit->node->attributes.axis, str_text(&types),
                        emit_type(emit, emit_result_type(emit))));
    str_deinit(&names);
    str_deinit(&types);
}

/* Operands: x, start (i32 scalar). */
void emit_op_dynamic_slice(struct emit *emit)
{
    const struct attributes *attributes = &emit->node->attributes;
    emit_bind(emit, 0,
              emit_slice_at(emit, emit_operand(emit, 0), emit_operand_type(emit, 0),
                            emit_operand(emit, 1), attributes->axis, attributes->size));
}

/* Operands: x, part, start (i32 scalar). */
void emit_op_dynamic_update_slice(struct emit *emit)
{
    emit_bind(emit, 0,
              emit_update_at(emit, emit_operand(emit, 0), emit_operand_type(emit, 0),
                             emit_operand(emit, 1), emit_operand_type(emit, 1),
                             emit_operand(emit, 2), emit->node->attributes.axis));
}
