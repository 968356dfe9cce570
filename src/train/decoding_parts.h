/*
 * decoding_parts - for the files of decoding alone: what it holds.
 *
 *     decoding_create.c  buffers, programs, creation
 *     decoding.c         which token goes where
 */
#ifndef TRAIN_DECODING_PARTS_H
#define TRAIN_DECODING_PARTS_H

#include "model/gemma_cache.h"
#include "train/decoding.h"

/* Each with its own number of tokens. */
enum { DECODING_PASSES = 4 };

/* A buffer by its name in the graphs; inputs of one pass have its length in front. */
struct decoding_buffer {
    char *name; /* owned */
    struct buffer *buffer;
};

/* The program for T tokens of each row; empty where the context is shorter. */
struct decoding_pass {
    int32_t T;
    struct program *program;
    struct buffer **arguments, **outputs; /* in the graph's order; borrowed */
    struct buffer *ids, *position, *last, *ple_rows, *slots[GEMMA_CACHE_KINDS];
};

struct decoding {
    struct engine *engine;
    struct decoding_options options;
    struct decoding_source source;
    int64_t n_slots[GEMMA_CACHE_KINDS];
    enum dtype *stored; /* [params->n] of parameters in memory */
    struct decoding_pass passes[DECODING_PASSES];
    struct decoding_buffer *buffers; /* owned ones, of all kinds */
    size_t n_buffers, buffer_capacity;
    struct buffer *logits;                  /* [rows, V] of the last pass */
    struct buffer *keys[GEMMA_CACHE_KINDS]; /* [rows, slots] */

    /* Staging, and what the caches hold. */
    int32_t *ids, *position, *last;           /* [rows * T], the same, [rows] */
    int32_t *slots[GEMMA_CACHE_KINDS];        /* [rows * T] */
    int32_t *key_position[GEMMA_CACHE_KINDS]; /* [rows, slots]; -1: nothing */
    float *ple_rows;                          /* [rows * T, L*P], or NULL */
    float *row_logits;                        /* [rows, V] of each row's last token */
    float *pass_logits;                       /* [rows, V] as fetched */
    int32_t *n_tokens;                        /* [rows] */
    int32_t *n_done;                          /* [rows] of the tokens to be fed */
};

#endif
