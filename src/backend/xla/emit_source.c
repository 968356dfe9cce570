/*
 * emit_source - values that come from nowhere: arguments, constants, counting, random
 * bits.
 */
#include "backend/xla/emit.h"
#include "backend/xla/emit_rules.h"
#include "base/mem.h"

/* Named by the signature, or by the loop around a body. */
void emit_op_parameter(struct emit *emit)
{
    ASSERT(emit->names[emit->node->outputs[0]->id] != NULL);
}

void emit_op_input(struct emit *emit)
{
    ASSERT(emit->names[emit->node->outputs[0]->id] != NULL);
}

/* The attribute is a double whatever the dtype. */
void emit_op_constant(struct emit *emit)
{
    const struct type *type = emit_result_type(emit);
    emit_bind(
        emit, 0,
        emit_constant(emit, type->dtype, &type->shape, emit->node->attributes.value));
}

/* i32 scalar: global index of the rank's first element along `dim`; NULL = 0
 * everywhere. A dimension that is not split starts at 0 on every rank; then no table is
 * written. */
static const char *global_start(struct emit *emit, int dim)
{
    const struct type *type = emit_result_type(emit);
    if (placement_n_blocks(&type->placement, emit->mesh, dim) == 1) {
        return NULL;
    }
    const int n_ranks = mesh_n_ranks(emit->mesh);
    int64_t *by_rank = mem_alloc_array((size_t)n_ranks, sizeof(*by_rank));
    for (int rank = 0; rank < n_ranks; rank++) {
        by_rank[rank] = type->shape.dim[dim] *
                        placement_block(&type->placement, emit->mesh, rank, dim);
    }
    const char *start = emit_rank_table(emit, by_rank);
    mem_free(by_rank);
    return start;
}

/* Global index along `dim` of every element, as `dtype`. start + local index; so values
 * do not depend on how ranks hold the array. */
static const char *count(struct emit *emit, int dim, enum dtype dtype)
{
    const struct shape *shape = &emit_result_type(emit)->shape;
    const char *local = emit_line(emit, "stablehlo.iota dim = %d : %s", dim,
                                  emit_shape(emit, dtype, shape));
    const char *start = global_start(emit, dim);
    if (start == NULL) {
        return local;
    }
    const struct shape scalar = emit_scalar_shape();
    start = emit_convert(emit, start, &scalar, DTYPE_I32, dtype);
    start = emit_fill(emit, start, dtype, shape);
    return emit_binary(emit, "stablehlo.add", start, local, dtype, shape);
}

void emit_op_iota(struct emit *emit)
{
    emit_bind(emit, 0,
              count(emit, emit->node->attributes.axis, emit_result_type(emit)->dtype));
}

/* ---- random bits: Philox 4x32-10, on words held in i64 ---- */

/* Lines over arrays of one shape, all i64. */
struct words {
    struct emit *emit;
    struct shape shape;
};

/* i64 has the same 64 bits as ui64: products and sums wrap alike, and where the sign
 * would matter (shifts, comparisons) the lines say what they mean. */
static const char *wide_type(struct words *w)
{
    return emit_shape(w->emit, DTYPE_I64, &w->shape);
}

/* Constants of 64 bits are printed as signed decimals with the same bits. */
static const char *wide_constant(struct words *w, uint64_t value)
{
    return emit_line(w->emit, "stablehlo.constant dense<%lld> : %s", (long long)value,
                     wide_type(w));
}

/* One op on two arrays of words. */
static const char *wide(struct words *w, const char *op, const char *a, const char *b)
{
    return emit_line(w->emit, "stablehlo.%s %s, %s : %s", op, a, b, wide_type(w));
}

/* Bits 32 .. 63 of each element, moved down. */
static const char *upper(struct words *w, const char *x)
{
    return wide(w, "shift_right_logical", x, wide_constant(w, 32));
}

/* Bits 0 .. 31 of each element. */
static const char *lower(struct words *w, const char *x)
{
    return wide(w, "and", x, wide_constant(w, 0xFFFFFFFF));
}

