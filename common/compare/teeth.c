#include "teeth.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "page.h"

enum { SHOWN = 8 };

void ab_teeth_unobserved(struct ab_teeth *teeth, const char *name, const char *format, ...) {
  va_list args;
  if (teeth->unobserveds == AB_UNOBSERVED_MAX) {
    teeth->unobserved_left_out++;
    return;
  }
  struct ab_unobserved *row = &teeth->unobserved[teeth->unobserveds++];
  snprintf(row->name, sizeof row->name, "%s", name);
  va_start(args, format);
  vsnprintf(row->reason, sizeof row->reason, format, args);
  va_end(args);
}

__attribute__((format(printf, 2, 3))) static void say(struct ab_page *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  ab_page_vsay(t, AB_ESCAPE_TERMINAL, format, args);
  va_end(args);
}

static void end_line(struct ab_page *t) { ab_page_put(t, "\n"); }

/* "controls: 21 of 21 caught (n/a: swapped stages: one stage)" */
static void line_controls(struct ab_page *t, const struct ab_controls *c) {
  size_t caught = ab_controls_count(c, AB_CONTROL_CAUGHT), missed = ab_controls_count(c, AB_CONTROL_MISSED);
  const char *why = NULL; /* of the last that is n/a: neighbours share theirs */
  say(t, "controls: %zu of %zu caught", caught, caught + missed);
  for (size_t i = 0; i < AB_CONTROLS; i++) {
    const struct ab_control_result *r = &c->row[i];
    if (r->outcome != AB_CONTROL_NA) continue;
    if (why && strcmp(why, r->why) == 0) say(t, ", %s", ab_control_name(i));
    else if (why) say(t, ": %s; %s", why, ab_control_name(i));
    else say(t, " (n/a: %s", ab_control_name(i));
    why = r->why;
  }
  if (why) say(t, ": %s)", why);
  end_line(t);
}

static void line_control(struct ab_page *t, size_t i, const struct ab_control_result *r) {
  say(t, "control: %s: %s", ab_control_name(i), ab_control_outcome_name(r->outcome));
  if (r->why[0]) say(t, ": %s", r->why);
  else say(t, ", exit %d of expected %d", (int)r->got, (int)r->expected);
  if (r->on[0]) say(t, " (%s)", r->on);
  say(t, "; guards against: %s", ab_control_meaning(i));
  end_line(t);
}

static void line_unobserved(struct ab_page *t, const struct ab_teeth *teeth, bool full) {
  if (teeth->unobservable) {
    say(t, "unobserved: n/a (%s)", teeth->unobservable);
    end_line(t);
    return;
  }
  size_t shown = full || teeth->unobserveds < SHOWN ? teeth->unobserveds : SHOWN;
  say(t, "unobserved: %s", shown ? "" : "no input");
  for (size_t i = 0; i < shown; i++) {
    const struct ab_unobserved *row = &teeth->unobserved[i];
    bool last = i + 1 == shown || strcmp(row->reason, row[1].reason) != 0;
    say(t, "%s%s", i ? ", " : "", row->name);
    if (last) say(t, " (%s)", row->reason);
  }
  size_t left = teeth->unobserveds - shown + teeth->unobserved_left_out;
  if (left) say(t, ", and %zu more", left);
  end_line(t);
}

static size_t count_blind(const struct ab_teeth *teeth, bool built) {
  size_t count = 0;
  for (size_t i = 0; i < teeth->blinds; i++) count += teeth->blind[i].built == built;
  return count;
}

static void put_blind(struct ab_page *t, const struct ab_teeth *teeth, bool built) {
  const char *between = "";
  for (size_t i = 0; i < teeth->blinds; i++) {
    if (teeth->blind[i].built != built) continue;
    say(t, "%s%s", between, teeth->blind[i].name);
    between = ", ";
  }
}

static void line_blind(struct ab_page *t, const struct ab_teeth *teeth) {
  say(t, "blind to: ");
  if (count_blind(teeth, true)) put_blind(t, teeth, true);
  else say(t, "nothing that this build can run");
  if (count_blind(teeth, false)) {
    say(t, " (not in this build: ");
    put_blind(t, teeth, false);
    say(t, ")");
  }
  end_line(t);
}

