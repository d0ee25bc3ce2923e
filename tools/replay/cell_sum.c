#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cell_judge.h"
#include "mem.h"
#include "tiers.h"

enum { TWICE = 2, CANDIDATE_KINDS = 3 };

/* The gradient of every part alone, in float64 so that sums of them are exact enough to tell parts apart, and the
 * reference's own sum in its arithmetic. */
struct terms {
  const struct ab_cell_judging *j;
  int param;        /* the one that is wrong */
  size_t count;
  double *term;     /* [parts, count] */
  float *f32;       /* [count] the sum as the reference makes it, the last part first */
};

static ab_status run_part(const struct terms *t, const struct ab_kernels *k, int part, void *sum) {
  const struct ab_cell_judging *j = t->j;
  struct ab_cell_order order = ab_cell_own(j, AB_ARTIFACT_REFERENCE, part);
  struct ab_cell_result result;
  struct ab_layer_dims dims = ab_layer_dims_of(j->a->config, 1);
  void *dparam[AB_MAX_PARAMS] = {0};
  ab_status status = AB_OK;
  order.kernels = k;
  order.dparam = dparam;
  for (int p = 0; p < j->block->param_count && status == AB_OK; p++)
    if (p != t->param) status = ab_mem_new(&dparam[p], ab_param_count(&j->block->param[p], &dims), k->element);
  dparam[t->param] = sum;
  if (status == AB_OK) status = ab_cell_run(&result, &order);
  dparam[t->param] = NULL;
  for (int p = 0; p < j->block->param_count; p++) ab_mem_free(dparam[p]);
  return status;
}

static ab_status make_terms(struct terms *t) {
  size_t parts = (size_t)t->j->a->parts;
  AB_TRY(ab_mem_new(&t->term, parts * t->count, sizeof *t->term));
  AB_TRY(ab_mem_new(&t->f32, t->count, sizeof *t->f32));
  for (size_t m = parts; m-- > 0;) {
    AB_TRY(run_part(t, t->j->f64, (int)m, t->term + m * t->count));
    AB_TRY(run_part(t, t->j->f32, (int)m, t->f32));
  }
  return AB_OK;
}

/* Relative L2 of a recorded gradient to the sum of the parts, each `usual` times but one; infinite for what is no
 * number. */
static double apart(struct terms *t, const struct ab_tensor *got, double usual, int odd, double times) {
  const float *value = got->data;
  double rest = 0, whole = 0;
  for (size_t i = 0; i < t->count; i++) {
    double sum = 0;
    for (int m = 0; m < t->j->a->parts; m++) sum += (m == odd ? times : usual) * t->term[(size_t)m * t->count + i];
    rest += (value[i] - sum) * (value[i] - sum);
    whole += sum * sum;
  }
  if (rest == 0) return 0;
  return whole > 0 && rest < INFINITY ? sqrt(rest / whole) : INFINITY;
}

/* Which sum it is instead. */
static void find_sum(char text[160], struct terms *t, const struct ab_tensor *got, double limit) {
  static const struct {
    const char *what;
    double usual, times;
  } kind[CANDIDATE_KINDS] = {{"the sum without microbatch %d", 1, 0}, {"the sum with microbatch %d twice", 1, TWICE},
                             {"microbatch %d alone", 0, 1}};
  text[0] = '\0';
  for (int k = 0; k < CANDIDATE_KINDS && t->j->a->parts > 1; k++)
    for (int m = 0; m < t->j->a->parts && !text[0]; m++) {
      if (!(apart(t, got, kind[k].usual, m, kind[k].times) <= limit)) continue;
      const char *rest = strchr(kind[k].what, '%');
      snprintf(text, 160, "%.*s%d%s", (int)(rest - kind[k].what), kind[k].what, m, rest + 2);
    }
}

static bool same_bits(const struct terms *t, const struct ab_tensor *got) {
  return memcmp(got->data, t->f32, t->count * sizeof *t->f32) == 0;
}

static ab_status take_gradient(const struct ab_tensor **out, const struct terms *t, int side) {
  *out = ab_artifact_gradient(t->j->a, side, t->j->a->at.tensor);
  if (*out && (*out)->dtype == AB_F32 && (*out)->count == t->count) return AB_OK;
  return AB_FAIL(AB_EFORMAT, "the artifact has no '%s/gradient/%s' of %zu F32 elements", ab_artifact_keys[side],
                 t->j->a->at.tensor, t->count);
}

static ab_status judge(struct ab_cell_judging *j, struct terms *t) {
  const struct ab_artifact *a = j->a;
  const struct ab_tensor *wrong, *right;
  char place[160], fed[160];
  AB_TRY(take_gradient(&wrong, t, a->wrong));
  AB_TRY(take_gradient(&right, t, AB_ARTIFACT_REFERENCE));
  AB_TRY(make_terms(t));
  double own = apart(t, right, 1, -1, 1), off = apart(t, wrong, 1, -1, 1);
  double limit = ab_tier_bound(AB_PAIR_MIXED, AB_Q_WEIGHT_GRADIENT, -1, own).limit;
  bool bitwise = same_bits(t, right), differs = bitwise ? !same_bits(t, wrong) : !(off <= limit);
  ab_cell_place(place, a);
  snprintf(j->out->side, sizeof j->out->side, "%s", a->name[a->wrong]);
  j->differs = differs;
  if (!differs) {
    ab_replayed_say(j->out, "replay: sum (%s): %s of %s is the sum over %d microbatches", place, a->at.tensor,
                    a->name[a->wrong], a->parts);
    return AB_OK;
  }
  find_sum(fed, t, wrong, limit);
  snprintf(j->out->fed, sizeof j->out->fed, "%s", fed);
  snprintf(j->out->operator, sizeof j->out->operator, "accumulation");
  ab_replayed_say(j->out, "replay: sum (%s): given agreed cotangents %s of %s is not their sum over %d microbatches"
                  "%s%s", place, a->at.tensor, a->name[a->wrong], a->parts, fed[0] ? ": it is " : "", fed);
  ab_replayed_say(j->out, "replay: against the float64 sum: %s is off by %.2g, %s by %.2g%s", a->name[a->wrong], off,
                  a->name[AB_ARTIFACT_REFERENCE], own, bitwise ? ", which comes out bit for bit" : "");
  return AB_OK;
}

ab_status ab_cell_judge_sum(struct ab_cell_judging *j) {
  struct ab_layer_dims dims = ab_layer_dims_of(j->a->config, 1);
  struct terms t = {.j = j, .param = -1};
  for (int p = 0; p < j->block->param_count; p++)
    if (strcmp(j->block->param[p].name, j->a->at.tensor) == 0) t.param = p;
  if (t.param < 0)
    return AB_FAIL(AB_EFORMAT, "artifact.json: 'tensor' is '%.80s', no parameter of a layer of block %s",
                   j->a->at.tensor, j->block->name);
  t.count = ab_param_count(&j->block->param[t.param], &dims);
  ab_status status = judge(j, &t);
  ab_mem_free(t.term);
  ab_mem_free(t.f32);
  return status;
}
