/*
 * Models opened, checked against the parameter table, read by rows, written and read
 * again.
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
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "formats/safetensors.h"
#include "model/config.h"
#include "model/params.h"
#include "model/random_init.h"
#include "model/weights.h"
#include "model/weights_parts.h"
#include "support/gguf_build.h"
#include "support/gguf_model.h"

static const char *const e2b = "tests/golden/gemma4-e2b-tiny";
static const char *const nested = "tests/golden/gemma4-e2b-tiny-nested";

static char folder[64]; /* a fresh one for each test */
static struct model_config config;
static struct params *params;
static struct error err;

static int setup(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/test_weights-XXXXXX");
    if (mkdtemp(folder) == NULL || !model_config_read(e2b, &config, &err)) {
        return -1;
    }
    params = params_create(&config);
    err = (struct error){.message = ""};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    params_destroy(params);
    return file_remove_tree(folder, &err) ? 0 : -1;
}

static void assert_says(const char *part)
{
    if (strstr(err.message, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.message, part);
    }
}

/* All values of a parameter; free with mem_free. */
static float *read_all(const struct weights *weights, int i)
{
    const struct param_info *info = &params->info[i];
    float *values = mem_alloc_array((size_t)info->n_elements, sizeof(*values));
    assert_true(weights_read(weights, i, 0, info->dim[0], values, &err));
    return values;
}

static void assert_same_values(const struct weights *a, const struct weights *b)
{
    for (int i = 0; i < params->n; i++) {
        float *x = read_all(a, i);
        float *y = read_all(b, i);
        assert_memory_equal(x, y, (size_t)params->info[i].n_elements * sizeof(*x));
        mem_free(x);
        mem_free(y);
    }
}

/* What is logged while weights_open runs; free it. */
static struct weights *open_with_log(const char *path, char **text)
{
    size_t length;
    FILE *file = open_memstream(text, &length);
    log_set_file(file);
    struct weights *weights = weights_open(path, &config, params, &err);
    log_set_file(NULL);
    fclose(file);
    return weights;
}

static void test_rows_are_parts_of_the_whole(void **state)
{
    (void)state;
    struct weights *weights = weights_open(e2b, &config, params, &err);
    assert_non_null(weights);
    assert_false(weights_is_gguf(weights));
    for (int i = 0; i < params->n; i++) {
        const struct param_info *info = &params->info[i];
        float *whole = read_all(weights, i);
        float part[2048];
        assert_true(info->dim[1] <= 2048);
        const int64_t last = info->dim[0] - 1;
        assert_true(weights_read(weights, i, last, 1, part, &err));
        assert_memory_equal(part, whole + last * info->dim[1],
                            (size_t)info->dim[1] * sizeof(float));
        assert_string_equal(weights_type_name(weights, i), "f32");
        mem_free(whole);
    }
    weights_close(weights);
    weights_close(NULL);
}

/* The published layout: text_config, another prefix, shards, tensors to skip. */
static void test_nested_layout_is_the_same_model(void **state)
{
    (void)state;
    char *text;
    struct weights *a = weights_open(e2b, &config, params, &err);
    struct weights *b = open_with_log(nested, &text);
    assert_non_null(a);
    assert_non_null(b);
    assert_same_values(a, b);
    /* One line for towers and the K and V that layers 5 to 9 do not use (C8). */
    assert_non_null(strstr(text, "17 tensor(s) skipped"));
    assert_null(strstr(text, "warning"));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    free(text);
    weights_close(a);
    weights_close(b);
}

/* One tensor in the files written below. */
struct tensor {
    const char *name;
    int64_t dim[2];
    int rank;
};

enum { MOST_TENSORS = 200 };

/* The tensors of the model under their own names; returns how many. */
static size_t list_tensors(struct tensor *tensors)
{
    for (int i = 0; i < params->n; i++) {
        const struct param_info *info = &params->info[i];
        tensors[i] =
            (struct tensor){info->name, {info->dim[0], info->dim[1]}, info->rank};
    }
    return (size_t)params->n;
}

