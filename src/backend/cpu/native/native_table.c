/*
 * native_table - the functions of one instruction set as one struct.
 */
#include "backend/cpu/native/native_isa.h"

#define NAME_OF(isa)       #isa
#define NAME_OF_ISA(isa)   NAME_OF(isa)
#define NATIVE_TABLE_(isa) native_##isa
#define NATIVE_TABLE(isa)  NATIVE_TABLE_(isa)

/* The set follows from the flags of this compilation, as in vector.h. */
#if defined(__AVX512F__)
#define THIS_ISA BACKEND_ISA_AVX512
#elif defined(__AVX2__)
#define THIS_ISA BACKEND_ISA_AVX2
#else
#define THIS_ISA BACKEND_ISA_PLAIN
#endif

/* native.c declares the same name. */
extern const struct native NATIVE_TABLE(ISA);

const struct native NATIVE_TABLE(ISA) = {
    .name = NAME_OF_ISA(ISA),
    .isa = THIS_ISA,
    .rms_norm_row = NATIVE(rms_norm_row),
    .rms_norm_grad_row = NATIVE(rms_norm_grad_row),
    .gelu_tanh = NATIVE(gelu_tanh),
    .gelu_tanh_grad = NATIVE(gelu_tanh_grad),
    .geglu = NATIVE(geglu),
    .geglu_grad = NATIVE(geglu_grad),
    .silu = NATIVE(silu),
    .silu_grad = NATIVE(silu_grad),
    .softcap = NATIVE(softcap),
    .softcap_grad = NATIVE(softcap_grad),
    .rope_angles = NATIVE(rope_angles),
    .rope_row = NATIVE(rope_row),
    .row_max = NATIVE(row_max),
    .row_exp = NATIVE(row_exp),
    .row_sum_exp = NATIVE(row_sum_exp),
    .row_scale = NATIVE(row_scale),
    .row_axpy = NATIVE(row_axpy),
    .row_copy_scaled = NATIVE(row_copy_scaled),
    .row_sum = NATIVE(row_sum),
    .row_dot = NATIVE(row_dot),
    .dots_f32 = NATIVE(dots_f32),
    .dots_bf16 = NATIVE(dots_bf16),
    .softmax_grad_row = NATIVE(softmax_grad_row),
    .loss_grad_row = NATIVE(loss_grad_row),
    .widen_bf16 = NATIVE(widen_bf16),
    .round_bf16 = NATIVE(round_bf16),
    .round_bf16_by_chance = NATIVE(round_bf16_by_chance),
    .random_words = NATIVE(random_words),
    .sum_squares = NATIVE(sum_squares),
    .adamw = NATIVE(adamw),
};
