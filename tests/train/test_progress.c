/*
 * A pipe gets plain lines at a bounded rate, the first and the last always.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/str.h"
#include "train/progress.h"

static void a_file_gets_plain_lines(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    struct progress progress;
    progress_begin(&progress, file, "training", 1000);
    assert_false(progress.is_terminal);
    for (int64_t i = 1; i <= 1000; i++) {
        progress_update(&progress, i, "loss 2.5");
    }
    progress_pause(&progress);
    progress_end(&progress);
    rewind(file);
    char line[200];
    char last[200] = "";
    int n = 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        if (n++ == 0) { /* too early for an estimate */
            assert_string_equal(line, "training 1/1000  loss 2.5\n");
        }
        assert_null(strchr(line, '\r'));
        assert_null(strchr(line, '\033'));
        memcpy(last, line, sizeof(last));
    }
    assert_int_equal(n, 2); /* a thousand updates within five seconds */
    assert_true(strncmp(last, "training 1000/1000  loss 2.5  ", 30) == 0);
    assert_non_null(strstr(last, " left\n"));
    fclose(file);
}

/* The pace of the first moments is that of a start (0.05 s for 1 of 511 would be half a
 * minute): no number until a second has gone by or 5 % are done. */
static void time_left_is_told_once_it_means_something(void **state)
{
    (void)state;
    assert_true(progress_estimate(50.0, 0, 511) < 0.0);
    assert_true(progress_estimate(5000.0, 0, 511) < 0.0);
    assert_true(progress_estimate(50.0, 1, 511) < 0.0);
    assert_true(progress_estimate(999.0, 4, 100) < 0.0);
    assert_true(progress_estimate(1000.0, 4, 100) == 24.0);
    assert_true(progress_estimate(500.0, 5, 100) == 9.5);
    assert_true(progress_estimate(0.5, 1, 1) == 0.0);
}

/* A unit stands by its number. */
static void units_stand_by_the_numbers(void **state)
{
    (void)state;
    const struct progress progress = {.label = "writing", .total = 511, .unit = "MiB"};
    struct str line = {0};
    progress_print_bar(&progress, 73, "", -1.0, 30, &line);
    assert_string_equal(line.text, "writing [#........] 73/511 MiB");
    str_clear(&line);
    progress_print_bar(&progress, 73, "all.jsonl", -1.0, 33, &line);
    assert_string_equal(line.text, "writing 73/511 MiB  all.jsonl");
    str_deinit(&line);
}

/* The line fits, whatever the width: first the bar becomes shorter, then it goes, then
 * the text is cut. */
static void the_moving_line_fits_its_terminal(void **state)
{
    (void)state;
    const struct progress progress = {.label = "training", .total = 320};
    static const struct {
        int width;
        const char *line;
    } cases[] = {
        {100, "training [#########...............] 120/320  loss 2.31  1m 05s left"},
        {49, "training [##....] 120/320  loss 2.31  1m 05s left"},
        {48, "training 120/320  loss 2.31  1m 05s left"},
        {20, "training 120/320  lo"},
        {3, "training"}, /* the label is the least */
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct str line = {0};
        progress_print_bar(&progress, 120, "loss 2.31", 65.0, cases[i].width, &line);
        assert_string_equal(line.text, cases[i].line);
        str_deinit(&line);
    }
    struct str start = {0};
    progress_print_bar(&progress, 0, "", -1.0, 60, &start);
    assert_string_equal(start.text, "training [........................] 0/320");
    str_deinit(&start);
}

/* On a terminal (one that is made here) nothing is left of the line, and others come
 * between. */
static void a_terminal_is_left_clean(void **state)
{
    (void)state;
    int master = -1;
    int slave = -1;
    const struct winsize size = {.ws_row = 24, .ws_col = 60};
    setenv("TERM", "xterm", 1);
    if (openpty(&master, &slave, NULL, NULL, &size) != 0) {
        skip(); /* a sandbox without terminals */
    }
    FILE *file = fdopen(slave, "w");
    struct progress progress;
    progress_begin(&progress, file, "training", 4);
    assert_true(progress.is_terminal && progress.has_line);
    progress_update(&progress, 2, "loss 2.5");
    progress_pause(&progress);
    fputs("a line of the log\n", file);
    progress_update(&progress, 4, "loss 2.4");
    progress_end(&progress);
    fflush(file);
    char text[2000];
    const ssize_t n = read(master, text, sizeof(text) - 1);
    assert_true(n > 0);
    text[n] = '\0';
    assert_non_null(strstr(text, "\r\033[Ktraining [........"));
    assert_non_null(strstr(text, "\r\033[Ka line of the log"));
    assert_non_null(strstr(text, "] 4/4  loss 2.4  0.0s left\r\033[K"));
    assert_string_equal(text + n - 4, "\r\033[K");
    fclose(file);
    close(master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_gets_plain_lines),
        cmocka_unit_test(time_left_is_told_once_it_means_something),
        cmocka_unit_test(units_stand_by_the_numbers),
        cmocka_unit_test(the_moving_line_fits_its_terminal),
        cmocka_unit_test(a_terminal_is_left_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
