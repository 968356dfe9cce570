/*
 * pjrt - the few calls of the PJRT C interface that the comparison needs: load a plug-in,
 * compile StableHLO text for N replicas, run it once from host memory to host memory.
 *
 * The interface is declared by hand (ABI 0.114): functions by their offset in the table
 * that GetPjrtApi returns, argument structs by their layout. A plug-in accepts structs
 * that are as large as its own or larger.
 */
#ifndef TOOLS_PJRT_H
#define TOOLS_PJRT_H

#include "graph/graph.h"

struct error;
struct pjrt;
struct pjrt_program;

/* Loads the plug-in and makes a client with `n_devices` devices. Never unloaded. */
MUST_USE struct pjrt *pjrt_open(const char *path, int n_devices, struct error *err);

MUST_USE struct pjrt_program *pjrt_compile(struct pjrt *pjrt, const char *text,
                                           int n_replicas, struct error *err);
void pjrt_program_destroy(struct pjrt_program *program);

/*
 * Runs `program`, made from `graph`: arguments[replica * n_arguments + i] and
 * outputs[replica * n_outputs + i] are row-major host memory of the graph's types.
 */
MUST_USE bool pjrt_run(struct pjrt_program *program, const struct graph *graph,
                       const void *const *arguments, void *const *outputs,
                       struct error *err);

#endif
