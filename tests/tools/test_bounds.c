/* The bounds of a bundle, number by number: a bound that is too wide turns a red verdict green. */
#include "bounds.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tap.h"

/* A folder above a bundle's: <top>/bundle, and in them the files that a test asks for. */
struct place {
  char top[64], bundle[96], manifest[96], expected[128];
};

static void put(const char *path, const char *text) {
  if (!text) return;
  FILE *file = fopen(path, "w");
  ck_assert_ptr_nonnull(file);
  fputs(text, file);
  ck_assert_int_eq(fclose(file), 0);
}

static struct place place_new(const char *manifest, const char *expected) {
  struct place p = {.top = "/tmp/abpipe-bounds-XXXXXX"};
  ck_assert_ptr_nonnull(mkdtemp(p.top));
  snprintf(p.bundle, sizeof p.bundle, "%s/bundle", p.top);
  snprintf(p.manifest, sizeof p.manifest, "%s/manifest.json", p.top);
  snprintf(p.expected, sizeof p.expected, "%s/expected.json", p.bundle);
  ck_assert_int_eq(mkdir(p.bundle, 0700), 0);
  put(p.manifest, manifest);
  put(p.expected, expected);
  return p;
}

static void place_free(struct place *p) {
  unlink(p->manifest);
  unlink(p->expected);
  rmdir(p->bundle);
  rmdir(p->top);
}

/* The row before has another name, and the row behind it other numbers. */
static const char manifest[] =
    "{\"cases\": [{\"bounds\": {}}, {\"case\": \"other\", \"bounds\": {\"loss\": {\"rel\": 0.9}}},"
    " {\"case\": \"bundle\", \"bounds\": {\"loss\": {\"rel\": 3e-6}, \"outputs\": {\"rel_l2\": 4e-6},"
    "  \"gradients\": {\"w\": {\"rel_l2\": 5e-6}}, \"params_final\": {\"w\": {\"rel_l2\": 6e-6}},"
    "  \"metrics\": {\"loss\": {\"rel\": 7e-6}, \"lm_loss\": {\"rel\": 0.5}, \"grad_norm\": {\"rel\": 8e-6},"
    "  \"perplexity\": {\"rel\": 0.5}}}},"
    " {\"case\": \"bundle\", \"bounds\": {}}]}";

/* nnx_vs_sequential: a bundle that is passed through; sequential_vs_nnx: one that is trained. */
static const char expected[] =
    "{\"loss\": {\"value\": -8.0}, \"loss_sequential\": {\"value\": -7.999986},"
    " \"compare\": {\"nnx_vs_sequential\": {\"near\": {\"rel_l2\": 1e-7}, \"some\": {\"rel_l2\": 1e-6},"
    "  \"far\": {\"rel_l2\": 1e-3}},"
    " \"sequential_vs_nnx\": {\"grads\": {\"near\": {\"rel_l2\": 1e-7}, \"some\": {\"rel_l2\": 2e-6},"
    "  \"far\": {\"rel_l2\": 1e-3}}, \"params_final\": {\"near\": {\"rel_l2\": 1e-7}, \"some\": {\"rel_l2\": 3e-6},"
    "  \"far\": {\"rel_l2\": 1e-3}}, \"outputs\": {\"some\": {\"rel_l2\": 1.5e-6}},"
    "  \"metrics\": {\"loss\": {\"max_rel\": 1.25e-6}}}}}";

struct row {
  bool train;
  enum ab_bounded what;
  const char *name;
  double bound;
};

static const struct row given[] = {{true, AB_BOUND_GRADIENT, "w", 5e-6},
                                   {true, AB_BOUND_PARAMETER, "w", 6e-6},
                                   {true, AB_BOUND_OUTPUT, "outputs", 4e-6},
                                   {true, AB_BOUND_METRIC, "loss", 7e-6},
                                   {true, AB_BOUND_METRIC, "lm_loss", 7e-6},
                                   {true, AB_BOUND_METRIC, "grad_norm", 8e-6},
                                   {true, AB_BOUND_METRIC, "perplexity", 1e-5},
                                   {true, AB_BOUND_METRIC, "lr", 2e-6},
                                   {true, AB_BOUND_GRADIENT, "v", 2e-6},
                                   {true, AB_BOUND_PARAMETER, "v", 1e-5},
                                   {true, AB_BOUND_OUTPUT, "perplexity", 2e-6},
                                   {false, AB_BOUND_METRIC, "loss", 3e-6},
                                   {false, AB_BOUND_METRIC, "grad_norm", 3e-6},
                                   {false, AB_BOUND_METRIC, "perplexity", 1e-5},
                                   {false, AB_BOUND_GRADIENT, "w", 5e-6},
                                   {false, AB_BOUND_OUTPUT, "outputs", 4e-6}};
