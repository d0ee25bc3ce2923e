#include "linen_decoder.h"

#include "observed.h"

static const struct linen_module_ops decoder_class = {.class_name = "Decoder"};

ab_status linen_decoder_new(struct linen_decoder *self, struct linen_module *parent, const char *name,
                            const struct ab_config *config, const struct ab_exec *exec,
                            const struct linen_pipeline_hook *hook) {
  *self = (struct linen_decoder){.config = config, .exec = exec, .pipelined = config->pipelined, .hook = hook};
  AB_TRY(linen_module_adopt(&self->base, &decoder_class, parent, name));
  if (self->pipelined)
    AB_TRY(hook->create(&self->pipeline_module, &self->base, "pipeline_module", config, exec));
  AB_TRY(linen_outer_layers_new(&self->layers, &self->base, config, exec));
  AB_TRY(linen_rms_norm_new(&self->decoder_norm, &self->base, "decoder_norm", config, exec));
  return linen_dense_new(&self->logits_dense, &self->base, "logits_dense", config, exec);
}

static ab_status take_tokens(const struct linen_decoder *self, void *out, int64_t width) {
  const struct ab_layer_dims *batch = &self->decoder_norm.dims;
  return ab_arena_take(self->exec->arena, out, (size_t)(batch->rows * batch->length * width),
                       self->exec->kernels->element);
}

static ab_status observe(const struct linen_decoder *self, const char *name, enum ab_phase phase, const void *data,
                         int64_t width) {
  return linen_observe(self->exec, name, phase, data, &self->decoder_norm.dims, width);
}

/* The pipeline first, then what is outside it. */
static ab_status call_layers(struct linen_decoder *self, const struct linen_scope *root, const void *x,
                             const int32_t *positions, const int32_t *segment_ids) {
  int64_t emb = self->decoder_norm.dims.emb;
  AB_TRY(take_tokens(self, &self->top, emb));
  self->piped = NULL;
  if (!self->pipelined) return linen_outer_layers_call(&self->layers, root, self->top, x, positions, segment_ids);
  if (self->layers.stack.count == 0)
    return self->hook->call(self->pipeline_module, root, self->top, x, positions, segment_ids);
  AB_TRY(take_tokens(self, &self->piped, emb));
  AB_TRY(self->hook->call(self->pipeline_module, root, self->piped, x, positions, segment_ids));
  return linen_outer_layers_call(&self->layers, root, self->top, self->piped, positions, segment_ids);
}

/* decoders.py: Decoder.apply_output_head. */
static ab_status call_output_head(struct linen_decoder *self, const struct linen_scope *root, void *logits) {
  const struct ab_layer_dims *batch = &self->decoder_norm.dims;
  AB_TRY(take_tokens(self, &self->normed, batch->emb));
  AB_TRY(take_tokens(self, &self->rstd, 1));
  AB_TRY(linen_rms_norm_call(&self->decoder_norm, root, self->normed, self->rstd, self->top));
  AB_TRY(observe(self, AB_OBS_DECODER_NORM, AB_FORWARD, self->normed, batch->emb));
  AB_TRY(linen_dense_call(&self->logits_dense, root, logits, self->normed));
  return observe(self, AB_OBS_LOGITS, AB_FORWARD, logits, batch->vocab);
}

ab_status linen_decoder_call(struct linen_decoder *self, const struct linen_scope *root, void *logits, const void *x,
                             const int32_t *positions, const int32_t *segment_ids) {
  AB_TRY(call_layers(self, root, x, positions, segment_ids));
  return call_output_head(self, root, logits);
}

static ab_status output_head_vjp(struct linen_decoder *self, const struct linen_scope *root,
                                 const struct linen_scope *cotangents, void *d_top, const void *d_logits) {
  void *d_normed;
  const struct ab_layer_dims *batch = &self->decoder_norm.dims;
  AB_TRY(observe(self, AB_OBS_D_LOGITS, AB_BACKWARD, d_logits, batch->vocab));
  AB_TRY(take_tokens(self, &d_normed, batch->emb));
  AB_TRY(linen_dense_vjp(&self->logits_dense, root, cotangents, d_normed, d_logits, self->normed));
  AB_TRY(observe(self, AB_OBS_D_DECODER_NORM, AB_BACKWARD, d_normed, batch->emb));
  return linen_rms_norm_vjp(&self->decoder_norm, root, cotangents, d_top, d_normed, self->rstd, self->top);
}

static ab_status layers_vjp(struct linen_decoder *self, const struct linen_scope *root,
                            const struct linen_scope *cotangents, void *dx, const void *d_top) {
  const void *d_outputs = d_top;
  if (!self->pipelined) return linen_outer_layers_vjp(&self->layers, root, cotangents, dx, d_top);
  if (self->layers.stack.count > 0) {
    void *d_piped;
    AB_TRY(take_tokens(self, &d_piped, self->decoder_norm.dims.emb));
    AB_TRY(linen_outer_layers_vjp(&self->layers, root, cotangents, d_piped, d_top));
    d_outputs = d_piped;
  }
  return self->hook->vjp(self->pipeline_module, root, cotangents, dx, d_outputs);
}

ab_status linen_decoder_vjp(struct linen_decoder *self, const struct linen_scope *root,
                            const struct linen_scope *cotangents, void *dx, const void *d_logits) {
  void *d_top;
  AB_TRY(take_tokens(self, &d_top, self->decoder_norm.dims.emb));
  AB_TRY(output_head_vjp(self, root, cotangents, d_top, d_logits));
  return layers_vjp(self, root, cotangents, dx, d_top);
}
