/*
 * graph_trap - where a broken rule goes while a definition is tried out.
 *
 * Types of composites come from building their definition in a scratch graph (infer.c).
 * Definitions are ordinary building code, which does not fail; with a trap in the
 * scratch graph, graph_append hands the message over and unwinds instead of ending the
 * process.
 */
#ifndef GRAPH_GRAPH_TRAP_H
#define GRAPH_GRAPH_TRAP_H

#include <setjmp.h>

#include "base/error.h"

struct graph_trap {
    jmp_buf jump;       /* back into infer */
    struct error error; /* the broken rule */
};

#endif
