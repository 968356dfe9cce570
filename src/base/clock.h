/*
 * clock - time that only goes forward.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include "base/base.h"

/* Nanoseconds since some fixed point; never goes back. */
int64_t clock_now_ns(void);

/* Milliseconds since `start_ns`. */
double clock_since_ms(int64_t start_ns);

/* Milliseconds since this process was started, in steps of some ten; 0 where the system
 * does not say. */
double clock_since_process_start_ms(void);

/* "2h 05m", "3m 12s", "8.4s": for people. Returns `buffer`. */
const char *clock_format_duration(char buffer[24], double seconds);

#endif
