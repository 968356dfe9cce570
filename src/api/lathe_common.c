/*
 * lathe_common - version, errors and messages of the public interface.
 */
#include <assert.h>
#include <stdio.h>

#include "api/lathe_parts.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"

/* The numbers of both sides are cast into each other. */
static_assert((int)LATHE_ERROR == LOG_ERROR && (int)LATHE_WARNING == LOG_WARNING &&
                  (int)LATHE_NOTE == LOG_NOTE && (int)LATHE_DEBUG == LOG_DEBUG,
              "levels of the log are those of the interface");

/* The numbers that the headers had when this was compiled. */
int lathe_version(void)
{
    return LATHE_VERSION;
}

const char *lathe_version_string(void)
{
    return LATHE_VERSION_STRING;
}

/* What callers decide by is the exit code, so kinds that share one are the same here. */
bool lathe_report(struct lathe_error *error, const struct error *err)
{
    if (error != NULL) {
        error->code = error_exit_code(err->kind);
        snprintf(error->message, sizeof(error->message), "%s", err->message);
    }
    return false;
}

void lathe_set_fatal_handler(lathe_fatal_fn handler)
{
    mem_set_fatal_handler(handler);
}

/* The handler of the process, and what is between it and base/log: a level that is an
 * int on this side. */
static lathe_log_fn log_handler;

/* A log_line_fn. */
static void hand_on(void *context, enum log_level level, const char *line)
{
    log_handler(context, (int)level, line);
}

void lathe_set_log_handler(lathe_log_fn handler, void *context, int most)
{
    ASSERT(LATHE_ERROR <= most && most <= LATHE_DEBUG);
    log_handler = handler;
    log_set_handler(handler == NULL ? NULL : hand_on, context);
    log_set_level((enum log_level)most);
}

void lathe_free(void *pointer)
{
    mem_free(pointer);
}
