/*
 * sampler - see the header.
 *
 * A vocabulary has a quarter of a million tokens, and sorting them for each one that is
 * drawn would take longer than the model. So logits are counted into buckets by their
 * distance from the largest; the buckets from the top that hold top_k tokens, or top_p of
 * the probability, are the only ones that get sorted. Sums run in f64.
 */
#include "train/sampler.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/random.h"

enum { N_BUCKETS = 4096, LANES = 16 };

/* Distances from the largest logit, after the temperature, that a bucket spans; what is
 * further away shares the last one. */
static const double bucket_width = 0.01;

struct candidate {
    double weight; /* exp(z - largest), z = logit / temperature */
    int32_t id;
};

struct sampler {
    int64_t V;
    struct candidate *candidates; /* [V]; as many as are sorted */
    double mass[N_BUCKETS];       /* sum of weights, by bucket */
    int64_t count[N_BUCKETS];     /* tokens */
};

/* The logits of one token, and what they are divided and shifted by. */
struct logits {
    const float *z; /* [V] */
    int64_t V;
    double temperature, largest;
};

/* NaN fails every comparison, so each line says what is right. */
bool sampler_check(const struct sampler_options *options, struct error *err)
{
    if (!(options->temperature >= 0.0 && options->temperature <= 100.0)) {
        return error_set(err, ERROR_USAGE, "temperature %g: expected 0 to 100",
                         options->temperature);
    }
    if (options->top_k < 0) {
        return error_set(err, ERROR_USAGE, "top-k %lld: expected 0 (off) or more",
                         (long long)options->top_k);
    }
    if (!(options->top_p >= 0.0 && options->top_p <= 1.0)) {
        return error_set(err, ERROR_USAGE,
                         "top-p %g: expected a share above 0, up to 1 (off)",
                         options->top_p);
    }
    return true;
}

struct sampler *sampler_create(int64_t V)
{
    ASSERT(V > 0 && V <= INT32_MAX);
    struct sampler *sampler = mem_alloc(sizeof(*sampler));
    sampler->V = V;
    sampler->candidates = mem_alloc_array((size_t)V, sizeof(*sampler->candidates));
    return sampler;
}

void sampler_destroy(struct sampler *sampler)
{
    if (sampler != NULL) {
        mem_free(sampler->candidates);
        mem_free(sampler);
    }
}

/* The likeliest token, the first of equals; -1 where the logits are no distribution. LANES
 * chains, as one alone waits for itself; what is left over goes to the first. */
static int32_t find_likeliest(const float *logits, int64_t V)
{
    float largest[LANES];
    int n_nan[LANES] = {0};
    for (int lane = 0; lane < LANES; lane++) {
        largest[lane] = -INFINITY;
    }
    int64_t i = 0;
    for (; i + LANES <= V; i += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            const float z = logits[i + lane];
            largest[lane] = z > largest[lane] ? z : largest[lane];
            n_nan[lane] += z != z;
        }
    }
    for (; i < V; i++) {
        largest[0] = logits[i] > largest[0] ? logits[i] : largest[0];
        n_nan[0] += isnan(logits[i]);
    }
    for (int lane = 1; lane < LANES; lane++) {
        largest[0] = largest[lane] > largest[0] ? largest[lane] : largest[0];
        n_nan[0] += n_nan[lane];
    }
    if (n_nan[0] > 0 || isinf(largest[0])) {
        return -1;
    }
    int32_t first = 0;
    while (logits[first] != largest[0]) {
        first++;
    }
    return first;
}

/* How far token i is from the likeliest; its weight is exp(-distance). */
static double distance_of(const struct logits *logits, int64_t i)
{
    return (logits->largest - (double)logits->z[i]) / logits->temperature;
}

static int bucket_of(double distance)
{
    const double bucket = distance / bucket_width;
    return bucket < N_BUCKETS - 1 ? (int)bucket : N_BUCKETS - 1;
}

/* The likeliest first; of equals the lower id. */
static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *x = a;
    const struct candidate *y = b;
    if (x->weight != y->weight) {
        return x->weight > y->weight ? -1 : 1;
    }
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Counts tokens by bucket, and weights too where top_p is asked of all tokens; then the
 * sum of all weights comes back. */
static double fill_buckets(struct sampler *sampler, const struct logits *logits,
                           bool needs_mass)
{
    for (int i = 0; i < N_BUCKETS; i++) {
        sampler->mass[i] = 0.0;
        sampler->count[i] = 0;
    }
    double total = 0.0;
    for (int64_t i = 0; i < logits->V; i++) {
        const double distance = distance_of(logits, i);
        const int bucket = bucket_of(distance);
        sampler->count[bucket]++;
        if (needs_mass) {
            const double weight = exp(-distance);
            sampler->mass[bucket] += weight;
            total += weight;
        }
    }
    return total;
}

