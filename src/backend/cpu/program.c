/*
 * program - from a graph to a list of steps with addresses.
 *
 * Passes: repeats are expanded, composites without a kernel for their dtypes are
 * lowered, the rest is simplified, ordered and planned; the graph is verified in
 * between. Then each node that does something becomes a step. Its operands are pointers
 * that live in one array per node and rank; `places` says where each of them comes
 * from, so that a run only fills in the buffers of the caller.
 */
#include "backend/cpu/program.h"

#include <string.h>

#include "backend/cpu/trace.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/mem.h"
#include "graph/rewrite.h"
#include "graph/verify.h"

/* Up to here, in elements and FLOPs of all ranks, waking a thread costs more than it
 * brings. */
enum { SMALL_ELEMENTS = 8192, SMALL_FLOPS = 1 << 18 };

/* ---- passes ---- */

static bool wants_lowering(const struct node *node)
{
    return !kernel_takes(node);
}

/* For the assertion in prepare: the executor has no loops. */
static bool has_repeats(const struct graph *graph)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i]->op == OP_REPEAT) {
            return true;
        }
    }
    return false;
}

/* Puts `owned_next` in the place of *graph and verifies it. Passes never change a graph
 * but make another one, so the one before can go. */
static bool take_pass(struct graph **graph, struct graph *owned_next, const char *pass,
                      struct error *err)
{
    graph_destroy(*graph);
    *graph = owned_next;
    return verify_graph(owned_next, true, err) || error_wrap(err, "after %s", pass);
}

/* The graph in the form that the executor runs; NULL if a pass broke it. */
static struct graph *prepare(const struct graph *graph, struct error *err)
{
    /* Lowering comes after expanding, so that it sees each layer's own dtypes; what it
     * leaves (casts to the same type, gathers over one rank) simplifying removes. */
    struct graph *current = NULL;
    if (!take_pass(&current, rewrite_expand(graph), "expanding", err) ||
        !take_pass(&current, rewrite_lower(current, wants_lowering, false), "lowering",
                   err) ||
        !take_pass(&current, rewrite_narrow(current), "narrowing", err) ||
        !take_pass(&current, rewrite_simplify(current), "simplifying", err) ||
        !take_pass(&current, rewrite_order(current), "ordering", err)) {
        graph_destroy(current);
        return NULL;
    }
    ASSERT(!has_repeats(current));
    return current;
}

/* plan_scratch_fn: what the kernel wants; a view runs no kernel. */
static size_t node_scratch(const struct node *node, void *context)
{
    const struct cpu_engine *engine = context;
    const struct kernel *kernel = kernel_of(node->op);
    size_t view_offset;
    if (kernel->scratch_bytes == NULL || graph_node_is_view(node, &view_offset)) {
        return 0;
    }
    return kernel->scratch_bytes(node, engine->loss_head_bytes);
}

/* ---- arguments ---- */

/* Nodes that do nothing: their values are in the caller's buffers. */
static bool is_argument(const struct node *node)
{
    return node->op == OP_PARAMETER || node->op == OP_INPUT;
}

/* How many parameters of the expanded graph a given argument may have become. */
static int n_slices(const struct value *argument)
{
    const struct node *node = argument->node;
    return node->op == OP_PARAMETER && node->n_names > 1 ? node->n_names : 1;
}

/*
 * Expanding replaces a stacked parameter by its slices, in place; their memory lies one
 * after the other in the stacked buffer.
 */
/* A parameter of several names is stacked only if its slices have the n-th part of its
 * bytes each; where expanding kept it whole, it is one argument. */
static void map_arguments(struct cpu_program *program)
{
    const struct graph *given = program->base.graph;
    const struct graph *ordered = program->ordered;
    program->arguments = arena_alloc_array(
        program->memory, (size_t)ordered->n_arguments, sizeof(*program->arguments));
    int to = 0;
    for (int from = 0; from < given->n_arguments; from++) {
        const struct value *argument = given->arguments[from];
        const int n = n_slices(argument);
        const size_t whole_bytes = type_bytes(&argument->type);
        ASSERT(to < ordered->n_arguments);
        const size_t bytes = type_bytes(&ordered->arguments[to]->type);
        const int n_parts = bytes * (size_t)n == whole_bytes ? n : 1;
        for (int part = 0; part < n_parts; part++) {
            ASSERT(to < ordered->n_arguments);
            program->arguments[to++] =
                (struct program_argument){from, (size_t)part * bytes};
        }
    }
    ASSERT(to == ordered->n_arguments);
}

/* ---- steps ---- */

