/*
 * graph - making graphs: nodes and values in an arena, the lists on the heap.
 *
 * Types are inferred when a node is appended, so a graph that exists has been checked
 * once; verify.c checks again what passes may have broken.
 */
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "graph/graph_trap.h"
#include "graph/infer.h"

/* No block and no scope at first, and a broken rule ends the process (no trap). */
struct graph *graph_create(const struct mesh *mesh)
{
    struct graph *graph = mem_alloc(sizeof(*graph));
    graph->arena = arena_create();
    graph->mesh = *mesh;
    graph->scope = "";
    graph->block = -1;
    return graph;
}

/* A body's graph belongs to the graph of its node, at any depth. */
void graph_destroy(struct graph *graph)
{
    if (graph == NULL) {
        return;
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        graph_destroy(graph->nodes[i]->body);
    }
    mem_free(graph->nodes);
    mem_free(graph->arguments);
    mem_free(graph->outputs);
    arena_destroy(graph->arena);
    mem_free(graph);
}

bool graph_node_is_argument(const struct node *node)
{
    return node->op == OP_PARAMETER || node->op == OP_INPUT;
}

/* Room for one more; returns the (perhaps moved) list. */
static void *reserve_one(void *owned_items, int n, int *capacity, size_t item_bytes)
{
    /* Graphs count in int, memory in size_t. */
    size_t new_capacity = (size_t)*capacity;
    void *items = mem_reserve_one(owned_items, (size_t)n, &new_capacity, item_bytes);
    *capacity = (int)new_capacity;
    return items;
}

/* Appends to the program, and to the arguments where the node is one. */
static void add_node(struct graph *graph, struct node *node)
{
    graph->nodes = reserve_one(graph->nodes, graph->n_nodes, &graph->node_capacity,
                               sizeof(struct node *));
    graph->nodes[graph->n_nodes++] = node;
    if (graph_node_is_argument(node)) {
        graph->arguments =
            reserve_one(graph->arguments, graph->n_arguments, &graph->argument_capacity,
                        sizeof(struct value *));
        graph->arguments[graph->n_arguments++] = node->outputs[0];
    }
}

/* a followed by b, in the graph's arena. By hand: a graph has many thousands of names,
 * and printf is slow where a library has registered conversions of its own. */
static const char *join(struct graph *graph, const char *a, const char *b)
{
    const size_t length = strlen(a), more = strlen(b);
    char *text = arena_alloc(graph->arena, length + more + 1);
    memcpy(text, a, length);
    memcpy(text + length, b, more + 1);
    return text;
}

/* The full name of a new node. Arguments keep the name they are fed by. */
static const char *scoped_name(struct graph *graph, enum op op, const char *name)
{
    if (op == OP_PARAMETER || op == OP_INPUT) {
        ASSERT(name != NULL);
        return arena_strdup(graph->arena, name);
    }
    return join(graph, graph->scope, name == NULL ? op_name(op) : name);
}

/* The node in memory, with new values as its outputs; not yet in the list. */
static struct node *make_node(struct graph *graph, const struct infer *infer,
                              struct value *const *inputs)
{
    struct node *node = arena_alloc(graph->arena, sizeof(*node));
    node->op = infer->op;
    node->id = graph->next_node_id++;
    node->attributes = *infer->attributes;
    node->block = graph->block;
    node->is_backward = graph->is_backward;

    node->n_inputs = infer->n_inputs;
    node->inputs = arena_alloc_array(graph->arena, (size_t)infer->n_inputs + 1,
                                     sizeof(struct value *));
    for (int i = 0; i < node->n_inputs; i++) {
        node->inputs[i] = inputs[i];
    }

    node->n_outputs = infer->n_outputs;
    node->outputs = arena_alloc_array(graph->arena, (size_t)infer->n_outputs + 1,
                                      sizeof(struct value *));
    for (int i = 0; i < node->n_outputs; i++) {
        struct value *value = arena_alloc(graph->arena, sizeof(*value));
        value->node = node;
        value->index = i;
        value->id = graph->n_values++;
        value->type = infer->outputs[i];
        node->outputs[i] = value;
    }
    return node;
}

struct node *graph_try_append(struct graph *graph, enum op op, int n_inputs,
                              struct value *const *inputs,
                              const struct attributes *attributes,
                              struct graph *owned_body, const char *name,
                              struct error *err)
{
    /* Rules see types alone, so that verify can ask them again without the values. */
    struct type *types = mem_alloc_array((size_t)n_inputs + 1, sizeof(*types));
    for (int i = 0; i < n_inputs; i++) {
        ASSERT(inputs[i] != NULL && inputs[i]->id < graph->n_values);
        types[i] = inputs[i]->type;
    }
    struct type outputs[INFER_MAX_OUTPUTS];
    struct infer infer = {
        .mesh = &graph->mesh,
        .op = op,
        .n_inputs = n_inputs,
        .inputs = types,
        .attributes = attributes,
        .body = owned_body,
        .outputs = outputs,
    };
    const bool fits = infer_types(&infer, err);
    mem_free(types);
    if (!fits) {
        graph_destroy(owned_body);
        return NULL;
    }
    struct node *node = make_node(graph, &infer, inputs);
    node->body = owned_body;
    node->name = scoped_name(graph, op, name);
    add_node(graph, node);
    return node;
}

