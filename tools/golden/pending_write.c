#include <stdio.h>
#include <string.h>

#include "file.h"
#include "golden_of.h"
#include "mem.h"
#include "pending.h"

bool ab_pending_wanted(const struct ab_judgement *j) {
  const struct ab_request *r = &j->request;
  bool own = j->golden && !r->golden && !r->ignore_golden && j->opened.folder;
  bool as_recorded = !r->override_count && !r->steps && !r->devices && !r->intended_oracle;
  bool other = r->a_bin || r->b_bin || r->a_rev || r->b_rev || r->a_cmd || r->b_cmd;
  bool ours = !other && j->a->arithmetic == AB_ARITHMETIC_F32;
  return own && as_recorded && ours && !r->no_pending &&
         strcmp(ab_numerics_name(j->opened.numerics), j->golden->numerics) == 0;
}

static bool engines_equal(const struct ab_judgement *j) {
  bool equal = j->verdicts >= 3 && !j->counts_wrong;
  for (size_t i = 0; equal && i < 3; i++) equal = j->verdict[i].exit == AB_EXIT_EQUAL;
  return equal;
}

static void describe(char *text, size_t size, const struct ab_judgement *j) {
  if (j->stale) {
    snprintf(text, size, "%s", j->extra_sentence);
    return;
  }
  for (size_t i = 0; i < j->verdicts; i++) {
    const struct ab_verdict *v = &j->verdict[i];
    char id[AB_IDENTITY_TEXT] = "structure";
    if (strcmp(v->name_b, "golden") != 0 || v->exit == AB_EXIT_EQUAL) continue;
    if (v->failing) ab_identity_print(id, &v->first.id);
    snprintf(text, size, "%s against golden: %zu fail, first %s", v->name_a, v->failing, id);
    return;
  }
}

static ab_status fill(struct ab_pending *p, const struct ab_judgement *j) {
  char from[33], text[1200] = "";
  describe(text, sizeof text, j);
  p->engines_equal = engines_equal(j);
  AB_TRY(ab_golden_content_digest(from, j->golden));
  AB_TRY(ab_mem_string(&p->from, from));
  AB_TRY(ab_mem_string(&p->verdict, text));
  AB_TRY(ab_mem_string(&p->cause, ab_cause_name(j->cause)));
  AB_TRY(ab_request_command(&p->command, &j->request, j->opened.config));
  AB_TRY(ab_golden_of(&p->golden, j, j->golden->selection));
  return AB_OK;
}

/* Under the lock: the golden must still be the one that was compared with. */
static ab_status check_golden(const struct ab_judgement *j, const char *from) {
  struct ab_golden *there;
  char digest[33];
  AB_TRY(ab_golden_read(&there, j->opened.golden_path));
  ab_status status = ab_golden_content_digest(digest, there);
  ab_golden_free(there);
  AB_TRY(status);
  if (strcmp(digest, from) == 0) return AB_OK;
  return AB_FAIL(AB_EMISMATCH, "'%s' was replaced meanwhile", j->opened.golden_path);
}

static ab_status place(const struct ab_judgement *j, const struct ab_pending *p, const char *path) {
  int lock;
  AB_TRY(ab_folder_lock(&lock, j->request.target));
  ab_status status = ab_folder_sweep(j->request.target);
  if (status == AB_OK) status = check_golden(j, p->from);
  if (status == AB_OK) status = ab_pending_write(p, path);
  ab_folder_unlock(lock);
  return status;
}

static ab_status write(struct ab_judgement *j, const char *path) {
  struct ab_pending p = {0};
  ab_status status = fill(&p, j);
  if (status == AB_OK) status = place(j, &p, path);
  ab_pending_free(&p);
  AB_TRY(status);
  return ab_judgement_note(j, "wrote %s: `ab_golden review %s` shows what moved", path, j->request.target);
}

ab_status ab_judgement_pend(struct ab_judgement *j) {
  char *path;
  bool ran = j->side[AB_SIDE_A].values && j->verdicts;
  if ((!j->stale && !j->golden_differs) || !ran || !ab_pending_wanted(j)) return AB_OK;
  AB_TRY(ab_path_join(&path, j->request.target, "golden.pending.json"));
  ab_status status = write(j, path);
  ab_mem_free(path);
  if (status == AB_OK || j->request.require_pending || status == AB_ENOMEM) return status;
  char sentence[400];
  snprintf(sentence, sizeof sentence, "%s", ab_status_message());
  ab_status_clear();
  return ab_judgement_note(j, "no pending golden was written: %s", sentence);
}