enum { GIVEN = sizeof given / sizeof *given };

/* min(1e-5, max(2e-6, 4 own)), of parameters max(1e-5, 4 own). */
static const struct row followed[] = {{true, AB_BOUND_GRADIENT, "near", 2e-6},
                                      {true, AB_BOUND_GRADIENT, "some", 8e-6},
                                      {true, AB_BOUND_GRADIENT, "far", 1e-5},
                                      {true, AB_BOUND_GRADIENT, "none", 2e-6},
                                      {true, AB_BOUND_PARAMETER, "near", 1e-5},
                                      {true, AB_BOUND_PARAMETER, "some", 1.2e-5},
                                      {true, AB_BOUND_PARAMETER, "far", 4e-3},
                                      {true, AB_BOUND_PARAMETER, "none", 1e-5},
                                      {true, AB_BOUND_OUTPUT, "some", 6e-6},
                                      {true, AB_BOUND_METRIC, "loss", 5e-6},
                                      {true, AB_BOUND_METRIC, "lm_loss", 2e-6},
                                      {false, AB_BOUND_GRADIENT, "near", 2e-6},
                                      {false, AB_BOUND_GRADIENT, "some", 4e-6},
                                      {false, AB_BOUND_OUTPUT, "far", 1e-5},
                                      {false, AB_BOUND_METRIC, "loss", 7e-6},
                                      {false, AB_BOUND_METRIC, "some", 7e-6}};
enum { FOLLOWED = sizeof followed / sizeof *followed };

static void check_row(const struct place *p, const struct row *row, bool from_manifest) {
  struct ab_bounds bounds;
  ck_ok(ab_bounds_open(&bounds, p->bundle, row->train));
  ck_assert(bounds.manifest == from_manifest && bounds.train == row->train);
  double bound = ab_bounds_find(&bounds, row->what, row->name);
  ck_assert_msg(bound > row->bound * (1 - 1e-9) && bound < row->bound * (1 + 1e-9),
                "%s of kind %d, train %d: %g, not %g", row->name, (int)row->what, row->train, bound, row->bound);
  ab_bounds_close(&bounds);
  ck_assert_ptr_null(bounds.root);
}

START_TEST(the_manifest_states_them) {
  struct place p = place_new(manifest, expected);
  check_row(&p, &given[_i], true);
  place_free(&p);
}
END_TEST

START_TEST(without_a_row_they_follow_from_maxtexts_own_distance) {
  static const char *const none[] = {NULL, "{\"cases\": [{\"case\": \"bundl\", \"bounds\": {}}]}", "{}"};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    struct place p = place_new(none[i], expected);
    check_row(&p, &followed[_i], false);
    place_free(&p);
  }
}
END_TEST

START_TEST(without_a_comparison_the_least_holds) {
  struct place p = place_new(NULL, "{\"loss\": {\"value\": 1.0}}");
  for (int train = 0; train < 2; train++)
    for (int what = AB_BOUND_GRADIENT; what <= AB_BOUND_METRIC; what++)
      check_row(&p, &(struct row){train, (enum ab_bounded)what, "x", what == AB_BOUND_PARAMETER ? 1e-5 : 2e-6}, false);
  place_free(&p);
}
END_TEST

START_TEST(what_cannot_be_read_is_no_bound) {
  struct ab_bounds bounds;
  struct place p = place_new("{", expected);
  ck_fails(ab_bounds_open(&bounds, p.bundle, true), AB_EFORMAT, "manifest.json");
  place_free(&p);
  p = place_new(NULL, "[1");
  ck_fails(ab_bounds_open(&bounds, p.bundle, true), AB_EFORMAT, "expected.json");
  place_free(&p);
  p = place_new(NULL, NULL);
  ck_fails(ab_bounds_open(&bounds, p.bundle, true), AB_ENOTFOUND, "expected.json");
  rmdir(p.bundle);
  ck_fails(ab_bounds_open(&bounds, p.bundle, true), AB_EIO, "cannot resolve");
  place_free(&p);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("bounds");
  TCase *tests = tcase_create("bounds");
  tcase_add_loop_test(tests, the_manifest_states_them, 0, GIVEN);
  tcase_add_loop_test(tests, without_a_row_they_follow_from_maxtexts_own_distance, 0, FOLLOWED);
  tcase_add_test(tests, without_a_comparison_the_least_holds);
  tcase_add_test(tests, what_cannot_be_read_is_no_bound);
  suite_add_tcase(suite, tests);
  return ab_run_suite(suite);
}
