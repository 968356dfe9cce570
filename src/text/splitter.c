/*
 * splitter - matches first, then what the behaviour makes of them.
 */
#include "text/splitter.h"

#include <string.h>

#include "base/mem.h"

struct splitter_step {
    char *pattern; /* a copy, never empty */
    size_t pattern_length;
    enum splitter_behavior behavior;
    bool is_inverted; /* the separators are what lies between the matches */
};

/* Steps own copies of their patterns. */
void splitter_deinit(struct splitter *splitter)
{
    for (size_t i = 0; i < splitter->n; i++) {
        mem_free(splitter->steps[i].pattern);
    }
    mem_free(splitter->steps);
    *splitter = (struct splitter){0};
}

void splitter_add(struct splitter *splitter, const char *pattern,
                  enum splitter_behavior behavior, bool is_inverted)
{
    ASSERT(pattern[0] != '\0');
    splitter->steps = mem_reserve_one(splitter->steps, splitter->n, &splitter->capacity,
                                      sizeof(*splitter->steps));
    splitter->steps[splitter->n++] = (struct splitter_step){
        .pattern = mem_strdup(pattern),
        .pattern_length = strlen(pattern),
        .behavior = behavior,
        .is_inverted = is_inverted,
    };
}

void splitter_spans_deinit(struct splitter_spans *spans)
{
    mem_free(spans->items);
    *spans = (struct splitter_spans){0};
}

/* Appends [from, to) unless it is empty. Empty words would give no tokens, but the
 * merging behaviours would take them for a neighbour. */
static void add_span(struct splitter_spans *spans, size_t from, size_t to,
                     bool is_separator)
{
    if (from == to) {
        return;
    }
    spans->items = mem_reserve_one(spans->items, spans->n, &spans->capacity,
                                   sizeof(*spans->items));
    spans->items[spans->n++] =
        (struct splitter_span){.from = from, .to = to, .is_separator = is_separator};
}

/* Matches and what lies between them, in order, behind what *spans holds. Together the
 * spans cover the word without a gap, and a match and a stretch between two matches
 * differ in is_separator; that is all the behaviours look at. */
static void find_matches(const struct splitter_step *step, const char *text,
                         struct splitter_span word, struct splitter_spans *spans)
{
    size_t from = word.from;
    for (;;) {
        const char *found =
            memmem(text + from, word.to - from, step->pattern, step->pattern_length);
        if (found == NULL) {
            break;
        }
        const size_t at = (size_t)(found - text);
        add_span(spans, from, at, step->is_inverted);
        from = at + step->pattern_length;
        add_span(spans, at, from, !step->is_inverted);
    }
    add_span(spans, from, word.to, step->is_inverted);
}

/* Whether span i joins the span before it (within the same word). As the reference
 * library does it: with MergedWithPrevious a separator joins the word before it but not
 * another separator, so "a--b" splits into "a-", "-", "b". */
static bool joins_previous(enum splitter_behavior behavior,
                           const struct splitter_span *spans, size_t i)
{
    const bool is_separator = spans[i].is_separator;
    const bool was_separator = spans[i - 1].is_separator;
    switch (behavior) {
    case SPLITTER_REMOVED:
    case SPLITTER_ISOLATED:
        return false;
    case SPLITTER_MERGED_WITH_PREVIOUS:
        return is_separator && !was_separator;
    case SPLITTER_MERGED_WITH_NEXT:
        return was_separator && !is_separator;
    case SPLITTER_CONTIGUOUS:
        return is_separator == was_separator;
    }
    UNREACHABLE();
}

/* Applies the behaviour to matches[first .. n) of one word. first_out keeps words of
 * different input words apart: joining never reaches back over the start of this
 * one. */
static void add_words(const struct splitter_step *step,
                      const struct splitter_spans *matches, struct splitter_spans *out)
{
    const size_t first_out = out->n;
    for (size_t i = 0; i < matches->n; i++) {
        const struct splitter_span *match = &matches->items[i];
        if (step->behavior == SPLITTER_REMOVED && match->is_separator) {
            continue;
        }
        if (i > 0 && out->n > first_out &&
            joins_previous(step->behavior, matches->items, i)) {
            out->items[out->n - 1].to = match->to;
        } else {
            add_span(out, match->from, match->to, false);
        }
    }
}

/* Nothing to cut: by far the most frequent case, as Gemma's normaliser leaves no space.
 * Without a match there is one span, the whole word, and every behaviour keeps it,
 * unless it is a separator that is removed. */
static bool is_idle(const struct splitter_step *step, const char *text, size_t length)
{
    return memmem(text, length, step->pattern, step->pattern_length) == NULL &&
           !(step->is_inverted && step->behavior == SPLITTER_REMOVED);
}

/* Each step cuts every word that the one before left. Two lists take turns as source
 * and target, so that their memory serves all steps and all later calls. */
void splitter_run(const struct splitter *splitter, const char *text, size_t length,
                  struct splitter_spans *out, struct splitter_spans *spare)
{
    struct splitter_spans matches = {0};
    out->n = 0;
    add_span(out, 0, length, false);
    for (size_t i = 0; i < splitter->n; i++) {
        const struct splitter_step *step = &splitter->steps[i];
        if (is_idle(step, text, length)) {
            continue;
        }
        spare->n = 0;
        for (size_t k = 0; k < out->n; k++) {
            matches.n = 0;
            find_matches(step, text, out->items[k], &matches);
            add_words(step, &matches, spare);
        }
        const struct splitter_spans done = *spare;
        *spare = *out;
        *out = done;
    }
    splitter_spans_deinit(&matches);
}
