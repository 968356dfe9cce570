/*
 * rewrite_recompute - memory for time: forward values of a block are made again where
 * the backward part of that block wants them, instead of being kept.
 *
 * Of a block's forward values these are kept: those that nodes outside the block read
 * (the block's results), graph outputs, and those that `saves` names. What its backward
 * nodes read beside these is cloned, with all that leads to it, just before the first
 * of them. A clone reads kept values and values from outside (parameters included)
 * through barriers, one per value and block, so that no pass merges it with the first
 * computation. Same ops on the same operands: the clones' values are bit-equal.
 */
#include "base/mem.h"
#include "graph/build.h"
#include "graph/rewrite.h"

struct recompute {
    struct rewrite rewrite;
    bool *is_kept;         /* by value id */
    bool *is_cloned;       /* by node id */
    int *first_backward;   /* by block: position of its first backward node, or -1 */
    int *next_in_block;    /* by position: next forward node of the same block, or -1 */
    int *first_in_block;   /* by block */
    struct value **clones; /* by value id: what backward nodes of its block read */
    struct value **behind; /* by value id: barrier made for block behind_block */
    int *behind_block;     /* by value id */
};

/* Arguments are there all the time: nothing to make again. */
static bool is_forward_in(const struct node *node, int block)
{
    return node->block == block && !node->is_backward && !graph_node_is_argument(node);
}

/* Which forward values of blocks stay. */
static void mark_kept(struct recompute *r, rewrite_saves_fn saves)
{
    const struct graph *graph = r->rewrite.from;
    for (int i = 0; i < graph->n_outputs; i++) {
        r->is_kept[graph->outputs[i].value->id] = true;
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        for (int k = 0; k < node->n_inputs; k++) {
            if (node->inputs[k]->node->block != node->block) {
                r->is_kept[node->inputs[k]->id] = true;
            }
        }
        for (int k = 0; k < node->n_outputs; k++) {
            if (saves != NULL && saves(node->outputs[k])) {
                r->is_kept[node->outputs[k]->id] = true;
            }
        }
    }
}

/* Must the backward part of `block` read a clone instead of this value? */
static bool is_recomputed(const struct recompute *r, const struct value *value,
                          int block)
{
    return is_forward_in(value->node, block) && !r->is_kept[value->id];
}

/* Marks the nodes to clone: from the last to the first, so that one walk is enough. */
static void mark_cloned(struct recompute *r)
{
    const struct graph *graph = r->rewrite.from;
    for (int i = graph->n_nodes - 1; i >= 0; i--) {
        const struct node *node = graph->nodes[i];
        /* A clone needs its operands cloned too. */
        const bool reads = node->is_backward || r->is_cloned[node->id];
        for (int k = 0; reads && node->block >= 0 && k < node->n_inputs; k++) {
            if (is_recomputed(r, node->inputs[k], node->block)) {
                r->is_cloned[node->inputs[k]->node->id] = true;
            }
        }
    }
}

/* From the last node to the first, so that lists are in program order and the first
 * backward node is what stays. */
static void index_blocks(struct recompute *r)
{
    const struct graph *graph = r->rewrite.from;
    for (int b = 0; b < graph->next_block; b++) {
        r->first_backward[b] = -1;
        r->first_in_block[b] = -1;
    }
    for (int i = graph->n_nodes - 1; i >= 0; i--) {
        const struct node *node = graph->nodes[i];
        if (node->block < 0) {
            continue;
        }
        if (node->is_backward) {
            r->first_backward[node->block] = i;
        } else {
            r->next_in_block[i] = r->first_in_block[node->block];
            r->first_in_block[node->block] = i;
        }
    }
}

/* What a clone in `block` reads for `value`. */
static struct value *clone_input(struct recompute *r, const struct value *value,
                                 int block)
{
    if (is_recomputed(r, value, block)) {
        ASSERT(r->clones[value->id] != NULL);
        return r->clones[value->id];
    }
    if (r->behind[value->id] == NULL || r->behind_block[value->id] != block) {
        r->behind[value->id] = build_barrier(r->rewrite.to, r->rewrite.map[value->id]);
        r->behind_block[value->id] = block;
    }
    return r->behind[value->id];
}

