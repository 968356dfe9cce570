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

static void line_goes_towards_the_final_rate(void **state)
{
    (void)state;
    const struct schedule s = {.kind = SCHEDULE_LINEAR,
                               .lr = 1.0,
                               .final_lr = 0.2,
                               .warmup_steps = 10,
                               .n_steps = 50};
    assert_near(schedule_rate(&s, 10), 1.0);
    assert_near(schedule_rate(&s, 11), 1.0);
    assert_near(schedule_rate(&s, 31), 0.6);
    assert_near(schedule_rate(&s, 50), 0.22);
    assert_near(schedule_rate(&s, 51), 0.2);
    assert_near(schedule_rate(&s, 60), 0.2);
}

static void cosine_falls_slowly_fast_slowly(void **state)
{
    (void)state;
    const struct schedule s = {
        .kind = SCHEDULE_COSINE, .lr = 1.0, .final_lr = 0.0, .n_steps = 100};
    assert_near(schedule_rate(&s, 1), 1.0);
    assert_near(schedule_rate(&s, 51), 0.5);
    assert_near(schedule_rate(&s, 101), 0.0);
    assert_near(schedule_rate(&s, 26), 0.5 * (1.0 + sqrt(0.5)));
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

/* get_cosine_schedule_with_warmup and get_linear_... of transformers, lambda(s - 1) for
 * s = 4, 5, 8 of 8 steps, 3 of them warm-up. */
static void rates_are_those_of_transformers(void **state)
{
    (void)state;
    struct schedule s = {
        .kind = SCHEDULE_COSINE, .lr = 1.0, .warmup_steps = 3, .n_steps = 8};
    assert_near(schedule_rate(&s, 4), 1.0);
    assert_near(schedule_rate(&s, 5), 0.90450849718747373);
    assert_near(schedule_rate(&s, 8), 0.095491502812526274);
    s.kind = SCHEDULE_LINEAR;
    assert_near(schedule_rate(&s, 5), 0.8);
    assert_near(schedule_rate(&s, 8), 0.2);
}

/* A run of one step trains, whatever the schedule falls to. */
static void a_single_step_has_the_full_rate(void **state)
{
    (void)state;
    const struct schedule s = {.kind = SCHEDULE_COSINE, .lr = 0.5, .n_steps = 1};
    assert_near(schedule_rate(&s, 1), 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warm_up_is_a_line_from_zero),
        cmocka_unit_test(line_goes_towards_the_final_rate),
        cmocka_unit_test(cosine_falls_slowly_fast_slowly),
        cmocka_unit_test(warm_up_longer_than_the_run_never_ends),
        cmocka_unit_test(rates_are_those_of_transformers),
        cmocka_unit_test(a_single_step_has_the_full_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
