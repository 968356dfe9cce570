/*
 * error - formatting of messages and what errno values mean.
 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A message is one line: what came from outside may hold newlines, and what a terminal
 * obeys, for which a question mark stands as in the log. */
static void flatten(char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\n' || *text == '\r') {
            *text = ' ';
        } else if ((unsigned char)*text < 0x20 || *text == 0x7F) {
            *text = '?';
        }
    }
}

/* strcat that cuts what does not fit into `room` bytes. */
static void append(char *text, size_t room, const char *more)
{
    const size_t used = strlen(text);
    const size_t wanted = strlen(more);
    const size_t taken = wanted < room - used ? wanted : room - used - 1;
    memcpy(text + used, more, taken);
    text[used + taken] = '\0';
}

bool error_set(struct error *err, enum error_kind kind, const char *format, ...)
{
    ASSERT(err != NULL);
    /* Arguments may point into err->message, so it is written at the end. */
    char message[sizeof(err->message)];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    flatten(message);
    memcpy(err->message, message, sizeof(message));
    err->kind = kind;
    return false;
}

/* A context that fills the buffer by itself leaves no room for the message behind it:
 * it is then the message. */
bool error_wrap(struct error *err, const char *format, ...)
{
    ASSERT(err != NULL);
    char message[sizeof(err->message)];
    va_list args;
    va_start(args, format);
    const int written = vsnprintf(message, sizeof(message), format, args);
    va_end(args);

    if (written >= 0 && (size_t)written < sizeof(message)) {
        append(message, sizeof(message), ": ");
        append(message, sizeof(message), err->message);
    }
    flatten(message);
    memcpy(err->message, message, sizeof(message));
    return false;
}

/* Only the kinds a caller decides by: a missing file may be fine, a full disk is not
 * the data's fault. All else about a path is taken as its content's. */
static enum error_kind kind_of_errno(int number)
{
    switch (number) {
    case ENOENT:
        return ERROR_NOT_FOUND;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
        return ERROR_RESOURCE;
    default:
        return ERROR_DATA;
    }
}

bool error_set_errno(struct error *err, int number, const char *format, ...)
{
    ASSERT(err != NULL);
    char message[sizeof(err->message)];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);

    char reason[128];
    const char *text = strerror_r(number, reason, sizeof(reason)); /* GNU form */
    return error_set(err, kind_of_errno(number), "%s: %s", message, text);
}

const char *error_prefix(enum error_kind kind)
{
    const bool is_wish = kind == ERROR_INTERRUPTED || kind == ERROR_CANCELLED;
    return is_wish ? "lathe: " : "lathe: error: ";
}

/* No default: a new kind does not compile before it has a code. */
int error_exit_code(enum error_kind kind)
{
    switch (kind) {
    case ERROR_FAILED:
    case ERROR_CANCELLED:
        return 1;
    case ERROR_USAGE:
        return 2;
    case ERROR_DATA:
    case ERROR_NOT_FOUND:
        return 3;
    case ERROR_RESOURCE:
        return 4;
    case ERROR_PEER:
        return 5;
    case ERROR_PREEMPTED:
        return 6;
    case ERROR_INTERRUPTED:
        return 130;
    }
    UNREACHABLE();
}
