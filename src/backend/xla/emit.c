/*
 * emit - lines, names, types and literals of StableHLO text.
 */
#include "backend/xla/emit.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* In the order of the lines, so that the same graph always gives the same text. */
const char *emit_number(struct emit *emit)
{
    return arena_printf(emit->arena, "%%%d", emit->n_numbers++);
}

/* Two spaces a step, as the reference printer does; only for readers. */
static void indent(struct emit *emit)
{
    for (int i = 0; i < emit->depth; i++) {
        str_add(emit->out, "  ");
    }
}

/* A line mostly fits a small buffer. Where it does not, the arguments are walked a
 * second time, hence the copy. */
PRINTF_LIKE(2, 0)
static void add_formatted(struct emit *emit, const char *format, va_list args)
{
    char small[512];
    va_list again;
    va_copy(again, args);
    const int length = vsnprintf(small, sizeof(small), format, args);
    ASSERT(length >= 0);
    if ((size_t)length < sizeof(small)) {
        str_add(emit->out, small);
    } else {
        char *large = mem_alloc((size_t)length + 1);
        vsnprintf(large, (size_t)length + 1, format, again);
        str_add(emit->out, large);
        mem_free(large);
    }
    va_end(again);
}

/* Quotes and backslashes in names are escaped. */
const char *emit_location(struct emit *emit)
{
    struct str text = {0};
    str_add(&text, "loc(\"");
    for (const char *c = emit->node->name; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            str_add_char(&text, '\\');
        }
        str_add_char(&text, *c);
    }
    str_add(&text, "\")");
    const char *location = arena_strdup(emit->arena, str_text(&text));
    str_deinit(&text);
    return location;
}

/* The number is taken before the text is made, but after the caller's operands were:
 * arguments of a call are complete before it begins. So operands always have lower
 * numbers. */
const char *emit_line(struct emit *emit, const char *format, ...)
{
    const char *name = emit_number(emit);
    indent(emit);
    str_printf(emit->out, "%s = ", name);
    va_list args;
    va_start(args, format);
    add_formatted(emit, format, args);
    va_end(args);
    str_printf(emit->out, " %s\n", emit_location(emit));
    return name;
}

void emit_raw(struct emit *emit, const char *format, ...)
{
    indent(emit);
    va_list args;
    va_start(args, format);
    add_formatted(emit, format, args);
    va_end(args);
    str_add_char(emit->out, '\n');
}

/* names[] is by value id, so that later nodes find their operands without a search. */
void emit_bind(struct emit *emit, int index, const char *name)
{
    emit->names[emit->node->outputs[index]->id] = name;
}

/* The order of the nodes is topological, so the name is there. */
const char *emit_operand(const struct emit *emit, int i)
{
    const char *name = emit->names[emit->node->inputs[i]->id];
    ASSERT(name != NULL);
    return name;
}

const struct type *emit_operand_type(const struct emit *emit, int i)
{
    return &emit->node->inputs[i]->type;
}

const struct type *emit_result_type(const struct emit *emit)
{
    return &emit->node->outputs[0]->type;
}

/* In StableHLO a signless integer is signed unless it says "ui"; bool is i1. */
const char *emit_element(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_F64:
        return "f64";
    case DTYPE_F32:
        return "f32";
    case DTYPE_BF16:
        return "bf16";
    case DTYPE_F16:
        return "f16";
    case DTYPE_I64:
        return "i64";
    case DTYPE_I32:
        return "i32";
    case DTYPE_U32:
        return "ui32";
    case DTYPE_U8:
        return "ui8";
    case DTYPE_BOOL:
        return "i1";
    case DTYPE_COUNT:
        break;
    }
    UNREACHABLE();
}

/* Dimensions come in front of the element type, each with an "x" behind it: tensor<f32>
 * is a scalar. */
const char *emit_shape(struct emit *emit, enum dtype dtype, const struct shape *shape)
{
    struct str text = {0};
    str_add(&text, "tensor<");
    for (int i = 0; i < shape->rank; i++) {
        str_printf(&text, "%lldx", (long long)shape->dim[i]);
    }
    str_printf(&text, "%s>", emit_element(dtype));
    const char *result = arena_strdup(emit->arena, str_text(&text));
    str_deinit(&text);
    return result;
}

const char *emit_type(struct emit *emit, const struct type *type)
{
    return emit_shape(emit, type->dtype, &type->shape);
}

const char *emit_arrow(struct emit *emit)
{
    return arena_printf(emit->arena, "(%s) -> %s",
                        emit_type(emit, emit_operand_type(emit, 0)),
                        emit_type(emit, emit_result_type(emit)));
}

