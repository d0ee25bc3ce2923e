#include <inttypes.h>
#include <string.h>

#include "expectation.h"
#include "mem.h"
#include "observed.h"
#include "threefry.h"

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

static ab_status check_slot(const struct streams *s, int64_t step, size_t slot) {
  int stages = (int)s->config->num_stages;
  const struct ab_where at = {.iteration = -1, .stage = (int)slot % stages, .repeat = (int)slot / stages};
  const struct {
    const char *name;
    int64_t expected;
  } row[] = {{AB_COUNT_RNG_KEY_0, s->key[slot].word[0]}, {AB_COUNT_RNG_KEY_1, s->key[slot].word[1]},
             {AB_COUNT_RNG_COUNT, 0}}; /* without dropout nothing is drawn */
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    struct ab_identity id = {.step = (int)step, .accumulation = -1, .microbatch = -1, .layer = -1};
    strcpy(id.tensor, row[i].name);
    int64_t found = ab_recording_count(s->recording, &id, &at);
    if (found != row[i].expected)
      return AB_FAIL(AB_EMISMATCH, "%s has '%s' of repeat %d, stage %d at %" PRId64 " after step %" PRId64
                     ", expected %" PRId64, s->recording->name, row[i].name, at.repeat, at.stage, found, step,
                     row[i].expected);
  }
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

/* A stream of a slot or step that there is not. */
static ab_status check_rest(const struct ab_recording *recording, const struct streams *s, int64_t steps) {
  for (size_t i = 0; i < recording->counters; i++) {
    const struct ab_counter *counter = &recording->counter[i];
    if (strncmp(counter->id.tensor, AB_COUNT_RNG, strlen(AB_COUNT_RNG)) != 0) continue;
    int64_t slot = counter->at.repeat * s->config->num_stages + counter->at.stage;
    bool known = s->slots && counter->at.stage >= 0 && counter->at.stage < s->config->num_stages && slot >= 0 &&
                 slot < (int64_t)s->slots && counter->id.step >= 0 && counter->id.step < steps;
    if (!known)
      return AB_FAIL(AB_EMISMATCH, "%s has a counter '%s' of repeat %d, stage %d and step %d, which nothing expects",
                     recording->name, counter->id.tensor, counter->at.repeat, counter->at.stage, counter->id.step);
  }
  return AB_OK;
}

ab_status ab_check_rng(const struct ab_recording *recording, const struct ab_case *c, const struct ab_route *route) {
  const struct ab_config *config = c->config;
  struct streams s = {.recording = recording, .config = config};
  if (config->pipelined && route->rng != AB_RNG_NONE)
    s.slots = (size_t)(config->num_pipeline_repeats * config->num_stages);
  AB_TRY(check_rest(recording, &s, c->steps));
  if (!s.slots) return AB_OK;
  AB_TRY(ab_mem_new(&s.key, s.slots, sizeof *s.key));
  ab_status status = check_steps(&s, c->steps, route->rng == AB_RNG_CARRIED);
  ab_mem_free(s.key);
  AB_TRY(status);
  return AB_OK;
}
