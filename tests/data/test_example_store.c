/*
 * Examples of blocks in memory behind one index; users. Blocks of caches are tested with
 * the records that use them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "data/example_store.h"
#include "data/row.h"

static void fill_block(struct row_block *block, int n, int32_t first)
{
    const struct records_options options = {.row_tokens = 8};
    struct row row = {0};
    row_block_clear(block);
    for (int i = 0; i < n; i++) {
        row_clear(&row);
        row_begin_document(&row);
        row_add(&row, first + i, 0);
        for (int k = 0; k <= i % 3; k++) {
            row_add(&row, 7, 1);
        }
        row_block_keep(block, &row, (uint32_t)i, &options, -1);
    }
    row_deinit(&row);
}

/* The block that was filled is used again: the store keeps copies. */
static void examples_of_many_blocks(void **state)
{
    (void)state;
    static const int counts[] = {1, 5, 2, 9, 1, 1, 30};
    struct example_store *store = example_store_create();
    struct row_block block = {0};
    int32_t n = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(counts); i++) {
        fill_block(&block, counts[i], n);
        example_store_add_block(store, &block, n, 2 * n + 1, (int32_t)i / 2);
        n += counts[i];
    }
    fill_block(&block, 30, 1000);
    row_block_deinit(&block);
    assert_int_equal(store->n, n);
    example_store_share(store);
    example_store_release(store);
    example_store_drop(store);
    for (int32_t i = 0; i < n; i++) {
        const struct example example = example_store_get(store, (size_t)i);
        assert_int_equal(example.ids[0], i);
        assert_int_equal(example.source_row, i);
        assert_int_equal(example.n, store->lengths[i]);
        assert_int_equal(example.n_targets, store->target_counts[i]);
        assert_int_equal(example.n, example.n_targets + 1);
    }
    assert_int_equal(example_store_get(store, 0).source, 0);
    assert_int_equal(example_store_get(store, 16).source, 1);
    assert_int_equal(example_store_get(store, 17).source, 2);
    assert_int_equal(example_store_get(store, 19).source, 3);
    assert_int_equal(example_store_get(store, 19).line, 2 * 19 + 1);
    example_store_release(store);
    example_store_release(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_of_many_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
