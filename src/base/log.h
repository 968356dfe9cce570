/*
 * log - one line per event, to stderr and, when set, to a file.
 *
 * Levels: errors and warnings are prefixed ("lathe: warning: ..."), notes are not.
 * Level and file are the program's, not one caller's: set once at start.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdio.h>

#include "base/base.h"

enum log_level { LOG_ERROR, LOG_WARNING, LOG_NOTE, LOG_DEBUG };

/* Lines above this level are dropped; LOG_NOTE at first. */
void log_set_level(enum log_level level);

/* Every line also goes to `file` (borrowed; NULL stops that). */
void log_set_file(FILE *file);

/* Lines go to `handler`, without prefix and newline, instead of stderr; NULL: to stderr
 * again. Any thread may be the caller's. */
typedef void (*log_line_fn)(void *context, enum log_level level, const char *line);
void log_set_handler(log_line_fn handler, void *context);

PRINTF_LIKE(1, 2) void log_error(const char *format, ...);
PRINTF_LIKE(1, 2) void log_warning(const char *format, ...);
PRINTF_LIKE(1, 2) void log_note(const char *format, ...);
PRINTF_LIKE(1, 2) void log_debug(const char *format, ...);

#endif