ab_status ab_teeth_text(char **out, const struct ab_teeth *teeth, bool full) {
  struct ab_page t = {0};
  if (teeth->controlled) line_controls(&t, &teeth->controls);
  for (size_t i = 0; full && teeth->controlled && i < AB_CONTROLS; i++) line_control(&t, i, &teeth->controls.row[i]);
  if (teeth->looked) line_unobserved(&t, teeth, full);
  if (teeth->looked) line_blind(&t, teeth);
  for (size_t i = 0; full && i < teeth->blinds; i++) {
    const struct ab_blind *b = &teeth->blind[i];
    say(&t, "blind: %s: %s; hides: %s", b->name, b->reason, b->hidden);
    end_line(&t);
  }
  AB_TRY(ab_page_take(out, &t));
  return AB_OK;
}

static void put_control(struct ab_json_writer *w, size_t i, const struct ab_control_result *r) {
  bool judged = !r->why[0];
  ab_json_put_object(w, NULL, false);
  ab_json_put_string(w, "name", ab_control_name(i));
  ab_json_put_string(w, "outcome", ab_control_outcome_name(r->outcome));
  ab_json_put_int64(w, "expected_exit", (int64_t)r->expected);
  if (judged) ab_json_put_int64(w, "got_exit", (int64_t)r->got);
  else ab_json_put_null(w, "got_exit");
  ab_json_put_string(w, "on", r->on);
  ab_json_put_string(w, "because", r->why);
  ab_json_put_string(w, "guards_against", ab_control_meaning(i));
  ab_json_put_end(w);
}

static void put_controls(struct ab_json_writer *w, const struct ab_controls *c) {
  ab_json_put_object(w, "controls", false);
  ab_json_put_int64(w, "caught", (int64_t)ab_controls_count(c, AB_CONTROL_CAUGHT));
  ab_json_put_int64(w, "missed", (int64_t)ab_controls_count(c, AB_CONTROL_MISSED));
  ab_json_put_int64(w, "not_applicable", (int64_t)ab_controls_count(c, AB_CONTROL_NA));
  ab_json_put_array(w, "list", false);
  for (size_t i = 0; i < AB_CONTROLS; i++) put_control(w, i, &c->row[i]);
  ab_json_put_end(w);
  ab_json_put_end(w);
}

static void put_unobserved(struct ab_json_writer *w, const struct ab_teeth *teeth) {
  ab_json_put_object(w, "unobserved", false);
  ab_json_put_bool(w, "perturbed", teeth->perturbed);
  ab_json_put_int64(w, "left_out", (int64_t)teeth->unobserved_left_out);
  if (teeth->unobservable) ab_json_put_string(w, "not_applicable", teeth->unobservable);
  else ab_json_put_null(w, "not_applicable");
  ab_json_put_array(w, "list", false);
  for (size_t i = 0; i < teeth->unobserveds; i++) {
    ab_json_put_object(w, NULL, false);
    ab_json_put_string(w, "input", teeth->unobserved[i].name);
    ab_json_put_string(w, "reason", teeth->unobserved[i].reason);
    ab_json_put_end(w);
  }
  ab_json_put_end(w);
  ab_json_put_end(w);
}

static void put_blind_list(struct ab_json_writer *w, const struct ab_teeth *teeth) {
  ab_json_put_array(w, "blind", false);
  for (size_t i = 0; i < teeth->blinds; i++) {
    const struct ab_blind *b = &teeth->blind[i];
    ab_json_put_object(w, NULL, false);
    ab_json_put_string(w, "name", b->name);
    ab_json_put_string(w, "reason", b->reason);
    ab_json_put_string(w, "hides", b->hidden);
    ab_json_put_bool(w, "in_this_build", b->built);
    ab_json_put_end(w);
  }
  ab_json_put_end(w);
}

void ab_teeth_put(struct ab_json_writer *w, const struct ab_teeth *teeth) {
  if (teeth && teeth->controlled) put_controls(w, &teeth->controls);
  else ab_json_put_null(w, "controls");
  if (teeth && teeth->looked) put_unobserved(w, teeth);
  else ab_json_put_null(w, "unobserved");
  if (teeth && teeth->looked) put_blind_list(w, teeth);
  else ab_json_put_null(w, "blind");
}
