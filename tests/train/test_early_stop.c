/*
 * Runs stop after so many evaluations without a gain, and gains are what min_delta says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "train/early_stop.h"

/* The number of the first loss, from 1, after which to stop; 0: none. */
static int stops_after(struct early_stop stop, const double *losses, int n)
{
    for (int i = 0; i < n; i++) {
        if (early_stop_note(&stop, losses[i])) {
            return i + 1;
        }
    }
    return 0;
}

static void stops_after_patience_without_gain(void **state)
{
    (void)state;
    static const double losses[] = {3.0, 2.5, 2.6, 2.4, 2.45, 2.4, 2.3};
    const int n = ARRAY_LENGTH(losses);
    assert_int_equal(stops_after((struct early_stop){.patience = 0}, losses, n), 0);
    assert_int_equal(stops_after((struct early_stop){.patience = 1}, losses, n), 3);
    assert_int_equal(stops_after((struct early_stop){.patience = 2}, losses, n), 6);
    assert_int_equal(stops_after((struct early_stop){.patience = 3}, losses, n), 0);
}

/* 2.95 is no gain over 3.0 by itself, 2.85 is one. */
static void small_gains_add_up(void **state)
{
    (void)state;
    static const double losses[] = {3.0, 2.95, 2.85, 2.8, 2.7};
    const struct early_stop stop = {.patience = 2, .min_delta = 0.1};
    assert_int_equal(stops_after(stop, losses, ARRAY_LENGTH(losses)), 0);
    static const double flat[] = {3.0, 2.95, 2.91, 2.8};
    assert_int_equal(stops_after(stop, flat, ARRAY_LENGTH(flat)), 3);
}

static void losses_that_are_not_finite_are_no_gain(void **state)
{
    (void)state;
    static const double losses[] = {(double)NAN, 3.0, (double)NAN, -(double)INFINITY};
    const struct early_stop stop = {.patience = 2};
    assert_int_equal(stops_after(stop, losses, ARRAY_LENGTH(losses)), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stops_after_patience_without_gain),
        cmocka_unit_test(small_gains_add_up),
        cmocka_unit_test(losses_that_are_not_finite_are_no_gain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
