#include <stdio.h>
#include <string.h>

#include "file.h"
#include "golden_command.h"
#include "mem.h"
#include "outcome.h"
#include "pending.h"

/* One acceptance on its way. */
struct acceptance {
  const struct ab_golden_case *c;
  struct ab_pending pending;
  struct ab_golden *old, *fresh;
  bool own;                      /* the case's own pending file, made here; else by a run elsewhere */
};

/* Codes: AB_EMISMATCH stale, AB_EFORMAT and the like unreadable: all exit 4. */
static ab_status read_both(struct acceptance *a, const char *path) {
  char digest[33];
  AB_TRY(ab_pending_read(&a->pending, path));
  if (!a->c->has_config) return AB_FAIL(AB_EMISMATCH, "%s has no config.yml: it is no case", a->c->folder);
  /* A comparison leaves a pending golden only beside a golden: without it nothing says what may not be lost. */
  bool there;
  AB_TRY(ab_file_find(&there, a->c->golden));
  if (!there)
    return AB_FAIL(AB_EMISMATCH, "%s is an orphan: there is no %s that it would follow; restore that, or record the "
                   "case anew: ab_golden record", path, a->c->golden);
  AB_TRY(ab_golden_read(&a->old, a->c->golden));
  AB_TRY(ab_golden_content_digest(digest, a->old));
  if (a->pending.from && strcmp(a->pending.from, digest) == 0) return AB_OK;
  return AB_FAIL(AB_EMISMATCH, "%s was made against a golden with content %s, %s holds %s: compare again", path,
                 a->pending.from ? a->pending.from : "unknown", a->c->golden, digest);
}

/* Bits of another build are proof enough when they are reproduced here; here, the build that was reviewed must run. */
static ab_status check_build(const struct acceptance *a, const char *path) {
  static const char *const parts[] = {"version", "commit", "diff_hash", "compiler", "flags"};
  for (size_t i = 0; a->own && i < sizeof parts / sizeof *parts; i++) {
    const char *there = ab_golden_provenance(a->pending.golden, parts[i]);
    const char *here = ab_golden_provenance(a->fresh, parts[i]);
    if (strcmp(there, here) != 0)
      return AB_FAIL(AB_EMISMATCH, "%s was made by another build (%s %s there, %s here): compare again", path, parts[i],
                     there, here);
  }
  return AB_OK;
}

/* What was reviewed is what would be recorded. */
static ab_status check_same(const struct acceptance *a, const char *path) {
  char there[33], here[33];
  const struct ab_golden *fresh = a->fresh;
  AB_TRY(ab_golden_check_config(a->pending.golden, fresh->config, fresh->configs, path));
  AB_TRY(check_build(a, path));
  AB_TRY(ab_golden_content_digest(there, a->pending.golden));
  AB_TRY(ab_golden_content_digest(here, fresh));
  if (strcmp(there, here) == 0) return AB_OK;
  return AB_FAIL(AB_EMISMATCH, "%s holds content %s, this run gave %s: it is not reproduced", path, there, here);
}

ab_status ab_golden_drop_pending(const struct ab_golden_case *c) {
  bool there;
  AB_TRY(ab_file_find(&there, c->pending));
  if (there) AB_TRY(ab_file_remove(c->pending));
  return AB_OK;
}

