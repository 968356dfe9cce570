/*
 * normalizer - each step copies from one buffer to the other.
 */
#include "text/normalizer.h"

#include <string.h>

#include "base/mem.h"

/* Strings are copies, ended with NUL; a pattern cannot hold one. */
struct normalizer_step {
    enum normalizer_kind kind;
    char *pattern;
    char *content;
    size_t pattern_length;
    size_t content_length;
};

/* Steps own copies of their strings. */
void normalizer_deinit(struct normalizer *normalizer)
{
    for (size_t i = 0; i < normalizer->n; i++) {
        mem_free(normalizer->steps[i].pattern);
        mem_free(normalizer->steps[i].content);
    }
    mem_free(normalizer->steps);
    *normalizer = (struct normalizer){0};
}

/* Lengths are kept, as memmem and memcpy want them for every text. */
void normalizer_add(struct normalizer *normalizer, enum normalizer_kind kind,
                    const char *pattern, const char *content)
{
    ASSERT(kind == NORMALIZER_PREPEND || pattern[0] != '\0');
    normalizer->steps =
        mem_reserve_one(normalizer->steps, normalizer->n, &normalizer->capacity,
                        sizeof(*normalizer->steps));
    normalizer->steps[normalizer->n++] = (struct normalizer_step){
        .kind = kind,
        .pattern = mem_strdup(pattern == NULL ? "" : pattern),
        .content = mem_strdup(content),
        .pattern_length = pattern == NULL ? 0 : strlen(pattern),
        .content_length = strlen(content),
    };
}

void normalizer_text_deinit(struct normalizer_text *text)
{
    mem_free(text->text);
    mem_free(text->origin);
    *text = (struct normalizer_text){0};
}

/* Room for so many more bytes. Text and origins grow together; doubling keeps the sum
 * of all copies linear in the length. */
static void reserve(struct normalizer_text *text, size_t more)
{
    if (text->capacity - text->n >= more) {
        return;
    }
    const size_t capacity = 2 * text->capacity + more + 64;
    text->text = mem_grow_array(text->text, text->capacity, capacity, 1);
    text->origin =
        mem_grow_array(text->origin, text->capacity, capacity, sizeof(*text->origin));
    text->capacity = capacity;
}

/* Appends bytes that all come from source byte `origin`. All of them begin where the
 * replaced text began, so a token that starts inside a replacement is traced to the
 * start of what was replaced. */
static void add_new(struct normalizer_text *out, const char *bytes, size_t length,
                    uint32_t origin)
{
    reserve(out, length);
    memcpy(out->text + out->n, bytes, length);
    for (size_t i = 0; i < length; i++) {
        out->origin[out->n + i] = origin;
    }
    out->n += length;
}

/* Appends bytes [from, to) of `in` as they are. */
static void add_copy(struct normalizer_text *out, const struct normalizer_text *in,
                     size_t from, size_t to)
{
    if (from == to) {
        return;
    }
    reserve(out, to - from);
    memcpy(out->text + out->n, in->text + from, to - from);
    memcpy(out->origin + out->n, in->origin + from, (to - from) * sizeof(*in->origin));
    out->n += to - from;
}

/* One step from `in` to `out`. A prefix comes from the first byte of the text, what
 * replaces a match from the first byte of the match. Matches do not overlap and are
 * found from left to right. */
static void run_step(const struct normalizer_step *step,
                     const struct normalizer_text *in, struct normalizer_text *out)
{
    out->n = 0;
    if (in->n == 0) {
        return;
    }
    size_t from = 0;
    switch (step->kind) {
    case NORMALIZER_PREPEND:
        add_new(out, step->content, step->content_length, in->origin[0]);
        break;
    case NORMALIZER_REPLACE:
        for (;;) {
            const char *found = memmem(in->text + from, in->n - from, step->pattern,
                                       step->pattern_length);
            if (found == NULL) {
                break;
            }
            const size_t at = (size_t)(found - in->text);
            add_copy(out, in, from, at);
            add_new(out, step->content, step->content_length, in->origin[at]);
            from = at + step->pattern_length;
        }
        break;
    }
    add_copy(out, in, from, in->n);
}

/* Text and origins start as copies; then each step swaps the two buffers. Origins
 * always refer to the text that came in, not to the step before, because each step
 * carries them along. */
void normalizer_run(const struct normalizer *normalizer, const char *text,
                    size_t length, struct normalizer_text *out,
                    struct normalizer_text *spare)
{
    out->n = 0;
    reserve(out, length);
    for (size_t i = 0; i < length; i++) {
        out->text[i] = text[i];
        out->origin[i] = (uint32_t)i;
    }
    out->n = length;
    for (size_t i = 0; i < normalizer->n; i++) {
        run_step(&normalizer->steps[i], out, spare);
        const struct normalizer_text done = *spare;
        *spare = *out;
        *out = done;
    }
}
