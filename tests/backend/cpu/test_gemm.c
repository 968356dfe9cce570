/*
 * GEMM providers against a plain triple loop in f64, at odd sizes, with leading dimensions,
 * transposes and accumulation; and all of them called by several threads at once.
 */
#include "backend/cpu/gemm.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/random.h"

static const char *const providers[] = {"plain", "openblas", "onednn"};

/* Builds for the thread sanitizer have the plain one only. */
static const struct gemm *provider(size_t i)
{
    struct error err;
    return gemm_find(providers[i], &err);
}

struct problem {
    bool transpose_a, transpose_b, accumulates;
    int64_t m, n, k, lda, ldb, ldc;
    float *a, *b, *before;
    double *expected; /* [m, ldc] */
};

static float *random_floats(int64_t n, uint64_t stream)
{
    float *x = mem_alloc_array((size_t)n, sizeof(*x));
    for (int64_t i = 0; i < n; i++) {
        x[i] = random_normal(3, RANDOM_TEST, stream, (uint64_t)i);
    }
    return x;
}

static struct problem problem_make(int64_t m, int64_t n, int64_t k, int variant)
{
    struct problem p = {
        .transpose_a = (variant & 1) != 0,
        .transpose_b = (variant & 2) != 0,
        .accumulates = (variant & 4) != 0,
        .m = m,
        .n = n,
        .k = k,
    };
    p.lda = (p.transpose_a ? m : k) + 3;
    p.ldb = (p.transpose_b ? k : n) + 1;
    p.ldc = n + 5;
    p.a = random_floats((p.transpose_a ? k : m) * p.lda, 1);
    p.b = random_floats((p.transpose_b ? n : k) * p.ldb, 2);
    p.before = random_floats(m * p.ldc, 3);
    p.expected = mem_alloc_array((size_t)(m * p.ldc), sizeof(double));
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < p.ldc; j++) {
            const int64_t at = i * p.ldc + j;
            double sum = p.accumulates || j >= n ? (double)p.before[at] : 0.0;
            for (int64_t l = 0; l < k && j < n; l++) {
                const float x = p.transpose_a ? p.a[l * p.lda + i] : p.a[i * p.lda + l];
                const float z = p.transpose_b ? p.b[j * p.ldb + l] : p.b[l * p.ldb + j];
                sum += (double)x * (double)z;
            }
            p.expected[at] = sum;
        }
    }
    return p;
}

static void problem_free(struct problem *p)
{
    mem_free(p->a);
    mem_free(p->b);
    mem_free(p->before);
    mem_free(p->expected);
}

/* Sums of k products of unit normals: the error of f32 is below k * 2^-24 of their size. */
static bool is_close(const struct problem *p, const float *c)
{
    for (int64_t i = 0; i < p->m * p->ldc; i++) {
        const double bound = 4e-7 * (double)(p->k + 4);
        if (!(fabs((double)c[i] - p->expected[i]) <= bound)) {
            print_error("element %lld: %.9g, expected %.9g\n", (long long)i,
                        (double)c[i], p->expected[i]);
            return false;
        }
    }
    return true;
}

static void check_f32(const struct gemm *gemm, const struct problem *p)
{
    const size_t bytes = (size_t)(p->m * p->ldc) * sizeof(float);
    float *c = mem_alloc(bytes);
    memcpy(c, p->before, bytes);
    gemm->f32(p->transpose_a, p->transpose_b, p->m, p->n, p->k, p->a, p->lda, p->b,
              p->ldb, p->accumulates, c, p->ldc);
    if (!is_close(p, c)) {
        fail_msg("%s: %lld x %lld x %lld", gemm->name, (long long)p->m, (long long)p->n,
                 (long long)p->k);
    }
    mem_free(c);
}

static double *doubles_of(const float *x, int64_t n)
{
    double *y = mem_alloc_array((size_t)n, sizeof(*y));
    for (int64_t i = 0; i < n; i++) {
        y[i] = (double)x[i];
    }
    return y;
}

static void check_f64(const struct gemm *gemm, const struct problem *p)
{
    double *a = doubles_of(p->a, (p->transpose_a ? p->k : p->m) * p->lda);
    double *b = doubles_of(p->b, (p->transpose_b ? p->n : p->k) * p->ldb);
    double *c = doubles_of(p->before, p->m * p->ldc);
    gemm->f64(p->transpose_a, p->transpose_b, p->m, p->n, p->k, a, p->lda, b, p->ldb,
              p->accumulates, c, p->ldc);
    for (int64_t i = 0; i < p->m * p->ldc; i++) {
        assert_true(fabs(c[i] - p->expected[i]) <= 1e-13 * (double)(p->k + 4));
    }
    mem_free(a);
    mem_free(b);
    mem_free(c);
}

