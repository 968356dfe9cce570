/*
 * bench_print - see the header.
 */
#include "app/bench_print.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/json.h"
#include "base/str.h"
#include "train/settings.h"

/* Ops with less than this share are told together. */
static const double small_share = 0.01;

static const char *precision_name(const struct settings *settings)
{
    switch ((enum precision)settings->precision) {
    case PRECISION_F32:
        return "f32";
    case PRECISION_BF16_COMPUTE:
        return "bf16-compute";
    case PRECISION_BF16:
        return "bf16";
    }
    UNREACHABLE();
}

static const char *base_name(const struct settings *settings)
{
    switch ((enum lora_base)settings->lora.base) {
    case LORA_BASE_FILE:
        return "file";
    case LORA_BASE_F32:
        return "f32";
    case LORA_BASE_BF16:
        return "bf16";
    }
    UNREACHABLE();
}

static double total_ms(const struct backend_profile_row *ops, int n)
{
    double total = 0.0;
    for (int i = 0; i < n; i++) {
        total += ops[i].ms;
    }
    return total;
}

/* Shares of the time, most first; products with their speed. */
static void print_ops(const struct backend_profile_row *ops, int n, struct str *out)
{
    const double total = total_ms(ops, n);
    double rest = 0.0;
    for (int i = 0; i < n; i++) {
        const double share = ops[i].ms / total;
        if (share < small_share) {
            rest += share;
            continue;
        }
        str_printf(out, "  %-28s %5.1f %%", ops[i].op, 100.0 * share);
        if (ops[i].gflop > 0.0) {
            str_printf(out, "  %.0f GFLOP/s", 1000.0 * ops[i].gflop / ops[i].ms);
        }
        str_add(out, "\n");
    }
    if (rest > 0.0) {
        str_printf(out, "  %-28s %5.1f %%\n", "others", 100.0 * rest);
    }
}

void bench_print_step(const struct bench_step_wish *wish,
                      const struct bench_step_result *result, struct str *out)
{
    const struct settings *settings = wish->settings;
    char planned[24];
    char peak[24];
    str_printf(out, "%s, %lld x %lld tokens, %s", wish->shape,
               (long long)settings->train.batch_rows,
               (long long)settings->data.row_tokens, precision_name(settings));
    if (settings->lora.rank > 0) {
        str_printf(out, ", LoRA rank %lld", (long long)settings->lora.rank);
    }
    str_printf(out, "; %d row%s a pass%s\n", (int)result->micro_rows,
               result->micro_rows == 1 ? "" : "s",
               result->recomputes ? ", activations recomputed" : "");
    str_printf(out, "engine        %s\n", result->engine);
    str_printf(out, "GEMM peak     %.1f GFLOP/s (%s)\n", result->gemm_gflops,
               result->gemm_provider);
    str_printf(out, "step          %.3f s, best of %d; the first one after %.2f s\n",
               result->step_s, wish->n_steps, result->first_step_s);
    str_printf(out, "speed         %.1f tokens/s\n", result->tokens_per_s);
    str_printf(out, "mfu           %.3f  (%.1f GFLOP/s of work that is needed)\n",
               result->mfu, result->gflops);
    str_printf(out, "memory        %s at most; %s planned\n",
               str_format_bytes(peak, (double)result->peak_bytes),
               str_format_bytes(planned, (double)result->planned_bytes));
    str_add(out, "time by op\n");
    print_ops(result->ops, result->n_ops, out);
}

void bench_print_generate(const struct bench_generate_wish *wish,
                          const struct bench_generate_result *result, struct str *out)
{
    char peak[24];
    str_printf(out, "%s, generation, %d row%s, %s weights, prompt of %d tokens\n",
               wish->shape, (int)wish->rows, wish->rows == 1 ? "" : "s",
               dtype_name(wish->stored), (int)wish->prompt_tokens);
    str_printf(out, "engine        %s\n", result->engine);
    str_printf(out, "prompt        %.1f tokens/s; first token after %.2f s\n",
               result->prompt_tokens_per_s, result->first_token_s);
    str_printf(out, "speed         %.1f tokens/s, best of %d; %.1f in the mean\n",
               result->tokens_per_s, (int)wish->n_tokens, result->mean_tokens_per_s);
    str_printf(out, "weights read  %.2f GB/s, %.3f of %.2f GB/s that memory gives\n",
               result->weight_gb_per_s, result->share_of_bandwidth,
               result->bandwidth_gb_per_s);
    str_printf(out, "memory        %s at most\n",
               str_format_bytes(peak, (double)result->peak_bytes));
    str_add(out, "time by op\n");
    print_ops(result->ops, result->n_ops, out);
}

