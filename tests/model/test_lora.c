/*
 * Adapters: which weights patterns mean, PEFT's initial values, the weights that they
 * make, folders in and out, and what is refused by name.
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
#include "base/log.h"
#include "base/mem.h"
#include "formats/safetensors.h"
#include "model/config.h"
#include "model/lora.h"
#include "model/params.h"

static const char *const golden = "tests/golden/gemma4-e2b-tiny-lora";

static struct model_config config;
static char folder[64]; /* a fresh one for each test */
static struct error err;

static int setup(void **state)
{
    (void)state;
    log_set_level(LOG_ERROR);
    err = (struct error){.message = ""};
    strcpy(folder, "/tmp/test_lora-XXXXXX");
    return mkdtemp(folder) != NULL && model_config_read_folder(
                                          "tests/golden/gemma4-e2b-tiny", &config, &err)
               ? 0
               : -1;
}

static int teardown(void **state)
{
    (void)state;
    return file_remove_tree(folder, &err) ? 0 : -1;
}

static void assert_says(const char *part)
{
    if (strstr(err.message, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.message, part);
    }
}

#define CHECK(call)                      \
    do {                                 \
        if (!(call)) {                   \
            fail_msg("%s", err.message); \
        }                                \
    } while (0)

/* ---- which weights ---- */

/* Number of adapters that the patterns give; -1: refused. */
static int count_adapters(const char *const *targets, int64_t n)
{
    struct params *params = params_create(&config);
    const struct lora_options options = {
        .rank = 4, .alpha = 8.0, .targets = targets, .n_targets = n};
    int count = -1;
    if (lora_attach(params, &options, &err)) {
        count = (params->n - params->n_model) / 2;
    }
    params_destroy(params);
    return count;
}

