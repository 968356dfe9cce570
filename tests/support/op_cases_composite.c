/*
 * op_cases_composite - the cases of composites, and chains of them as a sharded layer
 * has: there gradients become partial, and have to be summed at the right place.
 */
#include "base/base.h"
#include "graph/build.h"
#include "support/op_case_macros.h"
#include "support/op_cases.h"

static void give(struct op_build *b, struct value *value)
{
    b->outputs[b->n_outputs++] = value;
}

/* ---- parameters and state ---- */

static void use_param(struct op_build *b)
{
    struct value *weight = build_use_param(b->graph, b->inputs[0], b->dtype);
    give(b, build_linear(b->graph, b->inputs[1], weight));
}

static void accumulate(struct op_build *b)
{
    give(b, build_accumulate(b->graph, b->inputs[0], b->inputs[1], b->inputs[2]));
    b->donors[0] = 1;
}

static void sum_squares(struct op_build *b)
{
    give(b, build_sum_squares(b->graph, b->inputs[0]));
}

static void adamw(struct op_build *b)
{
    struct value **x = b->inputs;
    const struct node *node =
        build_adamw(b->graph, x[0], x[1], x[2], x[3], x[4], x[5], x[6]);
    const int donors[3] = {1, 3, 4};
    for (int i = 0; i < 3; i++) {
        b->donors[i] = donors[i];
        give(b, node->outputs[i]);
    }
}

/* Inputs of a case that stand for state kept in bf16, or for what stays f32. */
static struct value *as(struct op_build *b, int input, enum dtype dtype)
{
    struct value *x = b->inputs[input];
    return x->type.dtype == dtype ? x : build_cast(b->graph, x, dtype);
}

/* p, m and v in bf16 (numbers: 0 to nearest, 1 by chance). */
static void adamw_narrow(struct op_build *b)
{
    struct value *p = as(b, 0, DTYPE_BF16), *g = as(b, 1, DTYPE_F32);
    struct value *m = as(b, 2, DTYPE_BF16), *v = as(b, 3, DTYPE_BF16);
    struct value *hyper = as(b, 4, DTYPE_F32), *scale = as(b, 5, DTYPE_F32);
    struct value *seed = build_scalar(b->graph, DTYPE_U32, 77);
    const struct node *node =
        b->numbers[0] == 0.0
            ? build_adamw(b->graph, p, g, m, v, hyper, scale, b->inputs[6])
            : build_adamw_stochastic(b->graph, p, g, m, v, hyper, scale, b->inputs[6],
                                     seed, b->inputs[7]);
    for (int i = 0; i < 3; i++) {
        give(b, node->outputs[i]);
    }
}

/* ---- rows and elements ---- */

/* numbers: adds_one */
static void rms_norm(struct op_build *b)
{
    give(b, build_rms_norm(b->graph, b->inputs[0], b->inputs[1], 1e-6,
                           b->numbers[0] != 0.0));
}

static void rms_norm_plain(struct op_build *b)
{
    give(b, build_rms_norm(b->graph, b->inputs[0], NULL, 1e-5, false));
}

/* numbers: theta, factor, pairs */
static void rope(struct op_build *b)
{
    give(b, build_rope(b->graph, b->inputs[0], b->inputs[1], b->numbers[0],
                       b->numbers[1], (int64_t)b->numbers[2]));
}

static void gelu_tanh(struct op_build *b)
{
    give(b, build_gelu_tanh(b->graph, b->inputs[0]));
}

static void geglu(struct op_build *b)
{
    give(b, build_geglu(b->graph, b->inputs[0], b->inputs[1]));
}

/* Both operands are one value: its gradient is the sum of two. */
static void geglu_twice(struct op_build *b)
{
    give(b, build_geglu(b->graph, b->inputs[0], b->inputs[0]));
}

static void silu(struct op_build *b)
{
    give(b, build_silu(b->graph, b->inputs[0]));
}

static void softcap(struct op_build *b)
{
    give(b, build_softcap(b->graph, b->inputs[0], b->numbers[0]));
}

/* numbers: scale, ignore_row */
static void embed(struct op_build *b)
{
    give(b, build_embed(b->graph, b->inputs[0], b->inputs[1], b->numbers[0],
                        (int64_t)b->numbers[1]));
}

/* ---- attention and loss ---- */