struct shape emit_scalar_shape(void)
{
    return (struct shape){.rank = 0};
}

const char *emit_scalar_type(struct emit *emit, enum dtype dtype)
{
    const struct shape shape = emit_scalar_shape();
    return emit_shape(emit, dtype, &shape);
}

const char *emit_list(struct emit *emit, const int64_t *items, int n)
{
    struct str text = {0};
    str_add_char(&text, '[');
    for (int i = 0; i < n; i++) {
        str_printf(&text, "%s%lld", i > 0 ? ", " : "", (long long)items[i]);
    }
    str_add_char(&text, ']');
    const char *result = arena_strdup(emit->arena, str_text(&text));
    str_deinit(&text);
    return result;
}

/* Attributes hold axes as int, shapes are int64_t; one function writes both. */
const char *emit_int_list(struct emit *emit, const int *items, int n)
{
    int64_t wide[SHAPE_MAX_RANK];
    ASSERT(n <= SHAPE_MAX_RANK);
    for (int i = 0; i < n; i++) {
        wide[i] = items[i];
    }
    return emit_list(emit, wide, n);
}

/* The bits of a float in hexadecimal: the only spelling of infinities and NaN. Also of
 * bf16 and f16, which thus need no decimal digits that round back. */
static const char *literal_bits(struct emit *emit, enum dtype dtype, double value)
{
    const float single = (float)value;
    if (dtype == DTYPE_F64) {
        uint64_t bits;
        memcpy(&bits, &value, sizeof(bits));
        return arena_printf(emit->arena, "0x%016llX", (unsigned long long)bits);
    }
    if (dtype == DTYPE_F32) {
        uint32_t bits;
        memcpy(&bits, &single, sizeof(bits));
        return arena_printf(emit->arena, "0x%08X", (unsigned)bits);
    }
    const uint16_t bits =
        dtype == DTYPE_BF16 ? dtype_bf16_from_f32(single) : dtype_f16_from_f32(single);
    return arena_printf(emit->arena, "0x%04X", (unsigned)bits);
}

/* Nine digits identify every f32 and 17 every f64 ("%.8e", "%.16e"), so the text loses
 * nothing. */
const char *emit_literal(struct emit *emit, enum dtype dtype, double value)
{
    if (dtype == DTYPE_BOOL) {
        return value != 0 ? "true" : "false";
    }
    if (!dtype_is_float(dtype)) {
        return arena_printf(emit->arena, "%lld", (long long)value);
    }
    /* What the CPU kernel makes of it: rounded once, to f32 first for the short
     * types. */
    const double rounded = dtype == DTYPE_F64 ? value : (double)(float)value;
    if (!isfinite(rounded) || dtype == DTYPE_BF16 || dtype == DTYPE_F16) {
        return literal_bits(emit, dtype, value);
    }
    return arena_printf(emit->arena, "%.*e", dtype == DTYPE_F64 ? 16 : 8, rounded);
}

/* One value for all elements ("splat"), which XLA keeps as one. */
const char *emit_constant(struct emit *emit, enum dtype dtype,
                          const struct shape *shape, double value)
{
    return emit_line(emit, "stablehlo.constant dense<%s> : %s",
                     emit_literal(emit, dtype, value), emit_shape(emit, dtype, shape));
}

const char *emit_scalar(struct emit *emit, enum dtype dtype, double value)
{
    const struct shape shape = emit_scalar_shape();
    return emit_constant(emit, dtype, &shape, value);
}

/* A conversion to the same type gives no line. */
const char *emit_convert(struct emit *emit, const char *x, const struct shape *shape,
                         enum dtype from, enum dtype to)
{
    if (from == to) {
        return x;
    }
    return emit_line(emit, "stablehlo.convert %s : (%s) -> %s", x,
                     emit_shape(emit, from, shape), emit_shape(emit, to, shape));
}

/* No dimension of the scalar is mapped to one of the result, hence the empty list. */
const char *emit_fill(struct emit *emit, const char *scalar, enum dtype dtype,
                      const struct shape *shape)
{
    return emit_line(emit, "stablehlo.broadcast_in_dim %s, dims = [] : (%s) -> %s",
                     scalar, emit_scalar_type(emit, dtype),
                     emit_shape(emit, dtype, shape));
}

/* StableHLO has no implicit broadcast; the graph allows a scalar beside any shape. */
const char *emit_stretched(struct emit *emit, int i, const struct shape *shape)
{
    const struct type *type = emit_operand_type(emit, i);
    const char *x = emit_operand(emit, i);
    if (type->shape.rank == 0 && shape->rank > 0) {
        return emit_fill(emit, x, type->dtype, shape);
    }
    return x;
}

