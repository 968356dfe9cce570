/*
 * publish - see publish.h.
 */
#include "base/publish.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* "folder/" and "folder" are one place: what is added goes behind the name. */
static size_t length_without_slashes(const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    return length;
}

/* "PATH.partial-HOST-": what stands between the name and the number of a process. Process
 * numbers mean something on their own machine only, and folders are shared. */
static void add_prefix(struct str *prefix, const char *path)
{
    char host[65] = "";
    if (gethostname(host, sizeof(host) - 1) != 0) {
        strcpy(host, "unknown");
    }
    str_add_bytes(prefix, path, length_without_slashes(path));
    str_printf(prefix, ".partial-%s-", host);
}

/* Whether `name` is a folder that a process of this machine, which has ended, left
 * behind. */
static bool is_left_behind(const char *name, const char *prefix)
{
    const size_t length = strlen(prefix);
    if (strncmp(name, prefix, length) != 0) {
        return false;
    }
    char *end = NULL;
    const long number = strtol(name + length, &end, 10);
    return end != name + length && *end == '\0' && number > 0 &&
           kill((pid_t)number, 0) != 0 && errno == ESRCH;
}

/* Removes what processes have left that were killed while they wrote the same folder. That
 * some of it stays is no reason to fail. */
static void remove_left_behind(const char *prefix)
{
    const char *slash = strrchr(prefix, '/');
    struct str folder = {0};
    str_add_bytes(&folder, prefix, slash == NULL ? 0 : (size_t)(slash - prefix) + 1);
    const char *name = slash == NULL ? prefix : slash + 1;
    DIR *entries = opendir(slash == NULL ? "." : folder.text);
    for (const struct dirent *entry;
         entries != NULL && (entry = readdir(entries)) != NULL;) {
        if (!is_left_behind(entry->d_name, name)) {
            continue;
        }
        struct str path = {0};
        struct error ignored;
        str_printf(&path, "%s%s", str_text(&folder), entry->d_name);
        (void)!file_remove_tree(path.text, &ignored);
        str_deinit(&path);
    }
    if (entries != NULL) {
        closedir(entries);
    }
    str_deinit(&folder);
}

/* Whatever fails removes what was made; the message is that of the failure. The folder on
 * its way is named after the process, so that two of them never share one. */
bool publish_folder(const char *path, const char *what, publish_fill_fn fill,
                    void *context, struct error *err)
{
    if (!check_free(path, what, err)) {
        return false;
    }
    struct str partial = {0};
    add_prefix(&partial, path);
    remove_left_behind(partial.text);
    str_printf(&partial, "%ld", (long)getpid());
    if (file_exists(partial.text)) {
        error_set(err, ERROR_USAGE, "%s: is being written already", path);
        str_deinit(&partial);
        return false;
    }
    bool done =
        file_make_folders(partial.text, err) && fill(context, partial.text, err);
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
