/* Every row of the trigger matrix: a run that lacks it says so, and one that has it does not. */
#include "blind.h"

#include <stdio.h>
#include <string.h>

#include "file.h"
#include "mem.h"
#include "sweep.h"
#include "tap.h"

/* A run that lacks everything. */
static void poor(struct ab_run_facts *f, struct ab_config *c) {
  static char adamw[] = "adamw";
  c->pipelined = true;
  c->num_stages = 2;
  c->num_pipeline_repeats = 1;
  c->num_decoder_layers = c->pipeline_parallel_layers = 4;
  c->gradient_accumulation_steps = 1;
  c->gradient_clipping_threshold = 1;
  c->compute_bubbles = false;
  c->opt_type = adamw;
  *f = (struct ab_run_facts){.config = c, .steps = 1, .unclipped = 1,
                             .batch = {.train = true, .microbatches = 1, .rows = 1, .length = 8, .any_valid = true,
                                       .most_segments = 1, .last_position = 7, .one_segment = true}};
}

static void microbatches(struct ab_run_facts *f, struct ab_config *c) { (void)c, f->batch.microbatches = 2; }
static void surplus(struct ab_run_facts *f, struct ab_config *c) { (void)c, f->batch.microbatches = 4; }
static void repeats(struct ab_run_facts *f, struct ab_config *c) {
  c->num_pipeline_repeats = 2;
  f->batch.microbatches = 3;
}
static void stages(struct ab_run_facts *f, struct ab_config *c) { (void)f, c->num_stages = 3; }
static void layers(struct ab_run_facts *f, struct ab_config *c) { (void)f, c->num_decoder_layers = 5; }
static void accumulation(struct ab_run_facts *f, struct ab_config *c) { (void)f, c->gradient_accumulation_steps = 2; }
static void counts(struct ab_run_facts *f, struct ab_config *c) { (void)c, f->batch.counts_differ = true; }
static void packed(struct ab_run_facts *f, struct ab_config *c) {
  (void)c;
  f->batch.most_segments = 2;
  f->batch.boundaries_differ = true;
}
static void positions(struct ab_run_facts *f, struct ab_config *c) { (void)c, f->batch.positions_differ = true; }
static void far(struct ab_run_facts *f, struct ab_config *c) { (void)c, f->batch.last_position = 257; }
static void distinct(struct ab_run_facts *f, struct ab_config *c) {
  (void)c;
  f->batch.microbatches = 2;
  f->batch.microbatches_differ = true;
}
static void tokens(struct ab_run_facts *f, struct ab_config *c) { (void)c, f->batch.repeated_tokens = true; }
static void rows(struct ab_run_facts *f, struct ab_config *c) { (void)c, f->batch.rows = 2; }
static void clipped(struct ab_run_facts *f, struct ab_config *c) { (void)c, f->clipped = 1; }
static void steps(struct ab_run_facts *f, struct ab_config *c) { (void)c, f->steps = 3; }
static void sgd(struct ab_run_facts *f, struct ab_config *c) {
  static char name[] = "sgd";
  (void)f, c->opt_type = name;
}
static void adam(struct ab_run_facts *f, struct ab_config *c) { (void)f, (void)c; }
static void bubbles(struct ab_run_facts *f, struct ab_config *c) { (void)f, c->compute_bubbles = true; }
static void trained(struct ab_run_facts *f, struct ab_config *c) { (void)c, f->steps = 200; }

static const struct {
  const char *name, *reason;
  void (*cure)(struct ab_run_facts *f, struct ab_config *c); /* NULL: nothing here can */
} matrix[AB_TRIGGERS] = {{"microbatches", "one microbatch", microbatches},
                         {"more microbatches than stages", "1 microbatches for 2 stages", surplus},
                         {"repeats with storage", "one repeat", repeats},
                         {"three stages", "2 stages: both neighbours are one", stages},
                         {"uneven layers", "all 4 layers are in equal stages", layers},
                         {"valid tokens", "every microbatch has as many valid tokens", counts},
                         {"packed documents", "one document in a row", packed},
                         {"positions per row", "every row has the same positions", positions},
                         {"positions above 256", "the last position is 7", far},
                         {"distinct microbatches", "", distinct}, /* of one microbatch there is nothing to tell apart */
                         {"repeated tokens", "no token comes twice", tokens},
                         {"rows of a microbatch", "a microbatch is one row", rows},
                         {"clipping both ways", "the gradient norm is below 1 in every step", clipped},
                         {"three steps", "1 step", steps},
                         {"sgd", "adamw does not feel a constant factor of the gradient", sgd},
                         {"adam", "", adam}, /* with adamw */
                         {"live bubbles", "bubble cells are skipped", bubbles},
                         {"trained weights", "1 step from initial weights", trained},
                         {"gradient accumulation", "gradient_accumulation_steps is 1", accumulation},
                         {"absolute positions", "positions are rotary, or not read", NULL},
                         {"dropout", "no dropout", NULL},
                         {"tied embedding", "embedding and logits have their own weights", NULL},
                         {"data parallelism", "one replica", NULL},
                         {"resuming", "runs are not saved and resumed", NULL},
                         {"routing", "one expert", NULL}};

