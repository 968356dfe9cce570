/*
 * step_parts - what the files of step share: its state, and the programs bound to it.
 *
 *     step.c           buffers, creation, passes over batches
 *     step_update.c    the optimizer's programs
 */
#ifndef TRAIN_STEP_PARTS_H
#define TRAIN_STEP_PARTS_H

#include "train/step.h"

/* A compiled graph with its arguments and outputs in the graph's order. */
struct bound {
    struct program *program;   /* owned */
    struct buffer **arguments; /* borrowed from the step's state */
    struct buffer **outputs;
};

/* Batches of one kind: their inputs and the program that reads them. */
struct pass {
    struct bound bound;
    struct buffer *ids, *position, *first_key, *loss_rows, *targets, *weight, *ple_rows;
    struct buffer *dropout_seed, *dropout_step; /* NULL: no dropout */
    struct buffer *loss_sum, *token_loss; /* outputs; token_loss of evaluation only */
    int64_t C;                            /* entries of loss_rows */
};

/* An update program with its inputs and outputs. */
struct updater {
    struct bound bound;
    struct buffer **hyper; /* [n_groups] owned list */
    struct buffer *inverse, *clip, *max_norm, *loss_sum;
    struct buffer *seed, *step; /* NULL: rounding to nearest */
    struct buffer *grad_norm, *applied;
    /* [n_groups] owned lists; NULL: this program tells no norms */
    struct buffer **grad_squares, **update_squares, **weight_squares;
};

struct named_buffer {
    const char *name; /* owned */
    struct buffer *buffer;
    bool is_borrowed; /* memory of the source */
};

struct step {
    struct engine *engine;
    struct step_options options;
    struct step_source source; /* where parameters come from */
    struct pass grad;          /* empty unless options.trains */
    struct pass evaluate;      /* empty unless options.evaluates */
    struct updater update;     /* empty unless options.trains */
    struct updater norms;      /* the same with norms; empty unless options.has_norms */
    struct named_buffer *state; /* parameters, accumulators, moments, update's inputs */
    size_t n_state, state_capacity;
    struct buffer **parameters; /* [params->n]; NULL: stays in its file */
    struct buffer *keep;        /* input of the gradient program */
    float *token_loss; /* [C] of a training pass, where loss_sum is more; or NULL */
    struct step_norms *group_norms; /* [n_groups] of the last update that told them */
    float *ple_staging; /* [B, T, L*P] rows of a frozen per-layer table, or NULL */
    bool has_gradients; /* sums hold something since the last update */
    int64_t n_updates;  /* that were applied */
};

/* The state buffer of that name, or NULL. Linear, at creation only. */
struct buffer *step_find_buffer(const struct step *step, const char *name);

/*
 * Compiles the graph and binds its arguments and outputs. `prefix` makes the names of
 * inputs that belong to this program alone unique; state is shared by name.
 */
MUST_USE bool step_bind(struct step *step, struct graph *owned_graph,
                        const char *prefix, struct bound *bound, struct error *err);
void step_unbind(struct bound *bound); /* takes one that is half done, or zeroed */

/* The argument or output ("out:NAME") of a program; NULL: it has none of that name. */
struct buffer *step_find_prefixed(const struct step *step, const char *prefix,
                                  const char *name);

/* NULL: the graph has no such input. */
MUST_USE bool step_upload_if(struct buffer *buffer, const void *host,
                             struct error *err);

/* One run of the program over its own arguments and outputs. */
MUST_USE bool step_execute(const struct bound *bound, struct error *err);

/* The update programs for the gradients of `grad`. */
MUST_USE bool step_update_create(struct step *step, const struct graph *grad,
                                 struct error *err);
void step_update_destroy(struct step *step);

#endif
