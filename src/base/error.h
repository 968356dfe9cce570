/*
 * error - one way to fail.
 *
 * A function that can fail takes `struct error *err` last and returns false or NULL.
 * The message is set once, where the fault is seen, with the values; callers may put
 * context in front; app/ prints it once and exits with error_exit_code().
 *
 *     if (size > left) {
 *         return error_set(err, ERROR_DATA, "%s: tensor %s ends at %zu, file has %zu",
 *                          path, name, end, size);
 *     }
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "base/base.h"

/* Kinds exist where a caller decides by them; the exit code is such a decision. */
enum error_kind {
    ERROR_FAILED,      /* exit code 1 */
    ERROR_USAGE,       /* 2: command line or settings */
    ERROR_DATA,        /* 3: data or model file */
    ERROR_RESOURCE,    /* 4: out of memory or disk */
    ERROR_PEER,        /* 5: peer lost or engine failure */
    ERROR_PREEMPTED,   /* 6: stopped by SIGTERM after a resumable save */
    ERROR_INTERRUPTED, /* 130: stopped by the user */
    ERROR_NOT_FOUND,   /* 3: a file that is not there, where a caller may go on */
    ERROR_CANCELLED,   /* 1: work in flight was abandoned, as somebody asked for */
};

struct error {
    enum error_kind kind;
    char message[1000]; /* one line, no newline at the end */
};

/* Sets kind and message; a message that is too long is cut. Returns false, always. */
PRINTF_LIKE(3, 4)
bool error_set(struct error *err, enum error_kind kind, const char *format, ...);

/* Puts "CONTEXT: " in front of the message; the kind stays. Returns false, always. */
PRINTF_LIKE(2, 3) bool error_wrap(struct error *err, const char *format, ...);

/* Appends the text of errno value `number` to the formatted message. Kind: ENOENT gives
 * NOT_FOUND, ENOSPC, EDQUOT, EFBIG and ENOMEM give RESOURCE, the rest DATA. Returns false. */
PRINTF_LIKE(3, 4)
bool error_set_errno(struct error *err, int number, const char *format, ...);

/* What the process returns for an error of this kind; docs and scripts rely on the
 * numbers. */
int error_exit_code(enum error_kind kind);

/* How a line about an error of this kind begins: "lathe: error: ", or "lathe: " for an end
 * that somebody asked for. */
const char *error_prefix(enum error_kind kind);

#endif
