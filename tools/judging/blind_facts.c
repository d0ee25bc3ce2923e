#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "blind.h"
#include "block_ops.h"
#include "mem.h"

/* Int arrays of rows x length, in equal microbatches. */
struct grid {
  int64_t rows, length, microbatches;
};

static size_t share(const struct grid *g) { return (size_t)(g->rows / g->microbatches * g->length); }

static bool microbatches_differ(const struct grid *g, const int32_t *x, bool every_pair) {
  bool all = true, any = false;
  for (int64_t m = 1; m < g->microbatches; m++)
    for (int64_t n = 0; n < m; n++) {
      bool same = memcmp(x + (size_t)m * share(g), x + (size_t)n * share(g), share(g) * sizeof *x) == 0;
      all &= !same;
      any |= !same;
    }
  return every_pair ? all && g->microbatches > 1 : any;
}

static bool rows_differ(const struct grid *g, const int32_t *x) {
  for (int64_t r = 1; r < g->rows; r++)
    if (memcmp(x + r * g->length, x, (size_t)g->length * sizeof *x) != 0) return true;
  return false;
}

/* Different neighbours in a row, padding (0) aside. */
static int most_segments(const struct grid *g, const int32_t *segment) {
  int most = 0;
  for (int64_t r = 0; r < g->rows; r++) {
    const int32_t *row = segment + r * g->length;
    int here = 0;
    for (int64_t p = 0; p < g->length; p++) here += row[p] != 0 && (p == 0 || row[p] != row[p - 1]);
    if (here > most) most = here;
  }
  return most;
}

static bool constant(const struct grid *g, const int32_t *x) {
  for (int64_t i = 1; i < g->rows * g->length; i++)
    if (x[i] != x[0]) return false;
  return true;
}

static int32_t largest(const struct grid *g, const int32_t *x) {
  int32_t most = x[0];
  for (int64_t i = 1; i < g->rows * g->length; i++)
    if (x[i] > most) most = x[i];
  return most;
}

static int64_t valid(const struct grid *g, const int32_t *segment, int64_t m) {
  int64_t count = 0;
  for (size_t i = 0; i < share(g); i++) count += segment[(size_t)m * share(g) + i] != 0;
  return count;
}

static void count_valid(struct ab_batch_facts *f, const struct grid *g, const int32_t *segment) {
  int64_t first = valid(g, segment, 0);
  f->any_valid = first > 0;
  for (int64_t m = 1; m < g->microbatches; m++) {
    int64_t here = valid(g, segment, m);
    f->counts_differ |= here != first;
    f->any_valid |= here > 0;
  }
}

