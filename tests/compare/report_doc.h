/* The JSON form of a report as a text, as a tree, and the published schema that it must fit. */
#pragma once

#include <stdlib.h>

#include "mem.h"
#include "report.h"
#include "schema.h"
#include "tap.h"

/* *out is the caller's. */
static inline void report_json(char **out, const struct ab_report *report) {
  struct ab_json_writer *w;
  ck_ok(ab_json_writer_new(&w));
  ab_report_put(w, NULL, report);
  ck_ok(ab_json_writer_text(out, w));
}

static inline struct ab_json *json_of(const struct ab_report *report) {
  char *text;
  struct ab_json *root;
  report_json(&text, report);
  ck_ok(ab_json_parse(&root, text, strlen(text), "report", NULL));
  ab_mem_free(text);
  return root;
}

static inline struct ab_json *schema_root(void) {
  char path[1024];
  struct ab_json *root;
  snprintf(path, sizeof path, "%s/docs/report.schema.json", getenv("AB_SOURCE_ROOT"));
  ck_ok(ab_json_read(&root, path, NULL));
  return root;
}
