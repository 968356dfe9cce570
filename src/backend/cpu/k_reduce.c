/*
 * k_reduce - kernels of reduce_sum and reduce_max over any set of dimensions.
 *
 * All sums run in f64 and are rounded once, so they are as exact as their operands.
 *
 * Dimensions are merged into alternating groups of kept and reduced ones. The innermost
 * group is walked as runs: a reduced run becomes one number, a kept run adds to a row
 * of accumulators. The runs of one result are taken in order; where there are few
 * results and many runs, they are cut into parts whose sums are added in order in a
 * second phase. The cut depends on shapes only.
 */
#include <math.h>
#include <string.h>

#include "backend/cpu/kernel.h"
#include "backend/cpu/plain.h"

enum {
    RUN = 1024,       /* longest run handled at once; accumulators on the stack */
    LANES = 8,        /* interleaved sums of a reduced run */
    MAX_PARTS = 64,   /* of the runs of one result */
    FEW_RESULTS = 32, /* tasks that a first phase without parts must have */
};

/* Dimensions of one kind, outermost first, with strides in elements of the operand. */
struct walk {
    int n;
    int64_t length[SHAPE_MAX_RANK + 1], stride[SHAPE_MAX_RANK + 1];
    int64_t total; /* product of the lengths */
};

struct plan_of_reduce {
    struct walk kept, reduced; /* without the inner runs */
    int64_t inner;             /* length of the innermost group */
    bool inner_is_reduced;
    int64_t n_results;
    /* Tasks of the first phase: (block of results) x (part of the reduced walk). */
    int64_t results_per_task, result_tasks;
    int64_t n_parts, units_per_part;
    int64_t n_units; /* steps of the reduced walk for one result: runs of at most RUN */
};

/* ---- from shapes to walks and parts ---- */

/* Dimensions are pushed outermost first. */
static void push(struct walk *walk, int64_t length, int64_t stride)
{
    walk->length[walk->n] = length;
    walk->stride[walk->n] = stride;
    walk->n++;
    walk->total *= length;
}

/* Offset of step `index` of the walk. The last dimension runs fastest: offset = sum
 * over dimensions of index * stride. */
static int64_t offset_at(const struct walk *walk, int64_t index)
{
    int64_t offset = 0;
    for (int i = walk->n - 1; i >= 0; i--) {
        offset += index % walk->length[i] * walk->stride[i];
        index /= walk->length[i];
    }
    return offset;
}

/* Axes are listed in no particular order. */
static bool is_reduced_axis(const struct attributes *attributes, int axis)
{
    for (int i = 0; i < attributes->n_axes; i++) {
        if (attributes->axes[i] == axis) {
            return true;
        }
    }
    return false;
}

/* Merges dimensions from the innermost outward: first the inner run, then the walks.
 * [2, 3, 4, 5] reduced over the middle two is kept 2, reduced 12, inner run 5 (kept).
 * Dimensions of length 1 are of either kind and left out. */
static void find_walks(const struct node *node, struct plan_of_reduce *plan)
{
    const struct shape *x = &node->inputs[0]->type.shape;
    struct {
        int64_t length;
        bool is_reduced;
    } groups[SHAPE_MAX_RANK];
    int n = 0;
    for (int i = 0; i < x->rank; i++) {
        const bool is_reduced = is_reduced_axis(&node->attributes, i);
        if (x->dim[i] == 1) {
            continue;
        }
        if (n > 0 && groups[n - 1].is_reduced == is_reduced) {
            groups[n - 1].length *= x->dim[i];
        } else {
            groups[n].length = x->dim[i];
            groups[n++].is_reduced = is_reduced;
        }
    }
    plan->kept.total = 1;
    plan->reduced.total = 1;
    plan->inner = n > 0 ? groups[n - 1].length : 1;
    plan->inner_is_reduced = n > 0 && groups[n - 1].is_reduced;
    int64_t stride = type_shape_elements(x);
    for (int i = 0; i + 1 < n; i++) {
        stride /= groups[i].length;
        push(groups[i].is_reduced ? &plan->reduced : &plan->kept, groups[i].length,
             stride);
    }
}

