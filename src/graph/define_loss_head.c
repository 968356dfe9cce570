/*
 * define_loss_head - what the loss head means, with the gradient written out by hand
 * for an upstream gradient of 1.
 *
 *     z = cap tanh(h . table^T / cap)      lse = log sum exp z
 *     loss = lse - z[target]               for token_loss
 *     objective = lse - (1 - s) z[target] - s mean(z) + a lse^2       s: smoothing
 *     dz = (softmax(z) (1 + 2 a lse) - (1 - s) onehot(target) - s / V) weight
 *     dh = dz (1 - (z / cap)^2) . table                               a: z_loss
 *
 * All logits at once, [C, V]; or, in the tiled form, a part of the vocabulary after the
 * other: once for log-sum-exp and target logit, once more for the gradients. Where the
 * table is split by vocabulary, maximum, sum and target logit are combined over that
 * axis (its parts are smaller, so there is no tiled form), and the gradient of the
 * hidden rows is partial there.
 */
#include "graph/build.h"
#include "graph/define_rules.h"

enum { HIDDEN, TABLE, LOSS_ROWS, TARGETS, WEIGHT, ACC, KEEP };

/* Logits of one part of the tiled form: 16 MiB in f32. */
enum { PART_ELEMENTS = 1 << 22 };

static const int row_axis = 0, vocabulary_axis = 1;

/* h [C, D] . table [v, D]^T, capped: [C, v]. */
static struct value *logits(struct graph *graph, struct value *h, struct value *table,
                            double cap)
{
    const enum dtype math = define_math_dtype(h->type.dtype);
    struct value *z = build_matmul(graph, h, table, false, true, math);
    if (cap > 0.0) {
        z = build_scale(graph, build_tanh(graph, build_scale(graph, z, 1.0 / cap)),
                        cap);
    }
    return z;
}

/* exp(z - shift), shift per row. */
static struct value *shifted_exp(struct graph *graph, struct value *z,
                                 struct value *shift)
{
    return build_exp(graph,
                     build_sub(graph, z, define_spread(graph, shift, z, &row_axis)));
}

/* bool [C, v]: the column is the target of the row. Columns count over the whole
 * vocabulary, from `first` (i32 scalar; NULL: 0). */
static struct value *target_mask(struct graph *graph, const struct value *z,
                                 struct value *targets, struct value *first)
{
    struct type type = z->type;
    type.dtype = DTYPE_I32;
    struct value *column = build_iota(graph, type, vocabulary_axis);
    if (first != NULL) {
        column = build_add(graph, column, first);
    }
    return build_compare(graph, COMPARE_EQ, column,
                         define_spread(graph, targets, z, &row_axis));
}

/* z of the target where this part of the vocabulary holds it, else 0: [C]. */
static struct value *target_logit(struct graph *graph, struct value *z,
                                  struct value *is_target)
{
    struct value *zero = build_scalar(graph, z->type.dtype, 0.0);
    return build_reduce_sum(graph, build_select(graph, is_target, z, zero), 1,
                            &vocabulary_axis);
}

/* Entries of the whole vocabulary, where a rank may hold a part of it. */
static double vocabulary_of(const struct graph *graph, const struct value *table)
{
    double V = (double)table->type.shape.dim[0];
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        const struct place place = table->type.placement.axis[axis];
        if (place.kind == PLACE_SPLIT && place.dim == 0) {
            V *= graph->mesh.size[axis];
        }
    }
    return V;
}

/* What a body of the tiled form needs to know of the op. */
struct objective {
    double cap;       /* 0: none */
    double z_loss;    /* times lse^2 */
    double smoothing; /* share of the target that all get */
    double V;         /* entries of the whole vocabulary */
};

static struct objective objective_of(const struct define *define)
{
    return (struct objective){
        .cap = define->attributes->value,
        .z_loss = define->attributes->z_loss,
        .smoothing = define->attributes->label_smoothing,
        .V = vocabulary_of(define->graph, define->inputs[TABLE]),
    };
}

