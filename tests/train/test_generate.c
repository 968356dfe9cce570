/*
 * Generation on the demo's model: the same greedy text however it is asked for, ends,
 * streaming of whole characters, conversations that go on, several requests at once.
 */
#include "train/generate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "text/chat.h"
#include "text/tokenizer.h"
#include "train/model_source.h"

#define CHECK(call)                      \
    do {                                 \
        if (!(call)) {                   \
            fail_msg("%s", err.message); \
        }                                \
    } while (0)

static const struct sampler_options greedy = {0};
static const struct sampler_options usual = {
    .temperature = 1.0, .top_k = 64, .top_p = 0.95, .seed = 5};

struct fixture {
    struct model_source source;
    struct engine *engine;
    struct generator *generator;
    _Atomic int stop;
};

static void open_fixture(struct fixture *fixture, int32_t rows, int32_t context)
{
    struct error err;
    log_set_level(LOG_ERROR);
    *fixture = (struct fixture){0};
    CHECK(model_source_open(&fixture->source, "examples/demo/model", true, true, &err));
    const struct mesh mesh = mesh_single();
    const struct backend_options backend = {.n_threads = 2, .isa = BACKEND_ISA_BEST};
    fixture->engine = backend_create_cpu(&mesh, 0, 1, &backend, &err);
    assert_non_null(fixture->engine);
    const struct generate_options options = {
        .decoding = {.config = &fixture->source.config,
                     .params = fixture->source.params,
                     .rows = rows,
                     .context = context},
        .tokenizer = fixture->source.tokenizer,
        .stop = &fixture->stop};
    const struct decoding_source source = {.view = model_source_view,
                                           .read = model_source_read,
                                           .context = &fixture->source};
    fixture->generator = generate_create(fixture->engine, &options, &source, &err);
    if (fixture->generator == NULL) {
        fail_msg("%s", err.message);
    }
}

static void close_fixture(struct fixture *fixture)
{
    generate_destroy(fixture->generator);
    backend_destroy(fixture->engine);
    model_source_close(&fixture->source);
}

static struct token_list encode(const struct fixture *fixture, const char *text)
{
    struct token_list ids = {0};
    struct error err;
    CHECK(chat_encode(fixture->source.tokenizer, text, strlen(text), &ids, &err));
    return ids;
}

static bool collect(void *context, int request, const char *text, size_t length)
{
    (void)request;
    for (size_t i = 0; i < length;) { /* whole characters only */
        const int n = str_utf8_length(text + i, length - i);
        assert_true(n > 0);
        i += (size_t)n;
    }
    str_add_bytes(context, text, length);
    return true;
}

static struct generate_result run_one(struct fixture *fixture, const int32_t *ids,
                                      size_t n, int32_t max_tokens,
                                      const struct sampler_options *sampling,
                                      struct str *streamed)
{
    const struct generate_request request = {.ids = ids,
                                             .n = (int32_t)n,
                                             .max_tokens = max_tokens,
                                             .on_text =
                                                 streamed == NULL ? NULL : collect,
                                             .context = streamed};
    struct generate_result result = {0};
    struct error err;
    CHECK(generate_run(fixture->generator, &request, 1, sampling, &result, &err));
    return result;
}

static const char *const prompt = "Tom has 5 apples. He buys";

/* What is streamed is what is returned, and is what the ids say. */
static void text_is_that_of_the_ids(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 1, 128);
    struct token_list ids = encode(&f, prompt);
    struct str streamed = {0}, decoded = {0};
    struct generate_result result = run_one(&f, ids.ids, ids.n, 60, &usual, &streamed);
    assert_true(result.n > 0);
    assert_int_equal(result.n_read, ids.n);
    tokenizer_decode(f.source.tokenizer, result.ids, (size_t)result.n, true, &decoded);
    assert_string_equal(str_text(&decoded), result.text);
    assert_string_equal(str_text(&streamed), result.text);
    assert_int_equal(result.text_length, streamed.length);
    generate_result_deinit(&result);
    str_deinit(&streamed);
    str_deinit(&decoded);
    token_list_deinit(&ids);
    close_fixture(&f);
}

