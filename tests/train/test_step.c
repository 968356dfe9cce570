/*
 * The reference's numbers, through the step that training uses: loss, every gradient, and
 * 20 updates of AdamW, for each dense case of tests/golden; then what must not matter:
 * accumulation (C1, C2, D8), recomputation (C8), threads (G6), padding (D2, C12), packing
 * (C16, C17); and that nothing not finite reaches a weight (C10, G14).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "support/golden.h"

static const char *const cases[] = {
    "gemma4-e2b-tiny",
    "gemma4-e4b-tiny",
    "gemma4-31b-tiny",
    "gemma3-tiny",
    "gemma4-e2b-tiny-frozen-ple",
    "gemma4-e2b-tiny-packed",
    "gemma3-tiny-packed",
    "gemma4-e2b-tiny-rightpad",
    "gemma4-e2b-tiny-leftpad",
    "gemma4-e2b-tiny-lora",
};

static bool is_left_padded(const char *name)
{
    return strcmp(name, "gemma4-e2b-tiny-leftpad") == 0;
}

#define CHECK(call)                      \
    do {                                 \
        if (!(call)) {                   \
            fail_msg("%s", err.message); \
        }                                \
    } while (0)

static const struct step_hyper hyper_of_reference = {
    .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01};

/* Mean loss of one whole batch into the sums. */
static double accumulate(struct step *step, const struct batch *batch)
{
    struct error err;
    double loss_sum = 0.0;
    CHECK(step_accumulate(step, batch, &loss_sum, &err));
    return loss_sum / batch->weight_sum;
}

static struct step_result update(struct step *step, const struct batch *batch,
                                 double loss)
{
    struct error err;
    struct step_hyper hyper = hyper_of_reference;
    hyper.weight_sum = batch->weight_sum;
    hyper.loss_sum = loss * batch->weight_sum;
    struct step_result result;
    CHECK(step_update(step, &hyper, &result, &err));
    return result;
}

/* The mean gradient of a tensor (the sum over targets divided by their number). */
static float *mean_gradient(struct step *step, const struct params *params, int param,
                            double weight_sum)
{
    const float *sum = step_gradient(step, param);
    const int64_t n = params->info[param].n_elements;
    float *mean = mem_alloc_array((size_t)n, sizeof(*mean));
    for (int64_t i = 0; sum != NULL && i < n; i++) {
        mean[i] = (float)((double)sum[i] / weight_sum);
    }
    return mean;
}

/* ---- loss and gradients ---- */

static double check_gradients(struct golden *golden, struct step *step, bool has_sums)
{
    const struct params *params = golden_source(golden)->params;
    const double weight_sum = golden_batch(golden, 0)->weight_sum;
    const json_t *grads = json_object_get(golden_json(golden), "grads");
    double worst = 0.0;
    double squares = 0.0;
    for (int i = 0; i < params->n; i++) {
        if (!golden_trainable(golden)[i]) {
            assert_null(step_gradient(step, i));
            continue;
        }
        const int64_t n = params->info[i].n_elements;
        float *mean = mean_gradient(step, params, i, weight_sum);
        char own[300];
        char name[310];
        golden_name(golden, i, own);
        snprintf(name, sizeof(name), "grad.%s", own);
        int64_t n_expected = 0;
        const float *expected = golden_tensor(golden, name, &n_expected);
        if (has_sums && expected != NULL) {
            assert_int_equal(n, n_expected);
            const double relative = golden_relative_l2(mean, expected, n);
            if (relative > 1e-4) {
                fail_msg("%s: relative L2 %.3g", name, relative);
            }
            worst = fmax(worst, relative);
        }
        const double l2 = golden_l2(mean, n);
        squares += l2 * l2;
        if (has_sums) {
            const json_t *entry = json_object_get(grads, own);
            const double expected_l2 = json_number_value(json_object_get(entry, "l2"));
            if (fabs(l2 - expected_l2) > 1e-4 * expected_l2 + 1e-12) {
                fail_msg("%s: L2 %.9g, expected %.9g", name, l2, expected_l2);
            }
        }
        mem_free(mean);
    }
    if (has_sums) {
        const double norm = golden_number(golden, NULL, "grad_norm", -1);
        assert_true(fabs(sqrt(squares) - norm) <= 1e-5 * norm);
    }
    return worst;
}

