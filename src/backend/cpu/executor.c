/*
 * executor - the loop over steps.
 *
 * Ranks run in lockstep: the tasks of a phase, of all local ranks, are shared out among
 * the threads together, and a phase ends before the next begins. So a collective reads
 * the operands of other ranks as they are, and 16 ranks need no more than one thread.
 *
 * Nothing is allocated here; the guards prove it in tests.
 */
#include "backend/cpu/executor.h"

#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/program.h"
#include "backend/cpu/trace.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/pool.h"

/* What a task of the pool needs to find its part. */
struct run {
    struct cpu_engine *engine;
    struct kernel_call call;         /* node and ranks are those of the step */
    const struct program_step *step; /* that runs now */
    int phase;                       /* of the step */
    /* copies */
    const unsigned char *source;
    unsigned char *target;
    size_t bytes;
};

/* Bytes of a copy per task. */
static const size_t copy_chunk_bytes = (size_t)256 << 10;

/* Task t of the pool is task t mod n_tasks of local rank t / n_tasks: ranks are a
 * further dimension of the grid. */
static void run_task(void *context, int64_t task, int thread)
{
    const struct run *run = context;
    const struct program_step *step = run->step;
    const int64_t n_tasks = step->n_tasks[run->phase];
    if (thread > 0) {
        mem_guard_begin(); /* thread 0 is the caller, which is under guard already */
    }
    struct trace *trace = run->engine->trace;
    const int64_t start = trace != NULL ? clock_now_ns() : 0;
    step->kernel->run(&run->call, (int)(task / n_tasks), run->phase, task % n_tasks,
                      run->engine->thread_scratch[thread]);
    if (trace != NULL) {
        trace_note_task(trace, thread, start);
    }
    if (thread > 0) {
        mem_guard_end();
    }
}

/* A single task, or many that are tiny together, run here and now: waking another
 * thread takes longer than they do. */
static void share_out(const struct run *run, int64_t n_tasks, bool is_small,
                      pool_task_fn task_fn, void *context)
{
    if (n_tasks == 1 || is_small) {
        for (int64_t task = 0; task < n_tasks; task++) {
            task_fn(context, task, 0);
        }
    } else {
        pool_run(run->engine->pool, n_tasks, task_fn, context);
    }
}

/* The last chunk is what is left. */
static void copy_task(void *context, int64_t task, int thread)
{
    (void)thread;
    const struct run *run = context;
    const size_t start = (size_t)task * copy_chunk_bytes;
    const size_t left = run->bytes - start;
    memcpy(run->target + start, run->source + start,
           left < copy_chunk_bytes ? left : copy_chunk_bytes);
}

/* Shared out in chunks: the big ones are accumulators of a hundred megabytes. Source
 * and target are either the same or apart. */
static void copy(struct run *run, const void *source, void *target, size_t bytes)
{
    if (source == target || bytes == 0) {
        return;
    }
    run->source = source;
    run->target = target;
    run->bytes = bytes;
    const int64_t n_tasks = base_div_up((int64_t)bytes, (int64_t)copy_chunk_bytes);
    share_out(run, n_tasks, false, copy_task, run);
}

/* First the results that start as a copy of an operand (a donor that the caller did not
 * pass on, for one), then the phases of the kernel. Copies come before the first phase
 * of the same step, with a barrier between, so a kernel finds its result's memory
 * filled. */
static void run_step(struct run *run, const struct program_step *step, int n_ranks)
{
    for (int i = 0; i < step->n_copies; i++) {
        const struct program_copy *wanted = &step->copies[i];
        for (int rank = 0; rank < n_ranks; rank++) {
            const struct kernel_rank *operands = &step->ranks[rank];
            const unsigned char *source = operands->inputs[wanted->input];
            copy(run, source + wanted->offset, operands->outputs[wanted->output],
                 wanted->bytes);
        }
    }
    run->step = step;
    run->call.node = step->node;
    run->call.ranks = step->ranks;
    for (int phase = 0; phase < step->n_phases; phase++) {
        run->phase = phase;
        share_out(run, step->n_tasks[phase] * n_ranks, step->is_small, run_task, run);
    }
}

/* Memory that a slot outside the arena means, with the caller's buffers. An argument
 * may be a slice of the caller's buffer (a stacked parameter), hence its offset. */
static unsigned char *outside_address(const struct cpu_program *program,
                                      enum plan_kind kind, int index, int rank,
                                      struct buffer *const *arguments,
                                      struct buffer *const *outputs)
{
    if (kind == PLAN_OUTPUT) {
        return ((struct cpu_buffer *)outputs[index])->memory[rank];
    }
    ASSERT(kind == PLAN_ARGUMENT);
    const struct program_argument *argument = &program->arguments[index];
    unsigned char *memory =
        ((struct cpu_buffer *)arguments[argument->buffer])->memory[rank];
    return memory + argument->offset;
}

