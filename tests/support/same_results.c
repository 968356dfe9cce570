/*
 * same_results - see the header.
 */
#include "support/same_results.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/random.h"
#include "graph/rewrite.h"
#include "graph/verify.h"
#include "support/engine_run.h"

struct graph *same_results_copy(const struct graph *graph)
{
    struct rewrite rewrite = rewrite_begin(graph);
    for (int i = 0; i < graph->n_nodes; i++) {
        rewrite_copy(&rewrite, graph->nodes[i]);
    }
    return rewrite_end(&rewrite);
}

static uint64_t hash_name(const char *name)
{
    uint64_t hash = 14695981039346656037u;
    for (; *name != '\0'; name++) {
        hash = (hash ^ (unsigned char)*name) * 1099511628211u;
    }
    return hash;
}

/* Floats normal, integers from 0 to 3, flags true; a function of the name alone. */
static void fill(struct engine_run *run, const struct value *argument)
{
    const struct type *type = &argument->type;
    const char *name = argument->node->name;
    unsigned char *data = engine_run_argument(run, name, 0);
    for (int64_t i = 0; i < type_elements(type); i++) {
        const uint64_t index = (uint64_t)i;
        const float x = random_normal(hash_name(name), RANDOM_TEST, 0, index);
        const int32_t id =
            (int32_t)(random_bits(hash_name(name), RANDOM_TEST, 0, index) % 4);
        unsigned char *element = data + (size_t)i * dtype_bytes(type->dtype);
        if (dtype_is_float(type->dtype)) {
            dtype_from_f32(type->dtype, &x, element, 1);
        } else if (type->dtype == DTYPE_BOOL) {
            *element = 1;
        } else {
            memcpy(element, &id, dtype_bytes(type->dtype));
        }
    }
}

static struct engine_run *run_copy(const struct graph *graph)
{
    struct error err;
    if (!verify_graph(graph, true, &err)) {
        fail_msg("%s", err.message);
    }
    struct engine_run *run = engine_run_create(same_results_copy(graph), NULL);
    for (int i = 0; i < graph->n_arguments; i++) {
        fill(run, graph->arguments[i]);
    }
    engine_run_execute(run);
    return run;
}

static double relative_l2(const struct type *type, const void *a, const void *b)
{
    double squares = 0;
    double total = 0;
    for (int64_t i = 0; i < type_elements(type); i++) {
        double x, y;
        if (type->dtype == DTYPE_F64) {
            x = ((const double *)a)[i];
            y = ((const double *)b)[i];
        } else {
            float single[2];
            const size_t at = (size_t)i * dtype_bytes(type->dtype);
            dtype_to_f32(type->dtype, (const unsigned char *)a + at, &single[0], 1);
            dtype_to_f32(type->dtype, (const unsigned char *)b + at, &single[1], 1);
            x = (double)single[0];
            y = (double)single[1];
        }
        squares += (x - y) * (x - y);
        total += x * x;
    }
    return total > 0 ? sqrt(squares / total) : sqrt(squares);
}

void same_results_check(const struct graph *before, const struct graph *after,
                        double tolerance)
{
    assert_int_equal(before->n_outputs, after->n_outputs);
    struct engine_run *first = run_copy(before);
    struct engine_run *second = run_copy(after);
    for (int i = 0; i < before->n_outputs; i++) {
        const char *name = before->outputs[i].name;
        const struct type *type = &before->outputs[i].value->type;
        assert_string_equal(name, after->outputs[i].name);
        assert_true(type_equal(type, &after->outputs[i].value->type));
        const void *a = engine_run_output(first, name, 0);
        const void *b = engine_run_output(second, name, 0);
        if (tolerance == 0 || !dtype_is_float(type->dtype)) {
            if (memcmp(a, b, type_bytes(type)) != 0) {
                fail_msg("%s differs by %g", name, relative_l2(type, a, b));
            }
        } else if (!(relative_l2(type, a, b) <= tolerance)) {
            fail_msg("%s: relative L2 %g", name, relative_l2(type, a, b));
        }
    }
    engine_run_destroy(first);
    engine_run_destroy(second);
}
