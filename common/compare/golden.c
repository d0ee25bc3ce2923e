#define XXH_INLINE_ALL
#include "golden_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "mem.h"

static int by_key(const void *x, const void *y) {
  return strcmp(((const struct ab_pair_text *)x)->key, ((const struct ab_pair_text *)y)->key);
}

ab_status ab_pairs_copy(struct ab_pair_text **out, const struct ab_pair_text *pairs, size_t count) {
  struct ab_pair_text *copy;
  size_t bytes = count * sizeof *copy;
  for (size_t i = 0; i < count; i++) bytes += strlen(pairs[i].key) + strlen(pairs[i].value) + 2;
  AB_TRY(ab_mem_new(&copy, bytes, 1));
  char *text = (char *)(copy + count);
  for (size_t i = 0; i < count; i++) {
    copy[i] = (struct ab_pair_text){text, text + strlen(pairs[i].key) + 1};
    text = stpcpy(stpcpy(text, pairs[i].key) + 1, pairs[i].value) + 1;
  }
  *out = copy;
  return AB_OK;
}

void ab_golden_free(struct ab_golden *golden) {
  if (!golden) return;
  ab_calibration_free(golden->calibration);
  ab_golden_free_changelog(golden);
  void *blocks[] = {golden->config, golden->config_digest, golden->provenance, golden->numerics,
                    golden->metric, golden->metric_order,  golden->leaf,       golden->leaf_order};
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) ab_mem_free(blocks[i]);
  ab_mem_free(golden);
}

/* A sorted array of borrowed pairs. */
static ab_status sorted(struct ab_pair_text **out, const struct ab_pair_text *pairs, size_t count) {
  struct ab_pair_text *copy;
  AB_TRY(ab_mem_new(&copy, count, sizeof *copy));
  if (count) memcpy(copy, pairs, count * sizeof *copy);
  qsort(copy, count, sizeof *copy, by_key);
  *out = copy;
  return AB_OK;
}

static void print_digest(char out[33], XXH128_hash_t digest) {
  snprintf(out, 33, "%016llx%016llx", (unsigned long long)digest.high64, (unsigned long long)digest.low64);
}

void ab_digest_bytes(char out[33], const void *bytes, size_t size) { print_digest(out, XXH3_128bits(bytes, size)); }

static ab_status digest_sorted(char out[33], const struct ab_pair_text *pairs, size_t count) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  for (size_t i = 0; i < count; i++) {
    if (i && strcmp(pairs[i - 1].key, pairs[i].key) == 0)
      return AB_FAIL(AB_EMISMATCH, "config key '%s' is given twice", pairs[i].key);
    XXH3_128bits_update(&state, pairs[i].key, strlen(pairs[i].key));
    XXH3_128bits_update(&state, "=", 1);
    XXH3_128bits_update(&state, pairs[i].value, strlen(pairs[i].value));
    XXH3_128bits_update(&state, "\n", 1);
  }
  print_digest(out, XXH3_128bits_digest(&state));
  return AB_OK;
}

ab_status ab_golden_digest(char out[33], const struct ab_pair_text *pairs, size_t count) {
  struct ab_pair_text *copy;
  AB_TRY(sorted(&copy, pairs, count));
  ab_status status = digest_sorted(out, copy, count);
  ab_mem_free(copy);
  AB_TRY(status);
  return AB_OK;
}

static ab_status copy_config(struct ab_golden *g, const struct ab_pair_text *config, size_t count) {
  struct ab_pair_text *in_order;
  AB_TRY(sorted(&in_order, config, count));
  ab_status status = ab_pairs_copy(&g->config, in_order, count);
  ab_mem_free(in_order);
  AB_TRY(status);
  g->configs = count;
  AB_TRY(ab_mem_new(&g->config_digest, 33, 1));
  AB_TRY(digest_sorted(g->config_digest, g->config, count));
  return AB_OK;
}

static const char *known(const char *text) { return text ? text : "unknown"; }

