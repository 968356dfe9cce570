/*
 * The order of a run: epochs, steps, ranks and micro-batches; seeking; padding.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/loader.h"
#include "data/records.h"

enum { T = 16 };

/* n token rows; row i has 2 + i % 7 tokens, the second of them is i + 10. */
static void make_records(struct records *records, int n)
{
    struct str text = {0};
    struct error err = {.message = ""};
    for (int i = 0; i < n; i++) {
        str_printf(&text, "{\"input_ids\": [2, %d", i + 10);
        for (int k = 0; k < i % 7; k++) {
            str_add(&text, ", 5");
        }
        str_add(&text, "]}\n");
    }
    const struct records_options options = {.format = RECORDS_TOKENS, .row_tokens = T};
    *records = (struct records){0};
    assert_true(records_read_text(records, str_text(&text), text.length, "t", &options,
                                  NULL, &err));
    str_deinit(&text);
}

static void add_example(struct batch *batch, const struct records *records, size_t i)
{
    const struct example example = records_example(records, i);
    batch_add(batch, 0, &example);
}

static struct loader_options usual_options(const struct records *records)
{
    struct loader_options options = {
        .pack = {.row_tokens = T, .is_packed = true, .is_shuffled = true, .seed = 8},
        .step_rows = 6,
        .rows = 2,
        .n_ranks = 1,
        .n_epochs = 3,
    };
    options.target_capacity = loader_measure(records, &options, 3, 0).target_capacity;
    return options;
}

static struct loader *create(const struct records *records,
                             const struct loader_options *options)
{
    struct error err = {.message = ""};
    struct loader *loader = loader_create(records, options, &err);
    if (loader == NULL) {
        fail_msg("%s", err.message);
    }
    return loader;
}

/* Appends the source rows of a batch to the list. */
struct order {
    int64_t *rows;
    size_t n, capacity;
};

static void add_order(struct order *order, const struct batch *batch)
{
    for (int32_t i = 0; i < batch->n_examples; i++) {
        order->rows = mem_reserve_one(order->rows, order->n, &order->capacity,
                                      sizeof(*order->rows));
        order->rows[order->n++] = batch->source_rows[i];
    }
}

/* C22: every example exactly once in each epoch, whatever the sizes. D1, C23: the
 * counters of the batches add up to those of the records. */
static void every_example_once_per_epoch(void **state)
{
    (void)state;
    static const int counts[] = {1, 2, 5, 6, 7, 40, 101};
    for (size_t c = 0; c < ARRAY_LENGTH(counts); c++) {
        struct records records;
        make_records(&records, counts[c]);
        const struct loader_options options = usual_options(&records);
        struct loader *loader = create(&records, &options);
        int *seen = mem_alloc_array((size_t)counts[c] * 3, sizeof(*seen));
        int64_t n_targets = 0;
        int64_t n_tokens = 0;
        int64_t n_steps = 0;
        const struct batch *batch;
        while ((batch = loader_next(loader)) != NULL) {
            for (int32_t i = 0; i < batch->n_examples; i++) {
                seen[batch->epoch * counts[c] + batch->source_rows[i]]++;
            }
            n_targets += batch->n_targets;
            n_tokens += batch->n_real_tokens;
            n_steps += batch->micro == 0;
            assert_true(batch->n_real_tokens <= (int64_t)batch->rows * T);
        }
        assert_null(loader_next(loader));
        for (int i = 0; i < 3 * counts[c]; i++) {
            assert_int_equal(seen[i], 1);
        }
        const struct loader_summary summary = loader_measure(&records, &options, 3, 0);
        assert_int_equal(n_targets, 3 * records.counts.n_targets);
        assert_int_equal(n_tokens, 3 * records.counts.n_tokens);
        assert_int_equal(summary.n_targets, n_targets);
        assert_int_equal(summary.n_real_tokens, n_tokens);
        assert_int_equal(summary.n_steps, n_steps);
        assert_int_equal(summary.n_epochs, 3);
        mem_free(seen);
        loader_destroy(loader);
        records_deinit(&records);
    }
}

