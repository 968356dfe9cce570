/*
 * Held-out shares: each example on one side, rows stay together, by seed alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "data/hold_out.h"
#include "data/records.h"

/* Appends n token rows whose first token is `first`, first + 1, ... */
static void add_rows(struct records *records, const char *name, int first, int n)
{
    struct str text = {0};
    struct error err = {.message = ""};
    for (int i = 0; i < n; i++) {
        str_printf(&text, "{\"input_ids\": [%d, 5, 6]}\n", first + i);
    }
    const struct records_options options = {.format = RECORDS_TOKENS};
    assert_true(records_read_text(records, str_text(&text), text.length, name, &options,
                                  NULL, &err));
    str_deinit(&text);
}

static void make_records(struct records *records)
{
    *records = (struct records){0};
    add_rows(records, "a", 100, 40);
    add_rows(records, "b", 200, 10);
    records->sources[1].weight = 3.0;
}

/* Marks the first tokens of a set; counts, lengths and sources must agree. */
static void mark(const struct records *records, int *seen)
{
    int64_t n_tokens = 0;
    for (size_t i = 0; i < records->n; i++) {
        const struct example example = records_example(records, i);
        const struct records_source *source = &records->sources[example.source];
        seen[example.ids[0]]++;
        n_tokens += example.n;
        assert_int_equal(records->lengths[i], example.n);
        assert_int_equal(records->target_counts[i], example.n_targets);
        assert_in_range(i, source->first, source->first + source->n - 1);
        assert_int_equal(example.source, example.ids[0] >= 200);
    }
    assert_int_equal(records->counts.n_tokens, n_tokens);
    assert_int_equal(records->counts.n_examples, records->n);
}

static void each_example_on_one_side(void **state)
{
    (void)state;
    struct records train;
    struct records held;
    int in_train[300] = {0};
    int in_held[300] = {0};
    make_records(&train);
    hold_out_split(&train, 0.2, 7, 0, &held);
    assert_int_equal(train.sources[0].n, 32);
    assert_int_equal(train.sources[1].n, 8);
    assert_int_equal(held.sources[0].n, 8);
    assert_int_equal(held.sources[1].n, 2);
    assert_string_equal(held.sources[1].name, "b");
    assert_true(train.sources[1].weight == 3.0);
    assert_true(held.sources[1].weight == 1.0);
    mark(&train, in_train);
    mark(&held, in_held);
    for (int i = 0; i < 300; i++) {
        const bool is_there = (i >= 100 && i < 140) || (i >= 200 && i < 210);
        assert_int_equal(in_train[i] + in_held[i], is_there);
    }
    /* The memory is shared: either may go first. */
    records_deinit(&train);
    mark(&held, in_held);
    records_deinit(&held);
}

static void by_the_seed(void **state)
{
    (void)state;
    int first[300] = {0};
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct records train;
        struct records held;
        int seen[300] = {0};
        make_records(&train);
        hold_out_split(&train, 0.5, seed == 2 ? 1 : 0, 0, &held);
        mark(&held, seen);
        if (seed == 0) {
            memcpy(first, seen, sizeof(first));
        } else {
            assert_true((memcmp(first, seen, sizeof(first)) == 0) == (seed == 1));
        }
        records_deinit(&train);
        records_deinit(&held);
    }
}

/* A share of a small file is at least one row, never all; max_rows is spread. */
static void limits(void **state)
{
    (void)state;
    struct records train;
    struct records held;
    make_records(&train);
    hold_out_split(&train, 0.001, 7, 0, &held);
    assert_int_equal(held.sources[0].n, 1);
    assert_int_equal(held.sources[1].n, 1);
    records_deinit(&held);
    hold_out_split(&train, 0.9, 7, 5, &held); /* of what is left */
    assert_int_equal(held.sources[0].n, 3);
    assert_int_equal(held.sources[1].n, 2);
    assert_int_equal(train.n, 50 - 2 - 5);
    records_deinit(&held);
    records_deinit(&train);
    add_rows(&train, "one", 1, 1);
    hold_out_split(&train, 0.9, 7, 0, &held);
    assert_int_equal(held.n, 0);
    assert_int_equal(train.n, 1);
    records_deinit(&held);
    records_deinit(&train);
    assert_int_equal(hold_out_limit(0, 1, 3), 0);
    assert_int_equal(hold_out_limit(7, 0, 3), 3);
    assert_int_equal(hold_out_limit(7, 2, 3), 2);
    assert_int_equal(hold_out_limit(2, 2, 3), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_example_on_one_side),
        cmocka_unit_test(by_the_seed),
        cmocka_unit_test(limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
