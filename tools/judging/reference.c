#include "reference.h"

#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "upstream.h"

/* What one side produced, as a recording. */
struct judged {
  struct ab_recording *run;
  struct ab_produced produced;
};

enum { JUDGED_MAX = 4 };

struct ab_reference {
  const struct ab_case *opened;
  struct ab_results results;
  bool as_meant; /* the results are those of the layers one after another */
  struct ab_bounds bounds;
  struct ab_recording *truth;
  struct judged judged[JUDGED_MAX]; /* the last one is being judged */
  size_t count;
};

/* A tree of results, and under which identity its leaves are recorded. */
struct shelf {
  const struct ab_tree *tree;
  int step;
  enum ab_phase phase;
  enum ab_bounded bounded;
  const char *prefix; /* keeps two trees of one phase apart */
};

enum { SHELVES = 4 };

static void shelves(struct shelf out[SHELVES], const struct ab_reference *r, const struct ab_produced *p) {
  const struct ab_results *e = &r->results;
  bool whole = r->opened->steps == (int64_t)e->steps;
  int last = (int)r->opened->steps - 1;
  const struct shelf rows[SHELVES] = {
      {p ? p->grads : e->grads, 0, AB_BACKWARD, AB_BOUND_GRADIENT, "grads/"},
      {p ? p->outputs : e->outputs, 0, AB_FORWARD, AB_BOUND_OUTPUT, "outputs/"},
      {p ? p->params_step1 : e->params_step1, 0, AB_UPDATE, AB_BOUND_PARAMETER, "params_step1/"},
      {p ? p->params_final : e->params_final, last, AB_UPDATE, AB_BOUND_PARAMETER, "params_final/"}};
  const struct ab_tree *held[SHELVES] = {e->grads, e->outputs, e->params_step1, whole ? e->params_final : NULL};
  memcpy(out, rows, sizeof rows);
  for (int i = 0; i < SHELVES; i++)
    if (!held[i]) out[i].tree = NULL;
}

static struct ab_identity identity_of(const struct shelf *shelf, const struct ab_tensor *tensor) {
  struct ab_identity id = {.step = shelf->step, .microbatch = -1, .layer = -1, .phase = shelf->phase};
  snprintf(id.tensor, sizeof id.tensor, "%s%s", shelf->prefix, tensor->name);
  return id;
}

static ab_status record_shelf(struct ab_recording *recording, const struct shelf *shelf) {
  for (size_t i = 0; shelf->tree && i < ab_tree_size(shelf->tree); i++) {
    const struct ab_tensor *tensor = ab_tree_at(shelf->tree, i);
    struct ab_view view = ab_view_of(tensor);
    struct ab_observation o = {.id = identity_of(shelf, tensor), .dtype = tensor->dtype, .shape = tensor->shape};
    o.at = (struct ab_where){-1, -1, -1, false};
    ab_summarize(&o.summary, &view);
    AB_TRY(ab_recording_observe(recording, &o));
  }
  return AB_OK;
}

static ab_status add_metric(struct ab_recording *recording, int step, const char *name, double value) {
  struct ab_metric metric = {.step = step, .value = value, .f32 = true};
  snprintf(metric.name, sizeof metric.name, "%s", name);
  return ab_recording_add_metric(recording, &metric);
}

/* The metrics that the file states; what it does not state is not compared. */
static ab_status record_metrics(struct ab_reference *r) {
  const struct ab_results *e = &r->results;
  if (!r->opened->bundle->train)
    return r->opened->bundle->loss_kind == AB_LOSS_GIVEN ? AB_OK : add_metric(r->truth, 0, "loss", e->loss);
  for (int64_t t = 0; t < r->opened->steps && t < (int64_t)e->steps; t++) {
    for (int i = 0; ab_metric_fields[i].name; i++) {
      double value;
      if (!(e->step[t].present >> i & 1)) continue;
      memcpy(&value, (const char *)&e->step[t].metrics + ab_metric_fields[i].offset, sizeof value);
      AB_TRY(add_metric(r->truth, (int)t, ab_metric_fields[i].name, value));
    }
  }
  return AB_OK;
}

static ab_status record_all(struct ab_recording *recording, const struct ab_reference *r, const struct ab_produced *p) {
  struct shelf shelf[SHELVES];
  shelves(shelf, r, p);
  for (int i = 0; i < SHELVES; i++) AB_TRY(record_shelf(recording, &shelf[i]));
  return AB_OK;
}

/* Where a defect of the real code shows in its numbers, the default is judged by those that were meant. */
static bool shows_defect(const struct ab_config *c) {
  return c->pipelined && c->pipeline_fsdp_ag_per_repeat && c->num_stages > 2 && !ab_faithful(c, AB_DEFECT_B1);
}

/* A bundle without these says nothing about a run. */
static ab_status must_hold(const struct ab_reference *r) {
  const struct ab_bundle *bundle = r->opened->bundle;
  const char *missing = !r->results.grads ? "grads" : !bundle->train && !r->results.outputs ? "outputs" : NULL;
  if (!missing) return AB_OK;
  return AB_FAIL(AB_ENOTFOUND, "%s/%s.safetensors is missing: nothing to compare with%s%s", bundle->folder, missing,
                 r->results.grads_sequential ? "; expected what the engines gave beside what was meant, " : "",
                 r->results.grads_sequential ? "the *_sequential files" : "");
}

/* A record of other steps than the batch's would be held to a part of itself only. */
static ab_status check_steps(const struct ab_results *e, const struct ab_bundle *b) {
  if (!b->train || (int64_t)e->steps == ab_bundle_steps(b)) return AB_OK;
  return AB_FAIL(AB_EFORMAT, "'%s/expected.json': steps has %zu entries; expected %lld, the steps of the batch",
                 b->folder, e->steps, (long long)ab_bundle_steps(b));
}

