#include <string.h>

#include "golden.h"

static const char *const names[AB_SELECTIONS] = {[AB_SELECT_ALL] = "all", [AB_SELECT_ENDS] = "ends"};

const char *ab_selection_name(enum ab_selection selection) { return names[selection]; }

ab_status ab_selection_find(enum ab_selection *out, const char *name) {
  for (int i = 0; i < AB_SELECTIONS; i++) {
    if (strcmp(names[i], name) != 0) continue;
    *out = (enum ab_selection)i;
    return AB_OK;
  }
  return AB_FAIL(AB_ENOTFOUND, "the selection of a golden is '%s'; expected all or ends", name);
}

static int last_step(const struct ab_golden *g) {
  int last = 0;
  for (size_t i = 0; i < g->leaves; i++)
    if (g->leaf[i].id.step > last) last = g->leaf[i].id.step;
  return last;
}

static bool at_an_end(const struct ab_identity *id, int last) {
  return ab_quantity_of(id) == AB_Q_PARAMETER ? id->step == last : id->step <= 0;
}

ab_status ab_golden_select(struct ab_golden *g, enum ab_selection selection) {
  size_t kept = 0;
  int last = last_step(g);
  g->selection = selection;
  if (selection == AB_SELECT_ALL) return AB_OK;
  for (size_t i = 0; i < g->leaves; i++) {
    if (!at_an_end(&g->leaf[i].id, last)) continue;
    g->leaf[kept] = g->leaf[i];
    g->leaf_order[kept++] = g->leaf_order[i];
  }
  g->leaves = kept;
  ab_golden_rank(g);
  if (!kept) return AB_FAIL(AB_EMISMATCH, "selection '%s' keeps no tensor of this golden", names[selection]);
  return AB_OK;
}
