/*
 * weights - the tensors of a model, from files and to files.
 *
 * weights_open maps a folder in Hugging Face layout (model.safetensors, or shards named
 * by model.safetensors.index.json) or a GGUF file and checks it against the parameter
 * table: a missing or misshapen tensor is an error that names it, with what was
 * expected and found; a name in two shards is an error; unknown tensors give one
 * warning; vision and audio towers, lm_head and the unused K/V tensors of layers that
 * share K and V are skipped with one line. weights_read then converts rows to f32, each
 * byte read once.
 *
 *     struct weights *weights = weights_open(path, &config, params, err);
 *     weights_read(weights, index, 0, params->info[index].dim[0], target, err);
 *     weights_close(weights);
 *
 * Values are those of the Hugging Face form: the norms of a Gemma 3 GGUF, stored as 1 +
 * w, come out as w. weights_read may be called by several threads.
 */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include "base/base.h"
#include "base/dtype.h"

struct error;
struct model_config;
struct params;

struct weights;

/* `config` and `params` are borrowed until weights_close. */
MUST_USE struct weights *weights_open(const char *path,
                                      const struct model_config *config,
                                      const struct params *params, struct error *err);
void weights_close(struct weights *weights); /* takes NULL */

/*
 * Rows first_row .. first_row + n_rows - 1 of parameter `param`, as f32 into
 * target[n_rows * row length]. A row is dim[1] elements of a matrix, one element of a
 * vector. Large ranges are then dropped from the page cache's working set.
 */
MUST_USE bool weights_read(const struct weights *weights, int param, int64_t first_row,
                           int64_t n_rows, float *target, struct error *err);

/*
 * The parameter as it lies in the mapped file, row-major in the layout of the table,
 * and *dtype (F32 or BF16); valid until weights_close. NULL where that is something
 * else: another type, quantised, not aligned to its elements, a norm stored as 1 + w,
 * or a machine of another byte order.
 */
const void *weights_view(const struct weights *weights, int param, enum dtype *dtype);

/* How a parameter is stored, for people: "bf16", "Q8_0". */
const char *weights_type_name(const struct weights *weights, int param);

/* How names of tensors begin in the files, in place of "model." in the table. */
const char *weights_prefix(const struct weights *weights);

/* Whether the model is a GGUF file (its tokenizer is in it, not in files beside it). */
bool weights_is_gguf(const struct weights *weights);

/* Gives rows of a parameter, with the meaning of weights_read. */
typedef bool (*weights_read_fn)(void *context, int param, int64_t first_row,
                                int64_t n_rows, float *target, struct error *err);

/* What weights_write_folder writes. */
struct weights_output {
    const struct model_config *config;
    const struct params *params;
    enum dtype dtype;     /* F32, BF16 or F16 */
    weights_read_fn read; /* the values */
    void *context;        /* of read */
    /*
     * Where the model came from, or NULL. From a folder, config and tokenizer files are
     * carried over byte for byte (config.json with the new dtype when it differs), and
     * its tensor names and the tensors of its vision and audio towers are kept.
     */
    const char *source_path;
    /*
     * For a GGUF source: makes the tokenizer files of the folder from it
     * (tokenizer_write_from). NULL: there will be none, and one line says so.
     */
    bool (*write_tokenizer)(const char *gguf_path, const char *folder,
                            struct error *err);
    /* Called now and then with the elements written so far, or NULL. */
    void (*report)(void *context, int64_t done, int64_t total);
    void *report_context;
};

/*
 * Writes the folder `path` (which must not exist, or be empty): model.safetensors, with
 * tied weights once, config.json, and what the source has of generation_config.json and
 * tokenizer files; for a GGUF source these are made. The folder appears whole or not at
 * all. Memory stays at some megabytes, however large the model is.
 */
MUST_USE bool weights_write_folder(const char *path,
                                   const struct weights_output *output,
                                   struct error *err);

#endif
