/*
 * pack - best fit decreasing inside each window, next fit for files in order.
 *
 * Best fit keeps, for each amount of free room, the rows with just that much, and a
 * bitmap of the amounts that occur: the row to take is the first set bit from the
 * length on. So packing takes time linear in the examples but for a sort within each
 * window.
 */
#include "data/pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"

/* --- rows by free room ------------------------------------------------------------ */

struct room {
    uint64_t *bits; /* [n_words] bit r set: some row has r tokens free */
    int32_t *head;  /* [row_tokens + 1] a row with so much room, -1 = none */
    int32_t *next;  /* [rows of the window] */
    size_t n_words;
};

/* For rows of row_tokens and at most max_rows of them. Rooms of 0 .. row_tokens each
 * have a list; a window of n examples has at most n rows. */
static void room_init(struct room *room, int32_t row_tokens, int64_t max_rows)
{
    room->n_words = (size_t)row_tokens / 64 + 1;
    room->bits = mem_alloc_array(room->n_words, sizeof(*room->bits));
    room->head = mem_alloc_array((size_t)row_tokens + 1, sizeof(*room->head));
    room->next = mem_alloc_array((size_t)max_rows + 1, sizeof(*room->next));
}

static void room_deinit(struct room *room)
{
    mem_free(room->bits);
    mem_free(room->head);
    mem_free(room->next);
}

/* Entries of next[] need no clearing: room_put sets them. */
static void room_clear(struct room *room, int32_t row_tokens)
{
    memset(room->bits, 0, room->n_words * sizeof(*room->bits));
    for (int32_t i = 0; i <= row_tokens; i++) {
        room->head[i] = -1;
    }
}

/* Enters a row with so much room. Rows of equal room form a stack: the row that got it
 * last is taken first, which is as good as any and always the same. */
static void room_put(struct room *room, int32_t row, int32_t free_tokens)
{
    room->next[row] = room->head[free_tokens];
    room->head[free_tokens] = row;
    room->bits[free_tokens / 64] |= (uint64_t)1 << (free_tokens % 64);
}

/* Takes out a row with the least room of at least `length`; -1 = there is none. Bits
 * below the length are masked out of its word; the words after it stand for larger
 * rooms only. A list that becomes empty loses its bit. */
static int32_t room_take(struct room *room, int32_t length, int32_t *free_tokens)
{
    size_t word = (size_t)length / 64;
    uint64_t bits = room->bits[word] & (~(uint64_t)0 << (length % 64));
    while (bits == 0) {
        if (++word == room->n_words) {
            return -1;
        }
        bits = room->bits[word];
    }
    int32_t bit = 0;
    while ((bits >> bit & 1) == 0) {
        bit++;
    }
    *free_tokens = (int32_t)word * 64 + bit;
    const int32_t row = room->head[*free_tokens];
    room->head[*free_tokens] = room->next[row];
    if (room->next[row] < 0) {
        room->bits[word] &= ~((uint64_t)1 << bit);
    }
    return row;
}

/* --- plans ------------------------------------------------------------------------ */

struct sized {
    int32_t length;
    int32_t place; /* within the window */
};

/* Longest first, equal ones in order. A total order, so that qsort, which is not
 * stable, gives the same result everywhere. */
static int by_length(const void *a, const void *b)
{
    const struct sized *x = a;
    const struct sized *y = b;
    if (x->length != y->length) {
        return x->length > y->length ? -1 : 1;
    }
    return (x->place > y->place) - (x->place < y->place);
}

/* Rows for the n examples of one window; row_of[i] counts from first_row. Returns how
 * many rows there are now. Longest first leaves the short ones to fill the gaps; rows
 * left over at the end of a window are not filled by the next one. */
static int64_t best_fit(const int32_t *lengths, const int32_t *order, int64_t n,
                        int32_t row_tokens, struct room *room, struct sized *sized,
                        int64_t first_row, int32_t *row_of)
{
    for (int64_t i = 0; i < n; i++) {
        sized[i] = (struct sized){.length = lengths[order[i]], .place = (int32_t)i};
    }
    qsort(sized, (size_t)n, sizeof(*sized), by_length);
    room_clear(room, row_tokens);
    int32_t n_rows = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t free_tokens = row_tokens;
        int32_t row = room_take(room, sized[i].length, &free_tokens);
        if (row < 0) {
            row = n_rows++;
        }
        room_put(room, row, free_tokens - sized[i].length);
        row_of[sized[i].place] = (int32_t)first_row + row;
    }
    return first_row + n_rows;
}

/* Windows bound the memory and the time, and keep the order of the epoch random. One
 * room and one array serve all windows. */
static int64_t best_fit_windows(const int32_t *lengths, const int32_t *order, int64_t n,
                                int32_t row_tokens, int32_t *row_of)
{
    struct room room;
    room_init(&room, row_tokens, PACK_WINDOW);
    struct sized *sized = mem_alloc_array(PACK_WINDOW, sizeof(*sized));
    int64_t n_rows = 0;
    for (int64_t from = 0; from < n; from += PACK_WINDOW) {
        n_rows = best_fit(lengths, order + from, base_min(PACK_WINDOW, n - from),
                          row_tokens, &room, sized, n_rows, row_of + from);
    }
    mem_free(sized);
    room_deinit(&room);
    return n_rows;
}

