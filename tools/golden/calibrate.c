#include "calibrate.h"

#include <stdio.h>
#include <string.h>

#include "file.h"
#include "json.h"
#include "kernels.h"
#include "mem.h"
#include "shake.h"
#include "version.h"

enum { PORTABLE_EVERY = 4, LIST = 256 };

/* A calibration under way. */
struct work {
  const struct ab_calibrate_order *order;
  struct ab_judgement j; /* opened for its case and its way of ordering sides; never run */
  const char **arguments[2]; /* portable, fast */
  char *scratch;
  struct ab_side_result base, truth;
  const char *core[AB_BLAS_CORES_MAX];
  size_t cores;
  char ran[LIST], dropped[LIST];
  struct ab_calibration *calibration;
  double worst; /* largest of factor x error / ceiling */
  char worst_kind[AB_KIND_TEXT];
};

static void list_add(char list[LIST], const char *name) {
  size_t used = strlen(list);
  if (strstr(list, name)) return;
  snprintf(list + used, LIST - used, "%s%s", used ? ", " : "", name);
}

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Products in the longest sum of the model: tokens of a weight gradient, or the inner dimension of a gemm. */
static int64_t longest_reduction(const struct ab_config *c) {
  int64_t tokens = c->global_batch_size_to_train_on * c->max_target_length;
  int64_t inner = most(most(c->vocab_size, c->mlp_dim), most(c->emb_dim, c->num_query_heads * c->head_dim));
  return most(tokens, inner);
}

static struct ab_side_order side_order(const struct work *w, const char *label, const char *route, bool fast) {
  return (struct ab_side_order){.label = label, .route = route, .case_arguments = w->arguments[fast],
                                .scratch = w->scratch,
                                .timeout = w->order->timeout ? (double)w->order->timeout : 600};
}

static ab_status must_run(struct ab_side_result *out, const struct ab_side_order *order) {
  AB_TRY(ab_sides_run(out, order, 1));
  return out->exit == AB_EXIT_EQUAL ? AB_OK : AB_FAIL(AB_ECOMM, "side %s: %s", out->name, out->reason);
}

static ab_status take(struct work *w, const struct ab_identity *id, enum ab_quantity quantity, double error) {
  char kind[AB_KIND_TEXT];
  double ceiling = ab_calibration_ceiling(w->calibration, id, quantity);
  ab_calibration_kind(kind, id, quantity);
  double times = ab_calibration_bound_of(kind, error) / ceiling;
  AB_TRY(ab_calibration_add(w->calibration, kind, error));
  if (times > w->worst) {
    w->worst = times;
    memcpy(w->worst_kind, kind, sizeof kind);
  }
  return AB_OK;
}

static ab_status take_all(struct work *w, const struct ab_side_result *run) {
  const struct ab_recording *truth = w->truth.recording;
  for (size_t i = 0; i < truth->observations; i++) {
    const struct ab_identity *id = &truth->observation[i].observation.id;
    enum ab_quantity quantity = ab_quantity_of(id);
    if (quantity == AB_Q_WEIGHT_GRADIENT || quantity == AB_Q_METRIC)
      AB_TRY(take(w, id, quantity, ab_tensor_error(run, &w->truth, id)));
  }
  for (size_t i = 0; i < truth->metrics; i++) {
    const struct ab_metric *metric = &truth->metric[i].metric;
    struct ab_identity id = {.step = metric->step, .layer = -1};
    memcpy(id.tensor, metric->name, sizeof id.tensor);
    AB_TRY(take(w, &id, AB_Q_METRIC, ab_metric_error(run, metric)));
  }
  return AB_OK;
}

/* What the side read back, whatever was asked for. */
static ab_status note_core(struct work *w, const struct ab_side_result *run) {
  char core[64];
  AB_TRY(ab_version_core(core, sizeof core, run->recording->header));
  if (*core) list_add(w->ran, core);
  return AB_OK;
}

static struct ab_shake shake_of(const struct work *w, long run) {
  static const int64_t rows[] = {256, 128, 64}, cols[] = {1024, 512, 128}, depth[] = {256, 128, 64};
  uint64_t seed = ab_shake_word((uint64_t)w->order->seed, -1, "run", (size_t)run) >> 16;
  return (struct ab_shake){.seed = seed, .ulp = true, .order = true, .rows = rows[seed % 3],
                           .cols = cols[seed / 3 % 3], .depth = depth[seed / 9 % 3]};
}

static void drop_core(struct work *w, size_t at) {
  list_add(w->dropped, w->core[at]);
  memmove(&w->core[at], &w->core[at + 1], (--w->cores - at) * sizeof *w->core);
}

