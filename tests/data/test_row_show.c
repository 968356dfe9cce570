/*
 * Rows as people see them: marks around what carries loss and what is cut off.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "data/row.h"
#include "data/row_show.h"
#include "support/tokenizer_build.h"
#include "text/tokenizer.h"

/* "Q\n" and the response, with EOS; `n_kept` tokens are not cut. */
static void assert_shown(const char *response, size_t n_kept, bool has_colour,
                         bool is_per_token, const char *wanted)
{
    struct tokenizer *tokenizer = tokenizer_build_small();
    struct row row = {0};
    struct str text = {0};
    struct str out = {0};
    struct error err = {.message = ""};
    str_printf(&text, "Q\n%s", response);
    assert_true(
        row_from_text(&row, tokenizer, text.text, text.length, 2, false, true, &err));
    const struct row_show show = {
        .tokenizer = tokenizer, .has_colour = has_colour, .n_kept = n_kept};
    if (is_per_token) {
        row_show_tokens(&show, &row, &out);
    } else {
        row_show_text(&show, &row, &out);
    }
    assert_string_equal(out.text, wanted);
    str_deinit(&out);
    str_deinit(&text);
    row_deinit(&row);
    tokenizer_destroy(tokenizer);
}

/* D6: what carries loss can be seen, with and without colours. */
static void loss_is_marked(void **state)
{
    (void)state;
    assert_shown("the a", 100, false, false, "<bos>Q\n[[the a<eos>]]\n");
    assert_shown("the a", 6, false, false, "<bos>Q\n[[the]](( a<eos>))\n");
    assert_shown("the a", 0, false, false, "((<bos>Q\nthe a<eos>))\n");
    assert_shown("a\nb", 5, true, false,
                 "\x1b[36m<bos>\x1b[0mQ\n\x1b[1;32ma\xe2\x86\xb5\x1b[0m\n\x1b[1;32m"
                 "\x1b[0m\x1b[9;31mb<eos>\x1b[0m\n");
}

/* A row cannot move the cursor or set a title. */
static void nothing_talks_to_the_terminal(void **state)
{
    (void)state;
    assert_shown("\x1b[2J\x7f\r\xc2\x9b\xff\xc3\xa9", 100, false, false,
                 "<bos>Q\n[[\\x1b[2J\\x7f\\x0d\\xc2\\x9b\\xff\xc3\xa9<eos>]]\n");
}

static void a_line_for_each_token(void **state)
{
    (void)state;
    assert_shown("\n", 3, false, true,
                 "     0       2      0 \"<bos>\"\n"
                 "     1     311      0 \"Q\"\n"
                 "     2     261      1 \"\\n\\n\"\n"
                 "     3       1    cut \"<eos>\"\n");
}

static void weights_and_documents(void **state)
{
    (void)state;
    struct tokenizer *tokenizer = tokenizer_build_small();
    const struct row_show show = {.tokenizer = tokenizer, .n_kept = 100};
    struct row row = {0};
    struct str out = {0};
    row_begin_document(&row);
    row_add(&row, tokenizer_id_of(tokenizer, "a"), 0);
    row_add(&row, tokenizer_id_of(tokenizer, "b"), 0.5F);
    row_add(&row, tokenizer_id_of(tokenizer, "c"), 2);
    row_begin_document(&row);
    row_add(&row, tokenizer_id_of(tokenizer, "d"), 0);
    row_show_text(&show, &row, &out);
    assert_string_equal(out.text, "a[[b]]*0.5[[c]]*2\n--- another document ---\nd\n");
    str_deinit(&out);
    row_deinit(&row);
    tokenizer_destroy(tokenizer);
}

static void the_legend_explains_both(void **state)
{
    (void)state;
    struct str out = {0};
    row_show_legend(false, &out);
    assert_string_equal(out.text, "[[...]] carries loss, ((...)) is cut off\n");
    str_clear(&out);
    row_show_legend(true, &out);
    assert_non_null(strstr(out.text, "\x1b[1;32mcarries loss\x1b[0m"));
    str_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_is_marked),
        cmocka_unit_test(nothing_talks_to_the_terminal),
        cmocka_unit_test(a_line_for_each_token),
        cmocka_unit_test(weights_and_documents),
        cmocka_unit_test(the_legend_explains_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
