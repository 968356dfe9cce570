/*
 * common - what all of lathe's public interface shares: version, errors, messages.
 *
 *     struct lathe_error error;
 *     struct lathe_model *model = lathe_model_open("models/gemma", NULL, &error);
 *     if (model == NULL) {
 *         fprintf(stderr, "%s\n", error.message);
 *         return error.code;
 *     }
 *
 * Failure. A function that can fail returns false or NULL and fills *error, which may be
 * NULL where the reason is of no interest; on success *error is left alone. A wrong
 * argument that only a programmer can have given (a NULL object, an index out of range)
 * is an assertion: one line to the fatal handler, then abort().
 *
 * Threads. Objects are used by one thread at a time unless their header says more;
 * different objects may be used at once. What this header sets belongs to the process and
 * is set before other threads use the library.
 *
 * Versions. LATHE_VERSION_MAJOR changes when a program has to be compiled or written
 * anew; it is the number in the name of the shared library. Structs that the library
 * fills grow at their end only.
 */
#ifndef LATHE_COMMON_H
#define LATHE_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LATHE_API __attribute__((visibility("default")))

#define LATHE_VERSION_MAJOR 0
#define LATHE_VERSION_MINOR 1
#define LATHE_VERSION_PATCH 0
#define LATHE_VERSION \
    (LATHE_VERSION_MAJOR * 10000 + LATHE_VERSION_MINOR * 100 + LATHE_VERSION_PATCH)
#define LATHE_VERSION_STRING "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* Why something failed; the program `lathe` exits with these numbers. */
enum lathe_code {
    LATHE_OK = 0,
    LATHE_FAILED = 1,       /* none of the others */
    LATHE_USAGE = 2,        /* settings or arguments */
    LATHE_DATA = 3,         /* a data or model file is missing or wrong */
    LATHE_RESOURCE = 4,     /* out of memory or disk */
    LATHE_INTERRUPTED = 130 /* stopped, as lathe_train_stop or a callback asked for */
};

/* Of the caller; contents after a failure only. */
struct lathe_error {
    int code;           /* enum lathe_code, never LATHE_OK */
    char message[1000]; /* one line: what, where, what was expected, what to do */
};

/* LATHE_VERSION and LATHE_VERSION_STRING of the library that runs, which may be newer than
 * the headers. Any thread. */
LATHE_API int lathe_version(void);
LATHE_API const char *lathe_version_string(void);

/*
 * Called with one line before the library ends the process: small host memory is
 * exhausted (exit code 4), or an assertion failed (abort). It may note the line and clean
 * up, not allocate; when it returns the process ends. NULL: the line goes to stderr.
 */
typedef void (*lathe_fatal_fn)(const char *message);
LATHE_API void lathe_set_fatal_handler(lathe_fatal_fn handler);

enum lathe_level { LATHE_ERROR, LATHE_WARNING, LATHE_NOTE, LATHE_DEBUG };

/*
 * Takes the lines that the library would write to stderr: notes on what it does, and
 * warnings. `level` is an enum lathe_level; `line` has no newline and is valid during the
 * call, which may come from any thread. Lines above `most` are dropped. handler NULL: to
 * stderr, as at start, where `most` is LATHE_NOTE.
 */
typedef void (*lathe_log_fn)(void *context, int level, const char *line);
LATHE_API void lathe_set_log_handler(lathe_log_fn handler, void *context, int most);

/* Frees memory that a function of the library has handed to the caller. Takes NULL. */
LATHE_API void lathe_free(void *pointer);

#ifdef __cplusplus
}
#endif

#endif
