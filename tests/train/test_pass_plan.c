/*
 * The planner's choices, with needs that are known: small passes, fewer rows before
 * recomputation, more rows for small models, and what the user says.
 */
#include "train/pass_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

/* A model whose pass needs so much a token, a tenth of it with recomputation. */
struct need {
    size_t bytes_a_row;
    int n_asked;
};

static size_t working(void *context, int32_t rows, bool recomputes)
{
    struct need *need = context;
    need->n_asked++;
    return (size_t)rows * need->bytes_a_row / (recomputes ? 10 : 1);
}

static const size_t mib = (size_t)1 << 20;

/* Rows of a large model: 800 MiB for 512 tokens, 4 GiB of state. */
static struct pass_plan choose(const struct pass_plan_wish *wish, size_t bytes_a_row)
{
    struct need need = {.bytes_a_row = bytes_a_row};
    struct pass_plan plan;
    struct error err;
    if (!pass_plan_choose(wish, working, &need, &plan, &err)) {
        fail_msg("%s", err.message);
    }
    assert_true(plan.working_bytes == working(&need, plan.rows, plan.recomputes));
    assert_true(need.n_asked < 12);
    return plan;
}

static struct pass_plan_wish large(size_t limit_mib)
{
    return (struct pass_plan_wish){.batch_rows = 16,
                                   .row_tokens = 512,
                                   .may_keep = true,
                                   .may_recompute = true,
                                   .state_bytes = 4096 * mib,
                                   .limit = limit_mib * mib};
}

static void large_models_take_512_tokens(void **state)
{
    (void)state;
    struct pass_plan_wish wish = large(20000);
    struct pass_plan plan = choose(&wish, 800 * mib);
    assert_int_equal(plan.rows, 1);
    assert_false(plan.recomputes);
    wish.row_tokens = 128;
    plan = choose(&wish, 200 * mib);
    assert_int_equal(plan.rows, 4);
    wish.row_tokens = 4096; /* one row is the least */
    assert_int_equal(choose(&wish, 800 * mib).rows, 1);
    wish.row_tokens = 128;
    wish.batch_rows = 3;
    assert_int_equal(choose(&wish, 200 * mib).rows, 3);
}

static void a_limit_means_fewer_rows_then_recomputation(void **state)
{
    (void)state;
    struct pass_plan_wish wish = large(4096 + 500);
    wish.row_tokens = 128;
    struct pass_plan plan = choose(&wish, 200 * mib);
    assert_int_equal(plan.rows, 2);
    assert_false(plan.recomputes);
    wish.limit = (4096 + 199) * mib;
    plan = choose(&wish, 200 * mib);
    assert_int_equal(plan.rows, 4);
    assert_true(plan.recomputes);
    wish.limit = (4096 + 20) * mib; /* exactly one recomputed row */
    plan = choose(&wish, 200 * mib);
    assert_int_equal(plan.rows, 1);
    assert_true(plan.recomputes);
}

static void small_models_take_more_rows(void **state)
{
    (void)state;
    struct pass_plan_wish wish = large(20000);
    assert_int_equal(choose(&wish, 10 * mib).rows, 4); /* 2,048 tokens are the most */
    assert_int_equal(choose(&wish, 60 * mib).rows, 2); /* 128 MiB at most */
    assert_int_equal(choose(&wish, 128 * mib).rows, 1);
    wish.batch_rows = 3;
    assert_int_equal(choose(&wish, 10 * mib).rows, 3);
    wish.limit = (4096 + 25) * mib;
    assert_int_equal(choose(&wish, 10 * mib).rows, 2);
    wish.row_tokens = 1024; /* one row is more than 512 tokens already */
    wish.limit = 20000 * mib;
    assert_int_equal(choose(&wish, 10 * mib).rows, 2);
}

static void what_the_user_says_holds(void **state)
{
    (void)state;
    struct pass_plan_wish wish = large(20000);
    wish.micro_rows = 5;
    assert_int_equal(choose(&wish, 10 * mib).rows, 5);
    wish.micro_rows = 40; /* no more than the step has */
    assert_int_equal(choose(&wish, 10 * mib).rows, 16);
    wish.may_keep = false;
    assert_true(choose(&wish, 10 * mib).recomputes);
    /* Not fewer rows, but recomputation where it is allowed. */
    wish = large(4096 + 100);
    wish.micro_rows = 2;
    struct pass_plan plan = choose(&wish, 200 * mib);
    assert_int_equal(plan.rows, 2);
    assert_true(plan.recomputes);
    wish.may_recompute = false;
    struct need need = {.bytes_a_row = 200 * mib};
    struct error err;
    assert_false(pass_plan_choose(&wish, working, &need, &plan, &err));
    assert_int_equal(error_exit_code(err.kind), 4);
    assert_non_null(strstr(err.message, "4.4 GiB with 2 rows a pass"));
    assert_non_null(strstr(err.message, "4.1 GiB"));
}

/* The state alone is too large: the difference must not wrap around. */
static void state_beyond_the_limit_is_refused(void **state)
{
    (void)state;
    const struct pass_plan_wish wish = large(100);
    struct need need = {.bytes_a_row = 1};
    struct pass_plan plan;
    struct error err;
    assert_false(pass_plan_choose(&wish, working, &need, &plan, &err));
    need.bytes_a_row = SIZE_MAX / 16;
    assert_false(pass_plan_choose(&wish, working, &need, &plan, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_models_take_512_tokens),
        cmocka_unit_test(a_limit_means_fewer_rows_then_recomputation),
        cmocka_unit_test(small_models_take_more_rows),
        cmocka_unit_test(what_the_user_says_holds),
        cmocka_unit_test(state_beyond_the_limit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
