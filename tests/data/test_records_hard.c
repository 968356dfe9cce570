/*
 * Hard inputs: every plane of Unicode, NUL bytes, CR LF, no last newline, byte-order
 * marks, a line of 50 MB, an empty file, 100,000 tiny rows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/loader.h"
#include "data/records.h"
#include "support/tokenizer_build.h"
#include "text/tokenizer.h"

static struct tokenizer *small;
static const struct records_options text_rows = {.format = RECORDS_TEXT};

static int make_small(void **state)
{
    (void)state;
    small = tokenizer_build_small();
    return 0;
}

static int destroy_small(void **state)
{
    (void)state;
    tokenizer_destroy(small);
    return 0;
}

static void read_or_fail(struct records *records, const char *text, size_t length)
{
    struct error err = {.message = ""};
    *records = (struct records){0};
    if (!records_read_text(records, text, length, "t.jsonl", &text_rows, small, &err)) {
        fail_msg("%s", err.message);
    }
}

/* The bytes of an example's text come back from its tokens. */
static void assert_decodes(const struct records *records, size_t i, const char *text,
                           size_t length)
{
    const struct example example = records_example(records, i);
    struct str out = {0};
    tokenizer_decode(small, example.ids, (size_t)example.n, true, &out);
    assert_int_equal(out.length, length);
    assert_memory_equal(str_text(&out), text, length);
    str_deinit(&out);
}

static void add_utf8(struct str *out, uint32_t code)
{
    if (code < 0x80) {
        str_add_char(out, (char)code);
    } else if (code < 0x800) {
        str_printf(out, "%c%c", (int)(0xC0 | code >> 6), (int)(0x80 | (code & 63)));
    } else if (code < 0x10000) {
        str_printf(out, "%c%c%c", (int)(0xE0 | code >> 12),
                   (int)(0x80 | (code >> 6 & 63)), (int)(0x80 | (code & 63)));
    } else {
        str_printf(out, "%c%c%c%c", (int)(0xF0 | code >> 18),
                   (int)(0x80 | (code >> 12 & 63)), (int)(0x80 | (code >> 6 & 63)),
                   (int)(0x80 | (code & 63)));
    }
}

static void add_escaped(struct str *out, uint32_t code)
{
    if (code >= 0x10000) {
        const uint32_t rest = code - 0x10000;
        str_printf(out, "\\u%04X\\u%04X", (unsigned)(0xD800 + (rest >> 10)),
                   (unsigned)(0xDC00 + (rest & 0x3FF)));
    } else {
        str_printf(out, "\\u%04X", (unsigned)code);
    }
}

/* Characters of all 17 planes, as UTF-8 and as escapes: the same tokens either way. */
static void every_plane(void **state)
{
    (void)state;
    struct str lines = {0};
    struct str texts[17] = {{0}};
    for (uint32_t plane = 0; plane < 17; plane++) {
        struct str escaped = {0};
        for (uint32_t low = 0x21; low <= 0xFFFF; low += 0x1F3) {
            const uint32_t code = plane << 16 | low;
            const bool is_surrogate = code >= 0xD800 && code < 0xE000;
            /* U+2581 stands for the space; quotes and backslashes need escapes. */
            if (!is_surrogate && code != 0x2581 && code != '"' && code != '\\') {
                add_utf8(&texts[plane], code);
                add_escaped(&escaped, code);
            }
        }
        str_printf(&lines, "{\"text\": \"%s\"}\n{\"text\": \"%s\"}\n",
                   texts[plane].text, escaped.text);
        str_deinit(&escaped);
    }
    struct records records;
    read_or_fail(&records, lines.text, lines.length);
    assert_int_equal(records.n, 34);
    for (size_t i = 0; i < 34; i++) {
        assert_decodes(&records, i, texts[i / 2].text, texts[i / 2].length);
    }
    for (int plane = 0; plane < 17; plane++) {
        str_deinit(&texts[plane]);
    }
    str_deinit(&lines);
    records_deinit(&records);
}

static void assert_refused(const char *text, size_t length, const char *why)
{
    struct records records = {0};
    struct error err = {.message = ""};
    assert_false(
        records_read_text(&records, text, length, "t.jsonl", &text_rows, small, &err));
    if (strstr(err.message, why) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.message, why);
    }
    records_deinit(&records);
}

/* Half a surrogate pair and bytes that are not UTF-8 are broken rows. */
static void broken_unicode(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "{\"text\": \"\\uD800\"}",          "{\"text\": \"\\uDC00\\uD800\"}",
        "{\"text\": \"\xC0\x80\"}",         "{\"text\": \"\xED\xA0\x80\"}",
        "{\"text\": \"\xF4\x90\x80\x80\"}", "{\"text\": \"\xE2\x82\"}"};
    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++) {
        assert_refused(lines[i], strlen(lines[i]), "t.jsonl:1: column ");
    }
}

