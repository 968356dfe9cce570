/*
 * emit_repeat - a loop over stacked values.
 *
 * The loop carries the iteration, the carries and the arrays of stacked results; a
 * slice of each stacked operand is taken at the start of the body, and each result is
 * written into its array at the end. Invariants and stacked operands are used from
 * outside. Start 0, step 1 and a constant limit, so that XLA knows how often it turns.
 */
#include "backend/xla/emit.h"
#include "backend/xla/emit_rules.h"
#include "base/mem.h"

/* What the loop carries beside the iteration: carries, then arrays of results. */
struct loop {
    const struct node *node;
    int n_carried;
    const char **starts;            /* [n_carried] names outside */
    const char **inside;            /* [n_carried] names in cond and body */
    const char *iteration;          /* i32 scalar, the first value that is carried */
    const char *zero, *one, *limit; /* i32 scalars, defined before the loop */
};

/* Needed twice: in the head of the loop and in the return of its body. */
static const char *type_list(struct emit *emit, const struct node *node)
{
    struct str types = {0};
    str_add(&types, "tensor<i32>");
    for (int i = 0; i < node->n_outputs; i++) {
        str_printf(&types, ", %s", emit_type(emit, &node->outputs[i]->type));
    }
    const char *list = arena_strdup(emit->arena, str_text(&types));
    str_deinit(&types);
    return list;
}

/* Arrays of stacked results start as zeros; every row is written once, so the value
 * does not matter. */
static void prepare(struct emit *emit, struct loop *loop)
{
    const struct node *node = loop->node;
    loop->zero = emit_scalar(emit, DTYPE_I32, 0);
    loop->one = emit_scalar(emit, DTYPE_I32, 1);
    loop->limit = emit_scalar(emit, DTYPE_I32, node->attributes.n_iterations);
    for (int i = 0; i < loop->n_carried; i++) {
        const struct type *type = &node->outputs[i]->type;
        loop->starts[i] = i < node->attributes.n_carries
                              ? emit_operand(emit, i)
                              : emit_constant(emit, type->dtype, &type->shape, 0);
    }
}

/* "%7:3 = stablehlo.while(%8 = %0, ...) : types" and the condition. Leaves `emit`
 * inside the body. */
static const char *begin(struct emit *emit, struct loop *loop)
{
    const char *name = emit_number(emit);
    loop->iteration = emit_number(emit);
    struct str text = {0};
    str_printf(&text, "%s:%d = stablehlo.while(%s = %s", name, loop->n_carried + 1,
               loop->iteration, loop->zero);
    for (int i = 0; i < loop->n_carried; i++) {
        loop->inside[i] = emit_number(emit);
        str_printf(&text, ", %s = %s", loop->inside[i], loop->starts[i]);
    }
    emit_raw(emit, "%s) : %s", str_text(&text), type_list(emit, loop->node));
    str_deinit(&text);
    emit_raw(emit, "cond {");
    emit->depth++;
    const char *goes_on = emit_line(emit,
                                    "stablehlo.compare LT, %s, %s, SIGNED : "
                                    "(tensor<i32>, tensor<i32>) -> tensor<i1>",
                                    loop->iteration, loop->limit);
    emit_raw(emit, "stablehlo.return %s : tensor<i1>", goes_on);
    emit->depth--;
    emit_raw(emit, "} do {");
    emit->depth++;
    return name;
}

/* Slice `iteration` of a stacked operand, without its leading dimension. [n, ...] ->
 * [1, ...] -> [...]. */
static const char *slice_of(struct emit *emit, const struct loop *loop, int operand,
                            const struct type *row)
{
    const struct type *stacked = emit_operand_type(emit, operand);
    const char *slice = emit_slice_at(emit, emit_operand(emit, operand), stacked,
                                      loop->iteration, 0, 1);
    struct shape one = stacked->shape;
    one.dim[0] = 1;
    return emit_line(emit, "stablehlo.reshape %s : (%s) -> %s", slice,
                     emit_shape(emit, stacked->dtype, &one), emit_type(emit, row));
}

