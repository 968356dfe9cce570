/*
 * Plans: every example once, rows that fit, the order that was promised, speed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "data/pack.h"

/* Every example exactly once (C22), no row empty or too full. Returns the share of
 * slots that hold tokens. */
static double check_plan(const struct pack_plan *plan, const int32_t *lengths,
                         int64_t n, int32_t row_tokens)
{
    int64_t *seen = mem_alloc_array((size_t)n + 1, sizeof(*seen));
    int64_t n_tokens = 0;
    assert_int_equal(plan->n_examples, n);
    assert_int_equal(plan->row_from[0], 0);
    assert_int_equal(plan->row_from[plan->n_rows], n);
    for (int64_t row = 0; row < plan->n_rows; row++) {
        int64_t in_row = 0;
        assert_true(plan->row_from[row] < plan->row_from[row + 1]);
        for (int64_t i = plan->row_from[row]; i < plan->row_from[row + 1]; i++) {
            seen[plan->examples[i]]++;
            in_row += lengths[plan->examples[i]];
        }
        assert_true(in_row <= row_tokens);
        n_tokens += in_row;
    }
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(seen[i], 1);
    }
    mem_free(seen);
    return (double)n_tokens / ((double)plan->n_rows * row_tokens);
}

static int32_t *random_lengths(int64_t n, int32_t longest, uint64_t stream)
{
    int32_t *lengths = mem_alloc_array((size_t)n + 1, sizeof(*lengths));
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = random_bits(1, RANDOM_TEST, stream, (uint64_t)i);
        lengths[i] = 1 + (int32_t)(bits % (uint32_t)longest);
    }
    return lengths;
}

static void every_example_once(void **state)
{
    (void)state;
    static const int64_t counts[] = {0, 1, 2, 3, 17, 100, 4095, 4096, 4097, 9000};
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        for (int mode = 0; mode < 4; mode++) {
            const int64_t n = counts[c];
            const struct pack_options options = {.row_tokens = 200,
                                                 .is_packed = mode % 2 == 1,
                                                 .is_shuffled = mode / 2 == 1,
                                                 .seed = 9};
            int32_t *lengths = random_lengths(n, c % 2 == 0 ? 200 : 60, c);
            struct pack_plan *plan = pack_plan_create(lengths, NULL, n, &options, 3);
            const double fill = check_plan(plan, lengths, n, 200);
            if (mode == 3 && n >= 100) {
                assert_true(fill > 0.88);
            }
            if (mode == 3 && n == 9000) {
                assert_true(fill > 0.97);
            }
            pack_plan_destroy(plan);
            mem_free(lengths);
        }
    }
    pack_plan_destroy(NULL);
}

static bool equal_plans(const struct pack_plan *a, const struct pack_plan *b)
{
    return a->n_rows == b->n_rows && a->n_examples == b->n_examples &&
           memcmp(a->examples, b->examples,
                  (size_t)a->n_examples * sizeof(*a->examples)) == 0 &&
           memcmp(a->row_from, b->row_from,
                  (size_t)(a->n_rows + 1) * sizeof(*a->row_from)) == 0;
}

static void a_function_of_seed_and_epoch(void **state)
{
    (void)state;
    enum { N = 1000 };
    int32_t *lengths = random_lengths(N, 100, 1);
    for (int packed = 0; packed < 2; packed++) {
        struct pack_options options = {.row_tokens = 128,
                                       .is_packed = packed == 1,
                                       .is_shuffled = true,
                                       .seed = 5};
        struct pack_plan *plan = pack_plan_create(lengths, NULL, N, &options, 1);
        struct pack_plan *again = pack_plan_create(lengths, NULL, N, &options, 1);
        struct pack_plan *other_epoch = pack_plan_create(lengths, NULL, N, &options, 2);
        options.seed = 6;
        struct pack_plan *other_seed = pack_plan_create(lengths, NULL, N, &options, 1);
        assert_true(equal_plans(plan, again));
        assert_false(equal_plans(plan, other_epoch));
        assert_false(equal_plans(plan, other_seed));
        pack_plan_destroy(plan);
        pack_plan_destroy(again);
        pack_plan_destroy(other_epoch);
        pack_plan_destroy(other_seed);
    }
    mem_free(lengths);
}

/* Without shuffling the examples come in file order, in every epoch. */
static void file_order(void **state)
{
    (void)state;
    static const int32_t lengths[] = {5, 5, 1, 9, 2, 10, 10, 1};
    static const int64_t wanted_from[] = {0, 2, 4, 5, 6, 7, 8};
    struct pack_options options = {.row_tokens = 10, .is_packed = true, .seed = 5};
    struct pack_plan *plan = pack_plan_create(lengths, NULL, 8, &options, 7);
    assert_int_equal(plan->n_rows, 6);
    assert_memory_equal(plan->row_from, wanted_from, sizeof(wanted_from));
    for (int64_t i = 0; i < 8; i++) {
        assert_int_equal(plan->examples[i], i);
    }
    pack_plan_destroy(plan);
    options.is_packed = false;
    plan = pack_plan_create(lengths, NULL, 8, &options, 0);
    assert_int_equal(plan->n_rows, 8);
    for (int64_t i = 0; i < 8; i++) {
        assert_int_equal(plan->examples[plan->row_from[i]], i);
    }
    pack_plan_destroy(plan);
}

/* Best fit: 6 4 | 5 5 | 7 3, whatever the order they come in. */
static void best_fit_fills_rows(void **state)
{
    (void)state;
    static const int32_t lengths[] = {5, 3, 6, 4, 7, 5};
    for (int64_t epoch = 0; epoch < 20; epoch++) {
        const struct pack_options options = {
            .row_tokens = 10, .is_packed = true, .is_shuffled = true, .seed = 2};
        struct pack_plan *plan = pack_plan_create(lengths, NULL, 6, &options, epoch);
        assert_int_equal(plan->n_rows, 3);
        assert_true(check_plan(plan, lengths, 6, 10) == 1.0);
        pack_plan_destroy(plan);
    }
}

/* Long and short examples are spread over the epoch, though packing sorts by length. */
static void rows_come_in_random_order(void **state)
{
    (void)state;
    enum { N = 4000 };
    int32_t *lengths = random_lengths(N, 500, 2);
    const struct pack_options options = {
        .row_tokens = 512, .is_packed = true, .is_shuffled = true, .seed = 4};
    struct pack_plan *plan = pack_plan_create(lengths, NULL, N, &options, 0);
    double sums[2] = {0};
    int64_t counts[2] = {0};
    for (int64_t row = 0; row < plan->n_rows; row++) {
        const int half = row >= plan->n_rows / 2;
        for (int64_t i = plan->row_from[row]; i < plan->row_from[row + 1]; i++) {
            sums[half] += lengths[plan->examples[i]];
            counts[half]++;
        }
    }
    const double first = sums[0] / (double)counts[0];
    const double second = sums[1] / (double)counts[1];
    assert_true(first / second > 0.9 && first / second < 1.1);
    pack_plan_destroy(plan);
    mem_free(lengths);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_example_once),
        cmocka_unit_test(a_function_of_seed_and_epoch),
        cmocka_unit_test(file_order),
        cmocka_unit_test(best_fit_fills_rows),
        cmocka_unit_test(rows_come_in_random_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