/* One run; a core that fails is dropped, and the next one takes its place. */
static ab_status one_run(struct work *w, long run) {
  char shake[AB_SHAKE_TEXT];
  struct ab_shake what = shake_of(w, run);
  bool fast = run % PORTABLE_EVERY != PORTABLE_EVERY - 1;
  ab_shake_print(shake, &what);
  for (;;) {
    struct ab_side_order order = side_order(w, "run", "linen", fast);
    struct ab_side_result result;
    size_t at = fast && w->cores ? (size_t)(run - run / PORTABLE_EVERY) % w->cores : 0;
    order.params_from = &w->base;
    order.shake = shake;
    order.core = fast && w->cores ? w->core[at] : NULL;
    ab_status status = ab_sides_run(&result, &order, 1);
    bool failed = status == AB_OK && result.exit != AB_EXIT_EQUAL;
    if (status == AB_OK && !failed) status = take_all(w, &result);
    if (status == AB_OK && !failed && fast) status = note_core(w, &result);
    if (failed && !order.core) status = AB_FAIL(AB_ECOMM, "side %s: %s", result.name, result.reason);
    ab_sides_free(&result, 1);
    if (failed && order.core) drop_core(w, at);
    if (w->order->verbose && status == AB_OK)
      fprintf(stderr, "run %ld of %ld: %s%s\n", run + 1, w->order->runs, order.core ? order.core : "portable",
              failed ? " failed and is dropped" : "");
    if (!failed || status != AB_OK) return status;
  }
}

static ab_status describe(struct work *w) {
  struct ab_calibration *c = w->calibration;
  AB_TRY(ab_mem_string(&c->commit, ab_commit));
  AB_TRY(ab_mem_string(&c->numerics, "portable, fast"));
  AB_TRY(ab_mem_string(&c->cores, w->ran));
  AB_TRY(ab_mem_string(&c->dropped, w->dropped));
  return AB_OK;
}

static ab_status run_all(struct work *w) {
  const struct ab_config *config = w->j.opened.config;
  struct ab_side_order base = side_order(w, "base", "linen", false);
  struct ab_side_order truth = side_order(w, "truth", "sequential64", false);
  AB_TRY(must_run(&w->base, &base));
  truth.params_from = &w->base;
  AB_TRY(must_run(&w->truth, &truth));
  AB_TRY(ab_mem_new(&w->calibration, 1, sizeof *w->calibration));
  w->calibration->runs = w->order->runs;
  w->calibration->seed = w->order->seed;
  w->calibration->layers = config->num_decoder_layers;
  w->calibration->reduction = longest_reduction(config);
  w->cores = ab_blas_cores(w->core);
  for (long run = 0; run < w->order->runs; run++) AB_TRY(one_run(w, run));
  ab_calibration_conclude(w->calibration);
  AB_TRY(describe(w));
  if (w->worst <= 1) return AB_OK;
  return AB_FAIL(AB_EMISMATCH, "%s: the measured bound of '%s' is %.3g times its analytic ceiling; expected rounding "
                 "below it", w->order->folder, w->worst_kind, w->worst);
}

static ab_status open_work(struct work *w) {
  static const char *const numerics[] = {"portable", "fast"};
  for (int i = 0; i < 2; i++) {
    struct ab_request request = {.program = "ab_compare", .target = w->order->folder, .numerics = numerics[i],
                                 .ignore_golden = true};
    if (i == 0) AB_TRY(ab_judgement_open(&w->j, &request));
    AB_TRY(ab_request_case_arguments(&w->arguments[i], &request));
  }
  if (w->j.opened.bundle)
    return AB_FAIL(AB_ECONFIG, "'%s' is a bundle, which brings its own bounds; expected a golden case",
                   w->order->folder);
  return ab_scratch_new(&w->scratch, NULL);
}

ab_status ab_calibrate(struct ab_calibration **out, const struct ab_calibrate_order *order) {
  struct work w = {.order = order};
  ab_status status = open_work(&w);
  if (status == AB_OK) status = run_all(&w);
  ab_sides_free(&w.truth, 1);
  ab_sides_free(&w.base, 1);
  if (w.scratch) ab_scratch_remove(w.scratch);
  ab_mem_free(w.scratch);
  for (int i = 0; i < 2; i++) ab_mem_free(w.arguments[i]);
  ab_judgement_close(&w.j);
  if (status == AB_OK) *out = w.calibration;
  else ab_calibration_free(w.calibration);
  return status;
}
