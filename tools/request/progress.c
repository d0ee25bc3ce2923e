#include "progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process.h"
#include "text.h"

enum { WIDTH = 78 };
static const char erase[] = "\r\x1b[K";

static bool is_set(const char *variable) {
  const char *value = getenv(variable);
  return value && *value;
}

static bool wanted(const char *choice) {
  const char *term = getenv("TERM");
  if (choice && strcmp(choice, "auto") != 0) return strcmp(choice, "always") == 0;
  return isatty(STDERR_FILENO) && !is_set("CI") && term && strcmp(term, "dumb") != 0;
}

void ab_progress_begin(struct ab_progress *p, const char *choice, const char *label, size_t steps, size_t planned) {
  bool at_once = choice && strcmp(choice, "always") == 0;
  *p = (struct ab_progress){.on = wanted(choice), .label = label ? label : "", .steps = steps, .planned = planned};
  p->start = p->last = ab_process_now();
  p->after = at_once ? 0 : 1;
}

/* The highest step that was seen, counted from 1. */
static size_t reached(const struct ab_recording *r) {
  int step = r->observations ? r->observation[r->observations - 1].observation.id.step : -1;
  int metric = r->metrics ? r->metric[r->metrics - 1].metric.step : -1;
  int last = step > metric ? step : metric;
  return last < 0 ? 0 : (size_t)last + 1;
}

/* The place of a side, which joins when there is room. */
static size_t place_of(struct ab_progress *p, const struct ab_recording *recording) {
  size_t i = 0;
  while (i < p->sides && p->side[i] != recording) i++;
  if (i == p->sides && i < AB_PROGRESS_SIDES) p->side[p->sides++] = recording;
  return i < AB_PROGRESS_SIDES ? i : AB_PROGRESS_SIDES - 1;
}

void ab_progress_print(char *text, size_t size, const struct ab_progress *p, const char *name, size_t step,
                       double seconds) {
  char line[512], left[48] = "";
  size_t done = 0, sides = p->sides > p->planned ? p->sides : p->planned;
  for (size_t i = 0; i < p->sides; i++) done += p->reached[i];
  size_t total = sides * p->steps;
  if (done && total > done)
    snprintf(left, sizeof left, ", about %.0f s left", seconds * (double)(total - done) / (double)done);
  snprintf(line, sizeof line, "%.200s%.100s: step %zu of %zu%s", p->label, name, step, p->steps, left);
  ab_text_escape(text, size, line);
}

void ab_progress_take(struct ab_progress *p, const char *name, const struct ab_recording *recording) {
  if (!p || !p->on) return;
  size_t step = reached(recording), place = place_of(p, recording);
  if (p->reached[place] == step) return;
  p->reached[place] = step;
  double time = ab_process_now();
  if (time - p->start < p->after || (p->shown && time - p->last < 0.1)) return;
  char text[WIDTH];
  ab_progress_print(text, sizeof text, p, name, step, time - p->start);
  fprintf(stderr, "%s%s", erase, text);
  p->shown = true;
  p->last = time;
}

void ab_progress_end(struct ab_progress *p) {
  if (p->shown) fputs(erase, stderr);
  p->shown = p->on = false;
}