/* The examples of each step are the same for any number of ranks and micro rows. */
static void order_does_not_depend_on_the_layout(void **state)
{
    (void)state;
    struct records records;
    make_records(&records, 53);
    static const int layouts[][2] = {{6, 1}, {2, 1}, {1, 3}, {2, 2}, {4, 1}, {1, 8}};
    struct order first = {0};
    for (size_t k = 0; k < ARRAY_LENGTH(layouts); k++) {
        struct order order = {0};
        struct loader *loaders[8] = {NULL};
        struct loader_options options = usual_options(&records);
        options.rows = layouts[k][0];
        options.n_ranks = layouts[k][1];
        options.target_capacity =
            loader_measure(&records, &options, 3, 0).target_capacity;
        for (int rank = 0; rank < options.n_ranks; rank++) {
            options.rank = rank;
            loaders[rank] = create(&records, &options);
        }
        for (bool is_going = true; is_going;) {
            int64_t position = -1;
            for (int rank = 0; rank < options.n_ranks; rank++) {
                const struct batch *batch = loader_next(loaders[rank]);
                is_going = batch != NULL;
                if (is_going) {
                    assert_true(position == -1 || position == batch->position_from);
                    position = batch->position_from;
                    add_order(&order, batch);
                }
            }
        }
        for (int rank = 0; rank < options.n_ranks; rank++) {
            loader_destroy(loaders[rank]);
        }
        assert_int_equal(order.n, 3 * 53);
        if (k == 0) {
            first = order;
        } else {
            assert_memory_equal(order.rows, first.rows, order.n * sizeof(*order.rows));
            mem_free(order.rows);
        }
    }
    mem_free(first.rows);
    records_deinit(&records);
}

static void steps_end_with_their_epoch(void **state)
{
    (void)state;
    struct records records;
    make_records(&records, 8);
    struct loader_options options = usual_options(&records);
    options.pack.is_packed = false;
    options.pack.is_shuffled = false;
    options.n_epochs = 0;
    struct loader *loader = create(&records, &options);
    /* 8 rows, steps of 6: 6 + 2, then the next epoch. Batches of 2. */
    static const int64_t wanted[][4] = {/* from, to, micro, n_micro */
                                        {0, 6, 0, 3},  {0, 6, 1, 3},   {0, 6, 2, 3},
                                        {6, 8, 0, 1},  {8, 14, 0, 3},  {8, 14, 1, 3},
                                        {8, 14, 2, 3}, {14, 16, 0, 1}, {16, 22, 0, 3}};
    for (size_t i = 0; i < ARRAY_LENGTH(wanted); i++) {
        const struct batch *batch = loader_next(loader);
        assert_int_equal(batch->position_from, wanted[i][0]);
        assert_int_equal(batch->position_to, wanted[i][1]);
        assert_int_equal(batch->micro, wanted[i][2]);
        assert_int_equal(batch->n_micro, wanted[i][3]);
        assert_true(batch->epoch_after == (double)wanted[i][1] / 8);
        assert_int_equal(batch->source_rows[0], (wanted[i][0] + 2 * wanted[i][2]) % 8);
    }
    const struct loader_summary summary = loader_measure(&records, &options, 0, 5);
    assert_int_equal(summary.n_epochs, 3);
    assert_int_equal(summary.n_steps, 5);
    assert_int_equal(summary.n_rows, 22);
    loader_destroy(loader);
    loader_destroy(NULL);
    records_deinit(&records);
}

/* The thread fills ahead of its reader: a row beyond the last step may have more
 * targets than there is room for, and is not touched. */
static void nothing_is_read_beyond_the_last_step(void **state)
{
    (void)state;
    struct str text = {0};
    str_add(&text, "{\"input_ids\": [2, 3]}\n{\"input_ids\": [2, 4]}\n");
    str_add(&text, "{\"input_ids\": [2");
    for (int i = 0; i < 100; i++) {
        str_add(&text, ", 5");
    }
    str_add(&text, "]}\n");
    const struct records_options reading = {.format = RECORDS_TOKENS};
    struct records records = {0};
    struct error err = {.message = ""};
    assert_true(records_read_text(&records, str_text(&text), text.length, "t", &reading,
                                  NULL, &err));
    struct loader_options options = {
        .pack = {.row_tokens = 128}, .step_rows = 1, .rows = 1, .n_ranks = 1};
    /* Steps alone, and steps that end before the epochs. */
    for (int64_t epochs = 0; epochs < 3; epochs++) {
        const struct loader_summary summary =
            loader_measure(&records, &options, epochs, 2);
        assert_int_equal(summary.n_steps, 2);
        assert_int_equal(summary.n_targets, 2);
        assert_int_equal(summary.target_capacity, 64);
        options.target_capacity = summary.target_capacity;
        options.n_epochs = epochs;
        options.n_steps = 2;
        struct loader *loader = create(&records, &options);
        assert_int_equal(loader_next(loader)->source_rows[0], 0);
        assert_int_equal(loader_next(loader)->source_rows[0], 1);
        assert_null(loader_next(loader));
        loader_destroy(loader);
    }
    /* Steps are counted over the epochs: the fifth is the second of the second one. */
    options.n_epochs = 0;
    options.n_steps = 5;
    options.target_capacity = loader_measure(&records, &options, 0, 5).target_capacity;
    assert_int_equal(options.target_capacity, 128);
    struct loader *loader = create(&records, &options);
    assert_true(loader_seek(loader, 4, &err));
    assert_int_equal(loader_next(loader)->source_rows[0], 1);
    assert_null(loader_next(loader));
    loader_destroy(loader);
    str_deinit(&text);
    records_deinit(&records);
}

