/* A wrong side, the truth and what-if passes with known values, and a question about one tensor. */
#pragma once

#include "explain.h"
#include "judge.h"
#include "sides.h"

enum { ROWS = 6, COLUMNS = 8, COUNT = ROWS * COLUMNS, PARTS = 4, MICROBATCHES = 4 };

/* A wrong side, the truth and passes, whose tensors are [ROWS, COLUMNS]. */
struct rig {
  struct side side[AB_EXPLAIN_SIDES];
  struct ab_what_if what_if[PARTS + 1];
  struct ab_explain question;
  struct ab_finding finding;
  struct ab_explained_list list;
};

static const char leaf[] = "mlp/wo/kernel";
static const struct ab_explain_number numbers[] = {{"M", 4}, {"1/M", 0.25}, {"S", 2}, {"2", 2}};

static inline ab_status values(void *ctx, int side, const struct ab_observation *observation, struct ab_view *out) {
  const struct rig *rig = ctx;
  char path[AB_IDENTITY_TEXT];
  struct ab_tensor *tensor;
  ab_identity_print(path, &observation->id);
  AB_TRY(ab_tree_get(&tensor, rig->side[side].tree, path, "side"));
  *out = ab_view_of(tensor);
  return AB_OK;
}

static inline double rate(const void *ctx, int64_t step) {
  (void)ctx;
  return 0.01 * (double)(step + 1);
}

static inline void rig_new(struct rig *rig) {
  *rig = (struct rig){0};
  static const char *const names[] = {"linen", "sequential", "passes"};
  for (int i = 0; i < AB_EXPLAIN_SIDES; i++) rig->side[i] = side_new(names[i]);
  rig->question = (struct ab_explain){.got = rig->side[0].recording,
                                      .truth = rig->side[1].recording,
                                      .values = values,
                                      .ctx = rig,
                                      .number = numbers,
                                      .numbers = 4,
                                      .layers = 4,
                                      .layers_per_stage = 1,
                                      .stages = 2,
                                      .update = {true, true, 0.9, 0.95, 1e-8, 0.1, 0, rate, NULL}};
}

static inline void rig_free(struct rig *rig) {
  for (int i = 0; i < AB_EXPLAIN_SIDES; i++) side_free(&rig->side[i]);
}

/* Reproducible values in (-1, 1) without pattern. */
static inline float noise(uint32_t seed, int i) {
  uint32_t x = seed * 2654435761u + (uint32_t)i * 40503u + 12345u;
  for (int round = 0; round < 3; round++) x = (x ^ (x >> 15)) * 2246822519u + seed;
  return (float)(x >> 8) / 8388608.0f - 1.0f;
}

static inline float *put(struct rig *rig, int side, struct ab_identity id, uint32_t seed) {
  struct ab_tensor *t = side_tensor(&rig->side[side], &id, AB_F32, (struct ab_shape){2, {ROWS, COLUMNS}});
  for (int i = 0; i < COUNT; i++) ((float *)t->data)[i] = noise(seed, i);
  return t->data;
}

static inline struct ab_identity gradient(int layer) { return identity(0, layer, leaf, AB_BACKWARD); }

/* Observes what was put and asks about `id`. */
static inline void ask(struct rig *rig, struct ab_identity id) {
  rig->finding = (struct ab_finding){.id = id, .quantity = ab_quantity_of(&id)};
  ck_ok(ab_explain(&rig->list, &rig->question, &rig->finding));
}

static inline bool says(const struct rig *rig, const char *id, const char *text) {
  for (size_t i = 0; i < rig->list.lines; i++)
    if (!strcmp(rig->list.line[i].id, id) && strstr(rig->list.line[i].text, text)) return true;
  return false;
}

static inline void expect(const struct rig *rig, const char *id, const char *text) {
  const struct ab_explained_line *line = rig->list.line;
  ck_assert_msg(says(rig, id, text), "expected [%s] %s; %zu lines, first [%s] %s", id, text, rig->list.lines,
                line[0].id, line[0].text);
  for (size_t i = 0; i < rig->list.lines; i++) {
    bool known = false;
    for (int v = 0; ab_explain_vocabulary[v]; v++) known |= !strcmp(ab_explain_vocabulary[v], line[i].id);
    ck_assert_msg(known, "'%s' is not of the vocabulary", line[i].id);
  }
}

#define LENGTH(x) ((int)(sizeof(x) / sizeof *(x)))
