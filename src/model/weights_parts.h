/*
 * weights_parts - an open model, between the file that opens folders, the one that
 * opens GGUF files and the writer.
 */
#ifndef MODEL_WEIGHTS_PARTS_H
#define MODEL_WEIGHTS_PARTS_H

#include "base/base.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "model/weights.h"

/* Where a parameter's bytes are: in a safetensors file, or in the GGUF file. */
struct weights_place {
    const struct safetensors *file;   /* of view */
    const struct tensor_view *view;   /* NULL for GGUF */
    const struct gguf_tensor *tensor; /* NULL for safetensors */
};

/* Names of tensors, collected for one message. */
struct weights_names {
    int n;           /* all, those not in `first` too */
    char first[200]; /* the first few, comma separated */
};

struct weights {
    char *path; /* as given; owned */
    const struct model_config *config;
    const struct params *params;
    struct weights_place *places; /* [params->n_model] */
    struct gguf *gguf;            /* NULL for a folder */
    struct safetensors **shards;  /* [n_shards] */
    char **shard_paths;           /* [n_shards] */
    size_t n_shards;
    const char *prefix; /* "model." or what the file has in its place */
    /* Tensors that are none of the model's, to be kept by the writer. */
    struct weights_place *others;
    size_t n_others;
    size_t others_capacity;
    struct weights_names skipped; /* towers, lm_head, K and V of sharing layers */
    struct weights_names unknown; /* in none of the tables */
};

/* Opens without notes and warnings; weights_open adds them. */
MUST_USE struct weights *weights_open_quietly(const char *path,
                                              const struct model_config *config,
                                              const struct params *params,
                                              struct error *err);

/* weights_gguf.c: maps weights->path and fills the places. */
MUST_USE bool weights_open_gguf(struct weights *weights, struct error *err);

void weights_names_add(struct weights_names *names, const char *name);

/* The tensor `name` of shape dim[0 .. rank) is parameter `param`: places nothing,
 * checks the shape and that it was not found before (`is_placed`). */
MUST_USE bool weights_check_tensor(const struct weights *weights, int param,
                                   const char *name, int rank, const int64_t *dim,
                                   bool is_placed, struct error *err);

/* The text of a config.json with another dtype in every "dtype" and "torch_dtype". */
char *weights_config_with_dtype(const char *text, enum dtype dtype);

#endif
