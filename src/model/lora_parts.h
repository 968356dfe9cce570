/*
 * lora_parts - what lora.c, lora_read.c and lora_write.c share.
 */
#ifndef MODEL_LORA_PARTS_H
#define MODEL_LORA_PARTS_H

#include "base/base.h"
#include "model/params.h"

struct str;

/* Files of an adapter folder. */
#define LORA_CONFIG_FILE  "adapter_config.json"
#define LORA_TENSORS_FILE "adapter_model.safetensors"

/* What stands in front of a module's name in the tensor file. */
#define LORA_PREFIX "base_model.model."

/* Whether this weight can have an adapter. */
bool lora_is_adaptable(const struct param_info *info);

/* "q_proj" for PARAM_Q. */
void lora_add_short_name(struct str *out, enum param_role role);

#endif
