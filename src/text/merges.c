/*
 * merges - open addressing, at most half full: mostly one cache line a lookup.
 */
#include "text/merges.h"

#include "base/mem.h"

void merges_deinit(struct merges *merges)
{
    mem_free(merges->slots);
    *merges = (struct merges){0};
}

/* The slot of this pair, or the empty one where it would go. Ends, as at least half of
 * the slots are empty. The two multiplications spread pairs that differ in few bits,
 * such as (a, b) and (a, b + 1), over the whole table. */
static size_t find_slot(const struct merges *merges, int32_t left, int32_t right)
{
    const size_t mask = merges->n_slots - 1;
    uint64_t hash = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right);
    hash *= 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
    hash *= 0xd6e8feb86659fd93u;
    size_t i = (size_t)(hash >> 32) & mask;
    while (merges->slots[i].left >= 0 &&
           (merges->slots[i].left != left || merges->slots[i].right != right)) {
        i = (i + 1) & mask;
    }
    return i;
}

/* More slots, everything entered again. Slots cannot just be copied, because the place
 * of a pair depends on the number of slots. */
static void grow(struct merges *merges, size_t n_slots)
{
    const struct merges old = *merges;
    merges->n_slots = n_slots;
    merges->slots = mem_alloc_array(merges->n_slots, sizeof(*merges->slots));
    for (size_t i = 0; i < merges->n_slots; i++) {
        merges->slots[i].left = -1;
    }
    for (size_t i = 0; i < old.n_slots; i++) {
        if (old.slots[i].left >= 0) {
            merges->slots[find_slot(merges, old.slots[i].left, old.slots[i].right)] =
                old.slots[i];
        }
    }
    mem_free(old.slots);
}

/* Twice as many slots as pairs, the load that merges_add keeps. */
void merges_reserve(struct merges *merges, size_t n)
{
    size_t n_slots = merges->n_slots == 0 ? 1024 : merges->n_slots;
    while (n_slots < 2 * n) {
        n_slots *= 2;
    }
    if (n_slots > merges->n_slots) {
        grow(merges, n_slots);
    }
}

/* The last rank wins where the file names a pair twice, as in the reference library,
 * whose table is filled in file order. */
void merges_add(struct merges *merges, struct merge merge)
{
    ASSERT(merge.left >= 0 && merge.right >= 0);
    if (2 * (merges->n + 1) > merges->n_slots) {
        grow(merges, merges->n_slots == 0 ? 1024 : 2 * merges->n_slots);
    }
    struct merge *slot = &merges->slots[find_slot(merges, merge.left, merge.right)];
    if (slot->left < 0) {
        merges->n++;
    }
    *slot = merge;
}

/* Negative ids are symbols without a token (bpe.c) and must not reach the hash: -1
 * marks empty slots. */
const struct merge *merges_find(const struct merges *merges, int32_t left,
                                int32_t right)
{
    if (left < 0 || right < 0 || merges->n_slots == 0) {
        return NULL;
    }
    const struct merge *slot = &merges->slots[find_slot(merges, left, right)];
    return slot->left < 0 ? NULL : slot;
}
