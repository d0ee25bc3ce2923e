/* What a run has to say beside its verdicts. */
#include <stdarg.h>
#include <stdio.h>

#include "judgement.h"
#include "mem.h"

void ab_judgement_trouble(struct ab_judgement *j, enum ab_exit exit, const char *sentence) {
  if (!j->extra_sentence[0]) snprintf(j->extra_sentence, sizeof j->extra_sentence, "%s", sentence);
  j->extra = ab_exit_fold(j->extra, exit);
}

ab_status ab_judgement_note(struct ab_judgement *j, const char *format, ...) {
  char text[512];
  va_list args;
  if (j->notes == AB_NOTES_MAX) return AB_OK;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  AB_TRY(ab_mem_string(&j->note[j->notes], text));
  j->notes++;
  return AB_OK;
}
