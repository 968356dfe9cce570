/*
 * Every task runs exactly once, whatever the number of threads, over many short runs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/pool.h"

enum { MOST_TASKS = 300, MOST_THREADS = 4 };

struct tally {
    _Atomic int runs[MOST_TASKS];
    _Atomic int by_thread[MOST_THREADS];
    int n_threads;
    int64_t sum[MOST_TASKS]; /* plain: each task writes its own */
};

static void count_task(void *context, int64_t task, int thread)
{
    struct tally *tally = context;
    ASSERT(0 <= thread && thread < tally->n_threads); /* cmocka cannot fail here */
    atomic_fetch_add(&tally->runs[task], 1);
    atomic_fetch_add(&tally->by_thread[thread], 1);
    tally->sum[task] += task * task;
}

static void run_rounds(int n_threads, int n_rounds)
{
    struct error err;
    struct pool *pool = pool_create(n_threads, &err);
    assert_non_null(pool);
    assert_int_equal(pool_n_threads(pool), n_threads);
    for (int round = 0; round < n_rounds; round++) {
        struct tally tally = {.n_threads = n_threads};
        const int n_tasks = round * 7 % MOST_TASKS;
        pool_run(pool, n_tasks, count_task, &tally);
        for (int i = 0; i < MOST_TASKS; i++) {
            assert_int_equal(tally.runs[i], i < n_tasks ? 1 : 0);
            assert_int_equal(tally.sum[i], i < n_tasks ? i * i : 0);
        }
    }
    pool_destroy(pool);
}

static void every_task_runs_once(void **state)
{
    (void)state;
    for (int n_threads = 1; n_threads <= MOST_THREADS; n_threads++) {
        run_rounds(n_threads, 1000);
    }
}

/* Runs far enough apart that the workers have gone to sleep in between. */
static void sleeping_threads_wake(void **state)
{
    (void)state;
    struct error err;
    struct pool *pool = pool_create(3, &err);
    assert_non_null(pool);
    for (int round = 0; round < 20; round++) {
        struct tally tally = {.n_threads = 3};
        usleep(2000);
        pool_run(pool, 50, count_task, &tally);
        for (int i = 0; i < 50; i++) {
            assert_int_equal(tally.runs[i], 1);
        }
    }
    pool_destroy(pool);
}

/* Tasks that each wait until two have begun: they end only if two threads take part. */
static void meet(void *context, int64_t task, int thread)
{
    (void)task;
    (void)thread;
    _Atomic int *n_arrived = context;
    atomic_fetch_add(n_arrived, 1);
    while (atomic_load(n_arrived) < 2) {
        usleep(10);
    }
}

static void threads_work_at_the_same_time(void **state)
{
    (void)state;
    struct error err;
    struct pool *pool = pool_create(2, &err);
    assert_non_null(pool);
    for (int round = 0; round < 100; round++) {
        _Atomic int n_arrived = 0;
        pool_run(pool, 2, meet, &n_arrived);
        assert_int_equal(n_arrived, 2);
    }
    pool_destroy(pool);
}

static void running_allocates_nothing(void **state)
{
    (void)state;
    struct error err;
    struct pool *pool = pool_create(2, &err);
    assert_non_null(pool);
    struct tally tally = {.n_threads = 2};
    mem_guard_begin(); /* an allocation would now be a failed assertion */
    pool_run(pool, MOST_TASKS, count_task, &tally);
    mem_guard_end();
    pool_destroy(pool);
}

static void created_and_destroyed_unused(void **state)
{
    (void)state;
    struct error err;
    pool_destroy(NULL);
    for (int i = 0; i < 50; i++) {
        struct pool *pool = pool_create(i % 4, &err);
        assert_non_null(pool);
        assert_true(pool_n_threads(pool) >= 1);
        pool_destroy(pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_runs_once),
        cmocka_unit_test(sleeping_threads_wake),
        cmocka_unit_test(threads_work_at_the_same_time),
        cmocka_unit_test(running_allocates_nothing),
        cmocka_unit_test(created_and_destroyed_unused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
