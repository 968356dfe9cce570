/*
 * pjrt - structs of the interface, and the sequence: initialise, create client, compile,
 * upload, execute, await, download. Nothing runs at the same time as anything else.
 */
#include "pjrt.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

/* Byte offsets of functions in the table. */
enum function {
    ERROR_DESTROY = 40,
    ERROR_MESSAGE = 48,
    PLUGIN_INITIALIZE = 64,
    EVENT_DESTROY = 80,
    EVENT_AWAIT = 104,
    CLIENT_CREATE = 120,
    CLIENT_ADDRESSABLE_DEVICES = 168,
    CLIENT_COMPILE = 200,
    BUFFER_FROM_HOST = 216,
    LOADED_DESTROY = 440,
    LOADED_EXECUTE = 480,
    BUFFER_DESTROY = 504,
    BUFFER_TO_HOST = 600,
};

/* Every argument struct begins like this. */
struct header {
    size_t struct_size;
    void *extension;
};

struct object_args { /* destroy, await */
    struct header header;
    void *object;
};

struct text_args { /* error message */
    struct header header;
    void *object;
    const char *text;
    size_t length;
};

struct named_value {
    struct header header;
    const char *name;
    size_t name_length;
    int type; /* 1 = int64 */
    int64_t number;
    size_t value_size;
};

struct client_args {
    struct header header;
    const struct named_value *options;
    size_t n_options;
    void *get, *get_context, *put, *put_context;
    void *client;
    void *try_get, *try_get_context;
};

struct list_args {
    struct header header;
    void *object;
    void *const *items;
    size_t n;
};

struct program_text {
    struct header header;
    const char *code;
    size_t code_length;
    const char *format;
    size_t format_length;
};

struct compile_args {
    struct header header;
    void *client;
    const struct program_text *program;
    const char *options; /* a CompileOptionsProto */
    size_t options_length;
    void *executable;
};

struct upload_args {
    struct header header;
    void *client;
    const void *data;
    int type;
    const int64_t *dims;
    size_t n_dims;
    const int64_t *strides;
    size_t n_strides;
    int semantics; /* 0 = the data may change after the call */
    void *device, *memory, *layout;
    void *done; /* event */
    void *buffer;
};

struct layout {
    struct header header;
    size_t tiled_struct_size;
    void *tiled_extension;
    const int64_t *minor_to_major;
    size_t n_minor_to_major;
    const int64_t *tile_dims;
    const size_t *tile_dim_sizes;
    size_t n_tiles;
    int type; /* 0 = tiled */
};

struct download_args {
    struct header header;
    void *buffer;
    const struct layout *layout;
    void *target;
    size_t target_size;
    void *done; /* event */
};

struct execute_options {
    struct header header;
    void *send, *receive;
    size_t n_send, n_receive;
    int launch_id;
    const int64_t *non_donatable;
    size_t n_non_donatable;
    void *context;
    const char *call_location;
    size_t n_tasks;
    void *task_ids, *incarnation_ids, *slices;
    bool major_to_minor;
    void *callbacks;
    size_t n_callbacks;
};

struct execute_args {
    struct header header;
    void *executable;
    const struct execute_options *options;
    void *const *const *arguments; /* [device][argument] */
    size_t n_devices, n_arguments;
    void **const *outputs; /* [device][output], filled */
    void **done;           /* [device] events */
    void *device;
};

struct pjrt {
    const char *table;
    void *client;
    void *const *devices;
    size_t n_devices;
};

struct pjrt_program {
    struct pjrt *pjrt;
    void *executable;
    int n_replicas;
};

typedef void *(*call_fn)(void *args);

static call_fn find(const struct pjrt *pjrt, enum function function)
{
    call_fn call;
    memcpy(&call, pjrt->table + function, sizeof(call));
    return call;
}

/* Calls a function; its error, if any, becomes ours. */
static bool call(const struct pjrt *pjrt, enum function function, void *args,
                 const char *what, struct error *err)
{
    void *failure = find(pjrt, function)(args);
    if (failure == NULL) {
        return true;
    }
    struct text_args message = {.header.struct_size = sizeof(message),
                                .object = failure};
    find(pjrt, ERROR_MESSAGE)(&message);
    error_set(err, ERROR_FAILED, "%s: %.*s", what, (int)message.length, message.text);
    struct object_args destroy = {.header.struct_size = sizeof(destroy),
                                  .object = failure};
    find(pjrt, ERROR_DESTROY)(&destroy);
    return false;
}

