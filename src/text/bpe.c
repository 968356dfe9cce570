/*
 * bpe - merging, made fast in three exact ways.
 *
 * 1. Borders. If no merge at all joins a token that ends in character a to one that
 *    begins with b, then nothing ever merges across a border "a|b", so the two sides
 *    encode by themselves. In Gemma's vocabulary a letter before U+2581 is such a
 *    border: words come out as short pieces. The table over classes of characters errs
 *    on the side of "may be joined".
 * 2. Whole pieces. Whether the text of a token encodes to just that token is found out
 *    once per token and remembered; most pieces of running text are then one lookup.
 *    Threads may race to find out: they store the same answer.
 * 3. Short pieces are merged by scanning a small array for the best pair; long ones
 *    (text without borders) with a heap over a linked list.
 */
#include "text/bpe.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "text/vocabulary.h"

enum {
    SHORT_PIECE = 48, /* symbols; longer pieces use the heap */
    CLASS_SPACE = 128,
    CLASS_OTHER = 129,
    WHOLE_UNKNOWN = 0, /* not asked yet */
    WHOLE_YES = 1,
    WHOLE_NO = 2,
};

/* A stretch of the piece: a character at first, then what merging made of it. */
struct bpe_symbol {
    int32_t id;       /* -1 = no token yet (by score only) */
    uint32_t from;    /* byte of the piece */
    uint32_t length;  /* bytes; 0 = merged into its left neighbour */
    int32_t previous; /* neighbours that are left, for merge_long; -1 = none */
    int32_t next;     /* ... the count of symbols = none */
};

/* A pair of neighbours that may merge, in the heap of merge_long. */
struct bpe_candidate {
    int32_t rank;   /* lower merges first */
    int32_t merged; /* the token that the two become */
    int32_t left;   /* indices of the two symbols */
    int32_t right;
    uint32_t left_length; /* lengths when it was found: stale if they differ now */
    uint32_t right_length;
};

/* Length of the character at text[0 .. length), at least 1; broken bytes stand
 * alone. */
static size_t character_length(const char *text, size_t length)
{
    if ((signed char)text[0] >= 0) {
        return 1;
    }
    const int n = str_utf8_length(text, length);
    return n > 0 ? (size_t)n : 1;
}

/* The class of the character text[0 .. length). Only ASCII and the space mark get a
 * class of their own: those are the borders that occur all the time, and 130 x 130
 * flags stay in the first-level cache. */
static int character_class(const char *text, size_t length)
{
    if ((signed char)text[0] >= 0) {
        return text[0];
    }
    return length == 3 && memcmp(text, "\xe2\x96\x81", 3) == 0 ? CLASS_SPACE
                                                               : CLASS_OTHER;
}

/* --- tables ----------------------------------------------------------------------- */

/* Marks every pair of neighbouring characters in the token. Whatever way merging went,
 * each border inside the token was crossed by one of its merges. */
static void mark_pairs_in(struct bpe *bpe, const char *text, size_t length)
{
    int before = -1;
    for (size_t at = 0; at < length;) {
        const size_t n = character_length(text + at, length - at);
        const int class = character_class(text + at, n);
        if (before >= 0) {
            bpe->is_crossed[before][class] = true;
        }
        before = class;
        at += n;
    }
}

/* First and last character of a token, as classes. */
struct ends {
    uint8_t first;
    uint8_t last;
    bool is_byte;
};

/* Walked from the front, as broken bytes make characters ambiguous from the back. */
static struct ends ends_of(const char *text, size_t length)
{
    struct ends ends = {0};
    uint8_t byte;
    for (size_t at = 0; at < length;) {
        const size_t n = character_length(text + at, length - at);
        ends.last = (uint8_t)character_class(text + at, n);
        ends.first = at == 0 ? ends.last : ends.first;
        at += n;
    }
    ends.is_byte = vocabulary_is_byte(text, length, &byte);
    return ends;
}

/* Whether each character of a word stands for itself. Not so for the unknown token and
 * for byte tokens: where those may merge or run together, every border is unsafe; so it
 * is where characters can be left out, as their neighbours merge over them. */
