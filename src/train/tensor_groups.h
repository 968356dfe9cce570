/*
 * tensor_groups - the trained tensors in groups: for rates of their own
 * (train.param_groups), and for norms in the metrics (train.norms_every).
 *
 * With train.param_groups there is one group for each pattern and a last one, "others".
 * Without, norms are told by kind of tensor: embeddings, attention, mlp, norms,
 * per-layer, adapters. Where nothing asks for groups there is one, "all".
 *
 *     struct tensor_groups groups;
 *     tensor_groups_init(&groups, settings, params, is_trainable);
 *     tensor_groups_rates(&groups, rate, rates);    of a step, [groups.n]
 *     tensor_groups_deinit(&groups);
 */
#ifndef TRAIN_TENSOR_GROUPS_H
#define TRAIN_TENSOR_GROUPS_H

#include "train/step.h"

struct settings;

struct tensor_groups {
    int n;
    int *group;              /* [params->n] owned; the group of each tensor */
    const char **name;       /* [n] owned list; names are borrowed from the settings */
    int *n_tensors;          /* [n] owned; trained ones in it */
    struct step_group *base; /* [n] owned; NaN lr: that of the optimizer */
    double lr;               /* of the optimizer, before the schedule */
};

/* Says in the log which patterns fit no trained tensor. Settings and params are borrowed
 * for this call, the settings' texts as long as the groups. */
void tensor_groups_init(struct tensor_groups *groups, const struct settings *settings,
                        const struct params *params, const bool *is_trainable);
void tensor_groups_deinit(struct tensor_groups *groups); /* takes a zeroed one */

/* rates: [n] for a step at which the schedule gives the optimizer's rate `rate`: a group's
 * own rate is scaled as that one is. */
void tensor_groups_rates(const struct tensor_groups *groups, double rate,
                         struct step_group *rates);

#endif
