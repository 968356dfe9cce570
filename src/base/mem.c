/*
 * mem - heap memory in two kinds of blocks, freed by one function.
 *
 * A block starts with a header that says how it was made; the caller's pointer is
 * MEM_ALIGNMENT (heap) or PAGE_BYTES (mapped) behind it. Big blocks are mapped: their
 * pages are zero, cost nothing until touched, and go back to the system when freed.
 * Sanitizer builds take everything from the heap, where overruns are seen.
 */
#include "base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"

enum { PAGE_BYTES = 4096 };

#ifdef LATHE_SLOW_CHECKS
static const size_t map_from_bytes = SIZE_MAX;
#else
static const size_t map_from_bytes = (size_t)1 << 20;
#endif

/* From here on 2 MiB pages are asked for: fewer misses while kernels stream through. */
static const size_t huge_from_bytes = (size_t)32 << 20;

/* In the 64 bytes before the caller's pointer. */
struct block_header {
    size_t mapped_bytes; /* whole mapping with its first page; 0 = from the heap */
    unsigned char padding[MEM_ALIGNMENT - sizeof(size_t)];
};

static_assert(sizeof(struct block_header) == MEM_ALIGNMENT, "header is one line");

/* Set once at start, before there are threads. The others are per thread: a guarded
 * step does not forbid the loader's thread to allocate. */
static mem_fatal_fn fatal_handler;
static _Thread_local int guard_depth;
static _Thread_local int64_t fails_in; /* see mem_fail_try_alloc; 0 = never */

void mem_set_fatal_handler(mem_fatal_fn handler)
{
    fatal_handler = handler;
}

void mem_report_fatal(const char *message)
{
    if (fatal_handler != NULL) {
        fatal_handler(message);
    } else {
        fprintf(stderr, "lathe: error: %s\n", message);
        fflush(stderr);
    }
}

/* The buffer is on the stack, and _exit runs no handlers: either could allocate. */
void mem_exhausted(size_t bytes)
{
    char message[128];
    snprintf(message, sizeof(message),
             "out of memory: %zu bytes of host memory are not"
             " to be had",
             bytes);
    mem_report_fatal(message);
    _exit(error_exit_code(ERROR_RESOURCE));
}

/*
 * Zeroed pages, or NULL.
 *
 *     start         start + PAGE_BYTES
 *     | first page  | the caller's bytes ... |    mapped_bytes in all
 *
 * The header is the last 64 bytes of the first page, so that the caller's pointer is at
 * the start of a page.
 */
static void *map_block(size_t bytes)
{
    if (bytes > PTRDIFF_MAX - 2 * (size_t)PAGE_BYTES) {
        return NULL;
    }
    const size_t mapped_bytes =
        (bytes + 2 * (size_t)PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    unsigned char *start = mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) {
        return NULL;
    }
    if (bytes >= huge_from_bytes) {
        /* Only advice: a kernel without huge pages says no, which is fine. */
        (void)madvise(start, mapped_bytes, MADV_HUGEPAGE);
    }
    unsigned char *pointer = start + PAGE_BYTES;
    ((struct block_header *)(void *)pointer - 1)->mapped_bytes = mapped_bytes;
    return pointer;
}

/*
 * Memory with any content, or NULL. aligned_alloc wants a size that is a multiple of
 * the alignment: one line for the header, then the bytes rounded up. At least one line
 * is left behind the header, so that even 0 bytes have an address of their own.
 */
static void *heap_block(size_t bytes)
{
    if (bytes > PTRDIFF_MAX - 2 * (size_t)MEM_ALIGNMENT) {
        return NULL;
    }
    const size_t total =
        (bytes + 2 * (size_t)MEM_ALIGNMENT - 1) / MEM_ALIGNMENT * MEM_ALIGNMENT;
    struct block_header *header = aligned_alloc(MEM_ALIGNMENT, total);
    if (header == NULL) {
        return NULL;
    }
    header->mapped_bytes = 0;
    return header + 1;
}

static void *any_block(size_t bytes)
{
    ASSERT(guard_depth == 0); /* nothing is allocated inside the step loop */
    return bytes >= map_from_bytes ? map_block(bytes) : heap_block(bytes);
}

/* Mapped pages come zeroed from the system: only the heap needs the memset. */
void *mem_alloc(size_t bytes)
{
    void *pointer = any_block(bytes);
    if (pointer == NULL) {
        mem_exhausted(bytes);
    }
    if (bytes < map_from_bytes) {
        memset(pointer, 0, bytes);
    }
    return pointer;
}

void *mem_alloc_array(size_t count, size_t element_bytes)
{
    size_t bytes;
    if (!mem_size_mul(count, element_bytes, &bytes)) {
        mem_exhausted(bytes);
    }
    return mem_alloc(bytes);
}

/* Not realloc: it would not keep the alignment, and the block may change its kind. Only
 * the old part is copied. */