static bool has_plain_symbols(const struct bpe *bpe, const struct ends *ends)
{
    for (size_t i = 0; i < bpe->merges.n_slots; i++) {
        const struct merge *merge = &bpe->merges.slots[i];
        if (merge->left >= 0 &&
            (ends[merge->left].is_byte || ends[merge->right].is_byte ||
             merge->left == bpe->unknown || merge->right == bpe->unknown)) {
            return false;
        }
    }
    bool has_all_bytes = bpe->has_byte_fallback;
    for (int i = 0; i < 256; i++) {
        has_all_bytes = has_all_bytes && bpe->byte_id[i] >= 0;
    }
    return has_all_bytes || (!bpe->fuses_unknown && bpe->unknown >= 0);
}

/* By rank only the seam of a merge counts. A merge joins the last character of its left
 * token to the first one of its right token; borders inside the two were crossed by the
 * merges that made them, which are in the list as well. */
static void mark_seams(struct bpe *bpe)
{
    const struct vocabulary *vocabulary = bpe->vocabulary;
    struct ends *ends = mem_alloc_array(vocabulary->n_ids, sizeof(*ends));
    for (size_t id = 0; id < vocabulary->n_ids; id++) {
        size_t length;
        const char *text = vocabulary_text(vocabulary, (int64_t)id, &length);
        ends[id] = ends_of(text, length);
    }
    for (size_t i = 0; i < bpe->merges.n_slots; i++) {
        const struct merge *merge = &bpe->merges.slots[i];
        if (merge->left >= 0) {
            bpe->is_crossed[ends[merge->left].last][ends[merge->right].first] = true;
        }
    }
    if (!has_plain_symbols(bpe, ends)) {
        memset(bpe->is_crossed, true, sizeof(bpe->is_crossed));
    }
    mem_free(ends);
}

/* By score a merge may give any token, so any two neighbours inside any token may have
 * been joined; by rank it is told by the merges themselves. Ids of bytes and of ASCII
 * characters are looked up once, here, which spares a hash look-up for most characters
 * of a text. */
void bpe_prepare(struct bpe *bpe)
{
    const struct vocabulary *vocabulary = bpe->vocabulary;
    for (int i = 0; i < 256; i++) {
        bpe->byte_id[i] = vocabulary_find_byte(vocabulary, (uint8_t)i);
    }
    for (int i = 0; i < 128; i++) {
        const char c = (char)i;
        bpe->ascii_id[i] = vocabulary_find_model(vocabulary, &c, 1);
    }
    memset(bpe->is_crossed, false, sizeof(bpe->is_crossed));
    if (bpe->rank_of_id == NULL) {
        mark_seams(bpe);
    } else {
        for (size_t id = 0; id < vocabulary->n_ids; id++) {
            size_t length;
            const char *text = vocabulary_text(vocabulary, (int64_t)id, &length);
            if (text != NULL) {
                mark_pairs_in(bpe, text, length);
            }
        }
    }
    bpe->whole = mem_alloc_array(vocabulary->n_ids, sizeof(*bpe->whole));
}

void bpe_deinit(struct bpe *bpe)
{
    merges_deinit(&bpe->merges);
    mem_free(bpe->rank_of_id);
    mem_free(bpe->whole);
    *bpe = (struct bpe){0};
}

void bpe_work_deinit(struct bpe_work *work)
{
    mem_free(work->symbols);
    mem_free(work->heap);
    *work = (struct bpe_work){0};
}

/* --- symbols ---------------------------------------------------------------------- */

/* How the neighbours a b merge: their rank (MERGES_NO_RANK = not) and *merged. By rank
 * the pair of ids decides; by score the joined text does, which lies at piece[a->from
 * .. b end) because neighbours touch. */
