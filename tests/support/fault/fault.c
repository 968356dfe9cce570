/*
 * fault - makes the n-th call of a kind fail, as a full disk or a lack of memory would
 * (G3). A shared object for LD_PRELOAD; tests/scenarios/70-faults.sh uses it:
 *
 *     FAULT=write:3:ENOSPC FAULT_NOTE=hit LD_PRELOAD=.../fault.so lathe ...
 *
 * The third write of the program finds the disk full; with FAULT=write:3:ENOSPC:lasts so
 * do all after it. SHORT in place of an errno reads or writes half of the bytes. The file
 * FAULT_NOTE is made when the fault has happened: without it there are fewer such calls.
 * CUT makes a file that was mapped empty: its pages are then gone.
 *
 *     alloc    memory of base/mem, from the heap or mapped
 *     malloc   by the program, libjansson and libyaml
 *     open     read   write   resize   fsync   rename   mkdir   close   map (of a file)
 *
 * Definitions in a preloaded object come before those of the C library, which are found
 * by dlsym(RTLD_NEXT). Only calls that concern regular files count, so that reading the
 * machine's description, or writing to a terminal, is left alone.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What is exported comes before the C library's. */
#define EXPORTED __attribute__((visibility("default")))

enum fault_call {
    FAULT_ALLOC,
    FAULT_MALLOC,
    FAULT_OPEN,
    FAULT_MAP,
    FAULT_READ,
    FAULT_WRITE,
    FAULT_RESIZE,
    FAULT_FSYNC,
    FAULT_RENAME,
    FAULT_MKDIR,
    FAULT_CLOSE,
    FAULT_CALL_COUNT
};

static const char *const call_names[FAULT_CALL_COUNT] = {
    "alloc",  "malloc", "open",   "map",   "read", "write",
    "resize", "fsync",  "rename", "mkdir", "close"};

/* In place of an errno value. */
enum { FAULT_SHORT = -1, FAULT_CUT = -2 };

/* From the environment, before main. */
static int armed_call = FAULT_CALL_COUNT; /* FAULT_CALL_COUNT: none */
static int64_t armed_at;
static int armed_effect;
static bool is_lasting;
static const char *note_path;

static _Atomic int64_t n_calls; /* of the armed kind */
static _Atomic bool has_happened;

/* By raw system calls: those below would come back here. */
static void leave_note(void)
{
    if (note_path != NULL) {
        const long fd =
            syscall(SYS_openat, AT_FDCWD, note_path, O_WRONLY | O_CREAT, 0644);
        if (fd >= 0) {
            syscall(SYS_close, fd);
        }
    }
}

/* Counts a call; the effect it is to have, or 0. */
static int effect_on(enum fault_call call)
{
    if ((int)call != armed_call) {
        return 0;
    }
    const int64_t number = atomic_fetch_add(&n_calls, 1) + 1;
    if (number < armed_at || (number > armed_at && !is_lasting)) {
        return 0;
    }
    if (!atomic_exchange(&has_happened, true)) {
        leave_note();
    }
    return armed_effect;
}

static bool is_regular(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

/* What the next object along calls this. Function pointers and void * are of one size
 * here, as POSIX asks for. */
static void find_next(const char *name, void *function, size_t size)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    if (symbol == NULL) {
        fprintf(stderr, "fault: no %s\n", name);
        abort();
    }
    memcpy(function, &symbol, size);
}

#define NEXT(name)                                     \
    static __typeof__(&name) next;                     \
    if (next == NULL) {                                \
        find_next(#name, (void *)&next, sizeof(next)); \
    }

/* ---- memory ---- */

EXPORTED void *aligned_alloc(size_t alignment, size_t bytes)
{
    NEXT(aligned_alloc)
    if (effect_on(FAULT_ALLOC) != 0) {
        errno = ENOMEM;
        return NULL;
    }
    return next(alignment, bytes);
}

/* The file of a read-only descriptor is opened once more to write. */
static void cut(int fd)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (truncate(path, 0) != 0) {
        fprintf(stderr, "fault: %s cannot be cut\n", path);
    }
}

