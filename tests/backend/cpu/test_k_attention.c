/*
 * Attention in blocks, forward and backward, against the plain formula in f64: C7 (within
 * 1e-5 on every kind of mask).
 *
 * Also the keys outside the mask must not matter: where a test says so they hold NaN or
 * large numbers.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/kernel_harness.h"

extern const struct kernel kernel_attention;
extern const struct kernel kernel_attention_grad;

enum mask {
    MASK_CAUSAL,
    MASK_PACKED,       /* documents of several lengths */
    MASK_LEFT_PADDED,  /* the first third sees nothing */
    MASK_RIGHT_PADDED, /* the last third sees nothing */
    MASK_NOTHING,      /* the second sequence is all padding */
    MASK_COUNT
};

struct test_case {
    int64_t B, T, H, G, K, window;
    double scale;
    double size; /* of q: large ones make the softmax sharp */
};

static const struct test_case cases[] = {
    {.B = 1, .T = 1, .H = 1, .G = 1, .K = 8, .scale = 1, .size = 1},
    {.B = 2, .T = 37, .H = 4, .G = 1, .K = 16, .scale = 0.25, .size = 1},
    {.B = 2, .T = 130, .H = 3, .G = 3, .K = 5, .window = 17, .scale = 0.4, .size = 2},
    {.B = 1, .T = 300, .H = 4, .G = 2, .K = 32, .scale = 1, .size = 1},
    {.B = 2, .T = 521, .H = 2, .G = 1, .K = 6, .window = 300, .scale = 1, .size = 3},
    {.B = 1, .T = 700, .H = 2, .G = 1, .K = 12, .window = 1, .scale = 1, .size = 1},
    {.B = 1, .T = 150, .H = 2, .G = 2, .K = 512, .window = 64, .scale = 0.1, .size = 1},
};

static void fill_first_key(int32_t *first_key, int64_t B, int64_t T, enum mask mask)
{
    for (int64_t b = 0; b < B; b++) {
        int64_t start = 0;
        for (int64_t i = 0; i < T; i++) {
            int64_t first = 0;
            switch (mask) {
            case MASK_CAUSAL:
            case MASK_COUNT:
                break;
            case MASK_PACKED: /* documents grow: 1, 4, 9, ... and 60 at most */
                start =
                    i >= start + 60 || (i > 0 && i % (start / 3 + 7) == 0) ? i : start;
                first = start;
                break;
            case MASK_LEFT_PADDED:
                first = i < T / 3 ? T : T / 3;
                break;
            case MASK_RIGHT_PADDED:
                first = i >= T - T / 3 ? T + 5 : 0;
                break;
            case MASK_NOTHING:
                first = b == B - 1 ? T : 0;
                break;
            }
            first_key[b * T + i] = (int32_t)first;
        }
    }
}

static bool sees(const struct test_case *c, const int32_t *first_key, int64_t b,
                 int64_t i, int64_t j)
{
    return first_key[b * c->T + i] <= j && j <= i &&
           (c->window == 0 || i - j < c->window);
}

struct reference {
    double *out, *lse, *dq, *dk, *dv;
};

static double dot(const float *x, const float *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)x[i] * (double)y[i];
    }
    return sum;
}

/* One query of one head: probabilities p [T], then what follows from them. */
static void refer_row(const struct test_case *c, const float *q, const float *k,
                      const float *v, const int32_t *first_key, const float *dout,
                      int64_t b, int64_t i, int64_t h, double *p,
                      const struct reference *to)
{
    const int64_t K = c->K;
    const int64_t q_at = ((b * c->T + i) * c->H + h) * K;
    const int64_t g = h / (c->H / c->G);
    double sum = 0, delta = 0;
    for (int64_t j = 0; j < c->T; j++) {
        const int64_t at = ((b * c->T + j) * c->G + g) * K;
        p[j] =
            sees(c, first_key, b, i, j) ? exp(c->scale * dot(q + q_at, k + at, K)) : 0;
        sum += p[j];
    }
    to->lse[(b * c->H + h) * c->T + i] = sum > 0 ? log(sum) : 0;
    for (int64_t j = 0; j < c->T && sum > 0; j++) {
        const int64_t at = ((b * c->T + j) * c->G + g) * K;
        p[j] /= sum;
        for (int64_t d = 0; d < K && p[j] > 0; d++) {
            to->out[q_at + d] += p[j] * (double)v[at + d];
        }
        delta += p[j] > 0 ? p[j] * dot(dout + q_at, v + at, K) : 0;
    }
    for (int64_t j = 0; j < c->T; j++) {
        if (!(p[j] > 0)) {
            continue;
        }
        const int64_t at = ((b * c->T + j) * c->G + g) * K;
        const double ds = p[j] * (dot(dout + q_at, v + at, K) - delta) * c->scale;
        for (int64_t d = 0; d < K; d++) {
            to->dv[at + d] += p[j] * (double)dout[q_at + d];
            to->dk[at + d] += ds * (double)q[q_at + d];
            to->dq[q_at + d] += ds * (double)k[at + d];
        }
    }
}

