/* Bundles of the test data, copied to be spoiled. */
#pragma once

#include <unistd.h>

#include "bundle_case.h"
#include "file.h"

/* A copy of a case in a scratch folder, to be spoiled. */
struct copy {
  char *folder;
  struct ab_config *config;
};

static inline void copy_path(char text[512], const struct copy *copy, const char *file) {
  snprintf(text, 512, "%s/%s", copy->folder, file);
}

static inline void copy_file(const struct copy *copy, const char *name, const char *file) {
  char from[512], to[512], *bytes;
  size_t size;
  case_path(from, name, file);
  copy_path(to, copy, file);
  if (access(from, R_OK) != 0) return;
  ck_ok(ab_file_read(&bytes, &size, from, 1 << 26));
  ck_ok(ab_file_write(to, bytes, size));
  ab_mem_free(bytes);
}

static inline struct copy copy_new(const char *name) {
  static const char *const files[] = {"meta.json",           "expected.json",       "params.safetensors",
                                      "batch.safetensors",   "grads.safetensors",   "outputs.safetensors",
                                      "params_final.safetensors", "params_step1.safetensors"};
  struct copy copy = {.config = case_config(name)};
  ck_ok(ab_scratch_new(&copy.folder, NULL));
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) copy_file(&copy, name, files[i]);
  return copy;
}

static inline void copy_free(struct copy *copy) {
  ck_ok(ab_scratch_remove(copy->folder));
  ab_mem_free(copy->folder);
  ab_config_free(copy->config);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, 0);
}
