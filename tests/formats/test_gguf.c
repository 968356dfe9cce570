/*
 * What the GGUF reader takes and what it refuses, each fault named (G9); and, with
 * LATHE_TEST_ALL, the real Gemma 3 270M against recorded sums of every tensor.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "formats/gguf.h"
#include "support/gguf_build.h"

/* A file with these parts; whatever is in them. */
static struct gguf *view_file(const struct gguf_build *build, struct error *err)
{
    struct str file = {0};
    gguf_build_finish(build, &file);
    unsigned char *bytes =
        malloc(file.length); /* its end is guarded in sanitizer runs */
    memcpy(bytes, file.text, file.length);
    struct gguf *gguf = gguf_view(bytes, file.length, "f.gguf", err);
    str_deinit(&file);
    if (gguf == NULL) {
        free(bytes);
    }
    return gguf;
}

static void assert_refused(struct gguf_build *build, const char *why)
{
    struct error err = {.message = ""};
    assert_null(view_file(build, &err));
    if (strstr(err.message, why) == NULL || strstr(err.message, "f.gguf") == NULL) {
        fail_msg("\"%s\" does not say \"%s\" and the file", err.message, why);
    }
    gguf_build_deinit(build);
}

static void test_reads_the_seed_with_every_type(void **state)
{
    (void)state;
    struct error err;
    struct gguf *file = gguf_open("fuzz/seeds/fuzz_gguf/types", &err);
    assert_non_null(file);
    int64_t integer;
    double number;
    bool flag;
    size_t n;
    assert_string_equal(gguf_string(file, "general.architecture", &err), "gemma3");
    assert_true(gguf_integer(file, "a.u8", &integer, &err));
    assert_int_equal(integer, 1);
    assert_true(gguf_integer(file, "a.i8", &integer, &err));
    assert_int_equal(integer, -1);
    assert_true(gguf_integer(file, "a.u16", &integer, &err));
    assert_int_equal(integer, 0x201);
    assert_true(gguf_integer(file, "a.i64", &integer, &err));
    assert_int_equal(integer, -7);
    assert_true(gguf_float(file, "a.f32", &number, &err));
    assert_true(number == 1.5);
    assert_true(gguf_float(file, "a.f64", &number, &err));
    assert_true(number == 2.5);
    assert_true(gguf_bool(file, "a.bool", &flag, &err));
    assert_true(flag);
    const struct gguf_text *texts = gguf_texts(file, "tokens", &n, &err);
    assert_int_equal(n, 3);
    assert_int_equal(texts[1].length, 0);
    assert_memory_equal(texts[2].bytes, "bc", 2);
    assert_true(gguf_floats(file, "scores", &n, &err)[1] == 2.0f);
    assert_int_equal(gguf_integers(file, "types", &n, &err)[1], -2);
    assert_int_equal(n, 2);
    assert_int_equal(gguf_n_keys(file), 17);
    assert_string_equal(gguf_key_at(file, 1), "a.u8");

    assert_int_equal(gguf_n_tensors(file), 4);
    const struct gguf_tensor *w = gguf_find(file, "w");
    assert_int_equal(w->type, QUANT_Q8_0);
    assert_int_equal(w->ne[0], 32);
    assert_int_equal(w->ne[1], 2);
    assert_int_equal(w->n_bytes, 68);
    assert_ptr_equal(gguf_find(file, "n")->bytes - w->bytes, 128);
    assert_null(gguf_find(file, "x"));
    gguf_close(file);
}

static void test_getters_name_the_key(void **state)
{
    (void)state;
    struct error err;
    struct gguf *file = gguf_open("fuzz/seeds/fuzz_gguf/types", &err);
    int64_t integer;
    size_t n;
    assert_false(gguf_integer(file, "absent", &integer, &err));
    assert_non_null(strstr(err.message, "absent is missing"));
    assert_false(gguf_integer(file, "a.f32", &integer, &err));
    assert_non_null(strstr(err.message, "a.f32 is of type f32, expected an integer"));
    assert_null(gguf_string(file, "tokens", &err));
    assert_non_null(strstr(err.message, "tokens is of type array of string"));
    assert_null(gguf_floats(file, "types", &n, &err));
    assert_non_null(strstr(err.message, "expected array of f32"));
    assert_null(gguf_integers(file, "bytes", &n, &err));
    assert_false(gguf_has(file, "absent"));
    gguf_close(file);
}

static void test_refuses_damaged_tensors(void **state)
{
    (void)state;
    struct gguf_build build = {0};
    gguf_build_raw_tensor(&build, "a", 1, (const int64_t[]){8}, QUANT_F32, 32, 32);
    assert_refused(&build, "a: 32 bytes at 32");
    gguf_build_raw_tensor(&build, "a", 1, (const int64_t[]){8}, QUANT_F32, 1, 64);
    assert_refused(&build, "a: 32 bytes at 1 ");
    gguf_build_raw_tensor(&build, "a", 1, (const int64_t[]){8}, QUANT_F32, 0, 32);
    gguf_build_raw_tensor(&build, "b", 1, (const int64_t[]){8}, QUANT_F32, 0, 32);
    assert_refused(&build, "overlap");
    gguf_build_raw_tensor(&build, "a", 1, (const int64_t[]){8}, QUANT_F32, 0, 32);
    gguf_build_raw_tensor(&build, "a", 1, (const int64_t[]){8}, QUANT_F32, 32, 32);
    assert_refused(&build, "tensor a is there twice");
    gguf_build_raw_tensor(&build, "a", 1, (const int64_t[]){8}, (enum quant_type)2, 0,
                          32);
    assert_refused(&build, "tensor a has type number 2");
    gguf_build_raw_tensor(&build, "a", 1, (const int64_t[]){33}, QUANT_Q8_0, 0, 68);
    assert_refused(&build, "a has an impossible shape");
    gguf_build_raw_tensor(&build, "a", 1, (const int64_t[]){0}, QUANT_F32, 0, 0);
    assert_refused(&build, "a has an impossible shape");
    gguf_build_raw_tensor(&build, "a", 2, (const int64_t[]){INT64_MAX, 4}, QUANT_F32, 0,
                          0);
    assert_refused(&build, "a has an impossible shape");
    gguf_build_raw_tensor(&build, "a", 5, (const int64_t[]){1, 1, 1, 1, 1}, QUANT_F32,
                          0, 4);
    assert_refused(&build, "a has 5 dimensions");
}