/* The same seed, the same text; read before or not; asked for at once or in parts. */
static void texts_can_be_repeated(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 1, 128);
    struct token_list ids = encode(&f, prompt);
    struct generate_result first = run_one(&f, ids.ids, ids.n, 24, &usual, NULL);
    assert_int_equal(first.end, GENERATE_MAX_TOKENS);
    struct generate_result again = run_one(&f, ids.ids, ids.n, 24, &usual, NULL);
    assert_int_equal(again.n_read, 1); /* the last token, for its logits */
    assert_int_equal(again.n, 24);
    assert_memory_equal(again.ids, first.ids, 24 * sizeof(int32_t));
    generate_result_deinit(&again);
    generate_forget(f.generator);
    again = run_one(&f, ids.ids, ids.n, 10, &usual, NULL);
    assert_int_equal(again.n_read, ids.n);
    assert_memory_equal(again.ids, first.ids, 10 * sizeof(int32_t));
    for (int i = 0; i < 10; i++) {
        token_list_add(&ids, again.ids[i], 0);
    }
    generate_result_deinit(&again);
    again = run_one(&f, ids.ids, ids.n, 14, &usual, NULL);
    assert_int_equal(again.n_read, 1);
    assert_memory_equal(again.ids, first.ids + 10, 14 * sizeof(int32_t));
    generate_result_deinit(&again);
    struct sampler_options other = usual;
    other.seed++;
    again = run_one(&f, ids.ids, ids.n, 14, &other, NULL);
    assert_memory_not_equal(again.ids, first.ids + 10, 14 * sizeof(int32_t));
    generate_result_deinit(&again);
    generate_result_deinit(&first);
    token_list_deinit(&ids);
    close_fixture(&f);
}

/* Three requests beside each other say what each says alone, with greedy sampling; the
 * first ends early. */
static void requests_do_not_disturb_each_other(void **state)
{
    (void)state;
    static const char *const prompts[] = {"How many", prompt, "A train goes 60 miles"};
    struct fixture f, alone;
    open_fixture(&f, 3, 96);
    open_fixture(&alone, 1, 96);
    struct token_list ids[3];
    struct generate_request requests[3];
    struct generate_result results[3] = {0};
    struct error err;
    for (int i = 0; i < 3; i++) {
        ids[i] = encode(&f, prompts[i]);
        requests[i] = (struct generate_request){
            .ids = ids[i].ids, .n = (int32_t)ids[i].n, .max_tokens = 5 + 15 * i};
    }
    CHECK(generate_run(f.generator, requests, 3, &greedy, results, &err));
    for (int i = 0; i < 3; i++) {
        struct generate_result one =
            run_one(&alone, ids[i].ids, ids[i].n, 5 + 15 * i, &greedy, NULL);
        assert_int_equal(results[i].n, one.n);
        assert_memory_equal(results[i].ids, one.ids, (size_t)one.n * sizeof(int32_t));
        assert_int_equal(results[i].end, one.end);
        generate_result_deinit(&one);
        generate_result_deinit(&results[i]);
        token_list_deinit(&ids[i]);
    }
    close_fixture(&alone);
    close_fixture(&f);
}

/* The context's end is said, a prompt that fills it is refused, an answer that is stopped
 * keeps what it has. */
static bool stop_it(void *context, int request, const char *text, size_t length)
{
    (void)request;
    (void)text;
    (void)length;
    return ++*(int *)context < 3;
}