static struct ab_config *config;
static struct ab_teeth teeth;

static void open_config(void) {
  static char path[1024];
  snprintf(path, sizeof path, "%s/tests/fixtures/faults/circ.yml", getenv("AB_SOURCE_ROOT"));
  ck_ok(ab_config_load(&config, &(struct ab_config_request){.file = path, .ignore_environment = true}));
  teeth = (struct ab_teeth){0};
}

static void close_config(void) { ab_config_free(config); }

static const struct ab_blind *row_of(const char *name) {
  for (size_t i = 0; i < teeth.blinds; i++)
    if (strcmp(teeth.blind[i].name, name) == 0) return &teeth.blind[i];
  return NULL;
}

/* A config whose fields may be changed: what it owns stays with the real one. */
static void look_at(const char *what, void (*change)(struct ab_run_facts *, struct ab_config *)) {
  struct ab_config changed = *config;
  struct ab_run_facts facts;
  poor(&facts, &changed);
  if (change) change(&facts, &changed);
  teeth = (struct ab_teeth){0};
  ab_blind_of(&teeth, &facts);
  ck_assert_msg(teeth.blinds > 0 && teeth.blinds <= AB_TRIGGERS, "%s: %zu rows", what, teeth.blinds);
}

START_TEST(a_run_that_lacks_it_says_so) {
  look_at("poor", NULL);
  for (int i = 0; i < AB_TRIGGERS; i++) {
    const struct ab_blind *row = row_of(matrix[i].name);
    ck_assert_str_eq(ab_trigger_name((size_t)i), matrix[i].name);
    ck_assert_msg((row != NULL) == (matrix[i].reason[0] != 0), "%s", matrix[i].name);
    if (!row) continue;
    ck_assert_msg(strcmp(row->reason, matrix[i].reason) == 0, "%s: '%s'", matrix[i].name, row->reason);
    ck_assert_msg(row->hidden[0] && strchr(row->hidden, '('), "%s hides '%s'", matrix[i].name, row->hidden);
    bool here = matrix[i].cure && strcmp(matrix[i].name, "gradient accumulation") != 0;
    ck_assert_msg(row->built == here, "%s", matrix[i].name);
  }
}
END_TEST

START_TEST(a_run_that_has_it_does_not) {
  if (!matrix[_i].cure) return;
  look_at(matrix[_i].name, matrix[_i].cure);
  ck_assert_msg(!row_of(matrix[_i].name), "still blind to %s", matrix[_i].name);
}
END_TEST

/* At the edge of each row, where it still lacks. */
static void edge_surplus(struct ab_run_facts *f, struct ab_config *c) {
  c->num_stages = 4;
  f->batch.microbatches = 4;
}
static void edge_repeats(struct ab_run_facts *f, struct ab_config *c) {
  c->num_pipeline_repeats = 2;
  f->batch.microbatches = 2;
}
static void edge_packed(struct ab_run_facts *f, struct ab_config *c) { (void)c, f->batch.most_segments = 2; }
static void edge_far(struct ab_run_facts *f, struct ab_config *c) { (void)c, f->batch.last_position = 256; }
static void edge_same(struct ab_run_facts *f, struct ab_config *c) { (void)c, f->batch.microbatches = 2; }
static void edge_rows(struct ab_run_facts *f, struct ab_config *c) {
  (void)c;
  f->batch.microbatches = f->batch.rows = 4;
}
static void edge_clipped(struct ab_run_facts *f, struct ab_config *c) {
  (void)c;
  f->clipped = 5;
  f->unclipped = 0;
}
static void edge_free(struct ab_run_facts *f, struct ab_config *c) {
  (void)f;
  c->gradient_clipping_threshold = 0;
}
static void edge_steps(struct ab_run_facts *f, struct ab_config *c) { (void)c, f->steps = 2; }
static void edge_trained(struct ab_run_facts *f, struct ab_config *c) { (void)c, f->steps = 199; }
static void edge_plain(struct ab_run_facts *f, struct ab_config *c) { (void)f, c->pipelined = false; }
static void edge_module(struct ab_run_facts *f, struct ab_config *c) { (void)c, f->batch.train = false; }

