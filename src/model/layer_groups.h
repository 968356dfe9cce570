/*
 * layer_groups - the repeating pattern in a model's layers. Pure arithmetic.
 *
 * Gemma's layers come as "five sliding, one full", over and over. A graph that says so
 * holds each different layer once, inside loops. Here the list of layers is cut into
 * groups of `count` equal periods, each period into runs of equal layers:
 *
 *     S S S S F S S S S F | s s s s f s s s s f      (small letters: shared K and V)
 *     group 0: first 0, period 5, count 2, runs {4 S, 1 F}
 *     group 1: first 10, period 5, count 2, runs {4 s, 1 f}
 */
#ifndef MODEL_LAYER_GROUPS_H
#define MODEL_LAYER_GROUPS_H

#include "model/config.h"
#include "model/params.h"

enum { LAYER_GROUPS_MAX_RUNS = 16 };

struct layer_run {
    int offset; /* of its first layer within the period */
    int count;  /* equal layers, one after another */
};

struct layer_group {
    int first;  /* layer */
    int period; /* layers */
    int count;  /* periods */
    int n_runs; /* that make up the period */
    struct layer_run runs[LAYER_GROUPS_MAX_RUNS];
};

/* Cuts all layers into groups, in order; returns how many were written to groups (room
 * for config->L). Layers with other adapters in `params` (NULL: none) are different. */
int layer_groups_find(const struct model_config *config, const struct params *params,
                      struct layer_group *groups);

/* Whether two layers have the same graph (their numbers and weights aside). */
bool layer_groups_equal(const struct model_config *config, const struct params *params,
                        int a, int b);

#endif
