#include <stdio.h>
#include <string.h>

#include "file.h"
#include "golden_command.h"
#include "golden_diff.h"
#include "outcome.h"

/* As asked; else as the golden that is replaced; else all. */
static ab_status selection_of(enum ab_selection *out, const char *keep, const struct ab_golden *old) {
  *out = old ? old->selection : AB_SELECT_ALL;
  return keep ? ab_selection_find(out, keep) : AB_OK;
}

/* An old golden that is malformed is replaced without its changelog; one that cannot be read now is not. */
static ab_status old_of(struct ab_golden **out, const struct ab_golden_case *c) {
  *out = NULL;
  if (!c->has_golden) return AB_OK;
  ab_status status = ab_golden_read(out, c->golden);
  if (status == AB_ENOMEM || status == AB_EIO) return status;
  if (status != AB_OK) ab_status_clear();
  return AB_OK;
}

static ab_status print_and_inherit(double *largest, struct ab_golden *fresh, const struct ab_golden *old,
                                   bool may_shrink) {
  struct ab_golden_diff diff;
  AB_TRY(ab_golden_diff(&diff, old, fresh));
  *largest = diff.largest;
  ab_status status = may_shrink ? AB_OK : ab_golden_check_no_loss(&diff, "the golden");
  ab_golden_diff_free(&diff);
  AB_TRY(status);
  AB_TRY(ab_golden_print_diff(stdout, old, fresh));
  AB_TRY(ab_golden_inherit(fresh, old));
  return AB_OK;
}

ab_status ab_golden_follow(struct ab_golden *fresh, const struct ab_golden *old, const char *reason, bool may_shrink) {
  char from[33];
  double largest = -1;
  if (old) {
    AB_TRY(ab_golden_content_digest(from, old));
    AB_TRY(print_and_inherit(&largest, fresh, old, may_shrink));
  }
  AB_TRY(ab_golden_log(fresh, ab_golden_created(fresh), reason, old ? from : NULL, largest));
  return AB_OK;
}

/* What was pending against the old golden can no longer be accepted. */
static ab_status write(struct ab_golden *golden, const struct ab_golden *old, const struct ab_golden_case *c,
                       const char *reason) {
  AB_TRY(ab_golden_follow(golden, old, reason ? reason : "first recording", true));
  AB_TRY(ab_golden_write(golden, c->golden));
  AB_TRY(ab_golden_drop_pending(c));
  return AB_OK;
}

static int record_into(const struct ab_golden_case *c, const struct ab_golden *old, const struct ab_golden_words *w) {
  enum ab_selection selection;
  struct ab_golden *golden;
  if (selection_of(&selection, w->keep, old) != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  int code = ab_golden_fresh(&golden, c->folder, "portable", w->timeout, selection);
  if (code != AB_EXIT_EQUAL) return code;
  if (write(golden, old, c, w->reason) != AB_OK)
    code = ab_golden_refuse(AB_EXIT_USAGE);
  else
    code = ab_say("ab_golden", "recorded %s", c->golden);
  ab_golden_free(golden);
  return code;
}

/* Under the lock: another command may just have recorded it. */
static int record_locked(const struct ab_golden_case *c, const struct ab_golden_words *w) {
  if (c->has_golden && !w->reason)
    return ab_golden_complain("there is a golden.json in the case already; expected --reason TEXT to replace it");
  if (w->reason && ab_golden_check_reason(w->reason) != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  if (ab_file_check_replace(c->golden) != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  struct ab_golden *old;
  if (old_of(&old, c) != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  int code = record_into(c, old, w);
  ab_golden_free(old);
  return code;
}

static int record(const struct ab_golden_words *w) {
  struct ab_golden_case c;
  int lock;
  if (ab_golden_check_not_ci() != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  if (ab_golden_case_open(&c, w->word[0]) != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  int code = AB_EXIT_USAGE;
  if (ab_golden_case_lock(&lock, &c) == AB_OK) {
    ab_status status = ab_file_find(&c.has_golden, c.golden);
    code = status == AB_OK ? record_locked(&c, w) : ab_golden_refuse(code);
    ab_folder_unlock(lock);
  } else {
    ab_golden_refuse(code);
  }
  ab_golden_case_close(&c);
  return code;
}

int ab_golden_record(int argc, char **argv) {
  struct ab_golden_words w;
  if (ab_golden_words_parse(&w, argc, argv, 1, 1, "one CASE_DIR") != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  int code = record(&w);
  ab_golden_words_free(&w);
  return code;
}
