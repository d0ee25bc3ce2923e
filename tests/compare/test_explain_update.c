/* Explanations of updates and metrics: the optimizer repeated with one thing done wrongly. */
#include "explain_rig.h"

enum clipped { BY_ALL, BY_NONE, BY_STAGE, BY_STAGE_AND_ENDS, BY_LAYERS };

/* AdamW in double on the rig's numbers, with things done wrongly. */
enum decay_how { RATE, RATE_TWICE, ALONE };
struct update_row {
  const char *id, *text;
  int rate_off, count_off;
  double more_decay, scale; /* of the whole update; 0: 1 */
  bool uncorrected1, uncorrected2;
  enum decay_how how;
  double beta[4]; /* of both moments and of their corrections; 0: the right one */
  double clip;    /* 0: none */
  enum clipped by;
  bool first;     /* step 0, before which nothing is kept; else step 1 */
  bool odd;       /* the last two elements are wrong besides, which leaves the best factor as it is */
};
static const struct update_row update_rows[] = {
    {"lr-of-step", "learning rate of the next step", .rate_off = 1},
    {"lr-of-step", "learning rate of the next step", .rate_off = 1, .first = true},
    {"none", "no explanation found", .rate_off = 1, .odd = true},
    {"lr-of-step", "learning rate of the step before", .rate_off = -1},
    {"bias-correction", "without the bias correction of both moments", .uncorrected1 = true, .uncorrected2 = true},
    {"bias-correction", "bias correction of the first moment", .uncorrected1 = true},
    {"bias-correction", "bias correction of the second moment", .uncorrected2 = true},
    {"bias-correction", "bias correction of the next step's count", .count_off = 1},
    {"bias-correction", "bias correction of the count before", .count_off = -1},
    {"weight-decay", "without weight decay", .more_decay = -0.1},
    {"weight-decay", "weight decay multiplied by the learning rate twice", .how = RATE_TWICE},
    {"weight-decay", "weight decay that is not multiplied by the learning rate", .how = ALONE},
    {"betas", "with beta1 in place of beta2;", .beta = {0.9, 0.9, 0.9, 0.9}},
    {"betas", "with beta2 in place of beta1;", .beta = {0.95, 0.95, 0.95, 0.95}},
    {"betas", "with beta1 and beta2 in each other's place", .beta = {0.95, 0.9, 0.95, 0.9}},
    {"betas", "beta1 in place of beta2 in the second moment, but not", .beta = {0, 0.9, 0, 0}},
    {"betas", "beta2 in place of beta1 in the first moment, but not", .beta = {0.95, 0, 0, 0}},
    {"betas", "beta1 in place of beta2 in the bias correction alone", .beta = {0, 0, 0, 0.9}},
    {"betas", "beta2 in place of beta1 in the bias correction alone", .beta = {0, 0, 0.95, 0}},
    {"constant-factor", "by the right update times 1.7, as 1 of the 1 parameters of step 1", .scale = 1.7},
    {"constant-factor", "by the right update times 2 (= S = 2), as", .scale = 2},
    {"constant-factor", "by the right update times -1, as 1 of the 1 parameters", .scale = -1},
    {"none", "no explanation found", .scale = 1.7, .odd = true},
    {"not-clipped", "gradients that are not clipped", .clip = 0.5, .by = BY_NONE},
    {"per-stage-clip", "norm of their own stage", .clip = 0.5, .by = BY_STAGE},
    {"per-stage-clip", "norm of their own stage", .clip = 0.5, .by = BY_STAGE_AND_ENDS},
    {"none", "no explanation found", .clip = 0.5, .by = BY_LAYERS}, /* of one stage alone */
    {"none", "no explanation found", .more_decay = 0.07},
};
static const struct update_row right = {.id = ""};

static double or(double wrong, double meant) { return wrong > 0 ? wrong : meant; }