static void loss_and_gradients_are_the_references(void **state)
{
    (void)state;
    for (size_t c = 0; c < ARRAY_LENGTH(cases); c++) {
        struct golden *golden = golden_open(cases[c]);
        struct engine *engine = golden_engine(2);
        const struct batch *batch = golden_batch(golden, 0);
        struct step *step = golden_step(golden, engine, golden_B(golden),
                                        batch->target_capacity, false);
        const double loss = accumulate(step, batch);
        const double expected =
            is_left_padded(cases[c])
                ? golden_number(golden, NULL, "loss_first_target_dropped", -1)
                : golden_number(golden, NULL, "loss", -1);
        if (fabs(loss - expected) > 2e-6 * expected) {
            fail_msg("%s: loss %.9g, expected %.9g", cases[c], loss, expected);
        }
        const double worst = check_gradients(golden, step, !is_left_padded(cases[c]));
        printf("# %-28s loss %.8f (%+.1e)  gradients within %.1e\n", cases[c], loss,
               (loss - expected) / expected, worst);
        step_destroy(step);
        backend_destroy(engine);
        golden_close(golden);
    }
}

/* ---- trajectories ---- */

static void check_final_parameters(struct golden *golden, struct step *step)
{
    const struct params *params = golden_source(golden)->params;
    const json_t *finals = json_object_get(golden_json(golden), "final_parameters");
    struct error err;
    for (int i = 0; i < params->n; i++) {
        char name[300];
        const json_t *expected = json_object_get(finals, golden_name(golden, i, name));
        if (expected == NULL || !golden_trainable(golden)[i]) {
            continue;
        }
        const int64_t n = params->info[i].n_elements;
        float *values = mem_alloc_array((size_t)n, sizeof(*values));
        CHECK(step_read_param(step, i, 0, params->info[i].dim[0], values, &err));
        double sum = 0.0;
        for (int64_t k = 0; k < n; k++) {
            sum += (double)values[k];
        }
        const double l2 = json_number_value(json_object_get(expected, "l2"));
        const double expected_sum = json_number_value(json_object_get(expected, "sum"));
        assert_true(fabs(golden_l2(values, n) - l2) <= 1e-3 * l2);
        assert_true(fabs(sum - expected_sum) <= 1e-3 * l2);
        mem_free(values);
    }
}

static void twenty_updates_are_the_references(void **state)
{
    (void)state;
    for (size_t c = 0; c < ARRAY_LENGTH(cases); c++) {
        if (is_left_padded(cases[c])) {
            continue; /* the reference trains on an artefact of its padding there */
        }
        struct golden *golden = golden_open(cases[c]);
        struct engine *engine = golden_engine(2);
        const struct batch *batch = golden_batch(golden, 0);
        struct step *step = golden_step(golden, engine, golden_B(golden),
                                        batch->target_capacity, false);
        const double limit = fmax(
            1e-4, 20.0 * golden_number(golden, "adamw", "max_abs_diff_fp32_fp64", -1));
        double worst = 0.0;
        for (int t = 0; t < 20; t++) {
            batch = golden_batch(golden, t % GOLDEN_BATCHES);
            const double loss = accumulate(step, batch);
            const struct step_result result = update(step, batch, loss);
            assert_true(result.is_applied);
            const double difference =
                fabs(loss - golden_number(golden, "adamw", "loss", t));
            const double norm = golden_number(golden, "adamw", "grad_norm", t);
            worst = fmax(worst, difference);
            if (difference > limit || fabs(result.grad_norm - norm) > 1e-2 * norm) {
                fail_msg("%s: step %d: loss off by %.3g, gradient norm %.6g not %.6g",
                         cases[c], t + 1, difference, result.grad_norm, norm);
            }
        }
        check_final_parameters(golden, step);
        printf("# %-28s 20 steps: loss within %.1e (limit %.1e)\n", cases[c], worst,
               limit);
        step_destroy(step);
        backend_destroy(engine);
        golden_close(golden);
    }
}

/* ---- what must not matter ---- */

/* Runs `n` updates with a choice of threads, recomputation and rows per pass; the loss of
 * each step into losses, all parameters after them into *final (freed by the caller). */
