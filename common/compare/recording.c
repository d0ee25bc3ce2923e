#define XXH_INLINE_ALL
#include "recording.h"

#include <string.h>
#include <xxhash.h>

#include "index.h"
#include "mem.h"
#include "text.h"

enum { OBSERVATION, METRIC, COUNTER, FINGERPRINT };

ab_status ab_recording_new(struct ab_recording **out, const char *name) {
  struct ab_recording *recording;
  AB_TRY(ab_mem_new(&recording, 1, sizeof *recording));
  ab_status status = ab_mem_string(&recording->name, name);
  if (status != AB_OK) ab_recording_free(recording);
  AB_TRY(status);
  *out = recording;
  return AB_OK;
}

void ab_recording_free(struct ab_recording *r) {
  if (!r) return;
  void *blocks[] = {r->name, r->header, r->observation, r->metric, r->counter, r->fingerprint, r->notes,
                    r->error_sentence, r->error_trace, r->by_identity.slot, r->by_metric.slot, r->by_counter.slot,
                    r->by_fingerprint.slot};
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) ab_mem_free(blocks[i]);
  ab_mem_free(r);
}

/* Room for one more row: doubling, so that all copying together stays linear. */
static ab_status one_more(void *rows, size_t count, size_t *capacity, size_t size) {
  if (count < *capacity) return AB_OK;
  size_t larger = *capacity ? 2 * *capacity : 64;
  AB_TRY(ab_mem_resize(rows, larger, size));
  *capacity = larger;
  return AB_OK;
}

static bool observation_is(const void *rows, size_t row, const void *key) {
  return ab_identity_equal(&((const struct ab_recorded *)rows)[row].observation.id, key);
}

static uint64_t observation_hash(const void *rows, size_t row) {
  return ab_identity_hash(&((const struct ab_recorded *)rows)[row].observation.id);
}

static size_t find_observation(const struct ab_recording *r, const struct ab_identity *id) {
  return ab_index_find(&r->by_identity, ab_identity_hash(id), observation_is, r->observation, id);
}

static void note_bubble(struct ab_recording *r, const struct ab_observation *observation) {
  r->bubbles++;
  if (r->has_pole || observation->id.phase != AB_FORWARD || !observation->summary.nonfinite) return;
  r->pole = *observation;
  r->has_pole = true;
}

static ab_status fail_of(ab_status code, const struct ab_identity *id, const char *what) {
  char text[AB_IDENTITY_TEXT];
  ab_identity_print(text, id);
  return AB_FAIL(code, "'%s' %s", text, what);
}

ab_status ab_recording_observe(struct ab_recording *r, const struct ab_observation *observation) {
  if (observation->at.bubble) {
    note_bubble(r, observation);
    return AB_OK;
  }
  if (find_observation(r, &observation->id) != SIZE_MAX)
    return fail_of(AB_EMISMATCH, &observation->id, "was observed twice");
  AB_TRY(one_more(&r->observation, r->observations, &r->capacity[OBSERVATION], sizeof *r->observation));
  r->observation[r->observations] = (struct ab_recorded){*observation, r->order};
  AB_TRY(ab_index_add(&r->by_identity, r->observations, observation_hash, r->observation));
  r->observations++;
  r->order++;
  return AB_OK;
}

static uint64_t metric_key_hash(const struct ab_metric *metric) {
  return XXH3_64bits_withSeed(metric->name, strlen(metric->name), ab_hash_secret() + (uint64_t)(int64_t)metric->step);
}

static bool metric_is(const void *rows, size_t row, const void *key) {
  const struct ab_metric *a = &((const struct ab_recorded_metric *)rows)[row].metric, *b = key;
  return a->step == b->step && strcmp(a->name, b->name) == 0;
}

static uint64_t metric_hash(const void *rows, size_t row) {
  return metric_key_hash(&((const struct ab_recorded_metric *)rows)[row].metric);
}

static size_t find_metric(const struct ab_recording *r, const struct ab_metric *key) {
  return ab_index_find(&r->by_metric, metric_key_hash(key), metric_is, r->metric, key);
}

ab_status ab_recording_add_metric(struct ab_recording *r, const struct ab_metric *metric) {
  if (find_metric(r, metric) != SIZE_MAX)
    return AB_FAIL(AB_EMISMATCH, "metric '%s' of step %d was reported twice", metric->name, metric->step);
  AB_TRY(one_more(&r->metric, r->metrics, &r->capacity[METRIC], sizeof *r->metric));
  r->metric[r->metrics] = (struct ab_recorded_metric){*metric, r->order};
  AB_TRY(ab_index_add(&r->by_metric, r->metrics, metric_hash, r->metric));
  r->metrics++;
  r->order++;
  return AB_OK;
}

static bool where_equal(const struct ab_where *a, const struct ab_where *b) {
  return a->iteration == b->iteration && a->stage == b->stage && a->repeat == b->repeat && a->bubble == b->bubble;
}

static uint64_t counter_key_hash(const struct ab_counter *counter) {
  int place[] = {counter->at.iteration, counter->at.stage, counter->at.repeat};
  return XXH3_64bits_withSeed(place, sizeof place, ab_identity_hash(&counter->id));
}