static int32_t rank_of_pair(const struct bpe *bpe, const char *piece,
                            const struct bpe_symbol *a, const struct bpe_symbol *b,
                            int32_t *merged)
{
    *merged = -1;
    if (bpe->rank_of_id == NULL) {
        const struct merge *merge = merges_find(&bpe->merges, a->id, b->id);
        if (merge == NULL) {
            return MERGES_NO_RANK;
        }
        *merged = merge->merged;
        return merge->rank;
    }
    const size_t length = (size_t)a->length + b->length;
    const int32_t id = vocabulary_find(bpe->vocabulary, piece + a->from, length);
    if (id < 0) {
        return MERGES_NO_RANK;
    }
    *merged = id;
    return bpe->rank_of_id[id];
}

/* Appends a symbol that is linked to its neighbours. A new symbol at the end points at
 * a next one that may not come; merge_long therefore takes any next >= n as the end. */
static void add_symbol(struct bpe_work *work, size_t *n, int32_t id, size_t from,
                       size_t length)
{
    if (*n == work->symbols_capacity) {
        const size_t capacity = *n == 0 ? 256 : 2 * *n;
        work->symbols =
            mem_grow_array(work->symbols, *n, capacity, sizeof(*work->symbols));
        work->symbols_capacity = capacity;
    }
    work->symbols[*n] = (struct bpe_symbol){
        .id = id,
        .from = (uint32_t)from,
        .length = (uint32_t)length,
        .previous = (int32_t)*n - 1,
        .next = (int32_t)*n + 1,
    };
    ++*n;
}

/* Whether the character can be written in byte tokens. All bytes or none: half a
 * character in bytes would be of no use (the reference library decides the same
 * way). */
static bool has_byte_ids(const struct bpe *bpe, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (bpe->byte_id[(uint8_t)text[i]] < 0) {
            return false;
        }
    }
    return bpe->has_byte_fallback;
}

/* The piece as characters, bytes and unknowns; returns their count. By rank each
 * character is a token, else bytes, else unknown, as Hugging Face does it. By score a
 * character without a token stays one symbol with id -1, since it may still merge into
 * a token; only what is left over at the end becomes bytes (encode_piece). */
static size_t make_symbols(const struct bpe *bpe, struct bpe_work *work,
                           const char *piece, size_t length)
{
    size_t n = 0;
    bool after_unknown = false;
    for (size_t at = 0; at < length;) {
        const size_t size = character_length(piece + at, length - at);
        const int32_t id =
            (signed char)piece[at] >= 0
                ? bpe->ascii_id[(int)piece[at]]
                : vocabulary_find_model(bpe->vocabulary, piece + at, size);
        const bool is_unknown =
            id < 0 && bpe->rank_of_id == NULL && !has_byte_ids(bpe, piece + at, size);
        if (id >= 0 || bpe->rank_of_id != NULL) {
            add_symbol(work, &n, id, at, size);
        } else if (!is_unknown) {
            for (size_t i = 0; i < size; i++) {
                add_symbol(work, &n, bpe->byte_id[(uint8_t)piece[at + i]], at + i, 1);
            }
        } else if (after_unknown && bpe->fuses_unknown) {
            work->symbols[n - 1].length += (uint32_t)size;
        } else if (bpe->unknown >= 0) {
            add_symbol(work, &n, bpe->unknown, at, size);
        }
        after_unknown = is_unknown && bpe->unknown >= 0;
        at += size;
    }
    return n;
}

/* --- merging ---------------------------------------------------------------------- */

/* Merges symbols[0 .. n) in place, n <= SHORT_PIECE; returns how many are left. rank[i]
 * and merged[i] tell what symbols i and i + 1 would become; a merge changes only the
 * two pairs beside it. Quadratic in n, yet faster than a heap at this length, as
 * everything lies in a few cache lines. */