static void providers_agree_with_a_plain_loop(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{1, 1, 1},   {1, 33, 70},  {5, 1, 9},
                                       {3, 130, 2}, {17, 19, 67}, {70, 131, 129},
                                       {2, 300, 65}};
    for (size_t s = 0; s < ARRAY_LENGTH(sizes); s++) {
        for (int variant = 0; variant < 8; variant++) {
            struct problem p =
                problem_make(sizes[s][0], sizes[s][1], sizes[s][2], variant);
            for (size_t i = 0; i < ARRAY_LENGTH(providers); i++) {
                if (provider(i) != NULL) {
                    check_f32(provider(i), &p);
                    check_f64(provider(i), &p);
                }
            }
            problem_free(&p);
        }
    }
}

/* Many products at once, of different shapes, each with its own result. */
enum { N_PROBLEMS = 8, N_CALLS = 256 };

struct concurrent {
    const struct gemm *gemm;
    struct problem problems[N_PROBLEMS];
    float *results[N_CALLS];
    bool is_right[N_CALLS];
};

static void multiply(void *context, int64_t task, int thread)
{
    (void)thread;
    struct concurrent *all = context;
    const struct problem *p = &all->problems[task % N_PROBLEMS];
    all->gemm->f32(p->transpose_a, p->transpose_b, p->m, p->n, p->k, p->a, p->lda, p->b,
                   p->ldb, p->accumulates, all->results[task], p->ldc);
    all->is_right[task] = is_close(p, all->results[task]);
}

static void check_concurrent(const struct gemm *gemm, struct concurrent *all)
{
    struct error err;
    struct pool *pool = pool_create(4, &err);
    assert_non_null(pool);
    all->gemm = gemm;
    for (int i = 0; i < N_CALLS; i++) {
        const struct problem *p = &all->problems[i % N_PROBLEMS];
        memcpy(all->results[i], p->before, (size_t)(p->m * p->ldc) * sizeof(float));
    }
    pool_run(pool, N_CALLS, multiply, all);
    for (int i = 0; i < N_CALLS; i++) {
        if (!all->is_right[i]) {
            fail_msg("%s: call %d of many at once is wrong", gemm->name, i);
        }
        /* ... and bit for bit what the same call gave before. */
        const struct problem *p = &all->problems[i % N_PROBLEMS];
        assert_memory_equal(all->results[i], all->results[i % N_PROBLEMS],
                            (size_t)(p->m * p->ldc) * sizeof(float));
    }
    pool_destroy(pool);
}

static void concurrent_calls_are_right(void **state)
{
    (void)state;
    struct concurrent *all = mem_alloc(sizeof(*all));
    for (int i = 0; i < N_PROBLEMS; i++) {
        all->problems[i] = problem_make(64 + 7 * i, 96 - 5 * i, 80 + 3 * i, i);
    }
    for (int i = 0; i < N_CALLS; i++) {
        const struct problem *p = &all->problems[i % N_PROBLEMS];
        all->results[i] = mem_alloc_array((size_t)(p->m * p->ldc), sizeof(float));
    }
    for (size_t i = 0; i < ARRAY_LENGTH(providers); i++) {
        if (provider(i) != NULL) {
            check_concurrent(provider(i), all);
        }
    }
    for (int i = 0; i < N_CALLS; i++) {
        mem_free(all->results[i]);
    }
    for (int i = 0; i < N_PROBLEMS; i++) {
        problem_free(&all->problems[i]);
    }
    mem_free(all);
}

/* The plain product's sums do not depend on how a caller cuts the result. */
static void plain_tiles_have_the_same_bits(void **state)
{
    (void)state;
    enum { M = 37, N = 150, K = 200 };
    const struct gemm *gemm = provider(0);
    struct problem p = problem_make(M, N, K, 0);
    float *whole = mem_alloc(sizeof(float) * M * N);
    float *tiled = mem_alloc(sizeof(float) * M * N);
    gemm->f32(false, false, M, N, K, p.a, p.lda, p.b, p.ldb, false, whole, N);
    for (int64_t i = 0; i < M; i += 10) {
        for (int64_t j = 0; j < N; j += 47) {
            gemm->f32(false, false, base_min(10, M - i), base_min(47, N - j), K,
                      p.a + i * p.lda, p.lda, p.b + j, p.ldb, false, tiled + i * N + j,
                      N);
        }
    }
    assert_memory_equal(whole, tiled, sizeof(float) * M * N);
    mem_free(whole);
    mem_free(tiled);
    problem_free(&p);
}

static void the_table_always_gives_one(void **state)
{
    (void)state;
    struct error err;
    const struct gemm *gemm = gemm_find(NULL, &err);
    assert_non_null(gemm);
    assert_ptr_equal(gemm, gemm_find(gemm->name, &err));
    assert_null(gemm_find("", &err));
    assert_non_null(strstr(err.message, "plain"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(providers_agree_with_a_plain_loop),
        cmocka_unit_test(concurrent_calls_are_right),
        cmocka_unit_test(plain_tiles_have_the_same_bits),
        cmocka_unit_test(the_table_always_gives_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