/* Costs a few hundred instructions, so tasks make it anew rather than pass it on. A
 * unit is one run of one result (inner reduced: at most RUN elements of it); parts are
 * whole units. */
static struct plan_of_reduce make_plan(const struct node *node)
{
    struct plan_of_reduce plan = {0};
    find_walks(node, &plan);
    int64_t work_per_result; /* elements */
    if (plan.inner_is_reduced) {
        plan.n_units = plan.reduced.total * base_div_up(plan.inner, RUN);
        plan.n_results = plan.kept.total;
        work_per_result = plan.reduced.total * plan.inner;
        plan.results_per_task = base_max(1, KERNEL_CHUNK / work_per_result);
        plan.result_tasks = base_div_up(plan.n_results, plan.results_per_task);
    } else {
        /* A task is a block of at most RUN columns of one kept row. */
        plan.n_units = plan.reduced.total;
        plan.n_results = plan.kept.total * plan.inner;
        work_per_result = plan.reduced.total;
        plan.results_per_task = base_min(plan.inner, RUN);
        plan.result_tasks =
            plan.kept.total * base_div_up(plan.inner, plan.results_per_task);
    }
    const int64_t total_work = work_per_result * plan.n_results;
    plan.n_parts = 1;
    if (plan.result_tasks < FEW_RESULTS) {
        const int64_t wanted = total_work / KERNEL_CHUNK / plan.result_tasks;
        plan.n_parts = base_max(1, base_min(base_min(wanted, MAX_PARTS), plan.n_units));
    }
    plan.units_per_part = base_div_up(plan.n_units, plan.n_parts);
    plan.n_parts = base_div_up(plan.n_units, plan.units_per_part);
    return plan;
}

/* ---- loops over one type ---- */

/* Loops over a run of one type. Reduced runs: LANES interleaved partial results, joined
 * in order at the end. */
#define RUNS(TYPE, suffix)                                                 \
    static double sum_run_##suffix(const void *data, int64_t n)            \
    {                                                                      \
        const TYPE *x = data;                                              \
        double lanes[LANES] = {0};                                         \
        int64_t i = 0;                                                     \
        for (; i + LANES <= n; i += LANES) {                               \
            for (int lane = 0; lane < LANES; lane++) {                     \
                lanes[lane] += (double)x[i + lane];                        \
            }                                                              \
        }                                                                  \
        double sum = 0.0;                                                  \
        for (; i < n; i++) {                                               \
            sum += (double)x[i];                                           \
        }                                                                  \
        for (int lane = 0; lane < LANES; lane++) {                         \
            sum += lanes[lane];                                            \
        }                                                                  \
        return sum;                                                        \
    }                                                                      \
    static double max_run_##suffix(const void *data, int64_t n)            \
    {                                                                      \
        const TYPE *x = data;                                              \
        double most = -(double)INFINITY;                                   \
        for (int64_t i = 0; i < n; i++) {                                  \
            most = larger((double)x[i], most);                             \
        }                                                                  \
        return most;                                                       \
    }                                                                      \
    static void sum_row_##suffix(const void *data, int64_t n, double *row) \
    {                                                                      \
        const TYPE *x = data;                                              \
        for (int64_t i = 0; i < n; i++) {                                  \
            row[i] += (double)x[i];                                        \
        }                                                                  \
    }                                                                      \
    static void max_row_##suffix(const void *data, int64_t n, double *row) \
    {                                                                      \
        const TYPE *x = data;                                              \
        for (int64_t i = 0; i < n; i++) {                                  \
            row[i] = larger((double)x[i], row[i]);                         \
        }                                                                  \
    }

/* NaN if one of them is. `most` stays where it is NaN, since no comparison with it
 * holds. */
static double larger(double x, double most)
{
    return x > most || isnan(x) ? x : most;
}

RUNS(double, f64)
RUNS(float, f32)
RUNS(int64_t, i64)
RUNS(int32_t, i32)
RUNS(uint32_t, u32)
RUNS(uint8_t, u8)

/* The loops of a dtype; those of bf16 and f16 read widened runs. */
struct runs {
    double (*run[2])(const void *data, int64_t n); /* sum, max */
    void (*row[2])(const void *data, int64_t n, double *row);
};

