/*
 * lfs_pointer - see the header.
 */
#include "base/lfs_pointer.h"

#include <string.h>

#include "base/error.h"

bool lfs_pointer_check(const void *bytes, size_t length, const char *where,
                       struct error *err)
{
    static const char start[] = "version https://git-lfs.github.com/spec/";
    if (length < sizeof(start) - 1 || memcmp(bytes, start, sizeof(start) - 1) != 0) {
        return true;
    }
    return error_set(
        err, ERROR_DATA,
        "%s: a git-lfs pointer, not the file itself: fetch it with `git lfs "
        "pull` in its repository",
        where);
}
