/*
 * lora - adapters: which weights get one, their initial values, their files in PEFT
 * layout, and the weights that they make.
 *
 * An adapter leaves the model's weights as they are and learns two thin matrices for
 * some of them: the weight in effect is W + scale * B A, scale = alpha / rank (PEFT's
 * rank-stabilised form: alpha / sqrt(rank)). A and B are rows of the parameter table
 * (params.h).
 *
 *     new adapters:       lora_attach(params, &options, err);
 *                         lora_init_rows(params, seed, param, 0, n_rows, target);
 *     those of a folder:  struct lora *lora = lora_open(folder, params, err);
 *                         lora_read(lora, param, 0, n_rows, target, err);
 *     the whole weights:  struct lora_merge merge = {params, read, context};
 *                         lora_merged_read(&merge, param, ...)
 *     out again:          lora_write_folder("run/adapter", &output, err);
 *
 * A folder holds adapter_config.json and adapter_model.safetensors with tensors
 * "base_model.model." + name of the matrix. What of PEFT lathe does not do is an error
 * that names it. An open adapter may be read by several threads.
 */
#ifndef MODEL_LORA_H
#define MODEL_LORA_H

#include "base/base.h"
#include "base/dtype.h"
#include "model/weights.h"

struct error;
struct lora;
struct params;

struct lora_options {
    int64_t rank;            /* above 0 */
    double alpha;            /* above 0 */
    double dropout;          /* of the adapters' inputs in training, 0 .. below 1 */
    bool is_rank_stabilised; /* scale alpha / sqrt(rank) */
    /*
     * Patterns of weights: whole names, parts of them after a dot ("q_proj",
     * "self_attn.q_proj"), or globs of either. All matrices of layers can be meant.
     * None: q, k, v, o, gate, up and down of every layer.
     */
    const char *const *targets;
    int64_t n_targets;
};

/* What the product of B and A is multiplied by. */
double lora_scale(const struct lora_options *options);

/* Adds the adapters to the table. A pattern that fits no weight is an error that lists
 * what there is. */
MUST_USE bool lora_attach(struct params *params, const struct lora_options *options,
                          struct error *err);

/* Initial values of rows of A or B, as PEFT has them: A uniform in +-1/sqrt(in), by
 * seed, parameter and element; B zero. */
void lora_init_rows(const struct params *params, uint64_t seed, int param,
                    int64_t first_row, int64_t n_rows, float *target);

/* True for a folder with adapter_config.json in it. */
bool lora_is_folder(const char *path);

/*
 * Opens a folder in PEFT layout and adds its adapters to `params`, which must have none
 * and is borrowed until lora_close. params NULL: only the config is read and checked,
 * for what is said below of options and names.
 */
MUST_USE struct lora *lora_open(const char *folder, struct params *params,
                                struct error *err);
void lora_close(struct lora *lora); /* takes NULL */

/* The options that make the same adapters; borrowed. Targets are whole names. */
const struct lora_options *lora_options_of(const struct lora *lora);
const char *lora_base_name(const struct lora *lora); /* what it says; "" if nothing */

/* Rows of A or B in the table (a weights_read_fn; context is the struct lora). */
MUST_USE bool lora_read(void *lora, int param, int64_t first_row, int64_t n_rows,
                        float *target, struct error *err);

/* Weights with their adapters in them. */
struct lora_merge {
    const struct params *params; /* with adapters */
    weights_read_fn read;        /* gives rows of weights and of adapters */
    void *context;               /* of read */
};

/*
 * Rows of a model's weight: W + scale * B A in f32, or W where there is no adapter (a
 * weights_read_fn; context is the struct lora_merge). Sums that are not finite are an
 * error.
 */
MUST_USE bool lora_merged_read(void *merge, int param, int64_t first_row,
                               int64_t n_rows, float *target, struct error *err);

struct lora_output {
    const struct params *params; /* with adapters */
    const struct lora_options *options;
    enum dtype dtype;      /* F32, BF16 or F16 */
    weights_read_fn read;  /* gives rows of A and B */
    void *context;         /* of read */
    const char *base_path; /* of the model; goes into the config */
    const char *prefix;    /* "model.", or as the model's files begin: weights_prefix */
};

/* Writes the folder `path` (which must not exist, or be empty); it appears whole or not
 * at all. */
MUST_USE bool lora_write_folder(const char *path, const struct lora_output *output,
                                struct error *err);

#endif
