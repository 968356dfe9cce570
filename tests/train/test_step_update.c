/*
 * What an update does beyond AdamW's formula (test_step.c): rates by group, norms by group,
 * a largest norm, and the loss that is reported beside another objective.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "backend/backend.h"
#include "base/error.h"
#include "base/mem.h"
#include "support/golden.h"

static const struct step_hyper hyper_of_all = {
    .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01};

/* A step of gemma3-tiny with norm weights in group 1. */
struct fixture {
    struct golden *golden;
    struct engine *engine;
    struct step *step;
    int *group;
    const struct params *params;
    const struct batch *batch;
};

static void open_fixture(struct fixture *f, double z_loss, double label_smoothing)
{
    f->golden = golden_open("gemma3-tiny");
    f->engine = golden_engine(2);
    f->params = golden_source(f->golden)->params;
    f->batch = golden_batch(f->golden, 0);
    f->group = mem_alloc_array((size_t)f->params->n, sizeof(int));
    for (int i = 0; i < f->params->n; i++) {
        f->group[i] = f->params->info[i].is_norm;
    }
    const struct step_options options = {
        .shape = {.config = &golden_source(f->golden)->config,
                  .params = f->params,
                  .is_trainable = golden_trainable(f->golden),
                  .B = golden_B(f->golden),
                  .T = golden_T(f->golden),
                  .C = f->batch->target_capacity,
                  .compute = DTYPE_F32,
                  .z_loss = z_loss,
                  .label_smoothing = label_smoothing},
        .trains = true,
        .evaluates = true,
        .group = f->group,
        .n_groups = 2,
        .has_norms = true};
    const struct step_source source = golden_step_source(f->golden);
    struct error err;
    f->step = step_create(f->engine, &options, &source, &err);
    if (f->step == NULL || !step_load(f->step, &err)) {
        fail_msg("%s", err.message);
    }
}

static void close_fixture(struct fixture *f)
{
    step_destroy(f->step);
    backend_destroy(f->engine);
    mem_free(f->group);
    golden_close(f->golden);
}

/* The gradient of the batch, then an update. */
static struct step_result run_step(struct fixture *f, struct step_hyper hyper)
{
    struct error err;
    struct step_result result;
    if (!step_accumulate(f->step, f->batch, &hyper.loss_sum, &err)) {
        fail_msg("%s", err.message);
    }
    hyper.weight_sum = f->batch->weight_sum;
    if (!step_update(f->step, &hyper, &result, &err)) {
        fail_msg("%s", err.message);
    }
    return result;
}

/* Owned copy of a parameter as it is now. */
static float *copy_param(struct fixture *f, int param)
{
    const struct param_info *info = &f->params->info[param];
    float *values = mem_alloc_array((size_t)info->n_elements, sizeof(float));
    struct error err;
    assert_true(step_read_param(f->step, param, 0, info->dim[0], values, &err));
    return values;
}

/* All parameters, one behind the other. */
static float **copy_all(struct fixture *f)
{
    float **all = mem_alloc_array((size_t)f->params->n, sizeof(float *));
    for (int i = 0; i < f->params->n; i++) {
        all[i] = copy_param(f, i);
    }
    return all;
}

static void free_all(struct fixture *f, float **all)
{
    for (int i = 0; i < f->params->n; i++) {
        mem_free(all[i]);
    }
    mem_free(all);
}

/* A rate of 0 keeps a group's bits; the other group's are those of a step without groups. */
static void groups_have_rates_of_their_own(void **state)
{
    (void)state;
    struct fixture alone;
    struct fixture grouped;
    open_fixture(&alone, 0.0, 0.0);
    open_fixture(&grouped, 0.0, 0.0);
    float **before = copy_all(&alone);
    const struct step_group rates[] = {{1e-3, 0.01}, {0.0, 0.0}};
    struct step_hyper hyper = hyper_of_all;
    assert_true(run_step(&alone, hyper).is_applied);
    hyper.groups = rates;
    assert_true(run_step(&grouped, hyper).is_applied);
    float **uniform = copy_all(&alone);
    float **after = copy_all(&grouped);
    for (int i = 0; i < alone.params->n; i++) {
        const struct param_info *info = &alone.params->info[i];
        const size_t bytes = (size_t)info->n_elements * sizeof(float);
        const float *expected = info->is_norm ? before[i] : uniform[i];
        if (memcmp(after[i], expected, bytes) != 0) {
            fail_msg("%s: not as expected", info->name);
        }
        assert_true(memcmp(uniform[i], before[i], bytes) != 0);
    }
    free_all(&alone, before);
    free_all(&alone, uniform);
    free_all(&alone, after);
    close_fixture(&alone);
    close_fixture(&grouped);
}