static const struct {
  const char *name, *reason;
  void (*change)(struct ab_run_facts *f, struct ab_config *c);
} edges[] = {{"more microbatches than stages", "4 microbatches for 4 stages", edge_surplus},
             {"repeats with storage", "2 microbatches for 2 stages: nothing is stored between repeats", edge_repeats},
             {"packed documents", "documents end at the same places in every microbatch", edge_packed},
             {"positions above 256", "the last position is 256", edge_far},
             {"distinct microbatches", "two microbatches hold the same data", edge_same},
             {"rows of a microbatch", "a microbatch is one row", edge_rows},
             {"clipping both ways", "the gradient norm is above 1 in every step", edge_clipped},
             {"clipping both ways", "gradients are not clipped", edge_free},
             {"three steps", "2 steps", edge_steps},
             {"trained weights", "199 steps from initial weights", edge_trained},
             {"three stages", "1 stage", edge_plain},
             {"live bubbles", "no pipeline", edge_plain},
             {"valid tokens", "activations have no labels", edge_module},
             {"repeated tokens", "activations have no tokens", edge_module},
             {"adam", "no update", edge_module},
             {"adam", "sgd has no moments", sgd}};

START_TEST(just_short_of_it_is_still_blind) {
  look_at(edges[_i].name, edges[_i].change);
  const struct ab_blind *row = row_of(edges[_i].name);
  ck_assert_msg(row != NULL, "not blind to %s: %s", edges[_i].name, edges[_i].reason);
  ck_assert_msg(strcmp(row->reason, edges[_i].reason) == 0, "%s: '%s', expected '%s'", edges[_i].name, row->reason,
                edges[_i].reason);
}
END_TEST

/* Facts of a batch: 4 rows of 4 tokens in two microbatches. */
enum { ROWS = 4, LENGTH = 4, CELLS = ROWS * LENGTH };
struct arrays {
  int32_t inputs[CELLS], position[CELLS], segment[CELLS], counts[CELLS];
};

static struct arrays plain(void) {
  struct arrays a;
  for (int i = 0; i < CELLS; i++) {
    a.inputs[i] = i;
    a.position[i] = i % LENGTH;
    a.segment[i] = a.counts[i] = 1;
  }
  return a;
}

static struct ab_batch_facts facts_of(const struct arrays *a) {
  struct ab_batch batch = {.rows = ROWS, .length = LENGTH, .inputs = a->inputs, .inputs_position = a->position,
                           .inputs_segmentation = a->segment, .targets = a->inputs, .targets_position = a->position,
                           .targets_segmentation = a->counts};
  struct ab_batch_facts f;
  ck_ok(ab_batch_facts_of(&f, &batch, 2));
  return f;
}

START_TEST(a_plain_batch) {
  struct arrays a = plain();
  struct ab_batch_facts f = facts_of(&a);
  ck_assert(f.train && f.any_valid && f.one_segment && f.microbatches_differ);
  ck_assert(!f.counts_differ && !f.boundaries_differ && !f.positions_differ && !f.repeated_tokens);
  ck_assert_int_eq(f.most_segments, 1);
  ck_assert_int_eq(f.last_position, LENGTH - 1);
}
END_TEST

START_TEST(what_a_batch_shows) {
  struct arrays a = plain();
  a.counts[CELLS - 1] = 0;
  ck_assert(facts_of(&a).counts_differ);
  a.counts[0] = 0; /* as many in the other microbatch */
  ck_assert(!facts_of(&a).counts_differ);
  memset(a.counts, 0, sizeof a.counts);
  ck_assert(!facts_of(&a).any_valid);
  a = plain();
  a.segment[2] = a.segment[3] = 2;
  ck_assert(facts_of(&a).boundaries_differ && !facts_of(&a).one_segment);
  ck_assert_int_eq(facts_of(&a).most_segments, 2);
  memcpy(a.segment + CELLS / 2, a.segment, sizeof a.segment / 2);
  ck_assert_msg(!facts_of(&a).boundaries_differ, "both microbatches are packed alike");
  a.segment[3] = 0;
  ck_assert_msg(facts_of(&a).most_segments == 2, "padding is no document");
  a = plain();
  a.position[CELLS - 1] = 300;
  ck_assert(facts_of(&a).positions_differ);
  ck_assert_int_eq(facts_of(&a).last_position, 300);
  a = plain();
  a.inputs[5] = a.inputs[9];
  ck_assert(facts_of(&a).repeated_tokens && facts_of(&a).microbatches_differ);
  memcpy(a.inputs + CELLS / 2, a.inputs, sizeof a.inputs / 2);
  ck_assert(!facts_of(&a).microbatches_differ);
}
END_TEST

