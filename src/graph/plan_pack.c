/*
 * plan_pack - place buffers one by one, each where it fits best among those it lives
 * with.
 *
 * For any solution, placing its buffers from the lowest to the highest, each as low as
 * it can go, gives one that is no larger. So some order with lowest-fit placing is
 * optimal: for few buffers all orders are tried, cut off where they cannot win.
 */
#include "graph/plan_pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Buffers placed so far, by ascending offset. */
struct placed {
    const struct plan_pack_item **items; /* [n], room for all */
    int n;
};

/* Both ends included: a node's operands and results are alive at once. */
static bool lives_with(const struct plan_pack_item *a, const struct plan_pack_item *b)
{
    return a->start <= b->end && b->start <= a->end;
}

/* The lowest gap that is large enough, or the tightest one (best fit). */
static size_t find_offset(const struct placed *placed,
                          const struct plan_pack_item *item, bool tightest)
{
    size_t free_from = 0;
    size_t best = SIZE_MAX, best_gap = SIZE_MAX;
    for (int i = 0; i < placed->n; i++) {
        const struct plan_pack_item *other = placed->items[i];
        if (!lives_with(item, other)) {
            continue;
        }
        /* Between free_from and here no buffer lives at the same time. */
        if (other->offset >= free_from + item->bytes) {
            const size_t gap = other->offset - free_from;
            if (!tightest) {
                return free_from;
            }
            if (gap < best_gap) {
                best_gap = gap;
                best = free_from;
            }
        }
        if (other->offset + other->bytes > free_from) {
            free_from = other->offset + other->bytes;
        }
    }
    return best != SIZE_MAX ? best : free_from;
}

/* Keeps the order by offset, which find_offset walks along. */
static void insert(struct placed *placed, const struct plan_pack_item *item)
{
    int i = placed->n++;
    for (; i > 0 && placed->items[i - 1]->offset > item->offset; i--) {
        placed->items[i] = placed->items[i - 1];
    }
    placed->items[i] = item;
}

/* Places all in this order; returns the size. */
static size_t place_all(struct plan_pack_item **order, int n, bool tightest,
                        struct placed *placed)
{
    size_t size = 0;
    placed->n = 0;
    for (int i = 0; i < n; i++) {
        struct plan_pack_item *item = order[i];
        item->offset = item->bytes > 0 ? find_offset(placed, item, tightest) : 0;
        if (item->bytes > 0) {
            insert(placed, item);
        }
        if (item->offset + item->bytes > size) {
            size = item->offset + item->bytes;
        }
    }
    return size;
}

/* ---- orders ---- */

/* Ties are broken by start and address, so that every sort has one result. */
static int compare_rest(const struct plan_pack_item *a, const struct plan_pack_item *b)
{
    if (a->start != b->start) {
        return a->start < b->start ? -1 : 1;
    }
    return a < b ? -1 : a > b;
}

static int by_bytes(const void *left, const void *right)
{
    const struct plan_pack_item *a = *(struct plan_pack_item *const *)left;
    const struct plan_pack_item *b = *(struct plan_pack_item *const *)right;
    if (a->bytes != b->bytes) {
        return a->bytes > b->bytes ? -1 : 1;
    }
    return compare_rest(a, b);
}

static int by_start(const void *left, const void *right)
{
    return compare_rest(*(struct plan_pack_item *const *)left,
                        *(struct plan_pack_item *const *)right);
}

/* Bytes times duration: what a buffer takes of the arena in both directions. */
static double area(const struct plan_pack_item *item)
{
    return (double)item->bytes * (item->end - item->start + 1);
}

static int by_area(const void *left, const void *right)
{
    const struct plan_pack_item *a = *(struct plan_pack_item *const *)left;
    const struct plan_pack_item *b = *(struct plan_pack_item *const *)right;
    if (area(a) < area(b) || area(a) > area(b)) {
        return area(a) > area(b) ? -1 : 1;
    }
    return compare_rest(a, b);
}

static int by_duration(const void *left, const void *right)
{
    const struct plan_pack_item *a = *(struct plan_pack_item *const *)left;
    const struct plan_pack_item *b = *(struct plan_pack_item *const *)right;
    if (a->end - a->start != b->end - b->start) {
        return a->end - a->start > b->end - b->start ? -1 : 1;
    }
    return compare_rest(a, b);
}

/* ---- search ---- */

struct search {
    struct plan_pack_item *items;
    int n;
    struct plan_pack_item **order;      /* the order being tried */
    struct plan_pack_item **best_order; /* the order that gave `best` */
    size_t *best_offsets;               /* by item */
    size_t best, bound;   /* size of the best arena so far, and the least possible */
    struct placed placed; /* scratch of place_all */
};

/* Offsets and order are copied: the next try overwrites both. */
static void keep_if_better(struct search *s, size_t size)
{
    if (size >= s->best) {
        return;
    }
    s->best = size;
    for (int i = 0; i < s->n; i++) {
        s->best_offsets[i] = s->items[i].offset;
        s->best_order[i] = s->order[i];
    }
}