static float updated(double before, const double g[2], const struct update_row *row, int step) {
  const double b1 = or(row->beta[0], 0.9), b2 = or(row->beta[1], 0.95);
  double mu = 0, nu = 0, scale = row->scale != 0 ? row->scale : 1;
  for (int s = 0; s <= step; s++) {
    mu = b1 * mu + (1 - b1) * g[s];
    nu = b2 * nu + (1 - b2) * g[s] * g[s];
  }
  int k = step + 1 + row->count_off;
  double c1 = row->uncorrected1 ? 1 : 1 - pow(or(row->beta[2], 0.9), k);
  double c2 = row->uncorrected2 ? 1 : 1 - pow(or(row->beta[3], 0.95), k);
  double lr = rate(NULL, step + row->rate_off), decay = (0.1 + row->more_decay) * before;
  if (row->how == RATE_TWICE) decay *= lr;
  if (row->how == ALONE) decay /= lr;
  return (float)(before - scale * lr * (mu / c1 / (sqrt(nu / c2) + 1e-8) + decay));
}

/* Gradients of layers 1 and 2, which are of stages 0 and 1, and of the embedding, which is of stage 0; the first of
 * the two steps has the smaller ones. */
enum { GRADIENTS = 3 };
static struct ab_identity gradient_of(int step, int which) {
  return which < 2 ? identity(step, 1 + which, leaf, AB_BACKWARD)
                   : identity(step, -1, "token_embedder/embedding", AB_BACKWARD);
}

static double factor_of(const struct update_row *row, enum clipped by, int own, const double squares[GRADIENTS]) {
  static const bool together[GRADIENTS][GRADIENTS] = {{true, false, true}, {false, true, false}, {true, false, true}};
  double sum = 0;
  for (int i = 0; i < GRADIENTS; i++)
    if (by == BY_ALL || (by == BY_LAYERS ? i < 2 : by == BY_STAGE ? i == own : together[own][i])) sum += squares[i];
  return by == BY_NONE || row->clip == 0 ? 1 : row->clip / sqrt(sum);
}

START_TEST(a_wrong_update_is_named) {
  const struct update_row *row = &update_rows[_i];
  int count = row->by >= BY_STAGE_AND_ENDS ? GRADIENTS : 2, own = row->by == BY_STAGE_AND_ENDS ? 2 : 0;
  int last = !row->first;
  struct rig rig;
  float *g[2], *p[2], *got;
  double meant[2], wrong[2];
  rig_new(&rig);
  rig.question.layers_per_stage = 2;
  if (row->by == BY_LAYERS) rig.question.stages = 1;
  rig.question.update.clip = row->clip;
  struct ab_identity id = gradient_of(last, own);
  id.phase = AB_UPDATE;
  for (int s = 0; s <= last; s++) {
    double squares[GRADIENTS] = {0};
    for (int k = 0; k < count; k++) {
      float *x = put(&rig, 1, gradient_of(s, k), 30 + (uint32_t)(2 * k + s));
      for (int i = 0; i < COUNT; i++) x[i] *= (float)(1 + s), squares[k] += (double)x[i] * (double)x[i];
      if (k == own) g[s] = x;
    }
    meant[s] = factor_of(row, BY_ALL, own, squares);
    wrong[s] = factor_of(row, row->by, own, squares);
    id.step = s;
    p[s] = put(&rig, 1, id, 33);
  }
  got = put(&rig, 0, id, 33);
  for (int i = 0; i < COUNT; i++) {
    double before = (double)p[0][i], all[2], other[2];
    for (int s = 0; s <= last; s++) all[s] = meant[s] * (double)g[s][i], other[s] = wrong[s] * (double)g[s][i];
    p[last][i] = updated(before, all, &right, last);
    got[i] = updated(before, other, row, last);
  }
  if (row->odd) {
    got[COUNT - 2] += 0.1f * (p[1][COUNT - 1] - p[0][COUNT - 1]);
    got[COUNT - 1] -= 0.1f * (p[1][COUNT - 2] - p[0][COUNT - 2]);
  }
  for (int s = 0; s <= last; s++) {
    id.step = s;
    side_observe(&rig.side[1], &id);
  }
  for (int s = 0; s <= last; s++)
    for (int k = 0; k < count; k++) {
      struct ab_identity of = gradient_of(s, k);
      side_observe(&rig.side[1], &of);
    }
  side_observe(&rig.side[0], &id);
  ask(&rig, id);
  expect(&rig, row->id, row->text);
  ck_assert_uint_eq(rig.list.lines, 1);
  rig_free(&rig);
}
END_TEST

/* Two parameters of a step, of which one alone is updated so, or both, and one that the wrong side lacks; at step 0,
 * too, before which nothing is kept. */
