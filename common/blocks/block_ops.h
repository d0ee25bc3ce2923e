/* What one operator of a block is handed, and the operators that the blocks' tables are made of. Operators call
 * kernels and hold neither arithmetic nor policy. T = rows x length tokens.
 */
#pragma once

#include "block.h"

enum { AB_OP_IN = 4, AB_OP_OUT = 4, AB_OP_PARAM = 2 };

/* Arrays are indexed as op->in, op->out, op->param. In backward only slots named in input_needs and weight_needs hold
 * forward values. */
struct ab_op_call {
  const struct ab_kernels *k;
  const struct ab_layer_dims *dims;
  const struct ab_param *param_row[AB_OP_PARAM];
  const void *in[AB_OP_IN];        /* values of the input slots */
  void *out[AB_OP_OUT];            /* values of the output slots: written by forward, read by backward */
  void *din[AB_OP_IN];             /* cotangents of the input slots */
  const void *dout[AB_OP_OUT];     /* cotangents of the output slots */
  bool add[AB_OP_IN];              /* din[i] holds a contribution already: add to it (operators with `adds` only) */
  const void *param[AB_OP_PARAM];
  void *dparam[AB_OP_PARAM];       /* live accumulators */
  const int32_t *positions, *segment_ids;
  void *scratch;                   /* block->scratch elements */
};

/* out[T, n] = in[T, k] kernel; k is the product of the kernel's first fan_in_axes axes. layers/linears.py:
 * DenseGeneral. */
void ab_op_dense(struct ab_op_call *call);
void ab_op_dense_input(struct ab_op_call *call);
void ab_op_dense_weight(struct ab_op_call *call);

/* A dense operator between two slots: its row of a table. */
#define AB_DENSE(op_name, input_slot, output_slot, parameter)                                                  \
  {                                                                                                            \
    .name = (op_name), .forward = ab_op_dense, .input = ab_op_dense_input, .weight = ab_op_dense_weight,       \
    .in = {(input_slot), -1}, .out = {(output_slot), -1}, .param = {(parameter), -1},                          \
    .weight_needs = 1u << (input_slot), .adds = true                                                           \
  }

/* out = {y, rstd}; in = {x}; param = {scale}. */
void ab_op_norm(struct ab_op_call *call);
void ab_op_norm_input(struct ab_op_call *call);
void ab_op_norm_weight(struct ab_op_call *call);

/* out = {table[T, D]} from positions. */
void ab_op_rope_table(struct ab_op_call *call);
/* out = {y}; in = {x, table}; for heads and for kv heads. */
void ab_op_rope_query(struct ab_op_call *call);
void ab_op_rope_query_input(struct ab_op_call *call);
void ab_op_rope_key(struct ab_op_call *call);
void ab_op_rope_key_input(struct ab_op_call *call);

/* out = {o, row_max, row_sum}; in = {q, k, v}. */
void ab_op_attention(struct ab_op_call *call);
void ab_op_attention_input(struct ab_op_call *call);

/* out = {a + b}; in = {a, b}, all [T, E]. */
void ab_op_residual(struct ab_op_call *call);
void ab_op_residual_input(struct ab_op_call *call);

/* out = {silu(gate) up}; in = {gate, up}, all [T, M]. */
void ab_op_swiglu(struct ab_op_call *call);
void ab_op_swiglu_input(struct ab_op_call *call);

struct ab_attention_dims ab_op_attention_dims(const struct ab_layer_dims *dims);

/* Extents of slots, elements. */
size_t ab_slot_tokens(const struct ab_layer_dims *dims);     /* T */
size_t ab_slot_emb(const struct ab_layer_dims *dims);        /* T E */
size_t ab_slot_query(const struct ab_layer_dims *dims);      /* T H D */
size_t ab_slot_key(const struct ab_layer_dims *dims);        /* T K D */
size_t ab_slot_mlp(const struct ab_layer_dims *dims);        /* T M */
size_t ab_slot_rope(const struct ab_layer_dims *dims);       /* T D */
size_t ab_slot_head_rows(const struct ab_layer_dims *dims);  /* rows H L */

extern const struct ab_block ab_block_llama2, ab_block_simple, ab_block_simple_mlp;
