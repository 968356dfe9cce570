/*
 * What the reader takes and what it refuses, each fault named; what the writer writes
 * reads back (G9; the attack files of the format's own security review are among the
 * faults).
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
#include "base/file.h"
#include "base/mem.h"
#include "formats/safetensors.h"

/* A file in memory: this header, then n_data bytes counting up. */
static unsigned char *make_file(const char *header, size_t n_data, size_t *length)
{
    const size_t n = strlen(header);
    *length = 8 + n + n_data;
    unsigned char *bytes = malloc(*length); /* its end is guarded in sanitizer runs */
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(n >> (8 * i));
    }
    memcpy(bytes + 8, header, n);
    for (size_t i = 0; i < n_data; i++) {
        bytes[8 + n + i] = (unsigned char)i;
    }
    return bytes;
}

static void assert_refused(const char *header, size_t n_data, const char *why)
{
    size_t length;
    struct error err = {.message = ""};
    unsigned char *bytes = make_file(header, n_data, &length);
    assert_null(safetensors_view(bytes, length, "f.safetensors", &err));
    if (strstr(err.message, why) == NULL ||
        strstr(err.message, "f.safetensors") == NULL) {
        fail_msg("\"%s\" does not say \"%s\" and the file", err.message, why);
    }
    assert_int_equal(err.kind, ERROR_DATA);
    free(bytes);
}

static void test_reads_what_is_there(void **state)
{
    (void)state;
    size_t length;
    struct error err;
    unsigned char *bytes = make_file(
        "{\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[16,19]},"
        "\"__metadata__\":{\"format\":\"pt\",\"n\":\"1\"},"
        "\"none\":{\"dtype\":\"F16\",\"shape\":[0,7],\"data_offsets\":[19,19]},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
        "\"one\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[19,21]}}  ",
        21, &length);
    struct safetensors *file = safetensors_view(bytes, length, "f", &err);
    assert_non_null(file);
    assert_int_equal(safetensors_count(file), 4);
    const struct tensor_view *a = safetensors_find(file, "a");
    assert_ptr_equal(safetensors_at(file, 0), a);
    assert_int_equal(a->dtype, DTYPE_F32);
    assert_int_equal(a->rank, 2);
    assert_int_equal(a->dim[1], 2);
    assert_int_equal(a->n_bytes, 16);
    assert_int_equal(safetensors_find(file, "b")->bytes[2], 18);
    assert_int_equal(safetensors_find(file, "one")->n_bytes, 2);
    assert_int_equal(safetensors_find(file, "none")->n_bytes, 0);
    assert_null(safetensors_find(file, "c"));
    assert_null(safetensors_find(file, "__metadata__"));
    assert_string_equal(safetensors_metadata(file, "n"), "1");
    assert_null(safetensors_metadata(file, "m"));
    safetensors_close(file);
    free(bytes);
}

#define ENTRY(name, shape, begin, end)                                             \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" begin \
    "," end "]}"

/* Each rule of the format that keeps a reader inside of the file, or data from being
 * hidden in it, broken alone. */
static void test_rule_header_is_json(void **state)
{
    (void)state;
    assert_refused("[]", 0, "no JSON object");
    assert_refused("{", 0, "JSON");
    assert_refused("{" ENTRY("a", "[1]", "0", "4") "}x", 4, "JSON");
    assert_refused("{\"a\":{\"dtype\":\"F4\",\"shape\":[],\"data_offsets\":[0,4]}}", 4,
                   "dtype F4");
    assert_refused("{\"a\":{\"shape\":[],\"data_offsets\":[0,4]}}", 4, "a: dtype");
    assert_refused("{\"a\":7}", 0, "a: dtype");
    assert_refused("{\"__metadata__\":{\"a\":7}}", 0, "is no string");
    assert_refused("{\"__metadata__\":[]}", 0, "__metadata__");
}

