/*
 * libraries - what this program was built with, for `lathe doctor`.
 */
#ifndef BACKEND_LIBRARIES_H
#define BACKEND_LIBRARIES_H

#include "base/base.h"

enum { LIBRARIES_MAX = 8 };

struct libraries_row {
    const char *name;    /* "OpenBLAS" */
    char version[80];    /* "0.3.21, Zen kernels"; "" where it is not in this build */
    const char *purpose; /* "matrix products" */
    const char *absence; /* what it means that it is not there; NULL: it always is */
};

/* Fills rows and returns how many. */
int libraries_list(struct libraries_row rows[LIBRARIES_MAX]);

#endif
