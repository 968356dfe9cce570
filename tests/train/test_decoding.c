/*
 * A model that reads through its caches says what a forward pass over the whole text says:
 * golden models of both families, prompts longer than the window, in one pass or several,
 * rows of different lengths side by side, ring buffers that wrap, texts taken back (C9).
 */
#include "train/decoding.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/mem.h"
#include "graph/rewrite.h"
#include "model/gemma.h"
#include "model/params.h"
#include "support/golden.h"

#define CHECK(call)                      \
    do {                                 \
        if (!(call)) {                   \
            fail_msg("%s", err.message); \
        }                                \
    } while (0)

/* The first two differ most. */
static const char *const models[] = {"gemma3-tiny", "gemma4-e2b-tiny",
                                     "gemma4-e4b-tiny", "gemma4-31b-tiny"};

/* Logits of sums of some hundred products, in other orders. */
static const double logits_bound = 1e-4;

/* ---- the whole text at once ---- */

static struct buffer *whole_argument(const struct model_source *source,
                                     const struct decoding_source *from,
                                     struct engine *engine,
                                     const struct value *argument, const int32_t *ids,
                                     int32_t n)
{
    struct error err;
    const char *name = argument->node->name;
    struct buffer *buffer = backend_buffer_create(engine, &argument->type, name, &err);
    assert_non_null(buffer);
    void *host = backend_buffer_host(buffer, 0);
    if (argument->node->op == OP_PARAMETER) {
        const int param = params_find(source->params, name);
        CHECK(from->read(from->context, param, 0, source->params->info[param].dim[0],
                         host, &err));
    } else if (strcmp(name, "ids") == 0) {
        memcpy(host, ids, (size_t)n * sizeof(int32_t));
    } else if (strcmp(name, "position") == 0) {
        for (int32_t i = 0; i < n; i++) {
            ((int32_t *)host)[i] = i;
        }
    } else {
        assert_string_equal(name, "first_key"); /* zeros: one document */
    }
    return buffer;
}

/* [n, V] by training's forward graph with the parameters of `from`; freed by mem_free. */
static float *logits_of(const struct model_source *source,
                        const struct decoding_source *from, struct engine *engine,
                        const int32_t *ids, int32_t n)
{
    const struct mesh mesh = mesh_single();
    bool *is_trainable = mem_alloc_array((size_t)source->params->n, sizeof(bool));
    struct graph *graph = graph_create(&mesh);
    const struct gemma_inputs inputs =
        gemma_build_inputs(graph, &source->config, 1, n, false);
    const struct gemma_options options = {.compute = DTYPE_F32,
                                          .is_trainable = is_trainable};
    const struct gemma_forward forward =
        gemma_build_forward(graph, &source->config, source->params, &inputs, &options);
    graph_add_output(graph, "logits",
                     gemma_build_logits(graph, &source->config, &forward), NULL);
    struct graph *expanded = rewrite_expand(graph);
    graph_destroy(graph);
    struct error err;
    struct program *program = backend_compile(engine, expanded, &err);
    assert_non_null(program);
    const struct graph *compiled = backend_program_graph(program);
    struct buffer *arguments[1024];
    assert_true((size_t)compiled->n_arguments <= ARRAY_LENGTH(arguments));
    for (int i = 0; i < compiled->n_arguments; i++) {
        arguments[i] =
            whole_argument(source, from, engine, compiled->arguments[i], ids, n);
    }
    struct buffer *output = backend_buffer_create(
        engine, &compiled->outputs[0].value->type, "logits", &err);
    CHECK(backend_execute(program, arguments, &output, &err));
    float *logits =
        mem_alloc_array((size_t)n * (size_t)source->config.V, sizeof(float));
    CHECK(backend_fetch(output, 0, logits, &err));
    for (int i = 0; i < compiled->n_arguments; i++) {
        backend_buffer_destroy(arguments[i]);
    }
    backend_buffer_destroy(output);
    backend_program_destroy(program);
    mem_free(is_trainable);
    return logits;
}

static struct decoding_source file_source(const struct model_source *source)
{
    return (struct decoding_source){.read = model_source_read,
                                    .context = (void *)(uintptr_t)source};
}

