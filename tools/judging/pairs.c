#include <string.h>

#include "judgement.h"
#include "mem.h"

/* The config on its way into pairs. */
struct collector {
  struct ab_pair_text *pair;
  size_t count, room;
  ab_status status;
  bool derived; /* which keys are collected */
};

/* Where a run writes and what it is called changes no number. */
static bool changes_numbers(const char *key) {
  return strcmp(key, "run_name") != 0 && strcmp(key, "base_output_directory") != 0;
}

static ab_status add(struct collector *c, const char *key, const char *value) {
  if (c->count == c->room) {
    AB_TRY(ab_mem_resize(&c->pair, 2 * c->room + 64, sizeof *c->pair));
    c->room = 2 * c->room + 64;
  }
  c->pair[c->count++] = (struct ab_pair_text){key, value};
  return AB_OK;
}

static void collect(void *ctx, const char *key, const char *value, const char *source) {
  struct collector *c = ctx;
  bool derived = strcmp(source, "derived") == 0;
  if (c->status == AB_OK && derived == c->derived && changes_numbers(key)) c->status = add(c, key, value);
}

ab_status ab_config_pairs(struct ab_pair_text **out, size_t *count, const struct ab_config *config) {
  struct collector c = {0};
  ab_config_each(config, collect, &c);
  c.derived = true;
  ab_config_each(config, collect, &c);
  if (c.status != AB_OK) {
    ab_mem_free(c.pair);
    return c.status;
  }
  *out = c.pair;
  *count = c.count;
  return AB_OK;
}
