/*
 * Merging against a plain quadratic version, over random vocabularies and texts: the
 * borders, the memory for whole tokens and the heap must change nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"
#include "text/bpe.h"
#include "text/token_list.h"
#include "text/vocabulary.h"

enum { MAX_TOKENS = 700, MAX_MERGES = 600 };

static uint64_t n_drawn;

static uint32_t draw(uint32_t n)
{
    return random_bits(3, RANDOM_TEST, 0, n_drawn++) % n;
}

/* Characters of the texts; those without a token become bytes. */
static const char *const alphabet[] = {"a",
                                       "b",
                                       "c",
                                       "\xe2\x96\x81",
                                       "\xc3\xa9",
                                       "1",
                                       ".",
                                       "\xe2\x96\x81",
                                       "\xf0\x9f\x98\x8a",
                                       "\n"};
enum { N_ALPHABET = 10, N_KNOWN = 8 };

/* A random vocabulary, kept in a plain form beside the one under test. */
struct world {
    struct vocabulary vocabulary;
    struct bpe bpe;
    struct bpe_work work;
    int32_t left[MAX_MERGES], right[MAX_MERGES], merged[MAX_MERGES];
    int n_merges;
    bool is_scored;
};

static int32_t add_token(struct world *world, const char *text, size_t length)
{
    struct error err;
    const int32_t known = vocabulary_find(&world->vocabulary, text, length);
    if (known >= 0) {
        return known;
    }
    const int32_t id = (int32_t)world->vocabulary.n_ids;
    assert_true(
        vocabulary_add(&world->vocabulary, id, text, length, VOCABULARY_MODEL, &err));
    return id;
}

static void add_bytes(struct world *world)
{
    for (unsigned i = 0; i < 256; i++) {
        char text[8];
        snprintf(text, sizeof(text), "<0x%02X>", i);
        add_token(world, text, 6);
    }
}

/* Joins random tokens; a rank's pair may come again with a later rank. */
static void add_merges(struct world *world, int n, bool merges_bytes)
{
    const int32_t first = merges_bytes ? 0 : 256;
    for (int i = 0; i < n; i++) {
        const int32_t n_ids = (int32_t)world->vocabulary.n_ids;
        const int32_t left = first + (int32_t)draw((uint32_t)(n_ids - first));
        const int32_t right = first + (int32_t)draw((uint32_t)(n_ids - first));
        size_t n_left;
        size_t n_right;
        const char *left_text = vocabulary_text(&world->vocabulary, left, &n_left);
        const char *right_text = vocabulary_text(&world->vocabulary, right, &n_right);
        if (n_left + n_right > 16) {
            continue;
        }
        char joined[17];
        memcpy(joined, left_text, n_left);
        memcpy(joined + n_left, right_text, n_right);
        const int32_t merged = add_token(world, joined, n_left + n_right);
        bool is_new = true;
        for (int k = 0; k < world->n_merges; k++) {
            is_new = is_new && (world->left[k] != left || world->right[k] != right);
        }
        if (is_new) {
            world->left[world->n_merges] = left;
            world->right[world->n_merges] = right;
            world->merged[world->n_merges] = merged;
            merges_add(&world->bpe.merges, (struct merge){.left = left,
                                                          .right = right,
                                                          .rank = world->n_merges,
                                                          .merged = merged});
            world->n_merges++;
        }
    }
}

static void make_world(struct world *world, bool is_scored, bool merges_bytes)
{
    *world = (struct world){.is_scored = is_scored};
    add_bytes(world);
    for (int i = 0; i < N_KNOWN; i++) {
        add_token(world, alphabet[i], strlen(alphabet[i]));
    }
    add_merges(world, 20 + (int)draw(300), merges_bytes);
    world->bpe.vocabulary = &world->vocabulary;
    world->bpe.unknown = -1;
    world->bpe.has_byte_fallback = true;
    world->bpe.fuses_unknown = true;
    if (is_scored) {
        const size_t n = world->vocabulary.n_ids;
        world->bpe.rank_of_id = mem_alloc_array(n, sizeof(int32_t));
        for (size_t i = 0; i < n; i++) {
            world->bpe.rank_of_id[i] = (int32_t)draw(40); /* many are equal */
        }
    }
    bpe_prepare(&world->bpe);
}

static void end_world(struct world *world)
{
    bpe_work_deinit(&world->work);
    bpe_deinit(&world->bpe);
    vocabulary_deinit(&world->vocabulary);
}

/* --- the plain version ------------------------------------------------------------ */

struct plain {
    int32_t id[4000];
    size_t from[4000];
    size_t length[4000];
    size_t n;
};