/* folder/file with these tensors, all zeros. */
static void write_file(const char *file, const struct tensor *tensors, size_t n)
{
    static struct safetensors_entry entries[MOST_TENSORS];
    size_t n_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        entries[i] =
            (struct safetensors_entry){.name = tensors[i].name,
                                       .dtype = DTYPE_BF16,
                                       .rank = tensors[i].rank,
                                       .dim = {tensors[i].dim[0], tensors[i].dim[1]}};
        n_bytes += 2 * (size_t)(tensors[i].dim[0] *
                                (tensors[i].rank > 1 ? tensors[i].dim[1] : 1));
    }
    char *path = file_join(folder, file);
    struct safetensors_writer *writer =
        safetensors_writer_open(path, entries, n, NULL, 0, &err);
    void *zeros = mem_alloc(n_bytes);
    assert_non_null(writer);
    assert_true(safetensors_writer_add(writer, zeros, n_bytes, &err));
    assert_true(safetensors_writer_commit(writer, &err));
    mem_free(zeros);
    mem_free(path);
}

static void write_text(const char *file, const char *text)
{
    char *path = file_join(folder, file);
    assert_true(file_write_atomic(path, text, strlen(text), &err));
    mem_free(path);
}

static void assert_open_fails(const char *why)
{
    err.message[0] = '\0';
    assert_null(weights_open(folder, &config, params, &err));
    assert_says(why);
}

static void test_faults_of_one_file(void **state)
{
    (void)state;
    struct tensor tensors[MOST_TENSORS];
    size_t n = list_tensors(tensors);
    assert_open_fails("no model.safetensors or model.safetensors.index.json");
    assert_int_equal(err.kind, ERROR_NOT_FOUND);

    write_file("model.safetensors", tensors, n - 1);
    assert_open_fails("tensor model.norm.weight is missing (expected shape [64])");
    write_file("model.safetensors", tensors, n - 3);
    assert_open_fails(
        "tensor model.layers.9.post_per_layer_input_norm.weight is missing "
        "(expected shape [64]), and 2 more");
    assert_int_equal(err.kind, ERROR_DATA);

    tensors[0].dim[0]--;
    write_file("model.safetensors", tensors, n);
    assert_open_fails(
        "model.embed_tokens.weight has shape [255, 64], expected [256, 64]");
    tensors[0].dim[0]++;
    tensors[n - 1].rank = 2;
    tensors[n - 1].dim[1] = 1;
    write_file("model.safetensors", tensors, n);
    assert_open_fails("model.norm.weight has shape [64, 1], expected [64]");
    tensors[n - 1].rank = 1;

    tensors[n] = tensors[n - 1];
    tensors[n].name = "model.language_model.norm.weight";
    write_file("model.safetensors", tensors, n + 1);
    assert_open_fails("tensor model.norm.weight is there twice");
}

static void test_extra_tensors_are_one_warning(void **state)
{
    (void)state;
    struct tensor tensors[MOST_TENSORS];
    size_t n = list_tensors(tensors);
    tensors[n++] = (struct tensor){"lm_head.weight", {256, 64}, 2};
    tensors[n++] = (struct tensor){"model.layers.9.self_attn.k_proj.weight", {3}, 1};
    tensors[n++] = (struct tensor){"model.layers.4.self_attn.bias", {3}, 1};
    tensors[n++] = (struct tensor){"model.more", {3}, 1};
    tensors[n++] = (struct tensor){"other.a", {3}, 1};
    tensors[n++] = (struct tensor){"other.b", {3}, 1};
    write_file("model.safetensors", tensors, n);
    char *text;
    struct weights *weights = open_with_log(folder, &text);
    assert_non_null(weights);
    assert_non_null(strstr(text, "2 tensor(s) skipped"));
    assert_non_null(strstr(text,
                           "4 tensor(s) ignored that the model does not have: "
                           "model.layers.4.self_attn.bias, model.more, other.a, ..."));
    free(text);
    weights_close(weights);
}

