/*
 * Placements: each case of support/op_cases.h in each of its layouts, on 2, 3 and 4
 * lockstep ranks, against one rank: values and gradients, by the definitions in f64 and by
 * the native kernels in f32. So shape and placement rules and the transposes of collectives
 * are checked op by op, and in chains as sharded layers have them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "support/op_run.h"

/* Sums over ranks are in another order; some dozens of terms. */
static const double F64_BOUND = 1e-13, F32_BOUND = 1e-5, BF16_BOUND = 0.01;

enum { MIN_RANKS = 2, MAX_RANKS = 4 };

static int n_runs; /* on several ranks, by the current test */

/* Gradients of values that are not partial themselves are summed already. */
static int count_partial_gradients(const struct op_run *run)
{
    int n = 0;
    for (int i = 0; i < run->n_results; i++) {
        const struct op_tensor *dx = &run->results[i];
        if (dx->name[0] == 'd' && placement_has_partial(&dx->type.placement)) {
            print_error("%s, layout %s: %s is partial\n", run->setup.op_case->name,
                        run->setup.layout, dx->name);
            n++;
        }
    }
    return n;
}

/* In which form composites run. */
enum form { FORM_KERNELS, FORM_DEFINITIONS, FORM_TILED };

static int check_mesh(const struct op_case *c, const char *layout,
                      const struct mesh *mesh, enum dtype dtype, enum form form)
{
    struct op_setup setup = {
        .op_case = c,
        .layout = layout,
        .mesh = mesh_single(),
        .dtype = dtype,
        .has_gradient = true,
        .is_lowered = form != FORM_KERNELS,
        .isa = BACKEND_ISA_BEST,
    };
    struct op_run *reference = op_run_create(&setup);
    setup.mesh = *mesh;
    setup.is_tiled = form == FORM_TILED;
    struct op_run *run = op_run_create(&setup);
    op_run_execute(reference);
    op_run_execute(run);
    const double bound = dtype == DTYPE_F64    ? F64_BOUND
                         : dtype == DTYPE_BF16 ? BF16_BOUND
                         : c->native_bound > 0 ? c->native_bound
                                               : F32_BOUND;
    char what[80];
    snprintf(what, sizeof(what), "%dx%dx%d ranks", mesh->size[0], mesh->size[1],
             mesh->size[2]);
    int n_over = op_run_compare(run, reference, bound, what);
    n_over += count_partial_gradients(run);
    op_run_destroy(run);
    op_run_destroy(reference);
    n_runs++;
    return n_over;
}

/* All meshes of 2 to 4 ranks that the layout fits. */
static int check_layout(const struct op_case *c, const char *layout, enum dtype dtype,
                        enum form form)
{
    int n_over = 0;
    const int before = n_runs;
    for (int r = 1; r <= MAX_RANKS; r++) {
        for (int s = 1; s <= MAX_RANKS / r; s++) {
            for (int t = 1; t <= MAX_RANKS / (r * s); t++) {
                const struct mesh mesh = {.size = {r, s, t}};
                if (r * s * t >= MIN_RANKS && op_run_fits(c, layout, &mesh)) {
                    n_over += check_mesh(c, layout, &mesh, dtype, form);
                }
            }
        }
    }
    if (n_runs == before) {
        print_error("%s: layout %s fits no mesh\n", c->name, layout);
        n_over++;
    }
    return n_over;
}

static int check_all(enum dtype dtype, enum form form)
{
    int n_over = 0;
    for (int i = 0; i < op_cases_count(); i++) {
        const struct op_case *c = op_cases_get(i);
        for (int l = 0; l < OP_MAX_LAYOUTS && c->layouts[l] != NULL; l++) {
            n_over += check_layout(c, c->layouts[l], dtype, form);
        }
    }
    return n_over;
}

static void definitions_agree_with_one_rank(void **state)
{
    (void)state;
    assert_int_equal(check_all(DTYPE_F64, FORM_DEFINITIONS), 0);
    assert_true(n_runs > 300);
}

/* Loops over blocks on several ranks, against the form without loops on one. */
static void tiled_forms_agree_with_one_rank(void **state)
{
    (void)state;
    int n_over = 0;
    for (int i = 0; i < op_cases_count(); i++) {
        const struct op_case *c = op_cases_get(i);
        if (c->op != OP_ATTENTION && c->op != OP_LOSS_HEAD) {
            continue;
        }
        const struct mesh single = mesh_single();
        n_over += check_mesh(c, c->layouts[0], &single, DTYPE_F64, FORM_TILED);
        n_over += check_mesh(c, c->layouts[0], &single, DTYPE_F32, FORM_TILED);
        n_over += check_mesh(c, c->layouts[0], &single, DTYPE_BF16, FORM_TILED);
        for (int l = 0; l < OP_MAX_LAYOUTS && c->layouts[l] != NULL; l++) {
            n_over += check_layout(c, c->layouts[l], DTYPE_F64, FORM_TILED);
        }
    }
    assert_int_equal(n_over, 0);
}

static void kernels_agree_with_one_rank(void **state)
{
    (void)state;
    assert_int_equal(check_all(DTYPE_F32, FORM_KERNELS), 0);
}

/* Share of elements of all results that differ at all. */
static double share_of_others(const struct op_run *run, const struct op_run *reference)
{
    int64_t n = 0, n_others = 0;
    for (int i = 0; i < run->n_results; i++) {
        const struct op_tensor *a = &run->results[i], *b = &reference->results[i];
        assert_int_equal(a->n, b->n);
        for (int64_t k = 0; k < a->n; k++) {
            n_others += a->data[k] != b->data[k];
        }
        n += a->n;
    }
    return (double)n_others / (double)n;
}

/* Which way a number is rounded by chance depends on its place in the whole array: by the
 * kernel and by the definition, on one rank and on several. Bounds do not show that, as
 * either way is within them. */
static void chance_is_the_same_everywhere(void **state)
{
    (void)state;
    const struct op_case *c = NULL;
    for (int i = 0; i < op_cases_count(); i++) {
        if (strcmp(op_cases_get(i)->name, "adamw bf16 by chance") == 0) {
            c = op_cases_get(i);
        }
    }
    assert_non_null(c);
    const struct mesh meshes[] = {{{1, 1, 1}}, {{1, 2, 1}}, {{1, 3, 1}}};
    struct op_setup setup = {.op_case = c,
                             .layout = c->layouts[0],
                             .mesh = mesh_single(),
                             .dtype = DTYPE_F32,
                             .is_lowered = true};
    struct op_run *reference = op_run_create(&setup);
    op_run_execute(reference);
    setup.is_lowered = false;
    setup.isa = BACKEND_ISA_BEST;
    for (size_t m = 0; m < ARRAY_LENGTH(meshes); m++) {
        setup.mesh = meshes[m];
        struct op_run *run = op_run_create(&setup);
        op_run_execute(run);
        assert_true(share_of_others(run, reference) < 0.005);
        op_run_destroy(run);
    }
    op_run_destroy(reference);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(definitions_agree_with_one_rank),
        cmocka_unit_test(tiled_forms_agree_with_one_rank),
        cmocka_unit_test(kernels_agree_with_one_rank),
        cmocka_unit_test(chance_is_the_same_everywhere),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (failed == 0) { /* a failed one leaves its programs behind */
        op_run_cleanup();
    }
    return failed;
}