#define COUNT(...)                                     \
    count_adapters((const char *const[]){__VA_ARGS__}, \
                   sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static void patterns_choose_weights(void **state)
{
    (void)state;
    int n_kv = 0;
    for (int i = 0; i < config.L; i++) {
        n_kv += model_config_owns_kv(&config, i);
    }
    assert_true(n_kv < config.L);
    /* Layers that share K and V have none to adapt. */
    assert_int_equal(count_adapters(NULL, 0), 5 * config.L + 2 * n_kv);
    assert_int_equal(COUNT("q_proj"), config.L);
    assert_int_equal(COUNT("self_attn.k_proj"), n_kv);
    assert_int_equal(COUNT("q_proj.weight"), config.L);
    assert_int_equal(COUNT("q_proj", "q_proj", "*.up_proj"), 2 * config.L);
    assert_int_equal(COUNT("model.layers.3.mlp.down_proj.weight"), 1);
    assert_int_equal(COUNT("model.layers.3.mlp.down_proj"), 1);
    /* Every matrix of layer 0, those of the per-layer embeddings too; no norms. */
    assert_int_equal(COUNT("*layers.0.*"), 9);
    /* A short name is a whole name: o_proj is no end of "to_proj". */
    assert_int_equal(COUNT("roj"), -1);
    assert_says("no weight matches \"roj\"");
    assert_says("q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj");
    assert_int_equal(error_exit_code(err.kind), 2);
    assert_int_equal(COUNT("q_proj", "embed_tokens"), -1);
    assert_says("\"embed_tokens\"");
    assert_int_equal(COUNT("input_layernorm"), -1);
}

/* PEFT: A is kaiming uniform with a = sqrt(5), which is +-1/sqrt(in); B is zero. */
static void values_begin_as_in_peft(void **state)
{
    (void)state;
    struct params *params = params_create(&config);
    const struct lora_options options = {.rank = 16, .alpha = 8.0};
    CHECK(lora_attach(params, &options, &err));
    assert_true(params->lora_scale == 0.5);
    const int q = params_index(params, PARAM_Q, 0);
    const int a = params_adapter(params, PARAM_LORA_A, q);
    const int b = params_adapter(params, PARAM_LORA_B, q);
    float values[16 * 64];
    float part[64];
    assert_int_equal(params->info[a].n_elements, ARRAY_LENGTH(values));
    lora_init_rows(params, 7, a, 0, 16, values);
    const double bound = 1.0 / sqrt(64.0);
    double sum = 0.0;
    double squares = 0.0;
    double largest = 0.0;
    for (size_t i = 0; i < ARRAY_LENGTH(values); i++) {
        sum += (double)values[i];
        squares += (double)values[i] * (double)values[i];
        largest = fmax(largest, fabs((double)values[i]));
    }
    /* Of n uniform numbers: mean 0, variance bound^2 / 3, within four deviations. */
    const double n = (double)ARRAY_LENGTH(values);
    assert_true(largest <= bound && largest > 0.98 * bound);
    assert_true(fabs(sum / n) < 4.0 * bound / sqrt(3.0 * n));
    assert_true(fabs(squares / n - bound * bound / 3.0) < 0.1 * bound * bound / 3.0);
    /* Rows are the same in whatever pieces, other seeds and tensors give others. */
    lora_init_rows(params, 7, a, 5, 1, part);
    assert_memory_equal(part, values + 5 * 64, sizeof(part));
    lora_init_rows(params, 8, a, 5, 1, part);
    assert_memory_not_equal(part, values + 5 * 64, sizeof(part));
    lora_init_rows(params, 7, a + 2, 5, 1, part);
    assert_memory_not_equal(part, values + 5 * 64, sizeof(part));
    lora_init_rows(params, 7, b, 0, 64, values);
    for (size_t i = 0; i < ARRAY_LENGTH(values); i++) {
        assert_true(values[i] == 0.0f);
    }
    const struct lora_options stabilised = {
        .rank = 16, .alpha = 8.0, .is_rank_stabilised = true};
    assert_true(lora_scale(&stabilised) == 2.0);
    params_destroy(params);
}

/* ---- the weights that they make ---- */

/* A weights_read_fn: element i of tensor t is a small whole number, so that sums are
 * exact. */
static float whole_number(int param, int64_t i)
{
    return (float)((param * 7 + i * 3) % 11 - 5);
}

static bool read_whole_numbers(void *context, int param, int64_t first_row,
                               int64_t n_rows, float *target, struct error *error)
{
    (void)error;
    const struct params *params = context;
    const int64_t row = params->info[param].dim[1];
    for (int64_t i = 0; i < n_rows * row; i++) {
        target[i] = whole_number(param, first_row * row + i);
    }
    return true;
}

static void merged_weights_are_w_plus_scale_b_a(void **state)
{
    (void)state;
    struct params *params = params_create(&config);
    const char *const targets[] = {"down_proj"};
    const struct lora_options options = {
        .rank = 3, .alpha = 1.5, .targets = targets, .n_targets = 1};
    CHECK(lora_attach(params, &options, &err));
    struct lora_merge merge = {
        .params = params, .read = read_whole_numbers, .context = params};
    const int down = params_index(params, PARAM_DOWN, 2);
    const int a = params_adapter(params, PARAM_LORA_A, down);
    const int b = params_adapter(params, PARAM_LORA_B, down);
    const int64_t in = params->info[down].dim[1];
    const int64_t first = 5;
    float *rows = mem_alloc_array((size_t)(4 * in), sizeof(float));
    CHECK(lora_merged_read(&merge, down, first, 4, rows, &err));
    for (int64_t i = first; i < first + 4; i++) {
        for (int64_t j = 0; j < in; j++) {
            float product = 0.0f;
            for (int64_t k = 0; k < 3; k++) {
                product += whole_number(b, i * 3 + k) * whole_number(a, k * in + j);
            }
            const float expected = whole_number(down, i * in + j) + 0.5f * product;
            assert_true(rows[(i - first) * in + j] == expected);
        }
    }
    /* Without an adapter the weight is as it is. */
    const int up = params_index(params, PARAM_UP, 2);
    CHECK(lora_merged_read(&merge, up, 0, 1, rows, &err));
    assert_true(rows[3] == whole_number(up, 3));
    mem_free(rows);
    params_destroy(params);
}

/* Every element is 3e38: the product of two is beyond f32. */
static bool read_large_numbers(void *context, int param, int64_t first_row,
                               int64_t n_rows, float *target, struct error *error)
{
    (void)first_row;
    (void)error;
    const struct params *params = context;
    for (int64_t i = 0; i < n_rows * params->info[param].dim[1]; i++) {
        target[i] = 3e38f;
    }
    return true;
}

static void merged_weights_are_finite(void **state)
{
    (void)state;
    struct params *params = params_create(&config);
    const struct lora_options options = {.rank = 3, .alpha = 1.5};
    CHECK(lora_attach(params, &options, &err));
    struct lora_merge merge = {
        .params = params, .read = read_large_numbers, .context = params};
    const int down = params_index(params, PARAM_DOWN, 2);
    float *row = mem_alloc_array((size_t)params->info[down].dim[1], sizeof(float));
    assert_false(lora_merged_read(&merge, down, 0, 1, row, &err));
    assert_says(params->info[down].name);
    assert_says("is not finite");
    assert_int_equal(error_exit_code(err.kind), 3);
    mem_free(row);
    params_destroy(params);
}

/* ---- folders ---- */

static void the_references_folder_is_read(void **state)
{
    (void)state;
    struct params *params = params_create(&config);
    const int n_model = params->n;
    struct lora *lora = lora_open(golden, params, &err);
    CHECK(lora != NULL);
    assert_int_equal(params->n_model, n_model);
    assert_int_equal(params->n - n_model, 120);
    assert_int_equal(lora_options_of(lora)->rank, 4);
    assert_true(lora_options_of(lora)->alpha == 8.0 && params->lora_scale == 2.0);
    assert_string_equal(lora_base_name(lora), "gemma4-e2b-tiny");
    char path[200];
    snprintf(path, sizeof(path), "%s/adapter_model.safetensors", golden);
    struct safetensors *file = safetensors_open(path, &err);
    CHECK(file != NULL);
    for (int i = n_model; i < params->n; i++) {
        const struct param_info *info = &params->info[i];
        char name[200];
        snprintf(name, sizeof(name), "base_model.model.%s", info->name);
        const struct tensor_view *view = safetensors_find(file, name);
        assert_non_null(view);
        float *values = mem_alloc_array((size_t)info->n_elements, sizeof(float));
        CHECK(lora_read(lora, i, 0, info->dim[0], values, &err));
        assert_memory_equal(values, view->bytes, view->n_bytes);
        mem_free(values);
    }
    safetensors_close(file);
    lora_close(lora);
    lora_close(NULL);
    params_destroy(params);
}

/* Writes the open adapter to folder/NAME and opens that again; prefix as in weights. */
static void write_again(struct lora *lora, const struct params *params,
                        const char *prefix, enum dtype dtype, char path[200],
                        const char *name)
{
    snprintf(path, 200, "%s/%s", folder, name);
    const struct lora_output output = {.params = params,
                                       .options = lora_options_of(lora),
                                       .dtype = dtype,
                                       .read = lora_read,
                                       .context = lora,
                                       .base_path = "some/model",
                                       .prefix = prefix};
    CHECK(lora_write_folder(path, &output, &err));
}

/* The list of target_modules as text, comma separated. */
static void list_targets(const char *path, char *text, size_t size)
{
    char *file = file_join(path, "adapter_config.json");
    json_t *root = json_read_file(file, 1 << 20, &err);
    CHECK(root != NULL);
    json_t *targets = json_object_get(root, "target_modules");
    text[0] = '\0';
    for (size_t i = 0; i < json_array_size(targets); i++) {
        const size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%s", i == 0 ? "" : ",",
                 json_string_value(json_array_get(targets, i)));
    }
    json_decref(root);
    mem_free(file);
}

