/*
 * lfs_pointer - names the file that git-lfs leaves in the place of a big one.
 *
 * A clone without git-lfs holds some 130 bytes of text where weights should be; told as a
 * broken header, nobody guesses what is wrong.
 */
#ifndef BASE_LFS_POINTER_H
#define BASE_LFS_POINTER_H

#include "base/base.h"

struct error;

/* False, with an error that says what to do, when bytes[0 .. length) are such a file. */
MUST_USE bool lfs_pointer_check(const void *bytes, size_t length, const char *where,
                                struct error *err);

#endif
