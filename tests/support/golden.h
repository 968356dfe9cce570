/*
 * golden - one case of tests/golden: a tiny model, four batches, and what PyTorch and
 * transformers made of them.
 *
 * Batches go through lathe's own reading of token rows, so padding is stripped: token t of
 * row b here is column t + golden_first_column(golden, b) of the reference's arrays.
 */
#ifndef SUPPORT_GOLDEN_H
#define SUPPORT_GOLDEN_H

#include <jansson.h>

#include "data/batch.h"
#include "train/model_source.h"
#include "train/step.h"

enum { GOLDEN_BATCHES = 4 };

struct golden;

/* name: a folder of tests/golden. A missing file fails the test. Where it has an adapter,
 * that is part of the model (params.h). */
struct golden *golden_open(const char *name);
void golden_close(struct golden *golden);

const struct model_source *golden_source(const struct golden *golden);
struct step_source golden_step_source(struct golden *golden);

int32_t golden_B(const struct golden *golden);
int32_t golden_T(const struct golden *golden);

/* Batch k as one pass of B rows; target capacity B * T. */
const struct batch *golden_batch(const struct golden *golden, int k);

/* Rows [first, first + part->rows) of batch k alone, into `part` (created by the caller).
 */
void golden_batch_rows(const struct golden *golden, int k, int32_t first,
                       struct batch *part);

/* Batch 0 with each of its documents in a row of its own; alone->rows is their number. */
int32_t golden_n_documents(const struct golden *golden);
void golden_batch_documents(const struct golden *golden, struct batch *alone);

/* Number of real tokens of row b of batch 0, and the column of the first. */
int32_t golden_row_length(const struct golden *golden, int b);
int32_t golden_first_column(const struct golden *golden, int b);

/* The tensor of expected.safetensors, f32, or NULL when it was trimmed away. */
const float *golden_tensor(const struct golden *golden, const char *name,
                           int64_t *n_elements);

/* A number of expected.json by path: golden_number(g, "adamw", "loss", 3). The index is
 * for arrays, -1 for none; section NULL: top level. */
double golden_number(const struct golden *golden, const char *section, const char *key,
                     int index);

/* Name of the tensor in the reference's lists: its own, or, of an adapter, that of
 * PEFT. Returns `buffer`. */
const char *golden_name(const struct golden *golden, int param, char buffer[300]);

/* Whether the reference trained this tensor. [params->n], owned by the golden. */
const bool *golden_trainable(const struct golden *golden);

/* The expected.json object (borrowed). */
const json_t *golden_json(const struct golden *golden);

/* An engine with this many threads, and a step of the case on it. */
struct engine *golden_engine(int n_threads);

/* What a step of the case is made with, in f32, to be changed for golden_step_create. */
struct step_options golden_step_options(const struct golden *golden, int32_t B,
                                        int32_t C);
struct step *golden_step_create(struct golden *golden, struct engine *engine,
                                const struct step_options *options);
struct step *golden_step(struct golden *golden, struct engine *engine, int32_t B,
                         int32_t C, bool recomputes);

/* ||a - b|| / ||b|| in double precision. */
double golden_relative_l2(const float *a, const float *b, int64_t n);
double golden_l2(const float *a, int64_t n);

#endif
