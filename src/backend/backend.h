/*
 * backend - engines that run graphs; nobody outside this folder sees more than this.
 *
 * An engine holds some ranks of a mesh (its local ranks), keeps buffers for them, and
 * runs programs made from graphs. The calls may run ahead of the work; fetch waits for
 * it.
 *
 *     struct engine *engine = backend_create_cpu(&mesh, 0, 1, &options, err);
 *     struct program *program = backend_compile(engine, graph, err);
 *     struct buffer *x = backend_buffer_create(engine, &type, "x", err);
 *     backend_upload(x, 0, host, err);
 *     backend_execute(program, arguments, outputs, err);
 *     backend_fetch(outputs[0], 0, host, err);
 *
 * One thread drives an engine.
 */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include "graph/graph.h"

struct engine;
struct program;
struct buffer;
struct error;
struct str;

/* Highest instruction set that kernels may use. */
enum backend_isa {
    BACKEND_ISA_PLAIN,
    BACKEND_ISA_AVX2,
    BACKEND_ISA_AVX512,
    BACKEND_ISA_BEST
};

struct backend_options {
    int n_threads;        /* 0: one per processor */
    enum backend_isa isa; /* BEST: what the machine has */
    const char *gemm;     /* "openblas", "onednn", "plain", NULL: by the fixed table */
    size_t loss_head_bytes; /* scratch of the loss head; 0: 256 MiB */
    bool profiles;          /* keep times per op and per node */
    bool traces;            /* keep when each node ran, for backend_trace_write */
    /* Nonzero from any thread: programs that may be abandoned end between two nodes. NULL:
     * none ends early. Borrowed. */
    const _Atomic int *abandon;
};

MUST_USE struct engine *backend_create_cpu(const struct mesh *mesh, int first_rank,
                                           int n_local_ranks,
                                           const struct backend_options *options,
                                           struct error *err);
void backend_destroy(
    struct engine *engine); /* takes NULL; after its programs, buffers */

/* "cpu, 2 threads, avx2, openblas": what a run records. */
const char *backend_describe(const struct engine *engine);
int backend_n_local_ranks(const struct engine *engine);

/* True if graphs must be expanded (no repeats) before autodiff for this engine. */
bool backend_expands_repeats(const struct engine *engine);

/*
 * Takes the graph (destroyed with the program). The engine orders and plans it itself.
 * Arguments and outputs keep their order and names.
 */
MUST_USE struct program *backend_compile(struct engine *engine,
                                         struct graph *owned_graph, struct error *err);
void backend_program_destroy(struct program *program); /* takes NULL */

/* Runs of this program may end early (backend_options.abandon), as ERROR_CANCELLED. Its
 * outputs and donors are then undefined: only for programs whose results can be lost. */
void backend_program_allow_abandon(struct program *program);

const struct graph *backend_program_graph(const struct program *program);

/* Bytes of working memory per local rank. Programs of one engine share one arena, as
 * large as the largest needs. */
size_t backend_program_bytes(const struct program *program);

/* The same figure for a graph, without compiling or allocating. The graph is kept. */
size_t backend_plan_bytes(struct engine *engine, const struct graph *graph);

/* A buffer of `type` (local shape) for every local rank, zeroed. */
MUST_USE struct buffer *backend_buffer_create(struct engine *engine,
                                              const struct type *type, const char *name,
                                              struct error *err);

/*
 * A parameter that lies in memory of the caller, aligned to its elements, and stays
 * there unchanged until the buffer is destroyed (a mapped file). It is the same for
 * every local rank and only ever read: no upload, and no donor of an output.
 */
MUST_USE struct buffer *backend_buffer_borrow(struct engine *engine,
                                              const struct type *type, const char *name,
                                              const void *host, struct error *err);
void backend_buffer_destroy(struct buffer *buffer); /* takes NULL */
const struct type *backend_buffer_type(const struct buffer *buffer);

/* local: 0 .. n_local_ranks - 1; host bytes in the buffer's dtype, row-major. */
MUST_USE bool backend_upload(struct buffer *buffer, int local, const void *host,
                             struct error *err);
MUST_USE bool backend_fetch(struct buffer *buffer, int local, void *host,
                            struct error *err);

/* On engines whose buffers are host memory: that memory (else NULL, use upload,
 * fetch). That of a borrowed buffer must not be written. */
void *backend_buffer_host(struct buffer *buffer, int local);

/*
 * Runs the program: arguments in the graph's order; outputs in the graph's order, each
 * a buffer of the output's type. For an output with a donor pass the donor's buffer.
 */
MUST_USE bool backend_execute(struct program *program, struct buffer *const *arguments,
                              struct buffer *const *outputs, struct error *err);

/* Time per op and node name since the start, as a table; nothing unless profiles. */
void backend_profile_print(const struct engine *engine, struct str *out);
void backend_profile_reset(struct engine *engine); /* the trace, too */

/* All nodes of one op. */
struct backend_profile_row {
    const char *op;
    double ms;
    int64_t n_runs;
    double gflop; /* of products; else 0 */
};

/* The same by op, most time first, as many rows as there is room for; returns how many.
 * None unless profiles. */
int backend_profile_ops(const struct engine *engine, struct backend_profile_row *rows,
                        int capacity);

/*
 * Writes when each node ran as a Chrome trace (JSON): one slice a node and run, named by
 * node and op, and one for each thread that took part. Bounded: what comes after the first
 * hundred thousand is counted only, and programs that were destroyed have gone. The engine
 * was made with `traces`.
 */
MUST_USE bool backend_trace_write(const struct engine *engine, const char *path,
                                  struct error *err);

/* Best f32 GFLOP/s of a 2048^3 product with the engine's provider and threads, measured
 * now (a second). */
double backend_measure_gemm_gflops(struct engine *engine);

/* The same of the fastest provider that this build has, whose name goes to *provider:
 * what the machine can do. */
double backend_measure_best_gemm(struct engine *engine, const char **provider);

#endif
