/*
 * Positions and first keys of documents, targets, padding, counters.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "data/batch.h"
#include "data/records.h"

static const int32_t ids_a[] = {2, 10, 11};
static const float weight_a[] = {0, 0, 1};
static const int32_t from_a[] = {0};
static const int32_t ids_b[] = {2, 20, 2, 21};
static const float weight_b[] = {0, 0.5F, 0, 2};
static const int32_t from_b[] = {0, 2};

static const struct example example_a = {.ids = ids_a,
                                         .loss_weight = weight_a,
                                         .document_from = from_a,
                                         .n = 3,
                                         .n_documents = 1,
                                         .n_targets = 1,
                                         .source_row = 40};
static const struct example example_b = {.ids = ids_b,
                                         .loss_weight = weight_b,
                                         .document_from = from_b,
                                         .n = 4,
                                         .n_documents = 2,
                                         .n_targets = 2,
                                         .source_row = 41};

#define ASSERT_ARRAY(array, ...)                              \
    do {                                                      \
        const int32_t wanted[] = {__VA_ARGS__};               \
        assert_memory_equal((array), wanted, sizeof(wanted)); \
    } while (0)

/* C16, C17: positions restart, each token sees its own document only. D1, C23: counters
 * of targets and of real tokens leave the padding out. */
static void documents_share_a_row(void **state)
{
    (void)state;
    struct batch *batch = batch_create(2, 8, 5);
    batch_clear(batch, 9);
    batch_add(batch, 0, &example_a);
    batch_add(batch, 0, &example_b);
    batch_add(batch, 1, &example_a);
    ASSERT_ARRAY(batch->ids, 2, 10, 11, 2, 20, 2, 21, 9, 2, 10, 11, 9, 9, 9, 9, 9);
    ASSERT_ARRAY(batch->position, 0, 1, 2, 0, 1, 0, 1, 0, 0, 1, 2, 0, 0, 0, 0, 0);
    ASSERT_ARRAY(batch->first_key, 0, 0, 0, 3, 3, 5, 5, 8, 0, 0, 0, 8, 8, 8, 8, 8);
    ASSERT_ARRAY(batch->loss_rows, 1, 3, 5, 9, 0);
    ASSERT_ARRAY(batch->targets, 11, 20, 21, 11, 0);
    ASSERT_ARRAY(batch->target_example, 0, 1, 1, 2, 0);
    const float weight[] = {1, 0.5F, 2, 1, 0};
    assert_memory_equal(batch->weight, weight, sizeof(weight));
    assert_int_equal(batch->n_targets, 4);
    assert_true(batch->weight_sum == 4.5);
    assert_int_equal(batch->n_real_tokens, 10);
    assert_int_equal(batch->n_examples, 3);
    assert_int_equal(batch->source_rows[1], 41);
    ASSERT_ARRAY(batch->row_used, 7, 3);
    batch_destroy(batch);
    batch_destroy(NULL);
}

/* A batch that is used again holds nothing of what it held. */
static void clearing(void **state)
{
    (void)state;
    struct batch *used = batch_create(2, 8, 5);
    struct batch *fresh = batch_create(2, 8, 5);
    batch_add(used, 0, &example_b);
    batch_add(used, 1, &example_b);
    batch_clear(used, -1);
    batch_add(used, 1, &example_a);
    batch_add(fresh, 1, &example_a);
    assert_memory_equal(used->ids, fresh->ids, 16 * sizeof(int32_t));
    assert_memory_equal(used->position, fresh->position, 16 * sizeof(int32_t));
    assert_memory_equal(used->first_key, fresh->first_key, 16 * sizeof(int32_t));
    assert_memory_equal(used->loss_rows, fresh->loss_rows, 5 * sizeof(int32_t));
    assert_memory_equal(used->targets, fresh->targets, 5 * sizeof(int32_t));
    assert_memory_equal(used->weight, fresh->weight, 5 * sizeof(float));
    assert_int_equal(used->n_targets, 1);
    batch_destroy(used);
    batch_destroy(fresh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_share_a_row),
        cmocka_unit_test(clearing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
