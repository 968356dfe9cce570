/*
 * The lines of `lathe bench`: figures where they belong, small shares together, JSON with
 * the members that programs read (issue 5).
 */
#include "app/bench_print.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "train/settings.h"

static const struct bench_step_result step_result = {
    .engine = "cpu, 2 threads, avx2, openblas",
    .gemm_gflops = 160.0,
    .gemm_provider = "onednn",
    .micro_rows = 1,
    .recomputes = true,
    .first_step_s = 12.5,
    .step_s = 10.0,
    .tokens_per_s = 204.8,
    .gflops = 120.0,
    .mfu = 0.75,
    .loss = 12.0,
    .planned_bytes = (size_t)5 << 30,
    .peak_bytes = (size_t)6 << 30,
    .ops = {{"matmul", 9000.0, 100, 1350.0},
            {"adamw", 950.0, 10, 0.0},
            {"add", 50.0, 10, 0.0}},
    .n_ops = 3};

static const struct bench_generate_result generate_result = {
    .engine = "cpu, 1 thread, avx2, openblas",
    .prompt_tokens_per_s = 300.0,
    .tokens_per_s = 20.0,
    .mean_tokens_per_s = 18.0,
    .weight_gb_per_s = 10.7,
    .bandwidth_gb_per_s = 14.0,
    .share_of_bandwidth = 0.764,
    .first_token_s = 2.5,
    .peak_bytes = (size_t)1 << 30,
    .ops = {{"matmul", 90.0, 100, 1.0}},
    .n_ops = 1};

static void assert_says(const struct str *out, const char *text)
{
    if (strstr(str_text(out), text) == NULL) {
        fail_msg("\"%s\" is not in:\n%s", text, str_text(out));
    }
}

static double number(const json_t *root, const char *key)
{
    const json_t *value = json_object_get(root, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static json_t *parse(const struct str *out)
{
    struct error err;
    assert_ptr_equal(strchr(str_text(out), '\n'), out->text + out->length - 1);
    json_t *root = json_parse(out->text, out->length, "output", &err);
    assert_non_null(root);
    return root;
}

static void a_step(void **state)
{
    (void)state;
    struct settings settings;
    settings_init(&settings);
    settings.train.batch_rows = 4;
    settings.lora.rank = 16;
    settings.lora.base = LORA_BASE_BF16;
    settings.precision = PRECISION_BF16_COMPUTE;
    const struct bench_step_wish wish = {
        .shape = "gemma3-270m", .settings = &settings, .n_steps = 3};
    struct str out = {0};
    bench_print_step(&wish, &step_result, &out);
    assert_says(&out,
                "gemma3-270m, 4 x 512 tokens, bf16-compute, LoRA rank 16; 1 row a "
                "pass, activations recomputed\n");
    assert_says(&out, "160.0 GFLOP/s (onednn)");
    assert_says(&out, "204.8 tokens/s");
    assert_says(&out, "mfu           0.750");
    assert_says(&out, "6.0 GiB at most; 5.0 GiB planned");
    assert_says(&out, "matmul                        90.0 %  150 GFLOP/s\n");
    assert_says(&out, "others                         0.5 %\n");
    assert_null(strstr(str_text(&out), "  add"));

    str_clear(&out);
    bench_print_step_json(&wish, &step_result, &out);
    json_t *root = parse(&out);
    assert_true(number(root, "gemm_peak_gflops") == 160.0);
    assert_true(number(root, "tokens_per_s") == 204.8);
    assert_true(number(root, "mfu") == 0.75);
    assert_true(number(root, "peak_bytes") == 6.0 * (1 << 30));
    assert_true(number(root, "first_step_s") == 12.5);
    assert_true(number(root, "rows") == 4.0 && number(root, "lora_rank") == 16.0);
    assert_string_equal(json_string_value(json_object_get(root, "lora_base")), "bf16");
    const json_t *kernels = json_object_get(root, "kernels");
    assert_true(number(kernels, "matmul") == 0.9 && number(kernels, "add") == 0.005);
    json_decref(root);
    str_deinit(&out);
    settings_deinit(&settings);
}

static void generation(void **state)
{
    (void)state;
    const struct bench_generate_wish wish = {.shape = "gemma3-270m",
                                             .stored = DTYPE_BF16,
                                             .rows = 2,
                                             .prompt_tokens = 512,
                                             .n_tokens = 32};
    struct str out = {0};
    bench_print_generate(&wish, &generate_result, &out);
    assert_says(&out, "generation, 2 rows, bf16 weights, prompt of 512 tokens\n");
    assert_says(&out, "10.70 GB/s, 0.764 of 14.00 GB/s");
    str_clear(&out);
    bench_print_generate_json(&wish, &generate_result, &out);
    json_t *root = parse(&out);
    assert_true(number(root, "share_of_bandwidth") == 0.764);
    assert_true(number(root, "tokens") == 32.0);
    assert_string_equal(json_string_value(json_object_get(root, "weights")), "bf16");
    json_decref(root);
    str_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step),
        cmocka_unit_test(generation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