static void refer(const struct test_case *c, const float *q, const float *k,
                  const float *v, const int32_t *first_key, const float *dout,
                  const struct reference *to)
{
    double *p = mem_alloc_array((size_t)c->T, sizeof *p);
    for (int64_t b = 0; b < c->B; b++) {
        for (int64_t h = 0; h < c->H; h++) {
            for (int64_t i = 0; i < c->T; i++) {
                refer_row(c, q, k, v, first_key, dout, b, i, h, p, to);
            }
        }
    }
    mem_free(p);
}

/* Both kernels of one case and mask. */
struct run {
    struct harness *forward, *backward;
    int64_t n_q, n_kv, n_lse;
    float *q, *k, *v, *dout;
    int32_t *first_key;
    float *out, *lse, *dq, *dk, *dv;
    float *operands[7]; /* of backward */
};

static struct run run_create(const struct test_case *c)
{
    const int64_t q_dim[4] = {c->B, c->T, c->H, c->K};
    const int64_t kv_dim[4] = {c->B, c->T, c->G, c->K};
    const int64_t lse_dim[3] = {c->B, c->H, c->T};
    struct run run = {
        .forward = harness_create(&kernel_attention),
        .backward = harness_create(&kernel_attention_grad),
        .n_q = c->B * c->T * c->H * c->K,
        .n_kv = c->B * c->T * c->G * c->K,
        .n_lse = c->B * c->H * c->T,
    };
    struct harness *both[2] = {run.forward, run.backward};
    for (int i = 0; i < 2; i++) {
        harness_attributes(both[i])->value = c->scale;
        harness_attributes(both[i])->window = c->window;
        run.operands[0] = harness_input(both[i], DTYPE_F32, 4, q_dim);
        run.operands[1] = harness_input(both[i], DTYPE_F32, 4, kv_dim);
        run.operands[2] = harness_input(both[i], DTYPE_F32, 4, kv_dim);
        run.operands[3] = harness_input(both[i], DTYPE_I32, 2, q_dim);
        if (i == 0) {
            run.q = run.operands[0];
            run.k = run.operands[1];
            run.v = run.operands[2];
            run.first_key = (int32_t *)(void *)run.operands[3];
        }
    }
    run.operands[4] = harness_input(run.backward, DTYPE_F32, 4, q_dim);
    run.operands[5] = harness_input(run.backward, DTYPE_F32, 3, lse_dim);
    run.dout = harness_input(run.backward, DTYPE_F32, 4, q_dim);
    run.out = harness_output(run.forward, DTYPE_F32, 4, q_dim);
    run.lse = harness_output(run.forward, DTYPE_F32, 3, lse_dim);
    run.dq = harness_output(run.backward, DTYPE_F32, 4, q_dim);
    run.dk = harness_output(run.backward, DTYPE_F32, 4, kv_dim);
    run.dv = harness_output(run.backward, DTYPE_F32, 4, kv_dim);
    harness_fill(run.q, run.n_q, 1, c->size / sqrt((double)c->K));
    harness_fill(run.k, run.n_kv, 2, 1.0);
    harness_fill(run.v, run.n_kv, 3, 1.0);
    harness_fill(run.dout, run.n_q, 4, 1.0);
    return run;
}

static void run_both(struct run *run, const struct native *native)
{
    harness_run(run->forward, native);
    memcpy(run->operands[0], run->q, (size_t)run->n_q * sizeof(float));
    memcpy(run->operands[1], run->k, (size_t)run->n_kv * sizeof(float));
    memcpy(run->operands[2], run->v, (size_t)run->n_kv * sizeof(float));
    memcpy(run->operands[4], run->out, (size_t)run->n_q * sizeof(float));
    memcpy(run->operands[5], run->lse, (size_t)run->n_lse * sizeof(float));
    harness_run(run->backward, native);
}