static void folders_are_written_and_read_again(void **state)
{
    (void)state;
    struct params *params = params_create(&config);
    struct lora *lora = lora_open(golden, params, &err);
    CHECK(lora != NULL);
    char path[200];
    write_again(lora, params, "model.language_model.", DTYPE_F32, path, "nested");
    struct params *again = params_create(&config);
    struct lora *read = lora_open(path, again, &err);
    CHECK(read != NULL);
    assert_int_equal(again->n, params->n);
    assert_true(again->lora_scale == params->lora_scale);
    assert_string_equal(lora_base_name(read), "some/model");
    for (int i = params->n_model; i < params->n; i++) {
        const struct param_info *info = &params->info[i];
        assert_string_equal(again->info[i].name, info->name);
        float *a = mem_alloc_array(2 * (size_t)info->n_elements, sizeof(float));
        float *b = a + info->n_elements;
        CHECK(lora_read(lora, i, 0, info->dim[0], a, &err));
        CHECK(lora_read(read, i, 0, info->dim[0], b, &err));
        assert_memory_equal(a, b, (size_t)info->n_elements * sizeof(float));
        mem_free(a);
    }
    lora_close(read);
    params_destroy(again);
    /* In a model with towers short names could mean more. */
    char text[4000];
    list_targets(path, text, sizeof(text));
    assert_non_null(strstr(text, "model.language_model.layers.0.self_attn.q_proj,"));
    write_again(lora, params, "model.", DTYPE_BF16, path, "plain");
    list_targets(path, text, sizeof(text));
    assert_string_equal(text,
                        "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj");
    /* A folder that is in use stays. */
    const struct lora_output output = {.params = params,
                                       .options = lora_options_of(lora),
                                       .dtype = DTYPE_F32,
                                       .read = lora_read,
                                       .context = lora,
                                       .base_path = "x",
                                       .prefix = "model."};
    assert_false(lora_write_folder(path, &output, &err));
    assert_says("exists and is not empty");
    lora_close(lora);
    params_destroy(params);
}

