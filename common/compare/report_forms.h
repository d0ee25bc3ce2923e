/* Report files: one row of a table per form. What a form is given is one comparison, or the cases of a suite one after
 * another; what it gives is one text.
 */
#pragma once

#include "page.h"
#include "report.h"

#define AB_SUITE_SCHEMA "abpipe-suite/1"

/* One comparison or one case of a suite; everything is borrowed for the call. */
struct ab_entry {
  const char *name;               /* of the case */
  const char *skip;               /* why it did not run; NULL: it ran */
  const char *because;            /* why it could not run; NULL: there is a report */
  const struct ab_report *report; /* NULL with skip or because */
  const char *config, *golden;    /* files to point at, from the top of the repository; NULL: none */
  double seconds;
  void (*members)(struct ab_json_writer *writer, const void *ctx); /* of a case of a suite's JSON, or NULL */
  const void *ctx;
};

/* What all entries of a file share. */
struct ab_about {
  const char *tool, *version;
  const char *suite; /* path of the list; NULL: one comparison */
};

struct ab_form;
enum { AB_EXITS = 7, AB_MARKDOWN_MOST = 56 * 1024 };
/* A file in the making. */
struct ab_sheet {
  const struct ab_form *form;
  struct ab_about about;
  struct ab_page body, rows;   /* rows: of a table in front of the body */
  struct ab_json_writer *json;
  size_t entries, skipped, ended[AB_EXITS]; /* cases by exit code */
  size_t tests, failures, errors, skips;    /* JUnit's test cases */
  size_t left_out[2];          /* beyond what a host shows: errors and warnings, or bodies */
  size_t shown[2];
  double seconds;
  enum ab_exit exit;           /* of all; set by ab_sheet_finish */
};

struct ab_form {
  const char *option;   /* "json": without the dashes */
  const char *argument; /* "FILE|-"; NULL: a flag, and the text goes to standard output */
  const char *help;
  ab_status (*begin)(struct ab_sheet *sheet); /* or NULL */
  ab_status (*entry)(struct ab_sheet *sheet, const struct ab_entry *entry);
  ab_status (*finish)(struct ab_page *out, struct ab_sheet *sheet);
};
enum ab_form_kind { AB_FORM_JSON, AB_FORM_JUNIT, AB_FORM_MARKDOWN, AB_FORM_GITHUB, AB_FORMS };
extern const struct ab_form ab_forms[AB_FORMS];

ab_status ab_sheet_open(struct ab_sheet *out, enum ab_form_kind kind, const struct ab_about *about);
ab_status ab_sheet_entry(struct ab_sheet *sheet, const struct ab_entry *entry);
/* The text, owned by the caller; exit is that of all entries. */
ab_status ab_sheet_finish(char **out, struct ab_sheet *sheet, enum ab_exit exit);
/* Accepts a zeroed one. */
void ab_sheet_close(struct ab_sheet *sheet);
/* The exit code of an entry that ran. */
enum ab_exit ab_entry_exit(const struct ab_entry *entry);