static void test_faults_of_shards(void **state)
{
    (void)state;
    struct tensor tensors[MOST_TENSORS];
    const size_t n = list_tensors(tensors);
    write_file("a.safetensors", tensors, 100);
    write_file("b.safetensors", tensors + 99, n - 99);
    write_text("model.safetensors.index.json",
               "{\"weight_map\": {\"model.embed_tokens.weight\": \"a.safetensors\","
               "\"model.norm.weight\": \"b.safetensors\"}}");
    assert_open_fails("is there twice: in");
    assert_says(tensors[99].name);
    write_file("b.safetensors", tensors + 100, n - 100);
    struct weights *weights = weights_open(folder, &config, params, &err);
    assert_non_null(weights);
    assert_string_equal(weights_type_name(weights, 0), "bf16");
    weights_close(weights);

    write_text("model.safetensors.index.json",
               "{\"weight_map\": {\"model.embed_tokens.weight\": \"b.safetensors\"}}");
    assert_open_fails(
        "tensor model.embed_tokens.weight is missing, the index has it here");
    write_text("model.safetensors.index.json",
               "{\"weight_map\": {\"x\": \"c.safetensors\"}}");
    assert_open_fails("c.safetensors");
    write_text("model.safetensors.index.json",
               "{\"weight_map\": {\"x\": \"../a.safetensors\"}}");
    assert_open_fails("the index names no file for tensor x");
    write_text("model.safetensors.index.json", "{\"weight_map\": {\"x\": 7}}");
    assert_open_fails("the index names no file for tensor x");
    write_text("model.safetensors.index.json", "{}");
    assert_open_fails("weight_map is missing");
}

static bool read_from_weights(void *context, int param, int64_t first_row,
                              int64_t n_rows, float *target, struct error *error)
{
    const struct weights *weights = context;
    return weights_read(weights, param, first_row, n_rows, target, error);
}

static bool read_random(void *context, int param, int64_t first_row, int64_t n_rows,
                        float *target, struct error *error)
{
    (void)error;
    random_init_rows(&config, params, *(uint64_t *)context, param, first_row, n_rows,
                     target);
    return true;
}

static bool read_nothing(void *context, int param, int64_t first_row, int64_t n_rows,
                         float *target, struct error *error)
{
    (void)context;
    (void)first_row;
    memset(target, 0, (size_t)n_rows * sizeof(float));
    return param < 7 || error_set(error, ERROR_FAILED, "no more");
}

static struct weights_output output_of(weights_read_fn read, void *context)
{
    return (struct weights_output){.config = &config,
                                   .params = params,
                                   .dtype = DTYPE_F32,
                                   .read = read,
                                   .context = context};
}

static char *file_text(const char *in, const char *file)
{
    size_t length;
    char *path = file_join(in, file);
    char *text = file_read(path, 1 << 20, &length, &err);
    mem_free(path);
    return text;
}

static void test_written_model_is_the_source(void **state)
{
    (void)state;
    struct weights *source = weights_open(e2b, &config, params, &err);
    struct weights_output output = output_of(read_from_weights, source);
    output.source_path = e2b;
    char *path = file_join(folder, "out/model/");
    assert_true(weights_write_folder(path, &output, &err));
    struct weights *written = weights_open(path, &config, params, &err);
    assert_non_null(written);
    assert_same_values(source, written);

    /* C13: the tied table is there once, and nothing besides the parameters. */
    char *file = file_join(path, "model.safetensors");
    struct safetensors *tensors = safetensors_open(file, &err);
    assert_int_equal(safetensors_count(tensors), params->n);
    assert_null(safetensors_find(tensors, "lm_head.weight"));
    assert_non_null(safetensors_find(tensors, "model.embed_tokens.weight"));
    assert_string_equal(safetensors_metadata(tensors, "format"), "pt");
    safetensors_close(tensors);

    char *before = file_text(e2b, "config.json");
    char *after = file_text(path, "config.json");
    assert_string_equal(before, after);
    mem_free(before);
    mem_free(after);
    mem_free(file);

    assert_false(weights_write_folder(path, &output, &err));
    assert_says("exists and is not empty");
    mem_free(path);
    weights_close(source);
    weights_close(written);
}

static void test_nested_source_keeps_names_and_towers(void **state)
{
    (void)state;
    struct weights *source = weights_open(nested, &config, params, &err);
    struct weights_output output = output_of(read_from_weights, source);
    output.source_path = nested;
    output.dtype = DTYPE_BF16;
    char *path = file_join(folder, "model");
    assert_true(weights_write_folder(path, &output, &err));

    char *file = file_join(path, "model.safetensors");
    struct safetensors *tensors = safetensors_open(file, &err);
    assert_non_null(tensors);
    assert_int_equal(safetensors_count(tensors), params->n + 2);
    const struct tensor_view *norm =
        safetensors_find(tensors, "model.language_model.norm.weight");
    assert_non_null(norm);
    assert_int_equal(norm->dtype, DTYPE_BF16);
    const struct tensor_view *tower =
        safetensors_find(tensors, "model.embed_vision.embedding_projection.weight");
    assert_non_null(tower);
    assert_int_equal(tower->dtype, DTYPE_F32);
    safetensors_close(tensors);

    /* The config is the source's with the new dtype. */
    struct model_config again;
    assert_true(model_config_read(path, &again, &err));
    assert_int_equal(again.dtype, DTYPE_BF16);
    char *before = file_text(nested, "config.json");
    char *after = file_text(path, "config.json");
    assert_int_equal(strlen(after),
                     strlen(before) + strlen("bfloat16") - strlen("float32"));
    mem_free(before);
    mem_free(after);
    mem_free(file);
    mem_free(path);
    weights_close(source);
}