/* Roles of some layers only go out under their whole names. */
static void parts_of_roles_have_whole_names(void **state)
{
    (void)state;
    struct params *params = params_create(&config);
    const char *const targets[] = {"*layers.1.self_attn.v_proj", "o_proj"};
    const struct lora_options options = {
        .rank = 1, .alpha = 1.0, .targets = targets, .n_targets = 2};
    CHECK(lora_attach(params, &options, &err));
    char path[200];
    snprintf(path, sizeof(path), "%s/some", folder);
    const struct lora_output output = {.params = params,
                                       .options = &options,
                                       .dtype = DTYPE_F32,
                                       .read = read_whole_numbers,
                                       .context = params,
                                       .base_path = "x",
                                       .prefix = "model."};
    CHECK(lora_write_folder(path, &output, &err));
    char text[400];
    list_targets(path, text, sizeof(text));
    assert_string_equal(text, "o_proj,model.layers.1.self_attn.v_proj");
    params_destroy(params);
}

/* ---- what is refused ---- */

/* Opens the golden tensors with a config that has `key` changed to a JSON value. */
static bool open_changed(const char *key, const char *value)
{
    char *from = file_join(golden, "adapter_config.json");
    json_t *root = json_read_file(from, 1 << 20, &err);
    CHECK(root != NULL);
    mem_free(from);
    if (value == NULL) {
        json_object_del(root, key);
    } else {
        json_object_set_new(root, key, json_loads(value, JSON_DECODE_ANY, NULL));
    }
    char *to = file_join(folder, "adapter_config.json");
    assert_int_equal(json_dump_file(root, to, 0), 0);
    mem_free(to);
    json_decref(root);
    char *tensors = file_join(golden, "adapter_model.safetensors");
    char *copy = file_join(folder, "adapter_model.safetensors");
    CHECK(file_copy(tensors, copy, &err));
    mem_free(tensors);
    mem_free(copy);
    struct params *params = params_create(&config);
    struct lora *lora = lora_open(folder, params, &err);
    lora_close(lora);
    params_destroy(params);
    return lora != NULL;
}

