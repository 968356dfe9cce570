/*
 * graph_storage - groups of values in one memory, from what graph_memory.c says of each
 * op.
 */
#include "graph/graph_storage.h"

#include "base/mem.h"

/* The operand whose memory the value is, or NULL; *offset bytes into it. An overwritten
 * operand is taken over whole, so its offset is that of the operand itself. */
static const struct value *parent_of(const struct value *value, bool breaks_alias,
                                     size_t *offset)
{
    *offset = 0;
    const struct node *node = value->node;
    const int alias = graph_node_alias(node, value->index);
    if (alias >= 0) {
        return breaks_alias ? NULL : node->inputs[alias];
    }
    if (value->index == 0 && graph_node_is_view(node, offset)) {
        return node->inputs[0];
    }
    return NULL;
}

/* Operands stand before their readers, so the parent's root and offset are known
 * already. */
static void add_value(struct graph_storage *s, const struct value *value,
                      bool breaks_alias)
{
    size_t offset = 0;
    const struct value *parent = parent_of(value, breaks_alias, &offset);
    const int id = value->id;
    s->values[id] = value;
    s->parent[id] = parent != NULL ? parent->id : -1;
    s->root[id] = parent != NULL ? s->root[parent->id] : id;
    s->offset[id] = parent != NULL ? s->offset[parent->id] + offset : 0;
    s->first_member[id] = -1;
    s->next_member[id] = -1;
}

/* Counts, then running sums, then places: readers[] is grouped by value, each group in
 * program order. */
static void index_readers(struct graph_storage *s)
{
    const struct graph *graph = s->graph;
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        n += node->n_inputs;
        for (int k = 0; k < node->n_inputs; k++) {
            s->reader_start[node->inputs[k]->id + 1]++;
        }
    }
    for (int v = 0; v < graph->n_values; v++) {
        s->reader_start[v + 1] += s->reader_start[v];
    }
    /* How many readers of a value are in their places. */
    int *filled = mem_alloc_array((size_t)graph->n_values, sizeof(int));
    s->readers = mem_alloc_array((size_t)n, sizeof(struct node *));
    for (int i = 0; i < graph->n_nodes; i++) {
        struct node *node = graph->nodes[i];
        for (int k = 0; k < node->n_inputs; k++) {
            const int id = node->inputs[k]->id;
            s->readers[s->reader_start[id] + filled[id]++] = node;
        }
    }
    mem_free(filled);
}

/* Members are linked from the last id to the first, so every list is in ascending order
 * of ids. */
struct graph_storage graph_storage_create(const struct graph *graph,
                                          const bool *breaks_alias)
{
    const size_t n = (size_t)graph->n_values;
    struct graph_storage s = {
        .graph = graph,
        .values = mem_alloc_array(n, sizeof(struct value *)),
        .parent = mem_alloc_array(n, sizeof(int)),
        .root = mem_alloc_array(n, sizeof(int)),
        .offset = mem_alloc_array(n, sizeof(size_t)),
        .next_member = mem_alloc_array(n, sizeof(int)),
        .first_member = mem_alloc_array(n, sizeof(int)),
        .reader_start = mem_alloc_array(n + 1, sizeof(int)),
        .position = mem_alloc_array((size_t)graph->next_node_id, sizeof(int)),
    };
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        s.position[node->id] = i;
        for (int k = 0; k < node->n_outputs; k++) {
            add_value(&s, node->outputs[k],
                      breaks_alias != NULL && breaks_alias[node->id]);
        }
    }
    for (int v = graph->n_values - 1; v >= 0; v--) {
        if (s.values[v] != NULL) {
            s.next_member[v] = s.first_member[s.root[v]];
            s.first_member[s.root[v]] = v;
        }
    }
    index_readers(&s);
    return s;
}

void graph_storage_deinit(struct graph_storage *s)
{
    mem_free(s->values);
    mem_free(s->parent);
    mem_free(s->root);
    mem_free(s->offset);
    mem_free(s->next_member);
    mem_free(s->first_member);
    mem_free(s->reader_start);
    mem_free(s->readers);
    mem_free(s->position);
}

/* Walks up through the operands whose memory it is; some steps at most. */
bool graph_storage_is_derived(const struct graph_storage *s, int value,
                              const struct node *node)
{
    for (int v = value; v >= 0; v = s->parent[v]) {
        if (s->values[v]->node == node) {
            return true;
        }
    }
    return false;
}