static void test_files_are_carried_over(void **state)
{
    (void)state;
    static const char tokenizer[] = "{\"model\": \"\xC3\xA4\"}\r\n";
    uint64_t seed = 3;
    struct weights_output output = output_of(read_random, &seed);
    char *source = file_text(e2b, "config.json");
    write_text("config.json", source); /* a source without tensors */
    write_text("tokenizer.json", tokenizer);
    write_text("tokenizer_config.json", "{}");
    write_text("generation_config.json", "{\"eos_token_id\": [1, 106]}");
    write_text("README.md", "not carried");
    output.source_path = folder;
    char *path = file_join(folder, "model");
    assert_true(weights_write_folder(path, &output, &err));
    char *text = file_text(path, "tokenizer.json");
    assert_string_equal(text, tokenizer);
    mem_free(text);
    text = file_text(path, "generation_config.json");
    assert_string_equal(text, "{\"eos_token_id\": [1, 106]}");
    mem_free(text);
    assert_null(file_text(path, "README.md"));
    assert_null(file_text(path, "chat_template.jinja"));

    struct weights *weights = weights_open(path, &config, params, &err);
    assert_non_null(weights);
    float *values = read_all(weights, 0);
    float expected[64];
    random_init_rows(&config, params, 3, 0, 17, 1, expected);
    assert_memory_equal(values + 17 * 64, expected, sizeof(expected));
    mem_free(values);
    weights_close(weights);
    mem_free(path);
    mem_free(source);
}

static void test_failed_write_leaves_nothing(void **state)
{
    (void)state;
    struct weights_output output = output_of(read_nothing, NULL);
    char *path = file_join(folder, "model");
    assert_false(weights_write_folder(path, &output, &err));
    assert_says(params->info[7].name);
    assert_says("no more");
    assert_false(file_exists(path));

    /* A lost source is in nobody's way. */
    uint64_t seed = 1;
    output = output_of(read_random, &seed);
    output.source_path = "/nowhere/model";
    log_set_level(LOG_ERROR);
    assert_true(weights_write_folder(path, &output, &err));
    log_set_level(LOG_NOTE);
    struct model_config again;
    assert_true(model_config_read(path, &again, &err));
    assert_int_equal(again.layer[9].kv_source, 4);
    mem_free(path);
}

static void test_dtype_in_config_text(void **state)
{
    (void)state;
    char *text =
        weights_config_with_dtype("{\"a\": \"dtype\", \"dtype\" :\n \"float32\", "
                                  "\"x\": {\"torch_dtype\":\"float16\"}, "
                                  "\"dtype_2\": \"float32\", \"dtype\": null}",
                                  DTYPE_BF16);
    assert_string_equal(text, "{\"a\": \"dtype\", \"dtype\" :\n \"bfloat16\", "
                              "\"x\": {\"torch_dtype\":\"bfloat16\"}, "
                              "\"dtype_2\": \"float32\", \"dtype\": null}");
    mem_free(text);
    /* A file that changed meanwhile may end anywhere; nothing behind it is read. */
    char *broken = mem_strdup("{\"dtype\": \"float");
    text = weights_config_with_dtype(broken, DTYPE_BF16);
    assert_string_equal(text, "{\"dtype\": \"bfloat16");
    mem_free(text);
    mem_free(broken);
}

/* The keys of the seed file "model" are those of this model. */
static void write_gguf(const char *path, const struct gguf_build *tensors)
{
    struct gguf_build build = *tensors;
    build.keys = (struct str){0};
    build.n_keys = 0;
    gguf_model_add_keys(&build);
    gguf_build_key(&build, "tokenizer.ggml.tokens", 9);
    gguf_build_u32(&build.keys, 8);
    gguf_build_u64(&build.keys, 4);
    for (int i = 0; i < 4; i++) {
        gguf_build_text(&build.keys, "x");
    }
    struct str file = {0};
    gguf_build_finish(&build, &file);
    assert_true(file_write_atomic(path, file.text, file.length, &err));
    str_deinit(&file);
    str_deinit(&build.keys);
}