/* Its name gets ".again", to be found in reports. */
static void clone_node(struct recompute *r, const struct node *node)
{
    struct graph *to = r->rewrite.to;
    struct value **inputs =
        mem_alloc_array((size_t)node->n_inputs, sizeof(struct value *));
    for (int k = 0; k < node->n_inputs; k++) {
        inputs[k] = clone_input(r, node->inputs[k], node->block);
    }
    struct node *clone = graph_append_copy(to, node, inputs);
    clone->name = arena_printf(to->arena, "%s.again", node->name);
    for (int k = 0; k < node->n_outputs; k++) {
        r->clones[node->outputs[k]->id] = clone->outputs[k];
    }
    mem_free(inputs);
}

/* Clones are backward nodes: their values live from here to the block's last use of
 * them. */
static void clone_block(struct recompute *r, int block)
{
    const struct graph *graph = r->rewrite.from;
    r->rewrite.to->block = block;
    r->rewrite.to->is_backward = true;
    for (int i = r->first_in_block[block]; i >= 0; i = r->next_in_block[i]) {
        if (r->is_cloned[graph->nodes[i]->id]) {
            clone_node(r, graph->nodes[i]);
        }
    }
}

/* A backward node, reading clones where its block has them. */
static void copy_backward(struct recompute *r, const struct node *node)
{
    struct value **inputs = rewrite_inputs(&r->rewrite, node);
    for (int k = 0; k < node->n_inputs; k++) {
        const struct value *input = node->inputs[k];
        if (is_recomputed(r, input, node->block)) {
            inputs[k] = r->clones[input->id];
            ASSERT(inputs[k] != NULL);
        }
    }
    rewrite_copy_with(&r->rewrite, node, inputs);
    mem_free(inputs);
}

static struct recompute recompute_begin(const struct graph *graph)
{
    const size_t n_values = (size_t)graph->n_values;
    const size_t n_ids = (size_t)graph->next_node_id;
    const size_t n_blocks = (size_t)graph->next_block;
    return (struct recompute){
        .rewrite = rewrite_begin(graph),
        .is_kept = mem_alloc_array(n_values, sizeof(bool)),
        .is_cloned = mem_alloc_array(n_ids, sizeof(bool)),
        .first_backward = mem_alloc_array(n_blocks, sizeof(int)),
        .next_in_block = mem_alloc_array((size_t)graph->n_nodes, sizeof(int)),
        .first_in_block = mem_alloc_array(n_blocks, sizeof(int)),
        .clones = mem_alloc_array(n_values, sizeof(struct value *)),
        .behind = mem_alloc_array(n_values, sizeof(struct value *)),
        .behind_block = mem_alloc_array(n_values, sizeof(int)),
    };
}

static struct graph *recompute_end(struct recompute *r)
{
    mem_free(r->is_kept);
    mem_free(r->is_cloned);
    mem_free(r->first_backward);
    mem_free(r->next_in_block);
    mem_free(r->first_in_block);
    mem_free(r->clones);
    mem_free(r->behind);
    mem_free(r->behind_block);
    return rewrite_end(&r->rewrite);
}

/* Blocks without a backward part, and nodes outside of blocks, are copied as they
 * are. */
struct graph *rewrite_recompute(const struct graph *graph, rewrite_saves_fn saves)
{
    struct recompute r = recompute_begin(graph);
    index_blocks(&r);
    mark_kept(&r, saves);
    mark_cloned(&r);
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        if (node->block >= 0 && node->is_backward) {
            if (r.first_backward[node->block] == i) {
                clone_block(&r, node->block);
            }
            copy_backward(&r, node);
        } else {
            rewrite_copy(&r.rewrite, node);
        }
    }
    return recompute_end(&r);
}