static void destroy(const struct pjrt *pjrt, enum function function, void *object)
{
    struct object_args args = {.header.struct_size = sizeof(args), .object = object};
    struct error ignored;
    if (object != NULL && !call(pjrt, function, &args, "destroy", &ignored)) {
        mem_report_fatal(ignored.message);
    }
}

static bool await(const struct pjrt *pjrt, void *event, const char *what,
                  struct error *err)
{
    struct object_args args = {.header.struct_size = sizeof(args), .object = event};
    const bool done = call(pjrt, EVENT_AWAIT, &args, what, err);
    destroy(pjrt, EVENT_DESTROY, event);
    return done;
}

struct pjrt *pjrt_open(const char *path, int n_devices, struct error *err)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        error_set(err, ERROR_NOT_FOUND, "%s", dlerror());
        return NULL;
    }
    const char *(*get_table)(void);
    void *symbol = dlsym(library, "GetPjrtApi");
    if (symbol == NULL) {
        error_set(err, ERROR_DATA, "%s: no GetPjrtApi", path);
        return NULL;
    }
    memcpy(&get_table, &symbol, sizeof(get_table));
    struct pjrt *pjrt = mem_alloc(sizeof(*pjrt));
    pjrt->table = get_table();
    struct header initialize = {.struct_size = sizeof(initialize)};
    const char name[] = "cpu_device_count";
    const struct named_value option = {
        .header.struct_size = sizeof(option),
        .name = name,
        .name_length = sizeof(name) - 1,
        .type = 1,
        .number = n_devices,
        .value_size = 1,
    };
    struct client_args create = {
        .header.struct_size = sizeof(create), .options = &option, .n_options = 1};
    struct list_args list = {.header.struct_size = sizeof(list)};
    if (!call(pjrt, PLUGIN_INITIALIZE, &initialize, "initialize", err) ||
        !call(pjrt, CLIENT_CREATE, &create, "create client", err)) {
        return NULL;
    }
    list.object = pjrt->client = create.client;
    if (!call(pjrt, CLIENT_ADDRESSABLE_DEVICES, &list, "list devices", err)) {
        return NULL;
    }
    pjrt->devices = list.items;
    pjrt->n_devices = list.n;
    return pjrt;
}

struct pjrt_program *pjrt_compile(struct pjrt *pjrt, const char *text, int n_replicas,
                                  struct error *err)
{
    if ((size_t)n_replicas > pjrt->n_devices || n_replicas > 127) {
        error_set(err, ERROR_USAGE, "%d replicas, %zu devices", n_replicas,
                  pjrt->n_devices);
        return NULL;
    }
    /* executable_build_options (3) = {num_replicas (4) = N, num_partitions (5) = 1} */
    const char options[] = {0x1a, 4, 0x20, (char)n_replicas, 0x28, 1};
    const struct program_text program = {
        .header.struct_size = sizeof(program),
        .code = text,
        .code_length = strlen(text),
        .format = "mlir",
        .format_length = 4,
    };
    struct compile_args compile = {
        .header.struct_size = sizeof(compile),
        .client = pjrt->client,
        .program = &program,
        .options = options,
        .options_length = sizeof(options),
    };
    if (!call(pjrt, CLIENT_COMPILE, &compile, "compile", err)) {
        return NULL;
    }
    struct pjrt_program *result = mem_alloc(sizeof(*result));
    *result = (struct pjrt_program){pjrt, compile.executable, n_replicas};
    return result;
}

void pjrt_program_destroy(struct pjrt_program *program)
{
    if (program != NULL) {
        destroy(program->pjrt, LOADED_DESTROY, program->executable);
        mem_free(program);
    }
}

/* The interface's number for a dtype. */
static int element_type(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_F64:
        return 12;
    case DTYPE_F32:
        return 11;
    case DTYPE_BF16:
        return 13;
    case DTYPE_F16:
        return 10;
    case DTYPE_I64:
        return 5;
    case DTYPE_I32:
        return 4;
    case DTYPE_U32:
        return 8;
    case DTYPE_U8:
        return 6;
    case DTYPE_BOOL:
        return 1;
    case DTYPE_COUNT:
        break;
    }
    UNREACHABLE();
}