static void what_lathe_does_not_do_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value, *says;
    } cases[] = {
        {"peft_type", "\"LOHA\"", "peft_type is LOHA, expected LORA"},
        {"peft_type", NULL, "peft_type is missing"},
        {"use_dora", "true", "use_dora is set"},
        {"fan_in_fan_out", "true", "fan_in_fan_out is set"},
        {"modules_to_save", "[\"lm_head\"]", "modules_to_save is set"},
        {"rank_pattern", "{\"q_proj\": 8}", "rank_pattern is set"},
        {"alpha_pattern", "{\"q_proj\": 8}", "alpha_pattern is set"},
        {"layer_replication", "[[0, 4], [2, 5]]", "layer_replication is set"},
        {"bias", "\"all\"", "bias is \"all\""},
        {"init_lora_weights", "\"pissa_niter_4\"", "init_lora_weights is \"pissa"},
        {"r", "0", "\"r\" is 0"},
        {"r", "\"4\"", "\"r\" is a string"},
        {"r", "8", "has shape [4, 40], expected [8, 40]"},
        {"lora_alpha", "0", "lora_alpha is 0"},
        {"lora_alpha", "1e308", "lora_alpha is 1e+308"},
        {"lora_dropout", "1.0", "lora_dropout 1"},
        {"lora_dropout", "\"x\"", "\"lora_dropout\" is a string"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        assert_false(open_changed(cases[i].key, cases[i].value));
        assert_says(cases[i].says);
        assert_says(folder);
        assert_int_equal(error_exit_code(err.kind), 3);
    }
}

static void what_means_nothing_is_taken(void **state)
{
    (void)state;
    /* Empty values, regular expressions and lists, keys of later versions. */
    assert_true(open_changed("modules_to_save", "null"));
    assert_true(open_changed("rank_pattern", "{}"));
    assert_true(open_changed("target_modules", "\".*_proj\""));
    assert_true(open_changed("target_modules", "\"all-linear\""));
    assert_true(open_changed("init_lora_weights", "\"gaussian\""));
    assert_true(open_changed("lora_dropout", NULL));
    assert_true(open_changed("peft_version", "\"9.9\""));
    assert_true(open_changed("some_new_key", "3"));
}

/* Writes folder/adapter_model.safetensors with these tensors, [4, in] or [out, 4] by
 * their names' matrix, and opens the folder. They are zero but for element 6. */
static bool open_values(const char *const *names, size_t n, int64_t in, int64_t out,
                        float value)
{
    struct safetensors_entry entries[8];
    float values[4 * 256] = {0};
    values[6] = value;
    for (size_t i = 0; i < n; i++) {
        const bool is_a = strstr(names[i], "lora_A") != NULL;
        entries[i] = (struct safetensors_entry){
            .name = names[i],
            .dtype = DTYPE_F32,
            .rank = 2,
            .dim = {is_a ? 4 : out, is_a ? in : 4},
        };
    }
    char *path = file_join(folder, "adapter_model.safetensors");
    struct safetensors_writer *writer =
        safetensors_writer_open(path, entries, n, NULL, 0, &err);
    CHECK(writer != NULL);
    for (size_t i = 0; i < n; i++) {
        CHECK(safetensors_writer_add(
            writer, values,
            (size_t)(entries[i].dim[0] * entries[i].dim[1]) * sizeof(float), &err));
    }
    CHECK(safetensors_writer_commit(writer, &err));
    char *from = file_join(golden, "adapter_config.json");
    char *to = file_join(folder, "adapter_config.json");
    CHECK(file_copy(from, to, &err));
    mem_free(from);
    mem_free(to);
    mem_free(path);
    struct params *params = params_create(&config);
    struct lora *lora = lora_open(folder, params, &err);
    lora_close(lora);
    params_destroy(params);
    return lora != NULL;
}

