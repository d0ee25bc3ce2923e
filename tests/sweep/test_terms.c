/* Faults put between an engine and its kernels or doors, decoded from the wrong gradient alone.
 *
 * In the per-iteration engines every gradient accumulates its microbatches from the last to the first, so the n-th
 * product that is added to an accumulator is that of microbatch M - 1 - n.
 */
#include <pthread.h>
#include <string.h>

#include "routes.h"
#include "tap.h"
#include "terms.h"

enum { S = 2, M = 6, R = 2, K = 2, ROWS = 2, LENGTH = 2, LAYERS = S * R * K, EMB = 8, VICTIM = 2 };

/* Accumulators in the order in which they were first added to, and what was added to each. */
static struct {
  pthread_mutex_t lock;
  void *accumulator[LAYERS];
  int added[LAYERS], accumulators;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void see(int *index, int *microbatch, void *accumulator) {
  pthread_mutex_lock(&seen.lock);
  int i = 0;
  while (i < seen.accumulators && seen.accumulator[i] != accumulator) i++;
  ck_assert_int_lt(i, LAYERS);
  if (i == seen.accumulators) seen.accumulator[seen.accumulators++] = accumulator;
  *index = i;
  *microbatch = M - 1 - seen.added[i]++;
  pthread_mutex_unlock(&seen.lock);
}

static bool adds_weights(const struct ab_gemm *d) { return d->trans_a && d->accumulate; }

typedef void gemm_fn(void *c, const void *a, const void *b, const struct ab_gemm *d);

static gemm_fn drops, doubles, drops_row, misplaces;

static void drops(void *c, const void *a, const void *b, const struct ab_gemm *d) {
  int index, microbatch;
  if (adds_weights(d)) {
    see(&index, &microbatch, c);
    if (microbatch == VICTIM) return;
  }
  ab_kernels_exact.gemm(c, a, b, d);
}

static void doubles(void *c, const void *a, const void *b, const struct ab_gemm *d) {
  int index, microbatch;
  ab_kernels_exact.gemm(c, a, b, d);
  if (!adds_weights(d)) return;
  see(&index, &microbatch, c);
  if (microbatch == VICTIM || microbatch == 0) ab_kernels_exact.gemm(c, a, b, d);
}

/* The tokens of the last row are left out. */
static void drops_row(void *c, const void *a, const void *b, const struct ab_gemm *d) {
  struct ab_gemm less = *d;
  int index, microbatch;
  if (adds_weights(d)) {
    see(&index, &microbatch, c);
    if (microbatch == VICTIM) less.k -= LENGTH;
  }
  ab_kernels_exact.gemm(c, a, b, &less);
}

/* What belongs to the second accumulator lands in the first. */
static void misplaces(void *c, const void *a, const void *b, const struct ab_gemm *d) {
  int index, microbatch;
  if (adds_weights(d)) {
    see(&index, &microbatch, c);
    if (index == 1 && microbatch == VICTIM) c = seen.accumulator[0];
  }
  ab_kernels_exact.gemm(c, a, b, d);
}

static struct sweep_case opened;
static struct ab_terms *terms;

static void add_terms(int parts_per_microbatch) {
  struct sweep_side truth;
  struct sweep_hooks hooks = {.cotangent_parts = M * parts_per_microbatch};
  ck_ok(ab_terms_new(&terms, LAYERS, M, parts_per_microbatch));
  ck_ok(sweep_run(&truth, &opened, "sequential-exact", AB_NUMERICS_FAST, AB_LEVEL_VALUES, &hooks));
  for (size_t row = 0; row < truth.recording->observations; row++) {
    const struct ab_identity *id = &truth.recording->observation[row].observation.id;
    struct ab_view view;
    if (ab_quantity_of(id) != AB_Q_WEIGHT_GRADIENT) continue;
    ck_assert(sweep_value(&view, &truth, id));
    ck_ok(ab_terms_add(terms, id->layer, id->tensor, id->step, &view));
  }
  sweep_side_free(&truth);
}

static void set_up(void) {
  opened = (struct sweep_case){.seed = 20250101};
  sweep_key(&opened, "decoder_block=simple");
  sweep_key(&opened, "base_emb_dim=%d", EMB);
  sweep_key(&opened, "base_num_decoder_layers=%d", LAYERS);
  sweep_key(&opened, "dtype=float32");
  sweep_pipeline(&opened, S, M, R, K, ROWS, LENGTH);
  ck_ok(sweep_open(&opened, SWEEP_RESIDUES, AB_LOSS_DOT));
}

static void tear_down(void) {
  sweep_close(&opened);
  ab_terms_free(terms);
  terms = NULL;
}

enum { ROUTES = 3 };
static const char *const routes[ROUTES] = {"linen-exact", "nnx-exact", "linen+nnx-pipeline-exact"};

/* The explanation of every layer's gradient. */
static void run_faulty(struct ab_explanation out[LAYERS], const char *route, const struct sweep_hooks *hooks) {
  struct sweep_side side;
  int found = 0;
  seen.accumulators = 0;
  memset(seen.added, 0, sizeof seen.added);
  ck_ok(sweep_run(&side, &opened, route, AB_NUMERICS_FAST, AB_LEVEL_VALUES, hooks));
  for (size_t row = 0; row < side.recording->observations; row++) {
    const struct ab_identity *id = &side.recording->observation[row].observation.id;
    struct ab_view view;
    if (ab_quantity_of(id) != AB_Q_WEIGHT_GRADIENT) continue;
    ck_assert(sweep_value(&view, &side, id));
    ck_ok(ab_terms_explain(&out[id->layer], terms, id->layer, id->tensor, &view));
    found++;
  }
  ck_assert_int_eq(found, LAYERS);
  sweep_side_free(&side);
}

static void run_with(struct ab_explanation out[LAYERS], const char *route, gemm_fn *gemm) {
  struct ab_kernels table = ab_kernels_exact;
  if (gemm) table.gemm = gemm;
  run_faulty(out, route, &(struct sweep_hooks){.kernels = &table});
}

static const struct {
  gemm_fn *gemm;
  int parts;
  const char *text;
} everywhere[] = {
    {NULL, 1, "is right: every term is there once"},
    {drops, 1, "microbatch 2 is missing"},
    {doubles, 1, "microbatch 0 is there twice, microbatch 2 is there twice"},
    {drops_row, 2, "microbatch 2 row 1 is missing"},
    {drops_row, 1, "is no sum of the true terms: a value in it is wrong"},
};
enum { EVERYWHERE = sizeof everywhere / sizeof *everywhere };

START_TEST(a_fault_in_every_layer_is_named) {
  struct ab_explanation e[LAYERS];
  add_terms(everywhere[_i / ROUTES].parts);
  run_with(e, routes[_i % ROUTES], everywhere[_i / ROUTES].gemm);
  for (int l = 0; l < LAYERS; l++) {
    ck_assert_msg(!strcmp(e[l].text, everywhere[_i / ROUTES].text), "%s, layer %d: %s", routes[_i % ROUTES], l, e[l].text);
    ck_assert(e[l].unique);
  }
}
END_TEST

START_TEST(a_misplaced_term_is_found_in_both_layers) {
  struct ab_explanation e[LAYERS];
  int missing = -1, right = 0;
  add_terms(1);
  run_with(e, routes[_i], misplaces);
  for (int l = 0; l < LAYERS; l++) {
    right += e[l].kind == AB_EXPLAINED_EQUAL;
    if (!strcmp(e[l].text, "microbatch 2 is missing")) missing = l;
  }
  ck_assert_int_ge(missing, 0);
  ck_assert_int_eq(right, LAYERS - 2);
  for (int l = 0; l < LAYERS; l++) {
    if (e[l].kind == AB_EXPLAINED_EQUAL || l == missing) continue;
    ck_assert_uint_eq(e[l].odds, 1);
    ck_assert_msg(e[l].odd[0].layer == missing && e[l].odd[0].part == VICTIM, "%s", e[l].text);
    ck_assert_msg(strstr(e[l].text, " is added"), "%s", e[l].text);
  }
}
END_TEST

/* Weights of repeat 0 everywhere: values are wrong, and no term is blamed. */
static unsigned char *repeat0[S];

static const void *stale(struct ab_mesh *mesh, const void *src, size_t count, int repeat, int stage) {
  static unsigned char copy[S][8 * EMB * EMB * K];
  (void)mesh;
  size_t bytes = count * sizeof(uint64_t);
  ck_assert_uint_le(bytes, sizeof copy[0]);
  if (repeat == 0 && !repeat0[stage]) repeat0[stage] = memcpy(copy[stage], src, bytes);
  return repeat && repeat0[stage] ? repeat0[stage] : src;
}

START_TEST(wrong_weights_are_no_terms) {
  struct ab_explanation e[LAYERS];
  struct ab_mesh local;
  memset(repeat0, 0, sizeof repeat0);
  add_terms(1);
  ck_ok(ab_mesh_init_local(&local, &ab_kernels_exact, S));
  struct ab_mesh_ops doors = *local.ops;
  ab_mesh_free(&local);
  doors.gather = stale;
  run_faulty(e, routes[_i], &(struct sweep_hooks){.mesh = &doors});
  int wrong = 0;
  for (int l = 0; l < LAYERS; l++) wrong += e[l].kind == AB_EXPLAINED_NOT;
  ck_assert_int_gt(wrong, 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("terms");
  TCase *tcase = tcase_create("terms");
  tcase_set_timeout(tcase, 60);
  tcase_add_checked_fixture(tcase, set_up, tear_down);
  tcase_add_loop_test(tcase, a_fault_in_every_layer_is_named, 0, ROUTES * EVERYWHERE);
  tcase_add_loop_test(tcase, a_misplaced_term_is_found_in_both_layers, 0, ROUTES);
  tcase_add_loop_test(tcase, wrong_weights_are_no_terms, 0, ROUTES);
  suite_add_tcase(suite, tcase);
  return ab_run_suite(suite);
}