/* With the weights as they are in the file. */
static float *whole_logits(const struct model_source *source, struct engine *engine,
                           const int32_t *ids, int32_t n)
{
    const struct decoding_source from = file_source(source);
    return logits_of(source, &from, engine, ids, n);
}

/* ---- the same piece by piece ---- */

static struct decoding *make_decoding_from(const struct model_source *source,
                                           const struct decoding_source *from,
                                           struct engine *engine, int32_t rows,
                                           int32_t context)
{
    const struct decoding_options options = {.config = &source->config,
                                             .params = source->params,
                                             .rows = rows,
                                             .context = context};
    struct error err;
    struct decoding *decoding = decoding_create(engine, &options, from, &err);
    if (decoding == NULL) {
        fail_msg("%s", err.message);
    }
    return decoding;
}

static struct decoding *make_decoding(const struct model_source *source,
                                      struct engine *engine, int32_t rows,
                                      int32_t context)
{
    const struct decoding_source from = file_source(source);
    return make_decoding_from(source, &from, engine, rows, context);
}

/* A made-up text. */
static void fill_ids(int32_t *ids, int32_t n, int64_t V, uint32_t stream)
{
    uint32_t x = 12345u + stream * 77u;
    for (int32_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        ids[i] = (int32_t)(4 + (x >> 8) % (uint32_t)(V - 4));
    }
}

static void check_logits(const struct decoding *decoding, int32_t row,
                         const float *whole, int64_t V, const char *model)
{
    const int32_t last = decoding_n_tokens(decoding, row) - 1;
    const float *ours = decoding_logits(decoding, row);
    for (int64_t i = 0; i < V; i++) {
        const double difference = fabs((double)ours[i] - (double)whole[last * V + i]);
        if (!(difference <= logits_bound)) {
            fail_msg("%s: logit %d after %d tokens is %g, of the whole text %g", model,
                     (int)i, (int)last + 1, (double)ours[i],
                     (double)whole[last * V + i]);
        }
    }
}

