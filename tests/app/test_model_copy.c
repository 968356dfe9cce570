/*
 * Models copied: a GGUF file becomes a complete folder, types change and come back, towers
 * and tokenizers go along; folders are kept apart; a disk that fills up leaves nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "app/model_copy.h"
#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/safetensors.h"
#include "support/gguf_model.h"
#include "support/piece_build.h"
#include "text/tokenizer.h"
#include "train/model_source.h"

#define SPACE "\xe2\x96\x81"

static const char e2b[] = "tests/golden/gemma4-e2b-tiny";
static const char nested[] = "tests/golden/gemma4-e2b-tiny-nested";

static char folder[100];
static struct error err;

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/lathe-copy-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int teardown(void **state)
{
    (void)state;
    return !file_remove_tree(folder, &err);
}

/* A path in the test's folder; freed with mem_free. */
static char *inside(const char *name)
{
    return file_join(folder, name);
}

static void copy(const char *from, const char *to, const char *dtype)
{
    const struct model_copy what = {.from = from, .to = to, .dtype = dtype};
    if (!model_copy_run(&what, &err)) {
        fail_msg("%s", err.message);
    }
}

static void assert_refused(const char *from, const char *to, const char *dtype,
                           enum error_kind kind, const char *why)
{
    const struct model_copy what = {.from = from, .to = to, .dtype = dtype};
    assert_false(model_copy_run(&what, &err));
    if (strstr(err.message, why) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.message, why);
    }
    assert_int_equal(err.kind, kind);
}

/* Both models hold the same numbers, and types of this size where that is asked for. */
static void assert_same_weights(const char *a, const char *b)
{
    struct model_source x = {0};
    struct model_source y = {0};
    assert_true(model_source_open(&x, a, true, false, &err));
    assert_true(model_source_open(&y, b, true, false, &err));
    assert_int_equal(x.params->n, y.params->n);
    for (int i = 0; i < x.params->n; i++) {
        const struct param_info *info = &x.params->info[i];
        const size_t n = (size_t)info->n_elements;
        float *p = mem_alloc_array(n, sizeof(float));
        float *q = mem_alloc_array(n, sizeof(float));
        assert_true(model_source_read(&x, i, 0, info->dim[0], p, &err));
        assert_true(model_source_read(&y, i, 0, info->dim[0], q, &err));
        assert_memory_equal(p, q, n * sizeof(float));
        mem_free(p);
        mem_free(q);
    }
    model_source_close(&x);
    model_source_close(&y);
}

static void assert_same_files(const char *a, const char *b)
{
    size_t n;
    size_t m;
    char *x = file_read(a, 1 << 26, &n, &err);
    char *y = file_read(b, 1 << 26, &m, &err);
    assert_non_null(x);
    assert_non_null(y);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    mem_free(x);
    mem_free(y);
}

/* C14: f32 is exact for every type that comes in, so going there and back changes no bit:
 * log-probabilities of the copies are the model's own (tests/scenarios/55-convert.sh). */
static void types_there_and_back(void **state)
{
    (void)state;
    char *narrow = inside("bf16");
    char *wide = inside("f32");
    char *back = inside("back");
    copy(e2b, narrow, "bf16");
    copy(narrow, wide, "f32");
    copy(wide, back, "bf16");
    assert_same_weights(narrow, wide);
    char *a = file_join(narrow, "model.safetensors");
    char *b = file_join(back, "model.safetensors");
    assert_same_files(a, b);
    mem_free(a);
    mem_free(b);
    a = file_join(narrow, "config.json");
    size_t n;
    char *config = file_read(a, 1 << 20, &n, &err);
    assert_non_null(strstr(config, "bfloat16"));
    mem_free(config);
    mem_free(a);
    /* f16 holds the golden weights to its own precision, whatever came before. */
    char *half = inside("f16");
    copy(e2b, half, "f16");
    struct model_source source = {0};
    assert_true(model_source_open(&source, half, true, false, &err));
    assert_int_equal(source.config.dtype, DTYPE_F16);
    model_source_close(&source);
    mem_free(half);
    mem_free(back);
    mem_free(wide);
    mem_free(narrow);
}