/* Missing rows of a last batch are padding without weight. */
static void missing_rows(void **state)
{
    (void)state;
    struct records records;
    make_records(&records, 5);
    struct loader_options options = usual_options(&records);
    options.pack.is_packed = false;
    options.rows = 4;
    options.n_epochs = 1;
    options.pad_id = 7;
    options.target_capacity = 64;
    struct loader *loader = create(&records, &options);
    assert_int_equal(loader_next(loader)->n_examples, 4);
    const struct batch *batch = loader_next(loader);
    assert_int_equal(batch->n_examples, 1);
    for (int32_t i = T; i < 4 * T; i++) {
        assert_int_equal(batch->ids[i], 7);
        assert_int_equal(batch->first_key[i], T);
    }
    for (int32_t i = batch->n_targets; i < batch->target_capacity; i++) {
        assert_true(batch->weight[i] == 0.0F);
    }
    assert_null(loader_next(loader));
    loader_destroy(loader);
    records_deinit(&records);
}

/* C24: after a seek to any step's position the order is that of the uninterrupted
 * run. */
static void seeking(void **state)
{
    (void)state;
    struct records records;
    make_records(&records, 60);
    struct loader_options options = usual_options(&records);
    struct loader *loader = create(&records, &options);
    struct order whole = {0};
    int64_t positions[200];
    size_t examples_before[200];
    int n = 0;
    const struct batch *batch;
    while ((batch = loader_next(loader)) != NULL) {
        if (batch->micro == 0) {
            positions[n] = batch->position_from;
            examples_before[n++] = whole.n;
        }
        add_order(&whole, batch);
    }
    struct error err = {.message = ""};
    for (int i = n - 1; i >= 0; i--) {
        struct order rest = {0};
        assert_true(loader_seek(loader, positions[i], &err));
        while ((batch = loader_next(loader)) != NULL) {
            add_order(&rest, batch);
        }
        assert_int_equal(rest.n, whole.n - examples_before[i]);
        assert_memory_equal(rest.rows, whole.rows + examples_before[i],
                            rest.n * sizeof(*rest.rows));
        mem_free(rest.rows);
    }
    /* In the middle of things, with batches waiting. */
    assert_true(loader_seek(loader, 0, &err));
    assert_non_null(loader_next(loader));
    assert_true(loader_seek(loader, positions[1], &err));
    assert_int_equal(loader_next(loader)->source_rows[0],
                     whole.rows[examples_before[1]]);
    mem_free(whole.rows);
    loader_destroy(loader);
    records_deinit(&records);
}

/* D2, C12: the same rows with padding on any side give the identical batch. */
static void padding_changes_nothing(void **state)
{
    (void)state;
    static const char *const spellings[] = {
        "{\"input_ids\": [2, 11, 12, 13]}\n{\"input_ids\": [2, 14]}\n",
        "{\"input_ids\": [2, 11, 12, 13, 0, 0], \"attention_mask\": [1, 1, 1, 1, 0, "
        "0]}\n"
        "{\"input_ids\": [2, 14, 0, 0, 0, 0], \"attention_mask\": [1, 1, 0, 0, 0, "
        "0]}\n",
        "{\"input_ids\": [0, 2, 11, 12, 13], \"attention_mask\": [0, 1, 1, 1, 1]}\n"
        "{\"input_ids\": [0, 0, 0, 2, 14], \"attention_mask\": [0, 0, 0, 1, 1], "
        "\"labels\": [-100, -100, -100, 2, 14]}\n",
    };
    struct batch *first = NULL;
    for (size_t i = 0; i < ARRAY_LENGTH(spellings); i++) {
        struct records records = {0};
        struct error err = {.message = ""};
        const struct records_options options = {.format = RECORDS_TOKENS,
                                                .row_tokens = T};
        assert_true(records_read_text(&records, spellings[i], strlen(spellings[i]), "t",
                                      &options, NULL, &err));
        struct batch *batch = batch_create(1, T, 8);
        add_example(batch, &records, 0);
        add_example(batch, &records, 1);
        if (first == NULL) {
            first = batch;
            assert_int_equal(batch->n_targets, 4);
        } else {
            assert_memory_equal(batch->ids, first->ids, T * sizeof(int32_t));
            assert_memory_equal(batch->position, first->position, T * sizeof(int32_t));
            assert_memory_equal(batch->first_key, first->first_key,
                                T * sizeof(int32_t));
            assert_memory_equal(batch->loss_rows, first->loss_rows,
                                8 * sizeof(int32_t));
            assert_memory_equal(batch->targets, first->targets, 8 * sizeof(int32_t));
            assert_memory_equal(batch->weight, first->weight, 8 * sizeof(float));
            batch_destroy(batch);
        }
        records_deinit(&records);
    }
    batch_destroy(first);
}

