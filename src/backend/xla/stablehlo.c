/*
 * stablehlo - the module around the nodes: signature, donations, what is returned.
 */
#include "backend/xla/stablehlo.h"

#include "backend/xla/emit.h"
#include "base/error.h"
#include "base/mem.h"

/* Checked before the first line is written, bodies of loops included, so that a failure
 * leaves `out` as it was. */
static bool check_primitives(const struct graph *graph, struct error *err)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        if (emit_of(node->op) == NULL) {
            return error_set(err, ERROR_FAILED,
                             "%s: %s is not a primitive; lower the graph first",
                             node->name, op_name(node->op));
        }
        if (node->op == OP_REPEAT && !check_primitives(node->body, err)) {
            return false;
        }
    }
    return true;
}

/* Which output takes the argument's memory, or -1. A donor belongs to at most one
 * output. */
static int donated_to(const struct graph *graph, const struct value *argument)
{
    for (int i = 0; i < graph->n_outputs; i++) {
        if (graph->outputs[i].donor == argument) {
            return i;
        }
    }
    return -1;
}

/* tf.aliasing_output is the name under which XLA's importer knows donations: that
 * output is written into the argument's memory. */
static void emit_signature(struct emit *emit, const struct graph *graph)
{
    emit_raw(emit, "func.func public @main(");
    for (int i = 0; i < graph->n_arguments; i++) {
        const struct value *argument = graph->arguments[i];
        const char *name = arena_printf(emit->arena, "%%arg%d", i);
        emit->node = argument->node;
        emit->names[argument->id] = name;
        const int output = donated_to(graph, argument);
        const char *donated =
            output < 0
                ? ""
                : arena_printf(emit->arena, " {tf.aliasing_output = %d : i32}", output);
        emit_raw(emit, "    %s: %s%s %s%s", name, emit_type(emit, &argument->type),
                 donated, emit_location(emit), i + 1 < graph->n_arguments ? "," : "");
    }
    emit_raw(emit, ") -> (");
    for (int i = 0; i < graph->n_outputs; i++) {
        emit_raw(emit, "    %s%s", emit_type(emit, &graph->outputs[i].value->type),
                 i + 1 < graph->n_outputs ? "," : "");
    }
    emit_raw(emit, ") {");
}

/* Several outputs may be the same value; it is then named several times. */
static void emit_return(struct emit *emit, const struct graph *graph)
{
    struct str names = {0};
    struct str types = {0};
    for (int i = 0; i < graph->n_outputs; i++) {
        const struct value *value = graph->outputs[i].value;
        str_printf(&names, "%s%s", i > 0 ? ", " : "", emit->names[value->id]);
        str_printf(&types, "%s%s", i > 0 ? ", " : "", emit_type(emit, &value->type));
    }
    if (graph->n_outputs > 0) {
        emit_raw(emit, "return %s : %s", str_text(&names), str_text(&types));
    } else {
        emit_raw(emit, "return");
    }
    str_deinit(&names);
    str_deinit(&types);
}

/* mhlo.num_replicas tells XLA how many ranks run the module; each is a replica, none a
 * partition, because all splitting is in the graph already. */
bool stablehlo_print(const struct graph *graph, const char *name, struct str *out,
                     struct error *err)
{
    if (!check_primitives(graph, err)) {
        return false;
    }
    struct emit emit = {
        .mesh = &graph->mesh,
        .arena = arena_create(),
        .out = out,
        .names = mem_alloc_array((size_t)graph->n_values, sizeof(char *)),
    };
    emit_raw(&emit,
             "module @%s attributes {mhlo.num_replicas = %d : i32, "
             "mhlo.num_partitions = 1 : i32} {",
             name, mesh_n_ranks(&graph->mesh));
    emit.depth = 1;
    emit_signature(&emit, graph);
    emit.depth = 2;
    emit_nodes(&emit, graph);
    emit_return(&emit, graph);
    emit.depth = 1;
    emit_raw(&emit, "}");
    emit.depth = 0;
    emit_raw(&emit, "}");
    mem_free(emit.names);
    arena_destroy(emit.arena);
    return true;
}