/* Names the body's arguments, writes its nodes, and names what its outputs are. Body
 * argument 0 is the iteration; the others stand in the order of the operands: carries,
 * stacked, invariants. Names of the body are by its own value ids and so need a table
 * of their own; loops inside find it as their outer one. */
static void body_nodes(struct emit *emit, struct loop *loop, const char **results)
{
    const struct node *node = loop->node;
    const struct attributes *attributes = &node->attributes;
    const struct graph *body = node->body;
    const char **outer = emit->names;
    const char **inner = mem_alloc_array((size_t)body->n_values, sizeof(char *));
    inner[body->arguments[0]->id] = loop->iteration;
    for (int i = 0; i < node->n_inputs; i++) {
        const struct value *argument = body->arguments[1 + i];
        const int stacked = i - attributes->n_carries;
        if (stacked < 0) {
            inner[argument->id] = loop->inside[i];
        } else if (stacked < attributes->n_stacked) {
            inner[argument->id] = slice_of(emit, loop, i, &argument->type);
        } else {
            inner[argument->id] = emit_operand(emit, i);
        }
    }
    emit->names = inner;
    emit_nodes(emit, body);
    for (int i = 0; i < body->n_outputs; i++) {
        results[i] = inner[body->outputs[i].value->id];
    }
    mem_free(inner);
    emit->names = outer;
    emit->node = node;
}

/* Writes one stacked result into its array. [...] -> [1, ...], written at row
 * `iteration`. */
static const char *store(struct emit *emit, const struct loop *loop, int i,
                         const char *result)
{
    const struct type *array = &loop->node->outputs[i]->type;
    const struct type *row = &loop->node->body->outputs[i].value->type;
    struct type one = *array;
    one.shape.dim[0] = 1;
    const char *part = emit_line(emit, "stablehlo.reshape %s : (%s) -> %s", result,
                                 emit_type(emit, row), emit_type(emit, &one));
    return emit_update_at(emit, loop->inside[i], array, part, &one, loop->iteration, 0);
}

/* What the body returns is in the order of the head: next iteration, carries,
 * arrays. */
static void end(struct emit *emit, const struct loop *loop, const char **results)
{
    const char *next = emit_line(emit, "stablehlo.add %s, %s : tensor<i32>",
                                 loop->iteration, loop->one);
    struct str names = {0};
    str_add(&names, next);
    for (int i = 0; i < loop->n_carried; i++) {
        const bool is_carry = i < loop->node->attributes.n_carries;
        str_printf(&names, ", %s",
                   is_carry ? results[i] : store(emit, loop, i, results[i]));
    }
    emit_raw(emit, "stablehlo.return %s : %s", str_text(&names),
             type_list(emit, loop->node));
    str_deinit(&names);
    emit->depth--;
    emit_raw(emit, "} %s", emit_location(emit));
}

/* Result 0 of the while op is the iteration, which nobody uses; output i is its result
 * i + 1. */
void emit_op_repeat(struct emit *emit)
{
    const size_t n = (size_t)emit->node->n_outputs;
    struct loop loop = {
        .node = emit->node,
        .n_carried = emit->node->n_outputs,
        .starts = mem_alloc_array(n, sizeof(char *)),
        .inside = mem_alloc_array(n, sizeof(char *)),
    };
    const char **results = mem_alloc_array(n, sizeof(char *));
    prepare(emit, &loop);
    const char *name = begin(emit, &loop);
    body_nodes(emit, &loop, results);
    end(emit, &loop, results);
    for (int i = 0; i < loop.n_carried; i++) {
        emit_bind(emit, i, arena_printf(emit->arena, "%s#%d", name, i + 1));
    }
    mem_free(loop.starts);
    mem_free(loop.inside);
    mem_free(results);
}
