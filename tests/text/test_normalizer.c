/*
 * Replacements and prefixes, and where each byte came from.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "text/normalizer.h"

static void check(const struct normalizer *normalizer, const char *text,
                  const char *wanted, const uint32_t *origins)
{
    struct normalizer_text out = {0};
    struct normalizer_text spare = {0};
    normalizer_run(normalizer, text, strlen(text), &out, &spare);
    assert_int_equal(out.n, strlen(wanted));
    if (out.n > 0) {
        assert_memory_equal(out.text, wanted, out.n);
        assert_memory_equal(out.origin, origins, out.n * sizeof(*origins));
    }
    normalizer_text_deinit(&out);
    normalizer_text_deinit(&spare);
}

static void steps_follow_each_other(void **state)
{
    (void)state;
    struct normalizer normalizer = {0};
    check(&normalizer, "a b", "a b", (const uint32_t[]){0, 1, 2});
    normalizer_add(&normalizer, NORMALIZER_REPLACE, " ", "__");
    check(&normalizer, "a b", "a__b", (const uint32_t[]){0, 1, 1, 2});
    check(&normalizer, "", "", NULL);
    check(&normalizer, "  ", "____", (const uint32_t[]){0, 0, 1, 1});
    normalizer_add(&normalizer, NORMALIZER_PREPEND, NULL, ">");
    check(&normalizer, "a b", ">a__b", (const uint32_t[]){0, 0, 1, 1, 2});
    check(&normalizer, "", "", NULL);
    normalizer_add(&normalizer, NORMALIZER_REPLACE, "a__", "");
    check(&normalizer, "a b", ">b", (const uint32_t[]){0, 2});
    normalizer_deinit(&normalizer);
}

static void matches_do_not_overlap(void **state)
{
    (void)state;
    struct normalizer normalizer = {0};
    normalizer_add(&normalizer, NORMALIZER_REPLACE, "aa", "b");
    check(&normalizer, "aaaaa", "bba", (const uint32_t[]){0, 2, 4});
    normalizer_deinit(&normalizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_follow_each_other),
        cmocka_unit_test(matches_do_not_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