static ab_status copy_provenance(struct ab_golden *g, const struct ab_provenance *p) {
  char threads[16];
  snprintf(threads, sizeof threads, "%d", p->threads);
  const struct ab_pair_text rows[] = {
      {"blas_core", known(p->blas_core)}, {"commit", known(p->commit)},       {"compiler", known(p->compiler)},
      {"created", known(p->created)},     {"diff_hash", known(p->diff_hash)}, {"flags", known(p->flags)},
      {"kernels", known(p->kernels)},     {"producer", known(p->producer)},   {"threads", threads},
      {"version", known(p->version)}};
  AB_TRY(ab_pairs_copy(&g->provenance, rows, sizeof rows / sizeof *rows));
  g->provenances = sizeof rows / sizeof *rows;
  return AB_OK;
}

ab_status ab_golden_add_provenance(struct ab_golden *g, const char *key, const char *value) {
  struct ab_pair_text *more, *copy;
  for (size_t i = 0; i < g->provenances; i++)
    if (strcmp(g->provenance[i].key, key) == 0) return AB_FAIL(AB_EMISMATCH, "provenance '%s' is given twice", key);
  AB_TRY(ab_mem_new(&more, g->provenances + 1, sizeof *more));
  for (size_t i = 0; i < g->provenances; i++) more[i] = g->provenance[i];
  more[g->provenances] = (struct ab_pair_text){key, known(value)};
  qsort(more, g->provenances + 1, sizeof *more, by_key);
  ab_status status = ab_pairs_copy(&copy, more, g->provenances + 1);
  ab_mem_free(more);
  AB_TRY(status);
  ab_mem_free(g->provenance);
  g->provenance = copy;
  g->provenances++;
  return AB_OK;
}

const char *ab_golden_provenance(const struct ab_golden *g, const char *key) {
  for (size_t i = 0; i < g->provenances; i++)
    if (strcmp(g->provenance[i].key, key) == 0) return g->provenance[i].value;
  return "unknown";
}

static ab_status copy_metrics(struct ab_golden *g, const struct ab_recording *r) {
  AB_TRY(ab_mem_new(&g->metric, r->metrics, sizeof *g->metric));
  AB_TRY(ab_mem_new(&g->metric_order, r->metrics, sizeof *g->metric_order));
  for (size_t i = 0; i < r->metrics; i++) {
    const struct ab_metric *m = &r->metric[i].metric;
    if (!isfinite(m->value))
      return AB_FAIL(AB_EMISMATCH, "metric '%s' of step %d is not finite, no golden can be made of it", m->name,
                     m->step);
    g->metric[i] = *m;
    g->metric_order[i] = r->metric[i].order;
  }
  g->metrics = r->metrics;
  return AB_OK;
}

static ab_status check_leaf(const struct ab_fingerprint *f, const struct ab_recorded *observed) {
  char text[AB_IDENTITY_TEXT];
  ab_identity_print(text, &f->id);
  if (!observed || !ab_summary_same(&observed->observation.summary, &f->summary))
    return AB_FAIL(AB_EMISMATCH, "the fingerprint of '%s' is not that of what was observed", text);
  if (f->summary.nonfinite)
    return AB_FAIL(AB_EMISMATCH, "'%s' holds %llu non-finite values, no golden can be made of it", text,
                   (unsigned long long)f->summary.nonfinite);
  return AB_OK;
}

/* Observations stand in execution order, fingerprints are looked up beside them. */
static ab_status copy_leaves(struct ab_golden *g, const struct ab_recording *r) {
  AB_TRY(ab_mem_new(&g->leaf, r->fingerprints, sizeof *g->leaf));
  AB_TRY(ab_mem_new(&g->leaf_order, r->fingerprints, sizeof *g->leaf_order));
  for (size_t i = 0; i < r->fingerprints; i++)
    AB_TRY(check_leaf(&r->fingerprint[i], ab_recording_find(r, &r->fingerprint[i].id)));
  for (size_t i = 0; i < r->observations; i++) {
    const struct ab_fingerprint *f = ab_recording_fingerprint(r, &r->observation[i].observation.id);
    if (!f) continue;
    g->leaf_order[g->leaves] = r->observation[i].order;
    g->leaf[g->leaves++] = *f;
  }
  g->seed = g->leaf[0].seed;
  return AB_OK;
}