const char *emit_binary(struct emit *emit, const char *op, const char *a, const char *b,
                        enum dtype dtype, const struct shape *shape)
{
    return emit_line(emit, "%s %s, %s : %s", op, a, b, emit_shape(emit, dtype, shape));
}

/* What differs by rank must not be text, as one module serves all ranks: the table
 * holds every rank's number, and the replica looks up its own. */
const char *emit_rank_table(struct emit *emit, const int64_t *by_rank)
{
    const int n = mesh_n_ranks(emit->mesh);
    const char *table = emit_line(emit, "stablehlo.constant dense<%s> : tensor<%dxi32>",
                                  emit_list(emit, by_rank, n), n);
    const char *id = emit_line(emit, "stablehlo.replica_id : tensor<ui32>");
    const char *entry = emit_line(emit,
                                  "stablehlo.dynamic_slice %s, %s, sizes = [1] : "
                                  "(tensor<%dxi32>, tensor<ui32>) -> tensor<1xi32>",
                                  table, id, n);
    return emit_line(emit, "stablehlo.reshape %s : (tensor<1xi32>) -> tensor<i32>",
                     entry);
}

/* ", %5, %0" and ", tensor<i32>, tensor<i32>": start along one axis, zero elsewhere. A
 * start must be given for every dimension. Only one zero is written, and none where
 * there is just one dimension. */
static void starts_at(struct emit *emit, const char *start, int axis, int rank,
                      struct str *starts, struct str *types)
{
    const char *zero = rank > 1 ? emit_scalar(emit, DTYPE_I32, 0) : "";
    for (int i = 0; i < rank; i++) {
        str_printf(starts, ", %s", i == axis ? start : zero);
        str_add(types, ", tensor<i32>");
    }
}

/* XLA clamps a start that is too large, as the CPU kernel does. */
const char *emit_slice_at(struct emit *emit, const char *x, const struct type *type,
                          const char *start, int axis, int64_t size)
{
    struct shape result = type->shape;
    result.dim[axis] = size;
    struct str starts = {0};
    struct str types = {0};
    starts_at(emit, start, axis, result.rank, &starts, &types);
    const char *name =
        emit_line(emit, "stablehlo.dynamic_slice %s%s, sizes = %s : (%s%s) -> %s", x,
                  str_text(&starts), emit_list(emit, result.dim, result.rank),
                  emit_type(emit, type), str_text(&types),
                  emit_shape(emit, type->dtype, &result));
    str_deinit(&starts);
    str_deinit(&types);
    return name;
}

/* The whole of x with a part of it replaced; XLA works in place where x is not needed
 * again. */
const char *emit_update_at(struct emit *emit, const char *x, const struct type *type,
                           const char *part, const struct type *part_type,
                           const char *start, int axis)
{
    struct str starts = {0};
    struct str types = {0};
    starts_at(emit, start, axis, type->shape.rank, &starts, &types);
    const char *name =
        emit_line(emit, "stablehlo.dynamic_update_slice %s, %s%s : (%s, %s%s) -> %s", x,
                  part, str_text(&starts), emit_type(emit, type),
                  emit_type(emit, part_type), str_text(&types), emit_type(emit, type));
    str_deinit(&starts);
    str_deinit(&types);
    return name;
}

/* The number of the op is taken before those inside its region, as it stands on an
 * earlier line. */
const char *emit_begin_region(struct emit *emit, const char *format, ...)
{
    const char *name = emit_number(emit);
    indent(emit);
    str_printf(emit->out, "%s = ", name);
    va_list args;
    va_start(args, format);
    add_formatted(emit, format, args);
    va_end(args);
    str_add_char(emit->out, '\n');
    return name;
}

/* The location stands here, at the end of the op. */
void emit_end_region(struct emit *emit, const char *format, ...)
{
    indent(emit);
    va_list args;
    va_start(args, format);
    add_formatted(emit, format, args);
    va_end(args);
    str_printf(emit->out, " %s\n", emit_location(emit));
}

/* The two arguments of the block are scalars of the summed type, whatever the shapes
 * outside. */
void emit_region(struct emit *emit, const char *op, enum dtype dtype)
{
    const char *type = emit_scalar_type(emit, dtype);
    const char *a = emit_number(emit);
    const char *b = emit_number(emit);
    emit->depth++;
    emit_raw(emit, "^bb0(%s: %s, %s: %s):", a, type, b, type);
    const char *sum = emit_number(emit);
    emit_raw(emit, "  %s = %s %s, %s : %s", sum, op, a, b, type);
    emit_raw(emit, "  stablehlo.return %s : %s", sum, type);
    emit->depth--;
}
