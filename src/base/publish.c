/*
 * publish - see publish.h.
 */
#include "base/publish.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"

/* True when `path` is not there, or a folder with nothing in it. */
static bool check_free(const char *path, const char *what, struct error *err)
{
    if (!file_exists(path) || file_is_empty_folder(path)) {
        return true;
    }
    if (!file_is_folder(path)) {
        return error_set(err, ERROR_USAGE, "%s: is in the way of %s", path, what);
    }
    return error_set(err, ERROR_USAGE,
                     "%s: exists and is not empty; remove it or name another folder",
                     path);
}

/* "folder/" and "folder" are one place: ".partial" goes behind the name. */
static void add_partial_name(struct str *partial, const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    str_add_bytes(partial, path, length);
    str_add(partial, ".partial");
}

/* Whatever fails removes what was made; the message is that of the failure. */
bool publish_folder(const char *path, const char *what, publish_fill_fn fill,
                    void *context, struct error *err)
{
    if (!check_free(path, what, err)) {
        return false;
    }
    struct str partial = {0};
    add_partial_name(&partial, path);
    bool done = (!file_exists(partial.text) || file_remove_tree(partial.text, err)) &&
                file_make_folders(partial.text, err) &&
                fill(context, partial.text, err);
    if (done && rename(partial.text, path) != 0) {
        done = error_set_errno(err, errno, "%s: cannot be renamed to %s", partial.text,
                               path);
    }
    if (!done) {
        struct error ignored;
        (void)!file_remove_tree(partial.text, &ignored);
    }
    str_deinit(&partial);
    return done;
}