void ab_golden_rank(struct ab_golden *g) {
  size_t m = 0, l = 0;
  for (size_t rank = 0; m < g->metrics || l < g->leaves; rank++) {
    bool metric = l == g->leaves || (m < g->metrics && g->metric_order[m] < g->leaf_order[l]);
    if (metric)
      g->metric_order[m++] = rank;
    else
      g->leaf_order[l++] = rank;
  }
}

static ab_status fill(struct ab_golden *g, const struct ab_recording *recording, const char *numerics) {
  if (!recording->complete || !recording->metrics || !recording->fingerprints)
    return AB_FAIL(AB_EMISMATCH, "side '%s' gave %zu metrics and %zu fingerprints%s, no golden can be made of it",
                   recording->name, recording->metrics, recording->fingerprints,
                   recording->complete ? "" : " and did not finish");
  if (strcmp(numerics, "portable") != 0 && strcmp(numerics, "fast") != 0)
    return AB_FAIL(AB_EMISMATCH, "numerics of a golden are '%s', expected 'portable' or 'fast'", numerics);
  AB_TRY(copy_metrics(g, recording));
  AB_TRY(copy_leaves(g, recording));
  ab_golden_rank(g);
  AB_TRY(ab_mem_string(&g->numerics, numerics));
  return AB_OK;
}

ab_status ab_golden_new(struct ab_golden **out, const struct ab_recording *recording, const struct ab_pair_text *config,
                        size_t configs, const struct ab_provenance *provenance, const char *numerics) {
  struct ab_golden *golden;
  AB_TRY(ab_mem_new(&golden, 1, sizeof *golden));
  ab_status status = fill(golden, recording, numerics);
  if (status == AB_OK) status = copy_config(golden, config, configs);
  if (status == AB_OK) status = copy_provenance(golden, provenance);
  if (status != AB_OK) ab_golden_free(golden);
  AB_TRY(status);
  *out = golden;
  return AB_OK;
}

static ab_status stale(const char *what, const char *key, const char *there, const char *here) {
  return AB_FAIL(AB_EMISMATCH, "%s is stale: config key '%s' is %s there and %s here", what, key,
                 there ? there : "absent", here ? here : "absent");
}

static const struct ab_pair_text *find_pair(const struct ab_pair_text *in_order, size_t count, const char *key) {
  const struct ab_pair_text wanted = {key, NULL};
  return count ? bsearch(&wanted, in_order, count, sizeof *in_order, by_key) : NULL;
}

static ab_status check_lack(const struct ab_golden *g, const struct ab_pair_text *in_order, size_t count,
                            const char *what) {
  for (size_t i = 0; i < g->configs; i++)
    if (!find_pair(in_order, count, g->config[i].key))
      return stale(what, g->config[i].key, g->config[i].value, NULL);
  return AB_OK;
}

ab_status ab_golden_check_config(const struct ab_golden *golden, const struct ab_pair_text *config, size_t configs,
                                 const char *what) {
  struct ab_pair_text *copy;
  AB_TRY(sorted(&copy, config, configs));
  ab_status status = check_lack(golden, copy, configs, what);
  ab_mem_free(copy);
  AB_TRY(status);
  for (size_t i = 0; i < configs; i++) {
    const struct ab_pair_text *there = find_pair(golden->config, golden->configs, config[i].key);
    if (!there || strcmp(there->value, config[i].value) != 0)
      return stale(what, config[i].key, there ? there->value : NULL, config[i].value);
  }
  return AB_OK;
}
