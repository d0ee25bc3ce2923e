#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "verdict.h"

const char *ab_change_name(enum ab_change change) {
  static const char *const names[] = {[AB_CHANGE_MISSING] = "missing", [AB_CHANGE_ADDED] = "added",
                                      [AB_CHANGE_RESHAPED] = "reshaped", [AB_CHANGE_RETYPED] = "retyped"};
  return names[change];
}

const char *ab_evidence_name(enum ab_evidence evidence) {
  static const char *const names[] = {[AB_EVIDENCE_DIGEST] = "digest", [AB_EVIDENCE_VALUES] = "values",
                                      [AB_EVIDENCE_ESTIMATE] = "estimate", [AB_EVIDENCE_SCALAR] = "scalar"};
  return names[evidence];
}

struct ab_expected ab_expected_none(void) {
  struct ab_expected expected = {.steps = AB_UNCOUNTED};
  for (int q = 0; q < AB_QUANTITIES; q++) expected.tensors[q] = expected.elements[q] = AB_UNCOUNTED;
  return expected;
}

enum { SHOWN_GROUPS = 3 };

/* One more of a list; what does not fit is left out. */
__attribute__((format(printf, 2, 3))) static void list(char text[AB_LACK_TEXT], const char *format, ...) {
  va_list args;
  size_t used = strlen(text);
  if (used) snprintf(text + used, AB_LACK_TEXT - used, ", ");
  used = strlen(text);
  va_start(args, format);
  vsnprintf(text + used, AB_LACK_TEXT - used, format, args);
  va_end(args);
}

static void list_tally(char text[AB_LACK_TEXT], const char *name, const struct ab_tally *t) {
  if (t->expected != AB_UNCOUNTED && t->compared != t->expected)
    list(text, "%s %zu of %zu", name, t->compared, t->expected);
}

/* Identities that differ say more than the counts that follow from them. */
static void list_counts(char text[AB_LACK_TEXT], const struct ab_verdict *v) {
  for (int q = 0; q < AB_QUANTITIES; q++) list_tally(text, ab_quantity_name((enum ab_quantity)q), &v->by_quantity[q]);
  list_tally(text, "steps", &v->steps);
  if (!text[0]) list_tally(text, "elements", &v->elements);
}

static size_t compared_tensors(const struct ab_verdict *v) {
  size_t sum = 0;
  for (int q = 0; q < AB_QUANTITIES; q++) sum += q == AB_Q_METRIC ? 0 : v->by_quantity[q].compared;
  return sum;
}

void ab_verdict_lack(char text[AB_LACK_TEXT], const struct ab_verdict *v) {
  text[0] = '\0';
  for (size_t i = 0; i < v->groups && i < SHOWN_GROUPS; i++)
    list(text, "%s %s (%zu)", ab_change_name(v->group[i].change), v->group[i].pattern, v->group[i].count);
  if (v->groups + v->groups_left_out > SHOWN_GROUPS) list(text, "and more");
  if (v->unjudged) list(text, "%zu tensors differ and have no values to judge by", v->unjudged);
  if (!v->changed && !v->counts_right) list_counts(text, v);
  if (!ab_verdict_compared(v) && !text[0])
    list(text, "nothing could be compared%s", v->any ? ": no tensor has an element" : "");
}

void ab_verdict_note_nonfinite(char text[AB_LACK_TEXT], const struct ab_verdict *v) {
  text[0] = '\0';
  if (v->nonfinite)
    list(text, "%zu values are NaN or infinite: they are equal to nothing, not even to themselves", v->nonfinite);
}

void ab_verdict_note_empty(char text[AB_LACK_TEXT], const struct ab_verdict *v) {
  text[0] = '\0';
  if (v->empty)
    list(text, "%zu of %zu tensors %s no element: only %s shape and dtype were compared, first %s", v->empty,
         compared_tensors(v), v->empty > 1 ? "have" : "has", v->empty > 1 ? "their" : "its", v->first_empty);
}
