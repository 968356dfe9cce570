/*
 * Values are walked, unescaped and passed over; faults get a line and a column.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "text/json_scan.h"

static struct json_scan view(const char *text)
{
    return json_scan_view(text, strlen(text), "f");
}

static void walks_nested_values(void **state)
{
    (void)state;
    struct json_scan scan = view(" { \"a\" : [1, -22 ,[ ]], \"b\":{\"c\": null} } ");
    struct json_scan_extent extent;
    struct str key = {0};
    struct error err = {.message = ""};
    bool has_more;
    int64_t number;
    assert_true(json_scan_open(&scan, '{', &err));
    assert_true(json_scan_next(&scan, '}', &has_more, &err) && has_more);
    assert_true(json_scan_key(&scan, &key, &err));
    assert_string_equal(key.text, "a");
    assert_true(json_scan_open(&scan, '[', &err));
    assert_true(json_scan_next(&scan, ']', &has_more, &err) && has_more);
    assert_true(json_scan_integer(&scan, &number, &err));
    assert_int_equal(number, 1);
    assert_true(json_scan_next(&scan, ']', &has_more, &err) && has_more);
    assert_true(json_scan_integer(&scan, &number, &err));
    assert_int_equal(number, -22);
    assert_true(json_scan_next(&scan, ']', &has_more, &err) && has_more);
    assert_true(json_scan_open(&scan, '[', &err));
    assert_true(json_scan_next(&scan, ']', &has_more, &err) && !has_more);
    assert_true(json_scan_next(&scan, ']', &has_more, &err) && !has_more);
    assert_true(json_scan_next(&scan, '}', &has_more, &err) && has_more);
    assert_true(json_scan_key(&scan, &key, &err));
    assert_true(json_scan_skip(&scan, &extent, &err));
    assert_int_equal(extent.to - extent.from, strlen("{\"c\": null}"));
    assert_true(json_scan_next(&scan, '}', &has_more, &err) && !has_more);
    assert_true(json_scan_end(&scan, &err));
    str_deinit(&key);
}

static void check_string(const char *json, const char *wanted, size_t length)
{
    struct json_scan scan = view(json);
    struct str out = {0};
    struct error err = {.message = ""};
    if (!json_scan_string(&scan, &out, &err)) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(out.length, length);
    assert_memory_equal(out.text, wanted, length);
    str_deinit(&out);
}

static void unescapes(void **state)
{
    (void)state;
    check_string("\"\"", "", 0);
    check_string(" \"a\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "a\"\\/\b\f\n\r\t", 9);
    check_string("\"\\u0041\\u00e9\\u2581\\uD83D\\ude0a\"",
                 "A\xc3\xa9\xe2\x96\x81\xf0\x9f\x98\x8a", 10);
    check_string("\"x\\u0000y\"", "x\0y", 3);
    check_string("\"\xe2\x96\x81\"", "\xe2\x96\x81", 3);
}

static void assert_bad_string(const char *json, const char *why)
{
    struct json_scan scan = view(json);
    struct str out = {0};
    struct error err = {.message = ""};
    assert_false(json_scan_string(&scan, &out, &err));
    if (strstr(err.message, why) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.message, why);
    }
    str_deinit(&out);
}

static void refuses_broken_strings(void **state)
{
    (void)state;
    assert_bad_string("\"abc", "f:1:5: a string does not end");
    assert_bad_string("\"ab\\", "unknown escape");
    assert_bad_string("\"\\x\"", "f:1:3: unknown escape");
    assert_bad_string("\"\\u12g4\"", "four hex digits");
    assert_bad_string("\"\\ud800\"", "surrogate");
    assert_bad_string("\"\\ud800\\u0041\"", "surrogate");
    assert_bad_string("\"\\udc00\"", "surrogate");
    assert_bad_string("\"\xff\"", "not valid UTF-8");
    assert_bad_string("\n\n \"a\nb\"", "f:3:4: a control character");
    assert_bad_string("12", "f:1:1: expected a string");
}

static void assert_cannot_skip(const char *json, const char *why)
{
    struct json_scan scan = view(json);
    struct json_scan_extent extent;
    struct error err = {.message = ""};
    assert_false(json_scan_skip(&scan, &extent, &err));
    if (strstr(err.message, why) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.message, why);
    }
}

static void bounds(void **state)
{
    (void)state;
    char deep[300];
    memset(deep, '[', sizeof(deep));
    deep[sizeof(deep) - 1] = '\0';
    assert_cannot_skip(deep, "nested deeper than 100");
    assert_cannot_skip("[1, 2", "ends inside");
    assert_cannot_skip("", "expected a value");
    assert_cannot_skip("]", "expected a value");
    assert_cannot_skip("[\"a\\\"", "does not end");
    struct json_scan scan = view("1.5");
    struct error err = {.message = ""};
    int64_t number;
    assert_false(json_scan_integer(&scan, &number, &err));
    scan = view("1234567890123456789");
    assert_false(json_scan_integer(&scan, &number, &err));
    scan = view("-");
    assert_false(json_scan_integer(&scan, &number, &err));
    scan = view("1 2");
    assert_true(json_scan_integer(&scan, &number, &err));
    assert_false(json_scan_end(&scan, &err));
}

static void commas(void **state)
{
    (void)state;
    static const char *const bad[] = {"[1,]", "[,1]", "[1 2]", "[1,,2]", "[1"};
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        struct json_scan scan = view(bad[i]);
        struct error err = {.message = ""};
        bool has_more = true;
        int64_t number;
        assert_true(json_scan_open(&scan, '[', &err));
        bool is_fine = true;
        while (is_fine && has_more) {
            is_fine = json_scan_next(&scan, ']', &has_more, &err) &&
                      (!has_more || json_scan_integer(&scan, &number, &err));
        }
        assert_false(is_fine);
        assert_true(err.message[0] != '\0');
    }
}

static void an_inner_reader_counts_lines_from_the_start(void **state)
{
    (void)state;
    struct json_scan scan = view("{\"a\":\n [1,\n  x]}");
    struct json_scan_extent extent = {.from = 7, .to = 16};
    struct json_scan inner = json_scan_within(&scan, extent);
    struct error err = {.message = ""};
    bool has_more;
    int64_t number;
    assert_true(json_scan_open(&inner, '[', &err));
    assert_true(json_scan_next(&inner, ']', &has_more, &err));
    assert_true(json_scan_integer(&inner, &number, &err));
    assert_true(json_scan_next(&inner, ']', &has_more, &err));
    assert_false(json_scan_integer(&inner, &number, &err));
    assert_string_equal(err.message, "f:3:3: expected an integer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_nested_values),
        cmocka_unit_test(unescapes),
        cmocka_unit_test(refuses_broken_strings),
        cmocka_unit_test(bounds),
        cmocka_unit_test(commas),
        cmocka_unit_test(an_inner_reader_counts_lines_from_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
