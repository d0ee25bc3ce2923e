/* The metrics of an expected.json, in float64 as JSON numbers are.
 *
 * A metric is a number or an object with a `value`; a number that is not finite is written {"nonfinite": "nan"}. They
 * stand in the objects of the array `steps`, where nothing else stands, or beside it as those of step 0, among members
 * that describe the file: those are passed over unless they bear the name of a metric.
 */
#pragma once

#include "json.h"
#include "recording.h"

/* AB_EFORMAT naming file and key for what is no metric where one is due, and for one that is stated twice. */
ab_status ab_diff_metrics(struct ab_recording *recording, const struct ab_json *expected);
