/*
 * grad - reverse-mode differentiation, appended to the same graph.
 *
 * Each op has a rule grad_NAME that turns cotangents of its outputs into cotangents of
 * its inputs. Cotangents carry placements too: of a split value split alike; of a
 * partial value same; of a same value same or partial. When contributions that are
 * partial and same meet, and at the end for every `wrt` value that is not partial
 * itself, a partial one becomes same by an all_reduce (unless keeps_partial: gradients
 * summed later).
 */
#ifndef GRAPH_GRAD_H
#define GRAPH_GRAD_H

#include "graph/graph.h"

struct grad_options {
    bool keeps_partial; /* leave gradients of `wrt` partial where they are */
};

/*
 * grad_build(graph, n, outputs, seeds, n_wrt, wrt, options, gradients): outputs[i] has
 * cotangent seeds[i] (type of the output, or f32 for bf16 values). gradients[j] is set
 * to the gradient of wrt[j], or NULL when nothing depends on it. Gradients of
 * parameters are f32 when they come from use_param. The graph holds no repeats (expand
 * first). New nodes are marked is_backward and get the block of the node that they
 * differentiate.
 */
void grad_build(struct graph *graph, int n_outputs, struct value *const *outputs,
                struct value *const *seeds, int n_wrt, struct value *const *wrt,
                const struct grad_options *options, struct value **gradients);

/* What a rule sees. The walk fills in all but dx, which starts as NULLs. */
struct grad_rule {
    struct graph *graph;     /* the rule appends to it */
    const struct node *node; /* the one to differentiate */
    struct value *const *dy; /* per output; NULL = zero */
    struct value **dx;       /* per input, set by the rule; NULL = none */
    const bool *wanted;      /* per input: is dx[i] of use to anybody */
};

#endif
