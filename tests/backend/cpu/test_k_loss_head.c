/*
 * The loss head against the plain formula in f64: C4 (error of loss and log-sum-exp below
 * 1e-5), many chunkings, and C3: a vocabulary of 262,144 under a hard limit of memory.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/cpu/k_loss_head.h"
#include "backend/cpu/plain.h"
#include "base/mem.h"
#include "base/random.h"
#include "support/kernel_harness.h"

extern const struct kernel kernel_loss_head;

enum sum { SUM_NONE, SUM_ALWAYS, SUM_KEPT, SUM_DROPPED };

struct test_case {
    int64_t N, D, V, C;
    double cap;
    bool with_gradient;
    enum sum sum;       /* is there an accumulator, and does it count */
    size_t bytes;       /* small ones make many chunks */
    int64_t unweighted; /* of 8 entries so many have weight 0 */
    double z_loss, smoothing;
    bool is_bf16;   /* hidden and table */
    bool is_frozen; /* the table */
};

static const struct test_case cases[] = {
    {1, 1, 1, 1, 0, true, SUM_NONE, 1 << 20, .unweighted = 0},
    {9, 5, 50, 7, 0, true, SUM_NONE, 1 << 20, .unweighted = 2},
    {40, 24, 333, 37, 30, true, SUM_KEPT, 1 << 15, .unweighted = 3},
    {40, 24, 333, 37, 0, true, SUM_DROPPED, 1 << 15, .unweighted = 3},
    {70, 16, 5001, 61, 2.5, true, SUM_ALWAYS, 1 << 17, .unweighted = 1},
    {30, 8, 1030, 30, 0, true, SUM_KEPT, 1, .unweighted = 0}, /* chunks of one row */
    {600, 16, 100, 600, 0, true, SUM_NONE, 1 << 28, .unweighted = 4},
    {33, 12, 777, 20, 0, false, SUM_NONE, 1 << 15, .unweighted = 2},
    {33, 12, 777, 20, 3, false, SUM_NONE, 1 << 28, .unweighted = 0},
    {12, 8, 90, 10, 0, true, SUM_DROPPED, 1 << 20,
     .unweighted = 8}, /* nothing counts */
    {12, 8, 90, 10, 0, true, SUM_KEPT, 1 << 20, .unweighted = 8},
    {40, 24, 333, 37, 30, true, SUM_KEPT, 1 << 15, .unweighted = 3, .z_loss = 0.01},
    {40, 24, 333, 37, 0, true, SUM_NONE, 1 << 15, .unweighted = 3, .smoothing = 0.1},
    {70, 16, 5001, 61, 2.5, true, SUM_ALWAYS, 1 << 17, .unweighted = 1, .z_loss = 0.1,
     .smoothing = 0.3},
    {70, 16, 5001, 61, 2.5, true, SUM_NONE, 1 << 17, .unweighted = 1,
     .is_frozen = true},
    {70, 16, 1031, 61, 0, true, SUM_NONE, 1 << 17, .unweighted = 1, .is_bf16 = true},
    {70, 16, 1031, 61, 20, true, SUM_NONE, 1, .unweighted = 1, .is_bf16 = true,
     .is_frozen = true},
    {33, 12, 777, 20, 3, false, SUM_NONE, 1 << 28, .unweighted = 0, .is_bf16 = true},
};

struct run {
    struct harness *harness;
    float *hidden, *table; /* what the kernel reads, or in bf16 its values */
    float *weight;
    int32_t *loss_rows, *targets;
    double *loss_sum;
    float *token_loss, *lse, *d_hidden, *d_table;
    void *hidden_operand, *table_operand, *d_hidden_result;
    double *acc; /* what d_table starts from */
};

/* Rows out of order, some twice; entries without weight hold rows and targets that are out
 * of range, as padding may. */
static void fill_entries(const struct test_case *c, struct run *run)
{
    for (int64_t i = 0; i < c->C; i++) {
        const bool counts = (i * 5 + 3) % 8 >= c->unweighted;
        const uint32_t bits = random_bits(3, RANDOM_TEST, 0, (uint64_t)i);
        run->weight[i] = counts ? 0.25F * (float)(1 + bits % 7) : 0;
        run->loss_rows[i] = counts ? (int32_t)(bits % (uint32_t)c->N) : -7;
        run->targets[i] = counts ? (int32_t)(bits / 7 % (uint32_t)c->V) : 1 << 30;
    }
}