/* With both ways of choosing a gap, until one reaches the bound. */
static void try_sorted(struct search *s, int (*compare)(const void *, const void *))
{
    for (int tightest = 0; tightest < 2 && s->best > s->bound; tightest++) {
        for (int i = 0; i < s->n; i++) {
            s->order[i] = &s->items[i];
        }
        qsort(s->order, (size_t)s->n, sizeof(*s->order), compare);
        keep_if_better(s, place_all(s->order, s->n, tightest != 0, &s->placed));
    }
}

/* All orders that start with order[0 .. n_fixed), which are placed and reach `size`. */
static void try_all_orders(struct search *s, int n_fixed, size_t size)
{
    if (n_fixed == s->n) {
        keep_if_better(s, size);
        return;
    }
    for (int i = n_fixed; i < s->n && s->best > s->bound; i++) {
        struct plan_pack_item *item = s->order[i];
        s->order[i] = s->order[n_fixed];
        s->order[n_fixed] = item;
        /* Deeper calls have overwritten the list: it is made again. */
        struct placed placed = {.items = s->placed.items, .n = 0};
        for (int k = 0; k < n_fixed; k++) {
            insert(&placed, s->order[k]);
        }
        item->offset = find_offset(&placed, item, false);
        const size_t end = item->offset + item->bytes;
        const size_t reached = end > size ? end : size;
        /* The size only grows: what is as large as the best is given up. */
        if (reached < s->best) {
            try_all_orders(s, n_fixed + 1, reached);
        }
        s->order[n_fixed] = s->order[i];
        s->order[i] = item;
    }
}

/* What reached the top goes to the front of the order, again and again. */
static void promote(struct search *s)
{
    /* About 10^8 steps at most: a fraction of a second. */
    const int64_t n_squared = (int64_t)s->n * s->n + 1;
    const int n_tries = (int)base_min(200, 100000000 / n_squared);
    memcpy(s->order, s->best_order, (size_t)s->n * sizeof(*s->order));
    size_t size = place_all(s->order, s->n, false, &s->placed);
    keep_if_better(s, size);
    for (int try = 0; try < n_tries && s->best > s->bound; try++) {
        int top = 0;
        while (s->order[top]->offset + s->order[top]->bytes < size) {
            top++;
        }
        struct plan_pack_item *item = s->order[top];
        memmove(s->order + 1, s->order, (size_t)top * sizeof(*s->order));
        s->order[0] = item;
        size = place_all(s->order, s->n, false, &s->placed);
        keep_if_better(s, size);
    }
}

/* The peak of live bytes bounds every solution from below: reaching it ends the
 * search. */
size_t plan_pack_items(struct plan_pack_item *items, int n)
{
    if (n == 0) {
        return 0;
    }
    const size_t count = (size_t)n;
    struct search s = {
        .items = items,
        .n = n,
        .order = mem_alloc_array(count, sizeof(struct plan_pack_item *)),
        .best_order = mem_alloc_array(count, sizeof(struct plan_pack_item *)),
        .best_offsets = mem_alloc_array(count, sizeof(size_t)),
        .best = SIZE_MAX,
        .bound = plan_pack_peak(items, n),
        .placed.items = mem_alloc_array(count, sizeof(struct plan_pack_item *)),
    };
    try_sorted(&s, by_bytes);
    try_sorted(&s, by_area);
    try_sorted(&s, by_duration);
    try_sorted(&s, by_start);
    if (n <= PLAN_PACK_EXACT && s.best > s.bound) {
        try_all_orders(&s, 0, 0);
    } else if (s.best > s.bound) {
        promote(&s);
    }
    for (int i = 0; i < n; i++) {
        items[i].offset = s.best_offsets[i];
    }
    mem_free(s.order);
    mem_free(s.best_order);
    mem_free(s.best_offsets);
    mem_free(s.placed.items);
    return s.best;
}

/* Both ends of a lifetime are included, so a buffer dies one position after its end. */
size_t plan_pack_peak(const struct plan_pack_item *items, int n)
{
    int last = 0;
    for (int i = 0; i < n; i++) {
        last = items[i].end > last ? items[i].end : last;
    }
    /* What is born minus what has died before each position. */
    size_t *born = mem_alloc_array((size_t)last + 2, sizeof(size_t));
    size_t *died = mem_alloc_array((size_t)last + 2, sizeof(size_t));
    for (int i = 0; i < n; i++) {
        born[items[i].start] += items[i].bytes;
        died[items[i].end + 1] += items[i].bytes;
    }
    size_t live = 0, peak = 0;
    for (int t = 0; t <= last; t++) {
        live = live + born[t] - died[t];
        peak = live > peak ? live : peak;
    }
    mem_free(born);
    mem_free(died);
    return peak;
}
