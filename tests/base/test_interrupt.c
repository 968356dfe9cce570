/*
 * Signals: the first is noted, a second one ends the process, a repetition does not. Real
 * ones, each in a process of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/interrupt.h"

/* What a child does after its signals are set up; its result is its exit code. */
typedef int (*child_fn)(void);

/* Runs it in a process of its own and returns how that ended (waitpid's status). */
static int run_child(child_fn run)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(run());
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* 0: noted as what it is, with the kind of error that gives the exit code. */
static int note(int signal_number, const char *name, int code)
{
    struct error err;
    interrupt_install();
    if (interrupt_requested() != 0 || !interrupt_check(&err) ||
        *interrupt_flag() != 0) {
        return 1;
    }
    raise(signal_number);
    if (interrupt_requested() != signal_number || *interrupt_flag() == 0) {
        return 2;
    }
    if (interrupt_check(&err) || strstr(err.message, name) == NULL) {
        return 3;
    }
    return error_exit_code(err.kind) == code ? 0 : 4;
}

static int note_int(void)
{
    return note(SIGINT, "SIGINT", 130);
}

static int note_term(void)
{
    return note(SIGTERM, "SIGTERM", 1);
}

static void the_first_signal_is_noted(void **state)
{
    (void)state;
    assert_int_equal(run_child(note_int), 0);
    assert_int_equal(run_child(note_term), 0);
}

/* `timeout` sends the signal to the process and again to its group. */
static int repeat_at_once(void)
{
    interrupt_install();
    raise(SIGTERM);
    raise(SIGTERM);
    return interrupt_requested() == SIGTERM ? 0 : 1;
}

static void a_repetition_is_the_same_signal(void **state)
{
    (void)state;
    assert_int_equal(run_child(repeat_at_once), 0);
}

static int repeat_later(void)
{
    interrupt_install();
    raise(SIGTERM);
    usleep(600000);
    raise(SIGINT);
    return 0;
}

static void a_second_signal_ends_the_process(void **state)
{
    (void)state;
    const int status = run_child(repeat_later);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGINT);
}

/* A job under nohup, or in the background of a shell. */
static int stay_ignored(void)
{
    signal(SIGINT, SIG_IGN);
    interrupt_install();
    raise(SIGINT);
    return interrupt_requested();
}

static void an_ignored_signal_stays_ignored(void **state)
{
    (void)state;
    assert_int_equal(run_child(stay_ignored), 0);
}

static int write_to_nobody(void)
{
    int ends[2];
    interrupt_ignore_broken_pipe();
    if (pipe(ends) != 0 || close(ends[0]) != 0) {
        return 1;
    }
    return write(ends[1], "x", 1) == -1 ? 0 : 2;
}

static void a_broken_pipe_is_an_error_not_the_end(void **state)
{
    (void)state;
    assert_int_equal(run_child(write_to_nobody), 0);
}

static int take_back(void)
{
    struct error err;
    interrupt_note(SIGINT);
    if (interrupt_check(&err)) {
        return 1;
    }
    interrupt_note(0);
    return interrupt_check(&err) ? 0 : 2;
}

static void a_noted_signal_can_be_taken_back(void **state)
{
    (void)state;
    assert_int_equal(run_child(take_back), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_signal_is_noted),
        cmocka_unit_test(a_repetition_is_the_same_signal),
        cmocka_unit_test(a_second_signal_ends_the_process),
        cmocka_unit_test(an_ignored_signal_stays_ignored),
        cmocka_unit_test(a_broken_pipe_is_an_error_not_the_end),
        cmocka_unit_test(a_noted_signal_can_be_taken_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