static ab_status open_reference(struct ab_reference *r) {
  const struct ab_bundle *bundle = r->opened->bundle;
  AB_TRY(ab_bundle_expect(&r->results, bundle));
  AB_TRY(check_steps(&r->results, bundle));
  AB_TRY(must_hold(r));
  r->as_meant = shows_defect(r->opened->config) && ab_results_as_meant(&r->results);
  AB_TRY(ab_bounds_open(&r->bounds, bundle->folder, bundle->train));
  AB_TRY(ab_recording_new(&r->truth, bundle->maxtext ? "MaxText" : "bundle"));
  AB_TRY(record_all(r->truth, r, NULL));
  AB_TRY(record_metrics(r));
  ab_recording_complete(r->truth);
  return AB_OK;
}

ab_status ab_reference_open(struct ab_reference **out, const struct ab_case *c) {
  struct ab_reference *r;
  AB_TRY(ab_mem_new(&r, 1, sizeof *r));
  r->opened = c;
  ab_status status = open_reference(r);
  if (status == AB_OK) *out = r;
  else ab_reference_close(r);
  return status;
}

void ab_reference_close(struct ab_reference *reference) {
  if (!reference) return;
  ab_results_free(&reference->results);
  ab_bounds_close(&reference->bounds);
  ab_recording_free(reference->truth);
  for (size_t i = 0; i < reference->count; i++) {
    ab_recording_free(reference->judged[i].run);
    ab_produced_free(&reference->judged[i].produced);
  }
  ab_mem_free(reference);
}

size_t ab_reference_ignored(const struct ab_reference *reference) {
  return reference->results.ignored + reference->opened->bundle->ignored;
}

bool ab_reference_as_meant(const struct ab_reference *reference) { return reference->as_meant; }

static const struct shelf *shelf_of(const struct shelf *shelf, const struct ab_identity *id) {
  for (int i = 0; i < SHELVES; i++)
    if (strncmp(id->tensor, shelf[i].prefix, strlen(shelf[i].prefix)) == 0) return &shelf[i];
  return NULL;
}

static ab_status values(void *ctx, int side, const struct ab_observation *observation, struct ab_view *out) {
  const struct ab_reference *r = ctx;
  struct shelf shelf[SHELVES];
  shelves(shelf, r, side == 0 ? &r->judged[r->count - 1].produced : NULL);
  const struct shelf *home = shelf_of(shelf, &observation->id);
  const struct ab_tensor *tensor =
      home && home->tree ? ab_tree_find(home->tree, observation->id.tensor + strlen(home->prefix)) : NULL;
  if (!tensor) return AB_FAIL(AB_ENOTFOUND, "'%s' is not in the bundle", observation->id.tensor);
  *out = ab_view_of(tensor);
  return AB_OK;
}

static void bounds(void *ctx, const struct ab_identity *id, double *given, double *own) {
  const struct ab_reference *r = ctx;
  struct shelf shelf[SHELVES];
  (void)own;
  shelves(shelf, r, NULL);
  const struct shelf *home = shelf_of(shelf, id);
  *given = home ? ab_bounds_find(&r->bounds, home->bounded, id->tensor + strlen(home->prefix))
                : ab_bounds_find(&r->bounds, AB_BOUND_METRIC, id->tensor);
}

static ab_status record_run(struct judged *j, struct ab_reference *r, const struct ab_side_result *side) {
  AB_TRY(ab_recording_new(&j->run, side->recording->name));
  AB_TRY(ab_produced_new(&j->produced, r->opened, &r->opened->bundle->layout, side));
  AB_TRY(record_all(j->run, r, &j->produced));
  for (size_t i = 0; i < side->recording->metrics; i++)
    AB_TRY(ab_recording_add_metric(j->run, &side->recording->metric[i].metric));
  ab_recording_complete(j->run);
  return AB_OK;
}

/* Everything that the bundle holds, and at least all gradients of the layout. */
static struct ab_expected owed(const struct ab_reference *r) {
  const struct ab_results *e = &r->results;
  struct ab_expected expected = ab_expected_none();
  size_t params = 0;
  struct shelf shelf[SHELVES];
  shelves(shelf, r, NULL);
  for (int i = 0; i < SHELVES; i++)
    if (shelf[i].tree && shelf[i].phase == AB_UPDATE) params += ab_tree_size(shelf[i].tree);
  expected.steps = (size_t)r->opened->steps;
  expected.tensors[AB_Q_WEIGHT_GRADIENT] = r->opened->bundle->layout.leaves;
  expected.tensors[AB_Q_PARAMETER] = params;
  expected.tensors[AB_Q_OUTPUT] = e->outputs ? ab_tree_size(e->outputs) : 0;
  expected.tensors[AB_Q_METRIC] = r->truth->metrics;
  return expected;
}

ab_status ab_reference_comparison(struct ab_comparison *out, struct ab_reference *r,
                                  const struct ab_side_result *side) {
  struct judged *judged = &r->judged[r->count++];
  AB_TRY(record_run(judged, r, side));
  *out = (struct ab_comparison){.a = judged->run,
                                .b = r->truth,
                                .pair = AB_PAIR_RECORDED,
                                .quantities = AB_Q_ALL,
                                .partial = true,
                                .retyped = true,
                                .expected = owed(r),
                                .values = values,
                                .values_ctx = r,
                                .bounds = bounds,
                                .bounds_ctx = r};
  return AB_OK;
}

ab_status ab_reference_judge(struct ab_verdict *out, struct ab_reference *r, const struct ab_side_result *side) {
  struct ab_comparison c;
  AB_TRY(ab_reference_comparison(&c, r, side));
  return ab_verdict(out, &c);
}
