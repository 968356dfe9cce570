/*
 * The sampler against a plain reference distribution, by counts, and at its edges.
 */
#include "train/sampler.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/random.h"

enum { V = 50, DRAWS = 5000 };

#define CHECK(call)                      \
    do {                                 \
        if (!(call)) {                   \
            fail_msg("%s", err.message); \
        }                                \
    } while (0)

/* ---- the reference: sort everything, in the plainest way ---- */

struct token {
    double p;
    int id;
};

static int by_probability(const void *a, const void *b)
{
    const struct token *x = a, *y = b;
    return x->p != y->p ? (x->p > y->p ? -1 : 1) : x->id - y->id;
}

/* p[V]: temperature, then top k, then top p, each renormalised. */
static void reference(const float *logits, const struct sampler_options *options,
                      double *p)
{
    struct token tokens[V];
    double largest = (double)-INFINITY, total = 0.0;
    for (int i = 0; i < V; i++) {
        largest = fmax(largest, (double)logits[i]);
    }
    for (int i = 0; i < V; i++) {
        tokens[i].id = i;
        tokens[i].p = exp(((double)logits[i] - largest) / options->temperature);
        total += tokens[i].p;
    }
    qsort(tokens, V, sizeof(tokens[0]), by_probability);
    int n = options->top_k > 0 && options->top_k < V ? (int)options->top_k : V;
    total = 0.0;
    for (int i = 0; i < n; i++) {
        total += tokens[i].p;
    }
    if (options->top_p > 0.0 && options->top_p < 1.0) {
        double sum = 0.0;
        int kept = 0;
        while (kept < n && (kept == 0 || sum < options->top_p * total)) {
            sum += tokens[kept++].p;
        }
        n = kept;
        total = sum;
    }
    for (int i = 0; i < V; i++) {
        p[tokens[i].id] = i < n ? tokens[i].p / total : 0.0;
    }
}

static void fill_logits(float *logits, double deviation)
{
    for (int i = 0; i < V; i++) {
        logits[i] = (float)deviation * random_normal(7, RANDOM_TEST, 3, (uint64_t)i);
    }
}

/*
 * Chi-square over the tokens whose expected count is at least 5, the others as one. With f
 * degrees of freedom it has mean f and variance 2 f; beyond f + 5 sqrt(2 f) + 10 it comes
 * by chance less than once in a hundred thousand, and the seed is fixed.
 */
static void check_counts(const float *logits, const struct sampler_options *options)
{
    struct sampler *sampler = sampler_create(V);
    double p[V];
    int64_t counts[V] = {0};
    struct error err;
    reference(logits, options, p);
    for (int64_t i = 0; i < DRAWS; i++) {
        int32_t token;
        CHECK(sampler_pick(sampler, options, logits, 0, i, &token, &err));
        assert_in_range(token, 0, V - 1);
        counts[token]++;
    }
    double chi = 0.0, rest = 0.0, rest_expected = 0.0;
    int freedom = -1;
    for (int i = 0; i < V; i++) {
        const double expected = p[i] * DRAWS;
        if (expected == 0.0) {
            assert_int_equal(counts[i], 0);
        } else if (expected < 5.0) {
            rest += (double)counts[i];
            rest_expected += expected;
        } else {
            const double difference = (double)counts[i] - expected;
            chi += difference * difference / expected;
            freedom++;
        }
    }
    if (rest_expected > 0.0) {
        chi += (rest - rest_expected) * (rest - rest_expected) / rest_expected;
        freedom++;
    }
    const double bound = freedom + 5.0 * sqrt(2.0 * freedom) + 10.0;
    if (!(chi < bound)) {
        fail_msg("temperature %g, top k %d, top p %g: chi-square %g, bound %g",
                 options->temperature, (int)options->top_k, options->top_p, chi, bound);
    }
    sampler_destroy(sampler);
}

static void counts_follow_the_reference(void **state)
{
    (void)state;
    static const struct sampler_options options[] = {
        {.temperature = 1.0, .seed = 1},
        {.temperature = 0.5, .seed = 2},
        {.temperature = 2.5, .seed = 3},
        {.temperature = 1.0, .top_k = 7, .seed = 4},
        {.temperature = 1.0, .top_p = 0.6, .seed = 5},
        {.temperature = 1.3, .top_k = 20, .top_p = 0.8, .seed = 6},
        {.temperature = 1.0, .top_k = 1000, .top_p = 1.0, .seed = 7},
        {.temperature = 0.8, .top_k = 64, .top_p = 0.95, .seed = UINT64_MAX},
    };
    const double deviations[] = {0.5, 2.0, 30.0}; /* flat, usual, one far ahead */
    for (size_t d = 0; d < ARRAY_LENGTH(deviations); d++) {
        float logits[V];
        fill_logits(logits, deviations[d]);
        for (size_t i = 0; i < ARRAY_LENGTH(options); i++) {
            check_counts(logits, &options[i]);
        }
    }
}

/* Ties at the cut: of equal logits the lower ids stay. */
static void equal_logits_are_cut_by_id(void **state)
{
    (void)state;
    float logits[V];
    for (int i = 0; i < V; i++) {
        logits[i] = 1.5F;
    }
    check_counts(logits, &(struct sampler_options){.temperature = 1.0, .seed = 1});
    check_counts(logits,
                 &(struct sampler_options){.temperature = 1.0, .top_k = 5, .seed = 1});
    check_counts(logits, &(struct sampler_options){
                             .temperature = 1.0, .top_p = 0.25, .seed = 1});
}