EXPORTED void *mmap(void *address, size_t length, int protection, int flags, int fd,
                    off_t offset)
{
    NEXT(mmap)
    const enum fault_call call = fd >= 0 ? FAULT_MAP : FAULT_ALLOC;
    /* Stacks of threads and reserved ranges are no memory of mem.h. */
    const bool counts = (flags & (MAP_STACK | MAP_FIXED | MAP_NORESERVE)) == 0 &&
                        (protection & PROT_EXEC) == 0;
    const int effect = counts ? effect_on(call) : 0;
    if (effect == FAULT_CUT) {
        cut(fd);
    } else if (effect != 0) {
        errno = effect > 0 ? effect : ENOMEM;
        return MAP_FAILED;
    }
    return next(address, length, protection, flags, fd, offset);
}

/* A sanitizer has its own three, which know what free gets. */
#ifndef FAULT_WITHOUT_MALLOC

/* Where the code of the program lies, and of the libraries that allocate for themselves. */
static struct {
    uintptr_t from, to;
} libraries[8];
static int n_libraries;

/* A callback of dl_iterate_phdr. */
static int note_library(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    (void)context;
    /* The program itself has no name. */
    if (info->dlpi_name[0] != '\0' && strstr(info->dlpi_name, "libjansson") == NULL &&
        strstr(info->dlpi_name, "libyaml") == NULL) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum && n_libraries < 8; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD) {
            const uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            libraries[n_libraries].from = from;
            libraries[n_libraries++].to = from + info->dlpi_phdr[i].p_memsz;
        }
    }
    return 0;
}

static bool is_of_library(const void *caller)
{
    for (int i = 0; i < n_libraries; i++) {
        if (libraries[i].from <= (uintptr_t)caller &&
            (uintptr_t)caller < libraries[i].to) {
            return true;
        }
    }
    return false;
}

/* The C library's own names for the three: dlsym itself allocates. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);

EXPORTED void *malloc(size_t bytes)
{
    if (is_of_library(__builtin_return_address(0)) && effect_on(FAULT_MALLOC) != 0) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(bytes);
}

EXPORTED void *calloc(size_t count, size_t bytes)
{
    if (is_of_library(__builtin_return_address(0)) && effect_on(FAULT_MALLOC) != 0) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_calloc(count, bytes);
}

EXPORTED void *realloc(void *old, size_t bytes)
{
    if (is_of_library(__builtin_return_address(0)) && effect_on(FAULT_MALLOC) != 0) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_realloc(old, bytes);
}

#endif

/* ---- files ---- */

/* Files of the system, which are opened at start and by libraries. */
static bool is_of_system(const char *path)
{
    static const char *const folders[] = {"/proc/", "/sys/", "/dev/",
                                          "/etc/",  "/usr/", "/lib"};
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        if (strncmp(path, folders[i], strlen(folders[i])) == 0) {
            return true;
        }
    }
    return false;
}

