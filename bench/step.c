/*
 * bench step - speed and memory of a whole training step: the shape of Gemma 3 270M with
 * random weights, 1 x 512 tokens, loss on every position.
 *
 * One line per figure. The share of the peak counts 6 floating-point operations per matmul
 * parameter and token (2 forward, 4 backward; the tied head once, the lookup not) and
 * 12 H K per pair of query and key that may see each other, against the best rate of a
 * 2048^3 product that the engine's own provider reaches with the same threads.
 *
 * usage: step [ROWS [TOKENS [STEPS [THREADS [PRECISION [profile]]]]]]
 *        (1, 512, 4, one per processor, f32; or bf16-compute, bf16; where the time went)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"
#include "data/batch.h"
#include "mesh/mesh.h"
#include "model/config.h"
#include "model/params.h"
#include "model/random_init.h"
#include "train/step.h"

enum { DEFAULT_TOKENS = 512, DEFAULT_STEPS = 4, SEED = 1 };

static const char *const MODEL = "gemma3-270m";
static const char *const TARGET =
    "target: at least PyTorch eager (bench/peers), about 43 % of the GEMM peak; "
    "peak memory at most 5 GiB";

struct bench {
    struct model_config config;
    struct params *params;
    bool *is_trainable; /* [params->n] */
    enum dtype *stored; /* [params->n] */
    struct engine *engine;
    struct step *step;
    struct batch *batch;
};

static bool read_random(void *context, int param, int64_t first_row, int64_t n_rows,
                        float *target, struct error *err)
{
    (void)err;
    const struct bench *bench = context;
    random_init_rows(&bench->config, bench->params, SEED, param, first_row, n_rows,
                     target);
    return true;
}

/* Random tokens, one document a row, each position a target. */
static struct batch *random_batch(int32_t B, int32_t T, int64_t V)
{
    struct batch *batch = batch_create(B, T, B * T);
    batch_clear(batch, 0);
    for (int32_t i = 0; i < B * T; i++) {
        batch->ids[i] = (int32_t)(random_bits(SEED, RANDOM_TEST, 0, (uint64_t)i) % V);
        batch->position[i] = i % T;
        batch->first_key[i] = 0;
        batch->loss_rows[i] = i;
        batch->targets[i] =
            (int32_t)(random_bits(SEED, RANDOM_TEST, 1, (uint64_t)i) % V);
        batch->weight[i] = 1.0f;
    }
    batch->n_targets = B * T;
    batch->weight_sum = B * T;
    batch->n_real_tokens = B * T;
    return batch;
}

/* Floating-point operations of one step over B rows of T tokens. */
static double count_flops(const struct bench *bench, int64_t B, int64_t T)
{
    const struct model_config *config = &bench->config;
    double parameters = 0.0;
    for (int i = 0; i < bench->params->n; i++) {
        const struct param_info *info = &bench->params->info[i];
        if (info->rank == 2 && info->role != PARAM_PLE_TABLE) {
            parameters += (double)info->n_elements;
        }
    }
    double flops = 6.0 * parameters * (double)(B * T);
    for (int i = 0; i < config->L; i++) {
        const struct layer_config *layer = &config->layer[i];
        const int64_t seen = layer->is_sliding ? base_min(T, config->window) : T;
        const double pairs =
            0.5 * (double)(seen * (seen + 1)) + (double)((T - seen) * seen);
        flops += 12.0 * (double)(B * config->H * layer->K) * pairs;
    }
    return flops;
}

/* What the command line asks for. */
struct choice {
    int32_t B, T;
    int n_steps, n_threads;
    const char *precision;
    bool profiles;
};

static bool open_bench(struct bench *bench, const struct choice *choice,
                       struct error *err)
{
    const int32_t B = choice->B, T = choice->T;
    if (!model_config_named(MODEL, &bench->config)) {
        return error_set(err, ERROR_FAILED, "no model %s", MODEL);
    }
    bench->params = params_create(&bench->config);
    bench->is_trainable = mem_alloc_array((size_t)bench->params->n, sizeof(bool));
    for (int i = 0; i < bench->params->n; i++) {
        bench->is_trainable[i] = bench->params->info[i].is_trainable_by_default;
    }
    const bool is_stored_narrow = strcmp(choice->precision, "bf16") == 0;
    bench->stored = mem_alloc_array((size_t)bench->params->n, sizeof(*bench->stored));
    for (int i = 0; i < bench->params->n; i++) {
        bench->stored[i] = is_stored_narrow ? DTYPE_BF16 : DTYPE_F32;
    }
    const struct mesh mesh = mesh_single();
    const struct backend_options options = {.n_threads = choice->n_threads,
                                            .isa = BACKEND_ISA_BEST,
                                            .profiles = choice->profiles};
    bench->engine = backend_create_cpu(&mesh, 0, 1, &options, err);
    if (bench->engine == NULL) {
        return false;
    }
    const struct step_options step = {
        .shape = {.config = &bench->config,
                  .params = bench->params,
                  .is_trainable = bench->is_trainable,
                  .B = B,
                  .T = T,
                  .C = (int64_t)B * T,
                  .stored = bench->stored,
                  .compute = strcmp(choice->precision, "f32") == 0 ? DTYPE_F32
                                                                   : DTYPE_BF16},
        .trains = true,
    };
    const struct step_source source = {.read = read_random, .context = bench};
    bench->step = step_create(bench->engine, &step, &source, err);
    bench->batch = random_batch(B, T, bench->config.V);
    return bench->step != NULL && step_load(bench->step, err);
}

