/* What the forms of a report share. */
#pragma once

#include "report_forms.h"

/* The verdict whose worst tensor and first divergence people see: the first with a failure, else the one that came
 * nearest to its bound. NULL when there is none. */
const struct ab_verdict *ab_report_shown(const struct ab_report *report);
/* "DIFFERENT", "NOT COMPARABLE" ... */
const char *ab_headline(enum ab_exit exit);
/* "linen against nnx", with " (2)" where an earlier comparison of the report has the same names. */
void ab_report_put_names(struct ab_page *page, enum ab_escape as, const struct ab_report *report, size_t verdict);

/* Lines of the text report, "word: ...", escaped for a terminal, each with its end. */
void ab_report_put_compared(struct ab_page *page, const struct ab_verdict *verdict);
void ab_report_put_first(struct ab_page *page, const struct ab_verdict *verdict);
/* "<word>: ...", "values: ...", "bound: ...". */
void ab_report_put_finding(struct ab_page *page, const char *word, const struct ab_verdict *verdict,
                           const struct ab_finding *finding);

/* {"value", "bits", "dtype"} of an element, exactly. */
void ab_report_put_value(struct ab_json_writer *writer, const char *key, double value, uint64_t bits,
                         enum ab_dtype dtype);

/* The next line of such a text, without its end: *length bytes at the returned place; NULL at the end. *text moves on.
 */
const char *ab_next_line(const char **text, size_t *length);
/* The text of a page as a new page that other documents are made from: escaped line by line. */
void ab_page_relay(struct ab_page *page, enum ab_escape as, const char *text);

/* The four forms (report_forms.h). */
ab_status ab_json_sheet_begin(struct ab_sheet *sheet);
ab_status ab_json_sheet_entry(struct ab_sheet *sheet, const struct ab_entry *entry);
ab_status ab_json_sheet_finish(struct ab_page *out, struct ab_sheet *sheet);
ab_status ab_junit_entry(struct ab_sheet *sheet, const struct ab_entry *entry);
ab_status ab_junit_finish(struct ab_page *out, struct ab_sheet *sheet);
ab_status ab_markdown_entry(struct ab_sheet *sheet, const struct ab_entry *entry);
ab_status ab_markdown_finish(struct ab_page *out, struct ab_sheet *sheet);
ab_status ab_github_entry(struct ab_sheet *sheet, const struct ab_entry *entry);
ab_status ab_github_finish(struct ab_page *out, struct ab_sheet *sheet);
