/*
 * hazards - write-after-read edges, and the places where no order of nodes can help.
 *
 * Overwriting nodes are taken in program order. For each, the other readers of the
 * version that is lost get an edge before it. An edge along program order is always
 * possible; one against it only if the reader does not itself depend on the overwriting
 * node, over operands and edges accepted so far. If it does, the node overwrites a
 * copy.
 */
#include "graph/hazards.h"

#include "base/mem.h"

/* Depth-first: does `node` need `target` to have run? */
static bool needs(const struct hazards *h, const struct node *node,
                  const struct node *target, bool *visited)
{
    if (node == target) {
        return true;
    }
    const int *position = h->storage.position;
    const bool is_earlier = position[node->id] < position[target->id];
    if (visited[node->id] || (is_earlier && !h->turns_back)) {
        return false;
    }
    visited[node->id] = true;
    for (int k = 0; k < node->n_inputs; k++) {
        if (needs(h, node->inputs[k]->node, target, visited)) {
            return true;
        }
    }
    for (int e = h->first[node->id]; e >= 0; e = h->list[e].next) {
        if (needs(h, h->list[e].before, target, visited)) {
            return true;
        }
    }
    return false;
}

/* An edge closes a cycle exactly if `before` needs `after`. As long as all edges follow
 * the program order, position alone decides. */
static bool can_precede(const struct hazards *h, const struct node *before,
                        const struct node *after)
{
    const int *position = h->storage.position;
    if (position[before->id] < position[after->id] && !h->turns_back) {
        return true;
    }
    bool *visited =
        mem_alloc_array((size_t)h->storage.graph->next_node_id, sizeof(bool));
    const bool is_needed = needs(h, before, after, visited);
    mem_free(visited);
    return !is_needed;
}

/* Edges hang on their `after` node, newest first. */
static void add_edge(struct hazards *h, const struct node *before,
                     const struct node *after)
{
    h->list = mem_reserve_one(h->list, h->n, &h->capacity, sizeof(*h->list));
    h->list[h->n] =
        (struct hazard){.before = before, .after = after, .next = h->first[after->id]};
    h->first[after->id] = (int)h->n++;
    const int *position = h->storage.position;
    if (position[before->id] > position[after->id]) {
        h->turns_back = true;
    }
}

/* Drops the edges into `after` that were added since there were `n`. */
static void drop_edges(struct hazards *h, const struct node *after, size_t n)
{
    while (h->n > n) {
        h->n--;
        ASSERT(h->list[h->n].after == after);
        h->first[after->id] = h->list[h->n].next;
    }
}

/* Where in the operand it begins does not matter here. */
static bool is_view_node(const struct node *node)
{
    size_t offset;
    return graph_node_is_view(node, &offset);
}

/*
 * Edges from all other readers of the values of group `root` that are lost when
 * `writer` runs. Views are readers too: what reads *them* is found through their own
 * entry in the group. False, and nothing added, where a reader cannot come first.
 */
static bool add_group_edges(struct hazards *h, int root, const struct node *writer)
{
    const struct graph_storage *s = &h->storage;
    const size_t n_before = h->n;
    for (int v = s->first_member[root]; v >= 0; v = s->next_member[v]) {
        /* What the writer makes, and what is made from that in place, is the new
         * version. */
        if (graph_storage_is_derived(s, v, writer)) {
            continue;
        }
        for (int i = s->reader_start[v]; i < s->reader_start[v + 1]; i++) {
            const struct node *reader = s->readers[i];
            if (reader == writer) {
                continue;
            }
            if (!can_precede(h, reader, writer)) {
                drop_edges(h, writer, n_before);
                return false;
            }
            add_edge(h, reader, writer);
        }
    }
    return true;
}

/* Has the group of this argument a later holder that is an output with it as donor? */
static bool is_given_away(const struct graph_storage *s, int root)
{
    const struct graph *graph = s->graph;
    for (int i = 0; i < graph->n_outputs; i++) {
        const struct graph_output *output = &graph->outputs[i];
        if (output->donor != NULL && output->donor->id == root) {
            return s->root[output->value->id] == root;
        }
    }
    return false;
}

/* May `writer` overwrite its operand, as far as others than readers are concerned? */
static bool may_overwrite(const struct graph_storage *s, const struct node *writer,
                          int operand)
{
    const struct graph *graph = s->graph;
    const int root = s->root[writer->inputs[operand]->id];
    if (graph_node_is_argument(s->values[root]->node) && !is_given_away(s, root)) {
        return false;
    }
    for (int k = 0; k < writer->n_inputs; k++) {
        if (k != operand && s->root[writer->inputs[k]->id] == root) {
            return false; /* it would read what it is writing */
        }
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        const int id = graph->outputs[i].value->id;
        if (s->root[id] == root && !graph_storage_is_derived(s, id, writer)) {
            return false; /* the old version leaves the graph */
        }
    }
    return true;
}