/* numbers: scale, window */
static void attention(struct op_build *b)
{
    struct value *lse;
    struct value **x = b->inputs;
    give(b, build_attention(b->graph, x[0], x[1], x[2], x[3], b->numbers[0],
                            (int64_t)b->numbers[1], &lse));
    give(b, lse);
}

/* numbers: scale, window */
static void attention_cached(struct op_build *b)
{
    struct value **x = b->inputs;
    give(b, build_attention_cached(b->graph, x[0], x[1], x[2], x[3], x[4],
                                   b->numbers[0], (int64_t)b->numbers[1]));
}

static void write_rows(struct op_build *b)
{
    struct value **x = b->inputs;
    give(b, build_write_rows(b->graph, x[0], x[1], x[2]));
    b->donors[0] = 1;
}

/* Row t of sequence b goes to slot 3 t + b - 1: the first and last ones to none. */
static void write_several_rows(struct op_build *b)
{
    struct graph *graph = b->graph;
    const struct type slots = type_make(DTYPE_I32, 2, b->inputs[1]->type.shape.dim);
    struct value *slot =
        build_add(graph, build_scale(graph, build_iota(graph, slots, 1), 3.0),
                  build_shift(graph, build_iota(graph, slots, 0), -1.0));
    give(b, build_write_rows(graph, b->inputs[0], b->inputs[1], slot));
    b->donors[0] = 1;
}

/* The weight of each row, and 0 for some. */
static struct value *row_weight(struct op_build *b)
{
    struct value *zero = build_scalar(b->graph, b->dtype, 0.0);
    return build_select(b->graph, b->inputs[5], b->inputs[4], zero);
}

/* numbers: cap, z_loss, label smoothing */
static void loss_head(struct op_build *b)
{
    struct value **x = b->inputs;
    const struct node *node =
        build_loss_head(b->graph, x[0], x[1], x[2], x[3], row_weight(b),
                        &(struct loss_head_options){.cap = b->numbers[0],
                                                    .z_loss = b->numbers[1],
                                                    .label_smoothing = b->numbers[2],
                                                    .with_gradient = true},
                        NULL, NULL);
    for (int i = 0; i < 3; i++) {
        give(b, node->outputs[i]);
    }
}

/* Without gradient: what evaluation runs. */
static void loss_head_only(struct op_build *b)
{
    struct value **x = b->inputs;
    const struct node *node =
        build_loss_head(b->graph, x[0], x[1], x[2], x[3], row_weight(b),
                        &(struct loss_head_options){.cap = b->numbers[0]}, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        give(b, node->outputs[i]);
    }
}

/* A frozen table gets no gradient, and the hidden rows the same as ever. */
static void loss_head_frozen(struct op_build *b)
{
    struct value **x = b->inputs;
    const struct loss_head_options options = {
        .cap = b->numbers[0], .with_gradient = true, .freezes_table = true};
    const struct node *node = build_loss_head(b->graph, x[0], x[1], x[2], x[3],
                                              row_weight(b), &options, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        give(b, node->outputs[i]);
    }
}

/* Its own gradients as results, added to an accumulator. */
static void loss_head_into(struct op_build *b)
{
    struct value **x = b->inputs;
    const struct node *node =
        build_loss_head(b->graph, x[0], x[1], x[2], x[3], row_weight(b),
                        &(struct loss_head_options){.cap = b->numbers[0],
                                                    .z_loss = b->numbers[1],
                                                    .label_smoothing = b->numbers[2],
                                                    .with_gradient = true},
                        x[6], x[7]);
    for (int i = 0; i < 5; i++) {
        give(b, node->outputs[i]);
    }
    b->donors[4] = 7;
}

/* ---- chains ---- */

/* Sums over tensor where the value is partial there. */
static struct value *settled(struct graph *graph, struct value *x)
{
    return x->type.placement.axis[MESH_TENSOR].kind == PLACE_PARTIAL
               ? build_all_reduce(graph, x, MESH_TENSOR, REDUCE_SUM)
               : x;
}

/* x + norm'(down(geglu(gate(a), up(a)))), a = norm(x). Columns of gate and up and rows of
 * down are split over tensor; the norm weights' gradients are partial over shard, and
 * the first one's over tensor too. */
static void mlp(struct op_build *b)
{
    struct graph *graph = b->graph;
    struct value **x = b->inputs; /* x, norm, gate, up, down, norm' */
    struct value *a = build_rms_norm(graph, x[0], x[1], 1e-6, true);
    struct value *y =
        build_geglu(graph, build_linear(graph, a, x[2]), build_linear(graph, a, x[3]));
    y = settled(graph, build_linear(graph, y, x[4]));
    y = build_rms_norm(graph, y, x[5], 1e-6, true);
    give(b, build_add(graph, x[0], y));
}

