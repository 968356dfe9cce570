/*
 * step_graphs_update - the update program: norm, clipping, the optimizer for each tensor,
 * and norms by group where they are wanted.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "graph/build.h"
#include "train/step_graphs.h"

/* Groups of a run; more than settings allow. */
enum { MAX_GROUPS = 128 };

/* One trained tensor of the update. */
struct trained {
    const char *name;
    int group;
    struct value *p, *g, *m, *v; /* parameter, gradient sum, moments */
};

/* Arguments of the update for output `index` of the grad graph; false: not a gradient.
 * Moments are kept like their parameter, in f32 or bf16; sums are f32 beside either. */
static bool add_trained(struct graph *graph, const struct graph *grad, int index,
                        const struct step_update_options *options,
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
    const int group =
        options->group == NULL ? 0 : options->group[params_find(options->params, name)];
    *trained = (struct trained){
        .name = name,
        .group = group,
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

const char *step_graphs_group_name(char buffer[40], const char *name, int group)
{
    if (group == 0) {
        snprintf(buffer, 40, "%s", name);
    } else {
        snprintf(buffer, 40, "%s%d", name, group);
    }
    return buffer;
}

/* The inputs that a step is told by, f64 scalars but for the vectors. */
struct told {
    struct value *hyper[MAX_GROUPS];
    struct value *inverse, *clip, *max_norm, *loss_sum;
};

static void add_told(struct graph *graph, int n_groups, struct told *told)
{
    ASSERT(n_groups <= MAX_GROUPS);
    const struct type vector = type_make(DTYPE_F32, 1, (int64_t[]){ADAMW_N_HYPER});
    const struct type number = type_scalar(DTYPE_F64);
    char name[40];
    for (int k = 0; k < n_groups; k++) {
        step_graphs_group_name(name, "hyper", k);
        told->hyper[k] = build_input(graph, arena_strdup(graph->arena, name), vector);
    }
    told->inverse = build_input(graph, "inverse", number);
    told->clip = build_input(graph, "clip", number);
    told->max_norm = build_input(graph, "max_norm", number);
    told->loss_sum = build_input(graph, "loss_sum", number);
}

/* Loss and norm are finite, and the norm is not too large. Of a select and an `and` the
 * graph has the first; a NaN is not below anything. */
static struct value *is_applied(struct graph *graph, const struct told *told,
                                struct value *norm)
{
    struct value *no = build_scalar(graph, DTYPE_BOOL, 0.0);
    struct value *is_small = build_compare(graph, COMPARE_LE, norm, told->max_norm);
    struct value *norm_is_fine =
        build_select(graph, build_is_finite(graph, norm), is_small, no);
    return build_select(graph, build_is_finite(graph, told->loss_sum), norm_is_fine,
                        no);
}

/* Sums of squares of one group, so far. */
struct norms {
    struct value *grad, *update, *weight; /* f64 scalars */
};

/* The tensor before its update, times -1, f32: what is added to it afterwards gives the
 * difference, while the tensor itself is changed in its place. */
static struct value *negated(struct graph *graph, struct value *x)
{
    return build_scale(graph, build_cast(graph, x, DTYPE_F32), -1.0);
}

static void add_norms(struct graph *graph, const struct trained *t,
                      struct value *negated_before, struct value *after,
                      struct norms *norms)
{
    struct value *wide = build_cast(graph, after, DTYPE_F32);
    struct value *change = build_add(graph, wide, negated_before);
    norms->grad = build_add(graph, norms->grad, build_sum_squares(graph, t->g));
    norms->update = build_add(graph, norms->update, build_sum_squares(graph, change));
    norms->weight = build_add(graph, norms->weight, build_sum_squares(graph, wide));
}

/* As outputs, by group. */
static void output_norms(struct graph *graph, const struct norms *norms, int n_groups)
{
    char name[40];
    for (int k = 0; k < n_groups; k++) {
        struct value *const values[] = {norms[k].grad, norms[k].update,
                                        norms[k].weight};
        const char *const names[] = {"grad_squares", "update_squares",
                                     "weight_squares"};
        for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
            step_graphs_group_name(name, names[i], k);
            graph_add_output(graph, arena_strdup(graph->arena, name), values[i], NULL);
        }
    }
}

/* Every tensor's update, with its outputs. */
static void update_tensors(struct graph *graph, const struct trained *trained, int n,
                           const struct told *told, struct value *scale,
                           struct value *applied,
                           const struct step_update_options *options, int n_groups)
{
    const struct chance chance = add_chance(graph, options->is_stochastic);
    struct norms norms[MAX_GROUPS];
    struct value *zero = build_scalar(graph, DTYPE_F64, 0.0);
    for (int k = 0; k < n_groups; k++) {
        norms[k] = (struct norms){zero, zero, zero};
    }
    for (int i = 0; i < n; i++) {
        const struct trained *t = &trained[i];
        struct value *before = options->has_norms ? negated(graph, t->p) : NULL;
        const struct node *node =
            update_tensor(graph, t, told->hyper[t->group], scale, applied, &chance);
        if (options->has_norms) {
            add_norms(graph, t, before, node->outputs[0], &norms[t->group]);
        }
        graph_add_output(graph, t->name, node->outputs[0], t->p);
        graph_add_output(graph, arena_printf(graph->arena, "m.%s", t->name),
                         node->outputs[1], t->m);
        graph_add_output(graph, arena_printf(graph->arena, "v.%s", t->name),
                         node->outputs[2], t->v);
    }
    if (options->has_norms) {
        output_norms(graph, norms, n_groups);
    }
}

/*
 * norm = sqrt(sum of squares of all sums) * inverse
 * The sums are of all targets; inverse makes the mean of them, in the norm and in the
 * update alike.
 */
struct graph *step_graphs_update(const struct mesh *mesh, const struct graph *grad,
                                 const struct step_update_options *options)
{
    struct graph *graph = graph_create(mesh);
    struct trained *trained =
        mem_alloc_array((size_t)grad->n_outputs, sizeof(*trained));
    int n = 0;
    for (int i = 0; i < grad->n_outputs; i++) {
        n += add_trained(graph, grad, i, options, &trained[n]);
    }
    const int n_groups = options->n_groups > 0 ? options->n_groups : 1;
    struct told told;
    add_told(graph, n_groups, &told);
    /* Of the mean gradient: the sum's norm times the same factor. */
    struct value *norm = build_mul(
        graph, build_sqrt(graph, total_squares(graph, trained, n)), told.inverse);
    struct value *applied = is_applied(graph, &told, norm);
    struct value *scale = gradient_scale(graph, told.inverse, norm, told.clip);
    update_tensors(graph, trained, n, &told, scale, applied, options, n_groups);
    graph_add_output(graph, "grad_norm", norm, NULL);
    graph_add_output(graph, "applied", applied, NULL);
    mem_free(trained);
    return graph;
}
