/*
 * Windows of whole lines: nothing is lost or doubled, whatever their size; long lines,
 * files without a last newline, byte-order marks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/line_window.h"

static char path[64];

static int make_path(void **state)
{
    (void)state;
    strcpy(path, "/tmp/lathe-test-lines-XXXXXX");
    const int fd = mkstemp(path);
    close(fd);
    return fd < 0;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static void write_path(const char *text, size_t length)
{
    struct error err;
    assert_true(file_write_atomic(path, text, length, &err));
}

/* All windows put together; each but the last ends with a newline. */
static void read_all(struct line_window *window, size_t wanted, struct str *out)
{
    struct error err = {.message = ""};
    const char *text;
    size_t length;
    for (;;) {
        if (!line_window_next(window, wanted, &text, &length, &err)) {
            fail_msg("%s", err.message);
        }
        if (length == 0) {
            break;
        }
        assert_true(out->length == 0 || out->text[out->length - 1] == '\n');
        str_add_bytes(out, text, length);
    }
    assert_true(line_window_next(window, wanted, &text, &length, &err));
    assert_int_equal(length, 0);
}

static void assert_comes_back(const char *text, size_t length, const char *wanted,
                              size_t wanted_length)
{
    static const size_t sizes[] = {1, 2, 3, 5, 8, 64, 100000};
    struct error err = {.message = ""};
    struct line_hash hash;
    write_path(text, length);
    assert_true(line_window_hash_file(path, &hash, &err));
    for (size_t i = 0; i < 2 * ARRAY_LENGTH(sizes); i++) {
        const bool is_file = i % 2 == 0;
        struct line_window *window = is_file ? line_window_open(path, &err)
                                             : line_window_view(text, length, "t");
        struct str out = {0};
        assert_non_null(window);
        assert_int_equal(line_window_bytes(window), length);
        read_all(window, sizes[i / 2], &out);
        assert_int_equal(out.length, wanted_length);
        assert_memory_equal(str_text(&out), wanted, wanted_length);
        const struct line_hash own = line_window_hash(window);
        assert_true(own.low == hash.low && own.high == hash.high);
        str_deinit(&out);
        line_window_close(window);
    }
}

static void lines_come_back(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",     "a",      "\n",       "a\n",          "a\nb",
        "\n\n", "ab\ncd", "one\r\n2", "long line\nx", "\n\n\nlast one without newline"};
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        assert_comes_back(texts[i], strlen(texts[i]), texts[i], strlen(texts[i]));
    }
    assert_comes_back("a\0b\n\0", 5, "a\0b\n\0", 5);
}

/* The mark is left out, but counts in the hash: the file is another one. */
static void a_mark_is_left_out(void **state)
{
    (void)state;
    assert_comes_back("\xEF\xBB\xBF", 3, "", 0);
    assert_comes_back("\xEF\xBB\xBF"
                      "a\nb\n",
                      7, "a\nb\n", 4);
    assert_comes_back("a\n\xEF\xBB\xBF"
                      "b",
                      6,
                      "a\n\xEF\xBB\xBF"
                      "b",
                      6);
}

/* What is given back comes again, at the start of the next window. */
static void given_back(void **state)
{
    (void)state;
    static const char text[] = "one\ntwo\nthree\nfour\n";
    struct error err = {.message = ""};
    write_path(text, strlen(text));
    for (int is_file = 0; is_file < 2; is_file++) {
        struct line_window *window = is_file
                                         ? line_window_open(path, &err)
                                         : line_window_view(text, strlen(text), "t");
        const char *part;
        size_t length;
        assert_true(line_window_next(window, 13, &part, &length, &err));
        assert_memory_equal(part + length - 4, is_file ? "two\n" : "ree\n", 4);
        assert_false(line_window_is_last(window));
        line_window_return(window, length - 4);
        assert_true(line_window_next(window, 100, &part, &length, &err));
        assert_int_equal(length, strlen(text) - 4);
        assert_memory_equal(part, text + 4, length);
        assert_true(line_window_is_last(window));
        assert_true(line_window_next(window, 100, &part, &length, &err));
        assert_int_equal(length, 0);
        line_window_close(window);
    }
}

/* A line that is longer than a window comes whole. */
static void long_lines(void **state)
{
    (void)state;
    struct str text = {0};
    for (int line = 0; line < 3; line++) {
        for (int i = 0; i < 300000; i++) {
            str_add_char(&text, (char)('a' + (i + line) % 26));
        }
        str_add(&text, "\nshort\n");
    }
    assert_comes_back(text.text, text.length, text.text, text.length);
    str_deinit(&text);
}

/* The n-th allocation fails, for all n: a message, and nothing is lost (G3). */
static void memory_that_runs_out(void **state)
{
    (void)state;
    struct str text = {0};
    for (int i = 0; i < 50000; i++) {
        str_add(&text, i % 20000 == 0 ? "\n" : "some text ");
    }
    write_path(text.text, text.length);
    bool is_done = false;
    int64_t n_failed = 0;
    while (!is_done) {
        struct error err = {.message = ""};
        const char *part;
        size_t length = 1;
        mem_fail_try_alloc(n_failed + 1);
        struct line_window *window = line_window_open(path, &err);
        is_done = window != NULL;
        while (is_done && length > 0) {
            is_done = line_window_next(window, 100, &part, &length, &err);
        }
        assert_true(is_done || err.kind == ERROR_RESOURCE);
        line_window_close(window);
        n_failed += !is_done;
    }
    mem_fail_try_alloc(0);
    assert_true(n_failed > 5); /* the buffer grew that often */
    str_deinit(&text);
}

static void missing_files_are_named(void **state)
{
    (void)state;
    struct error err;
    struct line_hash hash;
    assert_null(line_window_open("/tmp/no-such-file", &err));
    assert_non_null(strstr(err.message, "/tmp/no-such-file"));
    assert_false(line_window_hash_file("/tmp/no-such-file", &hash, &err));
    line_window_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_come_back, make_path, remove_path),
        cmocka_unit_test_setup_teardown(a_mark_is_left_out, make_path, remove_path),
        cmocka_unit_test_setup_teardown(given_back, make_path, remove_path),
        cmocka_unit_test_setup_teardown(long_lines, make_path, remove_path),
        cmocka_unit_test_setup_teardown(memory_that_runs_out, make_path, remove_path),
        cmocka_unit_test(missing_files_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
