#include "optimizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* optax.tree_utils.tree_bias_correction: 1 - b^k in float32 where the table is float32, which is not 1 - b^k rounded.
 */
static double correction(const struct ab_kernels *kernels, double b, int64_t step) {
  if (kernels->dtype != AB_F32) return 1.0 - pow(b, (double)(step + 1));
  return (double)(1.0f - (float)pow((double)(float)b, (double)(step + 1)));
}

/* optax.adamw without a mask: everything decays, norm scales and embeddings too. */
static void adamw(void *p, void *const *moment, const void *g, const struct ab_config *c, int64_t step, double rate,
                  size_t n, const struct ab_kernels *kernels) {
  const struct ab_adamw rule = {.b1 = c->adam_b1,
                                .b2 = c->adam_b2,
                                .epsilon = c->adam_eps,
                                .epsilon_root = c->adam_eps_root,
                                .weight_decay = c->adam_weight_decay,
                                .learning_rate = rate,
                                .correction1 = correction(kernels, c->adam_b1, step),
                                .correction2 = correction(kernels, c->adam_b2, step)};
  kernels->adamw(p, moment[0], moment[1], g, &rule, n);
}

static void sgd(void *p, void *const *moment, const void *g, const struct ab_config *c, int64_t step, double rate,
                size_t n, const struct ab_kernels *kernels) {
  (void)moment, (void)c, (void)step;
  kernels->sgd(p, g, rate, n);
}

const struct ab_optimizer_rule ab_optimizer_rules[] = {
    {"adamw", 2, {"mu", "nu"}, adamw},
    {"sgd", 0, {NULL, NULL}, sgd},
    {NULL, 0, {NULL, NULL}, NULL},
};

ab_status ab_optimizer_find(const struct ab_optimizer_rule **out, const char *opt_type) {
  char known[128] = "";
  for (const struct ab_optimizer_rule *rule = ab_optimizer_rules; rule->name; rule++) {
    if (strcmp(rule->name, opt_type) == 0) {
      *out = rule;
      return AB_OK;
    }
    size_t used = strlen(known);
    snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", rule->name);
  }
  return AB_FAIL(AB_ECONFIG, "key 'opt_type' is '%.64s', expected one of %s", opt_type, known);
}

static ab_status take_moments(void ***out, const struct ab_exec *exec, const struct ab_leaf_table *table) {
  void **list;
  AB_TRY(ab_arena_take(exec->book, &list, table->leaves, sizeof *list));
  for (size_t i = 0; i < table->leaves; i++) {
    AB_TRY(ab_arena_take(exec->slab, &list[i], table->leaf[i].count, exec->kernels->element));
    exec->kernels->zero(list[i], table->leaf[i].count);
  }
  *out = list;
  return AB_OK;
}

ab_status ab_optimizer_new(struct ab_optimizer *out, const struct ab_config *config, const struct ab_exec *exec,
                           const struct ab_leaf_table *table) {
  struct ab_optimizer optimizer = {0};
  AB_TRY(ab_optimizer_find(&optimizer.rule, config->opt_type));
  for (int m = 0; m < optimizer.rule->moments; m++) AB_TRY(take_moments(&optimizer.moment[m], exec, table));
  *out = optimizer;
  return AB_OK;
}
