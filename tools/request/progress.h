/* One line on standard error while sides run: which side, which step, about how long it takes yet. Only on a terminal,
 * after a second, and erased at the end; never in a pipe or under CI.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "recording.h"

enum { AB_PROGRESS_SIDES = 16 };
struct ab_progress {
  bool on, shown;
  double start, last, after;          /* seconds on the monotonic clock; after: none before that many */
  const char *label;                  /* of the case in a suite, "" for none; borrowed */
  size_t steps, sides, planned;       /* steps of a side; sides that began, sides that will */
  const struct ab_recording *side[AB_PROGRESS_SIDES];
  size_t reached[AB_PROGRESS_SIDES];  /* steps */
};

/* choice: "always" (also in a pipe, at once), "never", "auto" or NULL. planned: sides that will run at least. */
void ab_progress_begin(struct ab_progress *progress, const char *choice, const char *label, size_t steps,
                       size_t planned);
/* What a side has sent so far; name is shown escaped. Costs two comparisons unless a line is due. */
void ab_progress_take(struct ab_progress *progress, const char *name, const struct ab_recording *recording);
void ab_progress_end(struct ab_progress *progress);

/* The part in front of the line's end, as it is shown; seconds: since the start. */
void ab_progress_print(char *text, size_t size, const struct ab_progress *progress, const char *name, size_t step,
                       double seconds);
