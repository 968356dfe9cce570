/*
 * The learning rate at each step: warm-up, then constant, line or half a cosine (D9).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "train/schedule.h"
#include "train/settings.h"

static void assert_near(double a, double b)
{
    if (fabs(a - b) > 1e-15) {
        fail_msg("%.17g is not %.17g", a, b);
    }
}

static void warm_up_is_a_line_from_zero(void **state)
{
    (void)state;
    const struct schedule s = {
        .kind = SCHEDULE_CONSTANT, .lr = 2e-5, .warmup_steps = 20, .n_steps = 100};
    for (int64_t step = 1; step <= 20; step++) {
        assert_near(schedule_rate(&s, step), 2e-5 * (double)step / 20.0);
    }
    assert_near(schedule_rate(&s, 21), 2e-5);
    assert_near(schedule_rate(&s, 100), 2e-5);
}

static void line_ends_at_the_final_rate(void **state)
{
    (void)state;
    const struct schedule s = {.kind = SCHEDULE_LINEAR,
                               .lr = 1.0,
                               .final_lr = 0.2,
                               .warmup_steps = 10,
                               .n_steps = 50};
    assert_near(schedule_rate(&s, 10), 1.0);
    assert_near(schedule_rate(&s, 30), 0.6);
    assert_near(schedule_rate(&s, 50), 0.2);
    assert_near(schedule_rate(&s, 60), 0.2);
}

static void cosine_falls_slowly_fast_slowly(void **state)
{
    (void)state;
    const struct schedule s = {
        .kind = SCHEDULE_COSINE, .lr = 1.0, .final_lr = 0.0, .n_steps = 100};
    assert_near(schedule_rate(&s, 50), 0.5);
    assert_near(schedule_rate(&s, 100), 0.0);
    assert_near(schedule_rate(&s, 25), 0.5 * (1.0 + sqrt(0.5)));
    for (int64_t step = 1; step < 100; step++) {
        assert_true(schedule_rate(&s, step) > schedule_rate(&s, step + 1));
    }
}

static void warm_up_longer_than_the_run_never_ends(void **state)
{
    (void)state;
    const struct schedule s = {
        .kind = SCHEDULE_COSINE, .lr = 1.0, .warmup_steps = 100, .n_steps = 10};
    assert_near(schedule_rate(&s, 10), 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warm_up_is_a_line_from_zero),
        cmocka_unit_test(line_ends_at_the_final_rate),
        cmocka_unit_test(cosine_falls_slowly_fast_slowly),
        cmocka_unit_test(warm_up_longer_than_the_run_never_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
