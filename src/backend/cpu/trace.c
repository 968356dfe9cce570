/*
 * trace - see the header. The file, an event a line ("X": with a duration, in
 * microseconds since the trace was made):
 *
 *     {"displayTimeUnit": "ms", "otherData": {"engine": "cpu, ...", "left_out": 0},
 *      "traceEvents": [
 *     {"name":"layers.3.mlp.down","cat":"matmul","ph":"X","ts":1.0,"dur":9.5,"pid":1,
 *      "tid":0,"args":{"op":"matmul","run":2}}, ...]}
 *
 * The first slices are kept, not the last ones: the start of a run is where a reader knows
 * what he sees, and steps are alike.
 */
#include "backend/cpu/trace.h"

#include "backend/cpu/program.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "base/str.h"

/* Some five steps of the 270M shape; 20 MB of JSON. */
enum { MAX_SLICES = 1 << 17 };

struct slice {
    const struct cpu_program *program;
    const struct node *node; /* NULL: a run of the whole program */
    int64_t start_ns, end_ns;
    int64_t busy_ns; /* in tasks; tracks of threads */
    int32_t run;     /* of the trace, from 0 */
    int32_t track;   /* 0: nodes and programs; 1 + thread */
};

/* What a thread has done of the present step; on lines of their own. */
struct span {
    int64_t start_ns, end_ns, busy_ns;
    int64_t n_tasks;
    unsigned char padding[MEM_ALIGNMENT - 4 * sizeof(int64_t)];
};

struct trace {
    int n_threads;
    int64_t origin_ns;
    struct span *spans;   /* [n_threads] */
    struct slice *slices; /* [MAX_SLICES], pages are taken as they are written */
    int64_t n_slices, n_left_out;
    int32_t n_runs; /* of programs that are over */
};

struct trace *trace_create(int n_threads)
{
    struct trace *trace = mem_alloc(sizeof(*trace));
    trace->n_threads = n_threads;
    trace->origin_ns = clock_now_ns();
    trace->spans = mem_alloc_array((size_t)n_threads, sizeof(*trace->spans));
    trace->slices = mem_alloc_array(MAX_SLICES, sizeof(*trace->slices));
    return trace;
}

void trace_destroy(struct trace *trace)
{
    if (trace != NULL) {
        mem_free(trace->spans);
        mem_free(trace->slices);
        mem_free(trace);
    }
}

void trace_note_task(struct trace *trace, int thread, int64_t start_ns)
{
    struct span *span = &trace->spans[thread];
    span->end_ns = clock_now_ns();
    if (span->n_tasks++ == 0) {
        span->start_ns = start_ns;
    }
    span->busy_ns += span->end_ns - start_ns;
}

static void add_slice(struct trace *trace, const struct slice *slice)
{
    if (trace->n_slices < MAX_SLICES) {
        trace->slices[trace->n_slices++] = *slice;
    } else {
        trace->n_left_out++;
    }
}

static int count_threads(const struct trace *trace)
{
    int n = 0;
    for (int thread = 0; thread < trace->n_threads; thread++) {
        n += trace->spans[thread].n_tasks > 0;
    }
    return n;
}

/* The node first, then the threads that had tasks of it, which begin anew. A node that one
 * thread has run is told by its own slice. */
void trace_note_step(struct trace *trace, const struct cpu_program *program,
                     const struct node *node, int64_t start_ns)
{
    const struct slice whole = {.program = program,
                                .node = node,
                                .start_ns = start_ns,
                                .end_ns = clock_now_ns(),
                                .run = trace->n_runs};
    add_slice(trace, &whole);
    const bool is_shared = count_threads(trace) > 1;
    for (int thread = 0; thread < trace->n_threads; thread++) {
        struct span *span = &trace->spans[thread];
        if (is_shared && span->n_tasks > 0) {
            const struct slice part = {.program = program,
                                       .node = node,
                                       .start_ns = span->start_ns,
                                       .end_ns = span->end_ns,
                                       .busy_ns = span->busy_ns,
                                       .run = trace->n_runs,
                                       .track = 1 + thread};
            add_slice(trace, &part);
        }
        *span = (struct span){0};
    }
}

