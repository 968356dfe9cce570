/*
 * The stages together on a small vocabulary shaped like Gemma's; threads; the real one,
 * when it is there, against the golden vectors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"
#include "formats/gguf.h"
#include "support/tokenizer_build.h"
#include "text/tokenizer.h"

#define VECTORS "tests/golden/tokenizer-gemma3/vectors.json"
#define SPACE   "\xe2\x96\x81"

/* The token texts of an encoding, joined by '|'. */
static void assert_tokens(const struct tokenizer *tokenizer, const char *text,
                          bool add_special, const char *wanted)
{
    struct token_list list = {0};
    struct str joined = {0};
    tokenizer_encode(tokenizer, text, strlen(text), add_special, &list);
    for (size_t i = 0; i < list.n; i++) {
        str_printf(&joined, "%s%s", i > 0 ? "|" : "",
                   tokenizer_token_text(tokenizer, list.ids[i]));
    }
    assert_string_equal(str_text(&joined), wanted);
    str_deinit(&joined);
    token_list_deinit(&list);
}

static void stages_in_order(void **state)
{
    (void)state;
    struct tokenizer *tokenizer = tokenizer_build_small();
    assert_tokens(tokenizer, "", false, "");
    assert_tokens(tokenizer, "", true, "<bos>");
    assert_tokens(tokenizer, "What is the", true,
                  "<bos>|What|" SPACE "is|" SPACE "the");
    assert_tokens(tokenizer, "What\nis\n\n\nit", false, "What|\n|i|s|\n\n|\n|i|t");
    assert_tokens(tokenizer, "<turn>the<turn", false, "<turn>|t|h|e|<|t|u|r|n");
    assert_tokens(tokenizer, "a  b", false, "a|" SPACE SPACE "|b");
    assert_tokens(tokenizer, "\xc3\xa9t\xc3\xa8", false, "\xc3\xa9t|<0xC3>|<0xA8>");
    assert_int_equal(tokenizer_bos(tokenizer), 2);
    assert_int_equal(tokenizer_eos(tokenizer), 1);
    assert_int_equal(tokenizer_pad(tokenizer), 0);
    assert_true(tokenizer_adds_bos(tokenizer));
    assert_int_equal(tokenizer_id_of(tokenizer, "<0x00>"), 4);
    assert_int_equal(tokenizer_id_of(tokenizer, "no such token"), -1);
    assert_true(tokenizer_is_special(tokenizer, 2));
    assert_false(tokenizer_is_special(tokenizer, tokenizer_id_of(tokenizer, "\n")));
    assert_false(tokenizer_is_special(tokenizer, 1 << 20));
    assert_null(tokenizer_token_text(tokenizer, -1));
    assert_true(tokenizer_n_tokens(tokenizer) > 300);
    tokenizer_destroy(tokenizer);
    tokenizer_destroy(NULL);
}

static void starts_are_bytes_of_the_text(void **state)
{
    (void)state;
    struct tokenizer *tokenizer = tokenizer_build_small();
    static const char text[] = "What is\n\n\xc3\xa8 the";
    static const uint32_t wanted[] = {0, 0, 4, 7, 9, 10, 11};
    struct token_list list = {0};
    tokenizer_encode(tokenizer, text, strlen(text), true, &list);
    assert_int_equal(list.n, ARRAY_LENGTH(wanted));
    assert_memory_equal(list.starts, wanted, sizeof(wanted));
    token_list_deinit(&list);
    tokenizer_destroy(tokenizer);
}

static void assert_round_trip(const struct tokenizer *tokenizer, const char *text,
                              size_t length)
{
    struct token_list list = {0};
    struct str back = {0};
    tokenizer_encode(tokenizer, text, length, true, &list);
    tokenizer_decode(tokenizer, list.ids, list.n, true, &back);
    const bool has_added = list.n > 1;
    assert_int_equal(back.length, length);
    if (has_added && length > 0) {
        assert_memory_equal(back.text, text, length);
    }
    for (size_t i = 1; i < list.n; i++) {
        assert_true(list.starts[i] >= list.starts[i - 1] && list.starts[i] < length);
    }
    str_deinit(&back);
    token_list_deinit(&list);
}