/* The same memory? (The arena is one, so its index says nothing.) */
static bool slot_equal(const struct plan_slot *a, const struct plan_slot *b)
{
    return a->kind == b->kind && a->offset == b->offset &&
           (a->kind == PLAN_ARENA || a->index == b->index);
}

/* Records that *address is to hold the address of `value` on `local_rank`. Places are
 * filled in by the executor; until then the pointers are NULL. */
static void add_place(struct cpu_program *program, void **address, int local_rank,
                      const struct value *value, size_t spare_offset)
{
    struct plan_slot slot = program->plan->slots[value->id];
    if (slot.kind == PLAN_NONE) {
        /* Nobody reads it, but the kernel writes it: behind the arena. */
        slot = (struct plan_slot){PLAN_ARENA, 0, spare_offset};
    }
    program->places[program->n_places++] =
        (struct program_place){address, local_rank, slot.kind, slot.index, slot.offset};
}

/* Results that must start as a copy of an operand. Where the plan put result and
 * operand into one place, which is the usual case, there is nothing to copy. */
static void find_copies(struct cpu_program *program, struct program_step *step)
{
    const struct node *node = step->node;
    const struct plan_slot *slots = program->plan->slots;
    size_t view_offset = 0;
    step->is_view = graph_node_is_view(node, &view_offset);
    step->copies = arena_alloc_array(program->memory, (size_t)node->n_outputs,
                                     sizeof(*step->copies));
    for (int output = 0; output < node->n_outputs; output++) {
        const int input = step->is_view ? 0 : graph_node_alias(node, output);
        if (input < 0) {
            continue;
        }
        const struct value *result = node->outputs[output];
        struct plan_slot source = slots[node->inputs[input]->id];
        source.offset += view_offset;
        if (!slot_equal(&source, &slots[result->id])) {
            step->copies[step->n_copies++] = (struct program_copy){
                input, output, view_offset, type_bytes(&result->type)};
        }
    }
}

/* Two per product and sum, of one rank. a [.., M, K] times b [.., K, N]: 2 M N K for
 * each of the leading dimensions. */
static double node_flops(const struct node *node)
{
    if (node->op != OP_MATMUL) {
        return 0.0;
    }
    const struct shape *a = &node->inputs[0]->type.shape;
    const int64_t k = a->dim[a->rank - (node->attributes.transpose_a ? 2 : 1)];
    return 2.0 * (double)type_elements(&node->outputs[0]->type) * (double)k;
}

/* Decided by sizes, so that it is the same in every run. Both bounds must hold: a
 * product of small arrays may still be much work. */
static bool is_small(const struct program_step *step, int n_ranks)
{
    const struct node *node = step->node;
    int64_t elements = 0;
    for (int i = 0; i < node->n_inputs; i++) {
        elements += type_elements(&node->inputs[i]->type);
    }
    for (int i = 0; i < node->n_outputs; i++) {
        elements += type_elements(&node->outputs[i]->type);
    }
    return elements * n_ranks <= SMALL_ELEMENTS &&
           step->flops * n_ranks <= (double)SMALL_FLOPS;
}

/* The kernel's grid, asked once: it depends on shapes only. A view has no phases, and
 * so no tasks. */
static void count_tasks(struct cpu_program *program, const struct cpu_engine *engine,
                        struct program_step *step)
{
    const struct kernel *kernel = step->kernel;
    const struct node *node = step->node;
    if (step->is_view) {
        return;
    }
    step->n_phases =
        kernel->n_phases == NULL ? 1 : kernel->n_phases(node, engine->loss_head_bytes);
    ASSERT(step->n_phases >= 0);
    step->n_tasks = arena_alloc_array(program->memory, (size_t)step->n_phases,
                                      sizeof(*step->n_tasks));
    for (int phase = 0; phase < step->n_phases; phase++) {
        step->n_tasks[phase] =
            kernel->n_tasks == NULL
                ? 1
                : kernel->n_tasks(node, phase, engine->loss_head_bytes);
    }
}

/* Arrays of operands for every rank of the step, and where they come from. Results that
 * nobody reads lie one behind the other in the spare part, since the kernel may write
 * them at the same time. */
