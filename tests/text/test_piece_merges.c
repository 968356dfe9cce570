/*
 * The order of merges, on pieces small enough to list them by hand: by rank, then by id, and
 * of one piece the longest left part first, as transformers' generate_merges does it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "text/piece_merges.h"
#include "text/vocabulary.h"

static void note(void *context, const char *left, size_t left_length, const char *right,
                 size_t right_length)
{
    struct str *seen = context;
    str_printf(seen, "%.*s+%.*s ", (int)left_length, left, (int)right_length, right);
}

static void fill(struct vocabulary *pieces, const char *const *texts, size_t n)
{
    struct error err;
    for (size_t i = 0; i < n; i++) {
        assert_true(vocabulary_add(pieces, (int64_t)i, texts[i], strlen(texts[i]),
                                   VOCABULARY_MODEL, &err));
    }
}

static void in_the_order_of_ranks(void **state)
{
    (void)state;
    static const char *const texts[] = {"a", "b", "ab", "ba", "aba", "bab", "abab"};
    /*                              rank: 9,   9,   5,    3,    7,     5,     0 */
    static const int32_t ranks[] = {9, 9, 5, 3, 7, 5, 0};
    struct vocabulary pieces = {0};
    struct str seen = {0};
    fill(&pieces, texts, ARRAY_LENGTH(texts));
    piece_merges_list(&pieces, ranks, note, &seen);
    assert_string_equal(str_text(&seen), "aba+b ab+ab a+bab " /* rank 0 */
                                         "b+a "               /* rank 3 */
                                         "a+b "               /* rank 5, id 2 */
                                         "ba+b b+ab "         /* rank 5, id 5 */
                                         "ab+a a+ba ");       /* rank 7 */
    str_deinit(&seen);
    vocabulary_deinit(&pieces);
}

/* U+00E9 is C3 A9 and U+2581 E2 96 81: pieces that are single bytes of these are not
 * looked for inside them. */
static void cuts_between_characters(void **state)
{
    (void)state;
    static const char *const texts[] = {"\xc3\xa9", "\xe2\x96\x81",
                                        "\xc3\xa9\xe2\x96\x81", "\xc3", "\xa9"};
    static const int32_t ranks[] = {0, 1, 2, 3, 4};
    struct vocabulary pieces = {0};
    struct str seen = {0};
    fill(&pieces, texts, ARRAY_LENGTH(texts));
    piece_merges_list(&pieces, ranks, note, &seen);
    assert_string_equal(str_text(&seen), "\xc3\xa9+\xe2\x96\x81 ");
    str_deinit(&seen);
    vocabulary_deinit(&pieces);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_the_order_of_ranks),
        cmocka_unit_test(cuts_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
