#include "both_sides.h"

#include <string.h>

#include "kept.h"
#include "tap.h"

enum { STEPS_MAX = 2 };

void side_case_open_with(struct ab_case *out, const char *name, const char *const *overrides) {
  char path[512];
  struct ab_request request = {.target = path, .overrides = overrides};
  const char *root = getenv("AB_SOURCE_ROOT"), *dot = strrchr(name, '.');
  const char *home = dot && !strcmp(dot, ".yml") ? "faults" : "reference";
  snprintf(path, sizeof path, "%s/tests/fixtures/%s/%s", root ? root : ".", home, name);
  while (overrides && overrides[request.override_count]) request.override_count++;
  ck_ok(ab_case_open(out, &request));
  if (out->steps > STEPS_MAX) out->steps = STEPS_MAX;
}

void side_case_open(struct ab_case *out, const char *name) { side_case_open_with(out, name, NULL); }

struct listener {
  struct ab_recording *recording;
  const struct side_hooks *hooks;
};

static ab_status observe(void *ctx, const struct ab_observation *observation, const void *values) {
  const struct listener *listener = ctx;
  size_t bytes = (size_t)observation->summary.count * ab_dtype_size(observation->dtype);
  if (values && !observation->at.bubble) ck_assert(fwrite(values, 1, bytes, listener->hooks->values) == bytes);
  if (listener->hooks->hides && listener->hooks->hides(&observation->id)) return AB_OK;
  return ab_recording_observe(listener->recording, observation);
}

static ab_status count(void *ctx, const char *name, const struct ab_identity *id, const struct ab_where *at,
                       int64_t amount) {
  const struct listener *listener = ctx;
  struct ab_counter counter = {.id = *id, .at = *at, .amount = amount};
  snprintf(counter.id.tensor, sizeof counter.id.tensor, "%s", name);
  return ab_recording_add_counter(listener->recording, &counter);
}

static bool wanted(void *ctx, const struct ab_identity *id) {
  (void)ctx;
  return ab_kept(NULL, id);
}

static const struct ab_probe_ops probe = {.observe = observe, .count = count};

static ab_status metric(void *ctx, int step, const char *name, double value) {
  const struct listener *listener = ctx;
  struct ab_metric row = {.step = step, .value = value, .f32 = true};
  snprintf(row.name, sizeof row.name, "%s", name);
  return ab_recording_add_metric(listener->recording, &row);
}

ab_status side_run(struct ab_recording **out, const struct ab_case *c, const struct ab_route *route,
                   const struct side_hooks *hooks) {
  static const struct side_hooks none;
  struct listener listener = {.hooks = hooks ? hooks : &none};
  struct ab_run run = {.route = route,
                       .kernels = listener.hooks->kernels ? listener.hooks->kernels : &ab_kernels_f32,
                       .config = c->config,
                       .bundle = c->bundle,
                       .steps = c->steps,
                       .mesh = listener.hooks->mesh,
                       .level = listener.hooks->values ? AB_LEVEL_VALUES : AB_LEVEL_DIGEST,
                       .want = wanted,
                       .loaded = listener.hooks->loaded,
                       .probe = &probe,
                       .probe_ctx = &listener,
                       .metric = metric,
                       .metric_ctx = &listener};
  struct ab_run_plan plan;
  ck_ok(ab_recording_new(&listener.recording, route->name));
  *out = listener.recording;
  AB_TRY(ab_run_plan(&plan, &run));
  AB_TRY(ab_run_steps(&run, &plan));
  ab_recording_complete(listener.recording);
  return AB_OK;
}

const struct ab_route *side_route(const char *name) {
  const struct ab_route *route;
  ck_ok(ab_route_find(&route, name));
  return route;
}

struct ab_verdict side_verdict(const struct ab_recording *a, const struct ab_recording *b, const struct ab_case *c) {
  struct ab_verdict verdict;
  struct ab_comparison comparison = {.a = a, .b = b, .pair = AB_PAIR_SAME, .quantities = AB_Q_ALL};
  ck_ok(ab_expect_sides(&comparison.expected, c));
  ck_ok(ab_verdict(&verdict, &comparison));
  return verdict;
}
