/*
 * pool - threads that take numbered tasks from one atomic word.
 *
 * `state` holds (generation, tasks not yet taken): whoever moves the count from r to r
 * - 1 owns task n_tasks - r. The generation makes a late thread's exchange fail, so
 * nobody waits for threads that slept through a run: pool_run returns when `n_left`,
 * the tasks not yet ended, is zero. Having taken a task means the run is still going
 * on, so `run`, `context` and `n_tasks` are read only then.
 *
 * Idle threads look for work for some microseconds, then sleep on a condition variable.
 */
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

enum { SPIN_ROUNDS = 2000 }; /* of about 10 ns */

struct worker {
    struct pool *pool; /* that it works for */
    pthread_t thread;
    int index; /* 1 .. n_threads - 1 */
};

struct pool {
    _Atomic uint64_t state; /* generation << 32 | tasks not yet taken */
    _Atomic int64_t n_left; /* tasks of the run that have not ended */
    unsigned char padding[MEM_ALIGNMENT - 2 * sizeof(uint64_t)]; /* own cache line */

    pool_task_fn run; /* of the current run, as the next two */
    void *context;
    int64_t n_tasks;

    int n_threads;   /* with the caller */
    int n_started;   /* workers to join; less than n_threads - 1 if creation failed */
    int spin_rounds; /* 0 where threads outnumber processors */
    struct worker *workers; /* [n_threads]; entry 0 is the caller's, unused */

    pthread_mutex_t mutex;     /* for sleeping and waking only */
    pthread_cond_t work_came;  /* for idle workers */
    pthread_cond_t work_ended; /* for the caller */
    _Atomic int n_sleeping;    /* workers at work_came */
    _Atomic bool caller_waits; /* at work_ended */
    _Atomic bool is_stopping;
};

/* Tells the processor that this is a waiting loop: less power, and the other thread of
 * the core runs faster. */
static void spin_once(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

/*
 * Takes tasks until none is left to take. The exchange is the only place where a task
 * changes hands: acquire makes the run's fields visible to whoever took one. The
 * subtraction from n_left publishes what the task wrote to the caller of pool_run;
 * whoever ends the last task wakes the caller, if it sleeps.
 */
static void work(struct pool *pool, int thread)
{
    uint64_t state = atomic_load_explicit(&pool->state, memory_order_acquire);
    while ((uint32_t)state > 0) {
        if (!atomic_compare_exchange_weak_explicit(&pool->state, &state, state - 1,
                                                   memory_order_acq_rel,
                                                   memory_order_acquire)) {
            continue;
        }
        const int64_t task = pool->n_tasks - (int64_t)(uint32_t)state;
        pool->run(pool->context, task, thread);
        if (atomic_fetch_sub(&pool->n_left, 1) == 1 &&
            atomic_load(&pool->caller_waits)) {
            pthread_mutex_lock(&pool->mutex);
            pthread_cond_signal(&pool->work_ended);
            pthread_mutex_unlock(&pool->mutex);
        }
        state = atomic_load_explicit(&pool->state, memory_order_acquire);
    }
}

/* Returns when there are tasks to take or the pool is stopping. */
static void wait_for_work(struct pool *pool)
{
    for (int i = 0; i < pool->spin_rounds; i++) {
        if ((uint32_t)atomic_load(&pool->state) > 0 ||
            atomic_load(&pool->is_stopping)) {
            return;
        }
        spin_once();
    }
    pthread_mutex_lock(&pool->mutex);
    /* First counted as sleeping, then the state is read; pool_run does the opposite, so
     * one of the two sees the other. */
    atomic_fetch_add(&pool->n_sleeping, 1);
    while ((uint32_t)atomic_load(&pool->state) == 0 &&
           !atomic_load(&pool->is_stopping)) {
        pthread_cond_wait(&pool->work_came, &pool->mutex);
    }
    atomic_fetch_sub(&pool->n_sleeping, 1);
    pthread_mutex_unlock(&pool->mutex);
}

/* Others may still be at their tasks when work finds nothing more to take. */
static void *worker_main(void *argument)
{
    const struct worker *worker = argument;
    struct pool *pool = worker->pool;
    while (!atomic_load(&pool->is_stopping)) {
        wait_for_work(pool);
        work(pool, worker->index);
    }
    return NULL;
}

/* Keeps worker i on the i-th allowed processor. A failure costs speed, nothing else. */
static void pin(const struct worker *worker, const cpu_set_t *allowed)
{
    int seen = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, allowed)) {
            continue;
        }
        if (seen++ == worker->index) {
            cpu_set_t only;
            CPU_ZERO(&only);
            CPU_SET(cpu, &only);
            (void)pthread_setaffinity_np(worker->thread, sizeof(only), &only);
            return;
        }
    }
}