static void place_operands(struct cpu_program *program, struct program_step *step,
                           int n_ranks, size_t spare_start)
{
    const struct node *node = step->node;
    step->ranks =
        arena_alloc_array(program->memory, (size_t)n_ranks, sizeof(*step->ranks));
    for (int rank = 0; rank < n_ranks; rank++) {
        const size_t n = (size_t)(node->n_inputs + node->n_outputs);
        void **operands = arena_alloc_array(program->memory, n, sizeof(*operands));
        step->ranks[rank].inputs = operands;
        step->ranks[rank].outputs = operands + node->n_inputs;
        for (int i = 0; i < node->n_inputs; i++) {
            add_place(program, &operands[i], rank, node->inputs[i], spare_start);
        }
        size_t spare = spare_start;
        for (int i = 0; i < node->n_outputs; i++) {
            add_place(program, &operands[node->n_inputs + i], rank, node->outputs[i],
                      spare);
            if (program->plan->slots[node->outputs[i]->id].kind == PLAN_NONE) {
                spare += (size_t)base_round_up(
                    (int64_t)type_bytes(&node->outputs[i]->type), PLAN_ALIGNMENT);
            }
        }
    }
}

/* Bytes that results nobody reads need behind the plan's arena, the most of any node.
 * Nodes run one after the other, so all of them can use the same part. */
static size_t spare_bytes(const struct graph *ordered, const struct plan *plan)
{
    size_t most = 0;
    for (int i = 0; i < ordered->n_nodes; i++) {
        const struct node *node = ordered->nodes[i];
        size_t bytes = 0;
        for (int j = 0; j < node->n_outputs && !is_argument(node); j++) {
            if (plan->slots[node->outputs[j]->id].kind == PLAN_NONE) {
                bytes += (size_t)base_round_up(
                    (int64_t)type_bytes(&node->outputs[j]->type), PLAN_ALIGNMENT);
            }
        }
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Of all nodes: as many places as there can be per rank. */
static size_t count_operands(const struct graph *graph)
{
    size_t n = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        n += (size_t)(graph->nodes[i]->n_inputs + graph->nodes[i]->n_outputs);
    }
    return n;
}

/* Appends the node as a step, unless there is nothing to do for it. A view whose memory
 * is its operand's is no step at all. */
static void add_step(struct cpu_program *program, const struct cpu_engine *engine,
                     const struct node *node)
{
    struct program_step *step = &program->steps[program->n_steps];
    step->node = node;
    step->kernel = kernel_of(node->op);
    find_copies(program, step);
    if (step->is_view && step->n_copies == 0) {
        return; /* the same memory, read differently; the next node takes this step */
    }
    ASSERT(step->is_view || step->kernel->run != NULL);
    program->n_steps++;
    step->flops = node_flops(node);
    count_tasks(program, engine, step);
    step->is_small = is_small(step, engine->base.n_local_ranks);
    place_operands(
        program, step, engine->base.n_local_ranks,
        (size_t)base_round_up((int64_t)program->plan->arena_bytes, PLAN_ALIGNMENT));
    if (step->kernel->thread_bytes != NULL) {
        const size_t bytes = step->kernel->thread_bytes(node);
        program->thread_bytes =
            bytes > program->thread_bytes ? bytes : program->thread_bytes;
    }
}

/* Operands in the caller's buffers first; the order among equals does not matter. Swaps
 * in place: everything before n_outside is outside already. */
static void split_places(struct cpu_program *program)
{
    struct program_place *places = program->places;
    for (int i = 0; i < program->n_places; i++) {
        if (places[i].kind != PLAN_ARENA) {
            const struct program_place outside = places[i];
            places[i] = places[program->n_outside];
            places[program->n_outside++] = outside;
        }
    }
}

/* Outputs that the plan did not put into their own buffer: arguments handed through,
 * parts of other values, donated state (then the caller passes that very buffer, and
 * the copy finds source and target to be one). */
static void find_deliveries(struct cpu_program *program)
{
    const struct graph *ordered = program->ordered;
    program->deliveries = arena_alloc_array(program->memory, (size_t)ordered->n_outputs,
                                            sizeof(*program->deliveries));
    for (int i = 0; i < ordered->n_outputs; i++) {
        const struct value *value = ordered->outputs[i].value;
        const struct plan_slot slot = program->plan->slots[value->id];
        ASSERT(slot.kind != PLAN_NONE);
        const struct plan_slot own = {PLAN_OUTPUT, i, 0};
        if (!slot_equal(&slot, &own)) {
            program->deliveries[program->n_deliveries++] =
                (struct program_delivery){i, slot, type_bytes(&value->type)};
        }
    }
}

/* Steps in program order, with their operands and scratch. step_of_node tells which
 * step a node became, as the plan's scratch is by node. */
static void build_steps(struct cpu_program *program, const struct cpu_engine *engine)
{
    const struct graph *ordered = program->ordered;
    const size_t n_places =
        count_operands(ordered) * (size_t)engine->base.n_local_ranks;
    program->places =
        arena_alloc_array(program->memory, n_places, sizeof(*program->places));
    program->steps = arena_alloc_array(program->memory, (size_t)ordered->n_nodes + 1,
                                       sizeof(*program->steps));
    int *step_of_node =
        mem_alloc_array((size_t)ordered->n_nodes + 1, sizeof(*step_of_node));
    for (int i = 0; i < ordered->n_nodes; i++) {
        const int before = program->n_steps;
        if (!is_argument(ordered->nodes[i])) {
            memset(&program->steps[before], 0, sizeof(*program->steps));
            add_step(program, engine, ordered->nodes[i]);
        }
        step_of_node[i] = program->n_steps > before ? before : -1;
    }
    split_places(program);
    /* Scratch is by position of the node; executor.c adds the arena's address. */
    for (int i = 0; i < ordered->n_nodes; i++) {
        if (step_of_node[i] >= 0) {
            program->steps[step_of_node[i]].scratch_offset =
                program->plan->scratch_offsets[i];
        }
    }
    mem_free(step_of_node);
}

/* ---- the program ---- */

/* Reads memory of other ranks. take_split and fan_out do not. */
static bool is_collective(enum op op)
{
    return op == OP_ALL_GATHER || op == OP_REDUCE_SCATTER || op == OP_ALL_REDUCE ||
           op == OP_ALL_TO_ALL;
}

/* All ranks that a collective joins must be in this process. Told when the program is
 * made: in a run it would be a read of memory that is not there. */
static bool check_groups(const struct graph *graph, const struct engine *engine,
                         struct error *err)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        if (!is_collective(node->op)) {
            continue;
        }
        const enum mesh_axis axis = node->attributes.mesh_axis;
        for (int local = 0; local < engine->n_local_ranks; local++) {
            for (int c = 0; c < engine->mesh.size[axis]; c++) {
                const int rank =
                    mesh_neighbour(&engine->mesh, engine->first_rank + local, axis, c);
                if (rank < engine->first_rank ||
                    rank >= engine->first_rank + engine->n_local_ranks) {
                    return error_set(err, ERROR_USAGE,
                                     "%s needs rank %d, which is in another process",
                                     node->name, rank);
                }
            }
        }
    }
    return true;
}

