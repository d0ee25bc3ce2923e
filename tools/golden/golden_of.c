#include "golden_of.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "json.h"
#include "mem.h"

/* SOURCE_DATE_EPOCH makes a recording reproducible. */
void ab_golden_now(char *text, size_t size) {
  const char *epoch = getenv("SOURCE_DATE_EPOCH");
  time_t seconds = epoch ? (time_t)strtoll(epoch, NULL, 10) : time(NULL);
  struct tm utc;
  if (!gmtime_r(&seconds, &utc) || !strftime(text, size, "%Y-%m-%dT%H:%M:%SZ", &utc)) snprintf(text, size, "unknown");
}

static const char *member(const struct ab_json *header, const char *key) {
  const char *text;
  if (ab_json_get_string(&text, header, key) == AB_OK) return text;
  ab_status_clear();
  return "unknown";
}

static struct ab_provenance provenance_of(const struct ab_json *header, const char *producer, const char *created) {
  int64_t threads = 0;
  if (ab_json_get_int64(&threads, header, "threads") != AB_OK) ab_status_clear();
  return (struct ab_provenance){.producer = producer,
                                .version = member(header, "version"),
                                .commit = member(header, "commit"),
                                .diff_hash = member(header, "diff_hash"),
                                .compiler = member(header, "compiler"),
                                .flags = member(header, "flags"),
                                .kernels = member(header, "kernels"),
                                .blas_core = member(header, "blas_core"),
                                .created = created,
                                .threads = (int)threads};
}

static ab_status make(struct ab_golden **out, const struct ab_judgement *j, const struct ab_json *header) {
  struct ab_pair_text *pairs;
  size_t count;
  char created[32], producer[96];
  ab_golden_now(created, sizeof created);
  snprintf(producer, sizeof producer, "ab_golden %s", j->a->name);
  struct ab_provenance provenance = provenance_of(header, producer, created);
  AB_TRY(ab_config_pairs(&pairs, &count, j->opened.config));
  ab_status status = ab_golden_new(out, j->side[AB_SIDE_A].recording, pairs, count, &provenance,
                                   ab_numerics_name(j->opened.numerics));
  ab_mem_free(pairs);
  return status;
}

ab_status ab_golden_of(struct ab_golden **out, const struct ab_judgement *j, enum ab_selection selection) {
  const char *text = j->side[AB_SIDE_A].recording->header;
  struct ab_json *header;
  struct ab_golden *golden;
  AB_TRY(ab_json_parse(&header, text, strlen(text), "stream header", NULL));
  ab_status status = make(&golden, j, header);
  ab_json_free(header);
  AB_TRY(status);
  status = ab_golden_select(golden, selection);
  if (status != AB_OK) ab_golden_free(golden);
  AB_TRY(status);
  *out = golden;
  return AB_OK;
}