static void check_case(const struct test_case *c, enum mask mask)
{
    struct run run = run_create(c);
    fill_first_key(run.first_key, c->B, c->T, mask);
    memcpy(run.operands[3], run.first_key, (size_t)(c->B * c->T) * sizeof(int32_t));
    const struct reference to = {
        .out = mem_alloc_array((size_t)run.n_q, sizeof(double)),
        .lse = mem_alloc_array((size_t)run.n_lse, sizeof(double)),
        .dq = mem_alloc_array((size_t)run.n_q, sizeof(double)),
        .dk = mem_alloc_array((size_t)run.n_kv, sizeof(double)),
        .dv = mem_alloc_array((size_t)run.n_kv, sizeof(double)),
    };
    refer(c, run.q, run.k, run.v, run.first_key, run.dout, &to);

    const struct native *sets[3];
    const int n_sets = native_list(sets);
    for (int s = 0; s < n_sets; s++) {
        run_both(&run, sets[s]);
        harness_check("out", sets[s], run.out, to.out, run.n_q, 1e-5);
        harness_check("lse", sets[s], run.lse, to.lse, run.n_lse, 1e-6);
        harness_check("dq", sets[s], run.dq, to.dq, run.n_q, 1e-5);
        harness_check("dk", sets[s], run.dk, to.dk, run.n_kv, 1e-5);
        harness_check("dv", sets[s], run.dv, to.dv, run.n_kv, 1e-5);
    }
    mem_free(to.out);
    mem_free(to.lse);
    mem_free(to.dq);
    mem_free(to.dk);
    mem_free(to.dv);
    harness_destroy(run.forward);
    harness_destroy(run.backward);
}

static void test_every_mask(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        for (int mask = 0; mask < MASK_COUNT; mask++) {
            check_case(&cases[i], (enum mask)mask);
        }
    }
}

/* A document's numbers have the same bits whatever stands in the documents beside it. */
static void test_other_documents_do_not_matter(void **state)
{
    (void)state;
    const struct test_case c = {
        .B = 1, .T = 90, .H = 2, .G = 1, .K = 8, .scale = 1, .size = 1};
    struct run run = run_create(&c);
    for (int64_t i = 0; i < c.T; i++) {
        run.first_key[i] = i < 40 ? 0 : i < 70 ? 40 : 70;
    }
    memcpy(run.operands[3], run.first_key, (size_t)c.T * sizeof(int32_t));
    const struct native *native = native_find(BACKEND_ISA_BEST);
    const int64_t q_from = 40 * c.H * c.K;
    const int64_t kv_from = 40 * c.G * c.K;
    const size_t q_bytes = (size_t)(30 * c.H * c.K) * sizeof(float);
    const size_t kv_bytes = (size_t)(30 * c.G * c.K) * sizeof(float);
    float *before = mem_alloc(2 * q_bytes + kv_bytes);

    run_both(&run, native);
    memcpy(before, run.out + q_from, q_bytes);
    memcpy(before + 30 * c.H * c.K, run.dq + q_from, q_bytes);
    memcpy(before + 60 * c.H * c.K, run.dk + kv_from, kv_bytes);

    for (int64_t i = 0; i < run.n_kv; i++) {
        const bool is_inside = i >= kv_from && i < kv_from + 30 * c.G * c.K;
        run.k[i] = is_inside ? run.k[i] : -run.k[i] * 3;
        run.v[i] = is_inside ? run.v[i] : 1000.0F;
    }
    run_both(&run, native);
    assert_memory_equal(before, run.out + q_from, q_bytes);
    assert_memory_equal(before + 30 * c.H * c.K, run.dq + q_from, q_bytes);
    assert_memory_equal(before + 60 * c.H * c.K, run.dk + kv_from, kv_bytes);
    mem_free(before);
    harness_destroy(run.forward);
    harness_destroy(run.backward);
}

/* A score that is NaN must not vanish in the largest-of-row. */
static void test_nan_is_kept(void **state)
{
    (void)state;
    const struct test_case c = cases[1];
    struct run run = run_create(&c);
    fill_first_key(run.first_key, c.B, c.T, MASK_CAUSAL);
    run.k[3 * c.G * c.K] = NAN;
    harness_run(run.forward, native_find(BACKEND_ISA_BEST));
    assert_true(isfinite(run.out[2 * c.H * c.K]));
    assert_true(isnan(run.out[3 * c.H * c.K]));
    assert_true(isnan(run.out[30 * c.H * c.K]));
    assert_true(isnan(run.lse[30]));
    harness_destroy(run.forward);
    harness_destroy(run.backward);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_mask),
        cmocka_unit_test(test_other_documents_do_not_matter),
        cmocka_unit_test(test_nan_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