static bool upload(struct pjrt *pjrt, const struct type *type, const void *host,
                   void *device, void **buffer, struct error *err)
{
    struct upload_args args = {
        .header.struct_size = sizeof(args),
        .client = pjrt->client,
        .data = host,
        .type = element_type(type->dtype),
        .dims = type->shape.dim,
        .n_dims = (size_t)type->shape.rank,
        .device = device,
    };
    if (!call(pjrt, BUFFER_FROM_HOST, &args, "upload", err)) {
        return false;
    }
    *buffer = args.buffer;
    return await(pjrt, args.done, "upload", err);
}

static bool download(struct pjrt *pjrt, const struct type *type, void *buffer,
                     void *host, struct error *err)
{
    int64_t minor_to_major[SHAPE_MAX_RANK];
    const int rank = type->shape.rank;
    for (int i = 0; i < rank; i++) {
        minor_to_major[i] = rank - 1 - i;
    }
    const struct layout layout = {
        .header.struct_size = sizeof(layout),
        .tiled_struct_size = 56,
        .minor_to_major = minor_to_major,
        .n_minor_to_major = (size_t)rank,
    };
    struct download_args args = {
        .header.struct_size = sizeof(args),
        .buffer = buffer,
        .layout = &layout,
        .target = host,
        .target_size = type_bytes(type),
    };
    return call(pjrt, BUFFER_TO_HOST, &args, "download", err) &&
           await(pjrt, args.done, "download", err);
}

/* Rows of `n` pointers each, for execute_args. */
static void ***make_rows(void **flat, int n_rows, int n)
{
    void ***rows = mem_alloc_array((size_t)n_rows + 1, sizeof(*rows));
    for (int i = 0; i < n_rows; i++) {
        rows[i] = flat + (ptrdiff_t)i * n;
    }
    return rows;
}

static bool execute(struct pjrt_program *program, void **arguments, int n_arguments,
                    void **outputs, int n_outputs, struct error *err)
{
    struct pjrt *pjrt = program->pjrt;
    const int n = program->n_replicas;
    void ***argument_rows = make_rows(arguments, n, n_arguments);
    void ***output_rows = make_rows(outputs, n, n_outputs);
    void **done = mem_alloc_array((size_t)n, sizeof(*done));
    const struct execute_options options = {.header.struct_size = sizeof(options)};
    struct execute_args args = {
        .header.struct_size = sizeof(args),
        .executable = program->executable,
        .options = &options,
        .arguments = (void *const *const *)argument_rows,
        .n_devices = (size_t)n,
        .n_arguments = (size_t)n_arguments,
        .outputs = (void **const *)output_rows,
        .done = done,
    };
    bool is_done = call(pjrt, LOADED_EXECUTE, &args, "execute", err);
    for (int i = 0; is_done && i < n; i++) {
        is_done = await(pjrt, done[i], "execute", err);
    }
    mem_free(argument_rows);
    mem_free(output_rows);
    mem_free(done);
    return is_done;
}

static void destroy_buffers(struct pjrt *pjrt, void **owned_buffers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        destroy(pjrt, BUFFER_DESTROY, owned_buffers[i]);
    }
    mem_free(owned_buffers);
}

bool pjrt_run(struct pjrt_program *program, const struct graph *graph,
              const void *const *arguments, void *const *outputs, struct error *err)
{
    struct pjrt *pjrt = program->pjrt;
    const int n = program->n_replicas;
    const size_t n_in = (size_t)(n * graph->n_arguments);
    const size_t n_out = (size_t)(n * graph->n_outputs);
    void **in = mem_alloc_array(n_in + 1, sizeof(*in));
    void **out = mem_alloc_array(n_out + 1, sizeof(*out));
    bool is_done = true;
    for (size_t i = 0; is_done && i < n_in; i++) {
        const int a = (int)i % graph->n_arguments;
        is_done = upload(pjrt, &graph->arguments[a]->type, arguments[i],
                         pjrt->devices[(int)i / graph->n_arguments], &in[i], err);
    }
    is_done =
        is_done && execute(program, in, graph->n_arguments, out, graph->n_outputs, err);
    for (size_t i = 0; is_done && i < n_out; i++) {
        const int o = (int)i % graph->n_outputs;
        is_done =
            download(pjrt, &graph->outputs[o].value->type, out[i], outputs[i], err);
    }
    destroy_buffers(pjrt, in, n_in);
    destroy_buffers(pjrt, out, n_out);
    return is_done;
}