START_TEST(a_factor_is_held_to_every_parameter) {
  const struct update_row scaled = {.scale = 1.3};
  int step = _i / 2, both = _i % 2;
  char text[128];
  struct rig rig;
  rig_new(&rig);
  for (int layer = 0; layer < 2; layer++) {
    float *g[2], *p[2];
    for (int s = 0; s < 2; s++) {
      g[s] = put(&rig, 1, identity(s, layer, leaf, AB_BACKWARD), 30 + (uint32_t)(2 * layer + s));
      p[s] = put(&rig, 1, identity(s, layer, leaf, AB_UPDATE), 33 + (uint32_t)layer);
    }
    float *got = put(&rig, 0, identity(step, layer, leaf, AB_UPDATE), 33);
    for (int i = 0; i < COUNT; i++) {
      double before = (double)p[0][i], all[2] = {(double)g[0][i], (double)g[1][i]};
      p[step][i] = updated(before, all, &right, step);
      got[i] = updated(before, all, both || !layer ? &scaled : &right, step);
    }
    for (int s = 0; s <= step; s++)
      for (int phase = AB_BACKWARD; phase <= AB_UPDATE; phase++) {
        struct ab_identity id = identity(s, layer, leaf, (enum ab_phase)phase);
        side_observe(&rig.side[1], &id);
      }
    struct ab_identity id = identity(step, layer, leaf, AB_UPDATE);
    side_observe(&rig.side[0], &id);
  }
  struct ab_identity lacking = identity(step, 2, leaf, AB_UPDATE);
  put(&rig, 1, lacking, 44);
  side_observe(&rig.side[1], &lacking);
  ask(&rig, identity(step, 0, leaf, AB_UPDATE));
  snprintf(text, sizeof text, "times 1.3, as %d of the 3 parameters of step %d are", 1 + both, step);
  expect(&rig, "constant-factor", text);
  ck_assert_uint_eq(rig.list.lines, 1);
  rig_free(&rig);
}
END_TEST

/* Moments of which norms are left; the parameter of step 0 does not show which beta they were kept with. */
static const struct {
  const char *moment, *text;
  double wrong; /* what the moment is, by the gradient or its square */
} beta_rows[] = {
    {"mu", "its first moment is kept with beta2 in place of beta1", 0.05},
    {"nu", "its second moment is kept with beta1 in place of beta2", 0.1},
    {"nu", NULL, 0.07},
};

START_TEST(a_wrong_beta_is_named_by_its_moment) {
  bool second = beta_rows[_i].moment[0] == 'n';
  char name[64];
  struct rig rig;
  rig_new(&rig);
  rig.question.stages = 1;
  snprintf(name, sizeof name, "%s/%s", beta_rows[_i].moment, leaf);
  struct ab_identity id = identity(0, 1, name, AB_UPDATE), at = gradient(1);
  const float *g = put(&rig, 1, at, 30);
  float *truth = put(&rig, 1, id, 1), *wrong = put(&rig, 0, id, 1);
  for (int i = 0; i < COUNT; i++) {
    double x = second ? (double)g[i] * (double)g[i] : (double)g[i];
    truth[i] = (float)((second ? 1 - 0.95 : 1 - 0.9) * x);
    wrong[i] = (float)(beta_rows[_i].wrong * x);
  }
  side_observe(&rig.side[1], &at);
  for (int side = 0; side < 2; side++) side_observe(&rig.side[side], &id);
  ask(&rig, id);
  if (beta_rows[_i].text) expect(&rig, "betas", beta_rows[_i].text);
  else ck_assert(!says(&rig, "betas", ""));
  rig_free(&rig);
}
END_TEST

/* Adam hides the clip in the parameter; the first moment, of which norms are left, does not. */
static const struct {
  const char *id, *text;
  double factor; /* of the gradient of layer 1, which is stage 1; 0: as its stage clips it */
  float size;    /* of the gradients */
  bool ends;     /* there is one stage, and a gradient outside of the layers, which `factor` 0 leaves out */
} clip_rows[] = {
    {"not-clipped", "its first moment is that of gradients that are not clipped", 1, 1, false},
    {"not-clipped", "its first moment is that of gradients that are not clipped", 1, -1, false},
    {"per-stage-clip", "its first moment is that of gradients clipped by the norm of their own stage", 0, 1, false},
    {"none", "no explanation found", 0.7, 1, false},
    {"none", "no explanation found", 0.7, 1e-3f, false},
    {"none", "no explanation found", 0, 1, true},
    {"not-clipped", "its first moment is that of gradients that are not clipped", 1, 1, true},
};

