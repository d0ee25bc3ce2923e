/* The table of one instance. */
#include "instance.h"

#include "work.h"

#define TABLE KERNEL_TABLE(AB_INSTANCE)
#define KERNEL_TABLE(instance) AB_PASTE(ab_kernels_, instance, )

const struct ab_kernels TABLE = {
    .name = AB_TABLE_NAME,
    .dtype = _Generic((real)0, float: AB_F32, double: AB_F64),
    .element = sizeof(real),
    POLYNOMIAL_KERNELS,
    .statistics = KERNEL(statistics),
    .embed = KERNEL(embed),
    .embed_weight = KERNEL(embed_weight),
    .norm = KERNEL(norm),
    .norm_input = KERNEL(norm_input),
    .norm_weight = KERNEL(norm_weight),
    .rope_table = KERNEL(rope_table),
    .rope = KERNEL(rope),
    .rope_input = KERNEL(rope_input),
    .attention = KERNEL(attention),
    .attention_input = KERNEL(attention_input),
    .attention_work = ab_attention_work,
    .swiglu = KERNEL(swiglu),
    .swiglu_input = KERNEL(swiglu_input),
    .cross_entropy = KERNEL(cross_entropy),
    .cross_entropy_input = KERNEL(cross_entropy_input),
    .adamw = KERNEL(adamw),
    .sgd = KERNEL(sgd),
    .clip = KERNEL(clip),
};
