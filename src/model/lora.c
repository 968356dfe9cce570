/*
 * lora - see lora.h. Here: choosing the weights, initial values, and the weights that
 * adapters make. lora_read.c and lora_write.c know the files.
 */
#include "model/lora.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"
#include "model/lora_parts.h"
#include "model/params.h"

double lora_scale(const struct lora_options *options)
{
    const double rank = (double)options->rank;
    return options->alpha / (options->is_rank_stabilised ? sqrt(rank) : rank);
}

/* ---- which weights ---- */

/* Matrices of layers: norms and scalars have nothing to be thin about, and the tables
 * are looked up, not multiplied by. */
bool lora_is_adaptable(const struct param_info *info)
{
    return info->rank == 2 && info->layer >= 0 && info->role < PARAM_ROLE_COUNT;
}

/* Those that get adapters when nothing is said. */
static bool is_usual(enum param_role role)
{
    static const enum param_role usual[] = {PARAM_Q,    PARAM_K,  PARAM_V,   PARAM_O,
                                            PARAM_GATE, PARAM_UP, PARAM_DOWN};
    for (size_t i = 0; i < ARRAY_LENGTH(usual); i++) {
        if (usual[i] == role) {
            return true;
        }
    }
    return false;
}

/* Against the name, its end after a dot, and both without ".weight", as PEFT names
 * modules. */
static bool pattern_fits(const char *pattern, const char *name)
{
    struct str end = {0};
    struct str module = {0};
    str_printf(&end, "*.%s", pattern);
    str_add_bytes(&module, name, strlen(name) - strlen(".weight"));
    const bool fits = str_matches(pattern, name) || str_matches(end.text, name) ||
                      str_matches(pattern, module.text) ||
                      str_matches(end.text, module.text);
    str_deinit(&end);
    str_deinit(&module);
    return fits;
}

/* "q_proj" of "self_attn.q_proj.weight" */
void lora_add_short_name(struct str *out, enum param_role role)
{
    const char *name = params_role_name(role);
    const size_t length = strlen(name) - strlen(".weight");
    const char *dot = memrchr(name, '.', length);
    const char *from = dot == NULL ? name : dot + 1;
    str_add_bytes(out, from, (size_t)(name + length - from));
}

/* The message for a pattern that fits nothing: what could have been meant. */
static bool refuse_pattern(const struct params *params, const char *pattern,
                           struct error *err)
{
    struct str names = {0};
    bool is_listed[PARAM_ROLE_COUNT] = {false};
    for (int i = 0; i < params->n_model; i++) {
        const struct param_info *info = &params->info[i];
        if (lora_is_adaptable(info) && !is_listed[info->role]) {
            is_listed[info->role] = true;
            str_add(&names, names.length > 0 ? ", " : "");
            lora_add_short_name(&names, info->role);
        }
    }
    error_set(err, ERROR_USAGE,
              "lora.targets: no weight matches \"%s\"; adapters can be had for %s, all "
              "or some as *layers.3.self_attn.q_proj",
              pattern, str_text(&names));
    str_deinit(&names);
    return false;
}

/* Marks what the patterns mean; each has to mean something. */
static bool choose_targets(const struct params *params,
                           const struct lora_options *options, bool *has_adapter,
                           struct error *err)
{
    for (int i = 0; i < params->n_model && options->n_targets == 0; i++) {
        has_adapter[i] =
            lora_is_adaptable(&params->info[i]) && is_usual(params->info[i].role);
    }
    bool done = true;
    for (int64_t k = 0; k < options->n_targets && done; k++) {
        bool fits = false;
        for (int i = 0; i < params->n_model; i++) {
            if (lora_is_adaptable(&params->info[i]) &&
                pattern_fits(options->targets[k], params->info[i].name)) {
                has_adapter[i] = true;
                fits = true;
            }
        }
        done = fits || refuse_pattern(params, options->targets[k], err);
    }
    return done;
}

