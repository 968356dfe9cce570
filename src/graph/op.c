/*
 * op - tables of ops made from ops.def.
 */
#include <string.h>

#include "graph/graph.h"

static const char *const names[OP_COUNT] = {
#define OP(NAME, name, kind, min_inputs, max_inputs, n_outputs) [OP_##NAME] = #name,
#include "graph/ops.def"
#undef OP
};

static const enum op_kind kinds[OP_COUNT] = {
#define OP(NAME, name, kind, min_inputs, max_inputs, n_outputs) \
    [OP_##NAME] = OP_KIND_##kind,
#include "graph/ops.def"
#undef OP
};

const char *op_name(enum op op)
{
    ASSERT((int)op >= 0 && op < OP_COUNT);
    return names[op];
}

enum op_kind op_kind(enum op op)
{
    ASSERT((int)op >= 0 && op < OP_COUNT);
    return kinds[op];
}

/* By name: X_grad belongs to X. The list is short and this is asked when graphs are
 * built, so a search will do. */
enum op op_forward_of(enum op op)
{
    ASSERT(op_kind(op) == OP_KIND_GRADIENT);
    const size_t length = strlen(names[op]) - strlen("_grad");
    for (int forward = 0; forward < OP_COUNT; forward++) {
        if (strlen(names[forward]) == length &&
            strncmp(names[forward], names[op], length) == 0) {
            return forward;
        }
    }
    UNREACHABLE();
}
