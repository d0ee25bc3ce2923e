/* The JSON form: one `abpipe-report/1`, or `abpipe-suite/1` around those of its cases. */
#include "report_parts.h"

ab_status ab_json_sheet_begin(struct ab_sheet *sheet) {
  AB_TRY(ab_json_writer_new(&sheet->json));
  if (!sheet->about.suite) return AB_OK;
  ab_json_put_object(sheet->json, NULL, false);
  ab_json_put_string(sheet->json, "schema", AB_SUITE_SCHEMA);
  ab_json_put_string(sheet->json, "tool", sheet->about.tool);
  ab_json_put_string(sheet->json, "version", sheet->about.version);
  ab_json_put_string(sheet->json, "suite", sheet->about.suite);
  ab_json_put_array(sheet->json, "cases", false);
  return AB_OK;
}

static void put_case(struct ab_json_writer *w, const struct ab_entry *e) {
  ab_json_put_object(w, NULL, false);
  ab_json_put_string(w, "name", e->name);
  if (e->skip) ab_json_put_string(w, "skip", e->skip);
  if (e->members) e->members(w, e->ctx);
  if (e->because) ab_json_put_string(w, "because", e->because);
  if (e->report) ab_report_put(w, "report", e->report);
  ab_json_put_end(w);
}

ab_status ab_json_sheet_entry(struct ab_sheet *sheet, const struct ab_entry *entry) {
  if (sheet->about.suite) put_case(sheet->json, entry);
  else if (entry->report) ab_report_put(sheet->json, NULL, entry->report);
  return AB_OK;
}

ab_status ab_json_sheet_finish(struct ab_page *out, struct ab_sheet *sheet) {
  const char *text;
  size_t size;
  if (sheet->about.suite) {
    ab_json_put_end(sheet->json);
    ab_json_put_int64(sheet->json, "exit_code", sheet->exit);
    ab_json_put_string(sheet->json, "exit_reason", ab_exit_reason(sheet->exit));
    ab_json_put_end(sheet->json);
  }
  AB_TRY(ab_json_writer_finish(&text, &size, sheet->json));
  ab_page_put(out, text);
  return AB_OK;
}
