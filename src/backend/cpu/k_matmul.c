/*
 * k_matmul - kernel of matmul: tiles of the result, each one single-threaded product.
 *
 * The grid of tiles is a function of the shapes alone and K is never shared out, so an
 * element is the same sum at any number of threads. Tiles are 512 x 512 where there are
 * enough of them; small results are cut finer, down to what is worth a thread.
 *
 * Products run in f32, or in f64 when an operand is f64. Operands of another dtype are
 * widened on the way in, WIDEN_K columns at a time, into the thread's scratch; a result
 * of another dtype is summed there and rounded once. A few f32 rows times a weight (the
 * decoding of text) are dot products, which read each f32 or bf16 weight once and copy
 * nothing.
 */
#include <string.h>

#include "backend/cpu/gemm.h"
#include "backend/cpu/k_wide.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/native.h"

enum {
    TILE = 512,         /* longest side of a tile */
    SHORTEST_CUT = 128, /* shorter sides are not cut */
    FEW_TILES = 8,      /* an odd number of them is uneven for two threads */
    MAX_TILES = 64,     /* more are not asked for, only given by TILE */
    SIDE_MULTIPLE = 16, /* of the inner kernels' rows and columns */
    WIDEN_K = 1024,
    MAX_DOT_ROWS = 16,    /* results this low are dot products with a bf16 weight, */
    MAX_DOT_ROWS_F32 = 4, /* or with an f32 one: packing and widening cost more */
    DOT_COLUMNS = 64,     /* of sums at a time that go into an accumulator */
};

/* Costs are in FLOPs; reading an element of an operand counts as 16. Tiles of the first
 * kind are as fast as larger ones (256 x 160 x 640 is 50 MFLOP); the smaller ones lose
 * a tenth and are made only up to FEW_TILES; below the last, waking a thread costs
 * more. */
static const double read_cost = 16.0;
static const double full_tile_cost = 160e6;
static const double small_tile_cost = 40e6;
static const double worth_cutting = 8e6;

struct grid {
    int64_t n_batches, m, n, k;
    int64_t tile_m, tile_n;   /* sides */
    int64_t tiles_m, tiles_n; /* counts */
};

/* ---- the grid ---- */

/* cost = K (2 M N + 16 (M + N)) of one tile. */
static double tile_cost(const struct grid *grid)
{
    const double m = (double)grid->tile_m;
    const double n = (double)grid->tile_n;
    return (double)grid->k * (2.0 * m * n + read_cost * (m + n));
}

/* Sides for at least these counts, rounded up for the inner kernels; then the counts
 * that come of it. */
static void set_counts(struct grid *grid, int64_t tiles_m, int64_t tiles_n)
{
    grid->tile_m = base_div_up(grid->m, tiles_m);
    grid->tile_n = base_div_up(grid->n, tiles_n);
    if (tiles_m > 1) {
        grid->tile_m = base_round_up(grid->tile_m, SIDE_MULTIPLE);
    }
    if (tiles_n > 1) {
        grid->tile_n = base_round_up(grid->tile_n, SIDE_MULTIPLE);
    }
    grid->tiles_m = base_div_up(grid->m, grid->tile_m);
    grid->tiles_n = base_div_up(grid->n, grid->tile_n);
}

/* Tiles of all batches; each is a task. */
static int64_t count_tiles(const struct grid *grid)
{
    return grid->n_batches * grid->tiles_m * grid->tiles_n;
}

/* How many tiles the product is worth. At least 2, so that a second thread has
 * something to do. */
static int64_t wanted_tiles(const struct grid *grid)
{
    const struct grid whole = {.k = grid->k, .tile_m = grid->m, .tile_n = grid->n};
    const double cost = (double)grid->n_batches * tile_cost(&whole);
    const int64_t full = base_min(MAX_TILES, (int64_t)(cost / full_tile_cost));
    const int64_t small = base_min(FEW_TILES, (int64_t)(cost / small_tile_cost));
    return base_max(2, base_max(full, small));
}

/* Cuts the longer side in two while tiles are few and dear. An odd number of few tiles
 * would leave one of two threads waiting, so then one more is cut. */