/* Fills an operand; returns its values as f32: itself, or a copy of what bf16 kept. */
static float *fill_operand(const struct test_case *c, void *operand, int64_t n,
                           uint32_t seed, double scale)
{
    if (!c->is_bf16) {
        harness_fill(operand, n, seed, scale);
        return operand;
    }
    float *values = mem_alloc_array((size_t)n, sizeof(float));
    harness_fill(values, n, seed, scale);
    plain_cast(DTYPE_F32, values, DTYPE_BF16, operand, n);
    plain_cast(DTYPE_BF16, operand, DTYPE_F32, values, n);
    return values;
}

static struct run run_create(const struct test_case *c)
{
    struct run run = {.harness = harness_create(&kernel_loss_head)};
    struct harness *h = run.harness;
    harness_attributes(h)->value = c->cap;
    harness_attributes(h)->z_loss = c->z_loss;
    harness_attributes(h)->label_smoothing = c->smoothing;
    harness_attributes(h)->with_gradient = c->with_gradient;
    harness_attributes(h)->freezes_table = c->is_frozen;
    harness_set_loss_head_bytes(h, c->bytes);
    const int64_t table_dim[2] = {c->V, c->D};
    const int64_t hidden_dim[2] = {c->N, c->D};
    const enum dtype dtype = c->is_bf16 ? DTYPE_BF16 : DTYPE_F32;
    run.hidden_operand = harness_input(h, dtype, 2, hidden_dim);
    run.table_operand = harness_input(h, dtype, 2, table_dim);
    run.loss_rows = harness_input(h, DTYPE_I32, 1, &c->C);
    run.targets = harness_input(h, DTYPE_I32, 1, &c->C);
    run.weight = harness_input(h, DTYPE_F32, 1, &c->C);
    if (c->sum != SUM_NONE) {
        float *acc = harness_input(h, DTYPE_F32, 2, table_dim);
        harness_fill(acc, c->V * c->D, 5, 0.1);
        run.acc = harness_doubles(acc, c->V * c->D);
    }
    if (c->sum == SUM_KEPT || c->sum == SUM_DROPPED) {
        *(bool *)harness_input(h, DTYPE_BOOL, 0, NULL) = c->sum == SUM_KEPT;
    }
    run.loss_sum = harness_output(h, DTYPE_F64, 0, NULL);
    run.token_loss = harness_output(h, DTYPE_F32, 1, &c->C);
    run.lse = harness_output(h, DTYPE_F32, 1, &c->C);
    if (c->with_gradient) {
        run.d_hidden_result = harness_output(h, dtype, 2, hidden_dim);
    }
    if (c->with_gradient && !c->is_frozen) {
        run.d_table = c->sum == SUM_NONE ? harness_output(h, DTYPE_F32, 2, table_dim)
                                         : harness_alias(h, 5);
    }
    run.hidden = fill_operand(c, run.hidden_operand, c->N * c->D, 1, 1.0);
    run.table =
        fill_operand(c, run.table_operand, c->V * c->D, 2, 3.0 / sqrt((double)c->D));
    fill_entries(c, &run);
    return run;
}

/* d_hidden as f32, where the kernel gave it in bf16. */
static void fetch_results(const struct test_case *c, struct run *run)
{
    if (!c->with_gradient) {
        return;
    }
    run->d_hidden = run->d_hidden_result;
    if (c->is_bf16) {
        run->d_hidden = mem_alloc_array((size_t)(c->N * c->D), sizeof(float));
        plain_cast(DTYPE_BF16, run->d_hidden_result, DTYPE_F32, run->d_hidden,
                   c->N * c->D);
    }
}

static void run_destroy(struct run *run)
{
    mem_free(run->acc);
    if (run->hidden != run->hidden_operand) {
        mem_free(run->hidden);
        mem_free(run->table);
    }
    if (run->d_hidden != run->d_hidden_result) {
        mem_free(run->d_hidden);
    }
    harness_destroy(run->harness);
}

struct reference {
    double loss_sum, *token_loss, *lse, *d_hidden, *d_table;
};

