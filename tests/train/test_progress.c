/*
 * A pipe gets plain lines at a bounded rate, the first and the last always.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

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
        if (n++ == 0) {
            assert_true(strncmp(line, "training 1/1000  loss 2.5  ", 27) == 0);
        }
        assert_null(strchr(line, '\r'));
        assert_null(strchr(line, '\033'));
        assert_non_null(strstr(line, " left\n"));
        memcpy(last, line, sizeof(last));
    }
    assert_int_equal(n, 2); /* a thousand updates within five seconds */
    assert_true(strncmp(last, "training 1000/1000  loss 2.5  ", 30) == 0);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_file_gets_plain_lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