static void choose_tiles(struct grid *grid)
{
    const int64_t wanted = wanted_tiles(grid);
    int64_t tiles_m = base_div_up(grid->m, TILE);
    int64_t tiles_n = base_div_up(grid->n, TILE);
    set_counts(grid, tiles_m, tiles_n);
    while (tile_cost(grid) > worth_cutting &&
           base_max(grid->tile_m, grid->tile_n) > SHORTEST_CUT) {
        const int64_t count = count_tiles(grid);
        const bool is_odd = count < 2 * FEW_TILES && count % 2 == 1;
        const bool is_few = 2 * count <= wanted;
        if (!is_few && !is_odd) {
            break;
        }
        int64_t *longer = grid->tile_m > grid->tile_n ? &tiles_m : &tiles_n;
        *longer = is_few ? *longer * 2 : *longer + 1;
        set_counts(grid, tiles_m, tiles_n);
    }
}

/* Everything from shapes and transposes, nothing from the machine. a [..., M, K], b
 * [..., K, N] -> c [..., M, N]. */
static struct grid make_grid(const struct node *node)
{
    const struct attributes *attributes = &node->attributes;
    const struct shape *a = &node->inputs[0]->type.shape;
    const struct shape *c = &node->outputs[0]->type.shape;
    struct grid grid = {
        .m = c->dim[c->rank - 2],
        .n = c->dim[c->rank - 1],
        .k = a->dim[a->rank - (attributes->transpose_a ? 2 : 1)],
    };
    grid.n_batches = type_shape_elements(c) / (grid.m * grid.n);
    choose_tiles(&grid);
    return grid;
}

/* ---- one tile ---- */

/* An operand or the result: where its tile is. Element (i, j) of the tile, in the order
 * of memory, is at data + i * stride + j. */
struct block {
    unsigned char *data;
    enum dtype dtype;
    int64_t stride;
};

/* Address of element `index` from the block's first. */
static unsigned char *at(const struct block *block, int64_t index)
{
    return block->data + index * (int64_t)dtype_bytes(block->dtype);
}

/* One tile's work, with everything that both paths below need. */
struct tile {
    const struct kernel_call *call;
    bool transpose_a, transpose_b;
    int64_t m, n, k;
    struct block a, b, c; /* a and b at their first k */
    bool accumulates;
};

/* Tasks count columns of tiles fastest, so neighbours in time share rows of a. A
 * transposed operand lies with K running down: its tile begins at a column, not at a
 * row. */
static struct tile make_tile(const struct kernel_call *call, int local_rank,
                             const struct grid *grid, int64_t task)
{
    const struct node *node = call->node;
    const struct kernel_rank *rank = &call->ranks[local_rank];
    const int64_t column = task % grid->tiles_n * grid->tile_n;
    const int64_t row = task / grid->tiles_n % grid->tiles_m * grid->tile_m;
    const int64_t batch = task / grid->tiles_n / grid->tiles_m;
    struct tile tile = {
        .call = call,
        .transpose_a = node->attributes.transpose_a,
        .transpose_b = node->attributes.transpose_b,
        .m = base_min(grid->tile_m, grid->m - row),
        .n = base_min(grid->tile_n, grid->n - column),
        .k = grid->k,
    };
    tile.a = (struct block){rank->inputs[0], node->inputs[0]->type.dtype,
                            tile.transpose_a ? grid->m : grid->k};
    tile.b = (struct block){rank->inputs[1], node->inputs[1]->type.dtype,
                            tile.transpose_b ? grid->k : grid->n};
    tile.c = (struct block){rank->outputs[0], node->outputs[0]->type.dtype, grid->n};
    tile.a.data = at(&tile.a, batch * grid->m * grid->k +
                                  (tile.transpose_a ? row : row * grid->k));
    tile.b.data = at(&tile.b, batch * grid->k * grid->n +
                                  (tile.transpose_b ? column * grid->k : column));
    tile.c.data = at(&tile.c, (batch * grid->m + row) * grid->n + column);
    if (node->n_inputs >= 3) {
        tile.accumulates = node->n_inputs < 4 || *(const uint8_t *)rank->inputs[3] != 0;
    }
    return tile;
}

/* c (+)= a . b over k of the inner dimension; all blocks are of one type, f32 or
 * f64. */
