/*
 * Attention over a cache against softmax written down in f64: slots in any order, empty
 * ones, windows, padding, many slots for one token, groups of heads (C9).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/kernel_harness.h"

extern const struct kernel kernel_attention_cached;

struct sizes {
    int64_t B, T, H, G, K, S, window;
};

static bool is_visible(int32_t position, int32_t key, int64_t window)
{
    return key >= 0 && key <= position && (window == 0 || position - key < window);
}

/* One query row of head h. */
static void reference_row(const struct sizes *s, const float *q, const float *k,
                          const float *v, int32_t position, const int32_t *keys,
                          int64_t h, double scale, double *out)
{
    const int64_t g = h / (s->H / s->G);
    double largest = (double)-INFINITY, sum = 0.0;
    double *score = mem_alloc_array((size_t)s->S, sizeof(*score));
    for (int64_t j = 0; j < s->S; j++) {
        score[j] = 0.0;
        for (int64_t d = 0; d < s->K; d++) {
            score[j] += (double)q[d] * (double)k[(j * s->G + g) * s->K + d];
        }
        score[j] *= scale;
        if (is_visible(position, keys[j], s->window)) {
            largest = fmax(largest, score[j]);
        }
    }
    for (int64_t d = 0; d < s->K; d++) {
        out[d] = 0.0;
    }
    for (int64_t j = 0; j < s->S; j++) {
        if (is_visible(position, keys[j], s->window)) {
            const double weight = exp(score[j] - largest);
            sum += weight;
            for (int64_t d = 0; d < s->K; d++) {
                out[d] += weight * (double)v[(j * s->G + g) * s->K + d];
            }
        }
    }
    for (int64_t d = 0; d < s->K && sum > 0.0; d++) {
        out[d] /= sum;
    }
    mem_free(score);
}

/* Slots hold the positions of a ring that has wrapped, with some holes. */
static void fill_positions(const struct sizes *s, int32_t *position, int32_t *keys)
{
    const int32_t last = (int32_t)(s->S + s->S / 3);
    for (int64_t b = 0; b < s->B; b++) {
        for (int64_t t = 0; t < s->T; t++) {
            position[b * s->T + t] = (int32_t)(last - s->T + t - 2 * b);
        }
        for (int64_t j = 0; j < s->S; j++) {
            const int32_t newest = last - (int32_t)((last - j) % s->S);
            keys[b * s->S + j] = j % 7 == 3 ? -1 : newest;
        }
    }
    position[0] = -1; /* padding */
}

static void check_case(const struct sizes *s, const struct native *native)
{
    const double scale = 0.35;
    struct harness *harness = harness_create(&kernel_attention_cached);
    harness_attributes(harness)->value = scale;
    harness_attributes(harness)->window = s->window;
    const int64_t q_dim[] = {s->B, s->T, s->H, s->K};
    const int64_t k_dim[] = {s->B, s->S, s->G, s->K};
    float *q = harness_input(harness, DTYPE_F32, 4, q_dim);
    float *k = harness_input(harness, DTYPE_F32, 4, k_dim);
    float *v = harness_input(harness, DTYPE_F32, 4, k_dim);
    int32_t *position = harness_input(harness, DTYPE_I32, 2, q_dim);
    int32_t *keys = harness_input(harness, DTYPE_I32, 2, k_dim);
    float *out = harness_output(harness, DTYPE_F32, 4, q_dim);
    const int64_t n = s->B * s->T * s->H * s->K;
    harness_fill(q, n, 1, 1.0);
    harness_fill(k, s->B * s->S * s->G * s->K, 2, 1.0);
    harness_fill(v, s->B * s->S * s->G * s->K, 3, 1.0);
    fill_positions(s, position, keys);
    harness_run(harness, native);
    double *expected = mem_alloc_array((size_t)n, sizeof(*expected));
    for (int64_t row = 0; row < s->B * s->T * s->H; row++) {
        const int64_t b = row / s->H / s->T;
        const int64_t first = b * s->S * s->G * s->K;
        reference_row(s, q + row * s->K, k + first, v + first, position[row / s->H],
                      keys + b * s->S, row % s->H, scale, expected + row * s->K);
    }
    harness_check("attention_cached", native, out, expected, n, 3e-6);
    for (int64_t i = 0; i < s->H * s->K; i++) {
        assert_true(out[i] == 0.0F); /* padding sees nothing */
    }
    mem_free(expected);
    harness_destroy(harness);
}

static void cases_agree_with_f64(void **state)
{
    (void)state;
    static const struct sizes cases[] = {
        {1, 3, 2, 1, 4, 5, 0},      /* tiny */
        {2, 1, 4, 1, 16, 40, 0},    /* one token, heads together */
        {2, 1, 6, 2, 8, 2500, 900}, /* one token, three parts of the slots */
        {1, 1, 4, 4, 8, 1100, 0},   /* a key-value head for each */
        {2, 40, 4, 1, 16, 300, 50}, /* a prompt, heads together */
        {2, 150, 4, 2, 8, 300, 0},  /* a prompt, head by head */
        {1, 1, 2, 1, 512, 70, 20},  /* the widest heads, with and without prompt */
        {1, 40, 2, 1, 512, 70, 0},  {1, 70, 3, 3, 5, 130, 30}, /* odd sizes */
    };
    const struct native *sets[3];
    const int n_sets = native_list(sets);
    for (int set = 0; set < n_sets; set++) {
        for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
            check_case(&cases[i], sets[set]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases_agree_with_f64)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
