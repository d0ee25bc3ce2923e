#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "golden_command.h"
#include "mem.h"
#include "options.h"
#include "outcome.h"
#include "text.h"

enum { OPTIONS = 12, REASON_LETTERS = 3, REASON_MAX = 1000 };

static void table(struct ab_option out[OPTIONS], struct ab_golden_words *w) {
  const struct ab_option rows[OPTIONS] = {
      {.name = "reason", .argument = "TEXT", .help = "why the numbers change (record, accept): stands in the golden",
       .text = &w->reason},
      {.name = "keep", .argument = "all|ends", .help = "record: ends leaves out tensors between first and last step",
       .text = &w->keep},
      {.name = "from", .argument = "DIR", .help = "accept: take the pending files that a CI run uploaded",
       .text = &w->from},
      {.name = "timeout", .argument = "S", .help = "seconds a side may take (default 600)", .number = &w->timeout},
      {.name = "runs", .argument = "N", .help = "calibrate: how many (default 59, the least for 95 % of 95 %)",
       .number = &w->runs},
      {.name = "seed", .argument = "S", .help = "calibrate: what the changes are drawn from (default 1)",
       .number = &w->seed},
      {.name = "verbose", .help = "calibrate: a line per run", .flag = &w->verbose},
      {.name = "no-run", .help = "check: look at the files only", .flag = &w->no_run},
      {.name = "no-pending", .help = "check: write no pending files", .flag = &w->no_pending},
      {0}};
  memcpy(out, rows, sizeof rows);
}

static ab_status parse(struct ab_golden_words *w, int argc, char **argv, size_t least, size_t most, const char *what) {
  struct ab_option options[OPTIONS];
  table(options, w);
  AB_TRY(ab_mem_new(&w->word, (size_t)argc + 1, sizeof *w->word));
  AB_TRY(ab_options_parse(&(struct ab_command_line){"", options}, argc, argv, w->word, &w->words));
  if (w->words < least || w->words > most)
    return AB_FAIL(AB_ECONFIG, "%s was given %zu words; expected %s (ab_golden --help)", argv[0], w->words, what);
  return AB_OK;
}

ab_status ab_golden_words_parse(struct ab_golden_words *out, int argc, char **argv, size_t least, size_t most,
                                const char *what) {
  *out = (struct ab_golden_words){0};
  ab_status status = parse(out, argc, argv, least, most, what);
  if (status != AB_OK) ab_golden_words_free(out);
  AB_TRY(status);
  return AB_OK;
}

void ab_golden_words_free(struct ab_golden_words *words) {
  ab_mem_free(words->word);
  words->word = NULL;
}

void ab_golden_words_help(FILE *out) {
  struct ab_golden_words none = {0};
  struct ab_option options[OPTIONS];
  table(options, &none);
  ab_options_help(out, &(struct ab_command_line){"", options});
}

int ab_golden_complain(const char *sentence) { return ab_complain("ab_golden", sentence); }

int ab_golden_refuse(int code) {
  bool memory = ab_status_code() == AB_ENOMEM; /* whatever it was needed for */
  ab_golden_complain(ab_status_message());
  ab_status_clear();
  return memory ? AB_EXIT_USAGE : code;
}

ab_status ab_golden_check_reason(const char *reason) {
  size_t letters = 0;
  if (!reason) return AB_FAIL(AB_ECONFIG, "no --reason TEXT was given: the golden's changelog says why it changed");
  if (!ab_text_is_printable(reason))
    return AB_FAIL(AB_ECONFIG, "the reason '%.80s' holds control characters, some that turn a line or invalid UTF-8; "
                   "expected one line", reason);
  for (const unsigned char *p = (const unsigned char *)reason; *p; p++) letters += isalnum(*p) || *p >= 0x80;
  if (letters < REASON_LETTERS || strlen(reason) > REASON_MAX)
    return AB_FAIL(AB_ECONFIG, "the reason is '%.40s'; expected %d letters or more, %d bytes at most", reason,
                   REASON_LETTERS, REASON_MAX);
  return AB_OK;
}

ab_status ab_golden_check_not_ci(void) {
  const char *ci = getenv("CI");
  if (!ci || !*ci || strcmp(ci, "0") == 0 || strcmp(ci, "false") == 0) return AB_OK;
  return AB_FAIL(AB_ECONFIG, "environment variable CI is '%.40s': nothing is recorded or accepted in CI; a comparison "
                 "there writes golden.pending.json for `ab_golden accept --from` elsewhere", ci);
}