/* z [V]: logits of one entry. Returns the log-sum-exp. */
static double refer_logits(const struct test_case *c, const float *hidden,
                           const float *table, double *z)
{
    double largest = -HUGE_VAL, sum = 0;
    for (int64_t v = 0; v < c->V; v++) {
        z[v] = 0;
        for (int64_t d = 0; d < c->D; d++) {
            z[v] += (double)hidden[d] * (double)table[v * c->D + d];
        }
        z[v] = c->cap > 0 ? c->cap * tanh(z[v] / c->cap) : z[v];
        largest = fmax(largest, z[v]);
    }
    for (int64_t v = 0; v < c->V; v++) {
        sum += exp(z[v] - largest);
    }
    return largest + log(sum);
}

static void refer_entry(const struct test_case *c, const struct run *run, int64_t i,
                        double *z, struct reference *to)
{
    const int64_t row = run->loss_rows[i];
    const int64_t target = run->targets[i];
    const double weight = (double)run->weight[i];
    const float *hidden = run->hidden + row * c->D;
    to->lse[i] = refer_logits(c, hidden, run->table, z);
    to->token_loss[i] = to->lse[i] - z[target];
    double mean = 0;
    for (int64_t v = 0; v < c->V; v++) {
        mean += z[v] / (double)c->V;
    }
    to->loss_sum +=
        weight * (to->lse[i] - (1 - c->smoothing) * z[target] - c->smoothing * mean +
                  c->z_loss * to->lse[i] * to->lse[i]);
    for (int64_t v = 0; v < c->V; v++) {
        const double ratio = c->cap > 0 ? z[v] / c->cap : 0;
        const double p = exp(z[v] - to->lse[i]) * (1 + 2 * c->z_loss * to->lse[i]) -
                         (v == target ? 1 - c->smoothing : 0) -
                         c->smoothing / (double)c->V;
        const double dz = weight * p * (1 - ratio * ratio);
        for (int64_t d = 0; d < c->D; d++) {
            to->d_hidden[row * c->D + d] += dz * (double)run->table[v * c->D + d];
            to->d_table[v * c->D + d] += dz * (double)hidden[d];
        }
    }
}

static struct reference refer(const struct test_case *c, const struct run *run)
{
    struct reference to = {
        .token_loss = mem_alloc_array((size_t)c->C, sizeof(double)),
        .lse = mem_alloc_array((size_t)c->C, sizeof(double)),
        .d_hidden = mem_alloc_array((size_t)(c->N * c->D), sizeof(double)),
        .d_table = mem_alloc_array((size_t)(c->V * c->D), sizeof(double)),
    };
    if (c->sum == SUM_ALWAYS || c->sum == SUM_KEPT) {
        memcpy(to.d_table, run->acc, (size_t)(c->V * c->D) * sizeof(double));
    }
    double *z = mem_alloc_array((size_t)c->V, sizeof(double));
    for (int64_t i = 0; i < c->C; i++) {
        if (run->weight[i] != 0.0F) {
            refer_entry(c, run, i, z, &to);
        }
    }
    mem_free(z);
    return to;
}

static void reference_destroy(struct reference *to)
{
    mem_free(to->token_loss);
    mem_free(to->lse);
    mem_free(to->d_hidden);
    mem_free(to->d_table);
}

static void check_case(const struct test_case *c, const struct native *native)
{
    struct run run = run_create(c);
    struct reference to = refer(c, &run);
    harness_run(run.harness, native);
    fetch_results(c, &run);

    assert_true(fabs(*run.loss_sum - to.loss_sum) <= 1e-6 * fabs(to.loss_sum));
    harness_check("token loss", native, run.token_loss, to.token_loss, c->C, 1e-6);
    harness_check("lse", native, run.lse, to.lse, c->C, 1e-6);
    if (c->with_gradient) {
        /* bf16 rounds to 8 bits, again for each time that a row is listed. */
        harness_check("d_hidden", native, run.d_hidden, to.d_hidden, c->N * c->D,
                      c->is_bf16 ? 8e-3 : 2e-6);
    }
    if (c->with_gradient && !c->is_frozen) {
        harness_check("d_table", native, run.d_table, to.d_table, c->V * c->D, 2e-6);
    }
    reference_destroy(&to);
    run_destroy(&run);
}

static void test_every_case(void **state)
{
    (void)state;
    const struct native *sets[3];
    const int n_sets = native_list(sets);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        for (int s = 0; s < n_sets; s++) {
            check_case(&cases[i], sets[s]);
        }
    }
}