START_TEST(activations_have_no_tokens) {
  struct arrays a = plain();
  float inputs[CELLS * 2];
  for (int i = 0; i < CELLS * 2; i++) inputs[i] = (float)(i % CELLS); /* the microbatches are the same */
  struct ab_activations given = {.count = CELLS * 2, .inputs = inputs, .positions = a.position,
                                 .segment_ids = a.segment};
  struct ab_batch_facts f;
  ck_ok(ab_activation_facts_of(&f, &given, ROWS, LENGTH, 2));
  ck_assert(!f.train && !f.microbatches_differ && f.one_segment);
  inputs[0] = -1;
  ck_ok(ab_activation_facts_of(&f, &given, ROWS, LENGTH, 2));
  ck_assert(f.microbatches_differ);
  ck_assert_uint_eq(f.rows, ROWS);
}
END_TEST

static ab_status look_at_both(void) {
  struct arrays a = plain();
  float inputs[CELLS] = {0};
  struct ab_batch batch = {.rows = ROWS, .length = LENGTH, .inputs = a.inputs, .inputs_position = a.position,
                           .inputs_segmentation = a.segment, .targets_segmentation = a.counts};
  struct ab_activations given = {.count = CELLS, .inputs = inputs, .positions = a.position, .segment_ids = a.segment};
  struct ab_batch_facts f;
  AB_TRY(ab_batch_facts_of(&f, &batch, 2));
  return ab_activation_facts_of(&f, &given, ROWS, LENGTH, 2);
}

START_TEST(nothing_is_guessed_without_memory) { ck_assert_uint_eq(sweep_allocations(look_at_both), 2); }
END_TEST

START_TEST(steps_are_joined) {
  struct arrays a = plain(), b = plain();
  b.counts[0] = 0;
  b.segment[3] = 2;
  b.position[0] = 77;
  struct ab_batch_facts f = facts_of(&a), g = facts_of(&b);
  ab_batch_facts_join(&f, &g);
  ck_assert(f.counts_differ && f.boundaries_differ && f.positions_differ && !f.one_segment && f.any_valid);
  ck_assert_int_eq(f.most_segments, 2);
  ck_assert_int_eq(f.last_position, 77);
}
END_TEST

/* docs/verdict.md has a row for each control and each trigger, in their order. */
START_TEST(the_page_has_every_row) {
  char path[1024], row[128], *text;
  size_t size;
  snprintf(path, sizeof path, "%s/docs/verdict.md", getenv("AB_SOURCE_ROOT"));
  ck_ok(ab_file_read(&text, &size, path, 1 << 20));
  const char *at = text;
  for (size_t i = 0; i < AB_CONTROLS + AB_TRIGGERS; i++) {
    snprintf(row, sizeof row, "\n| %s |", i < AB_CONTROLS ? ab_control_name(i) : ab_trigger_name(i - AB_CONTROLS));
    const char *found = strstr(at, row);
    ck_assert_msg(found != NULL, "no row%s in %s, or in another order", row, path);
    at = found + 1;
  }
  ab_mem_free(text);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("blind");
  TCase *c = tcase_create("blind");
  tcase_add_checked_fixture(c, open_config, close_config);
  tcase_add_test(c, a_run_that_lacks_it_says_so);
  tcase_add_loop_test(c, a_run_that_has_it_does_not, 0, AB_TRIGGERS);
  tcase_add_loop_test(c, just_short_of_it_is_still_blind, 0, sizeof edges / sizeof *edges);
  tcase_add_test(c, a_plain_batch);
  tcase_add_test(c, what_a_batch_shows);
  tcase_add_test(c, activations_have_no_tokens);
  tcase_add_test(c, nothing_is_guessed_without_memory);
  tcase_add_test(c, steps_are_joined);
  tcase_add_test(c, the_page_has_every_row);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
