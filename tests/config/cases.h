/* Shared by the configuration's suites: load from arguments or text, files in a scratch folder, no leak on any path.
 */
#pragma once

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "file.h"
#include "mem.h"
#include "tap.h"

enum { MAX_ARGUMENTS = 64 };

static inline const char *source_root(void) {
  const char *root = getenv("AB_SOURCE_ROOT");
  ck_assert_msg(root != NULL, "AB_SOURCE_ROOT is not set");
  return root;
}

/* "<source>/configs/base.yml" in a rotating buffer. */
static inline const char *source_path(const char *name) {
  static char paths[4][1024];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", source_root(), name);
  return path;
}

/* Splits a line at blanks into arguments; the line is changed. */
static inline size_t split_arguments(const char *out[MAX_ARGUMENTS], char *line) {
  size_t count = 0;
  for (char *word = strtok(line, " "); word; word = strtok(NULL, " ")) {
    ck_assert_uint_lt(count, MAX_ARGUMENTS);
    out[count++] = word;
  }
  return count;
}

/* file may be NULL; arguments are separated by blanks. The environment counts only when asked. */
static inline ab_status load_with(struct ab_config **out, const char *file, const char *arguments, bool inspect,
                                  bool environment) {
  char line[4096];
  const char *words[MAX_ARGUMENTS];
  snprintf(line, sizeof line, "%s", arguments);
  struct ab_config_request request = {.file = file, .overrides = words, .inspect = inspect};
  request.ignore_environment = !environment;
  request.override_count = split_arguments(words, line);
  return ab_config_load(out, &request);
}

static inline ab_status load(struct ab_config **out, const char *file, const char *arguments) {
  return load_with(out, file, arguments, false, false);
}

/* Loads, expects success, frees; for what is only to be accepted. */
static inline void must_accept(const char *file, const char *arguments) {
  size_t before = ab_mem_stats().live_blocks;
  struct ab_config *config = NULL;
  ab_status_clear();
  ab_status status = load(&config, file, arguments);
  ck_assert_msg(status == AB_OK, "'%s': %s [%s]", arguments, ab_status_message(), ab_status_trace());
  ck_assert_str_eq(ab_status_message(), "");
  ab_config_free(config);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, before);
}

/* Loads, expects AB_ECONFIG with the text in its sentence, nothing left behind and the output untouched. */
static inline void must_refuse(const char *file, const char *arguments, const char *text) {
  size_t before = ab_mem_stats().live_blocks;
  struct ab_config *config = NULL;
  ab_status status = load(&config, file, arguments);
  ck_assert_msg(status == AB_ECONFIG, "'%s': status %d, expected AB_ECONFIG (%s)", arguments, status,
                ab_status_message());
  ck_assert_msg(strstr(ab_status_message(), text) != NULL, "'%s': \"%s\" lacks \"%s\"", arguments,
                ab_status_message(), text);
  ck_assert_ptr_null(config);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, before);
}

/* A scratch folder for the files of one test. */
static inline char *new_scratch(void) {
  char *path = NULL;
  ck_ok(ab_scratch_new(&path, NULL));
  return path;
}

static inline void free_scratch(char *path) {
  ck_ok(ab_scratch_remove(path));
  ab_mem_free(path);
}

/* Writes <folder>/<name> and returns its path in a rotating buffer. */
static inline const char *write_text(const char *folder, const char *name, const char *text) {
  static char paths[8][1024];
  static int next;
  char *path = paths[next++ % 8];
  ck_assert_int_lt(snprintf(path, sizeof paths[0], "%s/%s", folder, name), (int)sizeof paths[0]);
  ck_ok(ab_file_write(path, text, strlen(text)));
  return path;
}

/* A pipeline of 2 stages, 4 microbatches, 2 repeats, 1 layer: 4 layers, 8 rows. */
#define PIPELINE                                                                                                     \
  "base_num_decoder_layers=4 ici_pipeline_parallelism=2 per_device_batch_size=4 num_pipeline_microbatches=4 "        \
  "max_target_length=8 "

/* A table of refusals: arguments behind the prefix, and what the sentence holds. */
struct row {
  const char *arguments, *sentence;
};

static inline void refuse_rows(const char *prefix, const struct row *rows, size_t count) {
  for (size_t i = 0; i < count; i++) {
    char arguments[1024];
    snprintf(arguments, sizeof arguments, "%s%s", prefix, rows[i].arguments);
    must_refuse(NULL, arguments, rows[i].sentence);
  }
}

#define REFUSE(prefix, rows) refuse_rows(prefix, rows, sizeof rows / sizeof rows[0])
