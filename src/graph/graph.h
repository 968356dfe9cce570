/*
 * graph - a training step as one static graph: nodes in program order, and values.
 *
 * A node applies an op to values and defines one or more new values. A graph owns its
 * nodes, values and names in an arena; everything is freed by graph_destroy. Nodes
 * stand in an order in which each comes after what it reads (verify proves it).
 *
 *     struct graph *graph = graph_create(&mesh);
 *     struct type type = type_make(DTYPE_F32, 2, (int64_t[]){4, 8});
 *     struct value *x = build_input(graph, "x", type);
 *     struct value *y = build_tanh(graph, x);
 *     graph_add_output(graph, "y", y, NULL);
 *
 * Building makes programmer errors only (shapes that do not fit abort with the reason):
 * settings and files are checked before a graph is built. Not for several threads.
 */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

#include "base/arena.h"
#include "graph/type.h"

struct error;
struct graph;
struct graph_trap;
struct node;

enum op {
#define OP(NAME, name, kind, min_inputs, max_inputs, n_outputs) OP_##NAME,
#include "graph/ops.def"
#undef OP
    OP_COUNT
};

enum op_kind { OP_KIND_PRIMITIVE, OP_KIND_COMPOSITE, OP_KIND_GRADIENT };

const char *op_name(enum op op);
enum op_kind op_kind(enum op op);

/* The composite whose backward `op` (a GRADIENT) is, by the names in ops.def. */
enum op op_forward_of(enum op op);

enum compare { COMPARE_EQ, COMPARE_NE, COMPARE_LT, COMPARE_LE, COMPARE_GT, COMPARE_GE };

enum reduce_kind { REDUCE_SUM, REDUCE_MAX }; /* of all_reduce */

/*
 * Attributes of all ops in one struct; each op reads the fields that build.h names for
 * it, the others are zero (so that attributes of equal nodes compare equal).
 */
struct attributes {
    int n_axes;               /* reduce, transpose, broadcast */
    int axes[SHAPE_MAX_RANK]; /* dimensions, ascending for reduce */
    int axis;                 /* one dimension: iota, concat, collectives, dynamic_* */
    struct shape shape;       /* result: constant, iota, reshape, broadcast, ... */
    struct placement placement;    /* result: sources, broadcast, reshape */
    bool has_placement;            /* reshape: `placement` overrides the rule */
    enum dtype dtype;              /* result: sources, cast, bitcast, matmul */
    int64_t start[SHAPE_MAX_RANK]; /* slice; pad: elements before */
    int64_t limit[SHAPE_MAX_RANK]; /* slice: end, exclusive; pad: elements after */
    int64_t size;                  /* dynamic_slice: length along `axis` */
    bool transpose_a, transpose_b; /* matmul */
    enum compare compare;          /* compare */
    enum mesh_axis mesh_axis;      /* collectives, axis_index, use_param */
    enum reduce_kind reduce;       /* all_reduce */
    uint32_t purpose;              /* random_bits */
    double
        value;  /* constant; scale of embed and attention; cap of softcap, loss_head */
    double eps; /* rms_norm */
    bool adds_one;  /* rms_norm: the weight is used as 1 + w */
    double theta;   /* rope: base */
    double factor;  /* rope: positions are divided by it */
    int64_t pairs;  /* rope: the first `pairs` of K/2 pairs turn, the rest stay */
    int64_t window; /* attention: 0 = none */
    int64_t
        ignore_row; /* gather_rows, scatter_add_rows, embed: no gradient; -1 = none */
    bool with_gradient;     /* loss_head */
    bool freezes_table;     /* loss_head: no gradient of the table */
    bool freezes_weight;    /* rms_norm_grad: no gradient of the weight */
    double z_loss;          /* loss_head: times the square of log-sum-exp */
    double label_smoothing; /* loss_head: share spread over the vocabulary */
    int n_iterations;       /* repeat */
    int n_carries;          /* repeat */
    int n_stacked;          /* repeat */
};

bool attributes_equal(const struct attributes *a, const struct attributes *b);

/*
 * One result of a node. A value never changes; that two of them may be one piece of
 * memory, and in which order they then live there, is for graph_memory.c and hazards.h.
 */
struct value {
    struct node *node; /* that defines it */
    int index;         /* which of its outputs */
    int id;            /* unique in the graph, 0 .. graph->n_values - 1 */
    struct type type;  /* as infer gave it */
};

