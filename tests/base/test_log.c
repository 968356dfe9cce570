/*
 * Levels, prefixes, whole lines, the second destination.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/log.h"

/* What `log` wrote to the second destination, read back. */
static void read_back(FILE *file, char *text, size_t room)
{
    fflush(file);
    rewind(file);
    const size_t n = fread(text, 1, room - 1, file);
    text[n] = '\0';
}

static void lines_are_prefixed(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    log_set_file(file);
    log_error("bad %d", 1);
    log_warning("odd");
    log_note("step %d", 2);
    log_debug("hidden");
    log_set_file(NULL);
    log_note("not in the file");
    char text[300];
    read_back(file, text, sizeof(text));
    fclose(file);
    assert_string_equal(text, "lathe: error: bad 1\nlathe: warning: odd\nstep 2\n");
}

static void level_hides_the_rest(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    log_set_file(file);
    log_set_level(LOG_WARNING);
    log_note("hidden");
    log_warning("shown");
    log_set_level(LOG_DEBUG);
    log_debug("detail");
    log_set_level(LOG_NOTE);
    log_set_file(NULL);
    char text[300];
    read_back(file, text, sizeof(text));
    fclose(file);
    assert_string_equal(text, "lathe: warning: shown\ndebug: detail\n");
}

/* Texts from files reach messages, and a terminal would obey their control
 * characters. */
static void control_characters_are_shown_as_question_marks(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    log_set_file(file);
    log_error("field %s", "a\nb\x1b[2J\x7f \xc3\xa9");
    log_set_file(NULL);
    char text[300];
    read_back(file, text, sizeof(text));
    fclose(file);
    assert_string_equal(text, "lathe: error: field a?b?[2J? \xc3\xa9\n");
}

static void long_lines_are_cut_but_end(void **state)
{
    (void)state;
    static char word[10000];
    memset(word, 'x', sizeof(word) - 1);
    FILE *file = tmpfile();
    assert_non_null(file);
    log_set_file(file);
    log_note("%s", word);
    log_set_file(NULL);
    static char text[20000];
    read_back(file, text, sizeof(text));
    fclose(file);
    const size_t length = strlen(text);
    assert_in_range(length, 4000, 4096);
    assert_int_equal(text[length - 1], '\n');
    assert_int_equal(text[length - 2], 'x');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_prefixed),
        cmocka_unit_test(level_hides_the_rest),
        cmocka_unit_test(control_characters_are_shown_as_question_marks),
        cmocka_unit_test(long_lines_are_cut_but_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
