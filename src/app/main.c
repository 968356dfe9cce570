/*
 * lathe - the program: finds the command, runs it, prints its error once.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/command.h"
#include "base/error.h"
#include "base/log.h"
#include "lathe/common.h"

/* Commands print without looking at each result: stdout remembers a write that failed,
 * and a full disk may show only when the last buffer goes out. */
static bool finish_output(struct error *err)
{
    if (fflush(stdout) != 0) {
        return error_set_errno(err, errno, "standard output");
    }
    /* The reason of an earlier failure is gone; nearly always it is this one. */
    return !ferror(stdout) || error_set(err, ERROR_RESOURCE,
                                        "standard output: a write failed (disk full?)");
}

/* Reading a mapped page that the disk does not give, or that is behind the end of a file
 * that became shorter, is no failed call but a signal. Only write and _exit are allowed
 * here; which file it was is not known. */
NORETURN static void end_on_bus_error(int signal_number)
{
    (void)signal_number;
    static const char line[] =
        "lathe: error: a file that is in use cannot be read: a disk error, or it was "
        "made shorter meanwhile\n";
    const ssize_t n = write(STDERR_FILENO, line, sizeof(line) - 1);
    _exit(n < 0 ? 1 : error_exit_code(ERROR_DATA));
}

/* Where memory is short, ending the usual way can take for ever: OpenBLAS waits at exit
 * for threads that wait for memory. What is to be seen goes out first. Sanitizers look for
 * leaks at a usual end, and get one. */
static void end_without_memory(const struct error *err)
{
#ifndef LATHE_SLOW_CHECKS
    if (err->kind == ERROR_RESOURCE) {
        fflush(NULL);
        _exit(error_exit_code(err->kind));
    }
#else
    (void)err;
#endif
}

/* Without a command the list is printed. This is the one place that prints an error and
 * turns its kind into an exit code. */
int main(int argc, char **argv)
{
    struct error err = {0};
    signal(SIGBUS, end_on_bus_error);
    /* A limit on the size of files is an error of the write that meets it. */
    signal(SIGXFSZ, SIG_IGN);
    const char *name = argc > 1 ? argv[1] : "help";
    /* The spellings that every program has; commands have --help of their own. */
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        name = "help";
    }
    if (strcmp(name, "--version") == 0) {
        puts("lathe " LATHE_VERSION_STRING);
        return finish_output(&err) ? 0 : error_exit_code(err.kind);
    }
    const struct command *command = command_find(name);
    const bool done = command == NULL ? command_unknown(name, &err)
                                      : command->run(command, argc > 1 ? argc - 2 : 0,
                                                     argv + 2, &err);
    if (!done || !finish_output(&err)) {
        /* A note has no prefix of its own. */
        log_note("%s%s", error_prefix(err.kind), err.message);
        end_without_memory(&err);
        return error_exit_code(err.kind);
    }
    return 0;
}
