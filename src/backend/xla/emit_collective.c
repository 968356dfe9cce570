/*
 * emit_collective - exchanges between the ranks of one mesh axis. Every collective
 * lists all groups of its axis; within a group, ranks stand in order of their
 * coordinate.
 */
#include "backend/xla/emit.h"
#include "backend/xla/emit_rules.h"
#include "base/mem.h"

/* "dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>" Each group is found at its member with
 * coordinate 0, so every group appears once; in order of rank, which makes the text the
 * same on every machine. */
static const char *groups_of(struct emit *emit, enum mesh_axis axis)
{
    const struct mesh *mesh = emit->mesh;
    const int size = mesh->size[axis];
    const int n_ranks = mesh_n_ranks(mesh);
    struct str text = {0};
    str_add(&text, "dense<[");
    bool is_first = true;
    for (int rank = 0; rank < n_ranks; rank++) {
        if (mesh_coordinate(mesh, rank, axis) != 0) {
            continue;
        }
        str_add(&text, is_first ? "[" : ", [");
        is_first = false;
        for (int c = 0; c < size; c++) {
            str_printf(&text, "%s%d", c > 0 ? ", " : "",
                       mesh_neighbour(mesh, rank, axis, c));
        }
        str_add_char(&text, ']');
    }
    str_printf(&text, "]> : tensor<%dx%dxi64>", n_ranks / size, size);
    const char *groups = arena_strdup(emit->arena, str_text(&text));
    str_deinit(&text);
    return groups;
}

/* Operands are joined along the axis in the order of the group, the order of the blocks
 * of a split dimension. */
void emit_op_all_gather(struct emit *emit)
{
    const struct attributes *attributes = &emit->node->attributes;
    emit_bind(emit, 0,
              emit_line(emit,
                        "\"stablehlo.all_gather\"(%s) <{all_gather_dim = %d : i64, "
                        "replica_groups = %s}> : %s",
                        emit_operand(emit, 0), attributes->axis,
                        groups_of(emit, attributes->mesh_axis), emit_arrow(emit)));
}

/* The op sums and leaves each rank the block of its place in the group. Sums run in the
 * operand's dtype, in XLA's order: bits may differ from the CPU engine. */
void emit_op_reduce_scatter(struct emit *emit)
{
    const struct attributes *attributes = &emit->node->attributes;
    const char *result = emit_begin_region(
        emit,
        "\"stablehlo.reduce_scatter\"(%s) <{scatter_dimension = %d : i64, "
        "replica_groups = %s}> ({",
        emit_operand(emit, 0), attributes->axis,
        groups_of(emit, attributes->mesh_axis));
    emit_region(emit, "stablehlo.add", emit_result_type(emit)->dtype);
    emit_end_region(emit, "}) : %s", emit_arrow(emit));
    emit_bind(emit, 0, result);
}

/* Sum or largest, as the attribute says. */
void emit_op_all_reduce(struct emit *emit)
{
    const struct attributes *attributes = &emit->node->attributes;
    const char *result = emit_begin_region(
        emit, "\"stablehlo.all_reduce\"(%s) <{replica_groups = %s}> ({",
        emit_operand(emit, 0), groups_of(emit, attributes->mesh_axis));
    emit_region(
        emit, attributes->reduce == REDUCE_SUM ? "stablehlo.add" : "stablehlo.maximum",
        emit_result_type(emit)->dtype);
    emit_end_region(emit, "}) : %s", emit_arrow(emit));
    emit_bind(emit, 0, result);
}

/* The graph names the axis along which the operand is split first (axes[0]) and that of
 * the result second; StableHLO names the one that is cut now and the one along which
 * blocks are joined. */
void emit_op_all_to_all(struct emit *emit)
{
    const struct attributes *attributes = &emit->node->attributes;
    emit_bind(emit, 0,
              emit_line(emit,
                        "\"stablehlo.all_to_all\"(%s) <{split_dimension = %d : i64, "
                        "concat_dimension = %d : i64, split_count = %d : i64, "
                        "replica_groups = %s}> : %s",
                        emit_operand(emit, 0), attributes->axes[1], attributes->axes[0],
                        emit->mesh->size[attributes->mesh_axis],
                        groups_of(emit, attributes->mesh_axis), emit_arrow(emit)));
}

/* i32 scalar: factor times the rank's coordinate along `axis`. Coordinates follow from
 * the rank by arithmetic, but a table needs no ops for it. */
static const char *coordinate(struct emit *emit, enum mesh_axis axis, int64_t factor)
{
    const int n_ranks = mesh_n_ranks(emit->mesh);
    int64_t *by_rank = mem_alloc_array((size_t)n_ranks, sizeof(*by_rank));
    for (int rank = 0; rank < n_ranks; rank++) {
        by_rank[rank] = factor * mesh_coordinate(emit->mesh, rank, axis);
    }
    const char *name = emit_rank_table(emit, by_rank);
    mem_free(by_rank);
    return name;
}

/* start = coordinate * block length along the axis. No exchange: every rank has the
 * whole operand. */
void emit_op_take_split(struct emit *emit)
{
    const struct attributes *attributes = &emit->node->attributes;
    const int64_t size = emit_result_type(emit)->shape.dim[attributes->axis];
    const char *start = coordinate(emit, attributes->mesh_axis, size);
    emit_bind(emit, 0,
              emit_slice_at(emit, emit_operand(emit, 0), emit_operand_type(emit, 0),
                            start, attributes->axis, size));
}

/* The coordinate itself. */
void emit_op_axis_index(struct emit *emit)
{
    emit_bind(emit, 0, coordinate(emit, emit->node->attributes.mesh_axis, 1));
}