static size_t merge_short(const struct bpe *bpe, const char *piece,
                          struct bpe_symbol *symbols, size_t n)
{
    int32_t rank[SHORT_PIECE];
    int32_t merged[SHORT_PIECE];
    for (size_t i = 0; i + 1 < n; i++) {
        rank[i] = rank_of_pair(bpe, piece, &symbols[i], &symbols[i + 1], &merged[i]);
    }
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++) {
            if (rank[i] < rank[best]) {
                best = i;
            }
        }
        if (rank[best] == MERGES_NO_RANK) {
            break;
        }
        /* The left one grows over its neighbour; what follows moves up by one. */
        symbols[best].id = merged[best];
        symbols[best].length += symbols[best + 1].length;
        n--;
        for (size_t i = best + 1; i < n; i++) {
            symbols[i] = symbols[i + 1];
        }
        for (size_t i = best + 1; i + 1 < n; i++) {
            rank[i] = rank[i + 1];
            merged[i] = merged[i + 1];
        }
        if (best > 0) {
            rank[best - 1] = rank_of_pair(bpe, piece, &symbols[best - 1],
                                          &symbols[best], &merged[best - 1]);
        }
        if (best + 1 < n) {
            rank[best] = rank_of_pair(bpe, piece, &symbols[best], &symbols[best + 1],
                                      &merged[best]);
        }
    }
    return n;
}

/* Lowest rank first, then leftmost. Indices of symbols rise with their place in the
 * piece, so comparing them compares places. Candidates that are equal have the same
 * left symbol, and at most one of those is not stale, so the order of merges does not
 * depend on how the heap is arranged. */
static bool is_sooner(const struct bpe_candidate *a, const struct bpe_candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->left < b->left;
}