START_TEST(a_wrong_clip_is_named_by_the_first_moment) {
  struct rig rig;
  double squares[2] = {0, 0};
  rig_new(&rig);
  rig.question.update.clip = fabs((double)clip_rows[_i].size);
  float *g[2], *mu = put(&rig, 1, identity(0, 1, "mu/mlp/wo/kernel", AB_UPDATE), 1);
  float *wrong = put(&rig, 0, identity(0, 1, "mu/mlp/wo/kernel", AB_UPDATE), 1);
  for (int layer = 0; layer < 2; layer++) {
    g[layer] = put(&rig, 1, gradient(layer), 30 + (uint32_t)layer);
    for (int i = 0; i < COUNT; i++) {
      g[layer][i] *= clip_rows[_i].size;
      squares[layer] += (double)g[layer][i] * (double)g[layer][i];
    }
  }
  double most = rig.question.update.clip, own = clip_rows[_i].factor, end = 0;
  struct ab_identity outside = identity(0, -1, "token_embedder/embedding", AB_BACKWARD);
  const float *embedding = put(&rig, 1, outside, 40);
  for (int i = 0; i < COUNT && clip_rows[_i].ends; i++) end += (double)embedding[i] * (double)embedding[i];
  if (clip_rows[_i].ends) side_observe(&rig.side[1], &outside);
  if (clip_rows[_i].ends) rig.question.stages = 1;
  double all = most / sqrt(squares[0] + squares[1] + end);
  if (own == 0) own = most / sqrt(clip_rows[_i].ends ? squares[0] + squares[1] : squares[1]);
  for (int i = 0; i < COUNT; i++) {
    mu[i] = (float)(0.1 * all * (double)g[1][i]);
    wrong[i] = (float)(0.1 * own * (double)g[1][i]);
  }
  struct ab_identity id = identity(0, 1, "mu/mlp/wo/kernel", AB_UPDATE), parameter = identity(0, 1, leaf, AB_UPDATE);
  put(&rig, 1, parameter, 90);
  put(&rig, 0, parameter, 90)[0] += 1e-3f;
  for (int layer = 0; layer < 2; layer++) side_observe(&rig.side[1], &(struct ab_identity){.microbatch = -1,
                                                       .layer = layer, .phase = AB_BACKWARD, .tensor = "mlp/wo/kernel"});
  for (int i = 0; i < 2; i++) {
    side_observe(&rig.side[i], &id);
    side_observe(&rig.side[i], &parameter);
  }
  ask(&rig, parameter);
  expect(&rig, clip_rows[_i].id, clip_rows[_i].text);
  ck_assert_uint_eq(rig.list.lines, 1);
  rig_free(&rig);
}
END_TEST

/* The embedding counts to stage 0, which has layer 0 too; what else is outside to the last. */
START_TEST(the_ends_belong_to_their_stages) {
  static const char *const ends[] = {"token_embedder/embedding", "decoder/logits_dense/kernel"};
  struct rig rig;
  double squares[2] = {0, 0}, all;
  rig_new(&rig);
  rig.question.update.clip = 1;
  rig.question.update.adam = false;
  for (int i = 0; i < 4; i++) { /* layers 0 and 1, then the ends, of stages 0 and 1 each */
    struct ab_identity id = i < 2 ? gradient(i) : identity(0, -1, ends[i - 2], AB_BACKWARD);
    const float *g = put(&rig, 1, id, 30 + (uint32_t)i);
    for (int k = 0; k < COUNT; k++) squares[i % 2] += (double)g[k] * (double)g[k];
    side_observe(&rig.side[1], &id);
  }
  all = sqrt(squares[0] + squares[1]);
  struct ab_identity id = identity(0, -1, ends[_i], AB_UPDATE);
  float *truth = put(&rig, 1, id, 90), *got = put(&rig, 0, id, 90);
  for (int k = 0; k < COUNT; k++) {
    double step = rate(NULL, 0) * (double)noise(32 + (uint32_t)_i, k), before = (double)truth[k];
    truth[k] = (float)(before - step / all);
    got[k] = (float)(before - step / sqrt(squares[_i]));
  }
  for (int side = 0; side < 2; side++) side_observe(&rig.side[side], &id);
  ask(&rig, id);
  expect(&rig, "per-stage-clip", "clipped by the norm of their own stage");
  ck_assert_uint_eq(rig.list.lines, 1);
  rig_free(&rig);
}
END_TEST

