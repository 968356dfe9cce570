/*
 * define_elementwise - what the composites mean that treat each element alone:
 * activations, the optimizer, accumulation, and the two small ones around parameters.
 *
 * bf16 operands are widened to f32 first and the result is rounded once.
 */
#include "base/random.h"
#include "graph/build.h"
#include "graph/define_rules.h"

/* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), in the type of x. */
static struct value *gelu_tanh(struct graph *graph, struct value *x)
{
    const double sqrt_2_over_pi = 0.79788456080286535588;
    const double cubic = 0.044715;
    struct value *square = build_mul(graph, x, x);
    /* x + c x^3 = x (1 + c x^2) */
    struct value *inner =
        build_mul(graph, x, build_shift(graph, build_scale(graph, square, cubic), 1.0));
    struct value *t = build_tanh(graph, build_scale(graph, inner, sqrt_2_over_pi));
    return build_mul(graph, build_scale(graph, x, 0.5), build_shift(graph, t, 1.0));
}

/* gelu_tanh in f32 (f64), one rounding at the end. */
void define_gelu_tanh(struct define *define)
{
    struct value *x = define->inputs[0];
    struct value *y = gelu_tanh(define->graph, define_widen(define->graph, x));
    define->outputs[0] = define_cast(define->graph, y, x->type.dtype);
}

/* gelu_tanh(gate) * up; the product is formed before the rounding. */
void define_geglu(struct define *define)
{
    struct graph *graph = define->graph;
    struct value *gate = define->inputs[0];
    struct value *up = define->inputs[1];
    struct value *y = build_mul(graph, gelu_tanh(graph, define_widen(graph, gate)),
                                define_widen(graph, up));
    define->outputs[0] = define_cast(graph, y, gate->type.dtype);
}

/* x / (1 + exp(-x)) = x/2 (1 + tanh(x/2)), which cannot overflow. */
void define_silu(struct define *define)
{
    struct graph *graph = define->graph;
    struct value *x = define->inputs[0];
    struct value *half = build_scale(graph, define_widen(graph, x), 0.5);
    struct value *y =
        build_mul(graph, half, build_shift(graph, build_tanh(graph, half), 1.0));
    define->outputs[0] = define_cast(graph, y, x->type.dtype);
}

/* cap * tanh(x / cap): close to x for small x, never over cap. */
void define_softcap(struct define *define)
{
    struct graph *graph = define->graph;
    struct value *x = define->inputs[0];
    const double cap = define->attributes->value;
    struct value *t =
        build_tanh(graph, build_scale(graph, define_widen(graph, x), 1.0 / cap));
    define->outputs[0] = define_cast(graph, build_scale(graph, t, cap), x->type.dtype);
}

/* Cast, then gather: the traffic is in the compute type. */
void define_use_param(struct define *define)
{
    struct graph *graph = define->graph;
    struct value *shard = define->inputs[0];
    struct value *used = define_cast(graph, shard, define->attributes->dtype);
    const struct place place = shard->type.placement.axis[MESH_SHARD];
    if (place.kind == PLACE_SPLIT && place.dim == 0) {
        used = build_all_gather(graph, used, MESH_SHARD, 0);
    }
    /* An op of its own has a result of its own. */
    define->outputs[0] = used == shard ? build_barrier(graph, shard) : used;
}

/*
 *     keep ? acc + g : g
 *
 * A select and not a product with 0: what the accumulator holds at first may be NaN.
 */
void define_accumulate(struct define *define)
{
    struct graph *graph = define->graph;
    struct value *acc = define->inputs[0];
    struct value *keep = define->inputs[1];
    struct value *g = define->inputs[2];
    struct value *zero = build_constant(graph, acc->type, 0.0);
    struct value *kept = build_select(graph, keep, acc, zero);
    define->outputs[0] = build_add(graph, kept, define_cast(graph, g, acc->type.dtype));
}

/* Squares in f64: those of f32 numbers neither overflow nor vanish there. */
void define_sum_squares(struct define *define)
{
    struct graph *graph = define->graph;
    struct value *x = define_cast(graph, define->inputs[0], DTYPE_F64);
    const int axes[SHAPE_MAX_RANK] = {0, 1, 2, 3, 4, 5};
    struct value *square = build_mul(graph, x, x);
    if (x->type.shape.rank > 0) {
        square = build_reduce_sum(graph, square, x->type.shape.rank, axes);
    }
    define->outputs[0] = square;
}

/* Element `index` of a vector, as a scalar. */
static struct value *vector_element(struct graph *graph, struct value *vector,
                                    int64_t index)
{
    struct value *one = build_slice_axis(graph, vector, 0, index, index + 1);
    return build_reshape(graph, one, type_shape(0, NULL));
}

/* (1 - x) for a scalar x. */
static struct value *one_minus(struct graph *graph, struct value *x)
{
    return build_shift(graph, build_scale(graph, x, -1.0), 1.0);
}

/* beta * old + (1 - beta) * fresh */
static struct value *blend(struct graph *graph, struct value *beta, struct value *old,
                           struct value *fresh)
{
    return build_add(graph, build_mul(graph, old, beta),
                     build_mul(graph, fresh, one_minus(graph, beta)));
}

