#include <stdio.h>
#include <string.h>

#include "judgement.h"
#include "suite.h"

static const struct {
  const char *name, *letters;
} columns[AB_COLUMNS] = {[AB_COLUMN_OUTPUTS] = {"outputs", "out"},
                         [AB_COLUMN_D_INPUTS] = {"input_gradient", "dX"},
                         [AB_COLUMN_D_WEIGHTS] = {"weight_gradients", "dW"},
                         [AB_COLUMN_LOSSES] = {"losses", "los"},
                         [AB_COLUMN_PARAMETERS] = {"parameters", "par"},
                         [AB_COLUMN_LAYERS] = {"layers", "lay"},
                         [AB_COLUMN_COUNTERS] = {"counters", "cnt"},
                         [AB_COLUMN_ORACLE] = {"oracle", "orc"},
                         [AB_COLUMN_FLOAT64] = {"float64", "f64"},
                         [AB_COLUMN_RECORDED] = {"recorded", "rec"}};

static const char signs[AB_CELLS] = {[AB_CELL_NONE] = '.', [AB_CELL_SAME] = '=', [AB_CELL_WITHIN] = '<',
                                     [AB_CELL_OVER] = 'X', [AB_CELL_BROKEN] = '!'};

const char *ab_column_name(enum ab_column column) { return columns[column].name; }
const char *ab_column_short(enum ab_column column) { return columns[column].letters; }
char ab_cell_sign(enum ab_cell cell) { return signs[cell]; }

static void fold(enum ab_cell *into, enum ab_cell cell) {
  if (cell > *into) *into = cell;
}

static enum ab_cell cell_of_all(const struct ab_verdict *v) {
  if (v->exit == AB_EXIT_INCOMPARABLE) return AB_CELL_BROKEN;
  if (v->failing) return AB_CELL_OVER;
  return v->differing ? AB_CELL_WITHIN : AB_CELL_SAME;
}

/* What is broken without a quantity of its own (a name that only one side has) shows in the layers' column. */
static void judge_routes(enum ab_cell *cell, const struct ab_verdict *v) {
  static const enum ab_column column[AB_QUANTITIES] = {[AB_Q_METRIC] = AB_COLUMN_LOSSES,
                                                       [AB_Q_OUTPUT] = AB_COLUMN_OUTPUTS,
                                                       [AB_Q_INPUT_GRADIENT] = AB_COLUMN_D_INPUTS,
                                                       [AB_Q_WEIGHT_GRADIENT] = AB_COLUMN_D_WEIGHTS,
                                                       [AB_Q_PARAMETER] = AB_COLUMN_PARAMETERS,
                                                       [AB_Q_ACTIVATION] = AB_COLUMN_LAYERS,
                                                       [AB_Q_RECOMPUTE] = AB_COLUMN_LAYERS,
                                                       [AB_Q_COTANGENT] = AB_COLUMN_LAYERS,
                                                       [AB_Q_INPUT] = AB_COLUMN_LAYERS,
                                                       [AB_Q_STATE] = AB_COLUMN_PARAMETERS};
  bool broken = false;
  for (int q = 0; q < AB_QUANTITIES; q++) {
    enum ab_cell found = ab_cell_of(v, (enum ab_quantity)q);
    broken |= found == AB_CELL_BROKEN;
    fold(&cell[column[q]], found);
  }
  if (v->exit == AB_EXIT_INCOMPARABLE && !broken) fold(&cell[AB_COLUMN_LAYERS], AB_CELL_BROKEN);
}

/* Verdict 0 is A against B, 1 and 2 are each against its oracle. */
static enum ab_column column_of(const struct ab_judgement *j, size_t verdict) {
  enum ab_pair pair = j->verdict[verdict].pair;
  if (pair == AB_PAIR_MIXED || pair == AB_PAIR_F64) return AB_COLUMN_FLOAT64;
  return verdict <= 2 ? AB_COLUMN_ORACLE : AB_COLUMN_RECORDED;
}

/* A bitwise comparison that failed is further over than any bounded one. */
static double excess(const struct ab_finding *f) {
  if (!f->differs) return 0;
  return f->bound.limit > 0 ? f->distance / f->bound.limit : 1e300;
}

static void judge_worst(struct ab_suite_result *out, const struct ab_judgement *j) {
  double most = 0;
  for (size_t i = 0; i < j->verdicts; i++) {
    const struct ab_verdict *v = &j->verdict[i];
    if (!v->any || !(excess(&v->worst) > most)) continue;
    most = excess(&v->worst);
    out->distance = v->worst.distance;
    out->limit = v->worst.bound.limit;
  }
}

static void describe(struct ab_suite_result *out, const struct ab_judgement *j) {
  const struct ab_config *c = j->opened.config;
  snprintf(out->pair, sizeof out->pair, "%s:%s", j->a->name, j->b->name);
  if (!c->pipelined) return;
  snprintf(out->schedule, sizeof out->schedule, "%d-%d-%d-%d-%d", (int)c->num_stages,
           (int)c->num_pipeline_microbatches, (int)c->num_pipeline_repeats, (int)c->num_layers_per_pipeline_stage,
           (int)ab_forwarding_delay(c));
}

void ab_suite_judge(struct ab_suite_result *out, const struct ab_judgement *j) {
  describe(out, j);
  for (size_t i = 0; i < j->verdicts; i++) {
    if (i == 0)
      judge_routes(out->cell, &j->verdict[0]);
    else
      fold(&out->cell[column_of(j, i)], cell_of_all(&j->verdict[i]));
  }
  if (j->counts_checked) out->cell[AB_COLUMN_COUNTERS] = j->counts_wrong ? AB_CELL_BROKEN : AB_CELL_SAME;
  judge_worst(out, j);
}
