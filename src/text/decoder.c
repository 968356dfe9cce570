/*
 * decoder - every step edits the tail of the output in place.
 */
#include "text/decoder.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "text/vocabulary.h"

/* Steps own copies of their strings. */
void decoder_deinit(struct decoder *decoder)
{
    for (size_t i = 0; i < decoder->n; i++) {
        mem_free(decoder->steps[i].pattern);
        mem_free(decoder->steps[i].content);
    }
    mem_free(decoder->steps);
    *decoder = (struct decoder){0};
}

/* Appends a step with copies of its strings. */
static struct decoder_step *add_step(struct decoder *decoder, enum decoder_kind kind,
                                     const char *pattern, const char *content)
{
    decoder->steps = mem_reserve_one(decoder->steps, decoder->n, &decoder->capacity,
                                     sizeof(*decoder->steps));
    struct decoder_step *step = &decoder->steps[decoder->n++];
    *step = (struct decoder_step){
        .kind = kind,
        .pattern = mem_strdup(pattern == NULL ? "" : pattern),
        .content = mem_strdup(content == NULL ? "" : content),
    };
    return step;
}

void decoder_add(struct decoder *decoder, enum decoder_kind kind, const char *pattern,
                 const char *content)
{
    ASSERT(kind != DECODER_STRIP);
    ASSERT(kind != DECODER_REPLACE || (pattern != NULL && pattern[0] != '\0'));
    add_step(decoder, kind, pattern, content);
}

void decoder_add_strip(struct decoder *decoder, const char *content, int64_t start,
                       int64_t stop)
{
    ASSERT(content[0] != '\0');
    struct decoder_step *step = add_step(decoder, DECODER_STRIP, NULL, content);
    step->start = start;
    step->stop = stop;
}

/* Makes out[from ..) the `length` bytes that begin at out[at]. */
static void keep(struct str *out, size_t from, size_t at, size_t length)
{
    memmove(out->text + from, out->text + at, length);
    out->length = from + length;
    out->text[out->length] = '\0';
}

/* Writes the new tail behind the old one, then moves it down. Nothing is written when
 * the pattern does not occur, which is the common case. Reading stops at `end`, so text
 * that was put in is not searched again. Indices, not pointers, as appending may move
 * the buffer. */
static void replace(const struct decoder_step *step, struct str *out, size_t from)
{
    const size_t end = out->length;
    const size_t pattern_length = strlen(step->pattern);
    size_t at = from;
    for (;;) {
        const char *found =
            memmem(out->text + at, end - at, step->pattern, pattern_length);
        const size_t to = found == NULL ? end : (size_t)(found - out->text);
        if (at == from && to == end) {
            return;
        }
        for (size_t i = at; i < to; i++) {
            str_add_char(out, out->text[i]);
        }
        if (to == end) {
            break;
        }
        str_add(out, step->content);
        at = to + pattern_length;
    }
    keep(out, from, end, out->length - end);
}

/* Counts what goes from either end, at most start and stop times, then keeps the
 * middle. Counts never run past each other, because the room between the two ends is
 * held against n before each comparison. */
static void strip(const struct decoder_step *step, struct str *out, size_t from)
{
    const size_t n = strlen(step->content);
    size_t begin = from;
    size_t end = out->length;
    for (int64_t i = 0; i < step->start && end - begin >= n; i++) {
        if (memcmp(out->text + begin, step->content, n) != 0) {
            break;
        }
        begin += n;
    }
    for (int64_t i = 0; i < step->stop && end - begin >= n; i++) {
        if (memcmp(out->text + end - n, step->content, n) != 0) {
            break;
        }
        end -= n;
    }
    keep(out, from, begin, end - begin);
}

/* One step on out[from ..), which is one token or, after Fuse, the whole text. */
static void run_step(const struct decoder_step *step, struct str *out, size_t from)
{
    if (out->length == from) {
        return;
    }
    uint8_t byte;
    switch (step->kind) {
    case DECODER_REPLACE:
        replace(step, out, from);
        return;
    case DECODER_BYTE_FALLBACK:
        /* The six characters shrink to one byte in place. Unlike the reference library
         * this does not check that a run of bytes is UTF-8: the bytes of the text come
         * back as they were. */
        if (vocabulary_is_byte(out->text + from, out->length - from, &byte)) {
            out->text[from] = (char)byte;
            keep(out, from, from, 1);
        }
        return;
    case DECODER_STRIP:
        strip(step, out, from);
        return;
    case DECODER_FUSE:
        return;
    }
    UNREACHABLE();
}

/* Index of the Fuse step, n when there is none. Where there is no Fuse step, all steps
 * work on single tokens and decoder_finish does nothing. */
static size_t fuse_at(const struct decoder *decoder)
{
    size_t i = 0;
    while (i < decoder->n && decoder->steps[i].kind != DECODER_FUSE) {
        i++;
    }
    return i;
}

/* The token goes to the end of *out and is edited there: no buffer of its own, and text
 * of earlier tokens, before `from`, is never touched. */
void decoder_token(const struct decoder *decoder, const char *text, size_t length,
                   struct str *out)
{
    const size_t from = out->length;
    str_add_bytes(out, text, length);
    const size_t n = fuse_at(decoder);
    for (size_t i = 0; i < n; i++) {
        run_step(&decoder->steps[i], out, from);
    }
}

/* The Fuse step itself, where this begins, does nothing. */
void decoder_finish(const struct decoder *decoder, struct str *out, size_t from)
{
    for (size_t i = fuse_at(decoder); i < decoder->n; i++) {
        run_step(&decoder->steps[i], out, from);
    }
}