/* A rule is broken: a programmer's mistake, unless a definition is being tried out. */
static NORETURN void fail(struct graph *graph, const struct error *error)
{
    if (graph->trap != NULL) {
        graph->trap->error = *error;
        longjmp(graph->trap->jump, 1);
    }
    mem_report_fatal(error->message);
    abort();
}

struct node *graph_append(struct graph *graph, enum op op, int n_inputs,
                          struct value *const *inputs,
                          const struct attributes *attributes, struct graph *owned_body,
                          const char *name)
{
    struct error error;
    struct node *node = graph_try_append(graph, op, n_inputs, inputs, attributes,
                                         owned_body, name, &error);
    if (node == NULL) {
        /* The scope says which part of the model does not fit. */
        if (graph->scope[0] != '\0') {
            error_wrap(&error, "%s", graph->scope);
        }
        fail(graph, &error);
    }
    return node;
}

struct value *graph_append_value(struct graph *graph, enum op op, int n_inputs,
                                 struct value *const *inputs,
                                 const struct attributes *attributes)
{
    return graph_append(graph, op, n_inputs, inputs, attributes, NULL, NULL)
        ->outputs[0];
}

/* A copy of a whole graph: the body of a repeat. Ids change, names and order do not.
 * map: value id in `from` to the value in `to`. */
static struct graph *copy_body(const struct graph *from)
{
    struct graph *to = graph_create(&from->mesh);
    struct value **map =
        mem_alloc_array((size_t)from->n_values + 1, sizeof(struct value *));
    for (int i = 0; i < from->n_nodes; i++) {
        const struct node *node = from->nodes[i];
        struct value **inputs =
            mem_alloc_array((size_t)node->n_inputs + 1, sizeof(struct value *));
        for (int j = 0; j < node->n_inputs; j++) {
            inputs[j] = map[node->inputs[j]->id];
        }
        /* Facts that graph_append takes from the graph, not from the node. */
        to->block = node->block;
        to->is_backward = node->is_backward;
        const struct node *copy = graph_append_copy(to, node, inputs);
        for (int j = 0; j < node->n_outputs; j++) {
            map[node->outputs[j]->id] = copy->outputs[j];
        }
        mem_free(inputs);
    }
    for (int i = 0; i < from->n_outputs; i++) {
        const struct graph_output *output = &from->outputs[i];
        graph_add_output(to, output->name, map[output->value->id],
                         output->donor == NULL ? NULL : map[output->donor->id]);
    }
    to->block = from->block;
    to->is_backward = from->is_backward;
    to->next_block = from->next_block;
    mem_free(map);
    return to;
}

struct node *graph_append_copy(struct graph *graph, const struct node *node,
                               struct value *const *inputs)
{
    /* One graph owns one body. */
    struct graph *body = node->body == NULL ? NULL : copy_body(node->body);
    const char *outer = graph->scope;
    graph->scope = ""; /* the name is whole already */
    struct node *copy = graph_append(graph, node->op, node->n_inputs, inputs,
                                     &node->attributes, body, node->name);
    graph->scope = outer;

    /* Names are copied: the graph they come from may go first. */
    copy->is_trainable = node->is_trainable;
    copy->n_names = node->n_names;
    if (node->n_names > 0) {
        const char **names =
            arena_alloc_array(graph->arena, (size_t)node->n_names, sizeof(char *));
        for (int i = 0; i < node->n_names; i++) {
            names[i] = arena_strdup(graph->arena, node->names[i]);
        }
        copy->names = names;
    }
    return copy;
}

void graph_add_output(struct graph *graph, const char *name, struct value *value,
                      struct value *donor)
{
    ASSERT(name != NULL && value != NULL);
    graph->outputs = reserve_one(graph->outputs, graph->n_outputs,
                                 &graph->output_capacity, sizeof(*graph->outputs));
    graph->outputs[graph->n_outputs++] = (struct graph_output){
        .name = arena_strdup(graph->arena, name),
        .value = value,
        .donor = donor,
    };
}

/*
 * Scopes are whole prefixes in the arena; the caller keeps the outer one on its stack.
 */
const char *graph_push_scope(struct graph *graph, const char *name)
{
    const char *outer = graph->scope;
    graph->scope = join(graph, join(graph, outer, name), ".");
    return outer;
}

void graph_pop_scope(struct graph *graph, const char *outer)
{
    graph->scope = outer;
}

/* Linear: graphs have some hundred arguments, and names are looked up when a step is
 * built, not when it runs. */
struct value *graph_find_argument(const struct graph *graph, const char *name)
{
    for (int i = 0; i < graph->n_arguments; i++) {
        if (strcmp(graph->arguments[i]->node->name, name) == 0) {
            return graph->arguments[i];
        }
    }
    return NULL;
}

int graph_find_output(const struct graph *graph, const char *name)
{
    for (int i = 0; i < graph->n_outputs; i++) {
        if (strcmp(graph->outputs[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

/* An output counts as one use, so a value that is only an output is not dead. */
int *graph_count_uses(const struct graph *graph)
{
    int *n_uses = mem_alloc_array((size_t)graph->n_values + 1, sizeof(int));
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        for (int j = 0; j < node->n_inputs; j++) {
            n_uses[node->inputs[j]->id]++;
        }
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        n_uses[graph->outputs[i].value->id]++;
    }
    return n_uses;
}
