/*
 * mem - heap memory.
 *
 * mem_alloc and its kin are for small host memory: they never return NULL, running out
 * ends the process with one line and exit code 4. Sizes that come from a model or a
 * file go through mem_size_mul and mem_try_alloc, whose callers unwind.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include "base/base.h"

struct error;

enum { MEM_ALIGNMENT = 64 }; /* bytes; every allocation starts on a cache line */

/* Zeroed memory; never NULL; freed with mem_free. */
void *mem_alloc(size_t bytes);
void *mem_alloc_array(size_t count, size_t element_bytes);

/* Grows to `count` elements (never shrinks); the new part is not cleared. */
void *mem_grow_array(void *owned_old, size_t old_count, size_t count,
                     size_t element_bytes);

/*
 * mem_reserve_one(items, n, capacity, element_bytes): ensures room for one more element
 * in a growing array; updates *capacity. Returns the (perhaps moved) array.
 */
void *mem_reserve_one(void *owned_items, size_t n, size_t *capacity,
                      size_t element_bytes);

char *mem_strdup(const char *text);
char *mem_strndup(const char *text, size_t length); /* ends at a NUL before that */

/* Copies all bytes, NUL or not, and puts a NUL behind them. `bytes` may be NULL if there
 * are none. */
char *mem_copy_bytes(const void *bytes, size_t length);

/* Uninitialised memory, or NULL with ERROR_RESOURCE naming `what` and the size. Large
 * blocks are mapped directly, so that pages never touched cost nothing. */
MUST_USE void *mem_try_alloc(size_t bytes, const char *what, struct error *err);

/* For tests of unwinding: the n-th mem_try_alloc of this thread from now on (1 = the
 * next) fails, once; 0 = none. */
void mem_fail_try_alloc(int64_t n);

/* How mem_alloc ends the process when `bytes` are not to be had; for libraries that can
 * be given an allocator. */
NORETURN void mem_exhausted(size_t bytes);

/* Takes NULL. */
void mem_free(void *pointer);

/* *product = a * b, or false (and *product = SIZE_MAX) when it does not fit. */
MUST_USE bool mem_size_mul(size_t a, size_t b, size_t *product);

/* Called with one line before the process ends by exhaustion or failed assertion. */
typedef void (*mem_fatal_fn)(const char *message);
void mem_set_fatal_handler(mem_fatal_fn handler);

/* Hands one line to the handler, or to stderr when none is set. Returns. */
void mem_report_fatal(const char *message);

/*
 * Between mem_guard_begin and mem_guard_end this thread may not allocate through mem_*;
 * doing so is a failed assertion. The step loop runs under it in tests.
 */
void mem_guard_begin(void);
void mem_guard_end(void);

/* Resident memory of this process now, and its highest value so far, in bytes. */
size_t mem_resident_bytes(void);
size_t mem_peak_resident_bytes(void);

/* Memory that this process may use: the machine's, or its container's where that is less
 * (cgroup limits); SIZE_MAX when the system does not say. */
size_t mem_machine_bytes(void);

#endif
