#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

static _Thread_local ab_status last;
static _Thread_local char message[1024];
static _Thread_local char trace[1024];

static const char *base_name(const char *file) {
  const char *slash = strrchr(file, '/');
  return slash ? slash + 1 : file;
}

static void append_place(const char *file, int line) {
  size_t used = strlen(trace);
  if (used + 2 >= sizeof trace) return;
  snprintf(trace + used, sizeof trace - used, "%s%s:%d", used ? " " : "", base_name(file), line);
}

void ab_status_fail(ab_status code, const char *file, int line, const char *format, ...) {
  last = code;
  char sentence[sizeof message]; /* an argument may be the message of a lower level */
  va_list args;
  va_start(args, format);
  vsnprintf(sentence, sizeof sentence, format, args);
  va_end(args);
  ab_text_escape(message, sizeof message, sentence);
  trace[0] = '\0';
  append_place(file, line);
}

void ab_status_pass(const char *file, int line) { append_place(file, line); }

const char *ab_status_message(void) { return message; }
ab_status ab_status_code(void) { return last; }
const char *ab_status_trace(void) { return trace; }

void ab_status_clear(void) {
  last = AB_OK;
  message[0] = '\0';
  trace[0] = '\0';
}