static void multiply(const struct tile *tile, const struct block *a,
                     const struct block *b, const struct block *c, int64_t k,
                     bool accumulates)
{
    const struct gemm *gemm = tile->call->gemm;
    if (c->dtype == DTYPE_F64) {
        gemm->f64(tile->transpose_a, tile->transpose_b, tile->m, tile->n, k,
                  (const double *)(const void *)a->data, a->stride,
                  (const double *)(const void *)b->data, b->stride, accumulates,
                  (double *)(void *)c->data, c->stride);
    } else {
        gemm->f32(tile->transpose_a, tile->transpose_b, tile->m, tile->n, k,
                  (const float *)(const void *)a->data, a->stride,
                  (const float *)(const void *)b->data, b->stride, accumulates,
                  (float *)(void *)c->data, c->stride);
    }
}

/* n_rows x n_columns elements from one block to another, with the dtypes of both. */
static void convert(const struct native *native, const struct block *from,
                    const struct block *to, int64_t n_rows, int64_t n_columns)
{
    for (int64_t i = 0; i < n_rows; i++) {
        wide_convert(native, from->dtype, at(from, i * from->stride), to->dtype,
                     at(to, i * to->stride), n_columns);
    }
}

/* The part of an operand from k0 on, in dtype `real`: itself, or widened to `scratch`.
 * k_runs_down: the k dimension is the slow one in memory (a transposed, b not); then
 * the part has n_k rows of `side` elements, else `side` rows of n_k. The widened copy
 * has the same orientation, packed. */
static struct block widen(const struct native *native, const struct block *operand,
                          bool k_runs_down, int64_t side, int64_t k0, int64_t n_k,
                          enum dtype real, unsigned char *scratch)
{
    struct block part = *operand;
    part.data = at(operand, k_runs_down ? k0 * operand->stride : k0);
    if (operand->dtype == real) {
        return part;
    }
    const struct block widened = {scratch, real, k_runs_down ? side : n_k};
    convert(native, &part, &widened, k_runs_down ? n_k : side,
            k_runs_down ? side : n_k);
    return widened;
}

/* The type that is multiplied in. */
static enum dtype real_of(const struct node *node)
{
    return node->inputs[0]->type.dtype == DTYPE_F64 ||
                   node->inputs[1]->type.dtype == DTYPE_F64
               ? DTYPE_F64
               : DTYPE_F32;
}

/* Scratch of a thread: widened parts of a and b, then the sums of the tile. */
struct layout {
    size_t a_bytes, b_bytes, c_bytes; /* 0: not needed */
    int64_t k_step;
};

/* Sizes are for the largest tile, so one scratch serves all. Without widened operands
 * there is one step of the whole K. */
static struct layout make_layout(const struct node *node, const struct grid *grid)
{
    const enum dtype real = real_of(node);
    const size_t size = dtype_bytes(real);
    struct layout layout = {.k_step = grid->k};
    const bool widens_a = node->inputs[0]->type.dtype != real;
    const bool widens_b = node->inputs[1]->type.dtype != real;
    if (widens_a || widens_b) {
        layout.k_step = base_min(grid->k, WIDEN_K);
    }
    if (widens_a) {
        layout.a_bytes = (size_t)(grid->tile_m * layout.k_step) * size;
    }
    if (widens_b) {
        layout.b_bytes = (size_t)(grid->tile_n * layout.k_step) * size;
    }
    if (node->outputs[0]->type.dtype != real) {
        layout.c_bytes = (size_t)(grid->tile_m * grid->tile_n) * size;
    }
    return layout;
}

/* The tile in steps of k: widen, multiply, add; the sums are rounded at the end. k_step
 * is fixed, so the order of the sum is too. */
