/* Test data: files under tests/fixtures/reference of the source tree. */
#pragma once

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

/* Parsed JSON of tests/fixtures/reference/<name>; ends the program when it is not there. */
static inline cJSON *fixture_json(const char *name) {
  char path[4096];
  const char *root = getenv("AB_SOURCE_ROOT");
  snprintf(path, sizeof path, "%s/tests/fixtures/reference/%s", root ? root : ".", name);
  FILE *file = fopen(path, "rb");
  if (!file) {
    fprintf(stderr, "%s: cannot be opened\n", path);
    exit(EXIT_FAILURE);
  }
  fseek(file, 0, SEEK_END);
  size_t size = (size_t)ftell(file);
  rewind(file);
  char *text = calloc(size + 1, 1);
  size_t got = fread(text, 1, size, file);
  fclose(file);
  cJSON *json = got == size ? cJSON_Parse(text) : NULL;
  free(text);
  if (!json) {
    fprintf(stderr, "%s: not JSON\n", path);
    exit(EXIT_FAILURE);
  }
  return json;
}