/* ---- JSON ---- */

/* {"matmul": 0.62, ...}: shares of the time, most first. */
static json_t *ops_to_json(const struct backend_profile_row *ops, int n)
{
    const double total = total_ms(ops, n);
    json_t *shares = json_object();
    for (int i = 0; i < n; i++) {
        json_object_set_new(shares, ops[i].op,
                            json_real(round(1e5 * ops[i].ms / total) / 1e5));
    }
    return shares;
}

/* One line; members in the order in which they were set. */
static void add_json(json_t *owned_root, struct str *out)
{
    char *text = json_print(owned_root, JSON_REAL_PRECISION(6));
    json_decref(owned_root);
    str_printf(out, "%s\n", text);
    free(text);
}

static void set_text(json_t *root, const char *key, const char *text)
{
    json_put(root, key, json_text(text, strlen(text)));
}

static void set_real(json_t *root, const char *key, double value)
{
    json_object_set_new(root, key, json_real(value));
}

static void set_integer(json_t *root, const char *key, int64_t value)
{
    json_object_set_new(root, key, json_integer(value));
}

void bench_print_step_json(const struct bench_step_wish *wish,
                           const struct bench_step_result *result, struct str *out)
{
    const struct settings *settings = wish->settings;
    json_t *root = json_object();
    set_text(root, "kind", "step");
    set_text(root, "model_shape", wish->shape);
    set_integer(root, "rows", settings->train.batch_rows);
    set_integer(root, "row_tokens", settings->data.row_tokens);
    set_integer(root, "steps", wish->n_steps);
    set_integer(root, "lora_rank", settings->lora.rank);
    set_text(root, "lora_base", base_name(settings));
    set_text(root, "precision", precision_name(settings));
    set_text(root, "engine", result->engine);
    set_integer(root, "micro_rows", result->micro_rows);
    json_object_set_new(root, "recomputes", json_boolean(result->recomputes));
    set_real(root, "gemm_peak_gflops", result->gemm_gflops);
    set_text(root, "gemm_provider", result->gemm_provider);
    set_real(root, "step_s", result->step_s);
    set_real(root, "first_step_s", result->first_step_s);
    set_real(root, "tokens_per_s", result->tokens_per_s);
    set_real(root, "gflops", result->gflops);
    set_real(root, "mfu", result->mfu);
    set_integer(root, "peak_bytes", (int64_t)result->peak_bytes);
    set_integer(root, "planned_bytes", (int64_t)result->planned_bytes);
    set_real(root, "loss", result->loss);
    json_object_set_new(root, "kernels", ops_to_json(result->ops, result->n_ops));
    add_json(root, out);
}

void bench_print_generate_json(const struct bench_generate_wish *wish,
                               const struct bench_generate_result *result,
                               struct str *out)
{
    json_t *root = json_object();
    set_text(root, "kind", "generate");
    set_text(root, "model_shape", wish->shape);
    set_integer(root, "rows", wish->rows);
    set_integer(root, "prompt_tokens", wish->prompt_tokens);
    set_integer(root, "tokens", wish->n_tokens);
    set_text(root, "weights", dtype_name(wish->stored));
    set_text(root, "engine", result->engine);
    set_real(root, "prompt_tokens_per_s", result->prompt_tokens_per_s);
    set_real(root, "first_token_s", result->first_token_s);
    set_real(root, "tokens_per_s", result->tokens_per_s);
    set_real(root, "mean_tokens_per_s", result->mean_tokens_per_s);
    set_real(root, "weight_gb_per_s", result->weight_gb_per_s);
    set_real(root, "bandwidth_gb_per_s", result->bandwidth_gb_per_s);
    set_real(root, "share_of_bandwidth", result->share_of_bandwidth);
    set_integer(root, "peak_bytes", (int64_t)result->peak_bytes);
    json_object_set_new(root, "kernels", ops_to_json(result->ops, result->n_ops));
    add_json(root, out);
}