/* decode(encode(x)) is x, for any bytes but U+2581 and the texts of special tokens. */
static void round_trips(void **state)
{
    (void)state;
    static const char *const pieces[] = {" ",        "the",  "  ",
                                         "What",     "\n",   "\n\n",
                                         "\xc3\xa9", "4",    "\xf0\x9f\x98\x8a",
                                         "<0x41>",   "\xff", "Paris",
                                         "\t",       "e"};
    struct tokenizer *tokenizer = tokenizer_build_small();
    struct str text = {0};
    uint64_t n_drawn = 0;
    for (int round = 0; round < 2000; round++) {
        str_clear(&text);
        str_add(&text, "");
        const uint32_t n = random_bits(5, RANDOM_TEST, 0, n_drawn++) % 30;
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t k = random_bits(5, RANDOM_TEST, 0, n_drawn++);
            str_add(&text, pieces[k % ARRAY_LENGTH(pieces)]);
        }
        /* The text "<0x41>" is six characters, not the byte. */
        assert_round_trip(tokenizer, text.text, text.length);
    }
    assert_round_trip(tokenizer, "a\0b", 3);
    str_deinit(&text);
    tokenizer_destroy(tokenizer);
}

static void decode_skips_specials_on_request(void **state)
{
    (void)state;
    struct tokenizer *tokenizer = tokenizer_build_small();
    const int32_t ids[] = {2,
                           tokenizer_id_of(tokenizer, "What"),
                           tokenizer_id_of(tokenizer, SPACE "is"),
                           999999,
                           -5,
                           tokenizer_id_of(tokenizer, "<turn>")};
    struct str text = {0};
    tokenizer_decode(tokenizer, ids, ARRAY_LENGTH(ids), true, &text);
    assert_string_equal(text.text, "What is");
    tokenizer_decode(tokenizer, ids, ARRAY_LENGTH(ids), false, &text);
    assert_string_equal(text.text, "What is<bos>What is<turn>");
    str_deinit(&text);
    tokenizer_destroy(tokenizer);
}

struct job {
    const struct tokenizer *tokenizer;
    const char *text;
    struct token_list list;
};

static void *encode_often(void *context)
{
    struct job *job = context;
    for (int i = 0; i < 50; i++) {
        token_list_clear(&job->list);
        tokenizer_encode(job->tokenizer, job->text, strlen(job->text), true,
                         &job->list);
    }
    return NULL;
}

static uint64_t fingerprint_of(const char *word, const char *config)
{
    struct tokenizer_build build = {0};
    tokenizer_build_begin(&build);
    tokenizer_build_word(&build, word);
    struct tokenizer *tokenizer = tokenizer_build_finish(&build, config);
    const uint64_t fingerprint = tokenizer_fingerprint(tokenizer);
    tokenizer_destroy(tokenizer);
    return fingerprint;
}

static void fingerprints(void **state)
{
    (void)state;
    static const char config[] = "{\"eos_token\": \"<unk>\"}";
    assert_true(fingerprint_of("the", NULL) == fingerprint_of("the", NULL));
    assert_true(fingerprint_of("the", NULL) != fingerprint_of("thy", NULL));
    assert_true(fingerprint_of("the", NULL) != fingerprint_of("the", config));
}

