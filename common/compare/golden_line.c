#include <stdio.h>
#include <string.h>

#include "file.h"
#include "mem.h"
#include "report_parts.h"

/* The object that is being passed: its numbers come before its name. */
struct place {
  int step, microbatch, layer;
};

static bool begins(struct place *at, const char *line) {
  return sscanf(line, " \"step\": %d", &at->step) == 1 || sscanf(line, " \"microbatch\": %d", &at->microbatch) == 1 ||
         sscanf(line, " \"layer\": %d", &at->layer) == 1;
}

static bool has(const char *line, size_t length, const char *wanted) {
  const char *found = strstr(line, wanted);
  return found && found + strlen(wanted) <= line + length;
}

/* A tensor's phase is on the line after its name. */
static bool is(const struct ab_finding *f, const struct place *at, const char *line, size_t length) {
  char name[AB_NAME_MAX + 16], phase[32];
  snprintf(name, sizeof name, "\"%s\": \"%s\"", f->metric ? "name" : "tensor", f->id.tensor);
  if (!has(line, length, name) || at->step != f->id.step) return false;
  if (f->metric) return true;
  const char *next = line + length + strspn(line + length, "\n");
  snprintf(phase, sizeof phase, "\"phase\": \"%s\"", ab_phase_name(f->id.phase));
  return at->microbatch == f->id.microbatch && at->layer == f->id.layer && has(next, strcspn(next, "\n"), phase);
}

static size_t find(const char *text, const struct ab_finding *f) {
  struct place at = {-1, -1, -1};
  size_t number = 1, length;
  for (const char *line = text; *line; line += length + (line[length] == '\n'), number++) {
    length = strcspn(line, "\n");
    if (!begins(&at, line) && is(f, &at, line, length)) return number;
  }
  return 1;
}

ab_status ab_golden_line(size_t *out, const char *path, const struct ab_finding *finding) {
  char *text;
  size_t size;
  ab_status status = ab_file_read(&text, &size, path, ab_json_default_limits.bytes);
  *out = 1;
  if (status == AB_ENOMEM) return status;
  if (status != AB_OK) {
    ab_status_clear();
    return AB_OK;
  }
  *out = find(text, finding);
  ab_mem_free(text);
  return AB_OK;
}