/* Bytes of the arena with the spare part behind the plan's. */
static size_t whole_bytes(const struct graph *ordered, const struct plan *plan)
{
    return (size_t)base_round_up((int64_t)plan->arena_bytes, PLAN_ALIGNMENT) +
           spare_bytes(ordered, plan);
}

size_t program_bytes(const struct program *base)
{
    return ((const struct cpu_program *)base)->arena_bytes;
}

/* The graph was made by this program's own builder, so a pass that fails is a bug. */
size_t program_plan_bytes(struct engine *engine, const struct graph *graph)
{
    struct error err;
    struct graph *ordered = prepare(graph, &err);
    ASSERT(ordered != NULL);
    struct plan *plan = plan_create(ordered, node_scratch, engine);
    const size_t bytes = whole_bytes(ordered, plan);
    plan_destroy(plan);
    graph_destroy(ordered);
    return bytes;
}

/* Also one that failed half way and is not in the engine's list. */
void program_destroy(struct program *base)
{
    struct cpu_program *program = (struct cpu_program *)base;
    struct cpu_engine *engine = (struct cpu_engine *)base->engine;
    struct cpu_program **link = &engine->programs;
    while (*link != NULL && *link != program) {
        link = &(*link)->next;
    }
    if (*link == program) {
        *link = program->next;
    }
    if (engine->trace != NULL) {
        trace_forget(engine->trace, program);
    }
    plan_destroy(program->plan);
    graph_destroy(program->ordered);
    graph_destroy(program->base.graph);
    arena_destroy(program->memory);
    mem_free(program);
}

/* The engine's memory is asked for last, when the need is known, and the list is joined
 * only when nothing can fail any more. */
struct program *program_create(struct engine *base, struct graph *owned_graph,
                               struct error *err)
{
    struct cpu_engine *engine = (struct cpu_engine *)base;
    struct cpu_program *program = mem_alloc(sizeof(*program));
    program->base = (struct program){.engine = base, .graph = owned_graph};
    program->memory = arena_create();
    program->ordered = prepare(owned_graph, err);
    if (program->ordered == NULL || !check_groups(program->ordered, base, err)) {
        goto fail;
    }
    program->plan = plan_create(program->ordered, node_scratch, engine);
    map_arguments(program);
    build_steps(program, engine);
    find_deliveries(program);
    program->arena_bytes = whole_bytes(program->ordered, program->plan);
    if (!engine_reserve(engine, program->arena_bytes, program->thread_bytes, err)) {
        goto fail;
    }
    program->next = engine->programs;
    engine->programs = program;
    return &program->base;
fail:
    program_destroy(&program->base);
    return NULL;
}
