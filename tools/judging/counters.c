#include <stdio.h>
#include <string.h>

#include "expectation.h"
#include "block.h"
#include "observed.h"
#include "upstream.h"

/* Over all steps, microbatches and layers. */
static int64_t total(const struct ab_recording *recording, const char *name, const struct ab_where *at) {
  struct ab_identity any = {.step = -1, .accumulation = -1, .microbatch = -1, .layer = -1};
  snprintf(any.tensor, sizeof any.tensor, "%s", name);
  return ab_recording_count(recording, &any, at);
}

static ab_status wrong_count(const struct ab_recording *recording, const char *what, int64_t found, int64_t expected) {
  return AB_FAIL(AB_EMISMATCH, "%s counted %lld %s, expected %lld", recording->name, (long long)found, what,
                 (long long)expected);
}

/* Every iteration of a stage that is no execution is a bubble, of a repeat that there is. */
static ab_status check_bubbles(const struct ab_recording *recording, const struct ab_config *config, int s,
                               int64_t steps) {
  int64_t found = 0, cells = config->num_pipeline_microbatches * config->num_pipeline_repeats;
  int64_t expected = steps * (ab_total_iterations(config) - cells);
  char what[64];
  for (int r = 0; r < config->num_pipeline_repeats; r++)
    found += total(recording, AB_COUNT_BUBBLE, &(struct ab_where){.iteration = -1, .stage = s, .repeat = r});
  snprintf(what, sizeof what, "bubbles of stage %d with a repeat that there is", s);
  return found == expected ? AB_OK : wrong_count(recording, what, found, expected);
}

static ab_status check_cells(const struct ab_recording *recording, const struct ab_config *config, int64_t steps) {
  for (int r = 0; r < config->num_pipeline_repeats; r++) {
    for (int s = 0; s < config->num_stages; s++) {
      struct ab_where at = {.iteration = -1, .stage = s, .repeat = r};
      int64_t found = total(recording, AB_COUNT_EXECUTE, &at);
      int64_t expected = steps * config->num_pipeline_microbatches;
      char what[64];
      snprintf(what, sizeof what, "executions of repeat %d, stage %d", r, s);
      if (found != expected) return wrong_count(recording, what, found, expected);
    }
  }
  for (int s = 0; s < config->num_stages; s++) AB_TRY(check_bubbles(recording, config, s, steps));
  return AB_OK;
}

ab_status ab_check_executions(const struct ab_recording *recording, const struct ab_case *c) {
  const struct ab_config *config = c->config;
  int64_t steps = c->steps, cells = 0, outside = config->num_decoder_layers;
  if (config->pipelined) {
    cells = config->num_pipeline_microbatches * config->num_pipeline_repeats * config->num_stages;
    outside -= config->pipeline_parallel_layers;
  }
  if (ab_bundle_is_engine(c->bundle)) outside = 0;
  int64_t found = total(recording, AB_COUNT_EXECUTE, NULL), expected = steps * (cells + outside);
  if (found != expected) return wrong_count(recording, "executions", found, expected);
  if (config->pipelined) AB_TRY(check_cells(recording, config, steps));
  return AB_OK;
}

/* Leaves of a stage: a scanned stage stacks its layers, a sequential one has a tree for each. */
static int64_t stage_leaves(const struct ab_config *config) {
  int64_t params = ab_block_find(config->decoder_block)->param_count;
  return config->scan_layers_per_stage ? params : params * config->num_layers_per_pipeline_stage;
}

/* Fetches per stage and step. */
static int64_t fetches(const struct ab_config *config, enum ab_family family) {
  int64_t repeats = config->num_pipeline_repeats;
  if (!config->pipeline_fsdp_ag_per_repeat) return repeats;
  if (family == AB_FAMILY_LINEN) return 2 * (repeats + 1);
  bool kept = ab_faithful(config, AB_DEFECT_B13) && !config->set_remat_policy_on_pipeline_iterations;
  return kept ? repeats : 2 * repeats;
}