static int by_value(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* On a sorted copy. */
static ab_status repeated(bool *out, const struct grid *g, const int32_t *token) {
  size_t count = (size_t)(g->rows * g->length);
  int32_t *sorted;
  bool found = false;
  AB_TRY(ab_mem_new(&sorted, count, sizeof *sorted));
  memcpy(sorted, token, count * sizeof *sorted);
  qsort(sorted, count, sizeof *sorted, by_value);
  for (size_t i = 1; i < count && !found; i++) found = sorted[i] == sorted[i - 1];
  ab_mem_free(sorted);
  *out = found;
  return AB_OK;
}

static struct ab_batch_facts places(const struct grid *g, const int32_t *position, const int32_t *segment) {
  return (struct ab_batch_facts){.microbatches = g->microbatches,
                                 .rows = g->rows,
                                 .length = g->length,
                                 .most_segments = most_segments(g, segment),
                                 .boundaries_differ = microbatches_differ(g, segment, false),
                                 .one_segment = constant(g, segment),
                                 .positions_differ = rows_differ(g, position),
                                 .last_position = largest(g, position)};
}

ab_status ab_batch_facts_of(struct ab_batch_facts *out, const struct ab_batch *b, int64_t microbatches) {
  struct grid g = {b->rows, b->length, microbatches};
  struct ab_batch_facts f = places(&g, b->inputs_position, b->inputs_segmentation);
  f.train = true;
  f.microbatches_differ = microbatches_differ(&g, b->inputs, true);
  AB_TRY(repeated(&f.repeated_tokens, &g, b->inputs));
  count_valid(&f, &g, b->targets_segmentation);
  *out = f;
  return AB_OK;
}

ab_status ab_activation_facts_of(struct ab_batch_facts *out, const struct ab_activations *given, int64_t rows,
                                 int64_t length, int64_t microbatches) {
  struct grid g = {rows, length, microbatches}, bits = {rows, (int64_t)given->count / rows, microbatches};
  int32_t *inputs; /* floats compared by their bits */
  AB_TRY(ab_mem_new(&inputs, given->count, sizeof *inputs));
  memcpy(inputs, given->inputs, given->count * sizeof *inputs);
  *out = places(&g, given->positions, given->segment_ids);
  out->microbatches_differ = microbatches_differ(&bits, inputs, true);
  ab_mem_free(inputs);
  return AB_OK;
}

void ab_batch_facts_join(struct ab_batch_facts *f, const struct ab_batch_facts *o) {
  f->counts_differ |= o->counts_differ;
  f->any_valid |= o->any_valid;
  f->boundaries_differ |= o->boundaries_differ;
  f->positions_differ |= o->positions_differ;
  f->microbatches_differ |= o->microbatches_differ;
  f->repeated_tokens |= o->repeated_tokens;
  f->one_segment &= o->one_segment;
  if (o->most_segments > f->most_segments) f->most_segments = o->most_segments;
  if (o->last_position > f->last_position) f->last_position = o->last_position;
}

static ab_status bundle_facts(struct ab_batch_facts *out, const struct ab_case *c, int64_t microbatches) {
  for (int64_t step = 0; step < c->steps; step++) {
    struct ab_batch batch;
    AB_TRY(ab_bundle_batch(&batch, c->bundle, step));
    struct ab_batch_facts facts;
    AB_TRY(ab_batch_facts_of(&facts, &batch, microbatches));
    if (step == 0) *out = facts;
    else ab_batch_facts_join(out, &facts);
  }
  return AB_OK;
}

static ab_status synthetic_facts(struct ab_batch_facts *out, const struct ab_case *c, int64_t microbatches) {
  struct ab_synthetic *data;
  AB_TRY(ab_synthetic_new(&data, c->config));
  struct ab_batch batch = ab_synthetic_batch(data);
  ab_status status = ab_batch_facts_of(out, &batch, microbatches);
  ab_synthetic_free(data);
  return status;
}

static ab_status batch_facts(struct ab_batch_facts *out, const struct ab_case *c) {
  const struct ab_config *config = c->config;
  int64_t microbatches = config->pipelined ? config->num_pipeline_microbatches : 1;
  if (!c->bundle) return synthetic_facts(out, c, microbatches);
  if (!ab_bundle_is_engine(c->bundle)) return bundle_facts(out, c, microbatches);
  struct ab_activations given = ab_bundle_activations(c->bundle);
  int64_t tokens = (int64_t)given.count / config->emb_dim, length = config->max_target_length;
  return ab_activation_facts_of(out, &given, tokens / length, length, microbatches);
}

/* The norm before clipping, of each step. */
static void count_clipped(struct ab_run_facts *f, const struct ab_recording *recording) {
  for (size_t i = 0; i < recording->metrics; i++) {
    const struct ab_metric *m = &recording->metric[i].metric;
    if (strcmp(m->name, "raw_grad_norm") != 0) continue;
    if (m->value > f->config->gradient_clipping_threshold) f->clipped++;
    else f->unclipped++;
  }
}

ab_status ab_run_facts_of(struct ab_run_facts *out, const struct ab_case *c, const struct ab_recording *recording) {
  struct ab_run_facts facts = {.config = c->config, .steps = c->steps};
  AB_TRY(batch_facts(&facts.batch, c));
  count_clipped(&facts, recording);
  *out = facts;
  return AB_OK;
}