static void test_refuses_damaged_keys(void **state)
{
    (void)state;
    struct gguf_build build = {0};
    gguf_build_integer(&build, "k", 1);
    gguf_build_integer(&build, "k", 2);
    assert_refused(&build, "key k is there twice");
    gguf_build_key(&build, "k", 13);
    assert_refused(&build, "k has type 13");
    gguf_build_integer(&build, "general.alignment", 24);
    assert_refused(&build, "alignment is 24");
    gguf_build_key(&build, "k", 9);
    gguf_build_u32(&build.keys, 9); /* array of arrays */
    gguf_build_u64(&build.keys, 0);
    assert_refused(&build, "array of type 9");
    gguf_build_key(&build, "k", 9);
    gguf_build_u32(&build.keys, 8);
    gguf_build_u64(&build.keys, UINT64_MAX / 8); /* far more than the file has */
    assert_refused(&build, "cut short or damaged in k");
    gguf_build_key(&build, "k", 8);
    gguf_build_u64(&build.keys, UINT64_MAX);
    assert_refused(&build, "cut short or damaged in k");
    build.n_keys = UINT64_MAX / 2;
    assert_refused(&build, "number of keys");
    build.n_tensors = UINT64_MAX / 2;
    assert_refused(&build, "number of tensors");
}

static void test_every_cut_is_refused(void **state)
{
    (void)state;
    struct error err;
    size_t length;
    char *bytes = file_read("fuzz/seeds/fuzz_gguf/types", 1 << 20, &length, &err);
    assert_non_null(bytes);
    for (size_t cut = 0; cut <= length; cut++) {
        unsigned char *part = malloc(cut + 1);
        memcpy(part, bytes, cut);
        struct gguf *file = gguf_view(part, cut, "f", &err);
        assert_int_equal(file != NULL, cut == length);
        gguf_close(file);
        free(part);
    }
    assert_null(gguf_view("GGUF\2\0\0\0", 8, "f", &err));
    assert_non_null(strstr(err.message, "version 2"));
    assert_null(gguf_view("GGML\3\0\0\0", 8, "f", &err));
    assert_non_null(strstr(err.message, "not a GGUF file"));
    mem_free(bytes);
}

/* Sum and L2 of every tensor, as the reference dequantises it. */
static void check_real_tensor(const struct gguf *file, const char *name, json_t *entry)
{
    const struct gguf_tensor *tensor = gguf_find(file, name);
    assert_non_null(tensor);
    const json_t *type = json_object_get(entry, "type");
    assert_string_equal(quant_name(tensor->type), json_string_value(type));
    const size_t n_row = (size_t)tensor->ne[0];
    const size_t row_bytes =
        n_row / quant_block_elements(tensor->type) * quant_block_bytes(tensor->type);
    float *row = mem_alloc_array(n_row, sizeof(*row));
    long double sum = 0;
    long double squares = 0;
    for (size_t i = 0; i < (size_t)tensor->ne[1]; i++) {
        quant_to_f32(tensor->type, tensor->bytes + i * row_bytes, row, n_row);
        for (size_t j = 0; j < n_row; j++) {
            sum += (long double)row[j];
            squares += (long double)row[j] * (long double)row[j];
            if (i == 0 && j < 8) {
                json_t *first = json_object_get(entry, "first8");
                const double value = json_number_value(json_array_get(first, j));
                assert_true(row[j] == (float)value);
            }
        }
    }
    const double l2 = json_number_value(json_object_get(entry, "l2"));
    const double total = json_number_value(json_object_get(entry, "sum"));
    assert_true(fabs((double)sqrtl(squares) - l2) <= 1e-13 * l2);
    assert_true(fabs((double)sum - total) <= 1e-12 * (l2 + fabs(total)));
    mem_free(row);
}

static void test_real_gemma3_270m(void **state)
{
    (void)state;
    const char *path = "models/gemma-3-270m.gguf";
    if (getenv("LATHE_TEST_ALL") == NULL || !file_exists(path)) {
        print_message("needs LATHE_TEST_ALL and %s (tools/get-gemma3-270m)\n", path);
        skip();
    }
    struct error err;
    struct gguf *file = gguf_open(path, &err);
    assert_non_null(file);
    json_t *root =
        json_read_file("tests/golden/gemma3-270m/tensors.json", 1 << 20, &err);
    assert_non_null(root);
    json_t *tensors = json_object_get(root, "tensors");
    assert_int_equal(json_object_size(tensors), gguf_n_tensors(file));
    const char *name;
    json_t *entry;
    json_object_foreach(tensors, name, entry)
    {
        check_real_tensor(file, name, entry);
    }
    json_decref(root);
    gguf_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_the_seed_with_every_type),
        cmocka_unit_test(test_getters_name_the_key),
        cmocka_unit_test(test_refuses_damaged_tensors),
        cmocka_unit_test(test_refuses_damaged_keys),
        cmocka_unit_test(test_every_cut_is_refused),
        cmocka_unit_test(test_real_gemma3_270m),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
