/*
 * generate - the loop over tokens: sample, show, feed.
 */
#include "train/generate.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/config.h"
#include "text/chat.h"
#include "text/tokenizer.h"

enum { MAX_ENDS = MODEL_MAX_EOS + 2 };

/* One row of the decoding: what it has read, and the answer being made. */
struct row {
    struct token_list read; /* tokens in the decoding, in order */
    struct str pending;     /* bytes that are no whole character yet */
    struct str text;        /* of the answer so far */
    struct token_list answer;
    bool is_active;
    int32_t next; /* the answer's last token, not read yet */
};

struct generator {
    struct generate_options options;
    struct decoding *decoding;
    struct sampler *sampler;
    struct row *rows;       /* [decoding.rows] */
    const int32_t **ids;    /* [decoding.rows] for decoding_feed */
    int32_t *n;             /* the same */
    int32_t ends[MAX_ENDS]; /* tokens that end an answer */
    int n_ends;
    struct generate_speed speed;
};

/* -1: this vocabulary has no such token. */
static void add_end(struct generator *generator, int32_t id)
{
    if (id >= 0) {
        ASSERT(generator->n_ends < MAX_ENDS);
        generator->ends[generator->n_ends++] = id;
    }
}

static bool is_end(const struct generator *generator, int32_t id)
{
    for (int i = 0; i < generator->n_ends; i++) {
        if (generator->ends[i] == id) {
            return true;
        }
    }
    return false;
}

/* Ends are those of the config, of the tokenizer, and the end of a turn: a model that was
 * tuned on conversations often says only the last. */
struct generator *generate_create(struct engine *engine,
                                  const struct generate_options *options,
                                  const struct decoding_source *source,
                                  struct error *err)
{
    struct generator *generator = mem_alloc(sizeof(*generator));
    const struct model_config *config = options->decoding.config;
    const size_t rows = (size_t)options->decoding.rows;
    generator->options = *options;
    generator->decoding = decoding_create(engine, &options->decoding, source, err);
    if (generator->decoding == NULL) {
        mem_free(generator);
        return NULL;
    }
    generator->sampler = sampler_create(config->V);
    generator->rows = mem_alloc_array(rows, sizeof(*generator->rows));
    generator->ids = mem_alloc_array(rows, sizeof(*generator->ids));
    generator->n = mem_alloc_array(rows, sizeof(*generator->n));
    for (int i = 0; i < config->n_eos; i++) {
        add_end(generator, config->eos_id[i]);
    }
    add_end(generator, tokenizer_eos(options->tokenizer));
    enum chat_format format;
    if (chat_format_of_tokenizer(options->tokenizer, &format)) {
        add_end(generator, chat_end_of_turn(format, options->tokenizer));
    }
    return generator;
}

void generate_destroy(struct generator *generator)
{
    if (generator == NULL) {
        return;
    }
    for (int32_t i = 0; i < generator->options.decoding.rows; i++) {
        token_list_deinit(&generator->rows[i].read);
        token_list_deinit(&generator->rows[i].answer);
        str_deinit(&generator->rows[i].pending);
        str_deinit(&generator->rows[i].text);
    }
    mem_free(generator->rows);
    mem_free(generator->ids);
    mem_free(generator->n);
    sampler_destroy(generator->sampler);
    decoding_destroy(generator->decoding);
    mem_free(generator);
}

/* ---- text ---- */

/* Whether text[0 .. n) may become a character by further bytes. */
static bool is_begun(const char *text, size_t n)
{
    const unsigned char first = (unsigned char)text[0];
    const size_t wanted = first >= 0xF0 && first <= 0xF4   ? 4
                          : first >= 0xE0 && first <= 0xEF ? 3
                          : first >= 0xC2 && first <= 0xDF ? 2
                                                           : 0;
    for (size_t i = 1; i < n; i++) {
        if (((unsigned char)text[i] & 0xC0) != 0x80) {
            return false;
        }
    }
    return n < wanted;
}

/* Moves whole characters from `pending` to the end of `text`; bytes that are none become
 * U+FFFD, as does what is left at the end of an answer. */
static void take_characters(struct str *pending, struct str *text, bool is_last)
{
    size_t at = 0;
    while (at < pending->length) {
        const char *byte = pending->text + at;
        const size_t left = pending->length - at;
        const int length = str_utf8_length(byte, left);
        if (length > 0) {
            str_add_bytes(text, byte, (size_t)length);
            at += (size_t)length;
        } else if (!is_last && is_begun(byte, left)) {
            break;
        } else {
            str_add(text, "\xEF\xBF\xBD");
            at++;
        }
    }
    if (at > 0) {
        memmove(pending->text, pending->text + at, pending->length - at);
        pending->length -= at;
        pending->text[pending->length] = '\0';
    }
}