/* An escaped NUL is a character like others; a bare one is not JSON. */
static void nul_bytes(void **state)
{
    (void)state;
    static const char escaped[] = "{\"text\": \"a\\u0000b\\u0000\"}\n";
    struct records records;
    read_or_fail(&records, escaped, sizeof(escaped) - 1);
    assert_decodes(&records, 0, "a\0b\0", 4);
    records_deinit(&records);
    static const char bare[] = "{\"text\": \"x\"}\n{\"text\": \"a\0b\"}\n";
    assert_refused(bare, sizeof(bare) - 1,
                   "t.jsonl:2: column 11: not valid JSON: control");
    static const char behind[] = "{\"text\": \"x\"}\n\0\0\n";
    assert_refused(behind, sizeof(behind) - 1, "t.jsonl:2: column ");
}

/* The same three rows, however their lines end. */
static void line_ends(void **state)
{
    (void)state;
    static const char *const files[] = {
        "{\"text\": \"a\"}\n{\"text\": \"b\"}\n{\"text\": \"c\"}\n",
        "{\"text\": \"a\"}\r\n{\"text\": \"b\"}\r\n{\"text\": \"c\"}\r\n",
        "{\"text\": \"a\"}\n{\"text\": \"b\"}\n{\"text\": \"c\"}",
        "\xEF\xBB\xBF{\"text\": \"a\"}\r\n{\"text\": \"b\"}\n{\"text\": \"c\"}\r",
        "\n\r\n{\"text\": \"a\"}\n \t\n{\"text\": \"b\"}\n\n{\"text\": \"c\"}\n\n\n"};
    for (size_t i = 0; i < ARRAY_LENGTH(files); i++) {
        struct records records;
        read_or_fail(&records, files[i], strlen(files[i]));
        assert_int_equal(records.counts.n_rows, 3);
        assert_decodes(&records, 0, "a", 1);
        assert_decodes(&records, 2, "c", 1);
        records_deinit(&records);
    }
}

/* Nothing to read is no fault of the file here; who needs rows says so (job_data.c). */
static void empty_files(void **state)
{
    (void)state;
    static const char *const files[] = {"", "\n", "\r\n\r\n", "\xEF\xBB\xBF",
                                        "\xEF\xBB\xBF\n"};
    for (size_t i = 0; i < ARRAY_LENGTH(files); i++) {
        struct records records;
        read_or_fail(&records, files[i], strlen(files[i]));
        assert_int_equal(records.n, 0);
        assert_int_equal(records.counts.n_rows, 0);
        assert_int_equal(records.n_sources, 1);
        records_deinit(&records);
    }
}

/* One line of 50 MB among short ones: its text is tokenised as a whole, and cut after
 * that. One MB of it under the sanitizers, which are slow. */
static void a_line_of_50_mb(void **state)
{
    (void)state;
#ifdef LATHE_SLOW_CHECKS
    const size_t wanted = 1000000;
#else
    const size_t wanted = 50000000;
#endif
    struct str lines = {0};
    str_add(&lines, "{\"text\": \"a\"}\n{\"text\": \"");
    static const char words[] = "What is the Response of Paris 4 ";
    while (lines.length < wanted) {
        str_add_bytes(&lines, words, sizeof(words) - 1);
    }
    str_add(&lines, "\"}\n{\"text\": \"c\"}\n");
    struct records_options options = text_rows;
    options.row_tokens = 512;
    struct records records = {0};
    struct error err = {.message = ""};
    if (!records_read_text(&records, lines.text, lines.length, "t.jsonl", &options,
                           small, &err)) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(records.n, 3);
    assert_int_equal(records.lengths[1], 512);
    assert_int_equal(records.counts.n_truncated, 1);
    assert_decodes(&records, 2, "c", 1);
    str_deinit(&lines);
    records_deinit(&records);
}

/* Packed without losing or repeating one; bench/data.c measures how long that takes. */
static void tiny_rows(void **state)
{
    (void)state;
    enum { N = 100000 };
    struct str lines = {0};
    for (int i = 0; i < N; i++) {
        str_add(&lines, "{\"input_ids\":[2,7]}\n");
    }
    const struct records_options options = {.format = RECORDS_TOKENS,
                                            .row_tokens = 512};
    struct records records = {0};
    struct error err = {.message = ""};
    assert_true(records_read_text(&records, lines.text, lines.length, "t.jsonl",
                                  &options, NULL, &err));
    assert_int_equal(records.n, N);
    const struct loader_options loading = {
        .pack = {.row_tokens = 512, .is_packed = true, .is_shuffled = true},
        .step_rows = 8,
        .rows = 8,
        .n_ranks = 1,
    };
    const struct loader_summary summary = loader_measure(&records, &loading, 1, 0);
    assert_int_equal(summary.n_real_tokens, 2 * N);
    assert_int_equal(summary.n_targets, N);
    /* 256 rows fill one of 512 tokens; the last row of each window may have room. */
    assert_in_range(summary.n_rows, 2 * N / 512, 2 * N / 512 + N / PACK_WINDOW + 1);
    str_deinit(&lines);
    records_deinit(&records);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_plane), cmocka_unit_test(broken_unicode),
        cmocka_unit_test(nul_bytes),   cmocka_unit_test(line_ends),
        cmocka_unit_test(empty_files), cmocka_unit_test(a_line_of_50_mb),
        cmocka_unit_test(tiny_rows),
    };
    return cmocka_run_group_tests(tests, make_small, destroy_small);
}
