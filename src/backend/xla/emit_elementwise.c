/*
 * emit_elementwise - ops whose elements do not meet. A scalar operand is stretched
 * first.
 */
#include "backend/xla/emit.h"
#include "backend/xla/emit_rules.h"

/* The node is its operand, under another name. */
static void bind_operand(struct emit *emit)
{
    emit_bind(emit, 0, emit_operand(emit, 0));
}

/* Operand and result have one type. */
static void unary(struct emit *emit, const char *op)
{
    emit_bind(emit, 0,
              emit_line(emit, "stablehlo.%s %s : %s", op, emit_operand(emit, 0),
                        emit_type(emit, emit_result_type(emit))));
}

/* Both operands have the result's dtype, by the infer rules. */
static void binary(struct emit *emit, const char *op)
{
    const struct type *type = emit_result_type(emit);
    const char *a = emit_stretched(emit, 0, &type->shape);
    const char *b = emit_stretched(emit, 1, &type->shape);
    emit_bind(emit, 0, emit_binary(emit, op, a, b, type->dtype, &type->shape));
}

/* An op that changes the dtype: "(from) -> to" behind it. */
static void converting(struct emit *emit, const char *op)
{
    emit_bind(emit, 0,
              emit_line(emit, "stablehlo.%s %s : %s", op, emit_operand(emit, 0),
                        emit_arrow(emit)));
}

/* Passes leave casts to the same type behind; they are no line. */
void emit_op_cast(struct emit *emit)
{
    const struct type *from = emit_operand_type(emit, 0);
    if (from->dtype == emit_result_type(emit)->dtype) {
        bind_operand(emit);
        return;
    }
    converting(emit, "convert");
}

/* The bits stay, only their type changes. */
void emit_op_bitcast(struct emit *emit)
{
    converting(emit, "bitcast_convert");
}

void emit_op_add(struct emit *emit)
{
    binary(emit, "stablehlo.add");
}

void emit_op_sub(struct emit *emit)
{
    binary(emit, "stablehlo.subtract");
}

void emit_op_mul(struct emit *emit)
{
    binary(emit, "stablehlo.multiply");
}

void emit_op_div(struct emit *emit)
{
    binary(emit, "stablehlo.divide");
}

/* NaN if one operand is, in StableHLO as in the CPU kernel. */
void emit_op_max(struct emit *emit)
{
    binary(emit, "stablehlo.maximum");
}

void emit_op_exp(struct emit *emit)
{
    unary(emit, "exponential");
}

void emit_op_log(struct emit *emit)
{
    unary(emit, "log");
}

void emit_op_tanh(struct emit *emit)
{
    unary(emit, "tanh");
}

void emit_op_sqrt(struct emit *emit)
{
    unary(emit, "sqrt");
}

void emit_op_rsqrt(struct emit *emit)
{
    unary(emit, "rsqrt");
}

void emit_op_cos(struct emit *emit)
{
    unary(emit, "cosine");
}

void emit_op_sin(struct emit *emit)
{
    unary(emit, "sine");
}

/* No default, so that the compiler finds a comparison that is added. */
static const char *direction_of(enum compare compare)
{
    switch (compare) {
    case COMPARE_EQ:
        return "EQ";
    case COMPARE_NE:
        return "NE";
    case COMPARE_LT:
        return "LT";
    case COMPARE_LE:
        return "LE";
    case COMPARE_GT:
        return "GT";
    case COMPARE_GE:
        return "GE";
    }
    UNREACHABLE();
}

/* FLOAT makes every comparison with NaN false but NE, as in C. bool compares as
 * unsigned. */
static const char *comparison_type(enum dtype dtype)
{
    if (dtype_is_float(dtype)) {
        return "FLOAT";
    }
    return dtype == DTYPE_I64 || dtype == DTYPE_I32 ? "SIGNED" : "UNSIGNED";
}

/* The type of the line is that of the operands after stretching; the result is i1 of
 * the same shape. */
void emit_op_compare(struct emit *emit)
{
    const struct type *result = emit_result_type(emit);
    const enum dtype dtype = emit_operand_type(emit, 0)->dtype;
    const char *a = emit_stretched(emit, 0, &result->shape);
    const char *b = emit_stretched(emit, 1, &result->shape);
    const char *type = emit_shape(emit, dtype, &result->shape);
    emit_bind(emit, 0,
              emit_line(emit, "stablehlo.compare %s, %s, %s, %s : (%s, %s) -> %s",
                        direction_of(emit->node->attributes.compare), a, b,
                        comparison_type(dtype), type, type, emit_type(emit, result)));
}

/* The condition is stretched as well, though StableHLO would take a scalar one: then
 * one form serves all. */
void emit_op_select(struct emit *emit)
{
    const struct type *result = emit_result_type(emit);
    const char *condition = emit_stretched(emit, 0, &result->shape);
    const char *a = emit_stretched(emit, 1, &result->shape);
    const char *b = emit_stretched(emit, 2, &result->shape);
    emit_bind(emit, 0,
              emit_line(emit, "stablehlo.select %s, %s, %s : %s, %s", condition, a, b,
                        emit_shape(emit, DTYPE_BOOL, &result->shape),
                        emit_type(emit, result)));
}

void emit_op_is_finite(struct emit *emit)
{
    converting(emit, "is_finite");
}

/* Differentiation is over when a graph is printed. */
void emit_op_stop_gradient(struct emit *emit)
{
    bind_operand(emit);
}

/* Keeps XLA from merging what recomputation has taken apart (its common subexpressions
 * would be computed once and kept). */
void emit_op_barrier(struct emit *emit)
{
    unary(emit, "optimization_barrier");
}

/* Same values on every rank before and after: nothing to do. */
void emit_op_fan_out(struct emit *emit)
{
    bind_operand(emit);
}
