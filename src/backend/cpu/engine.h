/*
 * engine - the CPU engine: threads, the GEMM provider, buffers, and one arena per local
 * rank that all programs share.
 *
 * program.c makes programs for it, executor.c runs them, profile.c tells where the time
 * went. One thread drives an engine.
 */
#ifndef BACKEND_CPU_ENGINE_H
#define BACKEND_CPU_ENGINE_H

#include "backend/dispatch.h"

struct gemm;
struct native;
struct pool;
struct cpu_program;
struct trace;

struct cpu_engine {
    struct engine base;
    struct pool *pool;
    const struct gemm *gemm;
    const struct native *native;
    size_t loss_head_bytes;     /* that a chunk of logits may take */
    bool profiles;              /* times are kept per step */
    struct trace *trace;        /* of steps and threads; NULL: none is kept */
    const _Atomic int *abandon; /* nonzero: abandon what may be; or NULL */
    char description[160];      /* what backend_describe gives */

    /* By local rank, each arena_bytes; moved when a program needs more. */
    void **arenas;
    size_t arena_bytes;
    uint64_t arena_version; /* counts moves: programs resolve their pointers again */

    void **thread_scratch; /* by thread; each thread_bytes */
    size_t thread_bytes;

    struct cpu_program *programs; /* list of the living, for the profile */
};

struct cpu_buffer {
    struct buffer base;
    size_t bytes;  /* per rank */
    void **memory; /* by local rank */
};

MUST_USE struct engine *engine_create(const struct mesh *mesh, int first_rank,
                                      int n_local_ranks,
                                      const struct backend_options *options,
                                      struct error *err);

/* Makes room for a program that needs arena_bytes per rank and thread_bytes per
 * thread. */
MUST_USE bool engine_reserve(struct cpu_engine *engine, size_t arena_bytes,
                             size_t thread_bytes, struct error *err);

#endif
