/*
 * C7 as lathe doctor checks it: every native kernel is within its bound on this machine, for
 * each instruction set; and the comparison does see differences.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "backend/cpu/native.h"
#include "backend/selftest.h"
#include "base/error.h"

struct seen {
    int n, n_wrong, n_sets;
    bool has_attention, has_loss_head, has_adamw, has_matmul;
    double worst;
};

static void note(void *context, const struct selftest_result *result)
{
    struct seen *seen = context;
    seen->n++;
    seen->n_wrong += !result->is_fine;
    seen->n_sets += strcmp(result->kernel, "geglu") == 0;
    seen->has_attention |= strcmp(result->kernel, "attention") == 0;
    seen->has_loss_head |= strcmp(result->kernel, "loss_head") == 0;
    seen->has_adamw |= strcmp(result->kernel, "adamw") == 0;
    seen->has_matmul |= strcmp(result->kernel, "matmul") == 0;
    seen->worst = result->error > seen->worst ? result->error : seen->worst;
    if (!result->is_fine && result->bound > 1e-6) {
        print_error("%s, %s: %g, bound %g\n", result->kernel, result->engine,
                    result->error, result->bound);
    }
}

static void all_kernels_agree(void **state)
{
    (void)state;
    struct error err;
    struct seen seen = {0};
    const struct native *sets[3];
    assert_true(selftest_run(1.0, note, &seen, &err));
    assert_int_equal(seen.n_wrong, 0);
    assert_int_equal(seen.n_sets, native_list(sets)); /* each set once */
    assert_true(seen.has_attention && seen.has_loss_head && seen.has_adamw &&
                seen.has_matmul);
    /* Sums in another order: equal to the bit would mean that nothing was compared. */
    assert_true(seen.worst > 1e-9);
}

static void differences_are_seen(void **state)
{
    (void)state;
    struct error err;
    struct seen seen = {0};
    assert_true(selftest_run(1e-6, note, &seen, &err));
    assert_true(seen.n_wrong > 5);
    assert_true(seen.n_wrong < seen.n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_kernels_agree),
        cmocka_unit_test(differences_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
