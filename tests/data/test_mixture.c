/*
 * Weights of files: how often an epoch takes each example, and that over epochs all are
 * taken equally often.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/mixture.h"
#include "data/records.h"

enum { N_A = 5, N_B = 8, N = N_A + N_B };

static struct records two_files(struct records_source *sources, double a, double b)
{
    sources[0] = (struct records_source){.first = 0, .n = N_A, .weight = a};
    sources[1] = (struct records_source){.first = N_A, .n = N_B, .weight = b};
    return (struct records){.n = N, .sources = sources, .n_sources = 2};
}

/* Adds how often the epoch takes each example; they come in order of the files. */
static int64_t count(const struct records *records, uint64_t seed, int64_t epoch,
                     int *counts)
{
    int64_t n;
    int32_t *taken = mixture_take(records, seed, epoch, &n);
    assert_non_null(taken);
    for (int64_t i = 0; i < n; i++) {
        assert_in_range(taken[i], 0, N - 1);
        assert_true(i == 0 || (taken[i - 1] < N_A) >= (taken[i] < N_A));
        counts[taken[i]]++;
    }
    mem_free(taken);
    return n;
}

static void equal_weights_take_all(void **state)
{
    (void)state;
    struct records_source sources[2];
    const struct records records = two_files(sources, 1.0, 1.0);
    int64_t n = 0;
    assert_null(mixture_take(&records, 1, 0, &n));
    assert_int_equal(n, N);
    const struct records none = {0};
    assert_null(mixture_take(&none, 1, 0, &n));
    assert_int_equal(n, 0);
}

static void whole_and_broken_weights(void **state)
{
    (void)state;
    struct records_source sources[2];
    const struct records records = two_files(sources, 2.0, 0.5);
    int all[N] = {0};
    for (int64_t epoch = 0; epoch < 6; epoch++) {
        int counts[N] = {0};
        assert_int_equal(count(&records, 3, epoch, counts), 2 * N_A + N_B / 2);
        count(&records, 3, epoch, all);
        for (int i = 0; i < N; i++) {
            assert_in_range(counts[i], i < N_A ? 2 : 0, i < N_A ? 2 : 1);
        }
        /* Two epochs of halves are the whole file. */
        for (int i = N_A; i < N && epoch % 2 == 1; i++) {
            assert_int_equal(all[i], (epoch + 1) / 2);
        }
    }
}

/* 0.3 of 8 is 2.4: counts differ by one at most, in every prefix of the epochs. */
static void shares_that_do_not_come_out_even(void **state)
{
    (void)state;
    struct records_source sources[2];
    const struct records records = two_files(sources, 1.7, 0.3);
    int all[N] = {0};
    int64_t n = 0;
    for (int64_t epoch = 0; epoch < 40; epoch++) {
        n += count(&records, 9, epoch, all);
        int least = all[N_A];
        int most = all[N_A];
        for (int i = N_A; i < N; i++) {
            least = all[i] < least ? all[i] : least;
            most = all[i] > most ? all[i] : most;
        }
        assert_true(most - least <= 1);
    }
    assert_in_range(n, 40 * (N_A * 17 + N_B * 3) / 10,
                    2 + 40 * (N_A * 17 + N_B * 3) / 10);
}

static void a_function_of_seed_and_epoch(void **state)
{
    (void)state;
    struct records_source sources[2];
    const struct records records = two_files(sources, 1.0, 0.5);
    int a[N] = {0};
    int again[N] = {0};
    int other_epoch[N] = {0};
    int other_seed[N] = {0};
    count(&records, 1, 2, a);
    count(&records, 1, 2, again);
    count(&records, 1, 3, other_epoch);
    count(&records, 5, 2, other_seed);
    assert_memory_equal(a, again, sizeof(a));
    assert_memory_not_equal(a, other_epoch, sizeof(a));
    assert_memory_not_equal(a, other_seed, sizeof(a));
}

/* A loader must get at least one example, whatever the share. */
static void never_empty(void **state)
{
    (void)state;
    struct records_source source = {.n = 1, .weight = 0.25};
    const struct records records = {.n = 1, .sources = &source, .n_sources = 1};
    for (int64_t epoch = 0; epoch < 9; epoch++) {
        int64_t n;
        int32_t *taken = mixture_take(&records, 1, epoch, &n);
        assert_int_equal(n, 1);
        assert_int_equal(taken[0], 0);
        mem_free(taken);
    }
}

/* Epochs that would be empty take one example after the other. 0.1 of 3 ends at places
 * 1, 1, 1, 2: epochs 1, 2, 4 and 5 take none of their own. */
static void empty_epochs_take_turns(void **state)
{
    (void)state;
    struct records_source source = {.n = 3, .weight = 0.1};
    const struct records records = {.n = 3, .sources = &source, .n_sources = 1};
    static const int64_t empty_epochs[] = {1, 2, 4, 5};
    for (size_t i = 0; i < ARRAY_LENGTH(empty_epochs); i++) {
        int64_t n;
        int32_t *taken = mixture_take(&records, 1, empty_epochs[i], &n);
        assert_int_equal(n, 1);
        assert_int_equal(taken[0], empty_epochs[i] % 3);
        mem_free(taken);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_weights_take_all),
        cmocka_unit_test(whole_and_broken_weights),
        cmocka_unit_test(shares_that_do_not_come_out_even),
        cmocka_unit_test(a_function_of_seed_and_epoch),
        cmocka_unit_test(never_empty),
        cmocka_unit_test(empty_epochs_take_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
