/*
 * selftest_cases - see the header. Sizes are odd on purpose: vector loops have to do their
 * ends as well. Bounds in f32: exp, tanh and sums in another order than the definition's.
 * In bf16 the definition rounds after each of its steps, the kernel once at the end.
 */
#include "backend/selftest_cases.h"

#include "graph/build.h"

static void give(struct graph *graph, const char *name, struct value *value)
{
    graph_add_output(graph, name, value, NULL);
}

static void linear(struct graph *graph, struct value *const *x)
{
    give(graph, "y", build_linear(graph, x[0], x[1]));
}

/* Weights in bf16, as they lie in a file; or both operands. Sums are f32. */
static void linear_bf16(struct graph *graph, struct value *const *x)
{
    give(graph, "y", build_matmul(graph, x[0], x[1], false, true, DTYPE_F32));
}

static void rms_norm(struct graph *graph, struct value *const *x)
{
    give(graph, "y", build_rms_norm(graph, x[0], x[1], 1e-6, true));
}

static void rope(struct graph *graph, struct value *const *x)
{
    give(graph, "y", build_rope(graph, x[0], x[1], 10000.0, 1.0, 17));
}

static void gelu_tanh(struct graph *graph, struct value *const *x)
{
    give(graph, "y", build_gelu_tanh(graph, x[0]));
}

static void geglu(struct graph *graph, struct value *const *x)
{
    give(graph, "y", build_geglu(graph, x[0], x[1]));
}

static void silu(struct graph *graph, struct value *const *x)
{
    give(graph, "y", build_silu(graph, x[0]));
}

static void softcap(struct graph *graph, struct value *const *x)
{
    give(graph, "y", build_softcap(graph, x[0], 30.0));
}

static void embed(struct graph *graph, struct value *const *x)
{
    give(graph, "y", build_embed(graph, x[0], x[1], 25.25, -1));
}

static void attention(struct graph *graph, struct value *const *x)
{
    struct value *lse;
    give(graph, "out", build_attention(graph, x[0], x[1], x[2], x[3], 0.2, 40, &lse));
    give(graph, "lse", lse);
}

static void attention_cached(struct graph *graph, struct value *const *x)
{
    give(graph, "out",
         build_attention_cached(graph, x[0], x[1], x[2], x[3], x[4], 0.2, 40));
}

/* Makes its own gradients. */
static void loss_head(struct graph *graph, struct value *const *x)
{
    const struct loss_head_options options = {.cap = 30.0, .with_gradient = true};
    const struct node *node =
        build_loss_head(graph, x[0], x[1], x[2], x[3], x[4], &options, NULL, NULL);
    static const char *const names[] = {"loss_sum", "token_loss", "lse", "d_hidden",
                                        "d_table"};
    for (int i = 0; i < 5; i++) {
        give(graph, names[i], node->outputs[i]);
    }
}

static void sum_squares(struct graph *graph, struct value *const *x)
{
    give(graph, "y", build_sum_squares(graph, x[0]));
}

/* p, m and v take the memory of what was there. */
static void adamw(struct graph *graph, struct value *const *x)
{
    const struct node *node =
        build_adamw(graph, x[0], x[1], x[2], x[3], x[4], x[5], x[6]);
    graph_add_output(graph, "p", node->outputs[0], x[0]);
    graph_add_output(graph, "m", node->outputs[1], x[2]);
    graph_add_output(graph, "v", node->outputs[2], x[3]);
}

/* The same with p, m and v in bf16, rounded by chance. */
static void adamw_stochastic(struct graph *graph, struct value *const *x)
{
    const struct node *node = build_adamw_stochastic(graph, x[0], x[1], x[2], x[3],
                                                     x[4], x[5], x[6], x[7], x[8]);
    graph_add_output(graph, "p", node->outputs[0], x[0]);
    graph_add_output(graph, "m", node->outputs[1], x[2]);
    graph_add_output(graph, "v", node->outputs[2], x[3]);
}

// clang-format off
#define FLOAT(low, high, rank, ...) {SELFTEST_FLOAT, low, high, rank, {__VA_ARGS__}}
#define FIXED(low, high, rank, ...) {SELFTEST_FIXED, low, high, rank, {__VA_ARGS__}}
#define BF16(low, high, rank, ...)  {SELFTEST_BF16, low, high, rank, {__VA_ARGS__}}
#define I32(low, high, rank, ...)   {SELFTEST_INTEGER, low, high, rank, {__VA_ARGS__}}
#define SCALAR(kind, low, high)     {kind, low, high, 0, {0}}

