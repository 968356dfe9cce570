/*
 * Rows to blocks: what is cut, split, left out and counted (C6, C11); bounds of entries.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/mem.h"
#include "data/row.h"
#include "data/row_block.h"

enum { BOS = 2 };

/* BOS without loss, then tokens 10, 11, ... of which the first `n_prompt` have none. */
static void make_row(struct row *row, int n, int n_prompt)
{
    row_clear(row);
    row_begin_document(row);
    row_add(row, BOS, 0);
    for (int i = 1; i < n; i++) {
        row_add(row, 9 + i, i <= n_prompt ? 0.0F : 0.5F);
    }
}

static void assert_ids(const struct example *example, const int32_t *ids, int32_t n)
{
    assert_int_equal(example->n, n);
    assert_memory_equal(example->ids, ids, (size_t)n * sizeof(*ids));
    assert_int_equal(example->n_documents, 1);
    assert_int_equal(example->document_from[0], 0);
    assert_true(example->loss_weight[0] == 0.0F);
    int32_t n_targets = 0;
    for (int32_t i = 0; i < n; i++) {
        n_targets += example->loss_weight[i] > 0;
    }
    assert_int_equal(example->n_targets, n_targets);
}

static void cut_rows(void **state)
{
    (void)state;
    struct row row = {0};
    struct row_block block = {0};
    struct records_options options = {.row_tokens = 4};
    static const int32_t ids[] = {BOS, 10, 11, 12};
    make_row(&row, 4, 1);
    row_block_keep(&block, &row, 0, &options, BOS);
    make_row(&row, 6, 1);
    row_block_keep(&block, &row, 3, &options, BOS);
    make_row(&row, 6, 4); /* only the last token has loss, and that is cut off */
    row_block_keep(&block, &row, 4, &options, BOS);
    const struct row_block_view view = row_block_view(&block, 100, 201);
    assert_int_equal(view.n_entries, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct example example = row_block_example(&view, i);
        assert_ids(&example, ids, 4);
        assert_int_equal(example.source_row, 100 + i);
        assert_int_equal(example.line, i == 0 ? 201 : 204);
        assert_true(example.loss_weight[3] == 0.5F);
    }
    assert_int_equal(block.counts.n_rows, 3);
    assert_int_equal(block.counts.n_truncated, 2);
    assert_int_equal(block.counts.n_dropped, 1);
    assert_int_equal(block.counts.n_examples, 2);
    assert_int_equal(block.counts.n_tokens, 8);
    assert_int_equal(block.counts.n_targets, 4);
    row_block_deinit(&block);
    row_deinit(&row);
}

static void dropped_rows(void **state)
{
    (void)state;
    struct row row = {0};
    struct row_block block = {0};
    struct records_options options = {.row_tokens = 4, .overlong = RECORDS_DROP};
    make_row(&row, 5, 0);
    row_block_keep(&block, &row, 0, &options, BOS);
    make_row(&row, 4, 0);
    row_block_keep(&block, &row, 1, &options, BOS);
    const struct row_block_view view = row_block_view(&block, 0, 1);
    assert_int_equal(view.n_entries, 1);
    assert_int_equal(row_block_example(&view, 0).source_row, 1);
    assert_int_equal(block.counts.n_too_long, 1);
    assert_int_equal(block.counts.n_truncated, 0);
    assert_int_equal(block.counts.n_dropped, 0);
    row_block_deinit(&block);
    row_deinit(&row);
}

/* C11: each piece begins with BOS, once; every other token is a target once. */
static void split_rows(void **state)
{
    (void)state;
    struct row row = {0};
    struct row_block block = {0};
    struct records_options options = {.row_tokens = 4, .overlong = RECORDS_SPLIT};
    make_row(&row, 9, 0);
    row_block_keep(&block, &row, 7, &options, BOS);
    const struct row_block_view view = row_block_view(&block, 0, 1);
    static const int32_t pieces[][4] = {
        {BOS, 10, 11, 12}, {BOS, 13, 14, 15}, {BOS, 16, 17}};
    assert_int_equal(view.n_entries, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct example example = row_block_example(&view, i);
        assert_ids(&example, pieces[i], i < 2 ? 4 : 3);
        assert_int_equal(example.n_targets, example.n - 1);
        assert_int_equal(example.source_row, 0);
        assert_int_equal(example.line, 8);
    }
    assert_int_equal(block.counts.n_split, 1);
    assert_int_equal(block.counts.n_rows, 1);
    assert_int_equal(block.counts.n_targets, 8);
    assert_int_equal(block.counts.n_tokens, 4 + 4 + 3);

    /* Without BOS the first token of a piece has no loss; a last piece of one token has
     * nothing to learn and is left out. */
    row_block_clear(&block);
    make_row(&row, 5, 0);
    row_block_keep(&block, &row, 0, &options, -1);
    assert_int_equal(block.n_entries, 1);
    assert_int_equal(block.counts.n_examples, 1);
    assert_int_equal(block.counts.n_tokens, 4);
    assert_int_equal(block.n_words, 4 + 4 + 1);
    row_block_deinit(&block);
    row_deinit(&row);
}

/* What a damaged or forged cache might hold; D: bounds of all offsets. */
static void entries_out_of_bounds(void **state)
{
    (void)state;
    static const uint32_t words[9] = {0};
    const struct row_entry good = {.n = 4, .n_documents = 1, .n_targets = 3};
    struct row_block_view view = {.words = words, .n_words = 9, .n_entries = 1};
    struct row_entry bad[] = {good, good, good, good, good, good, good, good};
    bad[0].at = 1;
    bad[1].at = UINT32_MAX;
    bad[2].n = 0;
    bad[3].n = -1;
    bad[4].n = INT32_MAX;
    bad[5].n_documents = 0;
    bad[6].n_documents = 5;
    bad[7].n_targets = 5;
    view.entries = &good;
    assert_true(row_block_check(&view, 4));
    assert_false(row_block_check(&view, 3));
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        view.entries = &bad[i];
        assert_false(row_block_check(&view, INT32_MAX));
    }
}

static void faults_are_copied(void **state)
{
    (void)state;
    struct row_block block = {0};
    struct error fault = {.kind = ERROR_DATA, .message = "one"};
    row_block_add_fault(&block, 3, &fault);
    strcpy(fault.message, "two");
    row_block_add_fault(&block, 9, &fault);
    assert_int_equal(block.n_faults, 2);
    assert_string_equal(block.faults[0].message, "one");
    assert_int_equal(block.faults[1].line, 9);
    row_block_clear(&block);
    assert_int_equal(block.n_faults, 0);
    row_block_deinit(&block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_rows),          cmocka_unit_test(dropped_rows),
        cmocka_unit_test(split_rows),        cmocka_unit_test(entries_out_of_bounds),
        cmocka_unit_test(faults_are_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