/* Bytes that B7 moves, for each that came through the gather door once: (S - 1) ceil(R / S) of R, four times. */
static ab_status check_reshards(const struct ab_recording *recording, const struct ab_config *config,
                                enum ab_family family) {
  int64_t stages = config->num_stages, repeats = config->num_pipeline_repeats, expected = 0;
  bool once = config->pipeline_fsdp_ag_once && !config->pipeline_fsdp_ag_per_repeat;
  if (once && family == AB_FAMILY_NNX && repeats > 1 && ab_faithful(config, AB_DEFECT_B7))
    expected = 4 * (stages - 1) * ((repeats + stages - 1) / stages) * total(recording, "gather/bytes", NULL) / repeats;
  int64_t found = total(recording, "reshard/bytes", NULL);
  return found == expected ? AB_OK : wrong_count(recording, "bytes on other stages than their own", found, expected);
}

ab_status ab_check_gathers(const struct ab_recording *recording, const struct ab_case *c, enum ab_family family) {
  const struct ab_config *config = c->config;
  int64_t steps = c->steps;
  if (!config->pipelined || !(config->pipeline_fsdp_ag_once || config->pipeline_fsdp_ag_per_repeat)) return AB_OK;
  int64_t expected = steps * config->num_stages * stage_leaves(config) * fetches(config, family);
  int64_t found = total(recording, "gather/calls", NULL);
  if (found != expected) return wrong_count(recording, "weight fetches", found, expected);
  return check_reshards(recording, config, family);
}

ab_status ab_check_sown(const struct ab_recording *recording, const struct ab_case *c, enum ab_family family) {
  int64_t found = 0, expected = c->steps * (int64_t)ab_expect_sown(c, family);
  for (size_t i = 0; i < recording->observations; i++)
    found += ab_quantity_of(&recording->observation[i].observation.id) == AB_Q_METRIC;
  return found == expected ? AB_OK : wrong_count(recording, "sown metrics", found, expected);
}

/* What two engines of one schedule must have in common. */
static bool must_agree(const char *name, bool fetches_too, bool recomputes_too) {
  bool recompute = strncmp(name, AB_COUNT_RECOMPUTE, strlen(AB_COUNT_RECOMPUTE)) == 0;
  return strcmp(name, AB_COUNT_EXECUTE) == 0 || strncmp(name, "ring/", 5) == 0 || (recomputes_too && recompute) ||
         (fetches_too && strncmp(name, "gather/", 7) == 0);
}

enum { NAMES_MAX = 192 };

/* The distinct counter names of a recording; under custom policies there are many dozens. */
static size_t names_of(const char *name[NAMES_MAX], const struct ab_recording *recording) {
  size_t names = 0;
  for (size_t i = 0; i < recording->counters && names < NAMES_MAX; i++) {
    size_t seen = 0;
    while (seen < names && strcmp(name[seen], recording->counter[i].id.tensor) != 0) seen++;
    if (seen == names) name[names++] = recording->counter[i].id.tensor;
  }
  return names;
}

static ab_status check_half(const struct ab_recording *a, const struct ab_recording *b, bool fetches_too,
                            bool recomputes_too) {
  const char *name[NAMES_MAX];
  size_t names = names_of(name, a);
  if (names == NAMES_MAX) return AB_FAIL(AB_EMISMATCH, "%s has %d or more kinds of counters", a->name, NAMES_MAX);
  for (size_t i = 0; i < names; i++) {
    if (!must_agree(name[i], fetches_too, recomputes_too)) continue;
    int64_t here = total(a, name[i], NULL), there = total(b, name[i], NULL);
    if (here != there)
      return AB_FAIL(AB_EMISMATCH, "counter '%s' is %lld in %s and %lld in %s", name[i], (long long)here, a->name,
                     (long long)there, b->name);
  }
  return AB_OK;
}

ab_status ab_check_same_counters(const struct ab_recording *a, const struct ab_recording *b, bool fetches_too,
                                 bool recomputes_too) {
  AB_TRY(check_half(a, b, fetches_too, recomputes_too));
  AB_TRY(check_half(b, a, fetches_too, recomputes_too));
  return AB_OK;
}