/* The caller may pass other buffers each time, so these are filled in for each run:
 * some thousand stores. places[] holds those outside the arena first, so this walks a
 * prefix. */
static void resolve_outside(const struct cpu_program *program,
                            struct buffer *const *arguments,
                            struct buffer *const *outputs)
{
    for (int i = 0; i < program->n_outside; i++) {
        const struct program_place *place = &program->places[i];
        *place->address = outside_address(program, place->kind, place->index,
                                          place->local_rank, arguments, outputs) +
                          place->offset;
    }
}

/* Addresses in the arenas: only when those have moved since the last run. Arenas move
 * only when another program was compiled that needs more; in a run of steps this
 * returns at once. */
static void resolve_arena(struct cpu_program *program, const struct cpu_engine *engine)
{
    if (program->arena_version == engine->arena_version) {
        return;
    }
    program->arena_version = engine->arena_version;
    for (int i = program->n_outside; i < program->n_places; i++) {
        const struct program_place *place = &program->places[i];
        unsigned char *arena = engine->arenas[place->local_rank];
        *place->address = arena + place->offset;
    }
    for (int i = 0; i < program->n_steps; i++) {
        const struct program_step *step = &program->steps[i];
        for (int rank = 0; rank < engine->base.n_local_ranks; rank++) {
            unsigned char *arena = engine->arenas[rank];
            step->ranks[rank].scratch = arena + step->scratch_offset;
        }
    }
}

/* Outputs that are arguments, or parts of other values. Last, when all values are
 * there. Where the caller passed the donor's own buffer, source and target are one and
 * nothing is copied. */
static void deliver(const struct cpu_program *program, struct run *run,
                    struct buffer *const *arguments, struct buffer *const *outputs)
{
    const struct cpu_engine *engine = run->engine;
    for (int i = 0; i < program->n_deliveries; i++) {
        const struct program_delivery *delivery = &program->deliveries[i];
        const struct plan_slot *slot = &delivery->slot;
        for (int rank = 0; rank < engine->base.n_local_ranks; rank++) {
            const unsigned char *source =
                slot->kind == PLAN_ARENA
                    ? (const unsigned char *)engine->arenas[rank]
                    : outside_address(program, slot->kind, slot->index, rank, arguments,
                                      outputs);
            const struct cpu_buffer *target =
                (const struct cpu_buffer *)outputs[delivery->output];
            copy(run, source + slot->offset, target->memory[rank], delivery->bytes);
        }
    }
}

/* Somebody wants the machine back, and this program's results can be lost. */
static bool is_abandoned(const struct cpu_program *program,
                         const struct cpu_engine *engine)
{
    return program->base.can_be_abandoned && engine->abandon != NULL &&
           atomic_load_explicit(engine->abandon, memory_order_relaxed) != 0;
}

/* What a step has taken, where anybody wants to know. */
static void note_time(const struct cpu_program *program, struct program_step *step,
                      int64_t start_ns)
{
    const struct cpu_engine *engine = (const struct cpu_engine *)program->base.engine;
    if (engine->profiles) {
        step->time_ns += clock_now_ns() - start_ns;
        step->n_runs++;
    }
    if (engine->trace != NULL) {
        trace_note_step(engine->trace, program, step->node, start_ns);
    }
}

/* Kernels do not fail: a run is refused before its first step, or abandoned between two, or
 * it is complete. */
bool executor_run(struct program *base, struct buffer *const *arguments,
                  struct buffer *const *outputs, struct error *err)
{
    struct cpu_program *program = (struct cpu_program *)base;
    struct cpu_engine *engine = (struct cpu_engine *)base->engine;
    if (engine->arena_bytes < program->arena_bytes ||
        engine->thread_bytes < program->thread_bytes) {
        return error_set(
            err, ERROR_RESOURCE,
            "the engine has lost its working memory: a program that needed "
            "more could not be compiled");
    }
    /* From here to mem_guard_end nothing is allocated, on no thread. */
    mem_guard_begin();
    resolve_outside(program, arguments, outputs);
    resolve_arena(program, engine);
    struct run run = {
        .engine = engine,
        .call = {.mesh = &engine->base.mesh,
                 .first_rank = engine->base.first_rank,
                 .n_ranks = engine->base.n_local_ranks,
                 .gemm = engine->gemm,
                 .native = engine->native,
                 .loss_head_bytes = engine->loss_head_bytes},
    };
    bool done = true;
    const int64_t run_start = clock_now_ns();
    for (int i = 0; i < program->n_steps && done; i++) {
        const int64_t start = clock_now_ns();
        run_step(&run, &program->steps[i], engine->base.n_local_ranks);
        note_time(program, &program->steps[i], start);
        done = !is_abandoned(program, engine);
    }
    if (engine->trace != NULL) {
        trace_note_run(engine->trace, program, run_start);
    }
    if (done) {
        deliver(program, &run, arguments, outputs);
    }
    mem_guard_end();
    return done || error_set(err, ERROR_CANCELLED, "the work in flight was abandoned");
}
