#include <string.h>

#include "golden_internal.h"
#include "mem.h"

void ab_golden_free_changelog(struct ab_golden *g) {
  for (size_t i = 0; i < g->changes; i++) {
    struct ab_golden_change *c = &g->changelog[i];
    char *texts[] = {c->date, c->reason, c->from, c->digest};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) ab_mem_free(texts[t]);
  }
  ab_mem_free(g->changelog);
}

static ab_status set(char **out, const char *text, size_t most) {
  if (!text) return AB_OK;
  AB_TRY(ab_mem_string(out, text));
  if (strlen(text) > most) (*out)[most] = '\0';
  return AB_OK;
}

/* An empty entry at the end; whatever is filled in is freed with the golden. Room grows at powers of two, so that a
 * long log costs no more per entry than a short one. */
static ab_status add(struct ab_golden_change **out, struct ab_golden *g) {
  size_t count = g->changes;
  if ((count & (count - 1)) == 0) AB_TRY(ab_mem_resize(&g->changelog, count ? 2 * count : 1, sizeof *g->changelog));
  *out = &g->changelog[g->changes++];
  **out = (struct ab_golden_change){0};
  return AB_OK;
}

/* Strings are copied; NULL stays NULL. */
static ab_status append(struct ab_golden *g, const struct ab_golden_change *from) {
  struct ab_golden_change *c;
  AB_TRY(add(&c, g));
  c->largest = from->largest;
  AB_TRY(set(&c->date, from->date, 10));
  AB_TRY(set(&c->reason, from->reason, SIZE_MAX));
  AB_TRY(set(&c->from, from->from, SIZE_MAX));
  AB_TRY(set(&c->digest, from->digest, SIZE_MAX));
  return AB_OK;
}

ab_status ab_golden_log(struct ab_golden *g, const char *date, const char *reason, const char *from, double largest) {
  char digest[33], *texts[3] = {0};
  AB_TRY(ab_golden_content_digest(digest, g));
  ab_status status = set(&texts[0], date, 10);
  if (status == AB_OK) status = set(&texts[1], reason, SIZE_MAX);
  if (status == AB_OK) status = set(&texts[2], from, SIZE_MAX);
  if (status == AB_OK)
    status = append(g, &(struct ab_golden_change){texts[0], texts[1], texts[2], digest, largest});
  for (int i = 0; i < 3; i++) ab_mem_free(texts[i]);
  AB_TRY(status);
  return AB_OK;
}

ab_status ab_golden_inherit(struct ab_golden *g, const struct ab_golden *old) {
  struct ab_golden_change *own = g->changelog;
  size_t owned = g->changes;
  struct ab_golden rest = {.changelog = own, .changes = owned};
  g->changelog = NULL;
  g->changes = 0;
  ab_status status = AB_OK;
  for (size_t i = 0; i < old->changes && status == AB_OK; i++) status = append(g, &old->changelog[i]);
  for (size_t i = 0; i < owned && status == AB_OK; i++) status = append(g, &own[i]);
  ab_golden_free_changelog(&rest);
  AB_TRY(status);
  return AB_OK;
}

static void put_change(struct ab_json_writer *w, const struct ab_golden_change *c) {
  ab_json_put_object(w, NULL, false);
  ab_json_put_string(w, "date", c->date);
  ab_json_put_string(w, "reason", c->reason);
  if (c->from) ab_json_put_string(w, "from", c->from);
  if (c->digest) ab_json_put_string(w, "digest", c->digest);
  if (c->largest >= 0) ab_json_put_double(w, "largest_change", c->largest);
  ab_json_put_end(w);
}

void ab_golden_put_changelog(struct ab_json_writer *w, const struct ab_golden *g) {
  ab_json_put_array(w, "changelog", false);
  for (size_t i = 0; i < g->changes; i++) put_change(w, &g->changelog[i]);
  ab_json_put_end(w);
}

/* Entries from before there were digests: "date reason". */
static ab_status get_line(struct ab_golden *g, const struct ab_json *entry) {
  const char *line;
  char *date;
  AB_TRY(ab_json_string(&line, entry));
  size_t length = strcspn(line, " ");
  AB_TRY(ab_mem_string(&date, line));
  date[length] = '\0';
  char *reason = date + length + (line[length] == ' ');
  ab_status status = append(g, &(struct ab_golden_change){date, line[length] ? reason : date + length, NULL, NULL, -1});
  ab_mem_free(date);
  return status;
}