#define RUNS_ROW(suffix)                                                            \
    {                                                                               \
        {sum_run_##suffix, max_run_##suffix}, {sum_row_##suffix, max_row_##suffix}, \
    }

static const struct runs runs_of[DTYPE_COUNT] = {
    [DTYPE_F64] = RUNS_ROW(f64),  [DTYPE_F32] = RUNS_ROW(f32),
    [DTYPE_BF16] = RUNS_ROW(f32), [DTYPE_F16] = RUNS_ROW(f32),
    [DTYPE_I64] = RUNS_ROW(i64),  [DTYPE_I32] = RUNS_ROW(i32),
    [DTYPE_U32] = RUNS_ROW(u32),  [DTYPE_U8] = RUNS_ROW(u8),
    [DTYPE_BOOL] = RUNS_ROW(u8),
};

/* ---- phases ---- */

/* The operand while a task walks it. */
struct source {
    const unsigned char *data;
    enum dtype dtype;
    int is_max; /* index into struct runs */
    float widened[RUN];
};

/* n elements from `offset` on, bf16 and f16 as f32. The buffer is the task's own, on
 * its stack. */
static const void *read_run(struct source *source, int64_t offset, int64_t n)
{
    const void *data = source->data + (size_t)offset * dtype_bytes(source->dtype);
    if (!plain_is_widened(source->dtype)) {
        return data;
    }
    dtype_to_f32(source->dtype, data, source->widened, (size_t)n);
    return source->widened;
}

/* Two partial results, the earlier one first. */
static double join(int is_max, double a, double b)
{
    return is_max ? larger(b, a) : a + b;
}

/* Units first .. end of result number `result`, whose runs are reduced. Units count
 * blocks of a run fastest, then the reduced walk. */
static double reduce_runs(const struct plan_of_reduce *plan, struct source *source,
                          int64_t result, int64_t first, int64_t end)
{
    const int64_t base = offset_at(&plan->kept, result);
    const int64_t blocks = base_div_up(plan->inner, RUN);
    double total = source->is_max ? -(double)INFINITY : 0.0;
    for (int64_t unit = first; unit < end; unit++) {
        const int64_t start = unit % blocks * RUN;
        const int64_t n = base_min(RUN, plan->inner - start);
        const int64_t offset = base + offset_at(&plan->reduced, unit / blocks) + start;
        const void *run = read_run(source, offset, n);
        total = join(source->is_max, total,
                     runs_of[source->dtype].run[source->is_max](run, n));
    }
    return total;
}

/* Writes n results, from number `index` on, in the dtype of the node. The one
 * rounding. */
static void store(const struct kernel_call *call, int local_rank, int64_t index,
                  const double *values, int64_t n)
{
    const enum dtype dtype = call->node->outputs[0]->type.dtype;
    unsigned char *result = call->ranks[local_rank].outputs[0];
    plain_cast(DTYPE_F64, values, dtype, result + (size_t)index * dtype_bytes(dtype),
               n);
}

/* First phase: partial results of one block of results and one part of their runs, into
 * `row`; returns how many, *index is the number of the first. Kept runs: row[i]
 * collects column i over all units; the accumulators are doubles on the stack. */
static int64_t reduce_block(const struct plan_of_reduce *plan, struct source *source,
                            int64_t block, int64_t part, double *row, int64_t *index)
{
    const int64_t first = part * plan->units_per_part;
    const int64_t end = base_min(first + plan->units_per_part, plan->n_units);
    if (plan->inner_is_reduced) {
        *index = block;
        row[0] = reduce_runs(plan, source, block, first, end);
        return 1;
    }
    const int64_t blocks = base_div_up(plan->inner, plan->results_per_task);
    const int64_t column = block % blocks * plan->results_per_task;
    const int64_t n = base_min(plan->results_per_task, plan->inner - column);
    const int64_t base = offset_at(&plan->kept, block / blocks) + column;
    for (int64_t i = 0; i < n; i++) {
        row[i] = source->is_max ? -(double)INFINITY : 0.0;
    }
    for (int64_t unit = first; unit < end; unit++) {
        const void *run = read_run(source, base + offset_at(&plan->reduced, unit), n);
        runs_of[source->dtype].row[source->is_max](run, n, row);
    }
    *index = block / blocks * plan->inner + column;
    return n;
}

/* One task of the first phase. Without parts its results are final. Partial results go
 * to scratch [n_parts, n_results], where each has its own place. */
static void run_parts(const struct kernel_call *call, int local_rank,
                      const struct plan_of_reduce *plan, int64_t task)
{
    struct source source = {
        .data = call->ranks[local_rank].inputs[0],
        .dtype = call->node->inputs[0]->type.dtype,
        .is_max = call->node->op == OP_REDUCE_MAX,
    };
    const int64_t part = task % plan->n_parts;
    const int64_t block = task / plan->n_parts;
    /* With reduced runs a task has several results, each a block of its own. */
    const int64_t per_task = plan->inner_is_reduced ? plan->results_per_task : 1;
    const int64_t first = block * per_task;
    const int64_t n_blocks =
        plan->inner_is_reduced ? plan->n_results : plan->result_tasks;
    for (int64_t i = first; i < base_min(first + per_task, n_blocks); i++) {
        double row[RUN];
        int64_t index;
        const int64_t n = reduce_block(plan, &source, i, part, row, &index);
        if (plan->n_parts == 1) {
            store(call, local_rank, index, row, n);
        } else {
            double *partial = call->ranks[local_rank].scratch;
            memcpy(partial + part * plan->n_results + index, row,
                   (size_t)n * sizeof(*row));
        }
    }
}

/* Second phase: the parts of each result, in order. Part 0 first, then the others one
 * after the other: a fixed order. */
static void join_parts(const struct kernel_call *call, int local_rank,
                       const struct plan_of_reduce *plan, int64_t task)
{
    const int is_max = call->node->op == OP_REDUCE_MAX;
    const double *partial = call->ranks[local_rank].scratch;
    const int64_t start = task * RUN;
    const int64_t n = base_min(RUN, plan->n_results - start);
    double row[RUN];
    memcpy(row, partial + start, (size_t)n * sizeof(*row));
    for (int64_t part = 1; part < plan->n_parts; part++) {
        const double *from = partial + part * plan->n_results + start;
        for (int64_t i = 0; i < n; i++) {
            row[i] = join(is_max, row[i], from[i]);
        }
    }
    store(call, local_rank, start, row, n);
}

/* Partial results in f64, [n_parts, n_results]. */
static size_t scratch_bytes(const struct node *node, size_t loss_head_bytes)
{
    (void)loss_head_bytes;
    const struct plan_of_reduce plan = make_plan(node);
    return plan.n_parts == 1 ? 0
                             : (size_t)(plan.n_parts * plan.n_results) * sizeof(double);
}

/* The second phase exists only where there are parts to join. */
static int n_phases(const struct node *node, size_t loss_head_bytes)
{
    return scratch_bytes(node, loss_head_bytes) == 0 ? 1 : 2;
}

/* Parts are a further dimension of the first grid. */
static int64_t n_tasks(const struct node *node, int phase, size_t loss_head_bytes)
{
    (void)loss_head_bytes;
    const struct plan_of_reduce plan = make_plan(node);
    return phase == 0 ? plan.result_tasks * plan.n_parts
                      : base_div_up(plan.n_results, RUN);
}

static void run(const struct kernel_call *call, int local_rank, int phase, int64_t task,
                void *thread_scratch)
{
    (void)thread_scratch;
    const struct plan_of_reduce plan = make_plan(call->node);
    if (phase == 0) {
        run_parts(call, local_rank, &plan, task);
    } else {
        join_parts(call, local_rank, &plan, task);
    }
}

const struct kernel kernel_reduce_sum = {.scratch_bytes = scratch_bytes,
                                         .n_phases = n_phases,
                                         .n_tasks = n_tasks,
                                         .run = run};
const struct kernel kernel_reduce_max = {.scratch_bytes = scratch_bytes,
                                         .n_phases = n_phases,
                                         .n_tasks = n_tasks,
                                         .run = run};