/* Names and tensors that are none of the text model's stay. */
static void towers_go_along(void **state)
{
    (void)state;
    char *to = inside("copy");
    copy(nested, to, NULL);
    assert_same_weights(nested, to);
    char *path = file_join(to, "model.safetensors");
    struct safetensors *file = safetensors_open(path, &err);
    assert_non_null(file);
    int n_vision = 0;
    int n_text = 0;
    for (size_t i = 0; i < safetensors_count(file); i++) {
        const char *name = safetensors_at(file, i)->name;
        n_vision += strstr(name, "vision") != NULL;
        n_text += str_starts_with(name, "model.language_model.layers.");
    }
    assert_true(n_vision > 0 && n_text > 50);
    safetensors_close(file);
    mem_free(path);
    mem_free(to);
}

/* A whole GGUF file with a vocabulary like Gemma's. */
static void write_gguf(const char *path)
{
    static const struct piece_build pieces[] = {
        {"<pad>", -1000, PIECE_BUILD_CONTROL}, {"<eos>", -1000, PIECE_BUILD_CONTROL},
        {"<bos>", -1000, PIECE_BUILD_CONTROL}, {"<unk>", -1000, PIECE_BUILD_UNKNOWN},
        {"  ", -1000, PIECE_BUILD_USER},       {SPACE "a", 0, PIECE_BUILD_NORMAL},
        {"a", -1, PIECE_BUILD_NORMAL},         {SPACE, -2, PIECE_BUILD_NORMAL},
    };
    struct gguf_build build = {0};
    struct str file = {0};
    struct model_config config;
    gguf_model_add_keys(&build);
    piece_build_add(&build, pieces, ARRAY_LENGTH(pieces), ARRAY_LENGTH(pieces));
    piece_build_flag(&build, "tokenizer.ggml.add_space_prefix", false);
    gguf_build_integer(&build, "tokenizer.ggml.bos_token_id", 2);
    gguf_build_integer(&build, "tokenizer.ggml.eos_token_id", 1);
    gguf_build_integer(&build, "tokenizer.ggml.eot_token_id", 6);
    gguf_build_finish(&build, &file);
    assert_true(file_write_atomic(path, file.text, file.length, &err));
    if (!model_config_read(path, &config, &err)) {
        fail_msg("%s", err.message);
    }
    struct params *params = params_create(&config);
    gguf_model_add_tensors(&build, params);
    str_clear(&file);
    gguf_build_finish(&build, &file);
    assert_true(file_write_atomic(path, file.text, file.length, &err));
    params_destroy(params);
    str_deinit(&file);
    gguf_build_deinit(&build);
}

static void a_gguf_file_becomes_a_folder(void **state)
{
    (void)state;
    char *from = inside("m.gguf");
    char *to = inside("model");
    write_gguf(from);
    copy(from, to, "f32");
    assert_same_weights(from, to);
    static const char *const names[] = {"config.json", "generation_config.json",
                                        "tokenizer.json", "tokenizer_config.json",
                                        "special_tokens_map.json"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        assert_true(model_copy_has_file(to, names[i]));
    }
    struct model_config config;
    assert_true(model_config_read(to, &config, &err));
    assert_int_equal(config.n_eos, 2);
    assert_true(config.eos_id[0] == 1 && config.eos_id[1] == 6);
    struct tokenizer *tokenizer = tokenizer_read_folder(to, &err);
    assert_non_null(tokenizer);
    struct token_list list = {0};
    tokenizer_encode(tokenizer, "a  a a", 6, true, &list);
    static const int32_t wanted[] = {2, 6, 4, 6, 5};
    assert_int_equal(list.n, ARRAY_LENGTH(wanted));
    assert_memory_equal(list.ids, wanted, sizeof(wanted));
    token_list_deinit(&list);
    tokenizer_destroy(tokenizer);
    mem_free(to);
    mem_free(from);
}

