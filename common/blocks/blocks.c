#include <string.h>

#include "block_ops.h"

const struct ab_block *const ab_blocks[] = {&ab_block_llama2, &ab_block_simple, &ab_block_simple_mlp, NULL};

const struct ab_block *ab_block_find(const char *name) {
  for (int i = 0; ab_blocks[i]; i++)
    if (strcmp(ab_blocks[i]->name, name) == 0) return ab_blocks[i];
  return NULL;
}

struct ab_layer_dims ab_layer_dims_of(const struct ab_config *c, int64_t rows) {
  return (struct ab_layer_dims){
      .rows = rows,
      .length = c->max_target_length,
      .emb = c->emb_dim,
      .heads = c->num_query_heads,
      .kv_heads = c->num_kv_heads,
      .head_dim = c->head_dim,
      .mlp = c->mlp_dim,
      .vocab = c->vocab_size,
      .epsilon = c->normalization_layer_epsilon,
      .rope_min = c->rope_min_timescale,
      .rope_max = c->rope_max_timescale,
      .rope_linear = c->rope_linear_scaling_factor,
  };
}

int64_t ab_axis_size(enum ab_axis axis, const struct ab_layer_dims *dims) {
  switch (axis) {
    case AB_AXIS_EMB: return dims->emb;
    case AB_AXIS_HEADS: return dims->heads;
    case AB_AXIS_KV_HEADS: return dims->kv_heads;
    case AB_AXIS_HEAD_DIM: return dims->head_dim;
    case AB_AXIS_MLP: return dims->mlp;
    case AB_AXIS_VOCAB: return dims->vocab;
    case AB_AXIS_NONE: break;
  }
  return 1;
}

struct ab_shape ab_param_shape(const struct ab_param *param, const struct ab_layer_dims *dims) {
  struct ab_shape shape = {0};
  while (shape.rank < AB_PARAM_RANK && param->axis[shape.rank] != AB_AXIS_NONE) {
    shape.dim[shape.rank] = ab_axis_size(param->axis[shape.rank], dims);
    shape.rank++;
  }
  return shape;
}

size_t ab_param_count(const struct ab_param *param, const struct ab_layer_dims *dims) {
  struct ab_shape shape = ab_param_shape(param, dims);
  size_t count = 1;
  for (int i = 0; i < shape.rank; i++) count *= (size_t)shape.dim[i];
  return count;
}
