/*
 * rule_cases - tables of operand types and what infer must make of them.
 *
 *     static const struct rule_case cases[] = {
 *         CASE(OP_ADD, "f32[4]{shard: partial}; f32[4]", "!on the shard axis"),
 *         {OP_CONCAT, "f32[2,3]; f32[2,1]", "f32[2,4]", .attributes = {.axis = 1}},
 *     };
 *     rule_cases_check(&mesh, cases, ARRAY_LENGTH(cases));
 */
#ifndef SUPPORT_RULE_CASES_H
#define SUPPORT_RULE_CASES_H

#include "graph/graph.h"

struct rule_case {
    enum op op;
    const char *operands; /* types as type_format writes them, with "; " between */
    const char *expected; /* results likewise, or "!" and a part of the message */
    struct attributes attributes;
};

/* A case of an op without attributes. */
#define CASE(op_, operands_, expected_)                               \
    {                                                                 \
        .op = (op_), .operands = (operands_), .expected = (expected_) \
    }

/* "f32[4,8]{shard: split 0}" as a type; a fatal test failure when it is not one. */
struct type rule_cases_type(const char *text);

/* Fails the test at the first case that comes out differently, printing it. */
void rule_cases_check(const struct mesh *mesh, const struct rule_case *cases, size_t n);

#endif