/* The tokens of the buckets up to `last`, sorted; returns how many. Those of weight 0 can
 * never be drawn. */
static int64_t sort_buckets(struct sampler *sampler, const struct logits *logits,
                            int last)
{
    int64_t n = 0;
    for (int64_t i = 0; i < logits->V; i++) {
        const double distance = distance_of(logits, i);
        if (bucket_of(distance) <= last) {
            const double weight = exp(-distance);
            sampler->candidates[n] = (struct candidate){weight, (int32_t)i};
            n += weight > 0.0;
        }
    }
    qsort(sampler->candidates, (size_t)n, sizeof(struct candidate), compare_candidates);
    return n;
}

/* The first bucket at which top_k tokens, or else top_p of the sum, are reached. A hair
 * more than top_p, as sums by bucket round in another order than those of tokens. */
static int last_bucket(const struct sampler *sampler,
                       const struct sampler_options *options, double total)
{
    const double wanted = options->top_p * total * (1.0 + 1e-9);
    int64_t count = 0;
    double mass = 0.0;
    for (int i = 0; i < N_BUCKETS; i++) {
        count += sampler->count[i];
        mass += sampler->mass[i];
        if (options->top_k > 0 ? count >= options->top_k : mass >= wanted) {
            return i;
        }
    }
    return N_BUCKETS - 1;
}

/* The candidates that may be drawn, likeliest first, and the sum of their weights. */
static int64_t cut(struct sampler *sampler, const struct sampler_options *options,
                   const struct logits *logits, double *total)
{
    const bool has_top_k = options->top_k > 0;
    *total = fill_buckets(sampler, logits, !has_top_k);
    int64_t n = sort_buckets(sampler, logits, last_bucket(sampler, options, *total));
    if (has_top_k) {
        n = base_min(n, options->top_k);
        *total = 0.0;
        for (int64_t i = 0; i < n; i++) {
            *total += sampler->candidates[i].weight;
        }
    }
    if (options->top_p > 0.0 && options->top_p < 1.0) {
        const double wanted = options->top_p * *total;
        double sum = 0.0;
        int64_t kept = 0;
        while (kept < n && (kept == 0 || sum < wanted)) {
            sum += sampler->candidates[kept++].weight;
        }
        n = kept;
        *total = sum;
    }
    return n;
}

/* The first candidate at which the running sum exceeds u times the whole; `token` stays
 * where rounding leaves none. */
static void draw_candidate(const struct sampler *sampler, int64_t n, double wanted,
                           int32_t *token)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        sum += sampler->candidates[i].weight;
        if (sum > wanted) {
            *token = sampler->candidates[i].id;
            return;
        }
    }
}

/* The same over all tokens, in the order of their ids: nothing needs to be sorted. */
static void draw_any(const struct logits *logits, double u, int32_t *token)
{
    double total = 0.0;
    for (int64_t i = 0; i < logits->V; i++) {
        total += exp(-distance_of(logits, i));
    }
    double sum = 0.0;
    for (int64_t i = 0; i < logits->V; i++) {
        sum += exp(-distance_of(logits, i));
        if (sum > u * total) {
            *token = (int32_t)i;
            return;
        }
    }
}

/* u in [0, 1) with 53 bits: two words of the block that belongs to this token alone. */
static double draw_uniform(uint64_t seed, int64_t row, int64_t number)
{
    uint32_t words[4];
    random_block(seed, RANDOM_SAMPLE, (uint64_t)row, (uint64_t)number, words);
    const uint64_t bits = ((uint64_t)words[0] << 32 | words[1]) >> 11;
    return (double)bits * 0x1p-53;
}

bool sampler_pick(struct sampler *sampler, const struct sampler_options *options,
                  const float *logits, int64_t row, int64_t number, int32_t *token,
                  struct error *err)
{
    const int32_t likeliest = find_likeliest(logits, sampler->V);
    if (likeliest < 0) {
        return error_set(err, ERROR_DATA,
                         "the model's output is not finite (NaN or infinite logits); "
                         "its weights may be damaged, or its training has diverged");
    }
    *token = likeliest;
    if (options->temperature == 0.0 || options->top_k == 1) {
        return true;
    }
    const struct logits all = {.z = logits,
                               .V = sampler->V,
                               .temperature = options->temperature,
                               .largest = (double)logits[likeliest]};
    const double u = draw_uniform(options->seed, row, number);
    if (options->top_k == 0 && (options->top_p == 0.0 || options->top_p == 1.0)) {
        draw_any(&all, u, token);
        return true;
    }
    double total = 0.0;
    const int64_t n = cut(sampler, options, &all, &total);
    draw_candidate(sampler, n, u * total, token);
    return true;
}