static void test_rule_no_duplicate_keys(void **state)
{
    (void)state;
    assert_refused("{" ENTRY("a", "[1]", "0", "4") "," ENTRY("a", "[1]", "4", "8") "}",
                   8, "duplicate");
    assert_refused(
        "{" ENTRY("a", "[1]", "0", "4") "," ENTRY("\\u0061", "[1]", "4", "8") "}", 8,
        "duplicate");
    assert_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"shape\":[1],"
                   "\"data_offsets\":[0,4]}}",
                   4, "duplicate");
}

static void test_rule_no_hole(void **state)
{
    (void)state;
    assert_refused("{" ENTRY("a", "[1]", "4", "8") "}", 8, "leaving a hole");
    assert_refused("{" ENTRY("a", "[1]", "0", "4") "," ENTRY("b", "[1]", "8", "12") "}",
                   12, "b begins at 8");
    /* An empty tensor fills none. */
    assert_refused("{" ENTRY("a", "[0]", "2", "2") "," ENTRY("b", "[1]", "4", "8") "}",
                   8, "leaving a hole");
}

static void test_rule_no_overlap(void **state)
{
    (void)state;
    assert_refused("{" ENTRY("a", "[2]", "0", "8") "," ENTRY("b", "[2]", "4", "12") "}",
                   12, "inside");
    assert_refused("{" ENTRY("a", "[2]", "0", "8") "," ENTRY("b", "[2]", "0", "8") "}",
                   8, "inside");
    assert_refused("{" ENTRY("a", "[2]", "0", "8") "," ENTRY("b", "[0]", "4", "4") "}",
                   8, "inside");
}

static void test_rule_nothing_behind_the_end(void **state)
{
    (void)state;
    assert_refused("{" ENTRY("a", "[1]", "0", "4") "}", 5, "the file has 5 bytes");
    assert_refused("{}", 1, "the file has 1 bytes");
}

static void test_rule_offsets_in_range(void **state)
{
    (void)state;
    assert_refused("{" ENTRY("a", "[2]", "0", "8") "}", 7, "a lies at 0 to 8");
    assert_refused("{" ENTRY("a", "[1]", "4", "0") "}", 4, "a lies at 4 to 0");
    assert_refused("{" ENTRY("a", "[1]", "-4", "0") "}", 4, "no pair of sizes");
    assert_refused("{" ENTRY("a", "[1]", "0", "4.0") "}", 4, "no pair of sizes");
    assert_refused(
        "{" ENTRY("a", "[1]", "9223372036854775804", "9223372036854775807") "}", 4,
        "a lies at");
    assert_refused("{" ENTRY("a", "[1]", "0", "99999999999999999999") "}", 4,
                   "integer");
}

