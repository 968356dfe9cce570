/*
 * verify - one walk over the nodes, with what is known so far in an array by value id.
 *
 * Beyond types, it follows one fact that types do not hold: a partial value that comes
 * from reduce_max over a split dimension holds a rank's largest elements, not a
 * summand. Such values may be moved, cast and handed to all_reduce REDUCE_MAX, nothing
 * else; and that collective takes nothing else.
 */
#include "graph/verify.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "graph/infer.h"

struct state {
    const struct graph *graph; /* being checked */
    const struct value **seen; /* by id: the value, once defined */
    unsigned *max_axes; /* by id: bit per mesh axis it is a per-rank maximum on */
};

/* Wraps the node's place into a message. */
static bool at_node(const struct node *node, struct error *err)
{
    return error_wrap(err, "node %d (%s, %s)", node->id, op_name(node->op), node->name);
}

/* Each operand is this very value of this graph, and stands before. By address and not
 * by id: a value of another graph may have the same id. */
static bool check_operands(const struct state *state, const struct node *node,
                           struct error *err)
{
    for (int i = 0; i < node->n_inputs; i++) {
        const struct value *input = node->inputs[i];
        if (input == NULL || input->id < 0 || input->id >= state->graph->n_values ||
            state->seen[input->id] != input) {
            return error_set(err, ERROR_FAILED,
                             "operand %d is not defined before in this graph", i);
        }
    }
    return true;
}

/* The rules are asked again: attributes and operands may have changed since. */
static bool check_types(const struct state *state, const struct node *node,
                        struct error *err)
{
    struct type *inputs = mem_alloc_array((size_t)node->n_inputs + 1, sizeof(*inputs));
    for (int i = 0; i < node->n_inputs; i++) {
        inputs[i] = node->inputs[i]->type;
    }
    struct type outputs[INFER_MAX_OUTPUTS];
    struct infer infer = {
        .mesh = &state->graph->mesh,
        .op = node->op,
        .n_inputs = node->n_inputs,
        .inputs = inputs,
        .attributes = &node->attributes,
        .body = node->body,
        .outputs = outputs,
    };
    const bool fits = infer_types(&infer, err);
    mem_free(inputs);
    if (!fits) {
        return false;
    }
    if (infer.n_outputs != node->n_outputs) {
        return error_set(err, ERROR_FAILED, "has %d outputs, infer gives %d",
                         node->n_outputs, infer.n_outputs);
    }
    for (int i = 0; i < node->n_outputs; i++) {
        if (!type_equal(&node->outputs[i]->type, &outputs[i])) {
            char got[192];
            char wanted[192];
            return error_set(err, ERROR_FAILED, "output %d is %s, infer gives %s", i,
                             type_format(got, &node->outputs[i]->type),
                             type_format(wanted, &outputs[i]));
        }
    }
    return true;
}

/* Links back to the node, and ids that index arrays of n_values. */
static bool define_outputs(struct state *state, const struct node *node,
                           struct error *err)
{
    for (int i = 0; i < node->n_outputs; i++) {
        const struct value *output = node->outputs[i];
        if (output->node != node || output->index != i || output->id < 0 ||
            output->id >= state->graph->n_values) {
            return error_set(err, ERROR_FAILED, "output %d does not belong to it", i);
        }
        if (state->seen[output->id] != NULL) {
            return error_set(err, ERROR_FAILED, "value %d is defined twice",
                             output->id);
        }
        state->seen[output->id] = output;
    }
    return true;
}

/*
 * Axes on which a reduce_max makes per-rank maxima: those that split what it reduces.
 */
static unsigned reduced_axes(const struct node *node)
{
    unsigned axes = 0;
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        const struct place from = node->inputs[0]->type.placement.axis[axis];
        const struct place to = node->outputs[0]->type.placement.axis[axis];
        if (from.kind == PLACE_SPLIT && to.kind == PLACE_PARTIAL) {
            axes |= 1u << axis;
        }
    }
    return axes;
}

/* Ops under which the largest over the ranks stays the largest. */
static bool keeps_maxima(enum op op)
{
    switch ((int)op) {
    case OP_CAST:
    case OP_STOP_GRADIENT:
    case OP_BARRIER:
    case OP_REDUCE_MAX:
    case OP_RESHAPE:
    case OP_TRANSPOSE:
    case OP_BROADCAST:
    case OP_SLICE:
    case OP_ALL_REDUCE:
        return true;
    }
    return false;
}

/* The fact of the opening comment, from the operands to the results. */
static bool check_maxima(struct state *state, const struct node *node,
                         struct error *err)
{
    unsigned axes = 0;
    for (int i = 0; i < node->n_inputs; i++) {
        axes |= state->max_axes[node->inputs[i]->id];
    }
    if (axes != 0 && !keeps_maxima(node->op)) {
        return error_set(err, ERROR_FAILED,
                         "reads a per-rank maximum (of reduce_max over a split "
                         "dimension) that no all_reduce of kind max has joined");
    }
    if (node->op == OP_REDUCE_MAX) {
        axes |= reduced_axes(node);
    }
    if (node->op == OP_ALL_REDUCE) {
        const unsigned axis = 1u << node->attributes.mesh_axis;
        /* Maxima go to a maximum, summands to a sum: one without the other is wrong
         * numbers. */
        const bool is_maximum = (axes & axis) != 0;
        if (is_maximum != (node->attributes.reduce == REDUCE_MAX)) {
            return error_set(err, ERROR_FAILED,
                             is_maximum ? "sums per-rank maxima of reduce_max"
                                        : "takes the maximum of what does not come "
                                          "from reduce_max");
        }
        axes &= ~axis;
    }
    for (int i = 0; i < node->n_outputs; i++) {
        state->max_axes[node->outputs[i]->id] = axes;
    }
    return true;
}