/* 1 + 2 a lse, what softmax(z) is multiplied by in the gradient: [C]. */
static struct value *softmax_gain(struct graph *graph, struct value *lse, double z_loss)
{
    return build_shift(graph, build_scale(graph, lse, 2.0 * z_loss), 1.0);
}

/* d loss_sum / d raw logits [C, v]. */
static struct value *logit_gradient(struct graph *graph, struct value *z,
                                    struct value *lse, struct value *is_target,
                                    struct value *weight,
                                    const struct objective *objective)
{
    const double cap = objective->cap;
    struct value *p = shifted_exp(graph, z, lse);
    if (objective->z_loss > 0.0) {
        struct value *gain = softmax_gain(graph, lse, objective->z_loss);
        p = build_mul(graph, p, define_spread(graph, gain, z, &row_axis));
    }
    struct value *wanted = build_cast(graph, is_target, z->type.dtype);
    if (objective->smoothing > 0.0) {
        wanted =
            build_shift(graph, build_scale(graph, wanted, 1.0 - objective->smoothing),
                        objective->smoothing / objective->V);
    }
    struct value *dz = build_sub(graph, p, wanted);
    dz = build_mul(graph, dz, define_spread(graph, weight, z, &row_axis));
    if (cap > 0.0) {
        struct value *t = build_scale(graph, z, 1.0 / cap);
        struct value *slope =
            build_shift(graph, build_scale(graph, build_mul(graph, t, t), -1.0), 1.0);
        dz = build_mul(graph, dz, slope);
    }
    return dz;
}

/* What is added up, per row [C]: the loss itself, or with its further terms. z_sum: the
 * sum of each row's logits, NULL without smoothing.
 * objective = loss + s (z[target] - z_sum / V) + a lse^2 */
static struct value *define_objective(const struct define *define, struct value *loss,
                                      struct value *lse, struct value *at_target,
                                      struct value *z_sum)
{
    struct graph *graph = define->graph;
    const struct objective objective = objective_of(define);
    struct value *full = loss;
    if (objective.smoothing > 0.0) {
        struct value *mean = build_scale(graph, z_sum, 1.0 / objective.V);
        struct value *lead = build_sub(graph, at_target, mean);
        full = build_add(graph, full, build_scale(graph, lead, objective.smoothing));
    }
    if (objective.z_loss > 0.0) {
        struct value *square = build_mul(graph, lse, lse);
        full = build_add(graph, full, build_scale(graph, square, objective.z_loss));
    }
    return full;
}

/* Outputs 0 to 2. Rows of weight 0 are not looked at: whatever they hold, they give
 * zeros. */
static void define_losses(struct define *define, struct value *weight,
                          struct value *lse, struct value *at_target,
                          struct value *z_sum)
{
    struct graph *graph = define->graph;
    struct value *zero = build_scalar(graph, weight->type.dtype, 0.0);
    struct value *counts = build_compare(graph, COMPARE_NE, weight, zero);
    struct value *loss =
        build_select(graph, counts, build_sub(graph, lse, at_target), zero);
    struct value *full = define_objective(define, loss, lse, at_target, z_sum);
    full = full == loss ? loss : build_select(graph, counts, full, zero);
    struct value *weighted = build_mul(graph, define_cast(graph, full, DTYPE_F64),
                                       define_cast(graph, weight, DTYPE_F64));
    define->outputs[0] = build_reduce_sum(graph, weighted, 1, &row_axis);
    define->outputs[1] = loss;
    define->outputs[2] = build_select(graph, counts, lse, zero);
}

/* Output 3: rows dh [C, D] added where they came from; partial where dh is a part of
 * the sum. */
