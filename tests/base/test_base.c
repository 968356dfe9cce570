/*
 * Small arithmetic, and how a failed assertion ends the process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/mem.h"

static void arithmetic(void **state)
{
    (void)state;
    assert_int_equal(base_min(2, -3), -3);
    assert_int_equal(base_max(2, -3), 2);
    assert_int_equal(base_div_up(7, 2), 4);
    assert_int_equal(base_div_up(8, 2), 4);
    assert_int_equal(base_round_up(1, 64), 64);
    assert_int_equal(base_round_up(128, 64), 128);
}

static int report_fd;

static void report(const char *message)
{
    const ssize_t n = write(report_fd, message, strlen(message));
    (void)n;
}

/* A child fails an assertion: it dies of SIGABRT, after one line to the handler. */
static void failed_assertion_reports_and_aborts(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        report_fd = ends[1];
        mem_set_fatal_handler(report);
        base_set_rank(3);
        const int two = 2;
        ASSERT(two + two == 5);
        _exit(0);
    }
    close(ends[1]);
    char message[600] = "";
    const ssize_t n = read(ends[0], message, sizeof(message) - 1);
    close(ends[0]);
    assert_true(n > 0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_non_null(strstr(message, "two + two == 5"));
    assert_non_null(strstr(message, "test_base.c"));
    assert_non_null(strstr(message, "(rank 3)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic),
        cmocka_unit_test(failed_assertion_reports_and_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
