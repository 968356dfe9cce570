/*
 * emit_rows - rows looked up and added by number.
 *
 * StableHLO clamps the numbers of a gather and drops what a scatter adds out of range;
 * a gather out of range gives zeros here, so its result is masked.
 */
#include <string.h>

#include "backend/xla/emit.h"
#include "backend/xla/emit_rules.h"

/* ids 0 .. n-1 as a comma list of the row dimensions: [first, first + n) Both ops put
 * the dimensions of a row behind those of the ids. */
static const char *dims_from(struct emit *emit, int first, int n)
{
    int64_t dims[SHAPE_MAX_RANK];
    for (int i = 0; i < n; i++) {
        dims[i] = first + i;
    }
    return emit_list(emit, dims, n);
}

/* i1 like ids: whether 0 <= id < n_rows. As unsigned, negative ids are large. */
static const char *ids_in_range(struct emit *emit, const char *ids,
                                const struct shape *shape, int64_t n_rows)
{
    const char *type = emit_shape(emit, DTYPE_U32, shape);
    const char *large = emit_line(emit, "stablehlo.bitcast_convert %s : (%s) -> %s",
                                  ids, emit_shape(emit, DTYPE_I32, shape), type);
    const char *limit = emit_constant(emit, DTYPE_U32, shape, (double)n_rows);
    return emit_line(emit, "stablehlo.compare LT, %s, %s, UNSIGNED : (%s, %s) -> %s",
                     large, limit, type, type, emit_shape(emit, DTYPE_BOOL, shape));
}

/* table [V, ...], ids [n...] -> [n..., ...]. The syntax wants the sizes of a slice
 * without brackets, so the list is printed without its first and last character. */
void emit_op_gather_rows(struct emit *emit)
{
    const struct type *table = emit_operand_type(emit, 0);
    const struct type *ids = emit_operand_type(emit, 1);
    const struct type *result = emit_result_type(emit);
    const int n_row_dims = table->shape.rank - 1;
    int64_t sizes[SHAPE_MAX_RANK];
    sizes[0] = 1;
    for (int i = 0; i < n_row_dims; i++) {
        sizes[1 + i] = table->shape.dim[1 + i];
    }
    const char *size_list = emit_list(emit, sizes, table->shape.rank);
    const char *rows = emit_line(
        emit,
        "\"stablehlo.gather\"(%s, %s) <{dimension_numbers = #stablehlo.gather<"
        "offset_dims = %s, collapsed_slice_dims = [0], start_index_map = [0], "
        "index_vector_dim = %d>, slice_sizes = array<i64: %.*s>, "
        "indices_are_sorted = false}> : (%s, %s) -> %s",
        emit_operand(emit, 0), emit_operand(emit, 1),
        dims_from(emit, ids->shape.rank, n_row_dims), ids->shape.rank,
        (int)strlen(size_list) - 2, size_list + 1, emit_type(emit, table),
        emit_type(emit, ids), emit_type(emit, result));
    const char *in_range =
        ids_in_range(emit, emit_operand(emit, 1), &ids->shape, table->shape.dim[0]);
    const char *mask = emit_line(
        emit, "stablehlo.broadcast_in_dim %s, dims = %s : (%s) -> %s", in_range,
        dims_from(emit, 0, ids->shape.rank), emit_shape(emit, DTYPE_BOOL, &ids->shape),
        emit_shape(emit, DTYPE_BOOL, &result->shape));
    const char *zero = emit_constant(emit, result->dtype, &result->shape, 0);
    emit_bind(emit, 0,
              emit_line(emit, "stablehlo.select %s, %s, %s : %s, %s", mask, rows, zero,
                        emit_shape(emit, DTYPE_BOOL, &result->shape),
                        emit_type(emit, result)));
}

/* The ids with ignore_row made -1, which is out of range. A scatter drops what is out
 * of range, so no mask over the rows is needed. Without an ignored row there is nothing
 * to do. */
static const char *ids_without_ignored(struct emit *emit)
{
    const struct type *ids = emit_operand_type(emit, 1);
    const char *names = emit_operand(emit, 1);
    const int64_t ignored = emit->node->attributes.ignore_row;
    if (ignored < 0) {
        return names;
    }
    const char *row = emit_constant(emit, DTYPE_I32, &ids->shape, (double)ignored);
    const char *type = emit_type(emit, ids);
    const char *mask = emit_shape(emit, DTYPE_BOOL, &ids->shape);
    const char *is_ignored =
        emit_line(emit, "stablehlo.compare EQ, %s, %s, SIGNED : (%s, %s) -> %s", names,
                  row, type, type, mask);
    const char *nowhere = emit_constant(emit, DTYPE_I32, &ids->shape, -1);
    return emit_line(emit, "stablehlo.select %s, %s, %s : %s, %s", is_ignored, nowhere,
                     names, mask, type);
}

/* The accumulator, or zeros where keep is false; select, so that what is in it then
 * does not matter. */
static const char *start_of_sum(struct emit *emit)
{
    const struct type *acc = emit_operand_type(emit, 0);
    if (emit->node->n_inputs < 4) {
        return emit_operand(emit, 0);
    }
    const char *keep = emit_stretched(emit, 3, &acc->shape);
    const char *zero = emit_constant(emit, acc->dtype, &acc->shape, 0);
    return emit_line(emit, "stablehlo.select %s, %s, %s : %s, %s", keep,
                     emit_operand(emit, 0), zero,
                     emit_shape(emit, DTYPE_BOOL, &acc->shape), emit_type(emit, acc));
}

/* acc [V, ...] += rows [n..., ...] at ids [n...]. Ids may repeat, and XLA does not say
 * in which order it adds them: bits may differ from the CPU engine. */
void emit_op_scatter_add_rows(struct emit *emit)
{
    const struct type *acc = emit_operand_type(emit, 0);
    const struct type *ids = emit_operand_type(emit, 1);
    const struct type *rows = emit_operand_type(emit, 2);
    const char *start = start_of_sum(emit);
    const char *names = ids_without_ignored(emit);
    const char *updates = emit_convert(emit, emit_operand(emit, 2), &rows->shape,
                                       rows->dtype, acc->dtype);
    const char *result = emit_begin_region(
        emit,
        "\"stablehlo.scatter\"(%s, %s, %s) <{scatter_dimension_numbers = "
        "#stablehlo.scatter<update_window_dims = %s, inserted_window_dims = [0], "
        "scatter_dims_to_operand_dims = [0], index_vector_dim = %d>, "
        "indices_are_sorted = false, unique_indices = false}> ({",
        start, names, updates, dims_from(emit, ids->shape.rank, acc->shape.rank - 1),
        ids->shape.rank);
    emit_region(emit, "stablehlo.add", acc->dtype);
    emit_end_region(emit, "}) : (%s, %s, %s) -> %s", emit_type(emit, acc),
                    emit_type(emit, ids), emit_shape(emit, acc->dtype, &rows->shape),
                    emit_type(emit, acc));
    emit_bind(emit, 0, result);
}