static void define_hidden_gradient(struct define *define, struct value *dh)
{
    struct graph *graph = define->graph;
    struct type type = define->inputs[HIDDEN]->type;
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        if (type.placement.axis[axis].kind == PLACE_SAME &&
            dh->type.placement.axis[axis].kind != PLACE_SAME) {
            type.placement =
                placement_with(type.placement, (enum mesh_axis)axis, PLACE_PARTIAL, 0);
        }
    }
    define->outputs[3] =
        build_scatter_add_rows(graph, build_constant(graph, type, 0.0),
                               define->inputs[LOSS_ROWS], dh, NULL, -1);
}

/* ---- all at once ---- */

/* [C] over axes where the vocabulary is split: what the ranks hold, combined. */
static struct value *combine(struct graph *graph, struct value *x,
                             const struct value *z, enum reduce_kind reduce)
{
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        const struct place place = z->type.placement.axis[axis];
        if (place.kind == PLACE_SPLIT && place.dim == vocabulary_axis) {
            x = build_all_reduce(graph, x, (enum mesh_axis)axis, reduce);
        }
    }
    return x;
}

/* z [C, V] and dz [C, V] exist here, which is why engines have a kernel for the op. */
static void define_whole(struct define *define, struct value *h, struct value *weight)
{
    struct graph *graph = define->graph;
    struct value *table = define->inputs[TABLE];
    const struct objective objective = objective_of(define);
    struct value *z = logits(graph, h, table, objective.cap); /* [C, V] */
    /* [C], like sum and lse. */
    struct value *top = build_reduce_max(graph, z, 1, &vocabulary_axis);
    top = combine(graph, top, z, REDUCE_MAX);
    struct value *sum =
        build_reduce_sum(graph, shifted_exp(graph, z, top), 1, &vocabulary_axis);
    sum = combine(graph, sum, z, REDUCE_SUM);
    struct value *lse = build_add(graph, top, build_log(graph, sum));
    struct value *is_target = target_mask(graph, z, define->inputs[TARGETS], NULL);
    struct value *z_sum = NULL;
    if (objective.smoothing > 0.0) {
        z_sum = build_reduce_sum(graph, z, 1, &vocabulary_axis);
        z_sum = combine(graph, z_sum, z, REDUCE_SUM);
    }
    define_losses(define, weight, lse,
                  combine(graph, target_logit(graph, z, is_target), z, REDUCE_SUM),
                  z_sum);
    if (!define->attributes->with_gradient) {
        return;
    }
    struct value *dz = logit_gradient(graph, z, lse, is_target, weight, &objective);
    dz = define_cast(graph, dz, h->type.dtype);
    define_hidden_gradient(define,
                           build_matmul(graph, dz, table, false, false, h->type.dtype));
    if (define->attributes->freezes_table) {
        return;
    }
    struct value *keep = define->n_inputs > KEEP ? define->inputs[KEEP] : NULL;
    define->outputs[4] =
        define->n_inputs > ACC
            ? build_matmul_into(graph, dz, h, true, false, define->inputs[ACC], keep)
            : build_matmul(graph, dz, h, true, false, weight->type.dtype);
}

/* ---- a part of the vocabulary after the other ---- */

/* Into how many equal parts to cut the vocabulary, at least 2; 0: it cannot be. */
static int64_t n_parts_of(const struct value *table, int64_t C)
{
    for (int axis = 0; axis < MESH_N_AXES; axis++) {
        const struct place place = table->type.placement.axis[axis];
        if (place.kind == PLACE_SPLIT && place.dim == 0) {
            return 0;
        }
    }
    const int64_t V = table->type.shape.dim[0];
    /* The fewest parts that are equal and small enough. */
    for (int64_t n = 2; n < V; n++) {
        if (V % n == 0 && V / n * C <= PART_ELEMENTS) {
            return n;
        }
    }
    return 0;
}

