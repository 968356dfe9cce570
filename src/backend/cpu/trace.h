/*
 * trace - when each node ran and on which threads, as a Chrome trace for people to look at
 * (chrome://tracing, ui.perfetto.dev).
 *
 * Recorded while the engine's `traces` is set, into memory of fixed size that trace_create
 * takes: recording allocates nothing and ends when it is full. Track 0 holds the runs of
 * programs and, within them, the nodes; one track per thread holds the time in which it
 * had tasks of a node that several threads shared. What a program ran is forgotten when it
 * is destroyed.
 */
#ifndef BACKEND_CPU_TRACE_H
#define BACKEND_CPU_TRACE_H

#include "backend/backend.h"

struct cpu_program;
struct error;
struct trace;

struct trace *trace_create(int n_threads);
void trace_destroy(struct trace *trace); /* takes NULL */

/* A task that began at start_ns (clock.h) is over; each thread tells of its own. */
void trace_note_task(struct trace *trace, int thread, int64_t start_ns);

/* The step of this node, which began at start_ns, is over; no task is running. */
void trace_note_step(struct trace *trace, const struct cpu_program *program,
                     const struct node *node, int64_t start_ns);

/* All steps of the program are over. */
void trace_note_run(struct trace *trace, const struct cpu_program *program,
                    int64_t start_ns);

/* Before the program goes: its nodes have the names. */
void trace_forget(struct trace *trace, const struct cpu_program *program);
void trace_reset(struct trace *trace);

/* The file is whole or not there. `description` is the engine's. */
MUST_USE bool trace_write(const struct trace *trace, const char *description,
                          const char *path, struct error *err);

#endif