static int32_t largest(const float *logits, int64_t V)
{
    int32_t best = 0;
    for (int32_t i = 1; i < V; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

/* Greedy decoding after a prompt; every token is the likeliest after the whole text
 * before it. The context is longer than the ring buffers, which wrap. */
static void greedy_is_repeated_forward_passes(void **state)
{
    (void)state;
    enum { PROMPT = 150, LENGTH = 240 };
    for (size_t m = 0; m < ARRAY_LENGTH(models); m++) {
        struct golden *golden = golden_open(models[m]);
        struct engine *engine = golden_engine(2);
        const struct model_source *source = golden_source(golden);
        const int64_t V = source->config.V;
        assert_true(source->config.window < PROMPT / 4);
        struct decoding *decoding = make_decoding(source, engine, 1, LENGTH);
        int32_t ids[LENGTH];
        fill_ids(ids, PROMPT, V, (uint32_t)m);
        const int32_t *prompt = ids;
        int32_t n = PROMPT;
        struct error err;
        CHECK(decoding_feed(decoding, &prompt, &n, &err));
        const int32_t one = 1;
        while (n < LENGTH) {
            ids[n] = largest(decoding_logits(decoding, 0), V);
            const int32_t *next = &ids[n++];
            CHECK(decoding_feed(decoding, &next, &one, &err));
        }
        assert_int_equal(decoding_n_tokens(decoding, 0), LENGTH);
        float *whole = whole_logits(source, engine, ids, LENGTH);
        for (int32_t i = PROMPT; i < LENGTH; i++) {
            assert_int_equal(ids[i], largest(whole + (i - 1) * V, V));
        }
        check_logits(decoding, 0, whole, V, models[m]);
        mem_free(whole);
        decoding_destroy(decoding);
        backend_destroy(engine);
        golden_close(golden);
    }
}

/* However a text is cut into pieces: passes of 128, 16 and 1, with and without padding. */
static void pieces_do_not_matter(void **state)
{
    (void)state;
    enum { LENGTH = 180 };
    static const int32_t pieces[][6] = {{180},     {1, 2, 3, 4, 5, 165}, {17, 163},
                                        {129, 51}, {16, 128, 36},        {90, 90}};
    for (size_t m = 0; m < ARRAY_LENGTH(models); m++) {
        struct golden *golden = golden_open(models[m]);
        struct engine *engine = golden_engine(2);
        const struct model_source *source = golden_source(golden);
        int32_t ids[LENGTH];
        fill_ids(ids, LENGTH, source->config.V, 9);
        float *whole = whole_logits(source, engine, ids, LENGTH);
        struct decoding *decoding = make_decoding(source, engine, 1, 192);
        struct error err;
        for (size_t p = 0; p < ARRAY_LENGTH(pieces); p++) {
            int32_t done = 0;
            for (size_t i = 0; i < ARRAY_LENGTH(pieces[p]) && pieces[p][i] > 0; i++) {
                const int32_t *next = ids + done;
                CHECK(decoding_feed(decoding, &next, &pieces[p][i], &err));
                done += pieces[p][i];
                check_logits(decoding, 0, whole, source->config.V, models[m]);
            }
            assert_int_equal(done, LENGTH);
            assert_true(decoding_rewind(decoding, 0, 0));
        }
        mem_free(whole);
        decoding_destroy(decoding);
        backend_destroy(engine);
        golden_close(golden);
    }
}

/* Rows of 5, 40 and 150 tokens: prompts together, then one token each, one row resting
 * now and then. */
static void rows_do_not_see_each_other(void **state)
{
    (void)state;
    enum { ROWS = 3, LENGTH = 176 };
    static const int32_t lengths[ROWS] = {5, 150, 40};
    for (size_t m = 0; m < ARRAY_LENGTH(models); m++) {
        struct golden *golden = golden_open(models[m]);
        struct engine *engine = golden_engine(2);
        const struct model_source *source = golden_source(golden);
        struct decoding *decoding = make_decoding(source, engine, ROWS, LENGTH);
        int32_t ids[ROWS][LENGTH];
        float *whole[ROWS];
        const int32_t *next[ROWS];
        int32_t n[ROWS];
        struct error err;
        for (int32_t b = 0; b < ROWS; b++) {
            fill_ids(ids[b], LENGTH, source->config.V, 20u + (uint32_t)b);
            whole[b] = whole_logits(source, engine, ids[b], LENGTH);
            next[b] = ids[b];
            n[b] = lengths[b];
        }
        CHECK(decoding_feed(decoding, next, n, &err));
        for (int step = 0; step < 20; step++) {
            for (int32_t b = 0; b < ROWS; b++) {
                check_logits(decoding, b, whole[b], source->config.V, models[m]);
                n[b] = (step + b) % 4 != 3;
                next[b] = ids[b] + decoding_n_tokens(decoding, b);
            }
            CHECK(decoding_feed(decoding, next, n, &err));
        }
        for (int32_t b = 0; b < ROWS; b++) {
            assert_int_equal(decoding_n_tokens(decoding, b), lengths[b] + 15);
            mem_free(whole[b]);
        }
        decoding_destroy(decoding);
        backend_destroy(engine);
        golden_close(golden);
    }
}

/* Taken back to token n and fed something else: as if it had never been read. Too far
 * back, and the window before n has been overwritten. */
static void a_text_can_be_taken_back(void **state)
{
    (void)state;
    enum { LENGTH = 300 };
    for (size_t m = 0; m < 2; m++) {
        struct golden *golden = golden_open(models[m]);
        struct engine *engine = golden_engine(2);
        const struct model_source *source = golden_source(golden);
        struct decoding *decoding = make_decoding(source, engine, 1, LENGTH);
        int32_t ids[LENGTH], other[LENGTH];
        fill_ids(ids, LENGTH, source->config.V, 30);
        fill_ids(other, LENGTH, source->config.V, 31);
        const int32_t *next = ids;
        int32_t n = LENGTH;
        struct error err;
        CHECK(decoding_feed(decoding, &next, &n, &err));
        assert_false(decoding_rewind(decoding, 0, 100));
        assert_int_equal(decoding_n_tokens(decoding, 0), LENGTH);
        assert_true(decoding_rewind(decoding, 0, 280));
        memcpy(ids + 280, other, 20 * sizeof(int32_t));
        next = other;
        n = 20;
        CHECK(decoding_feed(decoding, &next, &n, &err));
        float *whole = whole_logits(source, engine, ids, LENGTH);
        check_logits(decoding, 0, whole, source->config.V, models[m]);
        mem_free(whole);
        decoding_destroy(decoding);
        backend_destroy(engine);
        golden_close(golden);
    }
}

/* step_read_param, counted. */
static int n_reads;
static bool counted_read(void *step, int param, int64_t first_row, int64_t n_rows,
                         float *target, struct error *err)
{
    n_reads++;
    return step_read_param(step, param, first_row, n_rows, target, err);
}

/* A step's own parameters, while it trains them: nothing is copied, adapters apply, and
 * what has changed shows after a reset. */
static void live_parameters_are_read_where_they_are(void **state)
{
    (void)state;
    enum { LENGTH = 60 };
    static const char *const trained[] = {"gemma3-tiny", "gemma4-e2b-tiny-frozen-ple",
                                          "gemma4-e2b-tiny-lora"};
    for (size_t m = 0; m < ARRAY_LENGTH(trained); m++) {
        struct golden *golden = golden_open(trained[m]);
        struct engine *engine = golden_engine(2);
        const struct model_source *source = golden_source(golden);
        const int32_t rows = golden_B(golden);
        struct step *step =
            golden_step(golden, engine, rows, rows * golden_T(golden), false);
        const struct decoding_source live = {
            .buffer = step_param_buffer, .read = counted_read, .context = step};
        n_reads = 0;
        struct decoding *decoding =
            make_decoding_from(source, &live, engine, 1, LENGTH);
        assert_int_equal(n_reads, 0); /* it has no copies of its own */
        int32_t ids[LENGTH];
        fill_ids(ids, LENGTH, source->config.V, 50);
        const int32_t *next = ids;
        const int32_t n = LENGTH;
        struct error err;
        for (int round = 0; round < 2; round++) {
            CHECK(decoding_feed(decoding, &next, &n, &err));
            float *whole = logits_of(source, &live, engine, ids, LENGTH);
            check_logits(decoding, 0, whole, source->config.V, trained[m]);
            mem_free(whole);
            double loss_sum;
            struct step_hyper hyper = {.lr = 0.05,
                                       .beta1 = 0.9,
                                       .beta2 = 0.999,
                                       .eps = 1e-8,
                                       .weight_sum =
                                           golden_batch(golden, 0)->weight_sum};
            struct step_result result;
            CHECK(step_accumulate(step, golden_batch(golden, 0), &loss_sum, &err));
            hyper.loss_sum = loss_sum;
            CHECK(step_update(step, &hyper, &result, &err));
            decoding_reset(decoding);
        }
        decoding_destroy(decoding);
        step_destroy(step);
        backend_destroy(engine);
        golden_close(golden);
    }
}

/* Matrices in bf16, some of them: as where an adapter is merged into a few weights of a
 * bf16 file. */
struct mixed {
    const struct model_source *source;
    uint16_t *narrow[512]; /* by parameter; NULL: f32 */
};

/* All values are such that bf16 has them. */
static bool read_rounded(void *context, int param, int64_t first_row, int64_t n_rows,
                         float *target, struct error *err)
{
    const struct mixed *mixed = context;
    const struct model_source *source = mixed->source;
    if (!weights_read(source->weights, param, first_row, n_rows, target, err)) {
        return false;
    }
    for (int64_t i = 0; i < n_rows * source->params->info[param].dim[1]; i++) {
        target[i] = dtype_f32_from_bf16(dtype_bf16_from_f32(target[i]));
    }
    return true;
}

static const void *view_mixed(void *context, int param, enum dtype *dtype)
{
    const struct mixed *mixed = context;
    *dtype = DTYPE_BF16;
    return mixed->narrow[param];
}

static void fill_mixed(struct mixed *mixed)
{
    const struct params *params = mixed->source->params;
    struct error err;
    assert_true((size_t)params->n <= ARRAY_LENGTH(mixed->narrow));
    for (int i = 0; i < params->n; i++) {
        const struct param_info *info = &params->info[i];
        if (info->layer % 3 == 1) {
            continue;
        }
        float *rows = mem_alloc_array((size_t)info->n_elements, sizeof(float));
        mixed->narrow[i] = mem_alloc_array((size_t)info->n_elements, sizeof(uint16_t));
        CHECK(read_rounded(mixed, i, 0, info->dim[0], rows, &err));
        dtype_from_f32(DTYPE_BF16, rows, mixed->narrow[i], (size_t)info->n_elements);
        mem_free(rows);
    }
}

static void bf16_weights_are_read_as_they_are(void **state)
{
    (void)state;
    enum { LENGTH = 150 };
    for (size_t m = 0; m < 2; m++) {
        struct golden *golden = golden_open(models[m]);
        struct engine *engine = golden_engine(2);
        struct mixed mixed = {.source = golden_source(golden)};
        fill_mixed(&mixed);
        const struct decoding_source from = {
            .view = view_mixed, .read = read_rounded, .context = &mixed};
        struct decoding *decoding =
            make_decoding_from(mixed.source, &from, engine, 1, LENGTH);
        int32_t ids[LENGTH];
        fill_ids(ids, LENGTH, mixed.source->config.V, 60);
        const int32_t *next = ids;
        const int32_t n = LENGTH;
        struct error err;
        CHECK(decoding_feed(decoding, &next, &n, &err));
        float *whole = logits_of(mixed.source, &from, engine, ids, LENGTH);
        check_logits(decoding, 0, whole, mixed.source->config.V, models[m]);
        mem_free(whole);
        decoding_destroy(decoding);
        backend_destroy(engine);
        for (int i = 0; i < mixed.source->params->n; i++) {
            mem_free(mixed.narrow[i]);
        }
        golden_close(golden);
    }
}

/* What does not fit, and ids of another tokenizer: one line each, and nothing changes. */
static void wrong_tokens_are_refused(void **state)
{
    (void)state;
    struct golden *golden = golden_open("gemma3-tiny");
    struct engine *engine = golden_engine(1);
    const struct model_source *source = golden_source(golden);
    struct decoding *decoding = make_decoding(source, engine, 1, 20);
    int32_t ids[30];
    fill_ids(ids, 30, source->config.V, 1);
    const int32_t *next = ids;
    int32_t n = 12;
    struct error err;
    CHECK(decoding_feed(decoding, &next, &n, &err));
    assert_false(decoding_feed(decoding, &next, &n, &err));
    assert_non_null(strstr(err.message, "24 tokens"));
    ids[1] = (int32_t)source->config.V;
    n = 2;
    assert_false(decoding_feed(decoding, &next, &n, &err));
    assert_non_null(strstr(err.message, "vocabulary"));
    assert_int_equal(decoding_n_tokens(decoding, 0), 12);
    decoding_destroy(decoding);
    backend_destroy(engine);
    golden_close(golden);
}

/* One cache for each layer that makes K and V, rings no longer than they must be. */
static void caches_are_as_small_as_they_can_be(void **state)
{
    (void)state;
    struct golden *golden = golden_open("gemma4-e2b-tiny");
    struct engine *engine = golden_engine(1);
    const struct model_source *source = golden_source(golden);
    const struct model_config *config = &source->config;
    struct decoding *decoding = make_decoding(source, engine, 2, 1024);
    int64_t expected = 0;
    for (int i = 0; i < config->L; i++) {
        const struct layer_config *facts = &config->layer[i];
        const int64_t slots =
            facts->is_sliding ? base_round_up(config->window + 511, 16) : 1024;
        expected += facts->kv_source == i ? 2 * 2 * slots * facts->G * facts->K : 0;
    }
    assert_int_equal(decoding_cache_bytes(decoding), (size_t)expected * sizeof(float));
    decoding_destroy(decoding);
    backend_destroy(engine);
    golden_close(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_is_repeated_forward_passes),
        cmocka_unit_test(pieces_do_not_matter),
        cmocka_unit_test(rows_do_not_see_each_other),
        cmocka_unit_test(a_text_can_be_taken_back),
        cmocka_unit_test(live_parameters_are_read_where_they_are),
        cmocka_unit_test(bf16_weights_are_read_as_they_are),
        cmocka_unit_test(wrong_tokens_are_refused),
        cmocka_unit_test(caches_are_as_small_as_they_can_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