static int32_t pick(const float *logits, struct sampler_options options, int64_t number)
{
    struct sampler *sampler = sampler_create(V);
    struct error err;
    int32_t token = -1;
    CHECK(sampler_pick(sampler, &options, logits, 0, number, &token, &err));
    sampler_destroy(sampler);
    return token;
}

/* Temperature 0, one candidate, or a share that the first fills: always the likeliest,
 * the first of equals. */
static void the_likeliest_comes_first(void **state)
{
    (void)state;
    float logits[V];
    fill_logits(logits, 1.0);
    logits[31] = logits[12] = 9.0F;
    for (int64_t i = 0; i < 200; i++) {
        assert_int_equal(pick(logits, (struct sampler_options){0}, i), 12);
        assert_int_equal(
            pick(logits, (struct sampler_options){.temperature = 5.0, .top_k = 1}, i),
            12);
        assert_int_equal(
            pick(logits, (struct sampler_options){.temperature = 5.0, .top_p = 1e-12},
                 i),
            12);
        /* So cold that nothing else is left beside the two. */
        const int32_t cold =
            pick(logits, (struct sampler_options){.temperature = 1e-300}, i);
        assert_true(cold == 12 || cold == 31);
    }
}

/* Tokens at -infinity are never drawn; what is no distribution is refused. */
static void broken_logits_are_refused(void **state)
{
    (void)state;
    struct sampler *sampler = sampler_create(V);
    const struct sampler_options options = {.temperature = 1.0};
    float logits[V];
    struct error err;
    int32_t token;
    for (int i = 0; i < V; i++) {
        logits[i] = i == 17 || i == 40 ? 0.0F : -INFINITY;
    }
    for (int64_t i = 0; i < 100; i++) {
        CHECK(sampler_pick(sampler, &options, logits, 0, i, &token, &err));
        assert_true(token == 17 || token == 40);
    }
    const float broken[] = {NAN, INFINITY};
    for (size_t b = 0; b < ARRAY_LENGTH(broken); b++) {
        logits[49] = broken[b];
        assert_false(sampler_pick(sampler, &options, logits, 0, 0, &token, &err));
        assert_non_null(strstr(err.message, "not finite"));
        assert_false(sampler_pick(sampler, &(struct sampler_options){0}, logits, 0, 0,
                                  &token, &err));
    }
    for (int i = 0; i < V; i++) {
        logits[i] = -INFINITY;
    }
    assert_false(sampler_pick(sampler, &options, logits, 0, 0, &token, &err));
    sampler_destroy(sampler);
}

/* A function of seed, row and number: the same again, another for another. */
static void draws_depend_on_their_place_alone(void **state)
{
    (void)state;
    float logits[V];
    fill_logits(logits, 0.1);
    const struct sampler_options options = {.temperature = 1.0, .seed = 9};
    struct sampler *sampler = sampler_create(V);
    struct error err;
    int n_same_row = 0, n_same_seed = 0;
    for (int64_t i = 0; i < 500; i++) {
        int32_t a, b;
        const struct sampler_options other = {.temperature = 1.0, .seed = 10};
        CHECK(sampler_pick(sampler, &options, logits, 3, i, &a, &err));
        CHECK(sampler_pick(sampler, &options, logits, 3, i, &b, &err));
        assert_int_equal(a, b);
        CHECK(sampler_pick(sampler, &options, logits, 4, i, &b, &err));
        n_same_row += a == b;
        CHECK(sampler_pick(sampler, &other, logits, 3, i, &b, &err));
        n_same_seed += a == b;
    }
    /* By chance one in fifty: 10 of 500, with deviation 3. */
    assert_in_range(n_same_row, 0, 30);
    assert_in_range(n_same_seed, 0, 30);
    sampler_destroy(sampler);
}

static void options_are_checked(void **state)
{
    (void)state;
    static const struct {
        struct sampler_options options;
        const char *message;
    } cases[] = {
        {{.temperature = -1.0}, "temperature"},
        {{.temperature = (double)NAN}, "temperature"},
        {{.temperature = 101.0}, "temperature"},
        {{.top_k = -1}, "top-k"},
        {{.top_p = 1.5}, "top-p"},
        {{.top_p = -0.1}, "top-p"},
        {{.top_p = (double)NAN}, "top-p"},
    };
    struct error err;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        assert_false(sampler_check(&cases[i].options, &err));
        assert_non_null(strstr(err.message, cases[i].message));
    }
    assert_true(sampler_check(&(struct sampler_options){0}, &err));
    assert_true(sampler_check(
        &(struct sampler_options){.temperature = 1.0, .top_k = 64, .top_p = 0.95},
        &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_follow_the_reference),
        cmocka_unit_test(equal_logits_are_cut_by_id),
        cmocka_unit_test(the_likeliest_comes_first),
        cmocka_unit_test(broken_logits_are_refused),
        cmocka_unit_test(draws_depend_on_their_place_alone),
        cmocka_unit_test(options_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
