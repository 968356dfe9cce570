/*
 * rule_cases - reads types from text, asks infer, compares as text.
 */
#include "support/rule_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "graph/infer.h"

enum { MAX_OPERANDS = 8 };

static struct placement parse_placement(const char *text)
{
    struct placement placement = placement_same();
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        char key[16];
        snprintf(key, sizeof(key), "%s: ", mesh_axis_name(axis));
        const char *at = strstr(text, key);
        if (at == NULL) {
            continue;
        }
        at += strlen(key);
        if (str_starts_with(at, "partial")) {
            placement = placement_with(placement, axis, PLACE_PARTIAL, 0);
        } else {
            assert_true(str_starts_with(at, "split "));
            placement = placement_with(placement, axis, PLACE_SPLIT,
                                       atoi(at + strlen("split ")));
        }
    }
    return placement;
}

struct type rule_cases_type(const char *text)
{
    struct type type = {.dtype = DTYPE_F32};
    const char *open = strchr(text, '[');
    assert_non_null(open);
    char name[16] = "";
    memcpy(name, text, (size_t)(open - text));
    assert_true(dtype_from_name(name, &type.dtype));
    const char *at = open + 1;
    while (*at != ']') {
        char *end = NULL;
        type.shape.dim[type.shape.rank++] = strtoll(at, &end, 10);
        assert_ptr_not_equal(end, at);
        at = *end == ',' ? end + 1 : end;
    }
    type.placement = parse_placement(at);
    char written[192];
    assert_string_equal(type_format(written, &type), text); /* nothing overlooked */
    return type;
}

static int parse_operands(const char *text, struct type types[MAX_OPERANDS])
{
    int n = 0;
    while (*text != '\0') {
        const char *end = strstr(text, "; ");
        const size_t length = end == NULL ? strlen(text) : (size_t)(end - text);
        char one[192] = "";
        assert_true(length < sizeof(one) && n < MAX_OPERANDS);
        memcpy(one, text, length);
        types[n++] = rule_cases_type(one);
        text += length + (end == NULL ? 0 : 2);
    }
    return n;
}

static void check_case(const struct mesh *mesh, const struct rule_case *rule_case,
                       size_t index)
{
    struct type operands[MAX_OPERANDS];
    struct type results[INFER_MAX_OUTPUTS];
    struct infer infer = {
        .mesh = mesh,
        .op = rule_case->op,
        .inputs = operands,
        .n_inputs = parse_operands(rule_case->operands, operands),
        .attributes = &rule_case->attributes,
        .outputs = results,
    };
    struct error error = {0};
    struct str got = {0};
    const char *wanted = rule_case->expected;
    bool fits = false;
    if (infer_types(&infer, &error)) {
        for (int i = 0; i < infer.n_outputs; i++) {
            char type[192];
            str_printf(&got, "%s%s", i == 0 ? "" : "; ",
                       type_format(type, &results[i]));
        }
        fits = strcmp(str_text(&got), wanted) == 0;
    } else {
        str_printf(&got, "!%s", error.message);
        fits = wanted[0] == '!' && strstr(error.message, wanted + 1) != NULL;
        /* Every message names the op and its operands. */
        char start[192];
        snprintf(start, sizeof(start), "%s(", op_name(rule_case->op));
        fits = fits && str_starts_with(error.message, start);
    }
    if (!fits) {
        print_error("case %zu, %s(%s):\n  wanted %s\n  got    %s\n", index,
                    op_name(rule_case->op), rule_case->operands, wanted,
                    str_text(&got));
    }
    str_deinit(&got);
    assert_true(fits);
}

void rule_cases_check(const struct mesh *mesh, const struct rule_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        check_case(mesh, &cases[i], i);
    }
}