static void test_gguf_model(void **state)
{
    (void)state;
    params_destroy(params);
    assert_true(model_config_read("fuzz/seeds/fuzz_gguf/model", &config, &err));
    params = params_create(&config);
    struct gguf_build build = {0};
    gguf_model_add_tensors(&build, params);
    char *path = file_join(folder, "m.gguf");
    write_gguf(path, &build);
    struct weights *weights = weights_open(path, &config, params, &err);
    assert_non_null(weights);
    assert_true(weights_is_gguf(weights));
    for (int i = 0; i < params->n; i++) {
        float *values = read_all(weights, i);
        for (int64_t j = 0; j < params->info[i].n_elements; j++) {
            /* Norms are stored as 1 + w. */
            const float expected = params->info[i].rank == 1
                                       ? (float)i + (float)j / 64.0f
                                       : (float)((i + j / 32) % 100);
            assert_true(values[j] == expected);
        }
        if (params->info[i].rank == 2) {
            float row[64];
            assert_true(weights_read(weights, i, 2, 1, row, &err));
            assert_memory_equal(row, values + 2 * params->info[i].dim[1],
                                (size_t)params->info[i].dim[1] * sizeof(float));
        }
        mem_free(values);
    }
    assert_string_equal(weights_type_name(weights, 0), "Q8_0");

    struct weights_output output = output_of(read_from_weights, weights);
    output.source_path = path;
    char *written = file_join(folder, "model");
    assert_true(weights_write_folder(written, &output, &err));
    struct weights *again = weights_open(written, &config, params, &err);
    assert_non_null(again);
    assert_same_values(weights, again);
    struct model_config read_back;
    assert_true(model_config_read(written, &read_back, &err));
    assert_int_equal(read_back.dtype, DTYPE_F32);
    assert_true(read_back.attention_scale == 0.25);
    weights_close(again);
    weights_close(weights);

    const float norm[32] = {0};
    gguf_build_tensor(&build, "blk.5.extra", 32, 0, QUANT_F32, norm);
    gguf_build_tensor(&build, "output.weight", 32, 0, QUANT_F32, norm);
    write_gguf(path, &build);
    char *text;
    weights = open_with_log(path, &text);
    assert_non_null(weights);
    assert_non_null(strstr(text, "1 tensor(s) skipped"));
    assert_non_null(strstr(text, "not have: blk.5.extra"));
    free(text);
    weights_close(weights);
    gguf_build_deinit(&build);
    gguf_build_tensor(&build, "output_norm.weight", 16, 0, QUANT_F32, norm);
    write_gguf(path, &build);
    assert_null(weights_open(path, &config, params, &err));
    assert_says("tensor output_norm.weight has shape [16], expected [32]");
    gguf_build_deinit(&build);
    write_gguf(path, &build);
    assert_null(weights_open(path, &config, params, &err));
    assert_says("tensor model.embed_tokens.weight is missing");
    mem_free(written);
    mem_free(path);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* What lies in the file as the table has it can be read there: f32 and bf16. */
static void test_views_are_the_files_bytes(void **state)
{
    (void)state;
    struct weights *weights = weights_open(e2b, &config, params, &err);
    assert_non_null(weights);
    enum dtype dtype;
    for (int i = 0; i < params->n; i++) {
        const void *bytes = weights_view(weights, i, &dtype);
        assert_non_null(bytes);
        assert_int_equal(dtype, DTYPE_F32);
        float *values = read_all(weights, i);
        assert_memory_equal(bytes, values,
                            (size_t)params->info[i].n_elements * sizeof(*values));
        mem_free(values);
    }
    weights_close(weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_rows_are_parts_of_the_whole),
        TEST(test_views_are_the_files_bytes),
        TEST(test_nested_layout_is_the_same_model),
        TEST(test_faults_of_one_file),
        TEST(test_extra_tensors_are_one_warning),
        TEST(test_faults_of_shards),
        TEST(test_written_model_is_the_source),
        TEST(test_nested_source_keeps_names_and_towers),
        TEST(test_files_are_carried_over),
        TEST(test_failed_write_leaves_nothing),
        TEST(test_dtype_in_config_text),
        TEST(test_gguf_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