static void answers_end_as_they_must(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 1, 32);
    struct token_list ids = encode(&f, prompt);
    struct generate_result result = run_one(&f, ids.ids, ids.n, 100, &usual, NULL);
    assert_int_equal(result.end, GENERATE_CONTEXT_FULL);
    assert_int_equal((size_t)result.n + ids.n, 32 + 1); /* the last is not read */
    generate_result_deinit(&result);

    int n_calls = 0;
    struct generate_request request = {.ids = ids.ids,
                                       .n = (int32_t)ids.n,
                                       .max_tokens = 10,
                                       .on_text = stop_it,
                                       .context = &n_calls};
    struct error err;
    CHECK(generate_run(f.generator, &request, 1, &usual, &result, &err));
    assert_int_equal(result.end, GENERATE_STOPPED);
    assert_in_range(result.n, 1, 9);
    generate_result_deinit(&result);

    atomic_store(&f.stop, 2);
    request.on_text = NULL;
    CHECK(generate_run(f.generator, &request, 1, &usual, &result, &err));
    assert_int_equal(result.end, GENERATE_STOPPED);
    assert_int_equal(result.n, 1);
    generate_result_deinit(&result);
    atomic_store(&f.stop, 0);

    int32_t many[40] = {0};
    request.ids = many;
    request.n = 32;
    assert_false(generate_run(f.generator, &request, 1, &usual, &result, &err));
    assert_non_null(strstr(err.message, "32 tokens"));
    token_list_deinit(&ids);
    close_fixture(&f);
}

/* A token that ends is neither in the ids nor in the text (D5): here the likeliest one is
 * made to be an end. */
static void the_end_is_not_part_of_the_answer(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 1, 64);
    struct token_list ids = encode(&f, prompt);
    struct generate_result free_run = run_one(&f, ids.ids, ids.n, 12, &greedy, NULL);
    assert_int_equal(free_run.n, 12);
    const int32_t end = free_run.ids[6];
    int32_t before = 0;
    while (free_run.ids[before] != end) {
        before++;
    }
    generate_destroy(f.generator);
    f.source.config.eos_id[0] = end;
    const struct generate_options options = {.decoding = {.config = &f.source.config,
                                                          .params = f.source.params,
                                                          .rows = 1,
                                                          .context = 64},
                                             .tokenizer = f.source.tokenizer};
    const struct decoding_source source = {.read = model_source_read,
                                           .context = &f.source};
    struct error err;
    f.generator = generate_create(f.engine, &options, &source, &err);
    assert_non_null(f.generator);
    struct generate_result result = run_one(&f, ids.ids, ids.n, 12, &greedy, NULL);
    assert_int_equal(result.end, GENERATE_END_OF_TURN);
    assert_int_equal(result.n, before);
    assert_memory_equal(result.ids, free_run.ids, (size_t)before * sizeof(int32_t));
    generate_result_deinit(&result);
    generate_result_deinit(&free_run);
    token_list_deinit(&ids);
    close_fixture(&f);
}

/* Memory is that of creation: a hundred tokens later there is no more of it. */
static void memory_is_constant(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 1, 256);
    struct token_list ids = encode(&f, prompt);
    const size_t cache = decoding_cache_bytes(generate_decoding(f.generator));
    struct generate_result result = run_one(&f, ids.ids, ids.n, 20, &usual, NULL);
    generate_result_deinit(&result);
    const size_t before = mem_resident_bytes();
    result = run_one(&f, ids.ids, ids.n, 200, &usual, NULL);
    generate_result_deinit(&result);
    const size_t after = mem_resident_bytes();
    assert_int_equal(decoding_cache_bytes(generate_decoding(f.generator)), cache);
    assert_true(after < before + (4 << 20)); /* lists of ids, and what malloc keeps */
    token_list_deinit(&ids);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_that_of_the_ids),
        cmocka_unit_test(texts_can_be_repeated),
        cmocka_unit_test(requests_do_not_disturb_each_other),
        cmocka_unit_test(answers_end_as_they_must),
        cmocka_unit_test(the_end_is_not_part_of_the_answer),
        cmocka_unit_test(memory_is_constant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