/* Hands on what the row's text has grown by; false: on_text wants no more. */
static bool show(struct row *row, const struct generate_request *request, int index,
                 bool is_last)
{
    const size_t before = row->text.length;
    take_characters(&row->pending, &row->text, is_last);
    if (request->on_text == NULL || row->text.length == before) {
        return true;
    }
    return request->on_text(request->context, index, row->text.text + before,
                            row->text.length - before);
}

/* ---- prompts ---- */

/* Before anything is read. */
static bool check_requests(const struct generator *generator,
                           const struct generate_request *requests, int n,
                           const struct sampler_options *sampling, struct error *err)
{
    const int32_t context = generator->options.decoding.context;
    ASSERT(n <= generator->options.decoding.rows);
    for (int i = 0; i < n; i++) {
        ASSERT(requests[i].n > 0 && requests[i].max_tokens > 0);
        if (requests[i].n >= context) {
            return error_set(err, ERROR_DATA,
                             "the text has %d tokens, but the context has room for %d "
                             "with the answer; a shorter text or a longer context is "
                             "needed",
                             (int)requests[i].n, (int)context);
        }
    }
    return sampler_check(sampling, err);
}

/* Keeps what the row has read of this text and plans to feed the rest: at least the last
 * token, whose logits are wanted. */
static void plan_prompt(struct generator *generator, int index,
                        const struct generate_request *request)
{
    struct row *row = &generator->rows[index];
    int32_t same = 0;
    while (same < request->n - 1 && (size_t)same < row->read.n &&
           row->read.ids[same] == request->ids[same]) {
        same++;
    }
    if (!decoding_rewind(generator->decoding, index, same)) {
        same = 0;
        const bool is_rewound = decoding_rewind(generator->decoding, index, 0);
        ASSERT(is_rewound);
    }
    row->read.n = (size_t)same;
    generator->ids[index] = request->ids + same;
    generator->n[index] = request->n - same;
}

/* The decoding reads what was planned; rows remember it. */
static bool feed(struct generator *generator, struct error *err)
{
    if (!decoding_feed(generator->decoding, generator->ids, generator->n, err)) {
        generate_forget(generator);
        return false;
    }
    for (int32_t i = 0; i < generator->options.decoding.rows; i++) {
        for (int32_t k = 0; k < generator->n[i]; k++) {
            token_list_add(&generator->rows[i].read, generator->ids[i][k], 0);
        }
    }
    return true;
}

/* Nothing for any row. */
static void plan_nothing(struct generator *generator)
{
    for (int32_t i = 0; i < generator->options.decoding.rows; i++) {
        generator->ids[i] = NULL;
        generator->n[i] = 0;
    }
}

static bool read_prompts(struct generator *generator,
                         const struct generate_request *requests, int n,
                         struct generate_result *results, struct error *err)
{
    plan_nothing(generator);
    for (int i = 0; i < n; i++) {
        struct row *row = &generator->rows[i];
        token_list_clear(&row->answer);
        str_clear(&row->pending);
        str_clear(&row->text);
        row->is_active = true;
        plan_prompt(generator, i, &requests[i]);
        results[i].n_read = generator->n[i];
        generator->speed.prompt_tokens += generator->n[i];
    }
    const int64_t start = clock_now_ns();
    const bool done = feed(generator, err);
    generator->speed.prompt_seconds = clock_since_ms(start) / 1e3;
    return done;
}

/* ---- answers ---- */

static void end_row(struct row *row, struct generate_result *result,
                    enum generate_end end)
{
    row->is_active = false;
    result->end = end;
}

/* Draws the row's next token and shows it. Its number is its place in the row, so no
 * two tokens of a conversation share a draw. */
