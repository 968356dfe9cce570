/*
 * engine_run - a graph on the CPU engine, with buffers for all its arguments and outputs.
 *
 *     struct engine_run *run = engine_run_create(graph, NULL);
 *     float *x = engine_run_argument(run, "x", 0);
 *     ...
 *     engine_run_execute(run);
 *     const float *y = engine_run_output(run, "y", 0);
 *     engine_run_destroy(run);
 *
 * All ranks of the graph's mesh are local. Any error fails the test. An output with a donor
 * is the donor's buffer.
 */
#ifndef SUPPORT_ENGINE_RUN_H
#define SUPPORT_ENGINE_RUN_H

#include "backend/backend.h"

struct engine_run;

/* options NULL: 2 threads, the best instruction set and GEMM. */
struct engine_run *engine_run_create(struct graph *owned_graph,
                                     const struct backend_options *options);
void engine_run_destroy(struct engine_run *run);

struct engine *engine_run_engine(struct engine_run *run);
struct program *engine_run_program(struct engine_run *run);

/* Memory of an argument or output on one rank. */
void *engine_run_argument(struct engine_run *run, const char *name, int rank);
const void *engine_run_output(struct engine_run *run, const char *name, int rank);

/* Normal numbers times `scale` into every float argument, other for each rank where it is
 * not `same`; integers are left zero. */
void engine_run_fill(struct engine_run *run, uint64_t seed, double scale);

void engine_run_execute(struct engine_run *run);

#endif
