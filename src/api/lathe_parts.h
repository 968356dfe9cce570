/*
 * lathe_parts - what the files of the public interface share.
 *
 * They are thin: arguments are checked and handed to the folders below, errors are
 * translated once, here.
 */
#ifndef API_LATHE_PARTS_H
#define API_LATHE_PARTS_H

#include "base/base.h"
#include "lathe/lathe.h"
#include "train/model_source.h"
#include "train/settings.h"

struct engine;
struct error;

/* Fills the caller's error, unless that is NULL. Returns false, always. */
bool lathe_report(struct lathe_error *error, const struct error *err);

struct lathe_settings {
    struct settings settings;
};

struct lathe_tokenizer {
    struct tokenizer *tokenizer;
};

struct lathe_model {
    char *path;
    struct model_source source;       /* with weights and, if asked for, an adapter */
    struct lathe_tokenizer tokenizer; /* of the source; NULL inside: none */
    int n_threads;                    /* 0: one per processor */
};

/* An engine with the model's threads. */
MUST_USE struct engine *lathe_model_engine(const struct lathe_model *model,
                                           struct error *err);

#endif
