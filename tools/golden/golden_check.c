#include <stdio.h>
#include <string.h>

#include "golden_command.h"
#include "mem.h"
#include "outcome.h"

/* Everything that is wrong with one case; the exit code is their fold. */
struct finding {
  const char *folder;
  int code;
};

static void fault(struct finding *f, int code, const char *sentence) {
  int said = ab_say("ab_golden", "not ok %s: %s", f->folder, sentence);
  f->code = (int)ab_exit_fold((enum ab_exit)f->code, (enum ab_exit)(said ? said : code));
}

static void take(struct finding *f, ab_status status) {
  if (status == AB_OK) return;
  fault(f, ab_status_code() == AB_ENOMEM ? AB_EXIT_USAGE : AB_EXIT_GOLDEN, ab_status_message());
  ab_status_clear();
}

static bool same(const struct ab_golden *a, const struct ab_golden *b, const char *const *parts) {
  for (size_t i = 0; parts[i]; i++)
    if (strcmp(ab_golden_provenance(a, parts[i]), ab_golden_provenance(b, parts[i])) != 0) return false;
  return true;
}

/* By provenance: what is another now than when the golden was made. */
static const char *what_moved(const struct ab_golden *then, const struct ab_golden *now) {
  static const char *const code[] = {"version", "commit", "diff_hash", NULL};
  static const char *const environment[] = {"compiler", "flags", "kernels", "blas_core", NULL};
  static const char *const words[2][2] = {
      {"code and environment are those of the golden: it was edited, or the run is not deterministic",
       "same environment, other code: the code moved"},
      {"same code, other environment: the environment moved", "code and environment are both others"}};
  return words[!same(then, now, environment)][!same(then, now, code)];
}

static void say_what_moved(struct finding *f, const struct ab_golden *golden, const struct ab_judgement *j) {
  struct ab_golden *now;
  if (!j->side || !j->side[AB_SIDE_A].values) return;
  if (ab_golden_of(&now, j, golden->selection) != AB_OK) {
    take(f, AB_EFORMAT);
    return;
  }
  ab_say("ab_golden", "  %s (commit %s, changes %s, %s then; commit %s, changes %s, %s now)", what_moved(golden, now),
         ab_golden_provenance(golden, "commit"), ab_golden_provenance(golden, "diff_hash"),
         ab_golden_provenance(golden, "compiler"), ab_golden_provenance(now, "commit"),
         ab_golden_provenance(now, "diff_hash"), ab_golden_provenance(now, "compiler"));
  ab_golden_free(now);
}

static void judge(struct finding *f, const struct ab_golden *golden, struct ab_judgement *j) {
  struct ab_outcome outcome;
  if (ab_judgement_run(j) != AB_OK || ab_outcome_new(&outcome, j, "ab_golden") != AB_OK) {
    fault(f, AB_EXIT_USAGE, ab_status_message());
    return;
  }
  int code = (int)ab_report_exit(&outcome.report);
  ab_outcome_free(&outcome);
  if (code == AB_EXIT_EQUAL) return;
  fault(f, code, "it is not reproduced");
  ab_outcome_print(j, "ab_golden");
  say_what_moved(f, golden, j);
}

static void reproduce(struct finding *f, const struct ab_golden *golden, const struct ab_golden_words *w) {
  struct ab_judgement j;
  struct ab_request request = ab_golden_request(f->folder, NULL, w->timeout);
  request.ignore_golden = false;
  request.no_pending = w->no_pending;
  if (ab_judgement_open(&j, &request) != AB_OK) {
    fault(f, AB_EXIT_USAGE, ab_status_message());
    return;
  }
  judge(f, golden, &j);
  ab_judgement_close(&j);
}

static void check_files(struct finding *f, const struct ab_golden_case *c) {
  if (c->has_pending) fault(f, AB_EXIT_GOLDEN, "golden.pending.json awaits review: ab_golden review");
  if (c->unlisted) fault(f, AB_EXIT_GOLDEN, "the inventory does not name this case");
  if (c->has_golden && !c->has_config) fault(f, AB_EXIT_GOLDEN, "golden.json is an orphan: there is no config.yml");
  if (!c->has_golden && c->has_config) fault(f, AB_EXIT_GOLDEN, "there is no golden.json");
  if (!c->has_golden && !c->has_config) fault(f, AB_EXIT_GOLDEN, "there is neither config.yml nor golden.json");
}

static int check_one(const struct ab_golden_case *c, const struct ab_golden_words *w) {
  struct finding f = {.folder = c->folder};
  struct ab_golden *golden = NULL;
  check_files(&f, c);
  if (c->has_golden) take(&f, ab_golden_read(&golden, c->golden));
  if (golden) {
    take(&f, ab_golden_check_genuine(golden, c->golden));
    take(&f, ab_golden_check_explained(golden, c->golden));
  }
  if (golden && c->has_config && !w->no_run) reproduce(&f, golden, w);
  ab_golden_free(golden);
  return f.code == AB_EXIT_EQUAL ? ab_say("ab_golden", "ok %s", c->folder) : f.code;
}

static int check_all(const struct ab_golden_cases *cases, const struct ab_golden_words *w) {
  int all = AB_EXIT_EQUAL;
  size_t failed = 0;
  for (size_t i = 0; i < cases->count; i++) {
    int code = check_one(&cases->row[i], w);
    fflush(stdout);
    failed += code != AB_EXIT_EQUAL;
    all = (int)ab_exit_fold((enum ab_exit)all, (enum ab_exit)code);
  }
  printf("%zu goldens checked%s, %zu failed\n", cases->count, w->no_run ? " without running them" : "", failed);
  return all;
}

static const char *state_of(const struct ab_golden_case *c) {
  if (c->has_golden && !c->has_config) return "orphan: no config.yml";
  if (!c->has_golden) return c->has_config ? "no golden.json" : "lost: neither config.yml nor golden.json";
  if (c->unlisted) return "not in the inventory";
  return c->has_pending ? "pending" : "-";
}

static int list_numbers(const struct ab_golden *g, const struct ab_golden_case *c) {
  char digest[33];
  if (ab_golden_content_digest(digest, g) != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  int code = ab_say("ab_golden", "  schema: " AB_GOLDEN_SCHEMA "; recorded: %s; %s; digest: %s; state: %s",
                    ab_golden_created(g), g->calibration ? "calibrated" : "not calibrated", digest, state_of(c));
  if (code != AB_EXIT_EQUAL) return code;
  return ab_say("ab_golden", "  reason: %s", g->changes ? g->changelog[g->changes - 1].reason : "none");
}

static int list_one(const struct ab_golden_case *c) {
  struct ab_golden *g = NULL;
  if (c->has_golden && ab_golden_read(&g, c->golden) != AB_OK) return ab_golden_refuse(AB_EXIT_GOLDEN);
  int code = ab_say("ab_golden", "%s", c->folder);
  if (code == AB_EXIT_EQUAL) code = g ? list_numbers(g, c) : ab_say("ab_golden", "  state: %s", state_of(c));
  ab_golden_free(g);
  return code;
}

static int list_all(const struct ab_golden_cases *cases, const struct ab_golden_words *w) {
  int all = AB_EXIT_EQUAL;
  (void)w;
  for (size_t i = 0; i < cases->count; i++)
    all = (int)ab_exit_fold((enum ab_exit)all, (enum ab_exit)list_one(&cases->row[i]));
  return all;
}

int ab_golden_check(int argc, char **argv) { return ab_golden_with_cases(argc, argv, check_all); }
int ab_golden_list(int argc, char **argv) { return ab_golden_with_cases(argc, argv, list_all); }