static int plain_rank(const struct world *world, const struct plain *plain,
                      const char *text, size_t i, int32_t *merged)
{
    if (world->is_scored) {
        *merged = vocabulary_find(&world->vocabulary, text + plain->from[i],
                                  plain->length[i] + plain->length[i + 1]);
        return *merged < 0 ? -1 : world->bpe.rank_of_id[*merged];
    }
    for (int k = 0; k < world->n_merges; k++) {
        if (world->left[k] == plain->id[i] && world->right[k] == plain->id[i + 1]) {
            *merged = world->merged[k];
            return k;
        }
    }
    return -1;
}

static void plain_push(struct plain *plain, int32_t id, size_t from, size_t length)
{
    plain->id[plain->n] = id;
    plain->from[plain->n] = from;
    plain->length[plain->n++] = length;
}

static void plain_encode(const struct world *world, const char *text, size_t length,
                         struct token_list *out)
{
    static struct plain plain;
    plain.n = 0;
    for (size_t at = 0; at < length;) {
        int n = str_utf8_length(text + at, length - at);
        n = n == 0 ? 1 : n;
        const int32_t id = vocabulary_find(&world->vocabulary, text + at, (size_t)n);
        if (id >= 0 || world->is_scored) {
            plain_push(&plain, id, at, (size_t)n);
        } else {
            for (int k = 0; k < n; k++) {
                plain_push(&plain, (uint8_t)text[at + k], at + k, 1);
            }
        }
        at += (size_t)n;
    }
    for (;;) {
        int best_rank = -1;
        size_t best = 0;
        int32_t best_merged = -1;
        for (size_t i = 0; i + 1 < plain.n; i++) {
            int32_t merged;
            const int rank = plain_rank(world, &plain, text, i, &merged);
            if (rank >= 0 && (best_rank < 0 || rank < best_rank)) {
                best_rank = rank;
                best = i;
                best_merged = merged;
            }
        }
        if (best_rank < 0) {
            break;
        }
        plain.id[best] = best_merged;
        plain.length[best] += plain.length[best + 1];
        for (size_t i = best + 1; i + 1 < plain.n; i++) {
            plain.id[i] = plain.id[i + 1];
            plain.from[i] = plain.from[i + 1];
            plain.length[i] = plain.length[i + 1];
        }
        plain.n--;
    }
    for (size_t i = 0; i < plain.n; i++) {
        if (plain.id[i] >= 0) {
            token_list_add(out, plain.id[i], (uint32_t)plain.from[i]);
        } else {
            for (size_t k = 0; k < plain.length[i]; k++) {
                const size_t at = plain.from[i] + k;
                token_list_add(out, (uint8_t)text[at], (uint32_t)at);
            }
        }
    }
}

/* --- tests ------------------------------------------------------------------------ */

static void collect(void *context, int32_t id, size_t from)
{
    token_list_add(context, id, (uint32_t)from);
}

static void random_text(struct str *text, uint32_t n)
{
    str_clear(text);
    str_add(text, "");
    for (uint32_t i = 0; i < n; i++) {
        if (draw(60) == 0) {
            str_add_char(text, (char)(128 + draw(128))); /* broken UTF-8 */
        } else {
            str_add(text, alphabet[draw(N_ALPHABET)]);
        }
    }
}

static void compare(struct world *world, const struct str *text)
{
    struct token_list fast = {0};
    struct token_list plain = {0};
    bpe_encode(&world->bpe, &world->work, text->text, text->length, collect, &fast);
    plain_encode(world, text->text, text->length, &plain);
    assert_int_equal(fast.n, plain.n);
    if (fast.n > 0) {
        assert_memory_equal(fast.ids, plain.ids, fast.n * sizeof(*fast.ids));
        assert_memory_equal(fast.starts, plain.starts, fast.n * sizeof(*fast.starts));
    }
    token_list_deinit(&fast);
    token_list_deinit(&plain);
}

static void check_worlds(bool is_scored, bool merges_bytes)
{
    struct str text = {0};
    for (int round = 0; round < 60; round++) {
        static struct world world;
        make_world(&world, is_scored, merges_bytes);
        if (round % 2 == 1) { /* no borders: long texts go through the heap */
            memset(world.bpe.is_crossed, true, sizeof(world.bpe.is_crossed));
        }
        for (int i = 0; i < 60; i++) {
            random_text(&text, i < 50 ? draw(40) : draw(250));
            compare(&world, &text);
        }
        end_world(&world);
    }
    str_deinit(&text);
}

static void ranks_equal_the_plain_version(void **state)
{
    (void)state;
    check_worlds(false, false);
}

static void ranks_with_byte_merges_equal_the_plain_version(void **state)
{
    (void)state;
    check_worlds(false, true);
}

static void scores_equal_the_plain_version(void **state)
{
    (void)state;
    check_worlds(true, false);
}