/* The same without residual: cotangents stay partial through two layers. */
static void two_matmuls(struct op_build *b)
{
    struct graph *graph = b->graph;
    struct value **x = b->inputs; /* x, w1, w2, w3, w4 */
    struct value *y = build_linear(graph, build_linear(graph, x[0], x[1]), x[2]);
    y = settled(graph, y);
    y = build_linear(graph, build_linear(graph, y, x[3]), x[4]);
    give(b, settled(graph, y));
}

/* Weights in parts over shard, gathered for use; one weight used twice. */
static void gathered(struct op_build *b)
{
    struct graph *graph = b->graph;
    struct value **x = b->inputs; /* x, w1, w2, norm */
    struct value *w1 = build_use_param(graph, x[1], b->dtype);
    struct value *w2 = build_use_param(graph, x[2], b->dtype);
    struct value *norm = build_use_param(graph, x[3], b->dtype);
    struct value *y = build_rms_norm(graph, x[0], norm, 1e-6, false);
    y = build_tanh(graph, build_linear(graph, y, w1));
    y = build_tanh(graph, build_linear(graph, y, w2));
    give(b, build_linear(graph, build_rms_norm(graph, y, norm, 1e-6, false), w1));
}

static struct value *heads(struct graph *graph, struct value *x, struct value *weight,
                           int64_t K)
{
    struct value *y = build_linear(graph, x, weight); /* [B, T, H * K] */
    const int64_t *dim = y->type.shape.dim;
    const int64_t shape[4] = {dim[0], dim[1], dim[2] / K, K};
    return build_reshape(graph, y, type_shape(4, shape));
}

/*
 * Attention with q/k norms and rope; query heads are split over tensor, the single
 * key-value head is not: its weights' gradients, and those of the q norm, are partial.
 * numbers: K
 */
static void attention_layer(struct op_build *b)
{
    struct graph *graph = b->graph;
    struct value **x =
        b->inputs; /* x, wq, wk, wo, q norm, k norm, position, first key */
    const int64_t K = (int64_t)b->numbers[0];
    struct value *q = heads(graph, x[0], x[1], K);
    struct value *k = heads(graph, x[0], x[2], K);
    struct value *v = build_rms_norm(graph, k, NULL, 1e-6, false);
    q = build_rope(graph, build_rms_norm(graph, q, x[4], 1e-6, false), x[6], 100.0, 1.0,
                   K / 2);
    k = build_rope(graph, build_rms_norm(graph, k, x[5], 1e-6, false), x[6], 100.0, 1.0,
                   K / 2);
    struct value *lse;
    struct value *out = build_attention(graph, q, k, v, x[7], 1.0, 4, &lse);
    const int64_t *dim = out->type.shape.dim;
    const int64_t flat[3] = {dim[0], dim[1], dim[2] * K};
    out = build_reshape(graph, out, type_shape(3, flat));
    out = settled(graph, build_linear(graph, out, x[3]));
    give(b, build_add(graph, x[0], out));
}

/* One table for the first and the last layer. */
static void tied_table(struct op_build *b)
{
    struct graph *graph = b->graph;
    struct value **x = b->inputs; /* table, ids, loss rows, targets, weight, mask */
    struct value *h = build_embed(graph, x[0], x[1], 2.0, -1);
    h = build_rms_norm(graph, h, NULL, 1e-6, false);
    const struct node *node = build_loss_head(
        graph, h, x[0], x[2], x[3], row_weight(b),
        &(struct loss_head_options){.cap = b->numbers[0], .with_gradient = true}, NULL,
        NULL);
    give(b, node->outputs[0]);
}