const struct selftest_case selftest_cases[] = {
    {"matmul", linear, 1e-5, true, {FLOAT(-1, 1, 2, 67, 193), FLOAT(-1, 1, 2, 131, 193)}},
    {"matmul bf16", linear_bf16, 1e-5, false, {BF16(-1, 1, 2, 67, 193), BF16(-1, 1, 2, 131, 193)}},
    {"rms_norm", rms_norm, 1e-5, true, {FLOAT(-2, 2, 2, 37, 643), FLOAT(-0.5, 0.5, 1, 643)}},
    {"rope", rope, 1e-5, true, {FLOAT(-2, 2, 4, 2, 9, 3, 38), I32(0, 4000, 2, 2, 9)}},
    {"gelu_tanh", gelu_tanh, 1e-5, true, {FLOAT(-5, 5, 2, 12, 137)}},
    {"geglu", geglu, 1e-5, true, {FLOAT(-5, 5, 2, 12, 137), FLOAT(-2, 2, 2, 12, 137)}},
    {"silu", silu, 1e-5, true, {FLOAT(-9, 9, 2, 12, 137)}},
    {"softcap", softcap, 1e-5, true, {FLOAT(-90, 90, 2, 12, 137)}},
    {"embed", embed, 1e-5, true, {FLOAT(-2, 2, 2, 50, 67), I32(0, 49, 1, 80)}},
    {"attention", attention, 1e-5, true,
     {FLOAT(-1, 1, 4, 2, 131, 4, 33), FLOAT(-1, 1, 4, 2, 131, 1, 33),
      FLOAT(-1, 1, 4, 2, 131, 1, 33), {SELFTEST_FIRST_KEY, 0, 0, 2, {2, 131}}}},
    {"attention_cached", attention_cached, 1e-5, false,
     {FIXED(-1, 1, 4, 2, 3, 4, 33), FIXED(-1, 1, 4, 2, 150, 1, 33),
      FIXED(-1, 1, 4, 2, 150, 1, 33), I32(50, 149, 2, 2, 3), I32(-1, 149, 2, 2, 150)}},
    {"loss_head", loss_head, 1e-5, false,
     {FIXED(-1, 1, 2, 41, 67), FIXED(-1, 1, 2, 311, 67), {SELFTEST_ROWS, 0, 0, 1, {41}},
      I32(0, 310, 1, 41), FIXED(0.3, 1, 1, 41)}},
    {"sum_squares", sum_squares, 1e-5, false, {FIXED(-2, 2, 1, 40001)}},
    {"adamw", adamw, 1e-5, false,
     {FIXED(-2, 2, 1, 1027), FIXED(-2, 2, 1, 1027), FIXED(-1, 1, 1, 1027),
      FIXED(0.01, 1, 1, 1027), FIXED(0.05, 0.9, 1, 7), SCALAR(SELFTEST_FIXED, 0.2, 0.4),
      SCALAR(SELFTEST_TRUE, 1, 1)}},

    {"matmul bf16 weight", linear_bf16, 1e-5, false,
     {FIXED(-1, 1, 2, 67, 193), BF16(-1, 1, 2, 131, 193)}},
    {"matmul one row", linear_bf16, 1e-5, false, {FIXED(-1, 1, 2, 1, 193), BF16(-1, 1, 2, 131, 193)}},
    {"rms_norm bf16", rms_norm, 1e-2, false, {BF16(-2, 2, 2, 37, 643), BF16(-0.5, 0.5, 1, 643)}},
    {"rope bf16", rope, 1e-2, false, {BF16(-2, 2, 4, 2, 9, 3, 38), I32(0, 4000, 2, 2, 9)}},
    {"geglu bf16", geglu, 1e-2, false, {BF16(-5, 5, 2, 12, 137), BF16(-2, 2, 2, 12, 137)}},
    {"embed bf16", embed, 1e-2, false, {BF16(-2, 2, 2, 50, 67), I32(0, 49, 1, 80)}},
    {"attention bf16", attention, 2e-2, false,
     {BF16(-1, 1, 4, 2, 131, 4, 33), BF16(-1, 1, 4, 2, 131, 1, 33),
      BF16(-1, 1, 4, 2, 131, 1, 33), {SELFTEST_FIRST_KEY, 0, 0, 2, {2, 131}}}},
    {"loss_head bf16", loss_head, 2e-2, false,
     {BF16(-1, 1, 2, 41, 67), BF16(-1, 1, 2, 311, 67), {SELFTEST_ROWS, 0, 0, 1, {41}},
      I32(0, 310, 1, 41), FIXED(0.3, 1, 1, 41)}},
    {"adamw bf16", adamw, 1e-2, false,
     {BF16(-2, 2, 1, 1027), FIXED(-2, 2, 1, 1027), BF16(-1, 1, 1, 1027), BF16(0.01, 1, 1, 1027),
      FIXED(0.05, 0.9, 1, 7), SCALAR(SELFTEST_FIXED, 0.2, 0.4), SCALAR(SELFTEST_TRUE, 1, 1)}},
    {"adamw by chance", adamw_stochastic, 1e-2, false,
     {BF16(-2, 2, 1, 1027), FIXED(-2, 2, 1, 1027), BF16(-1, 1, 1, 1027), BF16(0.01, 1, 1, 1027),
      FIXED(0.05, 0.9, 1, 7), SCALAR(SELFTEST_FIXED, 0.2, 0.4), SCALAR(SELFTEST_TRUE, 1, 1),
      SCALAR(SELFTEST_WORD, 7, 7), SCALAR(SELFTEST_WORD, 3, 3)}},
};
// clang-format on
const int selftest_cases_count = (int)ARRAY_LENGTH(selftest_cases);