void *mem_grow_array(void *owned_old, size_t old_count, size_t count,
                     size_t element_bytes)
{
    if (owned_old != NULL && count <= old_count) {
        return owned_old;
    }
    size_t bytes;
    if (!mem_size_mul(count, element_bytes, &bytes)) {
        mem_exhausted(bytes);
    }
    void *grown = any_block(bytes);
    if (grown == NULL) {
        mem_exhausted(bytes);
    }
    if (owned_old != NULL) {
        memcpy(grown, owned_old, old_count * element_bytes);
        mem_free(owned_old);
    }
    return grown;
}

/* Doubling keeps the cost of n appends linear in n. */
void *mem_reserve_one(void *owned_items, size_t n, size_t *capacity,
                      size_t element_bytes)
{
    if (n < *capacity) {
        return owned_items;
    }
    const size_t wanted = *capacity < 8 ? 8 : *capacity * 2;
    void *items = mem_grow_array(owned_items, n, wanted, element_bytes);
    *capacity = wanted;
    return items;
}

char *mem_strdup(const char *text)
{
    return mem_strndup(text, strlen(text));
}

/*
 * strnlen: `text` need not be terminated within `length`. The NUL comes from mem_alloc.
 */
char *mem_strndup(const char *text, size_t length)
{
    const size_t kept = strnlen(text, length);
    char *copy = mem_alloc(kept + 1);
    memcpy(copy, text, kept);
    return copy;
}

/* For text whose length goes along with it: what is cut at a NUL would be read past its
 * end. The NUL behind it comes from mem_alloc. */
char *mem_copy_bytes(const void *bytes, size_t length)
{
    ASSERT(length < SIZE_MAX);
    char *copy = mem_alloc(length + 1);
    if (length > 0) {
        memcpy(copy, bytes, length);
    }
    return copy;
}

void *mem_try_alloc(size_t bytes, const char *what, struct error *err)
{
    const bool fails = fails_in > 0 && --fails_in == 0;
    void *pointer = fails ? NULL : any_block(bytes);
    if (pointer == NULL) {
        error_set(err, ERROR_RESOURCE, "%s: %zu bytes of host memory are not to be had",
                  what, bytes);
    }
    return pointer;
}

void mem_fail_try_alloc(int64_t n)
{
    fails_in = n;
}

/* The header says which of the two ways back it is. */
void mem_free(void *pointer)
{
    if (pointer == NULL) {
        return;
    }
    struct block_header *header = (struct block_header *)pointer - 1;
    if (header->mapped_bytes == 0) {
        free(header);
        return;
    }
    const int rc = munmap((unsigned char *)pointer - PAGE_BYTES, header->mapped_bytes);
    ASSERT(rc == 0);
}

/* By division, which cannot overflow. */
bool mem_size_mul(size_t a, size_t b, size_t *product)
{
    if (b != 0 && a > SIZE_MAX / b) {
        *product = SIZE_MAX;
        return false;
    }
    *product = a * b;
    return true;
}

void mem_guard_begin(void)
{
    guard_depth++;
}

void mem_guard_end(void)
{
    ASSERT(guard_depth > 0);
    guard_depth--;
}

/* The number behind `key` in /proc/self/status, which counts in KiB; 0 if not there. */
static size_t status_bytes(const char *key)
{
    FILE *file = fopen("/proc/self/status", "re");
    if (file == NULL) {
        return 0;
    }
    size_t bytes = 0;
    char line[256];
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            bytes = (size_t)strtoull(line + strlen(key), NULL, 10) * 1024;
            break;
        }
    }
    fclose(file);
    return bytes;
}

size_t mem_resident_bytes(void)
{
    return status_bytes("VmRSS:");
}

/* ru_maxrss counts in KiB on Linux. */
size_t mem_peak_resident_bytes(void)
{
    /* Not ru_maxrss where it can be helped: that one survives exec, so it may be the
     * size of the shell or test runner that started us. */
    const size_t peak = status_bytes("VmHWM:");
    if (peak > 0) {
        return peak;
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (size_t)usage.ru_maxrss * 1024;
}

/* The number in a one-line file of the kernel; SIZE_MAX for "max" or no such file. */
static size_t read_limit(const char *path)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return SIZE_MAX;
    }
    unsigned long long limit = 0;
    const bool is_number = fscanf(file, "%llu", &limit) == 1;
    fclose(file);
    return is_number && limit < SIZE_MAX ? (size_t)limit : SIZE_MAX;
}

size_t mem_machine_bytes(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page_bytes = sysconf(_SC_PAGESIZE);
    size_t bytes = SIZE_MAX;
    if (pages > 0 && page_bytes > 0) {
        bytes = (size_t)pages * (size_t)page_bytes;
    }
    /* A container sees its own limit at the root: cgroup version 2, then version 1. */
    const char *const limits[] = {"/sys/fs/cgroup/memory.max",
                                  "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    for (size_t i = 0; i < ARRAY_LENGTH(limits); i++) {
        const size_t limit = read_limit(limits[i]);
        bytes = limit < bytes ? limit : bytes;
    }
    return bytes;
}