/* One part as the body of a loop sees it. */
struct part {
    struct graph *graph;
    struct value *first;   /* number of its first column */
    struct value *table;   /* [v, D] */
    struct value *h;       /* [C, D] */
    struct value *targets; /* i32 [C] */
    struct value *z;       /* [C, v] */
};

/* The body's arguments behind the carries: the part of the table, h, targets. */
static struct part part_begin(struct graph *body, struct value *iteration,
                              const struct value *parts,
                              struct value *const *invariants, double cap)
{
    const struct type type = type_slice(&parts->type, 1); /* of [n, v, D] */
    const int64_t v = type.shape.dim[0];
    struct part part = {.graph = body};
    part.first = build_scale(body, iteration, (double)v);
    part.table = build_input(body, "table", type);
    part.h = define_argument(body, "h", invariants[0]);
    part.targets = define_argument(body, "targets", invariants[1]);
    part.z = logits(body, part.h, part.table, cap);
    return part;
}

/* Carries: largest logit, sum of exponentials above it, target logit, and with
 * smoothing the sum of logits; all [C]. */
static struct graph *forward_body(const struct mesh *mesh, struct value *const *carries,
                                  int n_carries, const struct value *parts,
                                  struct value *const *invariants, double cap)
{
    struct graph *body = graph_create(mesh);
    struct value *iteration = build_input(body, "iteration", type_scalar(DTYPE_I32));
    struct value *top = define_argument(body, "top", carries[0]);
    struct value *sum = define_argument(body, "sum", carries[1]);
    struct value *at_target = define_argument(body, "at_target", carries[2]);
    struct value *z_sum =
        n_carries > 3 ? define_argument(body, "z_sum", carries[3]) : NULL;
    const struct part part = part_begin(body, iteration, parts, invariants, cap);

    struct value *new_top =
        build_max(body, top, build_reduce_max(body, part.z, 1, &vocabulary_axis));
    struct value *shrink = build_exp(body, build_sub(body, top, new_top));
    struct value *added =
        build_reduce_sum(body, shifted_exp(body, part.z, new_top), 1, &vocabulary_axis);
    struct value *is_target = target_mask(body, part.z, part.targets, part.first);
    graph_add_output(body, "top", new_top, NULL);
    graph_add_output(body, "sum", build_add(body, build_mul(body, sum, shrink), added),
                     NULL);
    graph_add_output(body, "at_target",
                     build_add(body, at_target, target_logit(body, part.z, is_target)),
                     NULL);
    if (z_sum != NULL) {
        struct value *more = build_reduce_sum(body, part.z, 1, &vocabulary_axis);
        graph_add_output(body, "z_sum", build_add(body, z_sum, more), NULL);
    }
    return body;
}

/* Carry: dh [C, D]. Result: the part's rows of d_table [v, D], unless it is frozen. */
static struct graph *backward_body(const struct mesh *mesh,
                                   struct value *const *carries,
                                   const struct value *parts,
                                   struct value *const *invariants,
                                   const struct objective *objective, bool has_table)
{
    struct graph *body = graph_create(mesh);
    struct value *iteration = build_input(body, "iteration", type_scalar(DTYPE_I32));
    struct value *dh = define_argument(body, "dh", carries[0]);
    const struct part part =
        part_begin(body, iteration, parts, invariants, objective->cap);
    struct value *lse = define_argument(body, "lse", invariants[2]);
    struct value *weight = define_argument(body, "weight", invariants[3]);

    struct value *is_target = target_mask(body, part.z, part.targets, part.first);
    struct value *dz = logit_gradient(body, part.z, lse, is_target, weight, objective);
    dz = define_cast(body, dz, part.h->type.dtype);
    struct value *added =
        build_matmul(body, dz, part.table, false, false, dh->type.dtype);
    graph_add_output(body, "dh", build_add(body, dh, added), NULL);
    if (has_table) {
        graph_add_output(
            body, "d_table",
            build_matmul(body, dz, part.h, true, false, weight->type.dtype), NULL);
    }
    return body;
}

