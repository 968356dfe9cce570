/*
 * Every op of ops.def, from one table (support/op_cases.h): the plain f32 kernel against
 * the plain f64 kernel (C4: of the loss head too), and gradients against finite differences
 * in f64. An op without a case fails.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "graph/graph.h"
#include "support/op_run.h"

static const double F32_BOUND =
    1e-5; /* of the largest magnitude: sums of some dozens */
static const double BF16_BOUND = 0.01; /* one rounding is 1/512; a few add up */
static const double GRADIENT_BOUND = 1e-6;

/* Elements tried by finite differences, per input; fewer of large inputs. */
enum { MAX_ELEMENTS = 25, MAX_ELEMENTS_LARGE = 5, LARGE = 1000 };

static struct op_setup setup_of(const struct op_case *c, enum dtype dtype)
{
    return (struct op_setup){
        .op_case = c,
        .layout = c->layouts[0],
        .mesh = mesh_single(),
        .dtype = dtype,
        .has_gradient = true,
        .is_lowered = true,
    };
}

/* The op itself, and gradient ops that its gradient is made of. */
static void every_op_has_a_case(void **state)
{
    (void)state;
    bool seen[OP_COUNT] = {false};
    for (int i = 0; i < op_cases_count(); i++) {
        const struct op_case *c = op_cases_get(i);
        const struct op_setup setup = setup_of(c, DTYPE_F64);
        struct op_run *run = op_run_create(&setup);
        if (!run->op_seen[c->op]) {
            fail_msg("case %s does not hold %s", c->name, op_name(c->op));
        }
        seen[c->op] = true;
        for (int op = 0; op < OP_COUNT; op++) {
            if (op_kind((enum op)op) == OP_KIND_GRADIENT && run->op_seen[op]) {
                seen[op] = true;
            }
        }
        op_run_destroy(run);
    }
    for (int op = 0; op < OP_COUNT; op++) {
        if (!seen[op]) {
            fail_msg("%s has no case", op_name((enum op)op));
        }
    }
}

static void f32_agrees_with_f64(void **state)
{
    (void)state;
    int n_over = 0;
    for (int i = 0; i < op_cases_count(); i++) {
        const struct op_case *c = op_cases_get(i);
        const struct op_setup single = setup_of(c, DTYPE_F32);
        const struct op_setup wide = setup_of(c, DTYPE_F64);
        struct op_run *run = op_run_create(&single);
        struct op_run *reference = op_run_create(&wide);
        op_run_execute(run);
        op_run_execute(reference);
        const double bound = c->f32_bound > 0.0 ? c->f32_bound : F32_BOUND;
        n_over += op_run_compare(run, reference, bound, "f32 against f64");
        op_run_destroy(run);
        op_run_destroy(reference);
    }
    assert_int_equal(n_over, 0);
}

/* Inputs that bf16 holds exactly, so that what is seen is the rounding of results. */
static void bf16_agrees_with_f64(void **state)
{
    (void)state;
    int n_over = 0;
    for (int i = 0; i < op_cases_count(); i++) {
        const struct op_case *c = op_cases_get(i);
        struct op_setup setup = setup_of(c, DTYPE_BF16);
        setup.rounds_inputs = true;
        struct op_run *run = op_run_create(&setup);
        setup.dtype = DTYPE_F64;
        struct op_run *reference = op_run_create(&setup);
        op_run_execute(run);
        op_run_execute(reference);
        const double bound = c->bf16_bound > 0.0 ? c->bf16_bound : BF16_BOUND;
        n_over += op_run_compare(run, reference, bound, "bf16 against f64");
        op_run_destroy(run);
        op_run_destroy(reference);
    }
    assert_int_equal(n_over, 0);
}

/* L = sum of seed . y over the outputs that have a cotangent. */
static double weighted_sum(const struct op_run *run, const struct op_run *gradient)
{
    const struct op_case *c = run->setup.op_case;
    double sum = 0.0;
    for (int i = 0; i < run->n_results; i++) {
        const struct op_tensor *y = &run->results[i];
        if ((c->n_seeded > 0 && i >= c->n_seeded) || !dtype_is_float(y->type.dtype)) {
            continue;
        }
        const struct op_tensor *seed = NULL;
        for (int j = 0; j < gradient->n_arguments; j++) {
            const struct op_tensor *a = &gradient->arguments[j];
            if (a->name[0] == 's' && a->name[4] - '0' == i) {
                seed = a;
            }
        }
        ASSERT((seed == NULL) == c->seed_is_one);
        for (int64_t k = 0; k < y->n; k++) {
            sum += y->data[k] * (seed == NULL ? 1.0 : seed->data[k]);
        }
    }
    return sum;
}

/* Central difference of L by element k of an argument. */
static double difference(struct op_run *forward, const struct op_run *gradient,
                         struct op_tensor *argument, int64_t k)
{
    const double h = 2e-5, x = argument->data[k];
    argument->data[k] = x + h;
    op_run_execute(forward);
    const double above = weighted_sum(forward, gradient);
    argument->data[k] = x - h;
    op_run_execute(forward);
    const double below = weighted_sum(forward, gradient);
    argument->data[k] = x;
    return (above - below) / (2.0 * h);
}

/* Tries some elements of one gradient; returns how many are wrong. */
static int check_gradient(struct op_run *forward, const struct op_run *gradient,
                          const struct op_tensor *dx)
{
    struct op_tensor *argument = NULL;
    for (int i = 0; i < forward->n_arguments; i++) {
        if (strcmp(forward->arguments[i].name, dx->name + 1) == 0) {
            argument = &forward->arguments[i];
        }
    }
    ASSERT(argument != NULL);
    double largest = 0.0;
    for (int64_t k = 0; k < dx->n; k++) {
        largest = fmax(largest, fabs(dx->data[k]));
    }
    int n_wrong = 0;
    const int64_t n_tried = dx->n > LARGE ? MAX_ELEMENTS_LARGE : MAX_ELEMENTS;
    const int64_t stride = base_max(1, dx->n / n_tried) | 1;
    for (int64_t k = 0; k < dx->n; k += stride) {
        const double expected = difference(forward, gradient, argument, k);
        const double error = fabs(dx->data[k] - expected);
        if (!(error <= GRADIENT_BOUND * fmax(largest, 1e-3))) {
            print_error("%s: %s[%d] is %.9g, by differences %.9g, largest %.3g\n",
                        forward->setup.op_case->name, dx->name, (int)k, dx->data[k],
                        expected, largest);
            n_wrong++;
        }
    }
    return n_wrong;
}

static void gradients_are_finite_differences(void **state)
{
    (void)state;
    int n_wrong = 0;
    for (int i = 0; i < op_cases_count(); i++) {
        const struct op_case *c = op_cases_get(i);
        struct op_setup setup = setup_of(c, DTYPE_F64);
        struct op_run *gradient = op_run_create(&setup);
        setup.has_gradient = false;
        struct op_run *forward = op_run_create(&setup);
        op_run_execute(gradient);
        for (int r = 0; r < gradient->n_results && !c->is_not_true; r++) {
            if (gradient->results[r].name[0] == 'd') {
                n_wrong += check_gradient(forward, gradient, &gradient->results[r]);
            }
        }
        op_run_destroy(gradient);
        op_run_destroy(forward);
    }
    assert_int_equal(n_wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_has_a_case),
        cmocka_unit_test(f32_agrees_with_f64),
        cmocka_unit_test(bf16_agrees_with_f64),
        cmocka_unit_test(gradients_are_finite_differences),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (failed == 0) { /* a failed one leaves its programs behind */
        op_run_cleanup();
    }
    return failed;
}
