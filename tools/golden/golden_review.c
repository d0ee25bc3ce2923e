#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "golden_command.h"
#include "golden_diff.h"
#include "mem.h"
#include "outcome.h"
#include "pending.h"
#include "text.h"

enum { SHOWN = 10 };

static void print_move(FILE *out, const struct ab_golden_move *m) {
  char text[AB_IDENTITY_TEXT], shown[AB_IDENTITY_TEXT + 32];
  if (m->metric) snprintf(text, sizeof text, "step %d %s", m->id.step, m->id.tensor);
  else ab_identity_print(text, &m->id);
  ab_text_escape(shown, sizeof shown, text);
  if (m->kind == AB_MOVE_VALUE)
    fprintf(out, "  %-12.6g %s (%s %.9g -> %.9g)\n", m->change, shown, m->metric ? "value" : "L2", m->before, m->after);
  else
    fprintf(out, "  %-12s %s\n", ab_move_name(m->kind), shown);
}

static void print_summary(FILE *out, const struct ab_golden_diff *d) {
  char key[256];
  size_t keys = d->keys_changed + d->keys_added + d->keys_removed;
  fprintf(out, "moved: %zu of %zu compared; added %zu, removed %zu, reshaped %zu\n", d->of_kind[AB_MOVE_VALUE],
          d->compared, d->of_kind[AB_MOVE_ADDED], d->of_kind[AB_MOVE_REMOVED], d->of_kind[AB_MOVE_RESHAPED]);
  ab_text_escape(key, sizeof key, keys ? d->key : "");
  if (keys)
    fprintf(out, "config: %zu keys changed, %zu added, %zu removed, first '%s'\n", d->keys_changed, d->keys_added,
            d->keys_removed, key);
  if (d->moves) fprintf(out, "first changed step: %d\n", d->first_step);
  if (d->of_kind[AB_MOVE_VALUE])
    fprintf(out, "relative change: at most %.6g; quantiles 50 %% %.6g, 90 %% %.6g, 99 %% %.6g\n", d->largest, d->q50,
            d->q90, d->q99);
}

ab_status ab_golden_print_diff(FILE *out, const struct ab_golden *old, const struct ab_golden *now) {
  struct ab_golden_diff d;
  AB_TRY(ab_golden_diff(&d, old, now));
  print_summary(out, &d);
  if (d.moves) fputs("worst first:\n", out);
  for (size_t i = 0; i < d.moves && i < SHOWN; i++) print_move(out, &d.move[i]);
  if (d.moves > SHOWN) fprintf(out, "  ... and %zu more\n", d.moves - SHOWN);
  ab_golden_diff_free(&d);
  return AB_OK;
}

static int say_pending(const struct ab_golden_case *c, const struct ab_pending *p) {
  static const char tool[] = "ab_golden";
  int code = ab_say(tool, "%s: %s; engines and oracle %s", c->folder, p->cause,
                    p->engines_equal ? "agree" : "DISAGREE: cannot be accepted");
  if (code == AB_EXIT_EQUAL) code = ab_say(tool, "%s", p->verdict);
  if (code == AB_EXIT_EQUAL) code = ab_say(tool, "made by: %s", p->command);
  if (code != AB_EXIT_EQUAL) return code;
  return ab_say(tool, "build: %s, changes %s", ab_golden_provenance(p->golden, "commit"),
                ab_golden_provenance(p->golden, "diff_hash"));
}

static int say_diff(const struct ab_golden_case *c, const struct ab_pending *p) {
  struct ab_golden *old;
  if (!c->has_golden)
    return ab_say("ab_golden", "there is no golden.json: it cannot be accepted; ab_golden record records the case "
                  "anew");
  if (ab_golden_read(&old, c->golden) != AB_OK) return ab_golden_refuse(AB_EXIT_GOLDEN);
  ab_status status = ab_golden_print_diff(stdout, old, p->golden);
  ab_golden_free(old);
  return status == AB_OK ? AB_EXIT_EQUAL : ab_golden_refuse(AB_EXIT_GOLDEN);
}

static int show(const struct ab_golden_case *c) {
  struct ab_pending p;
  if (ab_pending_read(&p, c->pending) != AB_OK) return ab_golden_refuse(AB_EXIT_GOLDEN);
  int code = say_pending(c, &p);
  if (code == AB_EXIT_EQUAL) code = say_diff(c, &p);
  ab_pending_free(&p);
  return code;
}

/* A line from the terminal without its newline; false at its end. */
static bool ask(char *line, size_t size, const char *prompt) {
  fputs(prompt, stdout);
  fflush(stdout);
  if (!fgets(line, (int)size, stdin)) return false;
  line[strcspn(line, "\r\n")] = '\0';
  return true;
}

static int ask_and_accept(const struct ab_golden_case *c, long timeout) {
  char reason[1024];
  if (!ask(reason, sizeof reason, "reason: ")) return AB_EXIT_EQUAL;
  return ab_golden_accept_one(c, c->pending, reason, timeout);
}

/* false: quit. *code is what became of the case. */
static bool decide(int *code, const struct ab_golden_case *c, long timeout) {
  char line[64];
  *code = AB_EXIT_EQUAL;
  for (;;) {
    if (!ask(line, sizeof line, "[a]ccept, [r]eject, [s]kip, [q]uit? ")) return false;
    if (line[0] && line[1]) continue;
    switch (line[0]) {
    case 'a': *code = ask_and_accept(c, timeout); return true;
    case 'r': *code = ab_golden_reject_one(c); return true;
    case 's': return true;
    case 'q': return false;
    default: break;
    }
  }
}

/* To be typed into a shell. */
static int say_choices(const struct ab_golden_case *c) {
  char *folder;
  if (ab_mem_new(&folder, 4 * strlen(c->folder) + 5, 1) != AB_OK) return ab_golden_refuse(AB_EXIT_USAGE);
  ab_shell_word(folder, 0, c->folder);
  int code = ab_say("ab_golden", "accept: ab_golden accept %s --reason TEXT; or: ab_golden reject %s", folder, folder);
  ab_mem_free(folder);
  return code;
}

static int review_all(const struct ab_golden_cases *cases, const struct ab_golden_words *w) {
  bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO), on = true;
  int all = AB_EXIT_EQUAL;
  size_t found = 0;
  for (size_t i = 0; i < cases->count && on; i++) {
    const struct ab_golden_case *c = &cases->row[i];
    if (!c->has_pending) continue;
    if (found++) putchar('\n');
    int code = show(c);
    if (code == AB_EXIT_EQUAL && terminal) on = decide(&code, c, w->timeout);
    else if (code == AB_EXIT_EQUAL) code = say_choices(c);
    all = (int)ab_exit_fold((enum ab_exit)all, (enum ab_exit)code);
  }
  if (!found) puts("nothing is pending");
  return all;
}

int ab_golden_review(int argc, char **argv) { return ab_golden_with_cases(argc, argv, review_all); }