static void train(const char *name, int n_threads, bool recomputes, int32_t rows, int n,
                  double *losses, double *norms, float **final, int64_t *n_final)
{
    struct golden *golden = golden_open(name);
    struct engine *engine = golden_engine(n_threads);
    const struct params *params = golden_source(golden)->params;
    const int32_t B = golden_B(golden);
    struct step *step =
        golden_step(golden, engine, rows, rows * golden_T(golden), recomputes);
    struct error err;
    struct batch *part = batch_create(rows, golden_T(golden), rows * golden_T(golden));
    for (int t = 0; t < n; t++) {
        const struct batch *whole = golden_batch(golden, t % GOLDEN_BATCHES);
        struct step_hyper hyper = hyper_of_reference;
        for (int32_t first = 0; first < B; first += rows) {
            golden_batch_rows(golden, t % GOLDEN_BATCHES, first, part);
            double loss_sum = 0.0;
            CHECK(step_accumulate(step, part, &loss_sum, &err));
            hyper.loss_sum += loss_sum;
            hyper.weight_sum += part->weight_sum;
        }
        assert_true(hyper.weight_sum == whole->weight_sum);
        struct step_result result;
        CHECK(step_update(step, &hyper, &result, &err));
        losses[t] = hyper.loss_sum / hyper.weight_sum;
        norms[t] = result.grad_norm;
    }
    *n_final = params->n_elements;
    *final = mem_alloc_array((size_t)params->n_elements, sizeof(float));
    int64_t at = 0;
    for (int i = 0; i < params->n; i++) {
        CHECK(step_read_param(step, i, 0, params->info[i].dim[0], *final + at, &err));
        at += params->info[i].n_elements;
    }
    batch_destroy(part);
    step_destroy(step);
    backend_destroy(engine);
    golden_close(golden);
}

struct trajectory {
    double losses[20], norms[20];
    float *final;
    int64_t n;
};

static struct trajectory run(const char *name, int n_threads, bool recomputes,
                             int32_t rows)
{
    struct trajectory t = {0};
    train(name, n_threads, recomputes, rows, 20, t.losses, t.norms, &t.final, &t.n);
    return t;
}

static void assert_same_bits(struct trajectory *a, struct trajectory *b)
{
    assert_memory_equal(a->losses, b->losses, sizeof(a->losses));
    assert_memory_equal(a->norms, b->norms, sizeof(a->norms));
    assert_memory_equal(a->final, b->final, (size_t)a->n * sizeof(float));
    mem_free(b->final);
    b->final = NULL;
}

/* G6: same bits at 1, 2 and 3 threads and from run to run; C8: recomputation changes no
 * bit either. */
static void threads_and_recomputation_change_no_bit(void **state)
{
    (void)state;
    const char *const names[] = {"gemma4-e2b-tiny", "gemma3-tiny"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        struct trajectory one = run(names[i], 1, false, 2);
        struct trajectory two = run(names[i], 2, false, 2);
        struct trajectory three = run(names[i], 3, false, 2);
        struct trajectory again = run(names[i], 2, false, 2);
        struct trajectory recomputed = run(names[i], 2, true, 2);
        assert_same_bits(&one, &two);
        assert_same_bits(&one, &three);
        assert_same_bits(&one, &again);
        assert_same_bits(&one, &recomputed);
        mem_free(one.final);
    }
}

/* C1, C2, D8: a batch split into passes gives the loss and gradient of the whole, so the
 * updates are the same; bounds of properties.md over 20 steps. */
static void accumulation_does_not_matter(void **state)
{
    (void)state;
    const char *const names[] = {"gemma4-e2b-tiny", "gemma4-e4b-tiny",
                                 "gemma4-31b-tiny", "gemma3-tiny",
                                 "gemma4-e2b-tiny-packed"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        struct trajectory whole = run(names[i], 2, false, 2);
        struct trajectory split = run(names[i], 2, false, 1);
        for (int t = 0; t < 20; t++) {
            if (fabs(whole.losses[t] - split.losses[t]) > 1e-5 * whole.losses[t] ||
                fabs(whole.norms[t] - split.norms[t]) > 1e-4 * whole.norms[t]) {
                fail_msg("%s: step %d: loss %.9g and %.9g, norm %.9g and %.9g",
                         names[i], t + 1, whole.losses[t], split.losses[t],
                         whole.norms[t], split.norms[t]);
            }
        }
        mem_free(whole.final);
        mem_free(split.final);
    }
}

