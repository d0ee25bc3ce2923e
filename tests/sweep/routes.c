#include "routes.h"

#include <stdio.h>
#include <string.h>

#include "expectation.h"
#include "m61.h"
#include "mem.h"

static ab_status keep(struct sweep_side *side, const void *values) {
  size_t row = side->recording->observations - 1;
  const struct ab_observation *o = &side->recording->observation[row].observation;
  size_t count = (size_t)o->summary.count, element = ab_dtype_size(o->dtype);
  if (row >= side->rows) {
    AB_TRY(ab_mem_resize(&side->offset, 2 * row + 64, sizeof *side->offset));
    side->rows = 2 * row + 64;
  }
  if (side->used + count * element > side->room) {
    size_t room = 2 * (side->used + count * element);
    AB_TRY(ab_mem_resize(&side->bytes, room, 1));
    side->room = room;
  }
  memcpy(side->bytes + side->used, values, count * element);
  side->offset[row] = side->used + 1;
  side->used += (count * element + 7) / 8 * 8;
  return AB_OK;
}

static ab_status observe(void *ctx, const struct ab_observation *observation, const void *values) {
  struct sweep_side *side = ctx;
  size_t before = side->recording->observations;
  AB_TRY(ab_recording_observe(side->recording, observation));
  return values && side->recording->observations > before ? keep(side, values) : AB_OK;
}

static ab_status count(void *ctx, const char *name, const struct ab_identity *id, const struct ab_where *at,
                       int64_t amount) {
  const struct sweep_side *side = ctx;
  struct ab_counter counter = {.id = *id, .at = *at, .amount = amount};
  snprintf(counter.id.tensor, sizeof counter.id.tensor, "%s", name);
  return ab_recording_add_counter(side->recording, &counter);
}

static ab_status metric(void *ctx, int step, const char *name, double value) {
  const struct sweep_side *side = ctx;
  struct ab_metric row = {.step = step, .value = value};
  snprintf(row.name, sizeof row.name, "%s", name);
  return ab_recording_add_metric(side->recording, &row);
}

static const struct ab_probe_ops probe = {.observe = observe, .count = count};

ab_status sweep_run(struct sweep_side *out, const struct sweep_case *c, const char *name, enum ab_numerics numerics,
                    enum ab_level level, const struct sweep_hooks *hooks) {
  const struct ab_route *route;
  struct ab_run_plan plan;
  *out = (struct sweep_side){0};
  AB_TRY(ab_route_find(&route, name));
  AB_TRY(ab_recording_new(&out->recording, name));
  struct ab_run run = {.route = route,
                       .kernels = hooks && hooks->kernels ? hooks->kernels : ab_route_kernels(route, numerics),
                       .config = c->opened.config,
                       .bundle = c->opened.bundle,
                       .steps = 1,
                       .cotangent_parts = hooks ? hooks->cotangent_parts : 0,
                       .mesh = hooks ? hooks->mesh : NULL,
                       .level = level,
                       .probe = &probe,
                       .probe_ctx = out,
                       .metric = metric,
                       .metric_ctx = out};
  AB_TRY(ab_run_plan(&plan, &run));
  AB_TRY(ab_run_steps(&run, &plan));
  ab_recording_complete(out->recording);
  if (route->family != AB_FAMILY_SEQUENTIAL) AB_TRY(ab_check_remat(out->recording, &c->opened, route));
  return AB_OK;
}

void sweep_side_free(struct sweep_side *side) {
  ab_mem_free(side->bytes);
  ab_mem_free(side->offset);
  ab_recording_free(side->recording);
  *side = (struct sweep_side){0};
}

bool sweep_value(struct ab_view *out, const struct sweep_side *side, const struct ab_identity *id) {
  const struct ab_recorded *recorded = ab_recording_find(side->recording, id);
  size_t row = recorded ? (size_t)(recorded - side->recording->observation) : side->rows;
  if (row >= side->rows || !side->offset[row]) return false;
  *out = (struct ab_view){.dtype = recorded->observation.dtype, .shape = recorded->observation.shape,
                          .data = side->bytes + side->offset[row] - 1};
  ab_view_contiguous(out);
  return true;
}

struct both {
  const struct sweep_side *side[2];
};

static ab_status values(void *ctx, int side, const struct ab_observation *observation, struct ab_view *out) {
  const struct both *both = ctx;
  return sweep_value(out, both->side[side], &observation->id) ? AB_OK : AB_FAIL(AB_ENOTFOUND, "not kept");
}

