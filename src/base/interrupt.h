/*
 * interrupt - SIGINT and SIGTERM as a request that long work looks at.
 *
 *     interrupt_install();
 *     while (work is left && interrupt_check(err)) ...
 *
 * The first signal is noted, and nothing else happens: the program ends its work where
 * that can be ended and keeps what it has. A second one ends the process at once, as the
 * signal does by default; a repetition within half a second is taken for the same one
 * (`timeout` and job schedulers send theirs to the process and to its group).
 *
 * Only a program installs this, never library code. Any thread may ask.
 */
#ifndef BASE_INTERRUPT_H
#define BASE_INTERRUPT_H

#include "base/base.h"

struct error;

/* Catches SIGINT and SIGTERM from now on; a signal that is ignored stays ignored (nohup,
 * background jobs of a shell). */
void interrupt_install(void);

/* Writing to a pipe that nobody reads fails from now on instead of ending the process:
 * for work that is worth more than its output on the terminal. */
void interrupt_ignore_broken_pipe(void);

/* The signal that was noted, SIGINT or SIGTERM, or 0. */
int interrupt_requested(void);

/* The same as a place to look at, for engines (struct backend_options). */
const _Atomic int *interrupt_flag(void);

/* False once a signal was noted: ERROR_INTERRUPTED after SIGINT, ERROR_CANCELLED after
 * SIGTERM. */
MUST_USE bool interrupt_check(struct error *err);

/* "SIGINT" or "SIGTERM", of interrupt_requested; "no signal". */
const char *interrupt_name(void);

/* Notes `signal_number` as if it had come, 0 takes it back: for tests, and for programs
 * with handlers of their own. */
void interrupt_note(int signal_number);

#endif
