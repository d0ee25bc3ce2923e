#include "bench_memory.h"

#include <stdio.h>
#include <string.h>

#include "observed.h"
#include "run.h"

enum { COUNTERS_MAX = 64 };

/* Bytes kept, by name, summed over the cells of the step. */
struct kept {
  size_t count;
  struct kept_row {
    char name[AB_NAME_MAX];
    int64_t bytes;
  } row[COUNTERS_MAX];
};

static bool starts_with(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

static ab_status on_count(void *ctx, const char *name, const struct ab_identity *id, const struct ab_where *at,
                          int64_t amount) {
  struct kept *kept = ctx;
  size_t i = 0;
  (void)id;
  (void)at;
  if (!starts_with(name, AB_COUNT_RESIDUAL) && !starts_with(name, AB_COUNT_HOST)) return AB_OK;
  while (i < kept->count && strcmp(kept->row[i].name, name) != 0) i++;
  if (i == COUNTERS_MAX) return AB_FAIL(AB_ENOMEM, "a side keeps tensors of %d names and more", COUNTERS_MAX);
  if (i == kept->count) snprintf(kept->row[kept->count++].name, sizeof kept->row[i].name, "%s", name);
  kept->row[i].bytes += amount;
  return AB_OK;
}

static const struct ab_probe_ops counting = {.count = on_count};

/* "modern/stack_run.c" of any path. */
static const char *tail_of(const char *file) {
  const char *last = strrchr(file, '/'), *at = last;
  while (at && at > file && at[-1] != '/') at--;
  return at ? at : file;
}

static void put_account(struct ab_json_writer *w, const struct ab_run_account *account) {
  ab_json_put_int64(w, "parameter_bytes", (int64_t)account->slab.peak_bytes);
  ab_json_put_int64(w, "step_bytes", (int64_t)account->arena.peak_bytes);
  ab_json_put_array(w, "step", false);
  for (size_t i = 0; i < account->arena.peak_count; i++) {
    const struct ab_arena_item *item = &account->arena.peak[i];
    char place[256];
    snprintf(place, sizeof place, "%s %s", tail_of(item->taker.file), item->taker.function);
    ab_json_put_object(w, NULL, true);
    ab_json_put_string(w, "place", place);
    ab_json_put_string(w, "pointer", item->taker.pointer);
    ab_json_put_int64(w, "bytes", (int64_t)item->bytes);
    ab_json_put_end(w);
  }
  ab_json_put_end(w);
}

static void put_kept(struct ab_json_writer *w, const struct kept *kept) {
  ab_json_put_array(w, "kept", false);
  for (size_t i = 0; i < kept->count; i++) {
    ab_json_put_object(w, NULL, true);
    ab_json_put_string(w, "name", kept->row[i].name);
    ab_json_put_int64(w, "bytes", kept->row[i].bytes);
    ab_json_put_end(w);
  }
  ab_json_put_end(w);
}

static void put(struct ab_json_writer *w, const struct bench_case *c, const struct ab_run_account *account,
                const struct kept *kept) {
  ab_json_put_object(w, NULL, false);
  ab_json_put_string(w, "case", c->name);
  ab_json_put_string(w, "what", c->what);
  ab_json_put_string(w, "route", c->route);
  put_account(w, account);
  put_kept(w, kept);
  ab_json_put_end(w);
}

static ab_status account_of(struct ab_run_account *out, const struct bench_case *c, const struct ab_case *opened,
                            struct kept *kept) {
  struct ab_run run = {.config = opened->config, .steps = 1, .probe = &counting, .probe_ctx = kept};
  AB_TRY(ab_route_find(&run.route, c->route));
  run.kernels = ab_route_kernels(run.route, AB_NUMERICS_FAST);
  AB_TRY(ab_run_account(out, &run));
  return AB_OK;
}

ab_status bench_memory_put(struct ab_json_writer *w, const struct bench_case *c) {
  struct ab_case opened;
  struct ab_run_account account;
  struct kept kept = {0};
  AB_TRY(bench_case_open(&opened, c));
  ab_status status = account_of(&account, c, &opened, &kept);
  if (status == AB_OK) {
    put(w, c, &account, &kept);
    ab_run_account_free(&account);
  }
  ab_case_close(&opened);
  return status;
}
