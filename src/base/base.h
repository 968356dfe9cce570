/*
 * base - what every file may use: assertions, attributes, tiny arithmetic.
 *
 * The only header outside the ISA files that uses compiler extensions.
 */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Results that may not be dropped, formats that the compiler checks against their
 * arguments (both numbers count from 1), functions that do not come back, and the
 * symbols of the shared library (all others are hidden).
 */
#define MUST_USE                     __attribute__((warn_unused_result))
#define PRINTF_LIKE(format_at, args) __attribute__((format(printf, format_at, args)))
#define NORETURN                     __attribute__((noreturn))
#define PUBLIC                       __attribute__((visibility("default")))

/* Of a true array; a pointer would give nonsense. */
#define ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Programmer error: always on; prints expression, place and rank, then aborts. */
#define ASSERT(condition) \
    ((condition) ? (void)0 : base_assert_failed(#condition, __FILE__, __LINE__))

/* Whole-structure checks, in debug and sanitizer builds only. */
#ifdef LATHE_SLOW_CHECKS
#define ASSERT_SLOW(condition) ASSERT(condition)
#else
#define ASSERT_SLOW(condition) ((void)0)
#endif

/* Marks the end of a switch that has returned in every case. */
#define UNREACHABLE() base_assert_failed("reached", __FILE__, __LINE__)

/* The rank that failed assertions print; negative (as at start) prints none. */
void base_set_rank(int rank);

NORETURN void base_assert_failed(const char *expression, const char *file, int line);

static inline int64_t base_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t base_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* base_div_up(7, 2) is 4. Both arguments are positive. */
static inline int64_t base_div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* The smallest multiple that is not below a. Both arguments are positive. */
static inline int64_t base_round_up(int64_t a, int64_t multiple)
{
    return base_div_up(a, multiple) * multiple;
}

#endif