/* Logits of a thousand: exp would overflow, and in bf16 the loss would be lost (C4). */
static void test_large_logits(void **state)
{
    (void)state;
    const struct test_case c = {
        20, 16, 999, 20, 0, true, SUM_NONE, 1 << 20, .unweighted = 0};
    struct run run = run_create(&c);
    for (int64_t i = 0; i < c.V * c.D; i++) {
        run.table[i] *= 100.0F;
    }
    struct reference to = refer(&c, &run);
    harness_run(run.harness, native_find(BACKEND_ISA_BEST));
    for (int64_t i = 0; i < c.C; i++) {
        assert_true(fabs((double)run.lse[i] - to.lse[i]) < 1e-5 * fabs(to.lse[i]));
    }
    assert_true(fabs(*run.loss_sum - to.loss_sum) < 1e-5 * to.loss_sum);
    reference_destroy(&to);
    run_destroy(&run);
}

static void test_nan_reaches_the_loss(void **state)
{
    (void)state;
    const struct test_case c = cases[1];
    struct run run = run_create(&c);
    run.table[7] = NAN;
    harness_run_once(run.harness, native_find(BACKEND_ISA_BEST));
    assert_true(isnan(*run.loss_sum));
    run_destroy(&run);
}

/* Scratch keeps to the setting and a seventh at any number of tokens, but for 12 bytes an
 * entry; chunks cover all rows, evenly. */
static void test_scratch_is_bounded(void **state)
{
    (void)state;
    struct type types[3] = {0};
    struct value values[3] = {0};
    struct value *inputs[3] = {&values[0], &values[1], &values[2]};
    struct node node = {.n_inputs = 3, .inputs = inputs};
    node.attributes.with_gradient = true;
    const size_t settings[3] = {64 << 20, 256 << 20, 1 << 30};
    for (int64_t C = 1; C <= 1 << 20; C *= 32) {
        for (int i = 0; i < 3; i++) {
            types[0] = type_make(DTYPE_F32, 2, (int64_t[]){C, 1536});
            types[1] = type_make(DTYPE_F32, 2, (int64_t[]){262144, 1536});
            types[2] = type_make(DTYPE_I32, 1, &C);
            for (int j = 0; j < 3; j++) {
                values[j].type = types[j];
            }
            const struct loss_head head = loss_head_layout(&node, settings[i]);
            assert_true(head.total_bytes <=
                        settings[i] / 7 * 8 + 12 * (size_t)C + 1024);
            int64_t next = 0;
            for (int64_t chunk = 0; chunk < head.n_chunks; chunk++) {
                const struct grid_span rows = loss_head_chunk(&head, chunk, C);
                assert_int_equal(rows.begin, next);
                assert_true(rows.end - rows.begin <= head.chunk_rows);
                next = rows.end;
            }
            assert_int_equal(next, C);
        }
    }
}

/* Runs one case and tells whether its loss is finite. */
static bool run_case(const struct test_case *c)
{
    struct run run = run_create(c);
    harness_run_once(run.harness, native_find(BACKEND_ISA_BEST));
    const bool is_finite = isfinite(*run.loss_sum);
    run_destroy(&run);
    return is_finite;
}

/* The largest vocabulary with 64 MiB of scratch and 1,024 tokens, whose logits would take
 * 1 GiB; 176 MiB are allowed. In a child process, whose peak starts anew. */
static int run_under_limit(void)
{
    const struct test_case c = {64,       8,        262144,         64, 30, true,
                                SUM_NONE, 64 << 20, .unweighted = 0};
    const struct test_case many = {1024,  8,        262144,   1024,           0,
                                   false, SUM_NONE, 64 << 20, .unweighted = 0};
    const size_t allowed_bytes = 176U << 20;
    const size_t before = mem_resident_bytes();
    const bool is_finite = run_case(&c) && run_case(&many);
    const size_t used_bytes = mem_peak_resident_bytes() - before;
    if (used_bytes > allowed_bytes) {
        fprintf(stderr, "loss head used %zu MiB\n", used_bytes >> 20);
    }
    return is_finite && used_bytes <= allowed_bytes ? 0 : 1;
}

static void test_large_vocabulary_under_limit(void **state)
{
    (void)state;
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(run_under_limit());
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_vocabulary_under_limit),
        cmocka_unit_test(test_every_case),
        cmocka_unit_test(test_large_logits),
        cmocka_unit_test(test_nan_reaches_the_loss),
        cmocka_unit_test(test_scratch_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