/* z is made a second time: keeping it would be the [C, V] array again. */
static void define_part_gradients(struct define *define, int64_t n_parts,
                                  struct value *parts, struct value *const *invariants)
{
    struct graph *graph = define->graph;
    const struct value *h = invariants[0];
    struct type type = h->type;
    type.dtype = define_math_dtype(type.dtype);
    struct value *carry = build_constant(graph, type, 0.0);
    const struct objective objective = objective_of(define);
    const bool has_table = !define->attributes->freezes_table;
    struct graph *body =
        backward_body(&graph->mesh, &carry, parts, invariants, &objective, has_table);
    const struct node *loop = build_repeat(graph, (int)n_parts, body, &carry, 1, &parts,
                                           1, invariants, 4, "gradients");
    define_hidden_gradient(define, define_cast(graph, loop->outputs[0], h->type.dtype));
    if (!has_table) {
        return;
    }
    /* [n, v, D] -> [V, D] */
    struct value *d_table =
        build_reshape(graph, loop->outputs[1], define->inputs[TABLE]->type.shape);
    if (define->n_inputs > ACC) {
        struct value *acc = define->inputs[ACC];
        if (define->n_inputs > KEEP) {
            struct value *zero = build_constant(graph, acc->type, 0.0);
            acc = build_select(graph, define->inputs[KEEP], acc, zero);
        }
        d_table = build_add(graph, acc, define_cast(graph, d_table, acc->type.dtype));
    }
    define->outputs[4] = d_table;
}

/* The running maximum and sum are those of define_attention_tiled.c, over columns. */
static void define_in_parts(struct define *define, int64_t n_parts, struct value *h,
                            struct value *weight)
{
    struct graph *graph = define->graph;
    struct value *table = define->inputs[TABLE];
    const int64_t dims[3] = {n_parts, table->type.shape.dim[0] / n_parts,
                             table->type.shape.dim[1]};
    /* [n, v, D] */
    struct value *parts = build_reshape(graph, table, type_shape(3, dims));
    struct value *carries[4] = {
        build_constant(graph, weight->type, -1e30), /* below all logits */
        build_constant(graph, weight->type, 0.0),
        build_constant(graph, weight->type, 0.0),
        build_constant(graph, weight->type, 0.0),
    };
    const int n_carries = define->attributes->label_smoothing > 0.0 ? 4 : 3;
    struct value *invariants[4] = {h, define->inputs[TARGETS], NULL, weight};
    struct graph *body = forward_body(&graph->mesh, carries, n_carries, parts,
                                      invariants, define->attributes->value);
    const struct node *loop =
        build_repeat(graph, (int)n_parts, body, carries, n_carries, &parts, 1,
                     invariants, 2, "losses");
    struct value *lse =
        build_add(graph, loop->outputs[0], build_log(graph, loop->outputs[1]));
    define_losses(define, weight, lse, loop->outputs[2],
                  n_carries > 3 ? loop->outputs[3] : NULL);
    if (define->attributes->with_gradient) {
        invariants[2] = lse;
        define_part_gradients(define, n_parts, parts, invariants);
    }
}

/* Rows are looked up first: C of N rows carry loss. */
void define_loss_head(struct define *define)
{
    struct graph *graph = define->graph;
    struct value *hidden = define->inputs[HIDDEN]; /* [N, D] */
    struct value *weight = define_cast(graph, define->inputs[WEIGHT],
                                       define_math_dtype(hidden->type.dtype));
    struct value *h =
        build_gather_rows(graph, hidden, define->inputs[LOSS_ROWS], -1); /* [C, D] */
    const int64_t n_parts =
        define->is_tiled ? n_parts_of(define->inputs[TABLE], weight->type.shape.dim[0])
                         : 0;
    if (n_parts > 0) {
        define_in_parts(define, n_parts, h, weight);
    } else {
        define_whole(define, h, weight);
    }
}