static void close_bench(struct bench *bench)
{
    step_destroy(bench->step);
    batch_destroy(bench->batch);
    backend_destroy(bench->engine);
    mem_free(bench->is_trainable);
    mem_free(bench->stored);
    params_destroy(bench->params);
}

/* One whole step; *seconds and *loss of it. */
static bool run_step(struct bench *bench, double *seconds, double *loss,
                     struct error *err)
{
    const int64_t from = clock_now_ns();
    struct step_hyper hyper = {.lr = 1e-5,
                               .beta1 = 0.9,
                               .beta2 = 0.999,
                               .eps = 1e-8,
                               .weight_decay = 0.01,
                               .clip_norm = 1.0,
                               .weight_sum = bench->batch->weight_sum};
    struct step_result result;
    if (!step_accumulate(bench->step, bench->batch, &hyper.loss_sum, err) ||
        !step_update(bench->step, &hyper, &result, err)) {
        return false;
    }
    *seconds = clock_since_ms(from) / 1000.0;
    *loss = hyper.loss_sum / hyper.weight_sum;
    return result.is_applied || error_set(err, ERROR_FAILED, "a step was not finite");
}

static bool measure(struct bench *bench, const struct choice *choice, struct error *err)
{
    const int32_t B = choice->B, T = choice->T;
    double best = 0.0;
    for (int i = 0; i <= choice->n_steps; i++) { /* the first is for warming up */
        double seconds = 0.0, loss = 0.0;
        if (!run_step(bench, &seconds, &loss, err)) {
            return false;
        }
        printf("step %d%s: %.3f s, loss %.4f\n", i, i == 0 ? " (warm-up)" : "", seconds,
               loss);
        best = i == 0 ? 0.0 : best == 0.0 || seconds < best ? seconds : best;
    }
    const double flops = count_flops(bench, B, T);
    const double peak = backend_measure_gemm_gflops(bench->engine);
    const double reached = flops / best / 1e9;
    printf("engine: %s\n", backend_describe(bench->engine));
    printf("step_seconds: %.3f\n", best);
    printf("tokens_per_s: %.1f\n", B * T / best);
    printf("gflops: %.1f\n", reached);
    printf("gemm_gflops: %.1f\n", peak);
    printf("share_of_peak: %.3f\n", reached / peak);
    printf("peak_memory_gib: %.2f\n",
           (double)mem_peak_resident_bytes() / (1024.0 * 1024.0 * 1024.0));
    printf("%s\n", TARGET);
    if (choice->profiles) {
        struct str table = {0};
        backend_profile_print(bench->engine, &table);
        printf("%s", table.text);
        str_deinit(&table);
    }
    return true;
}

/* A number of the command line, or what stands for it. */
static int number(int n_arguments, char **arguments, int index, int otherwise)
{
    return n_arguments > index ? atoi(arguments[index]) : otherwise;
}

static bool is_precision(const char *name)
{
    return strcmp(name, "f32") == 0 || strcmp(name, "bf16-compute") == 0 ||
           strcmp(name, "bf16") == 0;
}

int main(int n_arguments, char **arguments)
{
    const struct choice choice = {
        .B = number(n_arguments, arguments, 1, 1),
        .T = number(n_arguments, arguments, 2, DEFAULT_TOKENS),
        .n_steps = number(n_arguments, arguments, 3, DEFAULT_STEPS),
        .n_threads = number(n_arguments, arguments, 4, 0),
        .precision = n_arguments > 5 ? arguments[5] : "f32",
        .profiles = n_arguments > 6,
    };
    if (choice.B < 1 || choice.T < 1 || choice.n_steps < 1 || choice.n_threads < 0 ||
        !is_precision(choice.precision)) {
        fprintf(stderr, "usage: step [ROWS [TOKENS [STEPS [THREADS [f32 | bf16-compute "
                        "| bf16 [profile]]]]]]\n");
        return 2;
    }
    struct bench bench = {0};
    struct error err = {0};
    printf("%s, %d x %d tokens, %s, random weights, AdamW\n", MODEL, (int)choice.B,
           (int)choice.T, choice.precision);
    const bool done =
        open_bench(&bench, &choice, &err) && measure(&bench, &choice, &err);
    if (!done) {
        fprintf(stderr, "step: %s\n", err.message);
    }
    close_bench(&bench);
    return done ? 0 : error_exit_code(err.kind);
}
