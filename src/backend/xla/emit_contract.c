/*
 * emit_contract - products and reductions. Short floats are widened to f32 first and
 * rounded once at the end, as the CPU kernels do.
 */
#include "backend/xla/emit.h"
#include "backend/xla/emit_rules.h"

/* Integers and f64 are summed as they are. */
static enum dtype sum_dtype(enum dtype dtype)
{
    return dtype == DTYPE_BF16 || dtype == DTYPE_F16 ? DTYPE_F32 : dtype;
}

/* Operand `i` as `dtype`. No line where the operand has that dtype already. */
static const char *widened(struct emit *emit, int i, enum dtype dtype)
{
    const struct type *type = emit_operand_type(emit, i);
    return emit_convert(emit, emit_operand(emit, i), &type->shape, type->dtype, dtype);
}

/* The product in `dtype`, shape of the result: dot_general puts batch dimensions first,
 * then a's free dimension, then b's, which is the order of the result here. a [..., M,
 * K] (transpose_a: [..., K, M]) and b [..., K, N] (transpose_b: [..., N, K]) give [...,
 * M, N]: no transposes are written, only another contracting dimension. HIGHEST keeps
 * XLA from multiplying f32 in bf16. */
static const char *product(struct emit *emit, enum dtype dtype)
{
    const struct attributes *attributes = &emit->node->attributes;
    const struct shape *a = &emit_operand_type(emit, 0)->shape;
    const struct shape *b = &emit_operand_type(emit, 1)->shape;
    const int rank = a->rank;
    const int batch[SHAPE_MAX_RANK] = {0, 1, 2, 3, 4, 5};
    const char *batches = emit_int_list(emit, batch, rank - 2);
    const char *x = widened(emit, 0, dtype);
    const char *y = widened(emit, 1, dtype);
    const char *batching =
        rank > 2
            ? arena_printf(emit->arena, "batching_dims = %s x %s, ", batches, batches)
            : "";
    return emit_line(emit,
                     "stablehlo.dot_general %s, %s, %scontracting_dims = [%d] x [%d], "
                     "precision = [HIGHEST, HIGHEST] : (%s, %s) -> %s",
                     x, y, batching, attributes->transpose_a ? rank - 2 : rank - 1,
                     attributes->transpose_b ? rank - 1 : rank - 2,
                     emit_shape(emit, dtype, a), emit_shape(emit, dtype, b),
                     emit_shape(emit, dtype, &emit_result_type(emit)->shape));
}

/* The accumulator as `dtype`, zero where keep says so. select, not a product with 0 or
 * 1, so that NaN in an accumulator that is not kept does not get through. */
static const char *kept_accumulator(struct emit *emit, enum dtype dtype)
{
    const struct shape *shape = &emit_result_type(emit)->shape;
    const char *acc = widened(emit, 2, dtype);
    if (emit->node->n_inputs < 4) {
        return acc;
    }
    const char *keep = emit_stretched(emit, 3, shape);
    const char *zero = emit_constant(emit, dtype, shape, 0);
    return emit_line(emit, "stablehlo.select %s, %s, %s : %s, %s", keep, acc, zero,
                     emit_shape(emit, DTYPE_BOOL, shape),
                     emit_shape(emit, dtype, shape));
}

/* c = a b, or acc + a b; the sum with the accumulator comes before the rounding. */
void emit_op_matmul(struct emit *emit)
{
    const struct type *result = emit_result_type(emit);
    enum dtype dtype = sum_dtype(emit_operand_type(emit, 0)->dtype);
    if (result->dtype == DTYPE_F64) {
        dtype = DTYPE_F64;
    }
    const char *sum = product(emit, dtype);
    if (emit->node->n_inputs > 2) {
        const char *acc = kept_accumulator(emit, dtype);
        sum = emit_binary(emit, "stablehlo.add", acc, sum, dtype, &result->shape);
    }
    emit_bind(emit, 0, emit_convert(emit, sum, &result->shape, dtype, result->dtype));
}

/* The start is the neutral element of `op`, in the dtype in which it is computed. */
static void reduce(struct emit *emit, const char *op, enum dtype dtype, double start)
{
    const struct type *result = emit_result_type(emit);
    const struct type *from = emit_operand_type(emit, 0);
    const char *x = widened(emit, 0, dtype);
    const char *init = emit_scalar(emit, dtype, start);
    const struct attributes *attributes = &emit->node->attributes;
    const char *sum = emit_line(
        emit,
        "stablehlo.reduce(%s init: %s) applies %s across dimensions = %s : (%s, %s) -> "
        "%s",
        x, init, op, emit_int_list(emit, attributes->axes, attributes->n_axes),
        emit_shape(emit, dtype, &from->shape), emit_scalar_type(emit, dtype),
        emit_shape(emit, dtype, &result->shape));
    emit_bind(emit, 0, emit_convert(emit, sum, &result->shape, dtype, result->dtype));
}

/* The CPU kernel sums in f64; here in f32 at least, as f64 is slow on accelerators. */
void emit_op_reduce_sum(struct emit *emit)
{
    reduce(emit, "stablehlo.add", sum_dtype(emit_operand_type(emit, 0)->dtype), 0);
}

/* Neutral for "maximum"; exact as double in every case. */
static double lowest(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_F64:
    case DTYPE_F32:
    case DTYPE_BF16:
    case DTYPE_F16:
        return -1.0 / 0.0;
    case DTYPE_I64:
        return -9223372036854775808.0;
    case DTYPE_I32:
        return -2147483648.0;
    case DTYPE_U32:
    case DTYPE_U8:
    case DTYPE_BOOL:
        return 0;
    case DTYPE_COUNT:
        break;
    }
    UNREACHABLE();
}

/* Needs no wider type: the largest is one of the operands. */
void emit_op_reduce_max(struct emit *emit)
{
    const enum dtype dtype = emit_operand_type(emit, 0)->dtype;
    reduce(emit, "stablehlo.maximum", dtype, lowest(dtype));
}
