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
    if (!with_gradient) {
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

/* One trained tensor of the update. */
struct trained {
    const char *name;
    struct value *p, *g, *m, *v; /* parameter, gradient sum, moments */
};

/* Arguments of the update for output `index` of the grad graph; false: not a gradient.
 * Moments are kept like their parameter, in f32 or bf16; sums are f32 beside either. */
static bool add_trained(struct graph *graph, const struct graph *grad, int index,
                        struct trained *trained)
{
    const struct graph_output *output = &grad->outputs[index];
    if (strncmp(output->name, "grad.", 5) != 0) {
        return false;
    }
    const char *name = arena_strdup(graph->arena, output->name + 5);
    const struct value *parameter = graph_find_argument(grad, name);
    ASSERT(parameter != NULL);
    const struct type type = parameter->type;
    *trained = (struct trained){
        .name = name,
        .p = build_parameter(graph, name, type, true),
        .g = build_input(graph, arena_printf(graph->arena, "acc.grad.%s", name),
                         output->value->type),
        .m = build_input(graph, arena_printf(graph->arena, "m.%s", name), type),
        .v = build_input(graph, arena_printf(graph->arena, "v.%s", name), type),
    };
    return true;
}

/* sum of squares over all gradients, f64, in the order of the list. */
static struct value *total_squares(struct graph *graph, const struct trained *trained,
                                   int n)
{
    struct value *total = build_scalar(graph, DTYPE_F64, 0.0);
    for (int i = 0; i < n; i++) {
        total = build_add(graph, total, build_sum_squares(graph, trained[i].g));
    }
    return total;
}

/* What the gradient is multiplied by: inverse * min(1, clip / norm), f32. */
static struct value *gradient_scale(struct graph *graph, struct value *inverse,
                                    struct value *norm, struct value *clip)
{
    struct value *one = build_scalar(graph, DTYPE_F64, 1.0);
    struct value *zero = build_scalar(graph, DTYPE_F64, 0.0);
    /* A NaN norm exceeds nothing, so the factor stays 1; the step is skipped anyway. */
    struct value *clips = build_compare(graph, COMPARE_GT, clip, zero);
    struct value *exceeds = build_compare(graph, COMPARE_GT, norm, clip);
    struct value *factor = build_select(
        graph, clips, build_select(graph, exceeds, build_div(graph, clip, norm), one),
        one);
    return build_cast(graph, build_mul(graph, inverse, factor), DTYPE_F32);
}

/* Inputs of rounding by chance; NULL: to nearest. */
struct chance {
    struct value *seed, *step; /* u32 scalars */
};

static struct chance add_chance(struct graph *graph, bool is_stochastic)
{
    if (!is_stochastic) {
        return (struct chance){0};
    }
    const struct type word = type_scalar(DTYPE_U32);
    return (struct chance){.seed = build_input(graph, "seed", word),
                           .step = build_input(graph, "step", word)};
}

/* The tensor's own seed: tensors of equal shape must not be rounded alike. Made from
 * its name (FNV-1a), so that it does not depend on what else is trained. */
static struct value *tensor_seed(struct graph *graph, const struct chance *chance,
                                 const char *name)
{
    uint32_t hash = 2166136261u;
    for (const char *at = name; *at != '\0'; at++) {
        hash = (hash ^ (unsigned char)*at) * 16777619u;
    }
    struct value *own = build_scalar(graph, DTYPE_U32, (double)hash);
    return build_add(graph, chance->seed, own);
}

/* One tensor's update, by chance where it is in bf16 and that is asked for. */
static struct node *update_tensor(struct graph *graph, const struct trained *t,
                                  struct value *hyper, struct value *scale,
                                  struct value *applied, const struct chance *chance)
{
    if (chance->seed == NULL || t->p->type.dtype != DTYPE_BF16) {
        return build_adamw(graph, t->p, t->g, t->m, t->v, hyper, scale, applied);
    }
    return build_adamw_stochastic(graph, t->p, t->g, t->m, t->v, hyper, scale, applied,
                                  tensor_seed(graph, chance, t->name), chance->step);
}

/*
 * norm = sqrt(sum of squares of all sums) * inverse
 * The sums are of all targets; inverse makes the mean of them, in the norm and in the
 * update alike. applied is false where loss or norm are not finite.
 */
struct graph *step_graphs_update(const struct mesh *mesh, const struct graph *grad,
                                 bool is_stochastic)
{
    struct graph *graph = graph_create(mesh);
    struct trained *trained =
        mem_alloc_array((size_t)grad->n_outputs, sizeof(*trained));
    int n = 0;
    for (int i = 0; i < grad->n_outputs; i++) {
        n += add_trained(graph, grad, i, &trained[n]);
    }
    struct value *hyper = build_input(
        graph, "hyper", type_make(DTYPE_F32, 1, (int64_t[]){ADAMW_N_HYPER}));
    const struct type number = type_scalar(DTYPE_F64);
    struct value *inverse = build_input(graph, "inverse", number);
    struct value *clip = build_input(graph, "clip", number);
    struct value *loss_sum = build_input(graph, "loss_sum", number);
    const struct chance chance = add_chance(graph, is_stochastic);

    /* Of the mean gradient: the sum's norm times the same factor. */
    struct value *norm =
        build_mul(graph, build_sqrt(graph, total_squares(graph, trained, n)), inverse);
    /* Both finite; of a select and an `and` the graph has the first. */
    struct value *applied = build_select(graph, build_is_finite(graph, loss_sum),
                                         build_is_finite(graph, norm),
                                         build_scalar(graph, DTYPE_BOOL, 0.0));
    struct value *scale = gradient_scale(graph, inverse, norm, clip);
    for (int i = 0; i < n; i++) {
        const struct node *node =
            update_tensor(graph, &trained[i], hyper, scale, applied, &chance);
        const char *name = trained[i].name;
        graph_add_output(graph, name, node->outputs[0], trained[i].p);
        graph_add_output(graph, arena_printf(graph->arena, "m.%s", name),
                         node->outputs[1], trained[i].m);
        graph_add_output(graph, arena_printf(graph->arena, "v.%s", name),
                         node->outputs[2], trained[i].v);
    }
    graph_add_output(graph, "grad_norm", norm, NULL);
    graph_add_output(graph, "applied", applied, NULL);
    mem_free(trained);
    return graph;
}
