/*
 * The published Philox vectors, and the streams drawn from it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/random.h"

/* From kat_vectors of the authors' library, Random123. */
static void known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4];
        uint32_t key[2];
        uint32_t out[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        uint32_t out[4];
        random_philox(cases[i].counter, cases[i].key, out);
        for (int j = 0; j < 4; j++) {
            assert_int_equal(out[j], cases[i].out[j]);
        }
    }
}

/* The layout of key and counter is part of every run: it must not change. */
static void streams_are_laid_out_as_the_header_says(void **state)
{
    (void)state;
    const uint64_t seed = 0x299f31d0a4093822;
    const uint64_t step = 0x123413198a2e;
    const uint64_t block = 0x15a308d3243f6a88;
    const uint32_t counter[4] = {0x243f6a88, 0x15a308d3, 0x13198a2e,
                                 0x1234u << 16 | RANDOM_TEST};
    const uint32_t key[2] = {0xa4093822, 0x299f31d0};
    uint32_t expected[4];
    uint32_t words[4];
    random_philox(counter, key, expected);
    random_block(seed, RANDOM_TEST, step, block, words);
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(words[i], expected[i]);
        assert_int_equal(random_bits(seed, RANDOM_TEST, step, 4 * block + i),
                         expected[i]);
    }
}

static void streams_differ(void **state)
{
    (void)state;
    const uint32_t word = random_bits(1, RANDOM_TEST, 0, 0);
    assert_int_not_equal(random_bits(2, RANDOM_TEST, 0, 0), word);
    assert_int_not_equal(random_bits((uint64_t)1 << 32 | 1, RANDOM_TEST, 0, 0), word);
    assert_int_not_equal(random_bits(1, RANDOM_INIT, 0, 0), word);
    assert_int_not_equal(random_bits(1, RANDOM_TEST, 1, 0), word);
    assert_int_not_equal(random_bits(1, RANDOM_TEST, (uint64_t)1 << 32, 0), word);
    assert_int_not_equal(random_bits(1, RANDOM_TEST, 0, (uint64_t)1 << 34), word);
}

static void uniform_fills_its_range(void **state)
{
    (void)state;
    enum { N = 200000, BINS = 16 };
    int counts[BINS] = {0};
    for (uint64_t i = 0; i < N; i++) {
        const float x = random_uniform(5, RANDOM_TEST, 3, i);
        assert_true(x >= 0.0f && x < 1.0f);
        counts[(int)(x * BINS)]++;
    }
    for (int i = 0; i < BINS; i++) {
        /* five deviations of a binomial count */
        const double expected = (double)N / BINS;
        assert_true(fabs(counts[i] - expected) < 5.0 * sqrt(expected));
    }
}

static void normal_has_its_moments(void **state)
{
    (void)state;
    enum { N = 200000 };
    double sums[5] = {0};
    for (uint64_t i = 0; i < N; i++) {
        const double x = (double)random_normal(6, RANDOM_TEST, 0, i);
        assert_true(isfinite(x));
        sums[1] += x;
        sums[2] += x * x;
        sums[3] += x * x * x;
        sums[4] += x * x * x * x;
    }
    /* five deviations of each mean: 1, 2, 15 and 96 are the variances of x to x^4 */
    assert_true(fabs(sums[1] / N) < 5.0 * sqrt(1.0 / N));
    assert_true(fabs(sums[2] / N - 1.0) < 5.0 * sqrt(2.0 / N));
    assert_true(fabs(sums[3] / N) < 5.0 * sqrt(15.0 / N));
    assert_true(fabs(sums[4] / N - 3.0) < 5.0 * sqrt(96.0 / N));
}

static void permutation_holds_each_once(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 2, 3, 1000};
    for (size_t s = 0; s < ARRAY_LENGTH(sizes); s++) {
        const int64_t n = sizes[s];
        int32_t *order = mem_alloc_array((size_t)n, sizeof(*order));
        bool *seen = mem_alloc_array((size_t)n, sizeof(*seen));
        random_permutation(7, RANDOM_SHUFFLE, 1, n, order);
        for (int64_t i = 0; i < n; i++) {
            assert_in_range(order[i], 0, n - 1);
            assert_false(seen[order[i]]);
            seen[order[i]] = true;
        }
        mem_free(seen);
        mem_free(order);
    }
}

/* All six orders of three come up about equally often. */
static void permutation_is_even(void **state)
{
    (void)state;
    enum { N = 60000 };
    int counts[27] = {0};
    for (uint64_t step = 0; step < N; step++) {
        int32_t order[3];
        random_permutation(8, RANDOM_SHUFFLE, step, 3, order);
        counts[order[0] * 9 + order[1] * 3 + order[2]]++;
    }
    int n_orders = 0;
    for (int i = 0; i < 27; i++) {
        if (counts[i] > 0) {
            n_orders++;
            assert_true(abs(counts[i] - N / 6) < 5 * 100);
        }
    }
    assert_int_equal(n_orders, 6);
}

/* Arrays hold what single words are, wherever they begin and end. */
static void test_arrays_are_the_stream(void **state)
{
    (void)state;
    const uint64_t firsts[] = {0, 1, 2, 3, 30, 4 * 7 + 1, ((uint64_t)1 << 34) - 5};
    for (size_t f = 0; f < ARRAY_LENGTH(firsts); f++) {
        for (int64_t n = 0; n < 140; n += 1 + n / 9) {
            uint32_t words[141];
            words[n] = 0xABCDu;
            random_fill(77, RANDOM_DROPOUT | 11u << 8, 12345, firsts[f], n, words);
            for (int64_t i = 0; i < n; i++) {
                assert_int_equal(words[i], random_bits(77, RANDOM_DROPOUT | 11u << 8,
                                                       12345, firsts[f] + (uint64_t)i));
            }
            assert_int_equal(words[n], 0xABCDu); /* nothing behind them */
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(streams_are_laid_out_as_the_header_says),
        cmocka_unit_test(streams_differ),
        cmocka_unit_test(uniform_fills_its_range),
        cmocka_unit_test(normal_has_its_moments),
        cmocka_unit_test(permutation_holds_each_once),
        cmocka_unit_test(permutation_is_even),
        cmocka_unit_test(test_arrays_are_the_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