/* C16, C17: documents packed into one row, or alone in rows of their own. */
static void packing_does_not_matter(void **state)
{
    (void)state;
    const char *const names[] = {"gemma4-e2b-tiny-packed", "gemma3-tiny-packed"};
    for (size_t c = 0; c < ARRAY_LENGTH(names); c++) {
        struct golden *golden = golden_open(names[c]);
        const struct params *params = golden_source(golden)->params;
        struct engine *engine = golden_engine(2);
        const struct batch *packed = golden_batch(golden, 0);
        const int32_t n = golden_n_documents(golden);
        struct batch *alone = batch_create(n, golden_T(golden), n * golden_T(golden));
        golden_batch_documents(golden, alone);
        struct step *a = golden_step(golden, engine, golden_B(golden),
                                     packed->target_capacity, false);
        struct step *b = golden_step(golden, engine, n, alone->target_capacity, false);
        const double loss_a = accumulate(a, packed);
        const double loss_b = accumulate(b, alone);
        assert_true(packed->weight_sum == alone->weight_sum);
        assert_true(fabs(loss_a - loss_b) <= 1e-6 * loss_a);
        for (int i = 0; i < params->n; i++) {
            if (golden_trainable(golden)[i]) {
                const double relative =
                    golden_relative_l2(step_gradient(a, i), step_gradient(b, i),
                                       params->info[i].n_elements);
                if (relative > 1e-5) {
                    fail_msg("%s: %s: %.3g", names[c], params->info[i].name, relative);
                }
            }
        }
        batch_destroy(alone);
        step_destroy(a);
        step_destroy(b);
        backend_destroy(engine);
        golden_close(golden);
    }
}

/* C10, G14: a loss that is not finite changes nothing, and is told. */
static void not_finite_is_skipped(void **state)
{
    (void)state;
    struct golden *golden = golden_open("gemma3-tiny");
    const struct params *params = golden_source(golden)->params;
    struct engine *engine = golden_engine(2);
    const struct batch *batch = golden_batch(golden, 0);
    struct step *step =
        golden_step(golden, engine, golden_B(golden), batch->target_capacity, false);
    struct error err;
    const int param = params_index(params, PARAM_Q, 2);
    const int64_t n = params->info[param].n_elements;
    float *before = mem_alloc_array((size_t)n, sizeof(float));
    float *after = mem_alloc_array((size_t)n, sizeof(float));
    CHECK(step_read_param(step, param, 0, params->info[param].dim[0], before, &err));

    /* One weight of a target is infinite: so is the loss sum. */
    struct batch poisoned = *batch;
    float weight[1024];
    assert_true((size_t)batch->target_capacity <= ARRAY_LENGTH(weight));
    memcpy(weight, batch->weight, (size_t)batch->target_capacity * sizeof(float));
    weight[3] = INFINITY;
    poisoned.weight = weight;
    const double loss = accumulate(step, &poisoned);
    struct step_result result = update(step, batch, loss);
    assert_false(result.is_applied);
    assert_int_equal(step_n_updates(step), 0);
    CHECK(step_read_param(step, param, 0, params->info[param].dim[0], after, &err));
    assert_memory_equal(before, after, (size_t)n * sizeof(float));

    /* The loss may be finite and a gradient not: only the norm tells. */
    const double finite = accumulate(step, batch);
    assert_true(isfinite(finite));
    float *sum = (float *)(uintptr_t)step_gradient(step, param);
    sum[5] = NAN;
    result = update(step, batch, finite);
    assert_false(result.is_applied);
    assert_int_equal(step_n_updates(step), 0);
    CHECK(step_read_param(step, param, 0, params->info[param].dim[0], after, &err));
    assert_memory_equal(before, after, (size_t)n * sizeof(float));

    /* The next step is as if nothing had been. */
    result = update(step, batch, accumulate(step, batch));
    assert_true(result.is_applied);
    assert_int_equal(step_n_updates(step), 1);
    const double norm = golden_number(golden, NULL, "grad_norm", -1);
    assert_true(fabs(result.grad_norm - norm) <= 1e-5 * norm);
    mem_free(before);
    mem_free(after);
    step_destroy(step);
    backend_destroy(engine);
    golden_close(golden);
}

/* D9: the first update of AdamW by its formula, with the gradient clipped and not. With
 * eps 1 the step shows the size of the gradient: p (1 - lr decay) - lr g / (|g| + 1). */
