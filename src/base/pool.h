/*
 * pool - a fixed set of threads that share out numbered tasks.
 *
 * The caller of pool_run works too, as thread 0. Tasks are taken in order by whoever is
 * free, so results must not depend on which thread ran a task: the grid of tasks is a
 * function of shapes, and a task writes only its own part. Nothing is allocated by
 * pool_run. One pool_run at a time per pool; tasks must not call pool_run.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/base.h"

struct pool;
struct error;

/* task in [0, n_tasks), thread in [0, pool_n_threads). */
typedef void (*pool_task_fn)(void *context, int64_t task, int thread);

/* n_threads 0 = one per processor this process may use. Workers are pinned when
 * there are exactly as many threads as processors to use; the caller never is, so that
 * threads it starts are not bound to one processor. At most 2^32 - 1 tasks a run. */
MUST_USE struct pool *pool_create(int n_threads, struct error *err);
void pool_destroy(struct pool *pool); /* takes NULL */

/* The caller counts as one of them. */
int pool_n_threads(const struct pool *pool);

/* Runs all tasks and returns when the last has ended. */
void pool_run(struct pool *pool, int64_t n_tasks, pool_task_fn run, void *context);

#endif