/* All of them zero. */
static bool open_tensors(const char *const *names, size_t n, int64_t in, int64_t out)
{
    return open_values(names, n, in, out, 0.0f);
}

#define Q "base_model.model.model.layers.0.self_attn.q_proj."

static void tensors_that_do_not_fit_are_named(void **state)
{
    (void)state;
    const char *const good[] = {Q "lora_A.weight", Q "lora_B.weight"};
    assert_true(open_tensors(good, 2, 64, 64));
    assert_false(open_tensors(good, 2, 64, 65));
    assert_says(Q "lora_B.weight has shape [65, 4], expected [64, 4]");
    assert_false(open_tensors(good, 1, 64, 64));
    assert_says(Q "lora_B.weight is missing");
    static const char nested[] = "base_model.model.model.language_model.layers.0."
                                 "self_attn.q_proj.lora_A.weight";
    const char *const twice[] = {Q "lora_A.weight", Q "lora_B.weight", nested};
    assert_false(open_tensors(twice, 3, 64, 64));
    assert_says("is there twice");
    static const char *const strange[] = {
        "base_model.model.lm_head.weight",
        "base_model.model.model.embed_tokens.lora_A.weight",
        "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector",
        "base_model.model.model.layers.99.self_attn.q_proj.lora_A.weight",
        "base_model.model.model.layers.0.input_layernorm.lora_A.weight",
        "model.layers.0.self_attn.q_proj.lora_A.weight",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(strange); i++) {
        const char *const names[] = {Q "lora_A.weight", Q "lora_B.weight", strange[i]};
        assert_false(open_tensors(names, 3, 64, 64));
        assert_says(strange[i]);
        assert_says("is no LoRA matrix");
    }
    assert_false(open_tensors(NULL, 0, 64, 64));
    assert_says("no tensors");
}

/* Merged or trained from in silence, they would spoil the model. */
static void values_that_are_not_finite_are_named(void **state)
{
    (void)state;
    const char *const names[] = {Q "lora_A.weight", Q "lora_B.weight"};
    static const float values[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < ARRAY_LENGTH(values); i++) {
        assert_false(open_values(names, 2, 64, 64, values[i]));
        assert_says("adapter_model.safetensors: tensor " Q
                    "lora_A.weight: value [0, 6] is not finite");
        assert_int_equal(error_exit_code(err.kind), 3);
    }
    assert_true(open_values(names, 2, 64, 64, 3e38f));
}

static void folders_without_an_adapter_are_named(void **state)
{
    (void)state;
    struct params *params = params_create(&config);
    assert_null(lora_open(folder, params, &err));
    assert_says("no adapter_config.json");
    assert_false(lora_is_folder(folder));
    assert_true(lora_is_folder(golden));
    assert_int_equal(params->n, params->n_model);
    params_destroy(params);
    /* Without a table the config alone is looked at. */
    struct lora *lora = lora_open(golden, NULL, &err);
    assert_non_null(lora);
    assert_int_equal(lora_options_of(lora)->rank, 4);
    lora_close(lora);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(patterns_choose_weights),
        TEST(values_begin_as_in_peft),
        TEST(merged_weights_are_w_plus_scale_b_a),
        TEST(merged_weights_are_finite),
        TEST(the_references_folder_is_read),
        TEST(folders_are_written_and_read_again),
        TEST(parts_of_roles_have_whole_names),
        TEST(what_lathe_does_not_do_is_named),
        TEST(what_means_nothing_is_taken),
        TEST(tensors_that_do_not_fit_are_named),
        TEST(values_that_are_not_finite_are_named),
        TEST(folders_without_an_adapter_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