static void describe(char sentence[SWEEP_SENTENCE], const struct ab_verdict *v) {
  char text[AB_IDENTITY_TEXT];
  sentence[0] = '\0';
  if (v->exit == AB_EXIT_EQUAL) return;
  size_t used = (size_t)snprintf(sentence, SWEEP_SENTENCE,
                                 "%s against %s: exit %d, %zu of %zu tensors, %zu failing, %zu changed", v->name_a,
                                 v->name_b, v->exit, v->tensors.compared, v->tensors.expected, v->failing, v->changed);
  if (!v->failing) return;
  ab_identity_print(text, &v->first.id);
  snprintf(sentence + used, SWEEP_SENTENCE - used, "; first %s, %g against a bound of %g", text, v->first.distance,
           v->first.bound.limit);
}

/* The circular engines recompute their windows whatever the flag for iterations says; the oracle has no windows. */
static unsigned judged(const struct sweep_case *c, const struct sweep_side *b, enum ab_pair pair) {
  const struct ab_config *config = c->opened.config;
  bool windows = config->pipeline_fsdp_ag_per_repeat && !config->set_remat_policy_on_pipeline_iterations;
  if (pair == AB_PAIR_F64)
    return 1u << AB_Q_METRIC | 1u << AB_Q_OUTPUT | 1u << AB_Q_INPUT_GRADIENT | 1u << AB_Q_WEIGHT_GRADIENT;
  return windows && strncmp(b->recording->name, "sequential", 10) == 0 ? AB_Q_ALL & ~(1u << AB_Q_RECOMPUTE) : AB_Q_ALL;
}

ab_status sweep_compare(char sentence[SWEEP_SENTENCE], const struct sweep_case *c, const struct sweep_side *a,
                        const struct sweep_side *b, enum ab_pair pair) {
  struct both both = {{a, b}};
  struct ab_verdict verdict;
  struct ab_comparison comparison = {.a = a->recording, .b = b->recording, .pair = pair,
                                     .quantities = judged(c, b, pair),
                                     .values = a->bytes && b->bytes ? values : NULL, .values_ctx = &both};
  AB_TRY(ab_expect_sides(&comparison.expected, &c->opened));
  bool exact = a->recording->observations && a->recording->observation[0].observation.dtype == AB_M61;
  if (exact) ab_expect_exact(&comparison.expected, &c->opened);
  for (int q = 0; q < AB_QUANTITIES; q++) {
    bool activations = q == AB_Q_ACTIVATION || q == AB_Q_PARAMETER;
    if (pair == AB_PAIR_SAME || !activations) continue;
    comparison.expected.tensors[q] = comparison.expected.elements[q] = AB_UNCOUNTED;
  }
  AB_TRY(ab_verdict(&verdict, &comparison));
  describe(sentence, &verdict);
  ab_verdict_free(&verdict);
  return AB_OK;
}

/* The first element of a that is not the integer of b's residue; count if there is none. */
static size_t first_difference(const struct ab_view *a, const struct ab_view *b) {
  const float *x = a->data;
  const uint64_t *residue = b->data;
  size_t count = ab_view_count(b);
  for (size_t i = 0; i < count; i++)
    if ((double)x[i] != (double)ab_m61_integer(residue[i])) return i;
  return count;
}

static size_t computed_once(const struct sweep_side *side) {
  size_t n = 0;
  for (size_t row = 0; row < side->recording->observations; row++)
    n += ab_quantity_of(&side->recording->observation[row].observation.id) != AB_Q_RECOMPUTE;
  return n;
}

ab_status sweep_compare_integers(char sentence[SWEEP_SENTENCE], const struct sweep_side *a,
                                 const struct sweep_side *b) {
  char text[AB_IDENTITY_TEXT];
  sentence[0] = '\0';
  for (size_t row = 0; row < b->recording->observations; row++) {
    const struct ab_observation *o = &b->recording->observation[row].observation;
    struct ab_view va, vb;
    if (o->dtype != AB_M61 || !strcmp(o->id.tensor, "loss")) continue; /* floating point on both sides */
    ab_identity_print(text, &o->id);
    if (!sweep_value(&vb, b, &o->id) || !sweep_value(&va, a, &o->id) || !ab_shape_equal(&va.shape, &vb.shape))
      return AB_FAIL(AB_EMISMATCH, "%s is not on both sides", text);
    size_t at = first_difference(&va, &vb);
    if (at == ab_view_count(&vb)) continue;
    snprintf(sentence, SWEEP_SENTENCE, "%s against %s: %s, element %zu is %.9g, expected the integer %lld",
             a->recording->name, b->recording->name, text, at, (double)((const float *)va.data)[at],
             (long long)ab_m61_integer(((const uint64_t *)vb.data)[at]));
    return AB_OK;
  }
  if (computed_once(a) + 1 == computed_once(b)) return AB_OK;
  return AB_FAIL(AB_EMISMATCH, "%s has %zu tensors, %s has %zu with the loss", a->recording->name, computed_once(a),
                 b->recording->name, computed_once(b));
}
