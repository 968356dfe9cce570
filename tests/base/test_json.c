/*
 * Bounds and messages; jansson itself is not tested here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"

static json_t *parse(const char *text, struct error *err)
{
    return json_parse(text, strlen(text), "a.json", err);
}

static void good_text(void **state)
{
    (void)state;
    struct error err;
    json_t *value = parse("{\"a\": [1, 2.5, \"}}[[\\\"[\", null]}", &err);
    assert_non_null(value);
    assert_int_equal(json_array_size(json_object_get(value, "a")), 4);
    json_decref(value);
}

/* A string of a model's answer: any bytes, and none of them ends it or makes it go. */
static void any_bytes_become_a_string(void **state)
{
    (void)state;
    static const char bytes[] = "a\0b\xC3\xA9\xFF\xE2\x82";
    json_t *object = json_object();
    json_put(object, "text", json_text(bytes, sizeof(bytes) - 1));
    json_put(object, "none", json_text(NULL, 0));
    char *text = json_print(object, JSON_COMPACT);
    assert_string_equal(text, "{\"text\":\"a\\u0000b\xC3\xA9\xEF\xBF\xBD\xEF\xBF\xBD"
                              "\xEF\xBF\xBD\",\"none\":\"\"}");
    free(text);
    json_decref(object);
}

/* People count columns from 1. */
static void no_fault_is_in_column_0(void **state)
{
    (void)state;
    struct error err;
    static const char *const texts[] = {"", "{\n", "{\"a\": 1,\n\n"};
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        assert_null(parse(texts[i], &err));
        assert_non_null(strstr(err.message, "column "));
        assert_null(strstr(err.message, "column 0"));
    }
}

/* C40, G9 */
static void bad_text_is_named(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "{",
        "{\"a\": 1} x",
        "{\"a\": 1, \"a\": 2}",
        "{\"a\": 1e999}",
        "[1,]",
        "\"\\ud800\"",
        "[\"\xff\"]",
        "[\"",
        "[\"\\",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        struct error err;
        assert_null(parse(texts[i], &err));
        assert_int_equal(err.kind, ERROR_DATA);
        assert_int_equal(strncmp(err.message, "a.json: ", 8), 0);
    }
}

static json_t *parse_nested(int depth, struct error *err)
{
    struct str text = {0};
    for (int i = 0; i < depth; i++) {
        str_add_char(&text, '[');
    }
    for (int i = 0; i < depth; i++) {
        str_add_char(&text, ']');
    }
    json_t *value = json_parse(str_text(&text), text.length, "deep", err);
    str_deinit(&text);
    return value;
}

static void depth_is_bounded(void **state)
{
    (void)state;
    struct error err;
    json_t *value = parse_nested(100, &err);
    assert_non_null(value);
    json_decref(value);
    assert_null(parse_nested(101, &err));
    assert_non_null(strstr(err.message, "deeper than 100"));
    assert_null(parse_nested(100000, &err));
}

static void missing_file(void **state)
{
    (void)state;
    struct error err;
    assert_null(json_read_file("tests/no-such-file.json", 100, &err));
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
}

static void getters_say_what_they_wanted(void **state)
{
    (void)state;
    struct error err;
    json_t *value = parse("{\"s\": \"x\", \"i\": 7, \"r\": 0.5, \"b\": true, \"o\": {},"
                          " \"a\": [], \"z\": \"a\\u0000b\"}",
                          &err);
    if (value == NULL) { /* zero bytes are refused by the parser already */
        value = parse("{\"s\": \"x\", \"i\": 7, \"r\": 0.5, \"b\": true, \"o\": {},"
                      " \"a\": []}",
                      &err);
    }
    assert_non_null(value);
    int64_t integer = 0;
    double number = 0.0;
    bool truth = false;
    assert_string_equal(json_need_string(value, "s", "f", &err), "x");
    assert_true(json_need_integer(value, "i", "f", 0, 7, &integer, &err));
    assert_int_equal(integer, 7);
    assert_true(json_need_number(value, "r", "f", &number, &err));
    assert_true(number == 0.5);
    assert_true(json_need_number(value, "i", "f", &number, &err));
    assert_true(number == 7.0);
    assert_true(json_need_bool(value, "b", "f", &truth, &err));
    assert_true(truth);
    assert_non_null(json_need_object(value, "o", "f", &err));
    assert_non_null(json_need_array(value, "a", "f", &err));

    assert_null(json_need_string(value, "i", "f", &err));
    assert_string_equal(err.message, "f: \"i\" is an integer, expected a string");
    assert_false(json_need_integer(value, "i", "f", 8, 9, &integer, &err));
    assert_string_equal(err.message, "f: \"i\" is 7, expected 8 to 9");
    assert_false(json_need_integer(value, "r", "f", 0, 9, &integer, &err));
    assert_null(json_need_object(value, "none", "f", &err));
    assert_string_equal(err.message, "f: \"none\" is missing (expected an object)");
    assert_null(json_need_array(value, "o", "f", &err));
    assert_false(json_need_bool(value, "s", "f", &truth, &err));
    assert_false(json_need_number(value, "b", "f", &number, &err));
    json_decref(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_text),
        cmocka_unit_test(any_bytes_become_a_string),
        cmocka_unit_test(no_fault_is_in_column_0),
        cmocka_unit_test(bad_text_is_named),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(missing_file),
        cmocka_unit_test(getters_say_what_they_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