static void refuses(void **state)
{
    (void)state;
    char *to = inside("to");
    assert_refused("nowhere", to, NULL, ERROR_NOT_FOUND, "nowhere: no such file");
    assert_refused("tests", to, NULL, ERROR_DATA, "no config.json in this folder");
    assert_refused("README.md", to, NULL, ERROR_DATA, "README.md");
    assert_refused(e2b, to, "int8", ERROR_USAGE, "--dtype int8: expected f32, bf16");
    assert_refused(e2b, to, "i32", ERROR_USAGE, "--dtype i32: expected f32, bf16");
    assert_refused(e2b, folder, NULL, ERROR_USAGE, "exists") /* not empty */;
    mem_free(to);
}

/* `folder` is made so that it is not empty for the case above. */
static int setup_with_file(void **state)
{
    if (setup(state) != 0) {
        return 1;
    }
    char *path = inside("something");
    const bool done = file_write_atomic(path, "x", 1, &err);
    mem_free(path);
    return !done;
}

static void keeps_results_apart_from_sources(void **state)
{
    (void)state;
    char *model = inside("model");
    char *deep = inside("model/a/b");
    char *beside = inside("model2");
    char *link = inside("link");
    copy(e2b, model, NULL);
    assert_int_equal(symlink(model, link), 0);
    assert_false(model_copy_check_apart(model, deep, &err));
    assert_int_equal(err.kind, ERROR_USAGE);
    assert_false(model_copy_check_apart(model, model, &err));
    assert_false(model_copy_check_apart(link, deep, &err));
    assert_true(model_copy_check_apart(model, beside, &err));
    assert_true(model_copy_check_apart("nowhere", beside, &err));
    char *parent = model_copy_existing_parent("no/such/thing");
    assert_string_equal(parent, ".");
    mem_free(parent);
    parent = model_copy_existing_parent("/none");
    assert_string_equal(parent, "/");
    mem_free(parent);
    mem_free(link);
    mem_free(beside);
    mem_free(deep);
    mem_free(model);
}

/* Whether a folder on its way to "to" is there. */
static bool is_partial_left(void)
{
    char *pattern = inside("to.partial*");
    glob_t found;
    const bool is_left = glob(pattern, 0, NULL, &found) == 0;
    globfree(&found);
    mem_free(pattern);
    return is_left;
}

/* A file may have 64 KiB, as on a disk that is nearly full: the error is told and nothing
 * stays behind. */
static void a_full_disk_leaves_nothing(void **state)
{
    (void)state;
    char *to = inside("to");
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {.rlim_cur = 64 << 10, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const struct model_copy what = {.from = e2b, .to = to};
    const bool done = model_copy_run(&what, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_false(done);
    assert_non_null(strstr(err.message, "model.safetensors"));
    assert_false(file_exists(to));
    assert_false(is_partial_left());
    mem_free(to);
}

/* As Ctrl-C does. */
static void a_signal_leaves_nothing(void **state)
{
    (void)state;
    char *to = inside("to");
    const struct model_copy what = {.from = e2b, .to = to};
    interrupt_note(SIGINT);
    const bool done = model_copy_run(&what, &err);
    interrupt_note(0);
    assert_false(done);
    assert_int_equal(err.kind, ERROR_INTERRUPTED);
    assert_false(file_exists(to));
    assert_false(is_partial_left());
    mem_free(to);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* Nothing is written for either. */
static void names_that_no_folder_can_get(void **state)
{
    (void)state;
    char *link = inside("dangling");
    assert_int_equal(symlink("nowhere-at-all", link), 0);
    assert_refused(e2b, "", NULL, ERROR_USAGE, "has an empty name");
    assert_refused(e2b, link, NULL, ERROR_USAGE, "is a link to something that is not");
    mem_free(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(types_there_and_back),
        TEST(towers_go_along),
        TEST(a_gguf_file_becomes_a_folder),
        cmocka_unit_test_setup_teardown(refuses, setup_with_file, teardown),
        TEST(keeps_results_apart_from_sources),
        TEST(names_that_no_folder_can_get),
        TEST(a_full_disk_leaves_nothing),
        TEST(a_signal_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
