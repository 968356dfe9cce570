/*
 * Time does not go back, and reads well.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <unistd.h>

#include "base/clock.h"

static void goes_forward(void **state)
{
    (void)state;
    const int64_t start = clock_now_ns();
    int64_t last = start;
    for (int i = 0; i < 1000; i++) {
        const int64_t now = clock_now_ns();
        assert_true(now >= last);
        last = now;
    }
    usleep(3000);
    assert_true(clock_since_ms(start) >= 3.0);
}

/* The process is as old as its tests, and both clocks run alike. */
static void the_process_has_an_age(void **state)
{
    (void)state;
    const int64_t from = clock_now_ns();
    const double age = clock_since_process_start_ms();
    assert_true(age > 0.0 && age < 600e3);
    usleep(50000);
    const double later = clock_since_process_start_ms();
    assert_true(later - age >= 49.0 && later - age <= clock_since_ms(from) + 1.0);
}

static void durations_for_people(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {
        {0.0, "0.0s"},      {8.44, "8.4s"},          {59.94, "59.9s"},
        {59.96, "1m 00s"},  {192.0, "3m 12s"},       {3599.4, "59m 59s"},
        {3599.6, "1h 00m"}, {7500.0, "2h 05m"},      {360000.0, "100h 00m"},
        {-1.0, "?"},        {(double)INFINITY, "?"}, {(double)NAN, "?"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char buffer[24];
        assert_string_equal(clock_format_duration(buffer, cases[i].seconds),
                            cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_forward),
        cmocka_unit_test(the_process_has_an_age),
        cmocka_unit_test(durations_for_people),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
