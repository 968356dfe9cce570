/*
 * What is an outlier, by the mean and deviation of a window.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "train/outlier.h"

static void no_opinion_before_there_are_values(void **state)
{
    (void)state;
    struct outlier guard = {.z = 2.0, .window = 20};
    for (int i = 0; i < OUTLIER_MIN_VALUES; i++) {
        assert_true(isinf(outlier_limit(&guard)));
        outlier_note(&guard, 1.0 + i % 2);
    }
    assert_true(isfinite(outlier_limit(&guard)));
    outlier_deinit(&guard);
    struct outlier off = {.window = 20};
    for (int i = 0; i < 30; i++) {
        outlier_note(&off, 1.0);
        assert_true(isinf(outlier_limit(&off)));
    }
    assert_null(off.values);
}

/* Values 1 and 2 by turns: mean 1.5, deviation 0.5. */
static void the_limit_is_mean_plus_z_deviations(void **state)
{
    (void)state;
    struct outlier guard = {.z = 3.0, .window = 10};
    for (int i = 0; i < 10; i++) {
        outlier_note(&guard, 1.0 + i % 2);
    }
    assert_true(fabs(outlier_limit(&guard) - 3.0) < 1e-12);
    outlier_note(&guard, (double)NAN); /* is none of them */
    assert_true(fabs(outlier_limit(&guard) - 3.0) < 1e-12);
    /* Ten others leave nothing of the first ten. */
    for (int i = 0; i < 10; i++) {
        outlier_note(&guard, 5.0 + 4.0 * (i % 2));
    }
    assert_true(fabs(outlier_limit(&guard) - 13.0) < 1e-12);
    outlier_deinit(&guard);
}

static void a_flat_loss_may_ripple(void **state)
{
    (void)state;
    struct outlier guard = {.z = 4.0, .window = 50};
    for (int i = 0; i < 50; i++) {
        outlier_note(&guard, 2.0);
    }
    assert_true(fabs(outlier_limit(&guard) - 2.008) < 1e-12);
    outlier_deinit(&guard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_opinion_before_there_are_values),
        cmocka_unit_test(the_limit_is_mean_plus_z_deviations),
        cmocka_unit_test(a_flat_loss_may_ripple),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
