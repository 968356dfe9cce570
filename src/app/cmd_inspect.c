/*
 * cmd_inspect - lathe inspect PATH: a model, a weight file, or a run folder, in words.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "app/arguments.h"
#include "app/command.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "train/metrics_read.h"
#include "train/model_source.h"

/* One line in columns: name, element type, shape. */
static void print_tensor(const char *name, const char *type, int rank,
                         const int64_t *dim)
{
    char shape[100];
    printf("%-64s %-6s %s\n", name, type, tensor_view_format_shape(shape, rank, dim));
}

/* The tensors as they are in the file, in the order of their bytes, whether or not they
 * make a model. It may be one file of several, and so not a model by itself. */
static bool inspect_safetensors(const char *path, struct error *err)
{
    struct safetensors *file = safetensors_open(path, err);
    if (file == NULL) {
        return false;
    }
    int64_t n_bytes = 0;
    for (size_t i = 0; i < safetensors_count(file); i++) {
        const struct tensor_view *view = safetensors_at(file, i);
        print_tensor(view->name, dtype_name(view->dtype), view->rank, view->dim);
        n_bytes += (int64_t)view->n_bytes;
    }
    char bytes[24];
    printf("%zu tensors, %s\n", safetensors_count(file),
           str_format_bytes(bytes, (double)n_bytes));
    safetensors_close(file);
    return true;
}

/* Facts that may differ from layer to layer; what most layers do not have is printed
 * only where it is there. */
static void print_layers(const struct model_config *config)
{
    for (int i = 0; i < config->L; i++) {
        const struct layer_config *layer = &config->layer[i];
        printf("layer %-3d %-7s heads %lld of %lld, kv heads %lld, mlp %lld, rope %g",
               i, layer->is_sliding ? "sliding" : "full", (long long)config->H,
               (long long)layer->K, (long long)layer->G, (long long)layer->F,
               layer->rope_theta);
        /* Partial rotary embedding: the other pairs do not turn. */
        if (layer->rotary_pairs * 2 != layer->K) {
            printf(" (first %lld pairs)", (long long)layer->rotary_pairs);
        }
        /* Layers that share keys and values with an earlier one have no k and v of
         * their own. */
        if (!model_config_owns_kv(config, i)) {
            printf(", k and v of layer %d", layer->kv_source);
        }
        puts(layer->k_eq_v ? ", v = k" : "");
    }
}

/* From the config and the parameter table, which hold for both kinds of file; names are
 * those of the Hugging Face layout, types those in the file. Opening it checks every
 * tensor's shape against the config. */
static bool inspect_model(const char *path, struct error *err)
{
    struct model_source source = {0};
    if (!model_source_open(&source, path, true, false, err)) {
        return false;
    }
    const struct model_config *config = &source.config;
    printf("%s, %lld parameters, %d layers, width %lld, vocabulary %lld\n",
           model_family_name(config->family), (long long)source.params->n_elements,
           config->L, (long long)config->D, (long long)config->V);
    printf("window %lld, positions %lld", (long long)config->window,
           (long long)config->max_positions);
    if (config->P > 0) {
        printf(", per-layer embeddings of %lld", (long long)config->P);
    }
    if (config->final_softcap > 0.0) {
        printf(", logits capped at %g", config->final_softcap);
    }
    puts("");
    print_layers(config);
    for (int i = 0; i < source.params->n; i++) {
        const struct param_info *info = &source.params->info[i];
        print_tensor(info->name, weights_type_name(source.weights, i), info->rank,
                     info->dim);
    }
    model_source_close(&source);
    return true;
}

/* What the model's view of a GGUF file does not show: how many tensors and keys it
 * holds. */
static bool inspect_gguf_keys(const char *path, struct error *err)
{
    struct gguf *file = gguf_open(path, err);
    if (file == NULL) {
        return false;
    }
    printf("GGUF, %zu tensors, %zu keys\n", gguf_n_tensors(file), gguf_n_keys(file));
    gguf_close(file);
    return true;
}

/* The last step, and the held-out loss where there is one: the last, and the lowest,
 * which best/ belongs to. */
