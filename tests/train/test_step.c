/* MaxText's own first steps: from a bundle's parameters and gradients to its norms, learning rate and updated
 * parameters. The model is the bundle itself: its leaves are windows into the stacked trees, so every layout is walked.
 */
#include <math.h>

#include "bundle_case.h"
#include "trainer.h"

struct ab_model {
  const struct ab_bundle *bundle;
  const struct ab_results *results;
};

static ab_status bundle_leaves(struct ab_model *m, enum ab_leaf_kind kind, ab_leaf_fn fn, void *ctx) {
  const struct ab_tree *tree = kind == AB_PARAMS ? m->bundle->params : m->results->grads;
  return each_window(&m->bundle->layout, tree, m->bundle->config, !m->bundle->train, fn, ctx);
}

static ab_status bundle_step(struct ab_model *m, const struct ab_batch *batch, struct ab_loss_terms *terms) {
  const struct ab_metrics *first = &m->results->step[0].metrics;
  (void)batch;
  *terms = (struct ab_loss_terms){.loss = first->loss, .z_loss = first->z_loss, .total_weights = first->total_weights};
  return AB_OK;
}

static const struct ab_model_ops bundle_ops = {.step = bundle_step, .leaves = bundle_leaves};

struct rig {
  struct ab_config *config;
  struct ab_bundle *bundle;
  struct ab_results results;
  struct ab_model model;
  struct ab_arena slab, arena, book;
  struct ab_exec exec;
  struct ab_trainer trainer;
};

static void rig_new(struct rig *r, const char *name) {
  char path[512];
  r->config = case_config(name);
  case_path(path, name, "");
  ck_ok(ab_bundle_open(&r->bundle, path, r->config));
  ck_ok(ab_bundle_expect(&r->results, r->bundle));
  r->model = (struct ab_model){r->bundle, &r->results};
  ck_ok(ab_arena_init(&r->slab, "slab", 1 << 22));
  ck_ok(ab_arena_init(&r->arena, "arena", 1 << 20));
  ck_ok(ab_arena_init(&r->book, "book", 1 << 16));
  r->exec = (struct ab_exec){.kernels = &ab_kernels_f32, .slab = &r->slab, .arena = &r->arena, .book = &r->book};
  ck_ok(ab_trainer_init(&r->trainer, r->config, &r->exec, &bundle_ops, &r->model));
}

static void rig_free(struct rig *r) {
  ab_trainer_free(&r->trainer);
  ab_arena_free(&r->slab);
  ab_arena_free(&r->arena);
  ab_arena_free(&r->book);
  ab_results_free(&r->results);
  ab_bundle_free(r->bundle);
  ab_config_free(r->config);
}

static const char *train_case(int i) {
  for (const char **name = main_cases(); *name; name++)
    if ((*name)[0] == 't' && i-- == 0) return *name;
  return NULL;
}

static int train_case_count(void) {
  int count = 0;
  while (train_case(count)) count++;
  return count;
}

static void check_near(double got, double expected, double tolerance, const char *what, const char *name) {
  ck_assert_msg(fabs(got - expected) <= tolerance * fabs(expected), "%s: %s is %.9g, expected %.9g", name, what, got,
                expected);
}

/* Worst |a - b|_2 / |b|_2 over the leaves. */
static double distance(const struct ab_tree *a, const struct ab_tree *b) {
  double worst = 0;
  for (size_t i = 0; i < ab_tree_size(a); i++) {
    const struct ab_tensor *x = ab_tree_at(a, i), *y = ab_tree_find(b, x->name);
    double difference = 0, size = 0;
    for (size_t j = 0; j < x->count; j++) {
      double p = (double)((const float *)x->data)[j], q = (double)((const float *)y->data)[j];
      difference += (p - q) * (p - q);
      size += q * q;
    }
    worst = fmax(worst, sqrt(difference / size));
  }
  return worst;
}

START_TEST(the_first_step_is_maxtexts) {
  const char *name = train_case(_i);
  struct rig r;
  struct ab_metrics m;
  rig_new(&r, name);
  const struct ab_metrics *expected = &r.results.step[0].metrics;
  ck_ok(ab_trainer_step(&r.trainer, NULL, &m));
  check_near(m.raw_grad_norm, expected->raw_grad_norm, 2.4e-7, "raw_grad_norm", name);
  check_near(m.grad_norm, expected->grad_norm, 2.4e-7, "grad_norm", name);
  check_near(m.param_norm, expected->param_norm, 2.4e-7, "param_norm", name);
  check_near(m.perplexity, expected->perplexity, 2.4e-7, "perplexity", name);
  ck_assert(m.learning_rate == expected->learning_rate);
  if (r.results.params_step1) {
    double away = distance(r.bundle->params, r.results.params_step1);
    ck_assert_msg(away <= 1e-7, "%s: parameters after the first step are %.3g away", name, away);
  }
  rig_free(&r);
}
END_TEST

START_TEST(parameters_after_a_step_are_given) {
  int given = 0;
  for (int i = 0; i < train_case_count(); i++) {
    struct rig r;
    rig_new(&r, train_case(i));
    given += r.results.params_step1 != NULL;
    rig_free(&r);
  }
  ck_assert_int_ge(given, 4);
}
END_TEST

/* Out into a new tree, and back from one in which every parameter was halved. */
START_TEST(leaves_go_out_and_in) {
  struct rig r;
  struct ab_tree *tree, *again;
  rig_new(&r, train_case(_i));
  ck_ok(ab_leaves_store(&tree, &r.trainer.side, AB_PARAMS, r.config, &ab_kernels_f32, &r.bundle->layout));
  ck_assert(distance(tree, r.bundle->params) == 0.0);
  for (size_t i = 0; i < ab_tree_size(tree); i++) {
    float *values = ab_tree_at(tree, i)->data;
    for (size_t j = 0; j < ab_tree_at(tree, i)->count; j++) values[j] *= 0.5f;
  }
  ck_ok(ab_leaves_load(&r.trainer.side, r.config, &ab_kernels_f32, &r.bundle->layout, tree));
  ck_ok(ab_leaves_store(&again, &r.trainer.side, AB_PARAMS, r.config, &ab_kernels_f32, &r.bundle->layout));
  ck_assert(distance(again, tree) == 0.0 && distance(r.bundle->params, tree) == 0.0);
  ab_tree_free(tree);
  ab_tree_free(again);
  rig_free(&r);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("step");
  TCase *c = tcase_create("step");
  tcase_add_loop_test(c, the_first_step_is_maxtexts, 0, train_case_count());
  tcase_add_loop_test(c, leaves_go_out_and_in, 0, train_case_count());
  tcase_add_test(c, parameters_after_a_step_are_given);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
