/*
 * Each behaviour, as Hugging Face documents it for "the-final--countdown".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/str.h"
#include "text/splitter.h"

/* The words of `text`, joined by '|'. */
static void check(const struct splitter *splitter, const char *text, const char *wanted)
{
    struct splitter_spans out = {0};
    struct splitter_spans spare = {0};
    struct str joined = {0};
    splitter_run(splitter, text, strlen(text), &out, &spare);
    for (size_t i = 0; i < out.n; i++) {
        assert_true(out.items[i].from < out.items[i].to);
        str_add(&joined, i > 0 ? "|" : "");
        str_add_bytes(&joined, text + out.items[i].from,
                      out.items[i].to - out.items[i].from);
    }
    assert_string_equal(str_text(&joined), wanted);
    str_deinit(&joined);
    splitter_spans_deinit(&out);
    splitter_spans_deinit(&spare);
}

static void check_behavior(enum splitter_behavior behavior, bool is_inverted,
                           const char *text, const char *wanted)
{
    struct splitter splitter = {0};
    splitter_add(&splitter, "-", behavior, is_inverted);
    check(&splitter, text, wanted);
    splitter_deinit(&splitter);
}

static void behaviors(void **state)
{
    (void)state;
    static const char text[] = "the-final--countdown";
    check_behavior(SPLITTER_REMOVED, false, text, "the|final|countdown");
    check_behavior(SPLITTER_ISOLATED, false, text, "the|-|final|-|-|countdown");
    check_behavior(SPLITTER_MERGED_WITH_PREVIOUS, false, text,
                   "the-|final-|-|countdown");
    check_behavior(SPLITTER_MERGED_WITH_NEXT, false, text, "the|-final|-|-countdown");
    check_behavior(SPLITTER_CONTIGUOUS, false, text, "the|-|final|--|countdown");
}

static void ends_and_empty_texts(void **state)
{
    (void)state;
    check_behavior(SPLITTER_MERGED_WITH_PREVIOUS, false, "-a-", "-|a-");
    check_behavior(SPLITTER_MERGED_WITH_NEXT, false, "-a-", "-a|-");
    check_behavior(SPLITTER_REMOVED, false, "--", "");
    check_behavior(SPLITTER_ISOLATED, false, "", "");
    check_behavior(SPLITTER_ISOLATED, false, "abc", "abc");
}

static void inverted(void **state)
{
    (void)state;
    check_behavior(SPLITTER_REMOVED, true, "a-b--c", "-|-|-");
    check_behavior(SPLITTER_REMOVED, true, "abc", "");
    check_behavior(SPLITTER_ISOLATED, true, "a-b", "a|-|b");
    check_behavior(SPLITTER_MERGED_WITH_NEXT, true, "a-b-", "a-|b-");
}

static void one_after_the_other(void **state)
{
    (void)state;
    struct splitter splitter = {0};
    splitter_add(&splitter, "-", SPLITTER_REMOVED, false);
    splitter_add(&splitter, "bb", SPLITTER_ISOLATED, false);
    check(&splitter, "abba-bb-c", "a|bb|a|bb|c");
    splitter_deinit(&splitter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(behaviors),
        cmocka_unit_test(ends_and_empty_texts),
        cmocka_unit_test(inverted),
        cmocka_unit_test(one_after_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