static void check_first_update(double clip_norm)
{
    struct golden *golden = golden_open("gemma3-tiny");
    const struct params *params = golden_source(golden)->params;
    struct engine *engine = golden_engine(2);
    const struct batch *batch = golden_batch(golden, 0);
    struct step *step =
        golden_step(golden, engine, golden_B(golden), batch->target_capacity, false);
    struct error err;
    const int param = params_index(params, PARAM_UP, 3);
    const int64_t n = params->info[param].n_elements;
    float *before = mem_alloc_array((size_t)n, sizeof(float));
    float *after = mem_alloc_array((size_t)n, sizeof(float));
    CHECK(step_read_param(step, param, 0, params->info[param].dim[0], before, &err));
    struct step_hyper hyper = hyper_of_reference;
    hyper.eps = 1.0;
    hyper.lr = 0.5;
    hyper.clip_norm = clip_norm;
    hyper.weight_sum = batch->weight_sum;
    hyper.loss_sum = accumulate(step, batch) * batch->weight_sum;
    float *gradient = mean_gradient(step, params, param, batch->weight_sum);
    struct step_result result;
    CHECK(step_update(step, &hyper, &result, &err));
    const double norm = golden_number(golden, NULL, "grad_norm", -1);
    assert_true(fabs(result.grad_norm - norm) <= 1e-5 * norm); /* before clipping */
    CHECK(step_read_param(step, param, 0, params->info[param].dim[0], after, &err));
    const double scale = clip_norm > 0.0 ? fmin(1.0, clip_norm / norm) : 1.0;
    for (int64_t i = 0; i < n; i++) {
        const double g = (double)gradient[i] * scale;
        const double expected =
            (double)before[i] * (1.0 - 0.5 * 0.01) - 0.5 * g / (fabs(g) + 1.0);
        if (fabs((double)after[i] - expected) > 1e-6) {
            fail_msg("clip %g: weight %d is %.9g, not %.9g", clip_norm, (int)i,
                     (double)after[i], expected);
        }
    }
    mem_free(gradient);
    mem_free(before);
    mem_free(after);
    step_destroy(step);
    backend_destroy(engine);
    golden_close(golden);
}

static void updates_follow_the_formula_clipped_or_not(void **state)
{
    (void)state;
    check_first_update(0.0);
    check_first_update(1.0);
    check_first_update(1e9);
}

/* C13: a model saved from a step that has done nothing yet is the model that was loaded,
 * bit for bit, the tied table once. */
static void a_save_at_step_zero_is_the_model(void **state)
{
    (void)state;
    struct golden *golden = golden_open("gemma4-e2b-tiny-frozen-ple");
    const struct model_source *source = golden_source(golden);
    struct engine *engine = golden_engine(2);
    struct step *step = golden_step(golden, engine, golden_B(golden),
                                    golden_batch(golden, 0)->target_capacity, false);
    char base[] = "/tmp/lathe-test-XXXXXX";
    assert_non_null(mkdtemp(base));
    char *path = file_join(base, "model");
    struct error err;
    const struct weights_output output = {.config = &source->config,
                                          .params = source->params,
                                          .dtype = DTYPE_F32,
                                          .read = step_read_param,
                                          .context = step};
    CHECK(weights_write_folder(path, &output, &err));
    struct model_source saved = {0};
    CHECK(model_source_open(&saved, path, true, false, &err));
    assert_int_equal(saved.params->n, source->params->n);
    for (int i = 0; i < source->params->n; i++) {
        const struct param_info *info = &source->params->info[i];
        float *a = mem_alloc_array((size_t)info->n_elements, sizeof(float));
        float *b = mem_alloc_array((size_t)info->n_elements, sizeof(float));
        CHECK(weights_read(source->weights, i, 0, info->dim[0], a, &err));
        CHECK(weights_read(saved.weights, i, 0, info->dim[0], b, &err));
        assert_memory_equal(a, b, (size_t)info->n_elements * sizeof(float));
        mem_free(a);
        mem_free(b);
    }
    model_source_close(&saved);
    CHECK(file_remove_tree(base, &err));
    mem_free(path);
    step_destroy(step);
    backend_destroy(engine);
    golden_close(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_and_gradients_are_the_references),
        cmocka_unit_test(twenty_updates_are_the_references),
        cmocka_unit_test(threads_and_recomputation_change_no_bit),
        cmocka_unit_test(accumulation_does_not_matter),
        cmocka_unit_test(packing_does_not_matter),
        cmocka_unit_test(not_finite_is_skipped),
        cmocka_unit_test(updates_follow_the_formula_clipped_or_not),
        cmocka_unit_test(a_save_at_step_zero_is_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
