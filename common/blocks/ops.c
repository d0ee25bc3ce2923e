#include "block_ops.h"

static int64_t tokens(const struct ab_layer_dims *d) {
  return d->rows * d->length;
}

size_t ab_slot_tokens(const struct ab_layer_dims *d) {
  return (size_t)tokens(d);
}

size_t ab_slot_emb(const struct ab_layer_dims *d) {
  return (size_t)(tokens(d) * d->emb);
}

size_t ab_slot_query(const struct ab_layer_dims *d) {
  return (size_t)(tokens(d) * d->heads * d->head_dim);
}

size_t ab_slot_key(const struct ab_layer_dims *d) {
  return (size_t)(tokens(d) * d->kv_heads * d->head_dim);
}

size_t ab_slot_mlp(const struct ab_layer_dims *d) {
  return (size_t)(tokens(d) * d->mlp);
}

size_t ab_slot_rope(const struct ab_layer_dims *d) {
  return (size_t)(tokens(d) * d->head_dim);
}

size_t ab_slot_head_rows(const struct ab_layer_dims *d) {
  return (size_t)(tokens(d) * d->heads);
}

struct dense_size {
  int64_t t, k, n;
};

static struct dense_size dense_size(const struct ab_op_call *call) {
  const struct ab_param *param = call->param_row[0];
  struct dense_size size = {tokens(call->dims), 1, 1};
  for (int i = 0; i < AB_PARAM_RANK && param->axis[i] != AB_AXIS_NONE; i++)
    *(i < param->fan_in_axes ? &size.k : &size.n) *= ab_axis_size(param->axis[i], call->dims);
  return size;
}

void ab_op_dense(struct ab_op_call *call) {
  struct dense_size s = dense_size(call);
  struct ab_gemm g = {.m = s.t, .n = s.n, .k = s.k, .lda = s.k, .ldb = s.n, .ldc = s.n};
  call->k->gemm(call->out[0], call->in[0], call->param[0], &g);
}

void ab_op_dense_input(struct ab_op_call *call) {
  struct dense_size s = dense_size(call);
  struct ab_gemm g = {.m = s.t, .n = s.k, .k = s.n, .lda = s.n, .ldb = s.n, .ldc = s.k, .trans_b = true,
                      .accumulate = call->add[0]};
  call->k->gemm(call->din[0], call->dout[0], call->param[0], &g);
}

void ab_op_dense_weight(struct ab_op_call *call) {
  struct dense_size s = dense_size(call);
  struct ab_gemm g = {.m = s.k, .n = s.n, .k = s.t, .lda = s.k, .ldb = s.n, .ldc = s.n, .trans_a = true,
                      .accumulate = true};
  call->k->gemm(call->dparam[0], call->in[0], call->dout[0], &g);
}

static struct ab_norm_dims norm_dims(const struct ab_layer_dims *d) {
  return (struct ab_norm_dims){.tokens = tokens(d), .emb = d->emb, .epsilon = d->epsilon};
}

void ab_op_norm(struct ab_op_call *call) {
  struct ab_norm_dims d = norm_dims(call->dims);
  call->k->norm(call->out[0], call->out[1], call->in[0], call->param[0], &d);
}

void ab_op_norm_input(struct ab_op_call *call) {
  struct ab_norm_dims d = norm_dims(call->dims);
  call->k->norm_input(call->din[0], call->dout[0], call->out[1], call->in[0], call->param[0], &d);
}

void ab_op_norm_weight(struct ab_op_call *call) {
  struct ab_norm_dims d = norm_dims(call->dims);
  call->k->norm_weight(call->dparam[0], call->dout[0], call->out[1], call->in[0], &d);
}

static struct ab_rope_dims rope_dims(const struct ab_layer_dims *d, int64_t heads) {
  return (struct ab_rope_dims){.tokens = tokens(d), .heads = heads, .head_dim = d->head_dim,
                               .min_timescale = d->rope_min, .max_timescale = d->rope_max,
                               .linear_scaling = d->rope_linear};
}

void ab_op_rope_table(struct ab_op_call *call) {
  struct ab_rope_dims d = rope_dims(call->dims, 1);
  call->k->rope_table(call->out[0], call->positions, &d);
}

static void rope(struct ab_op_call *call, int64_t heads) {
  struct ab_rope_dims d = rope_dims(call->dims, heads);
  call->k->rope(call->out[0], call->in[1], call->in[0], &d);
}

static void rope_input(struct ab_op_call *call, int64_t heads) {
  struct ab_rope_dims d = rope_dims(call->dims, heads);
  call->k->rope_input(call->din[0], call->in[1], call->dout[0], &d);
}

void ab_op_rope_query(struct ab_op_call *call) {
  rope(call, call->dims->heads);
}

void ab_op_rope_query_input(struct ab_op_call *call) {
  rope_input(call, call->dims->heads);
}

void ab_op_rope_key(struct ab_op_call *call) {
  rope(call, call->dims->kv_heads);
}

void ab_op_rope_key_input(struct ab_op_call *call) {
  rope_input(call, call->dims->kv_heads);
}

struct ab_attention_dims ab_op_attention_dims(const struct ab_layer_dims *d) {
  return (struct ab_attention_dims){.rows = d->rows, .length = d->length, .heads = d->heads, .kv_heads = d->kv_heads,
                                    .head_dim = d->head_dim};
}

void ab_op_attention(struct ab_op_call *call) {
  struct ab_attention_dims d = ab_op_attention_dims(call->dims);
  call->k->attention(call->out[0], call->out[1], call->out[2], call->in[0], call->in[1], call->in[2],
                     call->segment_ids, call->scratch, &d);
}

void ab_op_attention_input(struct ab_op_call *call) {
  struct ab_attention_dims d = ab_op_attention_dims(call->dims);
  call->k->attention_input(call->din[0], call->din[1], call->din[2], call->dout[0], call->out[1], call->out[2],
                           call->out[0], call->in[0], call->in[1], call->in[2], call->segment_ids, call->scratch, &d);
}

void ab_op_residual(struct ab_op_call *call) {
  call->k->add(call->out[0], call->in[0], call->in[1], ab_slot_emb(call->dims));
}

void ab_op_residual_input(struct ab_op_call *call) {
  size_t n = ab_slot_emb(call->dims);
  for (int i = 0; i < 2; i++) {
    if (call->add[i])
      call->k->add(call->din[i], call->din[i], call->dout[0], n);
    else
      call->k->copy(call->din[i], call->dout[0], n);
  }
}

void ab_op_swiglu(struct ab_op_call *call) {
  call->k->swiglu(call->out[0], call->in[0], call->in[1], ab_slot_mlp(call->dims));
}

void ab_op_swiglu_input(struct ab_op_call *call) {
  call->k->swiglu_input(call->din[0], call->din[1], call->dout[0], call->in[0], call->in[1], ab_slot_mlp(call->dims));
}
