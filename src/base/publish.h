/*
 * publish - a folder that appears whole or not at all.
 *
 *     static bool fill(void *context, const char *folder, struct error *err);
 *     publish_folder("runs/a/model", fill, &state, err);
 *
 * It grows beside its final name, as "runs/a/model.partial-HOST-PID", and is renamed at
 * the end. What a crash leaves behind the next try on the same machine removes; several
 * processes may write the same folder, and the first one to finish gives it.
 */
#ifndef BASE_PUBLISH_H
#define BASE_PUBLISH_H

#include "base/base.h"

struct error;

/* Writes the files of `folder`, which has been made. */
typedef bool (*publish_fill_fn)(void *context, const char *folder, struct error *err);

/*
 * `path` must not be there, or be an empty folder. `what` stands in the message if
 * something is in the way: "the model".
 */
MUST_USE bool publish_folder(const char *path, const char *what, publish_fill_fn fill,
                             void *context, struct error *err);

#endif