static ab_status get_optional(char **out, const struct ab_json *object, const char *key) {
  const struct ab_json *value = ab_json_find(object, key);
  const char *text;
  *out = NULL;
  if (!value) return AB_OK;
  AB_TRY(ab_json_string(&text, value));
  if (strlen(text) != 32 || strspn(text, "0123456789abcdef") != 32)
    return ab_json_fail(value, "is not a digest of 32 hex digits");
  return ab_mem_string(out, text);
}

static ab_status fill(struct ab_golden_change *c, const struct ab_json *entry) {
  static const char *const keys[] = {"date", "reason", "?from", "?digest", "?largest_change", NULL};
  const char *date, *reason;
  AB_TRY(ab_json_only_keys(entry, keys, AB_GOLDEN_SCHEMA));
  AB_TRY(ab_json_get_string(&date, entry, "date"));
  AB_TRY(ab_json_get_string(&reason, entry, "reason"));
  c->largest = -1;
  if (ab_json_find(entry, "largest_change")) {
    AB_TRY(ab_json_get_double(&c->largest, entry, "largest_change"));
    if (c->largest < 0) return ab_json_fail(ab_json_find(entry, "largest_change"), "is negative");
  }
  AB_TRY(ab_mem_string(&c->date, date));
  AB_TRY(ab_mem_string(&c->reason, reason));
  AB_TRY(get_optional(&c->from, entry, "from"));
  AB_TRY(get_optional(&c->digest, entry, "digest"));
  return AB_OK;
}

static ab_status get_change(struct ab_golden *g, const struct ab_json *entry) {
  if (ab_json_type(entry) == AB_JSON_STRING) return get_line(g, entry);
  if (ab_json_type(entry) != AB_JSON_OBJECT) return ab_json_fail(entry, "is neither an object nor a line of text");
  struct ab_golden_change *change;
  AB_TRY(add(&change, g));
  return fill(change, entry);
}

ab_status ab_golden_get_changelog(struct ab_golden *g, const struct ab_json *root) {
  const struct ab_json *array;
  AB_TRY(ab_json_get_array(&array, root, "changelog"));
  for (const struct ab_json *m = ab_json_first(array); m; m = ab_json_next(m)) AB_TRY(get_change(g, m));
  return AB_OK;
}

static bool blank(const char *text) { return strspn(text, " \t") == strlen(text); }

ab_status ab_golden_check_explained(const struct ab_golden *g, const char *what) {
  char digest[33];
  if (!g->changes) return AB_FAIL(AB_EMISMATCH, "%s: the changelog is empty, expected a reason", what);
  for (size_t i = 0; i < g->changes; i++)
    if (blank(g->changelog[i].reason))
      return AB_FAIL(AB_EMISMATCH, "%s: changelog entry %zu has no reason", what, i + 1);
  const char *last = g->changelog[g->changes - 1].digest;
  AB_TRY(ab_golden_content_digest(digest, g));
  if (last && strcmp(last, digest) == 0) return AB_OK;
  return AB_FAIL(AB_EMISMATCH, "%s: its content has digest %s, the last changelog entry explains %s", what, digest,
                 last ? last : "none");
}

/* Whether a number is another than the first one seen. */
static bool varies(double *first, bool *seen, const double *values, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (*seen && values[i] != *first) return true;
    *first = values[i];
    *seen = true;
  }
  return false;
}

ab_status ab_golden_check_genuine(const struct ab_golden *g, const char *what) {
  double first = 0;
  bool seen = false, other = false;
  size_t elements = 0;
  for (size_t i = 0; i < g->leaves; i++) {
    elements += g->leaf[i].summary.count;
    other |= varies(&first, &seen, g->leaf[i].sample, AB_SAMPLES);
  }
  for (size_t i = 0; i < g->metrics; i++) other |= varies(&first, &seen, &g->metric[i].value, 1);
  if (!g->leaves || !elements) return AB_FAIL(AB_EMISMATCH, "%s is a placeholder: its leaves hold no element", what);
  if (!other) return AB_FAIL(AB_EMISMATCH, "%s is a placeholder: every number in it is %g", what, first);
  return AB_OK;
}