void trace_note_run(struct trace *trace, const struct cpu_program *program,
                    int64_t start_ns)
{
    const struct slice whole = {.program = program,
                                .start_ns = start_ns,
                                .end_ns = clock_now_ns(),
                                .run = trace->n_runs};
    add_slice(trace, &whole);
    trace->n_runs++;
}

/* What is kept moves up; the order stays. */
void trace_forget(struct trace *trace, const struct cpu_program *program)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < trace->n_slices; i++) {
        if (trace->slices[i].program != program) {
            trace->slices[kept++] = trace->slices[i];
        }
    }
    trace->n_slices = kept;
}

void trace_reset(struct trace *trace)
{
    trace->n_slices = 0;
    trace->n_left_out = 0;
    trace->n_runs = 0;
    trace->origin_ns = clock_now_ns();
}

/* Text in quotes, as JSON wants it. */
static void add_text(struct str *out, const char *text)
{
    struct json_write json = {.out = out};
    json_write_string(&json, NULL, text);
}

/* The name of a track: an event of its own kind. */
static void add_track(struct str *out, int track)
{
    str_printf(out,
               "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":%d,"
               "\"args\":{\"name\":\"",
               track);
    if (track == 0) {
        str_add(out, "programs and nodes\"}}");
    } else {
        str_printf(out, "thread %d\"}}", track - 1);
    }
}

/* A run has the name of its program's first output: what it was for. */
static const char *name_of(const struct slice *slice)
{
    const struct graph *graph = slice->program->base.graph;
    if (slice->node != NULL) {
        return slice->node->name[0] != '\0' ? slice->node->name
                                            : op_name(slice->node->op);
    }
    return graph->n_outputs > 0 ? graph->outputs[0].name : "program";
}

static void add_event(struct str *out, const struct trace *trace,
                      const struct slice *slice)
{
    const char *op = slice->node == NULL ? "program" : op_name(slice->node->op);
    str_add(out, "{\"name\":");
    add_text(out, name_of(slice));
    str_add(out, ",\"cat\":");
    add_text(out, op);
    str_printf(out, ",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":1,\"tid\":%d",
               (double)(slice->start_ns - trace->origin_ns) / 1e3,
               (double)(slice->end_ns - slice->start_ns) / 1e3, (int)slice->track);
    str_printf(out, ",\"args\":{\"op\":\"%s\",\"run\":%d", op, (int)slice->run);
    if (slice->track > 0) {
        str_printf(out, ",\"busy_us\":%.3f", (double)slice->busy_ns / 1e3);
    }
    str_add(out, "}}");
}

bool trace_write(const struct trace *trace, const char *description, const char *path,
                 struct error *err)
{
    struct file_writer *writer = file_writer_open(path, err);
    if (writer == NULL) {
        return false;
    }
    struct str text = {0};
    bool done = true;
    str_add(&text, "{\"displayTimeUnit\": \"ms\", \"otherData\": {\"engine\": ");
    add_text(&text, description);
    str_printf(&text, ", \"left_out\": %lld},\n\"traceEvents\": [\n",
               (long long)trace->n_left_out);
    for (int track = 0; track <= trace->n_threads; track++) {
        add_track(&text, track);
        str_add(&text, track < trace->n_threads || trace->n_slices > 0 ? ",\n" : "\n");
    }
    for (int64_t i = 0; i < trace->n_slices && done; i++) {
        add_event(&text, trace, &trace->slices[i]);
        str_add(&text, i + 1 < trace->n_slices ? ",\n" : "\n");
        done = file_writer_add(writer, text.text, text.length, err);
        str_clear(&text);
    }
    str_add(&text, "]}\n");
    done = done && file_writer_add(writer, text.text, text.length, err);
    str_deinit(&text);
    if (!done) {
        file_writer_abort(writer);
        return false;
    }
    return file_writer_commit(writer, err);
}
