/*
 * The mean over all targets does not depend on rows per pass, packing, or how many batches
 * it takes; losses of single rows come back in file order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/records.h"
#include "support/golden.h"
#include "train/evaluate.h"

enum { N_ROWS = 7, T = 32 };

/* Weight of the targets of row r. */
static double row_weight(int r)
{
    return 0.5 * (1 + r % 3);
}

/* Rows from .. to - 1 of several lengths and weights, ids from a fixed rule, as a file. */
static void add_records(struct records *records, int from, int to)
{
    struct str lines = {0};
    for (int r = from; r < to; r++) {
        str_add(&lines, "{\"input_ids\": [2");
        for (int i = 0; i < 3 + 4 * r; i++) {
            str_printf(&lines, ", %d", 5 + (37 * r + 11 * i) % 240);
        }
        str_printf(&lines, "], \"weight\": %.1f}\n", row_weight(r));
    }
    const struct records_options options = {.format = RECORDS_TOKENS,
                                            .n_vocabulary = 256};
    struct error err;
    if (!records_read_text(records, lines.text, lines.length, "rows", &options, NULL,
                           &err)) {
        fail_msg("%s", err.message);
    }
    str_deinit(&lines);
}

static void make_records(struct records *records)
{
    add_records(records, 0, N_ROWS);
}

static struct step *make_step(struct golden *golden, struct engine *engine, int32_t B,
                              int32_t C, bool *frozen)
{
    const struct model_source *source = golden_source(golden);
    const struct step_options options = {.shape = {.config = &source->config,
                                                   .params = source->params,
                                                   .is_trainable = frozen,
                                                   .has_ple_rows = true,
                                                   .B = B,
                                                   .T = T,
                                                   .C = C,
                                                   .compute = DTYPE_F32},
                                         .evaluates = true};
    const struct step_source from = golden_step_source(golden);
    struct error err;
    struct step *step = step_create(engine, &options, &from, &err);
    if (step == NULL || !step_load(step, &err)) {
        fail_msg("%s", err.message);
    }
    return step;
}

struct rows {
    double loss[N_ROWS];
    int n_seen;
};

static void take(void *context, const struct batch *batch, const float *token_loss)
{
    struct rows *rows = context;
    assert_int_equal(batch->n_examples, 1);
    assert_int_equal(batch->source_rows[0], rows->n_seen);
    for (int32_t c = 0; c < batch->n_targets; c++) {
        rows->loss[rows->n_seen] += (double)token_loss[c];
    }
    rows->n_seen++;
}

static struct evaluate_result run_with(struct golden *golden,
                                       const struct records *records, int32_t B,
                                       bool is_packed, struct rows *rows,
                                       double *source_loss)
{
    bool *frozen =
        mem_alloc_array((size_t)golden_source(golden)->params->n, sizeof(bool));
    struct engine *engine = golden_engine(2);
    const int32_t C = evaluate_capacity(records, B, T, is_packed);
    struct step *step = make_step(golden, engine, B, C, frozen);
    const struct evaluate_options options = {.B = B,
                                             .T = T,
                                             .C = C,
                                             .is_packed = is_packed,
                                             .visit = rows == NULL ? NULL : take,
                                             .context = rows,
                                             .source_loss = source_loss,
                                             .n_sources = records->n_sources};
    struct evaluate_result result;
    struct error err;
    if (!evaluate_run(step, records, &options, &result, &err)) {
        fail_msg("%s", err.message);
    }
    step_destroy(step);
    backend_destroy(engine);
    mem_free(frozen);
    return result;
}

static struct evaluate_result run(struct golden *golden, const struct records *records,
                                  int32_t B, bool is_packed, struct rows *rows)
{
    return run_with(golden, records, B, is_packed, rows, NULL);
}

/* losses: [records->n_sources] */
static struct evaluate_result run_by_source(struct golden *golden,
                                            const struct records *records, int32_t B,
                                            double *losses)
{
    return run_with(golden, records, B, true, NULL, losses);
}

static void layout_does_not_matter(void **state)
{
    (void)state;
    struct golden *golden = golden_open("gemma4-e2b-tiny");
    struct records records = {0};
    make_records(&records);
    struct rows rows = {0};
    const struct evaluate_result alone = run(golden, &records, 1, false, &rows);
    const struct evaluate_result packed = run(golden, &records, 2, true, NULL);
    const struct evaluate_result wide = run(golden, &records, 5, false, NULL);
    assert_int_equal(rows.n_seen, N_ROWS);
    assert_int_equal(alone.n_targets, packed.n_targets);
    assert_int_equal(alone.n_targets, wide.n_targets);
    assert_true(fabs(alone.loss - packed.loss) <= 1e-6 * alone.loss);
    assert_true(fabs(alone.loss - wide.loss) <= 1e-6 * alone.loss);
    /* The mean is weighted; losses of tokens are not. */
    double sum = 0.0;
    double weight_sum = 0.0;
    for (int r = 0; r < N_ROWS; r++) {
        sum += row_weight(r) * rows.loss[r];
        weight_sum += row_weight(r) * (3 + 4 * r);
    }
    assert_true(alone.weight_sum == weight_sum);
    assert_true(fabs(sum / weight_sum - alone.loss) <= 1e-6 * alone.loss);
    records_deinit(&records);
    golden_close(golden);
}

/* The loss of each file is that of its rows alone. */
static void files_have_losses_of_their_own(void **state)
{
    (void)state;
    struct golden *golden = golden_open("gemma4-e2b-tiny");
    struct records parts[3] = {0};
    add_records(&parts[0], 0, 3);
    add_records(&parts[1], 3, N_ROWS);
    add_records(&parts[2], 0, 3);
    add_records(&parts[2], 3, N_ROWS);
    double losses[2];
    double alone[2];
    for (int i = 0; i < 2; i++) {
        alone[i] = run(golden, &parts[i], 2, true, NULL).loss;
    }
    const struct evaluate_result whole = run_by_source(golden, &parts[2], 2, losses);
    for (int i = 0; i < 2; i++) {
        if (fabs(losses[i] - alone[i]) > 1e-6 * alone[i]) {
            fail_msg("file %d: %.9g is not %.9g", i, losses[i], alone[i]);
        }
        records_deinit(&parts[i]);
    }
    assert_true(fabs(whole.loss - run(golden, &parts[2], 2, true, NULL).loss) == 0.0);
    records_deinit(&parts[2]);
    golden_close(golden);
}

/* C38: with 1,500 rows of 256 logits a token the evaluation would need 49 MB more if it
 * stored them; it needs no more than for 15 rows. */
static void memory_does_not_depend_on_the_number_of_rows(void **state)
{
    (void)state;
#ifdef LATHE_SLOW_CHECKS
    skip(); /* sanitizers keep what was freed */
#endif
    struct golden *golden = golden_open("gemma4-e2b-tiny");
    struct records few = {0};
    struct records many = {0};
    for (int i = 0; i < 300; i++) {
        add_records(&many, 0, 5);
        if (i < 3) {
            add_records(&few, 0, 5);
        }
    }
    run(golden, &few, 1, false, NULL);
    const size_t before = mem_peak_resident_bytes();
    run(golden, &many, 1, false, NULL);
    const size_t grown = mem_peak_resident_bytes() - before;
    if (grown > (size_t)8 << 20) {
        fail_msg("the peak has grown by %zu bytes", grown);
    }
    records_deinit(&few);
    records_deinit(&many);
    golden_close(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_does_not_depend_on_the_number_of_rows),
        cmocka_unit_test(layout_does_not_matter),
        cmocka_unit_test(files_have_losses_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
