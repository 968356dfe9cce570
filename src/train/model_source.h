/*
 * model_source - a model on disk, opened: config, parameter table, weights, tokenizer.
 *
 *     struct model_source source = {0};
 *     if (!model_source_open(&source, path, true, err)) ...
 *     model_source_close(&source);
 */
#ifndef TRAIN_MODEL_SOURCE_H
#define TRAIN_MODEL_SOURCE_H

#include "model/config.h"
#include "model/lora.h"
#include "model/params.h"
#include "model/weights.h"

struct error;
struct tokenizer;

struct model_source {
    const char *path; /* borrowed */
    struct model_config config;
    struct params *params;
    struct weights *weights;      /* NULL: not asked for */
    struct tokenizer *tokenizer;  /* NULL: not asked for */
    struct lora *adapter;         /* NULL: none */
    struct params *merged_params; /* with the adapter's rows; NULL: none */
};

/* A folder in Hugging Face layout or a .gguf file; both tokenizers come with the model.
 * needs_weights false: shapes only (random initialisation). *source is zeroed or closed
 * before. */
MUST_USE bool model_source_open(struct model_source *source, const char *path,
                                bool needs_weights, bool needs_tokenizer,
                                struct error *err);
void model_source_close(struct model_source *source);

/* From now on model_source_read gives the weights with the adapter of this folder (PEFT
 * layout) in them: the model is the merged one. */
MUST_USE bool model_source_open_adapter(struct model_source *source, const char *folder,
                                        struct error *err);

/* The tokenizer of a model folder or .gguf file alone. */
MUST_USE struct tokenizer *model_source_tokenizer(const char *path, struct error *err);

/* Reads rows of a parameter (a weights_read_fn; context is the struct model_source). */
MUST_USE bool model_source_read(void *source, int param, int64_t first_row,
                                int64_t n_rows, float *target, struct error *err);

/* The parameter in the mapped file (see step_source.view; context is the struct
 * model_source); NULL also for a weight that the adapter changes. */
const void *model_source_view(void *source, int param, enum dtype *dtype);

/* For each parameter the dtype in which it can be read where it lies, else f32; for
 * struct step_shape.stored. [params->n], freed by mem_free. */
enum dtype *model_source_dtypes(struct model_source *source);

#endif