/* The golden first: a pending file that outlives a crash names an older golden and is refused. */
static int put_in_place(struct acceptance *a, const char *path) {
  if (ab_golden_write(a->fresh, a->c->golden) != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  if (ab_golden_drop_pending(a->c) != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  return ab_say("ab_golden", "accepted %s into %s", path, a->c->golden);
}

static int run(struct acceptance *a, const char *path, const char *reason, long timeout) {
  const struct ab_golden *wanted = a->pending.golden;
  if (!a->pending.engines_equal) {
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%.300s: the engines or the oracle disagreed when it was made (%.80s)", path,
             a->pending.cause);
    ab_golden_complain(sentence);
    return AB_EXIT_DIFFERENT;
  }
  if (ab_file_check_replace(a->c->golden) != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  int code = ab_golden_fresh(&a->fresh, a->c->folder, wanted->numerics, timeout, wanted->selection);
  if (code != AB_EXIT_EQUAL) return code;
  if (check_same(a, path) != AB_OK || ab_golden_follow(a->fresh, a->old, reason, false) != AB_OK)
    return ab_golden_refuse(AB_EXIT_GOLDEN);
  return put_in_place(a, path);
}

static int accept_locked(const struct ab_golden_case *c, const char *path, const char *reason, long timeout) {
  struct acceptance a = {.c = c, .own = strcmp(path, c->pending) == 0};
  bool there;
  if (ab_file_find(&there, path) != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  if (!there) {
    char sentence[512];
    snprintf(sentence, sizeof sentence, "there is no '%.400s': nothing to accept", path);
    return ab_golden_complain(sentence);
  }
  int code = read_both(&a, path) == AB_OK ? run(&a, path, reason, timeout) : ab_golden_refuse(AB_EXIT_GOLDEN);
  ab_pending_free(&a.pending);
  ab_golden_free(a.old);
  ab_golden_free(a.fresh);
  return code;
}

int ab_golden_accept_one(const struct ab_golden_case *c, const char *pending, const char *reason, long timeout) {
  int lock;
  if (ab_golden_check_not_ci() != AB_OK || ab_golden_check_reason(reason) != AB_OK)
    return ab_golden_refuse(AB_EXIT_USAGE);
  if (ab_golden_case_lock(&lock, c) != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  int code = accept_locked(c, pending, reason, timeout);
  ab_folder_unlock(lock);
  return code;
}

/* DIR/<case as given>/golden.pending.json, or DIR/<its name>/golden.pending.json; links in DIR are not followed. */
static ab_status uploaded(char **out, const char *from, const struct ab_golden_case *c) {
  const char *slash = strrchr(c->folder, '/'), *names[] = {c->folder, slash ? slash + 1 : c->folder};
  for (int i = 0; i < 2; i++) {
    struct ab_file file;
    char *name;
    if (names[i][0] == '/') continue;
    AB_TRY(ab_path_join(&name, names[i], "golden.pending.json"));
    ab_status status = ab_file_open_beneath(&file, from, name);
    if (status == AB_OK) status = ab_mem_string(out, file.path);
    if (status == AB_OK) ab_file_close(&file);
    ab_mem_free(name);
    if (status == AB_OK) return AB_OK;
    if (status != AB_ENOTFOUND && status != AB_EFORMAT) return status;
    ab_status_clear();
  }
  *out = NULL;
  return AB_OK;
}

/* *code: AB_EXIT_EQUAL when there is nothing for this case. */
static ab_status accept_from(int *code, size_t *found, const struct ab_golden_case *c,
                             const struct ab_golden_words *w) {
  char *path;
  *code = AB_EXIT_EQUAL;
  AB_TRY(uploaded(&path, w->from, c));
  if (!path) return AB_OK;
  ++*found;
  *code = ab_golden_accept_one(c, path, w->reason, w->timeout);
  ab_mem_free(path);
  return AB_OK;
}

static int accept_all(const struct ab_golden_cases *cases, const struct ab_golden_words *w) {
  int code, all = AB_EXIT_EQUAL;
  size_t found = 0;
  if (!w->words && !w->from) return ab_golden_complain("accept needs the CASE_DIR that is accepted, or --from DIR");
  if (ab_golden_check_not_ci() != AB_OK || ab_golden_check_reason(w->reason) != AB_OK)
    return ab_golden_refuse(AB_EXIT_USAGE);
  for (size_t i = 0; i < cases->count; i++) {
    const struct ab_golden_case *c = &cases->row[i];
    if (!w->from) code = ab_golden_accept_one(c, c->pending, w->reason, w->timeout);
    else if (accept_from(&code, &found, c, w) != AB_OK) code = ab_golden_refuse(AB_EXIT_USAGE);
    all = (int)ab_exit_fold((enum ab_exit)all, (enum ab_exit)code);
  }
  if (w->from && !found && all == AB_EXIT_EQUAL) /* what was refused was there */
    return ab_golden_complain("no golden.pending.json in the --from folder fits a case");
  return all;
}

int ab_golden_accept(int argc, char **argv) { return ab_golden_with_cases(argc, argv, accept_all); }

static int reject_locked(const struct ab_golden_case *c) {
  if (ab_file_remove(c->pending) != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  return ab_say("ab_golden", "removed %s", c->pending);
}

int ab_golden_reject_one(const struct ab_golden_case *c) {
  int lock;
  if (ab_golden_case_lock(&lock, c) != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  int code = reject_locked(c);
  ab_folder_unlock(lock);
  return code;
}

static int reject_all(const struct ab_golden_cases *cases, const struct ab_golden_words *w) {
  int all = AB_EXIT_EQUAL;
  if (!w->words) return ab_golden_complain("reject needs the CASE_DIR whose pending golden is removed");
  for (size_t i = 0; i < cases->count; i++)
    all = (int)ab_exit_fold((enum ab_exit)all, (enum ab_exit)ab_golden_reject_one(&cases->row[i]));
  return all;
}

int ab_golden_reject(int argc, char **argv) { return ab_golden_with_cases(argc, argv, reject_all); }
