/*
 * grad_composite - rules of composites: they emit the gradient op of the same name, so
 * that engines can run it by one kernel.
 */
#include "graph/build.h"
#include "graph/define_rules.h"
#include "graph/grad_rules.h"

enum { MAX_OPERANDS = 8 };

/*
 * X_grad(inputs of X, [results of X,] dy): the first gradients go to the first inputs.
 */
static void emit_with(struct grad_rule *rule, enum op op, int n_saved,
                      const struct attributes *attributes)
{
    const struct node *node = rule->node;
    if (rule->dy[0] == NULL) {
        return; /* only a result without gradient was used */
    }
    ASSERT(node->n_inputs + n_saved + 1 <= MAX_OPERANDS);
    struct value *operands[MAX_OPERANDS];
    int n = 0;
    for (int i = 0; i < node->n_inputs; i++) {
        operands[n++] = node->inputs[i];
    }
    for (int i = 0; i < n_saved; i++) {
        operands[n++] = node->outputs[i];
    }
    operands[n++] = rule->dy[0];
    const struct node *backward =
        graph_append(rule->graph, op, n, operands, attributes, NULL, NULL);
    for (int i = 0; i < backward->n_outputs; i++) {
        rule->dx[i] = backward->outputs[i];
    }
}

/* With the attributes of the composite. */
static void emit(struct grad_rule *rule, enum op op, int n_saved)
{
    emit_with(rule, op, n_saved, &rule->node->attributes);
}

/* Sums over all rows for a weight that is not trained would be thrown away. */
void grad_rms_norm(struct grad_rule *rule)
{
    struct attributes attributes = rule->node->attributes;
    attributes.freezes_weight = rule->node->n_inputs == 2 && !rule->wanted[1];
    emit_with(rule, OP_RMS_NORM_GRAD, 0, &attributes);
}

void grad_rope(struct grad_rule *rule)
{
    emit(rule, OP_ROPE_GRAD, 0);
}

void grad_gelu_tanh(struct grad_rule *rule)
{
    emit(rule, OP_GELU_TANH_GRAD, 0);
}

void grad_geglu(struct grad_rule *rule)
{
    emit(rule, OP_GEGLU_GRAD, 0);
}

void grad_silu(struct grad_rule *rule)
{
    emit(rule, OP_SILU_GRAD, 0);
}

void grad_softcap(struct grad_rule *rule)
{
    emit(rule, OP_SOFTCAP_GRAD, 0);
}

/* out and lse are operands too; of the two only out has a gradient. */
void grad_attention(struct grad_rule *rule)
{
    ASSERT(rule->dy[1] == NULL);
    emit(rule, OP_ATTENTION_GRAD, 2);
}

/*
 * The master value takes its gradient in f32 (f64). Over `shard` each rank keeps its
 * part: of the sum when the ranks saw different rows.
 */
void grad_use_param(struct grad_rule *rule)
{
    struct graph *graph = rule->graph;
    const struct value *shard = rule->node->inputs[0];
    struct value *g = define_widen(graph, rule->dy[0]);
    const struct place place = shard->type.placement.axis[MESH_SHARD];
    if (place.kind == PLACE_SPLIT && place.dim == 0) {
        const bool is_partial =
            g->type.placement.axis[MESH_SHARD].kind == PLACE_PARTIAL;
        g = is_partial ? build_reduce_scatter(graph, g, MESH_SHARD, 0)
                       : build_take_split(graph, g, MESH_SHARD, 0);
    }
    rule->dx[0] = g;
}

/* d sum x^2 = 2 x dy */
void grad_sum_squares(struct grad_rule *rule)
{
    struct graph *graph = rule->graph;
    struct value *x = rule->node->inputs[0];
    struct value *dy = define_cast(graph, rule->dy[0], x->type.dtype);
    rule->dx[0] = build_mul(graph, x, build_scale(graph, dy, 2.0));
}

/*
 * The loss head has computed its gradients already, for an upstream gradient of 1: that
 * is the only one it takes (scaling happens in the update). A frozen table has none.
 */
void grad_loss_head(struct grad_rule *rule)
{
    const struct node *node = rule->node;
    ASSERT(node->attributes.with_gradient);
    ASSERT(rule->dy[1] == NULL && rule->dy[2] == NULL);
    const struct node *seed = rule->dy[0]->node;
    ASSERT(seed->op == OP_CONSTANT && seed->attributes.value == 1.0);
    rule->dx[0] = node->outputs[3];
    if (node->attributes.freezes_table) {
        return;
    }
    rule->dx[1] = node->outputs[4];
}

/* ---- no derivative ---- */

/* Optimizer, accumulation and gradient ops: nothing differentiates them, and asking for
 * it is a mistake of the program. */
static void refuse(const struct grad_rule *rule)
{
    const bool has_second_derivative = rule == NULL;
    ASSERT(has_second_derivative);
}

void grad_accumulate(struct grad_rule *rule)
{
    refuse(rule);
}

void grad_adamw(struct grad_rule *rule)
{
    refuse(rule);
}

/* Generation only. */
void grad_attention_cached(struct grad_rule *rule)
{
    refuse(rule);
}

void grad_write_rows(struct grad_rule *rule)
{
    refuse(rule);
}

void grad_rms_norm_grad(struct grad_rule *rule)
{
    refuse(rule);
}

void grad_rope_grad(struct grad_rule *rule)
{
    refuse(rule);
}

void grad_gelu_tanh_grad(struct grad_rule *rule)
{
    refuse(rule);
}

void grad_geglu_grad(struct grad_rule *rule)
{
    refuse(rule);
}

void grad_silu_grad(struct grad_rule *rule)
{
    refuse(rule);
}

void grad_softcap_grad(struct grad_rule *rule)
{
    refuse(rule);
}

void grad_attention_grad(struct grad_rule *rule)
{
    refuse(rule);
}