static bool counter_is(const void *rows, size_t row, const void *key) {
  const struct ab_counter *a = &((const struct ab_counter *)rows)[row], *b = key;
  return ab_identity_equal(&a->id, &b->id) && where_equal(&a->at, &b->at);
}

static uint64_t counter_hash(const void *rows, size_t row) {
  return counter_key_hash(&((const struct ab_counter *)rows)[row]);
}

ab_status ab_recording_add_counter(struct ab_recording *r, const struct ab_counter *counter) {
  size_t row = ab_index_find(&r->by_counter, counter_key_hash(counter), counter_is, r->counter, counter);
  if (row != SIZE_MAX) {
    if (__builtin_add_overflow(r->counter[row].amount, counter->amount, &r->counter[row].amount))
      return fail_of(AB_EFORMAT, &counter->id, "overflows");
    return AB_OK;
  }
  AB_TRY(one_more(&r->counter, r->counters, &r->capacity[COUNTER], sizeof *r->counter));
  r->counter[r->counters] = *counter;
  AB_TRY(ab_index_add(&r->by_counter, r->counters, counter_hash, r->counter));
  r->counters++;
  return AB_OK;
}

static bool fingerprint_is(const void *rows, size_t row, const void *key) {
  return ab_identity_equal(&((const struct ab_fingerprint *)rows)[row].id, key);
}

static uint64_t fingerprint_hash(const void *rows, size_t row) {
  return ab_identity_hash(&((const struct ab_fingerprint *)rows)[row].id);
}

static size_t find_fingerprint(const struct ab_recording *r, const struct ab_identity *id) {
  return ab_index_find(&r->by_fingerprint, ab_identity_hash(id), fingerprint_is, r->fingerprint, id);
}

ab_status ab_recording_add_fingerprint(struct ab_recording *r, const struct ab_fingerprint *fingerprint) {
  if (find_fingerprint(r, &fingerprint->id) != SIZE_MAX)
    return fail_of(AB_EMISMATCH, &fingerprint->id, "was fingerprinted twice");
  AB_TRY(one_more(&r->fingerprint, r->fingerprints, &r->capacity[FINGERPRINT], sizeof *r->fingerprint));
  r->fingerprint[r->fingerprints] = *fingerprint;
  AB_TRY(ab_index_add(&r->by_fingerprint, r->fingerprints, fingerprint_hash, r->fingerprint));
  r->fingerprints++;
  return AB_OK;
}

void ab_recording_complete(struct ab_recording *recording) { recording->complete = recording->error == AB_OK; }

const struct ab_recorded *ab_recording_find(const struct ab_recording *recording, const struct ab_identity *id) {
  size_t row = find_observation(recording, id);
  return row == SIZE_MAX ? NULL : &recording->observation[row];
}

const struct ab_recorded_metric *ab_recording_metric(const struct ab_recording *recording, int step, const char *name) {
  struct ab_metric key = {.step = step};
  strncat(key.name, name, AB_NAME_MAX - 1);
  size_t row = find_metric(recording, &key);
  return row == SIZE_MAX ? NULL : &recording->metric[row];
}

const struct ab_fingerprint *ab_recording_fingerprint(const struct ab_recording *recording,
                                                      const struct ab_identity *id) {
  size_t row = find_fingerprint(recording, id);
  return row == SIZE_MAX ? NULL : &recording->fingerprint[row];
}

static bool matches(int value, int wanted) { return wanted == -1 || value == wanted; }

static bool counter_matches(const struct ab_counter *c, const struct ab_identity *id, const struct ab_where *at) {
  bool same = strcmp(c->id.tensor, id->tensor) == 0 && matches(c->id.step, id->step) &&
              matches(c->id.accumulation, id->accumulation) && matches(c->id.microbatch, id->microbatch) &&
              matches(c->id.layer, id->layer);
  return same && (!at || (matches(c->at.iteration, at->iteration) && matches(c->at.stage, at->stage) &&
                          matches(c->at.repeat, at->repeat)));
}

int64_t ab_recording_count(const struct ab_recording *recording, const struct ab_identity *id,
                           const struct ab_where *at) {
  int64_t sum = 0;
  for (size_t i = 0; i < recording->counters; i++)
    if (counter_matches(&recording->counter[i], id, at)) sum += recording->counter[i].amount;
  return sum;
}

void ab_recording_last(char text[AB_IDENTITY_TEXT], const struct ab_recording *recording) {
  strcpy(text, "nothing");
  if (recording->observations)
    ab_identity_print(text, &recording->observation[recording->observations - 1].observation.id);
}

size_t ab_recording_recompute_faults(const struct ab_recording *recording, const struct ab_recorded **first) {
  size_t faults = 0;
  *first = NULL;
  for (size_t i = 0; i < recording->observations; i++) {
    const struct ab_recorded *again = &recording->observation[i];
    if (again->observation.id.phase != AB_RECOMPUTE) continue;
    struct ab_identity id = again->observation.id;
    id.phase = AB_FORWARD;
    const struct ab_recorded *forward = ab_recording_find(recording, &id);
    if (forward && ab_summary_same(&forward->observation.summary, &again->observation.summary)) continue;
    if (!faults++) *first = again;
  }
  return faults;
}