// clang-format off
const struct op_case op_cases_composite[] = {
    {.op = OP_USE_PARAM, "use_param", use_param, {PARAMETER(-1, 1, 12, 5), X(-1, 1, 24, 5)}, {0},
     {"S0 -", "S0 S0", "- S0", "S0T1 T1"}},
    {.op = OP_ACCUMULATE, "accumulate", accumulate,
     {FIXED(-2, 2, 12, 5), TRUE_SCALAR, FIXED(-2, 2, 12, 5)}, {0}, {"S0 - S0", "TP - TP"}},
    {.op = OP_ACCUMULATE, "accumulate first", accumulate,
     {FIXED(-2, 2, 12, 5), FALSE_SCALAR, FIXED(-2, 2, 12, 5)}, {0}, {"S0 - S0"}},
    {.op = OP_SUM_SQUARES, "sum_squares", sum_squares, {X(-2, 2, 12, 7, 3)}, .layouts = {"S0"}},
    {.op = OP_SUM_SQUARES, "sum_squares long", sum_squares, {X(-2, 2, 40000)}},
    {.op = OP_ADAMW, "adamw", adamw,
     {FIXED(-2, 2, 12, 5), FIXED(-2, 2, 12, 5), FIXED(-1, 1, 12, 5), FIXED(0.01, 1, 12, 5),
      FIXED(0.05, 0.9, 7), FIXED_SCALAR(0.2, 0.4), TRUE_SCALAR}, {0},
     {"S0 S0 S0 S0 - - -"}},
    {.op = OP_ADAMW, "adamw odd", adamw,
     {FIXED(-2, 2, 1027), FIXED(-2, 2, 1027), FIXED(-1, 1, 1027), FIXED(0.01, 1, 1027),
      FIXED(0.05, 0.9, 7), FIXED_SCALAR(0.2, 0.4), TRUE_SCALAR},
     .bf16_bound = 0.02, .reason = "1 - beta2 has few bits in bf16 (its state is f32)"},
    {.op = OP_ADAMW, "adamw skipped", adamw,
     {FIXED(-2, 2, 12, 5), FIXED(-2, 2, 12, 5), FIXED(-1, 1, 12, 5), FIXED(0.01, 1, 12, 5),
      FIXED(0.05, 0.9, 7), FIXED_SCALAR(0.2, 0.4), FALSE_SCALAR}, {0},
     {"S0 S0 S0 S0 - - -"}},

    {.op = OP_ADAMW, "adamw bf16", adamw_narrow,
     {FIXED(-2, 2, 12, 132), FIXED(-2, 2, 12, 132), FIXED(-1, 1, 12, 132),
      FIXED(0.01, 1, 12, 132), FIXED(0.05, 0.9, 7), FIXED_SCALAR(0.2, 0.4), TRUE_SCALAR}, {0},
     {"S0 S0 S0 S0 - - -", "S0T1 S0T1 S0T1 S0T1 - - -"},
     .f32_bound = 0.004, .bf16_bound = 0.01, .native_bound = 0.004, .reason = "results are bf16"},
    {.op = OP_ADAMW, "adamw bf16 by chance", adamw_narrow,
     {FIXED(-2, 2, 12, 132), FIXED(-2, 2, 12, 132), FIXED(-1, 1, 12, 132),
      FIXED(0.01, 1, 12, 132), FIXED(0.05, 0.9, 7), FIXED_SCALAR(0.2, 0.4), TRUE_SCALAR,
      U32_SCALAR(5, 5)}, {1},
     {"S0 S0 S0 S0 - - - -", "S0T1 S0T1 S0T1 S0T1 - - - -", "T1 T1 T1 T1 - - - -"},
     .f32_bound = 0.008, .bf16_bound = 0.01, .native_bound = 0.008,
     .reason = "results are bf16, and rounded up where an f32 sum lies between"},
    {.op = OP_RMS_NORM, "rms_norm", rms_norm, {X(-2, 2, 12, 24, 5), X(0.5, 1.5, 5)}, {0},
     {"S0 -", "T1 -", "S0T1 -"}},
    {.op = OP_RMS_NORM, "rms_norm one", rms_norm, {X(-2, 2, 3, 37), X(-0.5, 0.5, 37)}, {1}},
    {.op = OP_RMS_NORM, "rms_norm wide", rms_norm, {X(-2, 2, 67, 640), X(-0.5, 0.5, 640)}, {1}},
    {.op = OP_RMS_NORM, "rms_norm single", rms_norm, {X(-2, 2, 1, 3), X(0.5, 1.5, 3)}, {0}},
    {.op = OP_RMS_NORM, "rms_norm plain", rms_norm_plain, {X(-2, 2, 12, 3, 17)}, {0}, {"S0"}},
    {.op = OP_ROPE, "rope", rope, {X(-2, 2, 12, 5, 24, 6), I32(0, 40, 12, 5)}, {10000, 1, 3},
     {"S0 S0", "T2 -", "S0T2 S0"}},
    {.op = OP_ROPE, "rope partial", rope, {X(-2, 2, 2, 7, 3, 34), I32(0, 40, 2, 7)},
     {1000000, 8, 5}},
    {.op = OP_GELU_TANH, "gelu_tanh", gelu_tanh, {X(-5, 5, 12, 37)}, .layouts = {"S0"}},
    {.op = OP_GEGLU, "geglu", geglu, {X(-5, 5, 12, 36), X(-2, 2, 12, 36)}, {0},
     {"S0 S0", "S0T1 S0T1"}},
    {.op = OP_GEGLU, "geglu odd", geglu, {X(-5, 5, 3, 129), X(-2, 2, 3, 129)}},
    {.op = OP_GEGLU, "geglu of one", geglu_twice, {X(-3, 3, 12, 7)}, .layouts = {"S0"}},
    {.op = OP_SILU, "silu", silu, {X(-9, 9, 12, 37)}, .layouts = {"S0"}},
    {.op = OP_SILU, "silu far", silu, {X(-120, 120, 3, 7)}},
    {.op = OP_SOFTCAP, "softcap", softcap, {X(-90, 90, 12, 37)}, {30}, {"S0"}},
    {.op = OP_EMBED, "embed", embed, {X(-2, 2, 12, 6), I32(0, 11, 24)}, {25.25, -1},
     {"- S0", "T0 -", "T0 S0", "S0T0 -"}},
    {.op = OP_EMBED, "embed ignoring", embed, {X(-2, 2, 12, 6), I32(0, 11, 4, 12)}, {1, 3},
     {"- S1", "T0 -", "T0 S1"}, .is_not_true = true},

    {.op = OP_ATTENTION, "attention", attention,
     {X(-2, 2, 2, 7, 4, 5), X(-2, 2, 2, 7, 2, 5), X(-2, 2, 2, 7, 2, 5), FIRST_KEY(2, 7)},
     {0.5, 0}, .n_seeded = 1},
    {.op = OP_ATTENTION, "attention window", attention,
     {X(-2, 2, 3, 13, 3, 8), X(-2, 2, 3, 13, 1, 8), X(-2, 2, 3, 13, 1, 8), FIRST_KEY(3, 13)},
     {0.4, 3}, .n_seeded = 1},
    {.op = OP_ATTENTION, "attention long", attention,
     {X(-1, 1, 1, 131, 2, 16), X(-1, 1, 1, 131, 1, 16), X(-1, 1, 1, 131, 1, 16),
      FIRST_KEY(1, 131)}, {1, 40}, .n_seeded = 1},
    {.op = OP_ATTENTION, "attention one head each", attention,
     {X(-1, 1, 2, 67, 3, 33), X(-1, 1, 2, 67, 3, 33), X(-1, 1, 2, 67, 3, 33),
      FIRST_KEY(2, 67)}, {0.2, 0}, .n_seeded = 1},
    {.op = OP_ATTENTION, "attention mesh", attention,
     {X(-2, 2, 12, 7, 24, 4), X(-2, 2, 12, 7, 12, 4), X(-2, 2, 12, 7, 12, 4), FIRST_KEY(12, 7)},
     {0.5, 4}, {"S0 S0 S0 S0", "T2 T2 T2 -", "S0T2 S0T2 S0T2 S0"}, .n_seeded = 1},
    {.op = OP_ATTENTION, "attention mesh one key head", attention,
     {X(-2, 2, 4, 7, 12, 4), X(-2, 2, 4, 7, 1, 4), X(-2, 2, 4, 7, 1, 4), FIRST_KEY(4, 7)},
     {0.5, 0}, {"T2 - - -", "S0T2 S0 S0 S0"}, .n_seeded = 1},
    {.op = OP_ATTENTION, "attention mesh few heads", attention,
     {X(-2, 2, 4, 7, 4, 4), X(-2, 2, 4, 7, 2, 4), X(-2, 2, 4, 7, 2, 4), FIRST_KEY(4, 7)},
     {0.5, 0}, {"T2 T2 T2 -"}, .n_seeded = 1},

    {.op = OP_ATTENTION, "attention blocks", attention,
     {X(-1, 1, 1, 600, 2, 4), X(-1, 1, 1, 600, 1, 4), X(-1, 1, 1, 600, 1, 4),
      FIRST_KEY_LONG(1, 600, 450)}, {1, 300}, .n_seeded = 1},

    {.op = OP_ATTENTION_CACHED, "attention_cached", attention_cached,
     {FIXED(-2, 2, 2, 7, 4, 5), FIXED(-2, 2, 2, 11, 2, 5), FIXED(-2, 2, 2, 11, 2, 5),
      I32(-1, 9, 2, 7), I32(-1, 9, 2, 11)}, {0.5, 0}},
    {.op = OP_ATTENTION_CACHED, "attention_cached window", attention_cached,
     {FIXED(-2, 2, 3, 5, 4, 8), FIXED(-2, 2, 3, 70, 1, 8), FIXED(-2, 2, 3, 70, 1, 8),
      I32(-1, 60, 3, 5), I32(-1, 60, 3, 70)}, {0.4, 9}},
    {.op = OP_ATTENTION_CACHED, "attention_cached one token", attention_cached,
     {FIXED(-1, 1, 2, 1, 6, 16), FIXED(-1, 1, 2, 2100, 2, 16), FIXED(-1, 1, 2, 2100, 2, 16),
      I32(900, 1100, 2, 1), I32(-1, 1300, 2, 2100)}, {1, 300}},
    {.op = OP_ATTENTION_CACHED, "attention_cached blocks", attention_cached,
     {FIXED(-1, 1, 1, 150, 2, 4), FIXED(-1, 1, 1, 600, 1, 4), FIXED(-1, 1, 1, 600, 1, 4),
      I32(-1, 600, 1, 150), I32(-1, 600, 1, 600)}, {1, 0}},
    {.op = OP_ATTENTION_CACHED, "attention_cached nothing seen", attention_cached,
     {FIXED(-1, 1, 1, 3, 2, 4), FIXED(-1, 1, 1, 6, 2, 4), FIXED(-1, 1, 1, 6, 2, 4),
      I32(0, 5, 1, 3), I32(6, 9, 1, 6)}, {1, 0}},
    {.op = OP_WRITE_ROWS, "write_rows", write_rows,
     {FIXED(-2, 2, 3, 9, 2, 5), FIXED(-2, 2, 3, 1, 2, 5), I32(-1, 9, 3, 1)}},
    {.op = OP_WRITE_ROWS, "write_rows several", write_several_rows,
     {FIXED(-2, 2, 2, 10, 7), FIXED(-2, 2, 2, 5, 7)}},
    {.op = OP_WRITE_ROWS, "write_rows one past the end", write_several_rows,
     {FIXED(-2, 2, 2, 11, 7), FIXED(-2, 2, 2, 5, 7)}},

    {.op = OP_LOSS_HEAD, "loss_head", loss_head,
     {X(-1, 1, 24, 7), X(-1, 1, 36, 7), ROWS(12), I32(0, 35, 12), FIXED(0.3, 1, 12), BOOL(12)},
     {0}, {"S0 - S0 S0 S0 S0", "- T0 - - - -", "S0 T0 S0 S0 S0 S0"},
     .n_seeded = 1, .seed_is_one = true},
    {.op = OP_LOSS_HEAD, "loss_head capped", loss_head,
     {X(-3, 3, 24, 7), X(-3, 3, 36, 7), ROWS(12), I32(0, 35, 12), FIXED(0.3, 1, 12), BOOL(12)},
     {5}, {"S0 - S0 S0 S0 S0", "- T0 - - - -"}, .n_seeded = 1, .seed_is_one = true},
    {.op = OP_LOSS_HEAD, "loss_head z_loss", loss_head,
     {X(-3, 3, 24, 7), X(-3, 3, 36, 7), ROWS(12), I32(0, 35, 12), FIXED(0.3, 1, 12), BOOL(12)},
     {0, 0.05}, {"S0 - S0 S0 S0 S0", "- T0 - - - -"}, .n_seeded = 1, .seed_is_one = true},
    {.op = OP_LOSS_HEAD, "loss_head smoothed", loss_head,
     {X(-3, 3, 24, 7), X(-3, 3, 36, 7), ROWS(12), I32(0, 35, 12), FIXED(0.3, 1, 12), BOOL(12)},
     {5, 0.05, 0.2}, {"S0 - S0 S0 S0 S0", "- T0 - - - -"}, .n_seeded = 1, .seed_is_one = true},
    {.op = OP_LOSS_HEAD, "loss_head smoothed large", loss_head,
     {X(-1, 1, 97, 33), X(-1, 1, 1031, 33), ROWS(61), I32(0, 1030, 61), FIXED(0.3, 1, 61),
      BOOL(61)}, {0, 0.02, 0.3}, .n_seeded = 1, .seed_is_one = true},
    {.op = OP_LOSS_HEAD, "loss_head frozen", loss_head_frozen,
     {FIXED(-1, 1, 24, 7), FIXED(-1, 1, 36, 7), ROWS(12), I32(0, 35, 12), FIXED(0.3, 1, 12),
      BOOL(12)}, {30}, {"S0 - S0 S0 S0 S0"}},
    {.op = OP_LOSS_HEAD, "loss_head large", loss_head,
     {X(-1, 1, 97, 33), X(-1, 1, 1031, 33), ROWS(61), I32(0, 1030, 61), FIXED(0.3, 1, 61),
      BOOL(61)}, {30}, .n_seeded = 1, .seed_is_one = true},
    {.op = OP_LOSS_HEAD, "loss_head only", loss_head_only,
     {FIXED(-1, 1, 24, 7), FIXED(-1, 1, 36, 7), ROWS(12), I32(0, 35, 12), FIXED(0.3, 1, 12),
      BOOL(12)}, {30}, {"S0 - S0 S0 S0 S0"}},
    {.op = OP_LOSS_HEAD, "loss_head into", loss_head_into,
     {FIXED(-1, 1, 24, 7), FIXED(-1, 1, 36, 7), ROWS(12), I32(0, 35, 12), FIXED(0.3, 1, 12),
      BOOL(12), FIXED(-1, 1, 36, 7), TRUE_SCALAR}, {30}, {"S0 - S0 S0 S0 S0 SP -"}},
    {.op = OP_LOSS_HEAD, "loss_head into cleared", loss_head_into,
     {FIXED(-1, 1, 24, 7), FIXED(-1, 1, 36, 7), ROWS(12), I32(0, 35, 12), FIXED(0.3, 1, 12),
      BOOL(12), FIXED(-1, 1, 36, 7), FALSE_SCALAR}, {0}},

    {.op = OP_GEGLU, "chain mlp", mlp,
     {X(-2, 2, 12, 3, 8), X(-0.5, 0.5, 8), X(-0.5, 0.5, 24, 8), X(-0.5, 0.5, 24, 8),
      X(-0.5, 0.5, 8, 24), X(-0.5, 0.5, 8)}, {0},
     {"S0 - - - - -", "- - T0 T0 T1 -", "S0 - T0 T0 T1 -", "R0S0 - - - - -"}},
    {.op = OP_MATMUL, "chain matmuls", two_matmuls,
     {X(-1, 1, 12, 8), X(-0.5, 0.5, 24, 8), X(-0.5, 0.5, 8, 24), X(-0.5, 0.5, 12, 8),
      X(-0.5, 0.5, 8, 12)}, {0},
     {"- T0 T1 T0 T1", "S0 T0 T1 T0 T1", "S0 - - T0 T1"}},
    {.op = OP_USE_PARAM, "chain gathered", gathered,
     {X(-1, 1, 24, 12), PARAMETER(-0.5, 0.5, 24, 12), PARAMETER(-0.5, 0.5, 12, 24),
      PARAMETER(0.5, 1, 12)}, {0}, {"S0 S0 S0 S0", "S0 S0 S0 -", "R0S0 S0 S0 S0"}},
    {.op = OP_ATTENTION, "chain attention", attention_layer,
     {X(-1, 1, 4, 7, 10), X(-0.5, 0.5, 48, 10), X(-0.5, 0.5, 4, 10), X(-0.5, 0.5, 10, 48),
      X(0.5, 1, 4), X(0.5, 1, 4), I32(0, 20, 4, 7), FIRST_KEY(4, 7)}, {4},
     {"S0 - - - - - S0 S0", "- T0 - T1 - - - -", "S0 T0 - T1 - - S0 S0"},
     .bf16_bound = 0.03, .reason = "a dozen roundings in a row"},
    {.op = OP_EMBED, "chain tied table", tied_table,
     {X(-1, 1, 36, 7), I32(0, 35, 24), I32(0, 11, 12), I32(0, 35, 12), FIXED(0.3, 1, 12),
      BOOL(12)}, {30}, .n_seeded = 1, .seed_is_one = true},
};
// clang-format on

const int op_cases_n_composite = (int)ARRAY_LENGTH(op_cases_composite);