/* A row is closed as soon as an example does not fit: the order of the file stays.
 * free_tokens starts at 0, so the first example opens the first row. */
static int64_t next_fit(const int32_t *lengths, const int32_t *order, int64_t n,
                        int32_t row_tokens, int32_t *row_of)
{
    int64_t row = -1;
    int32_t free_tokens = 0;
    for (int64_t i = 0; i < n; i++) {
        const int32_t length = lengths[order[i]];
        if (length > free_tokens) {
            row++;
            free_tokens = row_tokens;
        }
        free_tokens -= length;
        row_of[i] = (int32_t)row;
    }
    return row + 1;
}

/* Renames the rows by a seeded permutation: packing put the longest examples of a
 * window first, and training should not see them in that order. */
static void shuffle_rows(int64_t n, int64_t n_rows, uint64_t seed, uint64_t step,
                         int32_t *row_of)
{
    int32_t *new_row = mem_alloc_array((size_t)n_rows + 1, sizeof(*new_row));
    random_permutation(seed, RANDOM_SHUFFLE, step, n_rows, new_row);
    for (int64_t i = 0; i < n; i++) {
        row_of[i] = new_row[row_of[i]];
    }
    mem_free(new_row);
}

/* Fills the plan from order[i], the example, and row_of[i], its row. A counting sort by
 * row: row_from[r + 1] first counts the examples of row r, then the sums make it the
 * place where row r ends. Stable, so examples keep their order within a row. */
static void lay_out(struct pack_plan *plan, const int32_t *order, const int32_t *row_of)
{
    plan->row_from = mem_alloc_array((size_t)plan->n_rows + 1, sizeof(*plan->row_from));
    plan->examples =
        mem_alloc_array((size_t)plan->n_examples + 1, sizeof(*plan->examples));
    for (int64_t i = 0; i < plan->n_examples; i++) {
        plan->row_from[row_of[i] + 1]++;
    }
    for (int64_t row = 0; row < plan->n_rows; row++) {
        plan->row_from[row + 1] += plan->row_from[row];
    }
    int64_t *at = mem_alloc_array((size_t)plan->n_rows + 1, sizeof(*at));
    memcpy(at, plan->row_from, (size_t)plan->n_rows * sizeof(*at));
    for (int64_t i = 0; i < plan->n_examples; i++) {
        plan->examples[at[row_of[i]]++] = order[i];
    }
    mem_free(at);
}

/* The examples in the order in which they are packed. */
static int32_t *order_examples(const int32_t *taken, int64_t n,
                               const struct pack_options *options, uint64_t step)
{
    int32_t *order = mem_alloc_array((size_t)n + 1, sizeof(*order));
    if (options->is_shuffled) {
        random_permutation(options->seed, RANDOM_SHUFFLE, step, n, order);
    }
    for (int64_t i = 0; i < n; i++) {
        const int32_t place = options->is_shuffled ? order[i] : (int32_t)i;
        order[i] = taken == NULL ? place : taken[place];
    }
    return order;
}

/* Nothing but the arguments enters, which is what lets every rank make the plan for
 * itself and a resumed run make it again. */
struct pack_plan *pack_plan_create(const int32_t *lengths, const int32_t *taken,
                                   int64_t n, const struct pack_options *options,
                                   int64_t epoch)
{
    /* Two streams of random numbers per epoch: the examples, then the rows. */
    const uint64_t step = 2 * (uint64_t)epoch;
    ASSERT(n <= INT32_MAX);
    struct pack_plan *plan = mem_alloc(sizeof(*plan));
    int32_t *order = order_examples(taken, n, options, step);
    int32_t *row_of = mem_alloc_array((size_t)n + 1, sizeof(*row_of));
    for (int64_t i = 0; i < n; i++) {
        ASSERT(lengths[order[i]] > 0 && lengths[order[i]] <= options->row_tokens);
        row_of[i] = (int32_t)i;
    }
    plan->n_examples = n;
    plan->n_rows = n;
    if (options->is_packed && options->is_shuffled) {
        plan->n_rows = best_fit_windows(lengths, order, n, options->row_tokens, row_of);
        shuffle_rows(n, plan->n_rows, options->seed, step + 1, row_of);
    } else if (options->is_packed) {
        plan->n_rows = next_fit(lengths, order, n, options->row_tokens, row_of);
    }
    lay_out(plan, order, row_of);
    mem_free(order);
    mem_free(row_of);
    return plan;
}

void pack_plan_destroy(struct pack_plan *plan)
{
    if (plan == NULL) {
        return;
    }
    mem_free(plan->row_from);
    mem_free(plan->examples);
    mem_free(plan);
}
