/*
 * print - the text form of graphs.
 *
 * Values are numbered by their place in the text, so that two graphs with the same
 * nodes print alike whatever ids passes have given. An attribute is printed when it is
 * not zero and the result's type does not show it.
 */
#include "graph/print.h"

#include "base/mem.h"

/* What is needed to print one graph or body. */
struct printer {
    const struct graph *graph;
    struct str *out;
    int *numbers; /* by value id */
    int indent;   /* spaces before each line */
};

static void print_body(const struct graph *graph, struct str *out, int indent);

/* Puts attributes into braces with commas between. */
struct list {
    struct str *out;
    bool is_open; /* something is in the braces already */
};

/* The brace is opened by the first item, so that nodes without attributes have none. */
static void begin_item(struct list *list)
{
    str_add(list->out, list->is_open ? ", " : " {");
    list->is_open = true;
}

/* Zero means `not used`, so it is not printed. */
static void add_number(struct list *list, const char *name, double number)
{
    if (number < 0 || number > 0) {
        begin_item(list);
        str_printf(list->out, "%s %.9g", name, number);
    }
}

static void add_integer(struct list *list, const char *name, int64_t number)
{
    if (number != 0) {
        begin_item(list);
        str_printf(list->out, "%s %lld", name, (long long)number);
    }
}

static void add_flag(struct list *list, const char *name, bool is_set)
{
    if (is_set) {
        begin_item(list);
        str_add(list->out, name);
    }
}

static void add_axes(struct list *list, const struct attributes *attributes)
{
    if (attributes->n_axes == 0) {
        return;
    }
    begin_item(list);
    str_add(list->out, "axes");
    for (int i = 0; i < attributes->n_axes; i++) {
        str_printf(list->out, " %d", attributes->axes[i]);
    }
}

/* slice and pad: two numbers per dimension of the operand. */
static void add_bounds(struct list *list, const struct node *node)
{
    if (node->op != OP_SLICE && node->op != OP_PAD) {
        return;
    }
    begin_item(list);
    for (int i = 0; i < node->inputs[0]->type.shape.rank; i++) {
        str_printf(list->out, "%s%lld:%lld", i == 0 ? "" : " ",
                   (long long)node->attributes.start[i],
                   (long long)node->attributes.limit[i]);
    }
}

/* mesh_axis 0 is an axis too, so it is printed by op and not by value. */
static bool names_mesh_axis(enum op op)
{
    switch ((int)op) {
    case OP_AXIS_INDEX:
    case OP_ALL_GATHER:
    case OP_REDUCE_SCATTER:
    case OP_ALL_REDUCE:
    case OP_ALL_TO_ALL:
    case OP_FAN_OUT:
    case OP_TAKE_SPLIT:
        return true;
    }
    return false;
}

/* dtype, shape and placement are in the type after the colon. */
static void print_attributes(struct str *out, const struct node *node)
{
    static const char *const compares[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    const struct attributes *attributes = &node->attributes;
    struct list list = {.out = out};
    add_flag(&list, compares[attributes->compare], node->op == OP_COMPARE);
    add_flag(&list, mesh_axis_name(attributes->mesh_axis), names_mesh_axis(node->op));
    add_flag(&list, "max", attributes->reduce == REDUCE_MAX);
    add_flag(&list, "transpose_a", attributes->transpose_a);
    add_flag(&list, "transpose_b", attributes->transpose_b);
    add_integer(&list, "axis", attributes->axis);
    add_axes(&list, attributes);
    add_bounds(&list, node);
    add_integer(&list, "size", attributes->size);
    add_integer(&list, "purpose", attributes->purpose);
    add_number(&list, "value", attributes->value);
    add_number(&list, "eps", attributes->eps);
    add_flag(&list, "adds_one", attributes->adds_one);
    add_number(&list, "theta", attributes->theta);
    add_number(&list, "factor", attributes->factor);
    add_integer(&list, "pairs", attributes->pairs);
    add_integer(&list, "window", attributes->window);
    add_integer(&list, "ignore_row", attributes->ignore_row);
    add_flag(&list, "with_gradient", attributes->with_gradient);
    add_integer(&list, "iterations", attributes->n_iterations);
    add_integer(&list, "carries", attributes->n_carries);
    add_integer(&list, "stacked", attributes->n_stacked);
    add_flag(&list, "trainable", node->is_trainable);
    add_flag(&list, "backward", node->is_backward);
    if (node->block >= 0) {
        begin_item(&list);
        str_printf(out, "block %d", node->block);
    }
    if (list.is_open) {
        str_add_char(out, '}');
    }
}

/* Numbers go to results in the order of the text; bodies start again at 0. */
static void print_node(struct printer *printer, const struct node *node, int *next)
{
    struct str *out = printer->out;
    str_printf(out, "%*s", printer->indent, "");
    for (int i = 0; i < node->n_outputs; i++) {
        printer->numbers[node->outputs[i]->id] = (*next)++;
        str_printf(out, "%s%%%d", i == 0 ? "" : ", ",
                   printer->numbers[node->outputs[i]->id]);
    }
    str_printf(out, " = %s(", op_name(node->op));
    for (int i = 0; i < node->n_inputs; i++) {
        str_printf(out, "%s%%%d", i == 0 ? "" : ", ",
                   printer->numbers[node->inputs[i]->id]);
    }
    str_add_char(out, ')');
    print_attributes(out, node);
    for (int i = 0; i < node->n_outputs; i++) {
        char type[192];
        str_printf(out, "%s%s", i == 0 ? " : " : ", ",
                   type_format(type, &node->outputs[i]->type));
    }
    str_printf(out, "  # %s\n", node->name);
    if (node->body != NULL) {
        print_body(node->body, out, printer->indent + 4);
    }
}

/* A donor is printed behind the output as "in %N". */
static void print_body(const struct graph *graph, struct str *out, int indent)
{
    struct printer printer = {
        .graph = graph,
        .out = out,
        .numbers = mem_alloc_array((size_t)graph->n_values + 1, sizeof(int)),
        .indent = indent,
    };
    int next = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        print_node(&printer, graph->nodes[i], &next);
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        const struct graph_output *output = &graph->outputs[i];
        str_printf(out, "%*soutput %s = %%%d", indent, "", output->name,
                   printer.numbers[output->value->id]);
        if (output->donor != NULL) {
            str_printf(out, " in %%%d", printer.numbers[output->donor->id]);
        }
        str_add_char(out, '\n');
    }
    mem_free(printer.numbers);
}

void print_graph(const struct graph *graph, struct str *out)
{
    print_body(graph, out, 0);
}