static void run_widened(const struct tile *tile, const struct layout *layout,
                        enum dtype real, unsigned char *scratch)
{
    const struct native *native = tile->call->native;
    unsigned char *a_scratch = scratch;
    unsigned char *b_scratch = scratch + layout->a_bytes;
    const bool widens_c = layout->c_bytes > 0;
    const struct block sums = {b_scratch + layout->b_bytes, real, tile->n};
    const struct block *c = widens_c ? &sums : &tile->c;
    if (widens_c && tile->accumulates) {
        convert(native, &tile->c, &sums, tile->m, tile->n);
    }
    for (int64_t k0 = 0; k0 < tile->k; k0 += layout->k_step) {
        const int64_t n_k = base_min(layout->k_step, tile->k - k0);
        const struct block a = widen(native, &tile->a, tile->transpose_a, tile->m, k0,
                                     n_k, real, a_scratch);
        const struct block b = widen(native, &tile->b, !tile->transpose_b, tile->n, k0,
                                     n_k, real, b_scratch);
        multiply(tile, &a, &b, c, n_k, tile->accumulates || k0 > 0);
    }
    if (widens_c) {
        convert(native, &sums, &tile->c, tile->m, tile->n);
    }
}

/* A few rows times a weight [N, K]: each weight is read once, packed never. Decided by
 * the whole product, not by the tile, so all tiles of one product go the same way. */
static bool is_dots(const struct node *node, const struct grid *grid)
{
    const enum dtype weight = node->inputs[1]->type.dtype;
    const int64_t most = weight == DTYPE_BF16 ? MAX_DOT_ROWS : MAX_DOT_ROWS_F32;
    return grid->m <= most && node->attributes.transpose_b &&
           !node->attributes.transpose_a &&
           (weight == DTYPE_BF16 || weight == DTYPE_F32) &&
           node->inputs[0]->type.dtype == DTYPE_F32 &&
           node->outputs[0]->type.dtype == DTYPE_F32;
}

/* y[i][j] = a[i] . b[column + j] for n columns of the tile, in rows of `stride`. */
static void make_dots(const struct tile *tile, int64_t column, int64_t n, float *y,
                      int64_t stride)
{
    const struct native *native = tile->call->native;
    const float *a = (const float *)(const void *)tile->a.data;
    const void *b = at(&tile->b, column * tile->b.stride);
    if (tile->b.dtype == DTYPE_BF16) {
        native->dots_bf16(a, tile->a.stride, tile->m, b, tile->b.stride, n, tile->k, y,
                          stride);
    } else {
        native->dots_f32(a, tile->a.stride, tile->m, b, tile->b.stride, n, tile->k, y,
                         stride);
    }
}

/* c[i][j] (+)= a[i] . b[j] */
static void run_dots(const struct tile *tile)
{
    float *c = (float *)(void *)tile->c.data;
    if (!tile->accumulates) {
        make_dots(tile, 0, tile->n, c, tile->c.stride);
        return;
    }
    float sums[MAX_DOT_ROWS * DOT_COLUMNS];
    for (int64_t j = 0; j < tile->n; j += DOT_COLUMNS) {
        const int64_t n = base_min(DOT_COLUMNS, tile->n - j);
        make_dots(tile, j, n, sums, DOT_COLUMNS);
        for (int64_t i = 0; i < tile->m; i++) {
            tile->call->native->row_axpy(1.0F, sums + i * DOT_COLUMNS, n,
                                         c + i * tile->c.stride + j);
        }
    }
}

/* The grid is made anew by each task, from shapes. */
static void run(const struct kernel_call *call, int local_rank, int phase, int64_t task,
                void *thread_scratch)
{
    (void)phase;
    const struct grid grid = make_grid(call->node);
    const struct layout layout = make_layout(call->node, &grid);
    const struct tile tile = make_tile(call, local_rank, &grid, task);
    if (is_dots(call->node, &grid)) {
        run_dots(&tile);
    } else if (layout.a_bytes + layout.b_bytes + layout.c_bytes > 0) {
        run_widened(&tile, &layout, real_of(call->node), thread_scratch);
    } else {
        multiply(&tile, &tile.a, &tile.b, &tile.c, tile.k, tile.accumulates);
    }
}

/* What the largest tile widens. */
static size_t thread_bytes(const struct node *node)
{
    const struct grid grid = make_grid(node);
    const struct layout layout = make_layout(node, &grid);
    return layout.a_bytes + layout.b_bytes + layout.c_bytes;
}

static int64_t n_tasks(const struct node *node, int phase, size_t loss_head_bytes)
{
    (void)phase;
    (void)loss_head_bytes;
    const struct grid grid = make_grid(node);
    return count_tiles(&grid);
}

const struct kernel kernel_matmul = {
    .thread_bytes = thread_bytes, .n_tasks = n_tasks, .run = run};