/* New values before the rounding, and the type that they are kept in. */
struct adamw {
    struct graph *graph;
    enum dtype stored;
    struct value *apply; /* bool */
    struct value *words; /* u32, a random one per element; NULL: round to nearest */
};

/* x without its lower half: u32 has no shifts, but divides exactly. */
static struct value *upper_half(struct graph *graph, struct value *words)
{
    return build_div(graph, words, build_scalar(graph, DTYPE_U32, 0x1p16));
}

/* The 16 bits that decide for p (0), m (1) and v (2). Multiplying by an odd number
 * mixes both halves into the upper one. */
static struct value *random_half(struct graph *graph, struct value *words, int which)
{
    if (which == 1) {
        return upper_half(graph, words);
    }
    if (which == 2) {
        struct value *odd = build_scalar(graph, DTYPE_U32, ADAMW_MIX);
        return upper_half(graph, build_mul(graph, words, odd));
    }
    struct value *upper = build_mul(graph, upper_half(graph, words),
                                    build_scalar(graph, DTYPE_U32, 0x1p16));
    return build_sub(graph, words, upper);
}

/*
 * x [f32] as bf16, up or down: what is added to the bits below those that bf16 keeps
 * carries into them with the chance that x is nearer to the next number. Not for
 * infinity and NaN, which the sum would change.
 */
static struct value *round_by_chance(struct graph *graph, struct value *x,
                                     struct value *half)
{
    struct value *sum = build_add(graph, build_bitcast(graph, x, DTYPE_U32), half);
    struct value *kept = build_mul(graph, upper_half(graph, sum),
                                   build_scalar(graph, DTYPE_U32, 0x1p16));
    struct value *chosen = build_bitcast(graph, kept, DTYPE_F32);
    struct value *y = build_select(graph, build_is_finite(graph, x), chosen, x);
    return build_cast(graph, y, DTYPE_BF16);
}

/* `fresh` as it is stored where the update applies, else `old`, bit by bit. */
static struct value *adamw_result(const struct adamw *adamw, struct value *fresh,
                                  struct value *old, int which)
{
    struct graph *graph = adamw->graph;
    struct value *rounded =
        adamw->words == NULL
            ? define_cast(graph, fresh, adamw->stored)
            : round_by_chance(graph, fresh, random_half(graph, adamw->words, which));
    return build_select(graph, adamw->apply, rounded, old);
}

/* A random word for each element of p, counted over the whole array. */
static struct value *adamw_words(const struct define *define)
{
    if (define->n_inputs < 9) {
        return NULL;
    }
    struct type type = define->inputs[0]->type;
    ASSERT(type.dtype == DTYPE_BF16);
    type.dtype = DTYPE_U32;
    return build_random_bits(define->graph, define->inputs[7], define->inputs[8],
                             RANDOM_ROUNDING, type);
}

/*
 *     m' = b1 m + (1 - b1) g      v' = b2 v + (1 - b2) g^2
 *     p' = p (1 - lr decay) - lr / c1 * m' / (sqrt(v') / sqrt(c2) + eps)
 *
 * with c1 = 1 - b1^step and c2 = 1 - b2^step from the hyper vector: Loshchilov and
 * Hutter 2019, in PyTorch's order of operations. p' is made from m' and v' before their
 * rounding. Where apply is false all three keep their values, bit by bit.
 */
void define_adamw(struct define *define)
{
    struct graph *graph = define->graph;
    struct value *const *inputs = define->inputs;
    struct value *p = define_widen(graph, inputs[0]);
    struct value *m = define_widen(graph, inputs[2]);
    struct value *v = define_widen(graph, inputs[3]);
    const enum dtype math = p->type.dtype;
    struct value *vector = define_cast(graph, inputs[4], math);
    struct value *hyper[ADAMW_N_HYPER];
    for (int i = 0; i < ADAMW_N_HYPER; i++) {
        hyper[i] = vector_element(graph, vector, i);
    }
    struct value *g = build_mul(graph, define_cast(graph, inputs[1], math),
                                define_cast(graph, inputs[5], math));

    struct value *decay = build_mul(graph, hyper[ADAMW_LR], hyper[ADAMW_DECAY]);
    struct value *decayed = build_mul(graph, p, one_minus(graph, decay));
    struct value *new_m = blend(graph, hyper[ADAMW_BETA1], m, g);
    struct value *new_v = blend(graph, hyper[ADAMW_BETA2], v, build_mul(graph, g, g));

    struct value *step =
        build_div(graph, hyper[ADAMW_LR], hyper[ADAMW_BIAS_CORRECTION1]);
    struct value *root = build_sqrt(graph, hyper[ADAMW_BIAS_CORRECTION2]);
    struct value *denominator = build_add(
        graph, build_div(graph, build_sqrt(graph, new_v), root), hyper[ADAMW_EPS]);
    struct value *move = build_div(graph, build_mul(graph, new_m, step), denominator);
    struct value *new_p = build_sub(graph, decayed, move);

    const struct adamw adamw = {.graph = graph,
                                .stored = inputs[0]->type.dtype,
                                .apply = inputs[6],
                                .words = adamw_words(define)};
    define->outputs[0] = adamw_result(&adamw, new_p, inputs[0], 0);
    define->outputs[1] = adamw_result(&adamw, new_m, inputs[2], 1);
    define->outputs[2] = adamw_result(&adamw, new_v, inputs[3], 2);
}