struct node {
    enum op op;
    int id; /* unique in the graph; not the position in program order */
    int n_inputs, n_outputs;
    struct value **inputs;        /* operands, in the order of build.h; may repeat */
    struct value **outputs;       /* results, each defined here */
    struct attributes attributes; /* its own copy */
    const char *name;             /* scope and name, "layers.3.mlp.down"; never NULL */
    int block;        /* which instance of a repeat's body it belongs to; -1 = none */
    bool is_backward; /* made by autodiff */

    /* OP_PARAMETER: trainable ones get gradients. A stacked parameter [n, ...] carries
     * the names of its n slices (nested stacks: row-major); others n_names 1. */
    bool is_trainable;
    const char *const *names; /* [n_names], of its slices */
    int n_names;

    struct graph *body; /* OP_REPEAT; owned by the graph that owns the node */
};

struct graph_output {
    const char *name;
    struct value *value;
    struct value
        *donor; /* a parameter or input whose memory the output takes, or NULL */
};

struct graph {
    struct arena *arena; /* owns nodes, values and names */
    struct mesh mesh;    /* the ranks that values are placed on */
    struct node **nodes; /* program order */
    int n_nodes;
    struct value **arguments; /* parameters and inputs in order of creation */
    int n_arguments;
    struct graph_output *outputs; /* in the order in which they were added */
    int n_outputs;
    int n_values; /* ids given so far */

    /* State of building. */
    const char *scope; /* prefix of names, "" at first */
    int block;         /* given to new nodes */
    bool is_backward;  /* given to new nodes */
    int next_block;    /* blocks given so far */
    int next_node_id;  /* node ids given so far */
    int node_capacity, argument_capacity, output_capacity;
    struct graph_trap *trap; /* graph_trap.h; NULL but in scratch graphs */
};

struct graph *graph_create(const struct mesh *mesh);
void graph_destroy(struct graph *graph); /* takes NULL; bodies of repeats too */

/*
 * Appends a node; its output types are inferred; inputs must belong to this graph and
 * stand before. `name` is the last part of its name (NULL: the op's name); names of
 * parameters and inputs are taken whole, without the scope. A node that breaks a shape
 * or placement rule aborts with the rule's message. `body` (OP_REPEAT only, else NULL)
 * becomes owned by the graph.
 */
struct node *graph_append(struct graph *graph, enum op op, int n_inputs,
                          struct value *const *inputs,
                          const struct attributes *attributes, struct graph *owned_body,
                          const char *name);

/* As graph_append, but a broken rule returns NULL with the message (and frees the
 * body). */
MUST_USE struct node *graph_try_append(struct graph *graph, enum op op, int n_inputs,
                                       struct value *const *inputs,
                                       const struct attributes *attributes,
                                       struct graph *owned_body, const char *name,
                                       struct error *err);

/*
 * graph_append for a node that needs no name of its own and no body: its first result.
 */
struct value *graph_append_value(struct graph *graph, enum op op, int n_inputs,
                                 struct value *const *inputs,
                                 const struct attributes *attributes);

/*
 * Appends a copy of `node` (of any graph) with other inputs: keeps op, attributes,
 * name, parameter facts; a body is copied. block and is_backward are the graph's
 * current.
 */
struct node *graph_append_copy(struct graph *graph, const struct node *node,
                               struct value *const *inputs);

/*
 * donor: the parameter or input of the same type whose memory it takes over, or NULL.
 */
void graph_add_output(struct graph *graph, const char *name, struct value *value,
                      struct value *donor);

/* Names of nodes made between push and pop start with "name.". Returns what to pass to
 * graph_pop_scope. */
const char *graph_push_scope(struct graph *graph, const char *name);
void graph_pop_scope(struct graph *graph, const char *outer);

/* A parameter or an input: its value is among the graph's arguments. */
bool graph_node_is_argument(const struct node *node);

/* Argument or output by name, or NULL / -1. */
struct value *graph_find_argument(const struct graph *graph, const char *name);
int graph_find_output(const struct graph *graph, const char *name);

/* n_uses[value id] for all values: inputs of nodes plus graph outputs; freed by
 * mem_free. */
int *graph_count_uses(const struct graph *graph);

/* The input that output `index` of the node must overwrite (an accumulator, optimizer
 * state), or -1. */
int graph_node_alias(const struct node *node, int index);

/* True if output 0 may be written over input `input` when nobody reads that any more
 * (elementwise ops, same element size). */
bool graph_node_may_reuse(const struct node *node, int input);

/* True if output 0 is the same memory as input 0, read differently: reshape, bitcast,
 * barrier, stop_gradient, fan_out, contiguous slices. *offset_bytes into the input. */
bool graph_node_is_view(const struct node *node, size_t *offset_bytes);

#endif
