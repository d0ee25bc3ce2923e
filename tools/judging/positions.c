#include <inttypes.h>
#include <string.h>

#include "expectation.h"
#include "mem.h"
#include "observed.h"
#include "threefry.h"
#include "version.h"

enum { DROPOUT_STREAM = 1 };

/* The keys of every slot r S + s, on their way through the steps. */
struct streams {
  const struct ab_recording *recording;
  const struct ab_config *config;
  struct ab_key *key;
  size_t slots;
};

/* PipelineBase.__init__: one split of the stream's key. */
static void begin(const struct streams *s) {
  ab_key_split(s->key, ab_key_fold_in(ab_key(s->config->init_weights_seed), DROPOUT_STREAM), s->slots);
}

/* pipeline_utils.py: advance_rng_state, once per iteration, bubbles included. */
static void run_step(const struct streams *s) {
  for (size_t i = 0; i < s->slots; i++)
    for (int64_t t = 0; t < ab_total_iterations(s->config); t++) s->key[i] = ab_key_fold_in(s->key[i], (uint32_t)t);
}

static const char *const names[] = {AB_COUNT_RNG_KEY_0, AB_COUNT_RNG_KEY_1, AB_COUNT_RNG_COUNT};
enum { NAMES = sizeof names / sizeof *names };

static bool is_position(const struct ab_counter *c) {
  return strncmp(c->id.tensor, AB_COUNT_RNG, strlen(AB_COUNT_RNG)) == 0;
}

static ab_status check_position(const struct streams *s, int64_t step, size_t slot, const char *name,
                                int64_t expected) {
  int stage = (int)slot % (int)s->config->num_stages, repeat = (int)slot / (int)s->config->num_stages;
  int64_t found = 0;
  size_t times = 0;
  for (size_t i = 0; i < s->recording->counters; i++) {
    const struct ab_counter *c = &s->recording->counter[i];
    if (c->id.step != step || c->at.stage != stage || c->at.repeat != repeat || strcmp(c->id.tensor, name)) continue;
    found = c->amount;
    times++;
  }
  if (times != 1)
    return AB_FAIL(AB_EMISMATCH, "%s reports '%s' of repeat %d, stage %d %zu times after step %" PRId64
                   ", expected once", s->recording->name, name, repeat, stage, times, step);
  if (found != expected)
    return AB_FAIL(AB_EMISMATCH, "%s has '%s' of repeat %d, stage %d at %" PRId64 " after step %" PRId64
                   ", expected %" PRId64, s->recording->name, name, repeat, stage, found, step, expected);
  return AB_OK;
}

static ab_status check_slot(const struct streams *s, int64_t step, size_t slot) {
  const int64_t expected[NAMES] = {s->key[slot].word[0], s->key[slot].word[1], 0}; /* without dropout no draw */
  for (size_t i = 0; i < NAMES; i++) AB_TRY(check_position(s, step, slot, names[i], expected[i]));
  return AB_OK;
}

static ab_status check_steps(const struct streams *s, int64_t steps, bool carried) {
  begin(s);
  for (int64_t step = 0; step < steps; step++) {
    if (!carried) begin(s);
    run_step(s);
    for (size_t slot = 0; slot < s->slots; slot++) AB_TRY(check_slot(s, step, slot));
  }
  return AB_OK;
}

/* Of a name, slot and step that there are, and of no cell or tensor. */
static bool is_expected(const struct ab_counter *c, const struct streams *s, int64_t steps) {
  bool named = false;
  int64_t slot = c->at.repeat * s->config->num_stages + c->at.stage;
  for (size_t i = 0; i < NAMES; i++) named |= strcmp(c->id.tensor, names[i]) == 0;
  return named && c->at.stage >= 0 && c->at.stage < s->config->num_stages && slot >= 0 && slot < (int64_t)s->slots &&
         c->id.step >= 0 && c->id.step < steps && c->id.microbatch < 0 && c->id.layer < 0 && c->at.iteration < 0 &&
         !c->at.bubble;
}

static ab_status check_rest(const struct ab_recording *recording, const struct streams *s, int64_t steps) {
  for (size_t i = 0; i < recording->counters; i++) {
    const struct ab_counter *c = &recording->counter[i];
    if (is_position(c) && !is_expected(c, s, steps))
      return AB_FAIL(AB_EMISMATCH, "%s has a counter '%s' of repeat %d, stage %d and step %d, which nothing expects",
                     recording->name, c->id.tensor, c->at.repeat, c->at.stage, c->id.step);
  }
  return AB_OK;
}

/* What a route without streams of its own, and a model without pipeline, owe: 0. */
static size_t slots_of(const struct ab_config *config, const struct ab_route *route) {
  if (!config->pipelined || route->rng == AB_RNG_NONE) return 0;
  return (size_t)(config->num_pipeline_repeats * config->num_stages);
}

ab_status ab_check_rng(const struct ab_recording *recording, const struct ab_case *c, const struct ab_route *route) {
  struct streams s = {.recording = recording, .config = c->config, .slots = slots_of(c->config, route)};
  AB_TRY(check_rest(recording, &s, c->steps));
  if (!s.slots) return AB_OK;
  AB_TRY(ab_mem_new(&s.key, s.slots, sizeof *s.key));
  ab_status status = check_steps(&s, c->steps, route->rng == AB_RNG_CARRIED);
  ab_mem_free(s.key);
  AB_TRY(status);
  return AB_OK;
}

ab_status ab_rng_predates(bool *out, const struct ab_recording *recording, const struct ab_case *c,
                          const struct ab_route *route) {
  bool any = slots_of(c->config, route) == 0;
  for (size_t i = 0; i < recording->counters; i++) any |= is_position(&recording->counter[i]);
  *out = false;
  if (any) return AB_OK;
  AB_TRY(ab_version_reports(out, recording->header, AB_REPORTS_RNG));
  *out = !*out;
  return AB_OK;
}