/* loader_next allocates nothing. */
static void no_allocation(void **state)
{
    (void)state;
    struct records records;
    make_records(&records, 30);
    const struct loader_options options = usual_options(&records);
    struct loader *loader = create(&records, &options);
    mem_guard_begin();
    while (loader_next(loader) != NULL) {
    }
    mem_guard_end();
    loader_destroy(loader);
    records_deinit(&records);
}

/* C6: a file without a loss token is an error, not a run with loss 0. */
static void nothing_to_train_on(void **state)
{
    (void)state;
    struct records records = {.counts = {.n_rows = 3, .n_dropped = 3}};
    struct error err = {.message = ""};
    const struct loader_options options = {
        .pack = {.row_tokens = T}, .rows = 1, .step_rows = 1, .n_ranks = 1};
    assert_null(loader_create(&records, &options, &err));
    assert_int_equal(err.kind, ERROR_DATA);
    assert_non_null(strstr(err.message, "3 rows read, 3 dropped"));
}

/* Two files, the first twice an epoch, of the second a half: another one each epoch. The
 * batches know the files, and seeking goes to the same examples. */
static void files_with_weights(void **state)
{
    (void)state;
    enum { N_A = 9, N_B = 14, N_EPOCHS = 4 };
    struct error err = {.message = ""};
    struct records records;
    make_records(&records, N_A);
    struct str text = {0};
    for (int i = 0; i < N_B; i++) {
        str_printf(&text, "{\"input_ids\": [2, %d, 5, 5]}\n", 100 + i);
    }
    const struct records_options reading = {.format = RECORDS_TOKENS, .row_tokens = T};
    assert_true(records_read_text(&records, str_text(&text), text.length, "b", &reading,
                                  NULL, &err));
    records.sources[0].weight = 2.0;
    records.sources[1].weight = 0.5;
    struct loader_options options = usual_options(&records);
    options.n_epochs = N_EPOCHS;
    struct loader *loader = create(&records, &options);
    int seen[N_EPOCHS][2][N_B] = {{{0}}};
    struct order all = {0};
    for (const struct batch *batch; (batch = loader_next(loader)) != NULL;) {
        add_order(&all, batch);
        for (int32_t i = 0; i < batch->n_examples; i++) {
            seen[batch->epoch][batch->sources[i]][batch->source_rows[i]]++;
        }
    }
    for (int epoch = 0; epoch < N_EPOCHS; epoch++) {
        for (int i = 0; i < N_A; i++) {
            assert_int_equal(seen[epoch][0][i], 2);
        }
        for (int i = 0; i < N_B && epoch % 2 == 1; i++) {
            assert_int_equal(seen[epoch][1][i] + seen[epoch - 1][1][i], 1);
        }
    }
    assert_int_equal(all.n, N_EPOCHS * (2 * N_A + N_B / 2));
    /* From the start of the last epoch on. */
    const struct loader_summary three = loader_measure(&records, &options, 3, 0);
    assert_true(loader_seek(loader, three.n_rows, &err));
    struct order last = {0};
    for (const struct batch *batch; (batch = loader_next(loader)) != NULL;) {
        add_order(&last, batch);
    }
    assert_int_equal(last.n, all.n / N_EPOCHS);
    assert_memory_equal(last.rows, all.rows + 3 * last.n, last.n * sizeof(*last.rows));
    mem_free(all.rows);
    mem_free(last.rows);
    loader_destroy(loader);
    str_deinit(&text);
    records_deinit(&records);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_example_once_per_epoch),
        cmocka_unit_test(order_does_not_depend_on_the_layout),
        cmocka_unit_test(steps_end_with_their_epoch),
        cmocka_unit_test(nothing_is_read_beyond_the_last_step),
        cmocka_unit_test(missing_rows),
        cmocka_unit_test(seeking),
        cmocka_unit_test(padding_changes_nothing),
        cmocka_unit_test(no_allocation),
        cmocka_unit_test(files_with_weights),
        cmocka_unit_test(nothing_to_train_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
