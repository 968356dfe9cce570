/*
 * op_case_macros - short ways to write the inputs of a case: kind(low, high, dimensions).
 */
#ifndef SUPPORT_OP_CASE_MACROS_H
#define SUPPORT_OP_CASE_MACROS_H

#define OP_RANK(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define OP_TENSOR(kind, low, high, ...)                      \
    {                                                        \
        kind, OP_RANK(__VA_ARGS__), {__VA_ARGS__}, low, high \
    }

#define X(low, high, ...)         OP_TENSOR(OP_INPUT_FLOAT, low, high, __VA_ARGS__)
#define PARAMETER(low, high, ...) OP_TENSOR(OP_INPUT_PARAMETER, low, high, __VA_ARGS__)
#define FIXED(low, high, ...)     OP_TENSOR(OP_INPUT_FIXED, low, high, __VA_ARGS__)
#define I32(low, high, ...)       OP_TENSOR(OP_INPUT_I32, low, high, __VA_ARGS__)
#define BOOL(...)                 OP_TENSOR(OP_INPUT_BOOL, 0, 1, __VA_ARGS__)
#define ROWS(...)                 OP_TENSOR(OP_INPUT_ROWS, 0, 0, __VA_ARGS__)
#define FIRST_KEY(B, T)           OP_TENSOR(OP_INPUT_FIRST_KEY, 0, 9, B, T)

/* Documents of up to `longest` tokens. */
#define FIRST_KEY_LONG(B, T, longest) OP_TENSOR(OP_INPUT_FIRST_KEY, 0, longest, B, T)

#define X_SCALAR(low, high)               \
    {                                     \
        OP_INPUT_FLOAT, 0, {0}, low, high \
    }
#define FIXED_SCALAR(low, high)           \
    {                                     \
        OP_INPUT_FIXED, 0, {0}, low, high \
    }
#define I32_SCALAR(low, high)           \
    {                                   \
        OP_INPUT_I32, 0, {0}, low, high \
    }
#define U32_SCALAR(low, high)           \
    {                                   \
        OP_INPUT_U32, 0, {0}, low, high \
    }
#define BOOL_SCALAR                 \
    {                               \
        OP_INPUT_BOOL, 0, {0}, 0, 1 \
    }
#define TRUE_SCALAR                 \
    {                               \
        OP_INPUT_BOOL, 0, {0}, 1, 1 \
    }
#define FALSE_SCALAR                \
    {                               \
        OP_INPUT_BOOL, 0, {0}, 0, 0 \
    }

#endif