static void threads_share_a_tokenizer(void **state)
{
    (void)state;
    enum { N_THREADS = 4 };
    struct tokenizer *tokenizer = tokenizer_build_small();
    struct job jobs[N_THREADS] = {{0}};
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        jobs[i].tokenizer = tokenizer;
        jobs[i].text = "What is the capital of France?\nResponse: Paris. Instruction: "
                       "the of is a in er";
        assert_int_equal(pthread_create(&threads[i], NULL, encode_often, &jobs[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(jobs[i].list.n, jobs[0].list.n);
        assert_memory_equal(jobs[i].list.ids, jobs[0].list.ids,
                            jobs[0].list.n * sizeof(int32_t));
    }
    for (int i = 0; i < N_THREADS; i++) {
        token_list_deinit(&jobs[i].list);
    }
    tokenizer_destroy(tokenizer);
}

/* --- the real vocabulary ---------------------------------------------------------- */

static void check_vector(const struct tokenizer *tokenizer, const json_t *vector,
                         bool is_llama)
{
    const json_t *text = json_object_get(vector, "text");
    const json_t *llama = json_object_get(vector, "llama_ids");
    const json_t *ids =
        is_llama && llama != NULL ? llama : json_object_get(vector, "ids");
    const char *bytes = json_string_value(text);
    const size_t length = json_string_length(text);
    struct token_list list = {0};
    tokenizer_encode(tokenizer, bytes, length, true, &list);
    assert_int_equal(list.n, json_array_size(ids) + 1);
    assert_int_equal(list.ids[0], 2);
    for (size_t i = 1; i < list.n; i++) {
        assert_int_equal(list.ids[i], json_integer_value(json_array_get(ids, i - 1)));
    }
    if (strstr(bytes, SPACE) == NULL) {
        struct str back = {0};
        tokenizer_decode(tokenizer, list.ids + 1, list.n - 1, false, &back);
        assert_int_equal(back.length, length);
        assert_true(length == 0 || memcmp(back.text, bytes, length) == 0);
        str_deinit(&back);
    }
    token_list_deinit(&list);
}

static void check_vectors(const struct tokenizer *tokenizer, bool is_llama)
{
    json_error_t fault;
    json_t *file = json_load_file(VECTORS, JSON_ALLOW_NUL, &fault);
    const json_t *vectors = json_object_get(file, "vectors");
    assert_true(json_array_size(vectors) >= 40);
    for (size_t i = 0; i < json_array_size(vectors); i++) {
        check_vector(tokenizer, json_array_get(vectors, i), is_llama);
    }
    json_decref(file);
}

/* LATHE_TEST_TOKENIZER is a folder with Gemma 3's tokenizer.json, which is not part of
 * the project (Gemma terms of use). */
static void golden_vectors_from_tokenizer_json(void **state)
{
    (void)state;
    const char *folder = getenv("LATHE_TEST_TOKENIZER");
    if (folder == NULL) {
        skip();
    }
    struct error err = {.message = ""};
    const int64_t start = clock_now_ns();
    struct tokenizer *tokenizer = tokenizer_read_folder(folder, &err);
    if (tokenizer == NULL) {
        fail_msg("%s", err.message);
    }
    printf("# %d tokens from tokenizer.json in %.0f ms\n",
           tokenizer_n_tokens(tokenizer), clock_since_ms(start));
    check_vectors(tokenizer, false);
    tokenizer_destroy(tokenizer);
}

/* The llama.cpp ids where the two differ. */
static void golden_vectors_from_gguf(void **state)
{
    (void)state;
    static const char path[] = "models/gemma-3-270m.gguf";
    if (getenv("LATHE_TEST_ALL") == NULL || !file_exists(path)) {
        skip();
    }
    struct error err = {.message = ""};
    struct gguf *gguf = gguf_open(path, &err);
    assert_non_null(gguf);
    struct tokenizer *tokenizer = tokenizer_read_gguf(gguf, &err);
    gguf_close(gguf);
    if (tokenizer == NULL) {
        fail_msg("%s", err.message);
    }
    check_vectors(tokenizer, true);
    tokenizer_destroy(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_in_order),
        cmocka_unit_test(starts_are_bytes_of_the_text),
        cmocka_unit_test(round_trips),
        cmocka_unit_test(decode_skips_specials_on_request),
        cmocka_unit_test(fingerprints),
        cmocka_unit_test(threads_share_a_tokenizer),
        cmocka_unit_test(golden_vectors_from_tokenizer_json),
        cmocka_unit_test(golden_vectors_from_gguf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
