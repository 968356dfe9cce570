/*
 * decoder - every step edits the tail of the output in place.
 */
#include "text/decoder.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "text/vocabulary.h"

void decoder_deinit(struct decoder *decoder)
{
    for (size_t i = 0; i < decoder->n; i++) {
        mem_free(decoder->steps[i].pattern);
        mem_free(decoder->steps[i].content);
    }
    mem_free(decoder->steps);
    *decoder = (struct decoder){0};
}

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

/* Replaces the tail out[from ..) by `bytes`, which may lie in the tail itself. */
static void set_tail(struct str *out, size_t from, const char *bytes, size_t length)
{
    memmove(out->text + from, bytes, length);
    out->length = from + length;
    out->text[out->length] = '\0';
}

static void replace(const struct decoder_step *step, struct str *out, size_t from)
{
    const size_t pattern_length = strlen(step->pattern);
    const char *found =
        memmem(out->text + from, out->length - from, step->pattern, pattern_length);
    if (found == NULL) {
        return;
    }
    const size_t length = out->length - from;
    char *old = mem_strndup(out->text + from, length);
    set_tail(out, from, "", 0);
    size_t at = 0;
    while ((found = memmem(old + at, length - at, step->pattern, pattern_length)) !=
           NULL) {
        str_add_bytes(out, old + at, (size_t)(found - old) - at);
        str_add(out, step->content);
        at = (size_t)(found - old) + pattern_length;
    }
    str_add_bytes(out, old + at, length - at);
    mem_free(old);
}

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
    set_tail(out, from, out->text + begin, end - begin);
}

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
        if (vocabulary_is_byte(out->text + from, out->length - from, &byte)) {
            const char c = (char)byte;
            set_tail(out, from, &c, 1);
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

/* Index of the Fuse step, n when there is none. */
static size_t fuse_at(const struct decoder *decoder)
{
    size_t i = 0;
    while (i < decoder->n && decoder->steps[i].kind != DECODER_FUSE) {
        i++;
    }
    return i;
}

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

void decoder_finish(const struct decoder *decoder, struct str *out, size_t from)
{
    for (size_t i = fuse_at(decoder); i < decoder->n; i++) {
        run_step(&decoder->steps[i], out, from);
    }
}