static void print_curves(const struct metrics_curves *curves)
{
    if (curves->n == 0) {
        return;
    }
    const double *steps = curves->values[METRICS_STEP];
    const double *held_out = curves->values[METRICS_EVAL_LOSS];
    const size_t last_step = curves->n - 1;
    size_t last = curves->n;
    size_t lowest = curves->n;
    for (size_t i = 0; i < curves->n; i++) {
        if (isfinite(held_out[i])) {
            last = i;
            lowest = lowest == curves->n || held_out[i] < held_out[lowest] ? i : lowest;
        }
    }
    printf("step %.0f (epoch %.3g): loss %.4f\n", steps[last_step],
           curves->values[METRICS_EPOCH][last_step],
           curves->values[METRICS_LOSS][last_step]);
    if (last < curves->n) {
        printf("held-out loss %.4f after step %.0f, lowest %.4f after step %.0f\n",
               held_out[last], steps[last], held_out[lowest], steps[lowest]);
    }
}

/* What metrics.jsonl says and which results there are. The run may be in progress: then
 * its last line may be half written, and is left out. */
static bool inspect_run(const char *path, struct error *err)
{
    static const struct {
        const char *folder, *words;
    } results[] = {{"model", "tuned model in model/"},
                   {"adapter", "adapter in adapter/"},
                   {"best", "the one with the lowest held-out loss in best/"}};
    struct metrics_curves curves;
    char *metrics_path = file_join(path, "metrics.jsonl");
    const bool done = metrics_read_file(&curves, metrics_path, err);
    mem_free(metrics_path);
    if (!done) {
        return false;
    }
    printf("run folder, %zu %s\n", curves.n, curves.n == 1 ? "step" : "steps");
    print_curves(&curves);
    metrics_read_deinit(&curves);
    bool has_result = false;
    for (size_t i = 0; i < ARRAY_LENGTH(results); i++) {
        char *folder = file_join(path, results[i].folder);
        if (file_exists(folder)) {
            puts(results[i].words);
            has_result = true;
        }
        mem_free(folder);
    }
    if (!has_result) {
        puts("no tuned model in it yet");
    }
    return true;
}

/* What the config says, then the matrices. The model that it belongs to need not be
 * there. */
static bool inspect_adapter(const char *path, struct error *err)
{
    struct lora *lora = lora_open(path, NULL, err);
    if (lora == NULL) {
        return false;
    }
    const struct lora_options *options = lora_options_of(lora);
    const char *base = lora_base_name(lora);
    printf("LoRA adapter, rank %lld, alpha %g%s, dropout %g, of %s\n",
           (long long)options->rank, options->alpha,
           options->is_rank_stabilised ? " (rank-stabilised)" : "", options->dropout,
           base[0] == '\0' ? "a model that it does not name" : base);
    lora_close(lora);
    char *tensors = file_join(path, "adapter_model.safetensors");
    const bool done = inspect_safetensors(tensors, err);
    mem_free(tensors);
    return done;
}

/* The kind is told by name and contents: .safetensors; a folder with run.yaml, which is
 * a run, or with adapter_config.json; all else is a model. The run is asked before the model, because a run folder
 * is none itself but holds one. */
bool cmd_inspect(const struct command *command, int argc, char *const *argv,
                 struct error *err)
{
    bool wants_help = false;
    const struct argument_option options[] = {
        {"--help", NULL, ARGUMENT_SWITCH, &wants_help, "this text"}, {0}};
    struct arguments arguments;
    if (!command_parse(command, argc, argv, options, &wants_help, &arguments, err)) {
        return false;
    }
    if (wants_help) {
        return true;
    }
    if (arguments.n != 1) {
        return command_usage_error(command, "expected one path", err);
    }
    const char *path = arguments.items[0];
    if (!file_exists(path)) {
        return error_set(err, ERROR_NOT_FOUND, "%s: no such file or folder", path);
    }
    if (str_ends_with(path, ".safetensors")) {
        return inspect_safetensors(path, err);
    }
    char *settings = file_join(path, "run.yaml");
    const bool is_run = file_exists(settings);
    mem_free(settings);
    if (is_run) {
        return inspect_run(path, err);
    }
    if (lora_is_folder(path)) {
        return inspect_adapter(path, err);
    }
    /* Such a file is opened twice: here for what only GGUF has, then as a model. */
    if (str_ends_with(path, ".gguf") && !inspect_gguf_keys(path, err)) {
        return false;
    }
    return inspect_model(path, err);
}