/* The names of arguments, in the order of their nodes, are unique. */
static bool check_arguments(const struct graph *graph, struct error *err)
{
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        if (!graph_node_is_argument(node)) {
            continue;
        }
        bool is_listed = false;
        for (int j = 0; j < graph->n_arguments; j++) {
            is_listed = is_listed || graph->arguments[j] == node->outputs[0];
        }
        if (!is_listed) {
            return error_set(err, ERROR_FAILED, "%s is not among the arguments",
                             node->name);
        }
        n++;
    }
    if (n != graph->n_arguments) {
        return error_set(err, ERROR_FAILED, "%d arguments are listed, %d are defined",
                         graph->n_arguments, n);
    }
    for (int i = 0; i < graph->n_arguments; i++) {
        const char *name = graph->arguments[i]->node->name;
        if (graph_find_argument(graph, name) != graph->arguments[i]) {
            return error_set(err, ERROR_FAILED, "two arguments are called %s", name);
        }
    }
    return true;
}

/*
 * An engine writes the output into the donor's buffer: one output each, of equal type.
 */
static bool check_donor(const struct state *state, int index, struct error *err)
{
    const struct graph_output *output = &state->graph->outputs[index];
    const struct value *donor = output->donor;
    if (donor == NULL) {
        return true;
    }
    if (donor->id < 0 || donor->id >= state->graph->n_values ||
        state->seen[donor->id] != donor || !graph_node_is_argument(donor->node)) {
        return error_set(err, ERROR_FAILED,
                         "output %s: its donor is no argument of this graph",
                         output->name);
    }
    if (!type_equal(&donor->type, &output->value->type)) {
        char got[192];
        char wanted[192];
        return error_set(err, ERROR_FAILED, "output %s: donor %s is %s, not %s",
                         output->name, donor->node->name,
                         type_format(got, &donor->type),
                         type_format(wanted, &output->value->type));
    }
    for (int i = 0; i < index; i++) {
        if (state->graph->outputs[i].donor == donor) {
            return error_set(err, ERROR_FAILED, "outputs %s and %s share the donor %s",
                             state->graph->outputs[i].name, output->name,
                             donor->node->name);
        }
    }
    return true;
}

/* A parameter has one name per slice, and slices along its leading dimensions. */
static bool check_parameter(const struct node *node, struct error *err)
{
    const struct shape *shape = &node->outputs[0]->type.shape;
    /* Leading dimensions until there are as many slices as names. */
    int64_t n_slices = 1;
    for (int i = 0; i < shape->rank && n_slices < node->n_names; i++) {
        n_slices *= shape->dim[i];
    }
    if (node->n_names < 1 || n_slices != node->n_names) {
        return error_set(err, ERROR_FAILED, "%d names do not go with %lld slices",
                         node->n_names, (long long)n_slices);
    }
    return true;
}

/* A sum that nobody formed leaves the graph only where the caller reduces it later. */
static bool check_outputs(const struct state *state, bool allows_partial,
                          struct error *err)
{
    const struct graph *graph = state->graph;
    for (int i = 0; i < graph->n_outputs; i++) {
        const struct graph_output *output = &graph->outputs[i];
        const struct value *value = output->value;
        if (value == NULL || value->id < 0 || value->id >= graph->n_values ||
            state->seen[value->id] != value) {
            return error_set(err, ERROR_FAILED, "output %s is not defined in the graph",
                             output->name);
        }
        const bool is_maximum = state->max_axes[value->id] != 0;
        if (is_maximum ||
            (!allows_partial && placement_has_partial(&value->type.placement))) {
            char type[192];
            return error_set(err, ERROR_FAILED, "output %s is partial: %s",
                             output->name, type_format(type, &value->type));
        }
        if (graph_find_output(graph, output->name) != i) {
            return error_set(err, ERROR_FAILED, "two outputs are called %s",
                             output->name);
        }
        if (!check_donor(state, i, err)) {
            return false;
        }
    }
    return true;
}

/* In program order, so that `seen` holds exactly what stands before. */
static bool check_nodes(struct state *state, struct error *err)
{
    for (int i = 0; i < state->graph->n_nodes; i++) {
        const struct node *node = state->graph->nodes[i];
        if (node->name == NULL) {
            return error_set(err, ERROR_FAILED, "node %d has no name", node->id);
        }
        if (!check_operands(state, node, err) || !check_types(state, node, err) ||
            !define_outputs(state, node, err) || !check_maxima(state, node, err)) {
            return at_node(node, err);
        }
        if (node->op == OP_PARAMETER && !check_parameter(node, err)) {
            return at_node(node, err);
        }
        /* Carries and stacked results of a body may be partial: its types say so. */
        if (node->body != NULL && !verify_graph(node->body, true, err)) {
            error_wrap(err, "body");
            return at_node(node, err);
        }
    }
    return true;
}

/* Arguments and outputs are checked after the nodes: they use what those left. */
bool verify_graph(const struct graph *graph, bool allows_partial_outputs,
                  struct error *err)
{
    struct state state = {
        .graph = graph,
        .seen = mem_alloc_array((size_t)graph->n_values + 1, sizeof(*state.seen)),
        .max_axes =
            mem_alloc_array((size_t)graph->n_values + 1, sizeof(*state.max_axes)),
    };
    const bool is_fine = check_nodes(&state, err) && check_arguments(graph, err) &&
                         check_outputs(&state, allows_partial_outputs, err);
    mem_free(state.seen);
    mem_free(state.max_axes);
    return is_fine;
}