bool lora_attach(struct params *params, const struct lora_options *options,
                 struct error *err)
{
    ASSERT(options->rank > 0 && options->alpha > 0.0);
    bool *has_adapter = mem_alloc_array((size_t)params->n_model, sizeof(bool));
    const bool done = choose_targets(params, options, has_adapter, err);
    if (done) {
        params_add_adapters(params, has_adapter, options->rank, lora_scale(options));
    }
    mem_free(has_adapter);
    return done;
}

/* ---- values ---- */

/* kaiming_uniform with a = sqrt(5) is uniform in +-1 / sqrt(in). B A is zero at first:
 * training starts from the model as it is. */
void lora_init_rows(const struct params *params, uint64_t seed, int param,
                    int64_t first_row, int64_t n_rows, float *target)
{
    const struct param_info *info = &params->info[param];
    ASSERT(param >= params->n_model);
    ASSERT(0 <= first_row && 0 <= n_rows && first_row <= info->dim[0] - n_rows);
    const int64_t first = first_row * info->dim[1];
    const int64_t n = n_rows * info->dim[1];
    if (info->role == PARAM_LORA_B) {
        memset(target, 0, (size_t)n * sizeof(float));
        return;
    }
    const float bound = 1.0f / sqrtf((float)info->dim[1]);
    for (int64_t i = 0; i < n; i++) {
        const float unit =
            random_uniform(seed, RANDOM_INIT, (uint64_t)param, (uint64_t)(first + i));
        target[i] = (2.0f * unit - 1.0f) * bound;
    }
}

/* rows[n_rows, in] += scale * b[n_rows, r] a[r, in]; delta[in] is scratch. Sums over r
 * are made before the large number is added, so that small ones count. */
static void add_product(float *rows, int64_t n_rows, int64_t in, const float *b,
                        const float *a, int64_t r, float scale, float *delta)
{
    for (int64_t row = 0; row < n_rows; row++) {
        memset(delta, 0, (size_t)in * sizeof(float));
        for (int64_t k = 0; k < r; k++) {
            const float factor = b[row * r + k];
            for (int64_t i = 0; i < in; i++) {
                delta[i] += factor * a[k * in + i];
            }
        }
        for (int64_t i = 0; i < in; i++) {
            rows[row * in + i] += scale * delta[i];
        }
    }
}

/* Finite matrices can have a product that is not. */
static bool check_merged(const float *rows, int64_t n, const char *name,
                         struct error *err)
{
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(rows[i])) {
            return error_set(err, ERROR_DATA,
                             "%s: with the adapter merged, the weight is not finite; "
                             "the training of the adapter may have diverged",
                             name);
        }
    }
    return true;
}

/* A is read whole for each range of rows: it is thin, and ranges are large. */
bool lora_merged_read(void *context, int param, int64_t first_row, int64_t n_rows,
                      float *target, struct error *err)
{
    const struct lora_merge *merge = context;
    const struct params *params = merge->params;
    ASSERT(param < params->n_model);
    if (!merge->read(merge->context, param, first_row, n_rows, target, err)) {
        return false;
    }
    const int a = params_adapter(params, PARAM_LORA_A, param);
    if (a < 0) {
        return true;
    }
    const int b = params_adapter(params, PARAM_LORA_B, param);
    const int64_t r = params->info[a].dim[0];
    const int64_t in = params->info[a].dim[1];
    /* A [r, in], rows of B [n_rows, r], and one row of their product [in]. */
    const size_t n = (size_t)(r * in + n_rows * r + in);
    float *memory = mem_try_alloc(n * sizeof(float), params->info[a].name, err);
    if (memory == NULL) {
        return false;
    }
    float *b_rows = memory + r * in;
    bool done = merge->read(merge->context, a, 0, r, memory, err) &&
                merge->read(merge->context, b, first_row, n_rows, b_rows, err);
    if (done) {
        add_product(target, n_rows, in, b_rows, memory, r, (float)params->lora_scale,
                    b_rows + n_rows * r);
        done = check_merged(target, n_rows * in, params->info[param].name, err);
    }
    mem_free(memory);
    return done;
}