static bool advance_row(struct generator *generator, int index,
                        const struct generate_request *request,
                        const struct sampler_options *sampling,
                        struct generate_result *result, struct error *err)
{
    struct row *row = &generator->rows[index];
    const int32_t n_read = decoding_n_tokens(generator->decoding, index);
    if (!sampler_pick(generator->sampler, sampling,
                      decoding_logits(generator->decoding, index), index, n_read,
                      &row->next, err)) {
        return false;
    }
    if (is_end(generator, row->next)) {
        end_row(row, result, GENERATE_END_OF_TURN);
        return true;
    }
    token_list_add(&row->answer, row->next, 0);
    tokenizer_decode(generator->options.tokenizer, &row->next, 1, true, &row->pending);
    if (!show(row, request, index, false)) {
        end_row(row, result, GENERATE_STOPPED);
    } else if (row->answer.n >= (size_t)request->max_tokens) {
        end_row(row, result, GENERATE_MAX_TOKENS);
    } else if (n_read >= generator->options.decoding.context) {
        end_row(row, result, GENERATE_CONTEXT_FULL);
    }
    return true;
}

/* Somebody outside wants an end, or one on_text does. */
static bool is_stopped(const struct generator *generator,
                       const struct generate_result *results, int n)
{
    const _Atomic int *stop = generator->options.stop;
    bool is_stopped = stop != NULL && atomic_load(stop) != 0;
    for (int i = 0; i < n; i++) {
        is_stopped = is_stopped || (!generator->rows[i].is_active &&
                                    results[i].end == GENERATE_STOPPED);
    }
    return is_stopped;
}

/* Plans to feed the rows that go on; false: there is none. */
static bool plan_tokens(struct generator *generator, int n)
{
    plan_nothing(generator);
    bool any = false;
    for (int i = 0; i < n; i++) {
        struct row *row = &generator->rows[i];
        if (row->is_active) {
            generator->ids[i] = &row->next;
            generator->n[i] = 1;
            generator->speed.answer_tokens++;
            any = true;
        }
    }
    return any;
}

/* Token by token, all rows in step. */
static bool answer(struct generator *generator, const struct generate_request *requests,
                   int n, const struct sampler_options *sampling,
                   struct generate_result *results, struct error *err)
{
    for (;;) {
        for (int i = 0; i < n; i++) {
            if (generator->rows[i].is_active &&
                !advance_row(generator, i, &requests[i], sampling, &results[i], err)) {
                return false;
            }
        }
        if (is_stopped(generator, results, n)) {
            for (int i = 0; i < n; i++) {
                if (generator->rows[i].is_active) {
                    end_row(&generator->rows[i], &results[i], GENERATE_STOPPED);
                }
            }
        }
        if (!plan_tokens(generator, n)) {
            return true;
        }
        if (!feed(generator, err)) {
            return false;
        }
    }
}

/* Also of answers that were cut short; bytes that never became a character are shown. */
static void give_results(struct generator *generator,
                         const struct generate_request *requests, int n,
                         struct generate_result *results)
{
    for (int i = 0; i < n; i++) {
        struct row *row = &generator->rows[i];
        if (row->is_active) {
            end_row(row, &results[i], GENERATE_STOPPED);
        }
        (void)show(row, &requests[i], i, true);
        results[i].n = (int32_t)row->answer.n;
        results[i].ids = mem_alloc_array(row->answer.n + 1, sizeof(int32_t));
        if (row->answer.n > 0) {
            memcpy(results[i].ids, row->answer.ids, row->answer.n * sizeof(int32_t));
        }
        results[i].text = mem_copy_bytes(str_text(&row->text), row->text.length);
        results[i].text_length = row->text.length;
    }
}

/* A pass that was abandoned, as somebody asked for, is an answer that was stopped. */
bool generate_run(struct generator *generator, const struct generate_request *requests,
                  int n, const struct sampler_options *sampling,
                  struct generate_result *results, struct error *err)
{
    if (!check_requests(generator, requests, n, sampling, err)) {
        return false;
    }
    generator->speed = (struct generate_speed){0};
    bool done = read_prompts(generator, requests, n, results, err);
    if (done) {
        const int64_t start = clock_now_ns();
        done = answer(generator, requests, n, sampling, results, err);
        generator->speed.answer_seconds = clock_since_ms(start) / 1e3;
    }
    if (!done && err->kind != ERROR_CANCELLED) {
        return false;
    }
    give_results(generator, requests, n, results);
    return true;
}

void generate_result_deinit(struct generate_result *result)
{
    mem_free(result->ids);
    mem_free(result->text);
    *result = (struct generate_result){0};
}

struct generate_speed generate_last_speed(const struct generator *generator)
{
    return generator->speed;
}

void generate_forget(struct generator *generator)
{
    decoding_reset(generator->decoding);
    for (int32_t i = 0; i < generator->options.decoding.rows; i++) {
        token_list_clear(&generator->rows[i].read);
    }
}

const struct decoding *generate_decoding(const struct generator *generator)
{
    return generator->decoding;
}
