/*
 * define - finds the definition of an op. Composites have one each (define_NAME, a
 * missing one is a link error); a gradient op X_grad has none of its own: it is X's
 * definition, differentiated.
 */
#include "graph/define.h"

#include <assert.h>

#include "graph/build.h"
#include "graph/define_attention.h"
#include "graph/define_rules.h"
#include "graph/grad.h"

typedef void (*define_fn)(struct define *define);

enum {
    MAX_INPUTS = 8,     /* of a gradient op */
    ATTENTION_SAVED = 2 /* attention_grad also reads out and lse */
};

#define DEFINE_ENTRY_PRIMITIVE(name) NULL
#define DEFINE_ENTRY_COMPOSITE(name) define_##name
#define DEFINE_ENTRY_GRADIENT(name)  NULL

static const define_fn definitions[] = {
#define OP(NAME, name, kind, min_inputs, max_inputs, n_outputs) \
    [OP_##NAME] = DEFINE_ENTRY_##kind(name),
#include "graph/ops.def"
#undef OP
};
static_assert(ARRAY_LENGTH(definitions) == OP_COUNT, "one entry per op");

static const int fixed_outputs[] = {
#define OP(NAME, name, kind, min_inputs, max_inputs, n_outputs) [OP_##NAME] = n_outputs,
#include "graph/ops.def"
#undef OP
};

int define_n_outputs(enum op op, int n_inputs, const struct attributes *attributes)
{
    if (op == OP_RMS_NORM_GRAD) {
        /* dx, and dweight where there is a weight that wants one. */
        return n_inputs == 3 && attributes->freezes_weight ? 1 : n_inputs - 1;
    }
    if (op == OP_LOSS_HEAD) {
        return !attributes->with_gradient ? 3 : attributes->freezes_table ? 4 : 5;
    }
    ASSERT(fixed_outputs[op] >= 0);
    return fixed_outputs[op];
}

/*
 * The inputs of X_grad are those of X, for attention also its results, and last the
 * cotangent of output 0. The first n_outputs inputs of X are those that get a gradient.
 *
 * Each input is read through a stop_gradient of its own, so that two operands that are
 * one value, or computed from each other, still get separate gradients. They stay
 * partial where they are: the rule that emitted X_grad goes on from there.
 */
static void define_gradient(enum op op, struct define *define)
{
    struct graph *graph = define->graph;
    const int n_saved = op == OP_ATTENTION_GRAD ? ATTENTION_SAVED : 0;
    const int n_forward = define->n_inputs - 1 - n_saved;
    ASSERT(0 < n_forward && n_forward <= MAX_INPUTS);

    struct value *inputs[MAX_INPUTS];
    for (int i = 0; i < n_forward; i++) {
        inputs[i] = build_stop_gradient(graph, define->inputs[i]);
    }
    const enum op forward = op_forward_of(op);
    struct value *outputs[MAX_INPUTS] = {NULL};
    struct define inner = {
        .graph = graph,
        .n_inputs = n_forward,
        .inputs = inputs,
        .attributes = define->attributes,
        .n_outputs = define_n_outputs(forward, n_forward, define->attributes),
        .outputs = outputs,
    };
    define_op(forward, &inner);

    /* The cotangent of output 0. */
    struct value *const seed = define->inputs[define->n_inputs - 1];
    const struct grad_options options = {.keeps_partial = true};
    grad_build(graph, 1, outputs, &seed, define->n_outputs, inputs, &options,
               define->outputs);
    for (int i = 0; i < define->n_outputs; i++) {
        /* The definition does not depend on it: the gradient is zero, but the op has
         * the output. */
        if (define->outputs[i] == NULL) {
            define->outputs[i] = build_constant(graph, inputs[i]->type, 0.0);
        }
        define->outputs[i] =
            define_cast(graph, define->outputs[i], inputs[i]->type.dtype);
    }
}

/* The one place that knows which ops have a form with a loop of their own; the
 * composites look at is_tiled themselves. */
void define_op(enum op op, struct define *define)
{
    ASSERT(define->n_outputs ==
           define_n_outputs(op, define->n_inputs, define->attributes));
    if (op == OP_ATTENTION_GRAD && define->is_tiled) {
        define_attention_tiled_grad(define);
        return;
    }
    if (op_kind(op) == OP_KIND_GRADIENT) {
        define_gradient(op, define);
        return;
    }
    ASSERT(definitions[op] != NULL);
    definitions[op](define);
}

/* bf16 and f16 have too few digits for sums and exponentials. */
enum dtype define_math_dtype(enum dtype dtype)
{
    return dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
}

/* A cast to the same dtype would be a node that does nothing. */
struct value *define_cast(struct graph *graph, struct value *x, enum dtype dtype)
{
    return x->type.dtype == dtype ? x : build_cast(graph, x, dtype);
}

struct value *define_widen(struct graph *graph, struct value *x)
{
    return define_cast(graph, x, define_math_dtype(x->type.dtype));
}

struct value *define_spread(struct graph *graph, struct value *x,
                            const struct value *like, const int *axes)
{
    return build_broadcast(graph, x, like->type.shape, axes, like->type.placement);
}

struct value *define_argument(struct graph *body, const char *name,
                              const struct value *outer)
{
    return build_input(body, name, outer->type);
}