static void test_rule_dtype_times_shape_is_bytes(void **state)
{
    (void)state;
    assert_refused("{" ENTRY("a", "[2]", "0", "4") "}", 4, "need 8");
    assert_refused("{" ENTRY("a", "[]", "0", "8") "}", 8, "need 4");
    assert_refused("{" ENTRY("a", "[-1]", "0", "4") "}", 4, "no size at 0");
    assert_refused("{" ENTRY("a", "[1.0]", "0", "4") "}", 4, "no size at 0");
    assert_refused("{" ENTRY("a", "1", "0", "4") "}", 4, "shape");
    assert_refused("{" ENTRY("a", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4, "shape");
    /* 2^62 * 4 elements of 4 bytes wrap to 0; 2^62 of 4 bytes to 0 as well */
    assert_refused("{" ENTRY("a", "[4611686018427387904,4]", "0", "0") "}", 0,
                   "too large");
    assert_refused("{" ENTRY("a", "[4611686018427387904]", "0", "0") "}", 0,
                   "too large");
}

static void test_rule_header_at_most_100_mb(void **state)
{
    (void)state;
    struct error err;
    assert_null(safetensors_view("", 0, "f", &err));
    assert_null(safetensors_view("\1\0\0\0\0\0\0", 7, "f", &err));
    assert_null(safetensors_view("\2\0\0\0\0\0\0\0{", 9, "f", &err));
    assert_non_null(strstr(err.message, "cut short"));
    /* 100 MB and one byte; and a length that wraps */
    assert_null(safetensors_view("\1\xE1\xF5\5\0\0\0\0{}", 10, "f", &err));
    assert_non_null(strstr(err.message, "header of 100000001"));
    /* 100 MB are allowed: this one is only not there. */
    assert_null(safetensors_view("\0\xE1\xF5\5\0\0\0\0{}", 10, "f", &err));
    assert_non_null(strstr(err.message, "cut short"));
    assert_null(safetensors_view("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF{}", 10, "f", &err));
    assert_non_null(strstr(err.message, "not a safetensors file"));
}

static void test_every_cut_is_refused(void **state)
{
    (void)state;
    size_t length;
    unsigned char *bytes =
        make_file("{" ENTRY("a", "[2]", "0", "8") "," ENTRY("b", "[1]", "8", "12") "}",
                  12, &length);
    for (size_t cut = 0; cut <= length; cut++) {
        struct error err;
        unsigned char *part = malloc(cut + 1);
        memcpy(part, bytes, cut);
        struct safetensors *file = safetensors_view(part, cut, "f", &err);
        assert_int_equal(file != NULL, cut == length);
        safetensors_close(file);
        free(part);
    }
    free(bytes);
}

static void test_written_file_reads_back(void **state)
{
    (void)state;
    char folder[] = "/tmp/test_safetensors-XXXXXX";
    assert_non_null(mkdtemp(folder));
    char *path = file_join(folder, "x.safetensors");
    struct error err;
    const float a[6] = {1, 2, 3, 4, 5, 6};
    const int32_t b = 7;
    const struct safetensors_entry entries[] = {
        {.name = "z", .dtype = DTYPE_F32, .rank = 2, .dim = {2, 3}},
        {.name = "none", .dtype = DTYPE_F16, .rank = 1, .dim = {0}},
        {.name = "a", .dtype = DTYPE_I32, .rank = 0},
    };
    const struct safetensors_note note = {"step", "12"};
    struct safetensors_writer *writer =
        safetensors_writer_open(path, entries, 3, &note, 1, &err);
    assert_non_null(writer);
    assert_true(safetensors_writer_add(writer, a, 10, &err));
    assert_true(safetensors_writer_add(writer, (const char *)a + 10, 14, &err));
    assert_true(safetensors_writer_add(writer, &b, 4, &err));
    assert_false(file_exists(path));
    assert_true(safetensors_writer_commit(writer, &err));

    struct safetensors *file = safetensors_open(path, &err);
    assert_non_null(file);
    assert_int_equal(safetensors_count(file), 3);
    assert_memory_equal(safetensors_find(file, "z")->bytes, a, sizeof(a));
    assert_int_equal((uintptr_t)safetensors_find(file, "z")->bytes % 8, 0);
    assert_memory_equal(safetensors_find(file, "a")->bytes, &b, sizeof(b));
    assert_string_equal(safetensors_metadata(file, "format"), "pt");
    assert_string_equal(safetensors_metadata(file, "step"), "12");
    safetensors_drop(file, safetensors_find(file, "z"), 0, sizeof(a));
    assert_memory_equal(safetensors_find(file, "z")->bytes, a, sizeof(a));
    safetensors_close(file);

    writer = safetensors_writer_open(path, entries, 3, NULL, 0, &err);
    assert_non_null(writer);
    safetensors_writer_abort(writer);
    file = safetensors_open(path, &err); /* the old one is still there */
    assert_non_null(file);
    safetensors_close(file);
    assert_true(file_remove_tree(folder, &err));
    assert_null(safetensors_open(path, &err));
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    mem_free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_what_is_there),
        cmocka_unit_test(test_rule_header_is_json),
        cmocka_unit_test(test_rule_header_at_most_100_mb),
        cmocka_unit_test(test_rule_no_duplicate_keys),
        cmocka_unit_test(test_rule_no_hole),
        cmocka_unit_test(test_rule_no_overlap),
        cmocka_unit_test(test_rule_nothing_behind_the_end),
        cmocka_unit_test(test_rule_offsets_in_range),
        cmocka_unit_test(test_rule_dtype_times_shape_is_bytes),
        cmocka_unit_test(test_every_cut_is_refused),
        cmocka_unit_test(test_written_file_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
