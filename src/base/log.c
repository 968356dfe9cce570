/*
 * log - a line is formatted first and written in one piece, so that lines of several
 * threads do not mix.
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

/* Read by any thread at any time, hence atomic. */
static _Atomic int shown_level = LOG_NOTE;
static FILE *_Atomic log_file;

/* Set before there are threads, as the header of the public interface asks for. */
static log_line_fn line_handler;
static void *line_context;

void log_set_level(enum log_level level)
{
    atomic_store(&shown_level, (int)level);
}

void log_set_file(FILE *file)
{
    atomic_store(&log_file, file);
}

void log_set_handler(log_line_fn handler, void *context)
{
    line_handler = handler;
    line_context = context;
}

static const char *prefix_of(enum log_level level)
{
    switch (level) {
    case LOG_ERROR:
        return "lathe: error: ";
    case LOG_WARNING:
        return "lathe: warning: ";
    case LOG_NOTE:
        return "";
    case LOG_DEBUG:
        return "debug: ";
    }
    UNREACHABLE();
}

/* One fwrite per line and place. Longer lines are cut: a log line is for people. Names
 * and values from files may hold line breaks or what a terminal obeys; a question mark
 * stands for these. A line for the file is flushed at once: the last ones before a crash
 * matter most. */
PRINTF_LIKE(2, 0)
static void write_line(enum log_level level, const char *format, va_list args)
{
    if ((int)level > atomic_load(&shown_level)) {
        return;
    }
    char line[4096];
    const size_t room = sizeof(line) - 1; /* one byte is kept for the newline */
    const size_t prefix_length = strlen(prefix_of(level));
    memcpy(line, prefix_of(level), prefix_length);
    int written = vsnprintf(line + prefix_length, room - prefix_length, format, args);
    size_t length = prefix_length + (written < 0 ? 0 : (size_t)written);
    if (length > room - 1) {
        length = room - 1;
    }
    for (size_t i = prefix_length; i < length; i++) {
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7F) {
            line[i] = '?';
        }
    }
    line[length] = '\0';
    if (line_handler != NULL) {
        line_handler(line_context, level, line + prefix_length);
    }
    line[length++] = '\n';

    if (line_handler == NULL) {
        fwrite(line, 1, length, stderr);
    }
    FILE *file = atomic_load(&log_file);
    if (file != NULL) {
        fwrite(line, 1, length, file);
        fflush(file);
    }
}

void log_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(LOG_ERROR, format, args);
    va_end(args);
}

void log_warning(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(LOG_WARNING, format, args);
    va_end(args);
}

void log_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(LOG_NOTE, format, args);
    va_end(args);
}

void log_debug(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(LOG_DEBUG, format, args);
    va_end(args);
}
