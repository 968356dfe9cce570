/*
 * file_folder - what lies where: folders made and removed, names joined, room on a disk.
 */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"

/* The two entries that every folder has. */
static bool is_self_or_parent(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

bool file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

bool file_is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool file_is_empty_folder(const char *path)
{
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return false;
    }
    bool is_empty = true;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        is_empty = is_empty && is_self_or_parent(entry->d_name);
    }
    closedir(folder);
    return is_empty;
}

/* Somebody else may make one of them at the same time: EEXIST is fine for a folder. */
bool file_make_folders(const char *path, struct error *err)
{
    char *part = mem_strdup(path);
    bool done = true;
    /* "a", "a/b", "a/b/c": each slash is a NUL for the moment. */
    for (char *end = part; done && *end != '\0';) {
        end += strspn(end, "/");
        end += strcspn(end, "/");
        const char kept = *end;
        *end = '\0';
        if (mkdir(part, 0777) != 0 && !(errno == EEXIST && file_is_folder(part))) {
            done = error_set_errno(err, errno, "%s: cannot be made", part);
        }
        *end = kept;
    }
    mem_free(part);
    return done;
}

/*
 * Removes `name` in the open folder `parent`; `path` is for messages. Everything is
 * done relative to open folders with O_NOFOLLOW, so that a link that is put in place
 * meanwhile cannot lead out of the tree. What is gone already is fine.
 */
static bool remove_entry(int parent, const char *name, const char *path,
                         struct error *err)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT) {
        return true;
    }
    /* Linux says EISDIR for a folder, other systems EPERM. */
    if (errno != EISDIR && errno != EPERM) {
        return error_set_errno(err, errno, "%s: cannot be removed", path);
    }
    const int fd =
        openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return error_set_errno(err, errno, "%s: cannot be removed", path);
    }
    DIR *folder = fdopendir(fd);
    if (folder == NULL) {
        const int number = errno;
        close(fd);
        return error_set_errno(err, number, "%s: cannot be listed", path);
    }
    bool done = true;
    const struct dirent *entry;
    while (done && (entry = readdir(folder)) != NULL) {
        if (!is_self_or_parent(entry->d_name)) {
            char *inner_path = file_join(path, entry->d_name);
            done = remove_entry(dirfd(folder), entry->d_name, inner_path, err);
            mem_free(inner_path);
        }
    }
    closedir(folder);
    if (done && unlinkat(parent, name, AT_REMOVEDIR) != 0) {
        done = error_set_errno(err, errno, "%s: cannot be removed", path);
    }
    return done;
}

bool file_remove_tree(const char *path, struct error *err)
{
    return remove_entry(AT_FDCWD, path, path, err);
}

/* A slash at the start of `name` is dropped: the result is always below `folder`,
 * unless that is empty, or `name` holds "..". */
char *file_join(const char *folder, const char *name)
{
    const size_t folder_length = strlen(folder);
    while (*name == '/') {
        name++;
    }
    const bool needs_slash = folder_length > 0 && folder[folder_length - 1] != '/';
    char *path = mem_alloc(folder_length + 1 + strlen(name) + 1);
    sprintf(path, "%s%s%s", folder, needs_slash ? "/" : "", name);
    return path;
}

/* The convention of freedesktop.org, which also says that a relative path does not
 * count. */
char *file_cache_folder(struct error *err)
{
    const char *cache = getenv("XDG_CACHE_HOME");
    if (cache != NULL && cache[0] == '/') {
        return file_join(cache, "lathe");
    }
    const char *home = getenv("HOME");
    if (home == NULL || home[0] != '/') {
        error_set(
            err, ERROR_FAILED,
            "no cache folder: neither XDG_CACHE_HOME nor HOME is an absolute path");
        return NULL;
    }
    return file_join(home, ".cache/lathe");
}

bool file_check_room(const char *folder, size_t bytes, const char *what,
                     struct error *err)
{
    struct statvfs disk;
    if (statvfs(folder, &disk) != 0) {
        return error_set_errno(err, errno, "cannot look at the disk of %s", folder);
    }
    const double left = (double)disk.f_bavail * (double)disk.f_frsize;
    if ((double)bytes <= left) {
        return true;
    }
    char needed[24];
    char free_text[24];
    return error_set(err, ERROR_RESOURCE, "%s: %s needs %s, the disk has %s left",
                     folder, what, str_format_bytes(needed, (double)bytes),
                     str_format_bytes(free_text, left));
}