/* Texts far beyond the short array, with no border inside. */
static void long_runs_merge(void **state)
{
    (void)state;
    static struct world world;
    world = (struct world){.is_scored = false};
    add_bytes(&world);
    add_token(&world, "a", 1);
    add_token(&world, "aa", 2);
    add_token(&world, "aaaa", 4);
    const int32_t merges[2][3] = {{256, 256, 257}, {257, 257, 258}};
    for (int i = 0; i < 2; i++) {
        merges_add(&world.bpe.merges, (struct merge){.left = merges[i][0],
                                                     .right = merges[i][1],
                                                     .merged = merges[i][2],
                                                     .rank = i});
    }
    world.bpe.vocabulary = &world.vocabulary;
    world.bpe.unknown = -1;
    world.bpe.has_byte_fallback = true;
    bpe_prepare(&world.bpe);
    enum { LENGTH = 200003 };
    char *text = mem_alloc(LENGTH);
    memset(text, 'a', LENGTH);
    struct token_list list = {0};
    bpe_encode(&world.bpe, &world.work, text, LENGTH, collect, &list);
    assert_int_equal(list.n, LENGTH / 4 + 2);
    assert_int_equal(list.ids[0], 258);
    assert_int_equal(list.ids[list.n - 2], 257);
    assert_int_equal(list.ids[list.n - 1], 256);
    assert_int_equal(list.starts[list.n - 1], LENGTH - 1);
    token_list_deinit(&list);
    mem_free(text);
    end_world(&world);
}

static void unknown_characters(void **state)
{
    (void)state;
    static struct world world;
    world = (struct world){.is_scored = false};
    struct error err;
    assert_true(
        vocabulary_add(&world.vocabulary, 0, "<unk>", 5, VOCABULARY_MODEL, &err));
    assert_true(vocabulary_add(&world.vocabulary, 1, "a", 1, VOCABULARY_MODEL, &err));
    world.bpe.vocabulary = &world.vocabulary;
    world.bpe.unknown = 0;
    bpe_prepare(&world.bpe);
    struct token_list list = {0};
    bpe_encode(&world.bpe, &world.work, "axya", 4, collect, &list);
    const int32_t each[] = {1, 0, 0, 1};
    assert_int_equal(list.n, 4);
    assert_memory_equal(list.ids, each, sizeof(each));
    token_list_clear(&list);
    world.bpe.fuses_unknown = true;
    bpe_deinit(&world.bpe);
    world.bpe = (struct bpe){
        .vocabulary = &world.vocabulary, .unknown = 0, .fuses_unknown = true};
    bpe_prepare(&world.bpe);
    bpe_encode(&world.bpe, &world.work, "axya", 4, collect, &list);
    const int32_t fused[] = {1, 0, 1};
    assert_int_equal(list.n, 3);
    assert_memory_equal(list.ids, fused, sizeof(fused));
    token_list_deinit(&list);
    end_world(&world);
}

/* A character that is left out (no bytes, no unknown token) joins its neighbours: they
 * merge over it, so it is no border. */
static void left_out_characters_are_no_border(void **state)
{
    (void)state;
    static struct world world;
    world = (struct world){.is_scored = false};
    add_token(&world, "a", 1);
    add_token(&world, "b", 1);
    add_token(&world, "ab", 2);
    merges_add(&world.bpe.merges,
               (struct merge){.left = 0, .right = 1, .merged = 2, .rank = 0});
    world.bpe.vocabulary = &world.vocabulary;
    world.bpe.unknown = -1;
    bpe_prepare(&world.bpe);
    struct token_list list = {0};
    bpe_encode(&world.bpe, &world.work, "axb", 3, collect, &list);
    assert_int_equal(list.n, 1);
    assert_int_equal(list.ids[0], 2);
    token_list_deinit(&list);
    end_world(&world);
}

/* With ignores_merges a word that is a token stays whole even where no merges build
 * it. */
static void whole_words_ignore_merges(void **state)
{
    (void)state;
    static struct world world;
    world = (struct world){.is_scored = false};
    struct error err;
    assert_true(vocabulary_add(&world.vocabulary, 0, "a", 1, VOCABULARY_MODEL, &err));
    assert_true(vocabulary_add(&world.vocabulary, 1, "aaa", 3, VOCABULARY_MODEL, &err));
    for (int ignores = 0; ignores < 2; ignores++) {
        world.bpe = (struct bpe){.vocabulary = &world.vocabulary,
                                 .unknown = -1,
                                 .ignores_merges = ignores == 1};
        bpe_prepare(&world.bpe);
        struct token_list list = {0};
        bpe_encode(&world.bpe, &world.work, "aaa", 3, collect, &list);
        assert_int_equal(list.n, ignores == 1 ? 1 : 3);
        token_list_deinit(&list);
        bpe_deinit(&world.bpe);
    }
    end_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_equal_the_plain_version),
        cmocka_unit_test(ranks_with_byte_merges_equal_the_plain_version),
        cmocka_unit_test(scores_equal_the_plain_version),
        cmocka_unit_test(long_runs_merge),
        cmocka_unit_test(unknown_characters),
        cmocka_unit_test(left_out_characters_are_no_border),
        cmocka_unit_test(whole_words_ignore_merges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
