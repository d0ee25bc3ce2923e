/* What the two forms of a report share. */
#pragma once

#include "report.h"

/* The verdict whose worst tensor and first divergence people see: the first with a failure, else the one that came
 * nearest to its bound. NULL when there is none. */
const struct ab_verdict *ab_report_shown(const struct ab_report *report);
