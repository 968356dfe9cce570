/*
 * model_copy - a model from one place to another: what `lathe convert` and `lathe export`
 * have in common.
 *
 *     const struct model_copy copy = {.from = "m.gguf", .to = "m", .dtype = "bf16"};
 *     if (!model_copy_run(&copy, err)) ...
 */
#ifndef APP_MODEL_COPY_H
#define APP_MODEL_COPY_H

#include "base/base.h"

struct error;

struct model_copy {
    const char *from;    /* folder in Hugging Face layout, or .gguf file */
    const char *adapter; /* folder in PEFT layout, merged into it; NULL: none */
    const char *to;      /* a folder that is not there, or empty */
    const char *dtype;   /* "f32", "bf16", "f16"; NULL: the type of `from` */
};

/*
 * Writes the folder, whole or not at all, with progress on stderr if it is large, and
 * prints one line about it. Values pass through a few megabytes of memory. A signal that
 * is noted (base/interrupt.h) ends it, and nothing is left.
 */
MUST_USE bool model_copy_run(const struct model_copy *copy, struct error *err);

/* An error if `to` lies in the folder `from` or is that folder: results never go into
 * what they are made from. Also if it is empty, or a link that leads nowhere. */
MUST_USE bool model_copy_check_apart(const char *from, const char *to,
                                     struct error *err);

/* The nearest folder above `path` that is there, or ".". Freed with mem_free. */
char *model_copy_existing_parent(const char *path);

/* Whether `folder` holds a file of this name. */
bool model_copy_has_file(const char *folder, const char *name);

#endif
