/*
 * Offsets: no overlap, never below what is alive at once, exact for few buffers (against a
 * search of its own), and near the bound for many.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "graph/plan_pack.h"

enum { MAX_ITEMS = 300 };

static int draw(uint64_t seed, uint64_t *n_drawn, int n)
{
    return (int)(random_bits(seed, RANDOM_TEST, 1, (*n_drawn)++) % (unsigned)n);
}

static void make_items(struct plan_pack_item *items, int n, uint64_t seed, int n_times)
{
    uint64_t n_drawn = 0;
    for (int i = 0; i < n; i++) {
        const int start = draw(seed, &n_drawn, n_times);
        const int longest = 1 + draw(seed, &n_drawn, n_times - start);
        items[i] = (struct plan_pack_item){
            .bytes = 64 * (size_t)(1 + draw(seed, &n_drawn, 20)),
            .start = start,
            .end = start + draw(seed, &n_drawn, longest),
        };
    }
}

static bool meet(const struct plan_pack_item *a, const struct plan_pack_item *b)
{
    return a->start <= b->end && b->start <= a->end;
}

static void check_apart(const struct plan_pack_item *items, int n, size_t size)
{
    for (int i = 0; i < n; i++) {
        assert_true(items[i].offset + items[i].bytes <= size);
        for (int j = 0; j < i; j++) {
            const bool overlap = items[i].offset < items[j].offset + items[j].bytes &&
                                 items[j].offset < items[i].offset + items[i].bytes;
            assert_false(meet(&items[i], &items[j]) && overlap);
        }
    }
}

/*
 * The smallest arena, by another way than the planner's: item by item, at every offset at
 * which it could rest on the floor or on an item already there.
 */
struct search {
    struct plan_pack_item items[8];
    bool is_placed[8];
    int n;
    size_t best;
};

static bool fits(const struct search *s, int item, size_t offset)
{
    for (int j = 0; j < s->n; j++) {
        if (s->is_placed[j] && meet(&s->items[item], &s->items[j]) &&
            offset < s->items[j].offset + s->items[j].bytes &&
            s->items[j].offset < offset + s->items[item].bytes) {
            return false;
        }
    }
    return true;
}

static void search_from(struct search *s, int n_placed, size_t size)
{
    if (size >= s->best) {
        return;
    }
    if (n_placed == s->n) {
        s->best = size;
        return;
    }
    for (int i = 0; i < s->n; i++) {
        if (s->is_placed[i]) {
            continue;
        }
        for (int on = -1; on < s->n; on++) {
            if (on >= 0 && !s->is_placed[on]) {
                continue;
            }
            const size_t offset = on < 0 ? 0 : s->items[on].offset + s->items[on].bytes;
            if (!fits(s, i, offset)) {
                continue;
            }
            const size_t end = offset + s->items[i].bytes;
            s->items[i].offset = offset;
            s->is_placed[i] = true;
            search_from(s, n_placed + 1, end > size ? end : size);
            s->is_placed[i] = false;
        }
    }
}

static void few_buffers_are_packed_exactly(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 150; seed++) {
        const int n = 2 + (int)(seed % 5);
        struct search search = {.n = n, .best = SIZE_MAX};
        struct plan_pack_item items[8];
        make_items(items, n, seed, 6);
        memcpy(search.items, items, sizeof(items));
        search_from(&search, 0, 0);
        const size_t size = plan_pack_items(items, n);
        check_apart(items, n, size);
        assert_int_equal(size, search.best);
    }
}

static void many_buffers_are_packed_near_the_bound(void **state)
{
    (void)state;
    static struct plan_pack_item items[MAX_ITEMS];
    for (uint64_t seed = 0; seed < 20; seed++) {
        make_items(items, MAX_ITEMS, seed, 80);
        const size_t bound = plan_pack_peak(items, MAX_ITEMS);
        const size_t size = plan_pack_items(items, MAX_ITEMS);
        check_apart(items, MAX_ITEMS, size);
        assert_true(size >= bound);
        assert_true((double)size <= 1.10 * (double)bound);
    }
}

static void the_peak_is_the_largest_sum_alive(void **state)
{
    (void)state;
    struct plan_pack_item items[3] = {{.bytes = 64, .start = 0, .end = 2},
                                      {.bytes = 128, .start = 2, .end = 3},
                                      {.bytes = 64, .start = 3, .end = 9}};
    assert_int_equal(plan_pack_peak(items, 3), 192);
    assert_int_equal(plan_pack_items(items, 3), 192);
    assert_int_equal(plan_pack_peak(items, 0), 0);
    assert_int_equal(plan_pack_items(items, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_buffers_are_packed_exactly),
        cmocka_unit_test(many_buffers_are_packed_near_the_bound),
        cmocka_unit_test(the_peak_is_the_largest_sum_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
