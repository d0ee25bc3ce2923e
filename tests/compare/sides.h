/* Two small sides with their values, for tests of the comparer: a few leaves over some steps, every value known. */
#pragma once

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "tap.h"
#include "tree.h"
#include "verdict.h"

enum { STEPS = 2, LAYERS = 3, LEAF = 12 };

struct side {
  struct ab_recording *recording;
  struct ab_tree *tree; /* values under the printed identity */
};

static inline struct ab_identity identity(int step, int layer, const char *tensor, enum ab_phase phase) {
  struct ab_identity id = {.step = step, .accumulation = 0, .microbatch = -1, .layer = layer, .phase = phase};
  ck_assert_uint_lt(strlen(tensor), AB_NAME_MAX);
  strcpy(id.tensor, tensor);
  return id;
}

static inline struct side side_new(const char *name) {
  struct side s;
  ck_ok(ab_recording_new(&s.recording, name));
  ck_ok(ab_tree_new(&s.tree));
  return s;
}

static inline void side_free(struct side *s) {
  ab_recording_free(s->recording);
  ab_tree_free(s->tree);
}

/* Zeroed values of a tensor that is to be observed. */
static inline struct ab_tensor *side_tensor(struct side *s, const struct ab_identity *id, enum ab_dtype dtype,
                                            struct ab_shape shape) {
  char path[AB_IDENTITY_TEXT];
  struct ab_tensor *tensor;
  ab_identity_print(path, id);
  ck_ok(ab_tree_add(s->tree, path, dtype, &shape, &tensor));
  return tensor;
}

static inline void side_observe(struct side *s, const struct ab_identity *id) {
  char path[AB_IDENTITY_TEXT];
  ab_identity_print(path, id);
  struct ab_tensor *tensor = ab_tree_find(s->tree, path);
  struct ab_view view = ab_view_of(tensor);
  struct ab_observation o = {.id = *id, .at = {-1, -1, -1, false}, .dtype = tensor->dtype, .shape = tensor->shape};
  ab_summarize(&o.summary, &view);
  ck_ok(ab_recording_observe(s->recording, &o));
}

static inline void side_fingerprint(struct side *s, const struct ab_identity *id) {
  char path[AB_IDENTITY_TEXT];
  struct ab_fingerprint f;
  ab_identity_print(path, id);
  struct ab_view view = ab_view_of(ab_tree_find(s->tree, path));
  ab_fingerprint(&f, id, &view, AB_FINGERPRINT_SEED);
  ck_ok(ab_recording_add_fingerprint(s->recording, &f));
}

static inline void side_metric(struct side *s, int step, const char *name, float value) {
  struct ab_metric m = {.step = step, .value = (double)value, .f32 = true};
  strncat(m.name, name, AB_NAME_MAX - 1);
  ck_ok(ab_recording_add_metric(s->recording, &m));
}

static inline float leaf_value(int step, int layer, int leaf, int i) {
  return (float)(1 + i) * 0.37f + (float)leaf - (float)layer * 0.11f + (float)step * 0.013f;
}

static const char *const leaf_names[] = {"mlp/wo/kernel", "self_attention/query/kernel"};

/* Values of the whole run, before anything is observed. */
static inline struct side side_values(const char *name) {
  struct side s = side_new(name);
  for (int step = 0; step < STEPS; step++)
    for (int layer = 0; layer < LAYERS; layer++)
      for (int leaf = 0; leaf < 2; leaf++) {
        struct ab_identity id = identity(step, layer, leaf_names[leaf], AB_BACKWARD);
        struct ab_tensor *t = side_tensor(&s, &id, AB_F32, (struct ab_shape){2, {3, 4}});
        for (int i = 0; i < LEAF; i++) ((float *)t->data)[i] = leaf_value(step, layer, leaf, i);
      }
  return s;
}

static inline float *side_leaf(const struct side *s, int step, int layer, int leaf) {
  char path[AB_IDENTITY_TEXT];
  struct ab_identity id = identity(step, layer, leaf_names[leaf], AB_BACKWARD);
  ab_identity_print(path, &id);
  return ab_tree_find(s->tree, path)->data;
}

/* Loss, then the leaves from the last layer to the first, as backward goes; reversed: another order of arrival. */
static inline void side_run(struct side *s, bool reversed, bool fingerprints) {
  for (int step = 0; step < STEPS; step++) {
    side_metric(s, step, "loss", 6.9f - (float)step);
    for (int n = 0; n < LAYERS * 2; n++) {
      int k = reversed ? n : LAYERS * 2 - 1 - n;
      struct ab_identity id = identity(step, k / 2, leaf_names[k % 2], AB_BACKWARD);
      side_observe(s, &id);
      if (fingerprints) side_fingerprint(s, &id);
    }
  }
  ab_recording_complete(s->recording);
}

struct both {
  struct side *side[2];
};

static inline ab_status both_values(void *ctx, int side, const struct ab_observation *observation,
                                    struct ab_view *out) {
  const struct both *both = ctx;
  char path[AB_IDENTITY_TEXT];
  ab_identity_print(path, &observation->id);
  struct ab_tensor *tensor;
  AB_TRY(ab_tree_get(&tensor, both->side[side]->tree, path, "side"));
  *out = ab_view_of(tensor);
  return AB_OK;
}

static inline struct ab_expected expected_run(void) {
  struct ab_expected e = ab_expected_none();
  e.steps = STEPS;
  e.tensors[AB_Q_METRIC] = STEPS;
  e.tensors[AB_Q_WEIGHT_GRADIENT] = STEPS * LAYERS * 2;
  e.elements[AB_Q_WEIGHT_GRADIENT] = STEPS * LAYERS * 2 * LEAF;
  return e;
}

static inline struct ab_comparison comparison_of(struct both *both, struct side *a, struct side *b) {
  *both = (struct both){{a, b}};
  return (struct ab_comparison){.a = a->recording,
                                .b = b->recording,
                                .pair = AB_PAIR_SAME,
                                .quantities = AB_Q_ALL,
                                .expected = expected_run(),
                                .values = both_values,
                                .values_ctx = both};
}

/* Without its kinds. */
static inline struct ab_calibration *calibration_begun(const char *config_digest, int64_t seed) {
  struct ab_calibration *c;
  ck_ok(ab_mem_new(&c, 1, sizeof *c));
  char **texts[] = {&c->created, &c->commit, &c->numerics, &c->cores, &c->dropped};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) ck_ok(ab_mem_string(texts[i], "word"));
  ck_ok(ab_mem_string(&c->config_digest, config_digest));
  c->runs = AB_CALIBRATION_RUNS;
  c->seed = seed;
  c->layers = 4;
  c->reduction = 1024;
  return c;
}

/* Two equal runs; b in another order of arrival. */
struct fixture {
  struct side a, b;
  struct both both;
};

static inline void start(struct fixture *f) {
  f->a = side_values("linen");
  f->b = side_values("nnx");
}

static inline struct ab_verdict judge(struct fixture *f) {
  struct ab_verdict v;
  side_run(&f->a, true, false);
  side_run(&f->b, false, false);
  struct ab_comparison c = comparison_of(&f->both, &f->a, &f->b);
  ck_ok(ab_verdict(&v, &c));
  return v;
}

static inline void stop(struct fixture *f, struct ab_verdict *v) {
  ab_verdict_free(v);
  side_free(&f->a);
  side_free(&f->b);
}