/* Metrics: name, wrong value, right value, raw norm of both, and the threshold. */
static const struct {
  const char *id, *text, *name;
  float got, truth, raw;
  double clip;
} metric_rows[] = {
    {"constant-factor", "times 0.25 (= 1/M)", "loss", 1.5f, 6, 5, 1},
    {"not-clipped", "is the norm before clipping, 5; expected 1", "grad_norm", 5, 1, 5, 1},
    {"not-clipped", "is the norm before clipping, 5; expected 2", "grad_norm", 5, 2, 5, 2},
    {"none", "no explanation found; tried: lr-of-step, not-clipped, constant-factor", "grad_norm", 4.9f, 1, 5, 1},
    {"none", "no explanation found", "grad_norm", 1.5f, 1.1f, 1.5f, 2},
    {"none", "no explanation found; tried: lr-of-step, not-clipped, constant-factor", "loss", 6.1f, 6, 5, 1},
};

START_TEST(a_wrong_metric_is_named) {
  struct rig rig;
  rig_new(&rig);
  rig.question.update.clip = metric_rows[_i].clip;
  side_metric(&rig.side[0], 0, "raw_grad_norm", metric_rows[_i].raw);
  side_metric(&rig.side[0], 0, metric_rows[_i].name, metric_rows[_i].got);
  side_metric(&rig.side[1], 0, metric_rows[_i].name, metric_rows[_i].truth);
  struct ab_metric metric = {.step = 0};
  snprintf(metric.name, sizeof metric.name, "%s", metric_rows[_i].name);
  rig.finding = (struct ab_finding){.metric = true, .id = ab_metric_identity(&metric)};
  ck_ok(ab_explain(&rig.list, &rig.question, &rig.finding));
  expect(&rig, metric_rows[_i].id, metric_rows[_i].text);
  rig_free(&rig);
}
END_TEST

START_TEST(a_learning_rate_of_another_step_is_named) {
  struct rig rig;
  rig_new(&rig);
  static const int steps[] = {2, 9, 0};
  static const char *const texts[] = {"is the learning rate of step 2, 0.03; expected that of step 1, 0.02",
                                      "is the learning rate of step 9, 0.1; expected that of step 1, 0.02",
                                      "is the learning rate of step 0, 0.01; expected that of step 1, 0.02"};
  struct ab_metric metric = {.step = 1, .name = "lr", .value = rate(NULL, steps[_i])};
  ck_ok(ab_recording_add_metric(rig.side[0].recording, &metric));
  metric.value = rate(NULL, 1);
  ck_ok(ab_recording_add_metric(rig.side[1].recording, &metric));
  rig.finding = (struct ab_finding){.metric = true, .id = ab_metric_identity(&metric)};
  ck_ok(ab_explain(&rig.list, &rig.question, &rig.finding));
  expect(&rig, "lr-of-step", texts[_i]);
  rig_free(&rig);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("explain_update");
  TCase *tc = tcase_create("explain_update");
  tcase_add_loop_test(tc, a_wrong_update_is_named, 0, LENGTH(update_rows));
  tcase_add_loop_test(tc, a_factor_is_held_to_every_parameter, 0, 4);
  tcase_add_loop_test(tc, a_wrong_beta_is_named_by_its_moment, 0, LENGTH(beta_rows));
  tcase_add_loop_test(tc, a_wrong_clip_is_named_by_the_first_moment, 0, LENGTH(clip_rows));
  tcase_add_loop_test(tc, a_wrong_metric_is_named, 0, LENGTH(metric_rows));
  tcase_add_loop_test(tc, a_learning_rate_of_another_step_is_named, 0, 3);
  tcase_add_loop_test(tc, the_ends_belong_to_their_stages, 0, 2);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