/* Row-major index in the global array of every element. sum over d of (global index
 * along d) * stride of d, in the shape of the global array. */
static const char *global_index(struct words *w)
{
    struct emit *emit = w->emit;
    const struct type *type = emit_result_type(emit);
    const char *index = wide_constant(w, 0);
    uint64_t stride = 1;
    for (int d = type->shape.rank - 1; d >= 0; d--) {
        const char *counted = count(emit, d, DTYPE_I64);
        const char *step = wide(w, "multiply", counted, wide_constant(w, stride));
        index = wide(w, "add", index, step);
        stride *= (uint64_t)(type->shape.dim[d] *
                             placement_n_blocks(&type->placement, emit->mesh, d));
    }
    return index;
}

/* A u32 scalar operand as words of the shape. Seed and step are scalars that come at
 * run time. */
static const char *wide_operand(struct words *w, int i)
{
    const struct shape scalar = emit_scalar_shape();
    const char *x =
        emit_convert(w->emit, emit_operand(w->emit, i), &scalar, DTYPE_U32, DTYPE_I64);
    return emit_fill(w->emit, x, DTYPE_I64, &w->shape);
}

/* Ten rounds on the counter c[0 .. 4) with key k[0 .. 2); as base/random.c. (Salmon et
 * al. 2011.) A product of two 32-bit words fits 64 bits exactly, and its halves are
 * what the round needs; the key is raised by constants after each round, modulo
 * 2^32. */
static void philox(struct words *w, const char **c, const char **k)
{
    for (int round = 0; round < 10; round++) {
        const char *p0 = wide(w, "multiply", c[0], wide_constant(w, 0xD2511F53));
        const char *p1 = wide(w, "multiply", c[2], wide_constant(w, 0xCD9E8D57));
        const char *c0 = wide(w, "xor", wide(w, "xor", upper(w, p1), c[1]), k[0]);
        const char *c2 = wide(w, "xor", wide(w, "xor", upper(w, p0), c[3]), k[1]);
        c[0] = c0;
        c[1] = lower(w, p1);
        c[2] = c2;
        c[3] = lower(w, p0);
        k[0] = lower(w, wide(w, "add", k[0], wide_constant(w, 0x9E3779B9)));
        k[1] = lower(w, wide(w, "add", k[1], wide_constant(w, 0xBB67AE85)));
    }
}

/* Element i takes word i mod 4 of block i / 4. Every element computes its whole block:
 * four times the work, but no dependence between elements. Counter: block (two words),
 * step, purpose; key: seed, 0. */
void emit_op_random_bits(struct emit *emit)
{
    const struct shape shape = emit_result_type(emit)->shape;
    struct words w = {.emit = emit, .shape = shape};
    const char *index = global_index(&w);
    const char *block = wide(&w, "shift_right_logical", index, wide_constant(&w, 2));
    const char *word = wide(&w, "and", index, wide_constant(&w, 3));
    /* One by one: the order in which lines are written must not be the compiler's. */
    const char *counter[4];
    const char *key[2];
    counter[0] = lower(&w, block);
    counter[1] = upper(&w, block);
    counter[2] = wide_operand(&w, 1);
    counter[3] = wide_constant(&w, emit->node->attributes.purpose);
    key[0] = wide_operand(&w, 0);
    key[1] = wide_constant(&w, 0);
    philox(&w, counter, key);
    const char *mask = emit_shape(emit, DTYPE_BOOL, &shape);
    const char *bits = counter[0];
    for (uint64_t i = 1; i < 4; i++) {
        const char *is_it =
            emit_line(emit, "stablehlo.compare EQ, %s, %s, SIGNED : (%s, %s) -> %s",
                      word, wide_constant(&w, i), wide_type(&w), wide_type(&w), mask);
        bits = emit_line(emit, "stablehlo.select %s, %s, %s : %s, %s", is_it,
                         counter[i], bits, mask, wide_type(&w));
    }
    emit_bind(emit, 0, emit_convert(emit, bits, &shape, DTYPE_I64, DTYPE_U32));
}