/* More threads than processors take turns, and a thread that spins would only keep
 * another from working: then nobody spins. */
struct pool *pool_create(int n_threads, struct error *err)
{
    ASSERT(n_threads >= 0);
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
        CPU_SET(0, &allowed); /* more processors than the set holds: do not pin */
    }
    const int n_allowed = CPU_COUNT(&allowed);

    struct pool *pool = mem_alloc(sizeof(*pool));
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work_came, NULL);
    pthread_cond_init(&pool->work_ended, NULL);
    pool->n_threads = n_threads == 0 ? n_allowed : n_threads;
    pool->spin_rounds = pool->n_threads <= n_allowed ? SPIN_ROUNDS : 0;
    pool->workers = mem_alloc_array((size_t)pool->n_threads, sizeof(*pool->workers));
    for (int i = 1; i < pool->n_threads; i++) {
        struct worker *worker = &pool->workers[i];
        worker->pool = pool;
        worker->index = i;
        const int rc = pthread_create(&worker->thread, NULL, worker_main, worker);
        if (rc != 0) {
            error_set(err, ERROR_RESOURCE, "thread %d of %d cannot be started: %s", i,
                      pool->n_threads, strerror(rc));
            pool_destroy(pool);
            return NULL;
        }
        pool->n_started++;
        if (pool->n_threads == n_allowed) {
            pin(worker, &allowed);
        }
    }
    return pool;
}

/* The flag is set under the mutex, or a worker could look at it and then sleep through
 * the broadcast. Only started threads are joined: creation may have failed halfway. */
void pool_destroy(struct pool *pool)
{
    if (pool == NULL) {
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->is_stopping, true);
    pthread_cond_broadcast(&pool->work_came);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 1; i <= pool->n_started; i++) {
        pthread_join(pool->workers[i].thread, NULL);
    }
    pthread_cond_destroy(&pool->work_ended);
    pthread_cond_destroy(&pool->work_came);
    pthread_mutex_destroy(&pool->mutex);
    mem_free(pool->workers);
    mem_free(pool);
}

int pool_n_threads(const struct pool *pool)
{
    return pool->n_threads;
}

/* Returns when n_left is zero. caller_waits is set before n_left is read; work does the
 * opposite, so either the loop sees zero or the last worker sees the flag. */
static void wait_for_end(struct pool *pool)
{
    for (int i = 0; i < pool->spin_rounds; i++) {
        if (atomic_load(&pool->n_left) == 0) {
            return;
        }
        spin_once();
    }
    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->caller_waits, true);
    while (atomic_load(&pool->n_left) > 0) {
        pthread_cond_wait(&pool->work_ended, &pool->mutex);
    }
    atomic_store(&pool->caller_waits, false);
    pthread_mutex_unlock(&pool->mutex);
}

/* What a task reads is stored before `state`, which is what publishes the run. A single
 * task, or a single thread, needs no hand-over at all. */
void pool_run(struct pool *pool, int64_t n_tasks, pool_task_fn run, void *context)
{
    ASSERT(0 <= n_tasks && n_tasks <= UINT32_MAX);
    if (n_tasks == 1 || pool->n_threads == 1) {
        for (int64_t task = 0; task < n_tasks; task++) {
            run(context, task, 0);
        }
        return;
    }
    const uint64_t before = atomic_load(&pool->state);
    ASSERT((uint32_t)before == 0); /* one run at a time */

    pool->run = run;
    pool->context = context;
    pool->n_tasks = n_tasks;
    atomic_store(&pool->n_left, n_tasks);
    atomic_store(&pool->state, ((before >> 32) + 1) << 32 | (uint64_t)n_tasks);
    if (atomic_load(&pool->n_sleeping) > 0) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_broadcast(&pool->work_came);
        pthread_mutex_unlock(&pool->mutex);
    }
    work(pool, 0);
    wait_for_end(pool);
}
