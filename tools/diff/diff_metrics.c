#include "diff_metrics.h"

#include <stdio.h>
#include <string.h>

#include "trainer.h"

static const char *const types[] = {"null", "a boolean", "a number", "a string", "an array", "an object"};

static ab_status no_metric(const struct ab_json *value, const char *due) {
  char reason[128];
  snprintf(reason, sizeof reason, "is %s%s, expected %s", types[ab_json_type(value)],
           ab_json_type(value) == AB_JSON_OBJECT ? " without a value" : "", due);
  return ab_json_fail(value, reason);
}

/* NULL: it is no metric. */
static const struct ab_json *value_of(const struct ab_json *member) {
  bool number = ab_json_type(member) == AB_JSON_NUMBER || ab_json_find(member, "nonfinite");
  return number ? member : ab_json_find(member, "value");
}

static ab_status add_metric(struct ab_recording *recording, const struct ab_json *member, int step) {
  struct ab_metric metric = {.step = step};
  const struct ab_json *value = value_of(member);
  if (!value) return no_metric(member, "a number or an object with a value");
  if (strlen(ab_json_key(member)) >= sizeof metric.name) return ab_json_fail(member, "has too long a name");
  snprintf(metric.name, sizeof metric.name, "%s", ab_json_key(member));
  if (ab_recording_metric(recording, step, metric.name)) return ab_json_fail(member, "is a metric of step 0 once more");
  AB_TRY(ab_json_double_or_nonfinite(&metric.value, value));
  return ab_recording_add_metric(recording, &metric);
}

static ab_status add_step(struct ab_recording *recording, const struct ab_json *object, int step) {
  if (ab_json_type(object) != AB_JSON_OBJECT) return no_metric(object, "an object of metrics");
  if (!ab_json_size(object)) return ab_json_fail(object, "is empty, expected one metric or more");
  for (const struct ab_json *member = ab_json_first(object); member; member = ab_json_next(member))
    AB_TRY(add_metric(recording, member, step));
  return AB_OK;
}

static ab_status add_steps(struct ab_recording *recording, const struct ab_json *steps) {
  int step = 0;
  if (ab_json_type(steps) != AB_JSON_ARRAY) return no_metric(steps, "an array of steps");
  for (const struct ab_json *one = ab_json_first(steps); one; one = ab_json_next(one))
    AB_TRY(add_step(recording, one, step++));
  return AB_OK;
}

static bool bears_the_name(const struct ab_json *member) {
  for (const struct ab_metric_field *f = ab_metric_fields; f->name; f++)
    if (strcmp(f->name, ab_json_key(member)) == 0) return true;
  return false;
}

ab_status ab_diff_metrics(struct ab_recording *recording, const struct ab_json *expected) {
  if (ab_json_type(expected) != AB_JSON_OBJECT) return no_metric(expected, "an object");
  for (const struct ab_json *member = ab_json_first(expected); member; member = ab_json_next(member)) {
    if (strcmp(ab_json_key(member), "schema") == 0) continue;
    if (strcmp(ab_json_key(member), "steps") == 0)
      AB_TRY(add_steps(recording, member));
    else if (value_of(member) || bears_the_name(member))
      AB_TRY(add_metric(recording, member, 0));
  }
  return AB_OK;
}
