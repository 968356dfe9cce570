/*
 * rewrite_narrow - weights that are stored in bf16 are read as they are stored.
 *
 * A model that computes in f32 casts each bf16 weight where it uses it, which would make
 * a copy of the whole matrix, twice as large, in every run. Products and lookups hold
 * their operands in f32 only piece by piece, so they can take the weight itself: the
 * cast is exact, and the results are the same to the bit up to the order of sums.
 */
#include "base/mem.h"
#include "graph/build.h"
#include "graph/define_rules.h"
#include "graph/rewrite.h"

/* What `value` is a cast to f32 of, if that is a stored weight; else NULL. */
static struct value *stored(const struct value *value)
{
    const struct node *cast = value->node;
    if (cast->op != OP_CAST || value->type.dtype != DTYPE_F32) {
        return NULL;
    }
    struct value *from = cast->inputs[0];
    const bool is_short =
        from->type.dtype == DTYPE_BF16 || from->type.dtype == DTYPE_F16;
    return is_short && from->node->op == OP_PARAMETER ? from : NULL;
}

/* The result of a lookup with operands `in` of the new graph, made from the table as it
 * is stored; NULL: the node is no lookup. */
static struct value *read_narrow(struct graph *graph, const struct node *node,
                                 struct value **in, struct value *table)
{
    const struct attributes *attributes = &node->attributes;
    switch ((int)node->op) {
    case OP_GATHER_ROWS:
        return build_cast(
            graph, build_gather_rows(graph, table, in[1], attributes->ignore_row),
            DTYPE_F32);
    case OP_EMBED: {
        /* Its definition, with the cast behind the lookup. */
        struct value *ids = define_local_ids(graph, table, in[1], -1);
        struct value *rows = build_gather_rows(graph, table, ids, -1);
        return build_scale(graph, build_cast(graph, rows, DTYPE_F32),
                           attributes->value);
    }
    }
    return NULL;
}

/* Products, and the loss head, which is one, take each operand by itself; the cast dies
 * if nobody else reads it. */
static void walk_node(struct rewrite *rewrite, const struct node *node)
{
    struct value **in = rewrite_inputs(rewrite, node);
    if (node->op == OP_MATMUL || node->op == OP_LOSS_HEAD) {
        for (int i = 0; i < 2; i++) {
            struct value *weight = stored(in[i]);
            in[i] = weight != NULL ? weight : in[i];
        }
    }
    struct value *table = node->n_inputs > 0 ? stored(in[0]) : NULL;
    struct value *result = NULL;
    if (table != NULL) {
        rewrite->to->block = node->block;
        rewrite->to->is_backward = node->is_backward;
        result = read_narrow(rewrite->to, node, in, table);
    }
    if (result != NULL) {
        ASSERT(type_equal(&result->type, &node->outputs[0]->type));
        rewrite->map[node->outputs[0]->id] = result;
    } else {
        rewrite_copy_with(rewrite, node, in);
    }
    mem_free(in);
}

struct graph *rewrite_narrow(const struct graph *graph)
{
    struct rewrite rewrite = rewrite_begin(graph);
    for (int i = 0; i < graph->n_nodes; i++) {
        walk_node(&rewrite, graph->nodes[i]);
    }
    return rewrite_end(&rewrite);
}