static void assert_near(const char *what, double a, double b)
{
    if (fabs(a - b) > 1e-6 * fabs(b)) {
        fail_msg("%s: %.12g is not %.12g", what, a, b);
    }
}

/* Against sums over what can be read before and after; and the update itself is the same,
 * bit for bit, with norms and without. */
static void norms_are_those_of_the_tensors(void **state)
{
    (void)state;
    struct fixture f;
    struct fixture plain;
    open_fixture(&f, 0.0, 0.0);
    open_fixture(&plain, 0.0, 0.0);
    float **before = copy_all(&f);
    struct step_hyper hyper = hyper_of_all;
    assert_null(run_step(&plain, hyper).norms);
    hyper.wants_norms = true;
    const struct step_result result = run_step(&f, hyper);
    assert_non_null(result.norms);
    float **after = copy_all(&f);
    float **expected = copy_all(&plain);
    double grad[2] = {0};
    double update[2] = {0};
    double weight[2] = {0};
    for (int i = 0; i < f.params->n; i++) {
        const float *sum = step_gradient(f.step, i);
        for (int64_t k = 0; k < f.params->info[i].n_elements; k++) {
            const double change = (double)after[i][k] - (double)before[i][k];
            const double g = (double)sum[k] / f.batch->weight_sum;
            grad[f.group[i]] += g * g;
            update[f.group[i]] += change * change;
            weight[f.group[i]] += (double)after[i][k] * (double)after[i][k];
            assert_true(after[i][k] == expected[i][k]);
        }
    }
    for (int k = 0; k < 2; k++) {
        assert_near("gradient", result.norms[k].grad, sqrt(grad[k]));
        assert_near("update", result.norms[k].update, sqrt(update[k]));
        assert_near("weight", result.norms[k].weight, sqrt(weight[k]));
    }
    assert_near("both", result.grad_norm, sqrt(grad[0] + grad[1]));
    free_all(&f, before);
    free_all(&f, after);
    free_all(&f, expected);
    close_fixture(&f);
    close_fixture(&plain);
}

/* A norm above the largest one skips the step, which leaves no trace; at it, it does not. */
static void a_norm_that_is_too_large_changes_nothing(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 0.0, 0.0);
    const double norm = golden_number(f.golden, NULL, "grad_norm", -1);
    const int param = params_index(f.params, PARAM_UP, 1);
    const size_t bytes = (size_t)f.params->info[param].n_elements * sizeof(float);
    float *before = copy_param(&f, param);
    struct step_hyper hyper = hyper_of_all;
    hyper.max_norm = 0.99 * norm;
    const struct step_result skipped = run_step(&f, hyper);
    assert_false(skipped.is_applied);
    assert_near("norm", skipped.grad_norm, norm);
    hyper.max_norm = -1.0; /* nothing is below */
    assert_false(run_step(&f, hyper).is_applied);
    float *after = copy_param(&f, param);
    assert_memory_equal(before, after, bytes);
    assert_int_equal(step_n_updates(f.step), 0);
    hyper.max_norm = 1.01 * norm;
    assert_true(run_step(&f, hyper).is_applied);
    mem_free(before);
    mem_free(after);
    close_fixture(&f);
}

/* The loss that is told is the cross entropy, that of an evaluation, whatever is learned;
 * the gradient is another one. */
static void another_objective_tells_the_same_loss(void **state)
{
    (void)state;
    static const double cases[][2] = {{0.0, 0.0}, {0.1, 0.0}, {0.0, 0.2}};
    double norms[3];
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct fixture f;
        struct error err;
        double trained = 0.0;
        double evaluated = 0.0;
        open_fixture(&f, cases[i][0], cases[i][1]);
        assert_true(step_evaluate(f.step, f.batch, &evaluated, NULL, &err));
        assert_true(step_accumulate(f.step, f.batch, &trained, &err));
        assert_near("loss", trained, evaluated);
        norms[i] = run_step(&f, hyper_of_all).grad_norm;
        close_fixture(&f);
    }
    assert_true(fabs(norms[1] - norms[0]) > 1e-3 * norms[0]);
    assert_true(fabs(norms[2] - norms[0]) > 1e-3 * norms[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_have_rates_of_their_own),
        cmocka_unit_test(norms_are_those_of_the_tensors),
        cmocka_unit_test(a_norm_that_is_too_large_changes_nothing),
        cmocka_unit_test(another_objective_tells_the_same_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
