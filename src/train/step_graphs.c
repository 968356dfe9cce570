/*
 * step_graphs - see the header.
 */
#include "train/step_graphs.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "graph/build.h"
#include "graph/grad.h"
#include "graph/rewrite.h"
#include "graph/verify.h"
#include "model/gemma.h"

/*
 * A pass is done: its result must be well formed. Frees the graph before it. A graph
 * that is not well formed is a mistake of the program, so it aborts with what is wrong.
 */
static struct graph *after_pass(struct graph *owned_before, struct graph *after)
{
    struct error err;
    if (!verify_graph(after, false, &err)) {
        base_assert_failed(err.message, __FILE__, __LINE__);
    }
    graph_destroy(owned_before);
    return after;
}

/* With either of them the sum that is differentiated is no cross entropy. */
bool step_graphs_has_objective(const struct step_shape *shape)
{
    return shape->z_loss > 0.0 || shape->label_smoothing > 0.0;
}

/* Forward pass and loss head; outputs loss_sum and token_loss. */
static struct graph *build_loss(const struct mesh *mesh, const struct step_shape *shape,
                                bool with_gradient)
{
    struct graph *graph = graph_create(mesh);
    struct gemma_inputs inputs = gemma_build_inputs(graph, shape->config, shape->B,
                                                    shape->T, shape->has_ple_rows);
    if (with_gradient && shape->dropout > 0.0) {
        gemma_build_dropout_inputs(graph, &inputs);
    }
    const int64_t C[] = {shape->C};
    struct type entries = type_make(DTYPE_I32, 1, C);
    struct value *loss_rows = build_input(graph, "loss_rows", entries);
    struct value *targets = build_input(graph, "targets", entries);
    struct value *weight = build_input(graph, "weight", type_make(DTYPE_F32, 1, C));
    const struct gemma_options options = {.compute = shape->compute,
                                          .is_trainable = shape->is_trainable,
                                          .stored = shape->stored,
                                          .dropout = shape->dropout};
    struct gemma_forward forward =
        gemma_build_forward(graph, shape->config, shape->params, &inputs, &options);
    /* [B, T, D] as rows [B * T, D]: loss_rows number them. */
    const int64_t rows[] = {shape->B * shape->T, shape->config->D};
    struct value *hidden = build_reshape(graph, forward.hidden, type_shape(2, rows));
    const int table = params_index(shape->params, PARAM_EMBED, -1);
    /* Evaluation tells the plain cross entropy, whatever is trained on. */
    const struct loss_head_options head_options = {
        .cap = shape->config->final_softcap,
        .z_loss = with_gradient ? shape->z_loss : 0.0,
        .label_smoothing = with_gradient ? shape->label_smoothing : 0.0,
        .with_gradient = with_gradient,
        .freezes_table = with_gradient && !shape->is_trainable[table],
    };
    /* hidden [B * T, D], table [V, D]: logits exist only inside of the head. */
    struct node *head = build_loss_head(graph, hidden, forward.table, loss_rows,
                                        targets, weight, &head_options, NULL, NULL);
    graph_add_output(graph, "loss_sum", head->outputs[0], NULL);
    if (!with_gradient || step_graphs_has_objective(shape)) {
        graph_add_output(graph, "token_loss", head->outputs[1], NULL);
    }
    return graph;
}

/* The parameters of an expanded graph that are trained, into wrt; returns how many. */
static int find_trained(const struct graph *graph, const struct step_shape *shape,
                        struct value **wrt)
{
    int n = 0;
    for (int i = 0; i < graph->n_arguments; i++) {
        const struct node *node = graph->arguments[i]->node;
        if (node->op != OP_PARAMETER) {
            continue;
        }
        /* After expanding, every parameter has the name of its tensor. */
        const int index = params_find(shape->params, node->name);
        ASSERT(index >= 0);
        if (shape->is_trainable[index]) {
            wrt[n++] = graph->arguments[i];
        }
    }
    return n;
}

/* Appends the gradient of loss_sum and its outputs "grad.NAME"; names[] gets their
 * names, owned by the graph. Returns how many. */
static int add_gradients(struct graph *graph, const struct step_shape *shape,
                         const char **names)
{
    struct value **wrt = mem_alloc_array((size_t)graph->n_arguments, sizeof(*wrt));
    struct value **gradients =
        mem_alloc_array((size_t)graph->n_arguments, sizeof(*gradients));
    const int n_wrt = find_trained(graph, shape, wrt);
    struct value *loss = graph->outputs[graph_find_output(graph, "loss_sum")].value;
    /* The seed that the loss head's rule asks for. */
    struct value *one = build_constant(graph, loss->type, 1.0);
    const struct grad_options options = {.keeps_partial = false};
    grad_build(graph, 1, &loss, &one, n_wrt, wrt, &options, gradients);
    int n = 0;
    for (int i = 0; i < n_wrt; i++) {
        /* The loss does not depend on it: nothing to update. */
        if (gradients[i] == NULL) {
            continue;
        }
        names[n] = arena_printf(graph->arena, "grad.%s", wrt[i]->node->name);
        graph_add_output(graph, names[n++], gradients[i], NULL);
    }
    mem_free(wrt);
    mem_free(gradients);
    return n;
}

/*
 * expand -> differentiate -> accumulate -> simplify -> recompute: repeats have no
 * gradient rule, accumulation wants the gradients as their ops made them, and after
 * recomputation no pass may merge what it has doubled.
 */
struct graph *step_graphs_grad(const struct mesh *mesh, const struct step_shape *shape)
{
    struct graph *graph = build_loss(mesh, shape, true);
    graph = after_pass(graph, rewrite_expand(graph));
    const char **names = mem_alloc_array((size_t)graph->n_arguments, sizeof(*names));
    const int n = add_gradients(graph, shape, names);
    struct graph *accumulating = rewrite_accumulate(graph, n, names);
    mem_free(names); /* the list; the names live in the graph until the next line */
    graph = after_pass(graph, accumulating);
    graph = after_pass(graph, rewrite_simplify(graph));
    if (shape->recomputes) {
        graph = after_pass(graph, rewrite_recompute(graph, NULL));
    }
    return graph;
}

/* The same forward pass; the loss head makes no gradient. */
struct graph *step_graphs_evaluate(const struct mesh *mesh,
                                   const struct step_shape *shape)
{
    struct graph *graph = build_loss(mesh, shape, false);
    graph = after_pass(graph, rewrite_expand(graph));
    return after_pass(graph, rewrite_simplify(graph));
}
