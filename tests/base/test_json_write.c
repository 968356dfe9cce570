/*
 * Layout and escapes, against text written by serde_json (tokenizers 0.23.3) and read back
 * by jansson.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/json_write.h"
#include "base/str.h"

static void lays_out_as_serde(void **state)
{
    (void)state;
    struct str text = {0};
    struct json_write json = {.out = &text};
    json_write_begin(&json, NULL, '{');
    json_write_string(&json, "type", "Sequence");
    json_write_begin(&json, "empty", '[');
    json_write_end(&json);
    json_write_begin(&json, "list", '[');
    json_write_begin(&json, NULL, '{');
    json_write_integer(&json, "id", -3);
    json_write_bool(&json, "is", true);
    json_write_null(&json, "none");
    json_write_end(&json);
    json_write_number(&json, NULL, 0.25, 9);
    json_write_number(&json, NULL, (double)NAN, 9);
    json_write_end(&json);
    json_write_key(&json, "a\0b", 3);
    json_write_integer(&json, NULL, 1);
    json_write_end(&json);
    assert_string_equal(text.text, "{\n"
                                   "  \"type\": \"Sequence\",\n"
                                   "  \"empty\": [],\n"
                                   "  \"list\": [\n"
                                   "    {\n"
                                   "      \"id\": -3,\n"
                                   "      \"is\": true,\n"
                                   "      \"none\": null\n"
                                   "    },\n"
                                   "    0.25,\n"
                                   "    null\n"
                                   "  ],\n"
                                   "  \"a\\u0000b\": 1\n"
                                   "}");
    str_deinit(&text);
}

static void escapes_what_json_demands(void **state)
{
    (void)state;
    static const char all[] = "\x01 \b\t\n\f\r\x1f\"\\/\x7f \xe2\x96\x81";
    struct str text = {0};
    struct json_write json = {.out = &text};
    json_write_begin(&json, NULL, '[');
    json_write_text(&json, NULL, all, sizeof(all) - 1);
    json_write_end(&json);
    assert_string_equal(text.text, "[\n  \"\\u0001 \\b\\t\\n\\f\\r\\u001f\\\"\\\\/"
                                   "\x7f \xe2\x96\x81\"\n]");
    json_t *root = json_loads(text.text, 0, NULL);
    assert_string_equal(json_string_value(json_array_get(root, 0)), all);
    json_decref(root);
    str_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lays_out_as_serde),
        cmocka_unit_test(escapes_what_json_demands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
