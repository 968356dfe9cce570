/*
 * op_run - runs a case of op_cases.h on the CPU engine, in one of several ways, and gives
 * values and gradients back as whole arrays of f64.
 *
 *     struct op_setup setup = {.op_case = c, .mesh = mesh_single(), .dtype = DTYPE_F32};
 *     struct op_run *run = op_run_create(&setup);
 *     op_run_execute(run);
 *     ... run->results[i].data ...
 *     op_run_destroy(run);
 *
 * Faults (graphs that do not build or run) fail the cmocka test.
 */
#ifndef SUPPORT_OP_RUN_H
#define SUPPORT_OP_RUN_H

#include "backend/backend.h"
#include "support/op_tensor.h"

enum { OP_MAX_RESULTS = OP_MAX_OUTPUTS + OP_MAX_INPUTS };

struct op_setup {
    const struct op_case *op_case;
    const char *layout; /* NULL: the same everywhere */
    struct mesh mesh;
    enum dtype dtype;
    bool has_gradient;  /* also the gradients of FLOAT inputs */
    bool is_lowered;    /* composites replaced by their definitions first */
    bool is_tiled;      /* by the forms with loops */
    bool rounds_inputs; /* floats are numbers that bf16 has */
    enum backend_isa isa;
    const char *gemm;
};

struct op_run {
    struct op_setup setup;
    struct program *program;
    struct engine *engine;
    int n_arguments, n_results;
    struct op_tensor arguments[OP_MAX_INPUTS + OP_MAX_OUTPUTS];
    struct op_tensor results[OP_MAX_RESULTS];
    struct buffer *argument_buffers[OP_MAX_INPUTS + OP_MAX_OUTPUTS];
    struct buffer *result_buffers[OP_MAX_RESULTS];
    bool op_seen[OP_COUNT]; /* in the graph before it is lowered */
};

/* Builds, compiles and fills the arguments with the case's numbers. */
struct op_run *op_run_create(const struct op_setup *setup);
void op_run_destroy(struct op_run *run);

/* Uploads the arguments (which may be changed between calls), executes, and fetches the
 * results. Ranks that should hold equal elements must, to the bit. */
void op_run_execute(struct op_run *run);

/* The result by name, or NULL. */
const struct op_tensor *op_run_find(const struct op_run *run, const char *name);

/* True if the layout fits the case's shapes on this mesh. */
bool op_run_fits(const struct op_case *op_case, const char *layout,
                 const struct mesh *mesh);

/* Destroys the engines that runs have shared. */
void op_run_cleanup(void);

/* Compares each result of `run` with the one of the same name; error relative to the
 * largest magnitude of the reference. Prints and counts those over `bound`. */
int op_run_compare(const struct op_run *run, const struct op_run *reference,
                   double bound, const char *what);

#endif