EXPORTED int open(const char *path, int flags, ...)
{
    NEXT(open)
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode =
        (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    const int effect = is_of_system(path) ? 0 : effect_on(FAULT_OPEN);
    if (effect > 0) {
        errno = effect;
        return -1;
    }
    return next(path, flags, mode);
}

EXPORTED int openat(int folder, const char *path, int flags, ...)
{
    NEXT(openat)
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode =
        (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    const int effect = is_of_system(path) ? 0 : effect_on(FAULT_OPEN);
    if (effect > 0) {
        errno = effect;
        return -1;
    }
    return next(folder, path, flags, mode);
}

/* Half, but something: 0 would be the end of the file. */
static size_t shortened(size_t length, int effect)
{
    return effect == FAULT_SHORT && length > 1 ? length / 2 : length;
}

EXPORTED ssize_t read(int fd, void *bytes, size_t length)
{
    NEXT(read)
    const int effect = is_regular(fd) ? effect_on(FAULT_READ) : 0;
    if (effect > 0) {
        errno = effect;
        return -1;
    }
    return next(fd, bytes, shortened(length, effect));
}

EXPORTED ssize_t pread(int fd, void *bytes, size_t length, off_t offset)
{
    NEXT(pread)
    const int effect = is_regular(fd) ? effect_on(FAULT_READ) : 0;
    if (effect > 0) {
        errno = effect;
        return -1;
    }
    return next(fd, bytes, shortened(length, effect), offset);
}

EXPORTED ssize_t write(int fd, const void *bytes, size_t length)
{
    NEXT(write)
    const int effect = is_regular(fd) ? effect_on(FAULT_WRITE) : 0;
    if (effect > 0) {
        errno = effect;
        return -1;
    }
    return next(fd, bytes, shortened(length, effect));
}

EXPORTED ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
    NEXT(pwrite)
    const int effect = is_regular(fd) ? effect_on(FAULT_WRITE) : 0;
    if (effect > 0) {
        errno = effect;
        return -1;
    }
    return next(fd, bytes, shortened(length, effect), offset);
}

EXPORTED int ftruncate(int fd, off_t length)
{
    NEXT(ftruncate)
    const int effect = effect_on(FAULT_RESIZE);
    if (effect > 0) {
        errno = effect;
        return -1;
    }
    return next(fd, length);
}

/* Returns the number itself, and leaves errno alone. */
EXPORTED int posix_fallocate(int fd, off_t offset, off_t length)
{
    NEXT(posix_fallocate)
    const int effect = effect_on(FAULT_RESIZE);
    return effect > 0 ? effect : next(fd, offset, length);
}

EXPORTED int fsync(int fd)
{
    NEXT(fsync)
    const int effect = effect_on(FAULT_FSYNC);
    if (effect > 0) {
        errno = effect;
        return -1;
    }
    return next(fd);
}

EXPORTED int rename(const char *from, const char *to)
{
    NEXT(rename)
    const int effect = effect_on(FAULT_RENAME);
    if (effect > 0) {
        errno = effect;
        return -1;
    }
    return next(from, to);
}

EXPORTED int linkat(int from_folder, const char *from, int to_folder, const char *to,
                    int flags)
{
    NEXT(linkat)
    const int effect = effect_on(FAULT_RENAME);
    if (effect > 0) {
        errno = effect;
        return -1;
    }
    return next(from_folder, from, to_folder, to, flags);
}

EXPORTED int mkdir(const char *path, mode_t mode)
{
    NEXT(mkdir)
    const int effect = effect_on(FAULT_MKDIR);
    if (effect > 0) {
        errno = effect;
        return -1;
    }
    return next(path, mode);
}

EXPORTED int close(int fd)
{
    NEXT(close)
    const int effect = is_regular(fd) ? effect_on(FAULT_CLOSE) : 0;
    const int result = next(fd);
    if (effect > 0) {
        errno = effect;
        return -1;
    }
    return result;
}

/* ---- from the environment ---- */

/* FAULT=CALL:N:EFFECT[:lasts]; a wrong one ends the program, as the test would pass
 * otherwise. */
__attribute__((constructor)) static void read_environment(void)
{
    static const struct {
        const char *name;
        int effect;
    } effects[] = {{"ENOSPC", ENOSPC},     {"EIO", EIO},       {"EINTR", EINTR},
                   {"ENOMEM", ENOMEM},     {"EACCES", EACCES}, {"EMFILE", EMFILE},
                   {"SHORT", FAULT_SHORT}, {"CUT", FAULT_CUT}};
    const char *wanted = getenv("FAULT");
    if (wanted == NULL) {
        return;
    }
    char call[16];
    char effect[16];
    char lasts[8] = "";
    long long n = 0;
    int found = FAULT_CALL_COUNT;
    if (sscanf(wanted, "%15[^:]:%lld:%15[^:]:%7s", call, &n, effect, lasts) >= 3) {
        for (int i = 0; i < FAULT_CALL_COUNT; i++) {
            found = strcmp(call, call_names[i]) == 0 ? i : found;
        }
        for (size_t i = 0; i < sizeof(effects) / sizeof(effects[0]); i++) {
            if (strcmp(effect, effects[i].name) == 0) {
                armed_effect = effects[i].effect;
            }
        }
    }
    if (found == FAULT_CALL_COUNT || armed_effect == 0 || n < 1) {
        fprintf(stderr, "fault: FAULT=%s is not CALL:N:EFFECT\n", wanted);
        _exit(99);
    }
#ifndef FAULT_WITHOUT_MALLOC
    dl_iterate_phdr(note_library, NULL);
#endif
    note_path = getenv("FAULT_NOTE");
    armed_at = n;
    is_lasting = strcmp(lasts, "lasts") == 0;
    armed_call = found;
}
