/*
 * dispatch - what an engine implements; backend.c hands every call on to it.
 *
 * An engine's own structs start with these, so that `struct cpu_engine *` and
 * `struct engine *` are the same address. The contracts stand in backend.h.
 */
#ifndef BACKEND_DISPATCH_H
#define BACKEND_DISPATCH_H

#include "backend/backend.h"

/* One per kind of engine; no entry is NULL. */
struct dispatch {
    bool expands_repeats;
    void (*destroy)(struct engine *engine);
    const char *(*describe)(const struct engine *engine);
    struct program *(*compile)(struct engine *engine, struct graph *owned_graph,
                               struct error *err);
    void (*program_destroy)(struct program *program);
    size_t (*program_bytes)(const struct program *program);
    size_t (*plan_bytes)(struct engine *engine, const struct graph *graph);
    struct buffer *(*buffer_create)(struct engine *engine, const struct type *type,
                                    const char *name, struct error *err);
    struct buffer *(*buffer_borrow)(struct engine *engine, const struct type *type,
                                    const char *name, const void *host,
                                    struct error *err);
    void (*buffer_destroy)(struct buffer *buffer);
    bool (*upload)(struct buffer *buffer, int local, const void *host,
                   struct error *err);
    bool (*fetch)(struct buffer *buffer, int local, void *host, struct error *err);
    void *(*buffer_host)(struct buffer *buffer, int local);
    bool (*execute)(struct program *program, struct buffer *const *arguments,
                    struct buffer *const *outputs, struct error *err);
    void (*profile_print)(const struct engine *engine, struct str *out);
    void (*profile_reset)(struct engine *engine);
    int (*profile_ops)(const struct engine *engine, struct backend_profile_row *rows,
                       int capacity);
    bool (*trace_write)(const struct engine *engine, const char *path,
                        struct error *err);
    double (*measure_gemm_gflops)(struct engine *engine);
    double (*measure_best_gemm)(struct engine *engine, const char **provider);
};

/* What backend.c itself reads of an engine. */
struct engine {
    const struct dispatch *dispatch;
    struct mesh mesh;  /* of the whole run */
    int first_rank;    /* of the ranks that this engine holds */
    int n_local_ranks; /* how many, in order of rank */
};

struct program {
    struct engine *engine;
    struct graph *graph;   /* as given to compile; owned */
    bool can_be_abandoned; /* backend_program_allow_abandon */
};

struct buffer {
    struct engine *engine;
    struct type type; /* local: the part that one rank holds */
    bool is_borrowed; /* memory of the caller, only read */
};

#endif