/* Drops all edges: a new look at the graph begins. */
static void forget_edges(struct hazards *h)
{
    h->n = 0;
    h->turns_back = false;
    for (int i = 0; i < h->storage.graph->next_node_id; i++) {
        h->first[i] = -1;
    }
}

/* Adds the edges of all overwriting nodes, up to the first that needs a copy, which is
 * marked. True when there was none. */
static bool check_overwriting(struct hazards *h)
{
    const struct graph *graph = h->storage.graph;
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        for (int k = 0; k < node->n_outputs; k++) {
            const int operand = graph_node_alias(node, k);
            if (operand < 0 || h->copies_operand[node->id]) {
                continue;
            }
            const int root = h->storage.root[node->inputs[operand]->id];
            if (!may_overwrite(&h->storage, node, operand) ||
                !add_group_edges(h, root, node)) {
                h->copies_operand[node->id] = true;
                return false;
            }
        }
    }
    return true;
}

/* The value is all of its memory, from its start. */
static bool is_whole(const struct graph_storage *s, int value)
{
    const struct type *root = &s->values[s->root[value]]->type;
    return s->offset[value] == 0 &&
           type_bytes(&s->values[value]->type) == type_bytes(root);
}

/*
 * Can the group of an output's value live in the donor's buffer from its first node on?
 */
static bool can_take_over(struct hazards *h, int value, int donor)
{
    const struct graph_storage *s = &h->storage;
    const struct value *made = s->values[s->root[value]];
    const struct node *maker = made->node;
    for (int v = s->first_member[donor]; v >= 0; v = s->next_member[v]) {
        if (s->parent[v] >= 0 && !is_view_node(s->values[v]->node)) {
            return false; /* something else overwrites the donor */
        }
    }
    for (int k = 0; k < maker->n_inputs; k++) {
        const int id = maker->inputs[k]->id;
        if (s->root[id] == donor &&
            !(made->index == 0 && is_whole(s, id) && graph_node_may_reuse(maker, k))) {
            return false; /* it reads the donor while it writes there */
        }
    }
    return add_group_edges(h, donor, maker);
}

/* Output `i` needs a copy: its value is an argument, is part of other memory, shares
 * memory with another output, or cannot be made in the donor's buffer. */
static bool needs_copy(struct hazards *h, int i, const bool *is_taken)
{
    const struct graph_storage *s = &h->storage;
    const struct graph_output *output = &s->graph->outputs[i];
    const int id = output->value->id;
    const int root = s->root[id];
    if (is_taken[root] || !is_whole(s, id)) {
        return true;
    }
    if (graph_node_is_argument(s->values[root]->node)) {
        return output->donor == NULL || output->donor->id != root;
    }
    return output->donor != NULL && !can_take_over(h, id, output->donor->id);
}

/* In order: of outputs that share memory, the first keeps it. */
static void check_outputs(struct hazards *h)
{
    const struct graph *graph = h->storage.graph;
    bool *is_taken = mem_alloc_array((size_t)graph->n_values, sizeof(bool));
    for (int i = 0; i < graph->n_outputs; i++) {
        if (needs_copy(h, i, is_taken)) {
            h->copies_output[i] = true;
        } else {
            is_taken[h->storage.root[graph->outputs[i].value->id]] = true;
        }
    }
    mem_free(is_taken);
}

/*
 * With a copy, what the node makes is new memory: other results are derived from it,
 * and what seemed in the way may not be. So after each copy the groups are made anew.
 */
struct hazards hazards_find(const struct graph *graph)
{
    struct hazards h = {
        .storage = graph_storage_create(graph, NULL),
        .first = mem_alloc_array((size_t)graph->next_node_id, sizeof(int)),
        .copies_operand = mem_alloc_array((size_t)graph->next_node_id, sizeof(bool)),
        .copies_output = mem_alloc_array((size_t)graph->n_outputs, sizeof(bool)),
    };
    forget_edges(&h);
    while (!check_overwriting(&h)) {
        graph_storage_deinit(&h.storage);
        h.storage = graph_storage_create(graph, h.copies_operand);
        forget_edges(&h);
    }
    check_outputs(&h);
    return h;
}

void hazards_deinit(struct hazards *h)
{
    graph_storage_deinit(&h->storage);
    mem_free(h->list);
    mem_free(h->first);
    mem_free(h->copies_operand);
    mem_free(h->copies_output);
}