/* A binary heap in an array. Ancestors move down until the new one has its place. */
static void heap_push(struct bpe_work *work, size_t *n, struct bpe_candidate candidate)
{
    if (*n == work->heap_capacity) {
        const size_t capacity = *n == 0 ? 256 : 2 * *n;
        work->heap = mem_grow_array(work->heap, *n, capacity, sizeof(*work->heap));
        work->heap_capacity = capacity;
    }
    size_t i = (*n)++;
    while (i > 0 && is_sooner(&candidate, &work->heap[(i - 1) / 2])) {
        work->heap[i] = work->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    work->heap[i] = candidate;
}

/* The least candidate; the last one sinks from the root to its place. */
static struct bpe_candidate heap_pop(struct bpe_work *work, size_t *n)
{
    struct bpe_candidate *heap = work->heap;
    const struct bpe_candidate top = heap[0];
    const struct bpe_candidate last = heap[--*n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < *n; i = child) {
        if (child + 1 < *n && is_sooner(&heap[child + 1], &heap[child])) {
            child++;
        }
        if (!is_sooner(&heap[child], &last)) {
            break;
        }
        heap[i] = heap[child];
    }
    heap[i] = last;
    return top;
}

/* Enters the pair into the heap if it merges. The lengths are noted with it: a symbol
 * changes only by growing or by vanishing (length 0), so equal lengths later mean that
 * both are still what they were. */
static void push_pair(const struct bpe *bpe, struct bpe_work *work, size_t *n_heap,
                      const char *piece, int32_t left, int32_t right)
{
    const struct bpe_symbol *a = &work->symbols[left];
    const struct bpe_symbol *b = &work->symbols[right];
    struct bpe_candidate candidate = {.left = left,
                                      .right = right,
                                      .left_length = a->length,
                                      .right_length = b->length};
    candidate.rank = rank_of_pair(bpe, piece, a, b, &candidate.merged);
    if (candidate.rank != MERGES_NO_RANK) {
        heap_push(work, n_heap, candidate);
    }
}

/* The same for any n, with a heap; symbols that are gone have length 0. A merge leaves
 * candidates in the heap that name symbols which have changed since; they are
 * recognised by their lengths when they come up (no search for them inside the heap).
 * Time n log n. */
static void merge_long(const struct bpe *bpe, struct bpe_work *work, const char *piece,
                       size_t n)
{
    struct bpe_symbol *symbols = work->symbols;
    const int32_t end = (int32_t)n;
    size_t n_heap = 0;
    for (int32_t i = 0; i + 1 < end; i++) {
        push_pair(bpe, work, &n_heap, piece, i, i + 1);
    }
    while (n_heap > 0) {
        const struct bpe_candidate top = heap_pop(work, &n_heap);
        struct bpe_symbol *left = &symbols[top.left];
        struct bpe_symbol *right = &symbols[top.right];
        if (left->length != top.left_length || right->length != top.right_length) {
            continue;
        }
        left->id = top.merged;
        left->length += right->length;
        left->next = right->next;
        right->length = 0;
        if (left->next < end) {
            symbols[left->next].previous = top.left;
            push_pair(bpe, work, &n_heap, piece, top.left, left->next);
        }
        if (left->previous >= 0) {
            push_pair(bpe, work, &n_heap, piece, left->previous, top.left);
        }
    }
}

/* Merges a piece; returns the number of entries in work->symbols to walk. Entries of
 * length 0, which only the heap leaves behind, are no symbols any more. */
static size_t merge_piece(const struct bpe *bpe, struct bpe_work *work,
                          const char *piece, size_t length)
{
    const size_t n = make_symbols(bpe, work, piece, length);
    if (n <= SHORT_PIECE) {
        return merge_short(bpe, piece, work->symbols, n);
    }
    merge_long(bpe, work, piece, n);
    return n;
}

/* --- words ------------------------------------------------------------------------ */

/* Whether the text of token id, which is this piece, encodes to just that token.
 * Relaxed order is enough: the state is the only thing that is shared, and threads that
 * find it out at the same time store the same value. */
static bool is_whole(const struct bpe *bpe, struct bpe_work *work, const char *piece,
                     size_t length, int32_t id)
{
    const uint8_t known =
        atomic_load_explicit(&bpe->whole[id].state, memory_order_relaxed);
    if (known != WHOLE_UNKNOWN) {
        return known == WHOLE_YES;
    }
    const size_t n = merge_piece(bpe, work, piece, length);
    const bool is_yes =
        n > 0 && work->symbols[0].length == length && work->symbols[0].id == id;
    atomic_store_explicit(&bpe->whole[id].state, is_yes ? WHOLE_YES : WHOLE_NO,
                          memory_order_relaxed);
    return is_yes;
}

/* A piece is one token if there is one that encodes to itself, else what merging
 * leaves; symbols without a token (by score only) come out as bytes. The test on
 * is_whole matters: the text of a token need not encode to it (a token that no merge
 * reaches), so a look-up alone would not be exact. */
static void encode_piece(const struct bpe *bpe, struct bpe_work *work, const char *word,
                         size_t from, size_t length, bpe_emit_fn emit, void *context)
{
    const char *piece = word + from;
    const int32_t id = vocabulary_find(bpe->vocabulary, piece, length);
    if (id >= 0 && is_whole(bpe, work, piece, length, id)) {
        emit(context, id, from);
        return;
    }
    const size_t n = merge_piece(bpe, work, piece, length);
    for (size_t i = 0; i < n; i++) {
        const struct bpe_symbol *symbol = &work->symbols[i];
        if (symbol->length == 0) {
            continue;
        }
        if (symbol->id >= 0) {
            emit(context, symbol->id, from + symbol->from);
            continue;
        }
        for (size_t k = 0; k < symbol->length; k++) {
            const size_t at = symbol->from + k;
            const int32_t byte_id = bpe->byte_id[(uint8_t)piece[at]];
            if (byte_id >= 0 || bpe->unknown >= 0) {
                emit(context, byte_id >= 0 ? byte_id : bpe->unknown, from + at);
            }
        }
    }
}

/* Cuts the word at the borders that nothing crosses. Lengths and indices of symbols are
 * 32 bits wide, hence the limit. */
void bpe_encode(const struct bpe *bpe, struct bpe_work *work, const char *word,
                size_t length, bpe_emit_fn emit, void *context)
{
    ASSERT(length < INT32_MAX);
    if (bpe->ignores_merges) {
        const int32_t id = vocabulary_find_model(bpe->vocabulary, word, length);
        if (id >= 0) {
            emit(context, id, 0);
            return;
        }
    }
    size_t from = 0;
    int before = -1;
    for (size_t at = 0; at < length;) {
        const size_t n = character_length(word + at, length - at);
        const int class = character_class(word + at, n);
        if (before >= 0 && !bpe->is_crossed[before][class]) {
            encode_piece(bpe, work, word, from, at - from, emit, context);
            from = at;
        }
        before = class;
        at += n;
    }
    if (from < length) {
        encode_piece(bpe, work, word, from, length - from, emit, context);
    }
}
