/* What a comparison is made small to: its first two steps, one weight gradient, one cotangent of the whole batch. */
#include "controls_parts.h"
#include "sides.h"

enum { MICROBATCHES = 3, MOST = 12 };
static const struct ab_control_facts facts = {2, 1, 4, MICROBATCHES};

static void put(struct side *s, struct ab_identity id, struct ab_shape shape, float first) {
  struct ab_tensor *t = side_tensor(s, &id, AB_F32, shape);
  for (size_t i = 0; i < t->count; i++) ((float *)t->data)[i] = first * (float)(i + 1);
  side_observe(s, &id);
}

/* Both sides are the same one. */
static struct ab_control_data data_of(struct both *both, struct side *s, bool narrow) {
  struct ab_control_data data;
  struct ab_comparison *c;
  ck_ok(ab_mem_new(&c, 1, sizeof *c));
  *c = comparison_of(both, s, s);
  ck_ok(ab_control_data_new(&data, c, &facts, narrow));
  return data;
}

static void data_free(struct ab_control_data *data, struct side *s) {
  ab_mem_free((void *)(uintptr_t)data->c);
  ab_control_data_free(data);
  side_free(s);
}

/* Steps of tensors and of metrics, each up to a 9, and the first two of all. */
static const struct {
  int tensors[4], metrics[4], first, second;
} steps[] = {{{3, 5, 9}, {9}, 3, 5},    {{5, 3, 4, 9}, {9}, 3, 4}, {{1, 9}, {0, 2, 9}, 0, 1},  {{9}, {7, 8, 9}, 7, 8},
             {{-1, 2, 9}, {9}, 2, -1},  {{0, 1, 2, 9}, {9}, 0, 1}, {{4, 9}, {4, 2, 9}, 2, 4},  {{2, 9}, {2, 3, 9}, 2, 3},
             {{9}, {8, 6, 7, 9}, 6, 7}, {{9}, {9}, -1, -1},        {{2, 0, 1, 9}, {9}, 0, 1}};

START_TEST(the_first_two_steps_are_found) {
  struct side s = side_new("nnx");
  struct both both;
  for (int i = 0; i < 4 && steps[_i].tensors[i] != 9; i++)
    put(&s, identity(steps[_i].tensors[i], 0, "mlp_output", AB_FORWARD), (struct ab_shape){1, {2}}, 1);
  for (int i = 0; i < 4 && steps[_i].metrics[i] != 9; i++) side_metric(&s, steps[_i].metrics[i], "loss", 1);
  ab_recording_complete(s.recording);
  struct ab_control_data data = data_of(&both, &s, false);
  ck_assert_int_eq(data.step, steps[_i].first);
  ck_assert_int_eq(data.next, steps[_i].second);
  data_free(&data, &s);
}
END_TEST

#define WO "mlp/wo/kernel"
#define SCORES "self_attention/query/kernel"
#define VALUES "self_attention/value/kernel"

/* Tensors in their order, and which of them, by its place, is taken; -1: none is. */
struct offered {
  int step;
  const char *name;
  enum ab_phase phase;
  struct ab_shape shape;
  float first;
};
static const struct {
  struct offered tensor[MOST];
  int leaf, rows;
} offers[] = {
    {{{0, WO, AB_BACKWARD, {2, {4, 4}}, 1},
      {0, WO, AB_BACKWARD, {2, {1, 2}}, 0},   /* nothing but zeros */
      {0, WO, AB_BACKWARD, {2, {1, 2}}, NAN},
      {0, WO, AB_BACKWARD, {1, {2}}, 1},      /* no axes to exchange */
      {1, WO, AB_BACKWARD, {2, {1, 2}}, 1},   /* of the second step */
      {0, WO, AB_UPDATE, {2, {1, 1}}, 1},     /* no gradient */
      {0, WO, AB_BACKWARD, {2, {3, 1}}, 1},
      {0, WO, AB_BACKWARD, {2, {1, 3}}, 1},   /* no smaller */
      {0, WO, AB_BACKWARD, {2, {2, 5}}, 1}}, 6, -1},
    {{{0, WO, AB_BACKWARD, {2, {4, 4}}, 1}, {0, WO, AB_BACKWARD, {2, {1, 1}}, 1}}, 1, -1},
    {{{0, WO, AB_BACKWARD, {2, {2, 2}}, 1}, {0, WO, AB_BACKWARD, {2, {3, 1}}, 1}}, 1, -1},
    {{{0, WO, AB_BACKWARD, {1, {2}}, 1}}, -1, -1},
    {{{0, "d_outputs", AB_BACKWARD, {1, {6}}, 1},    /* no rows */
      {0, "d_outputs", AB_BACKWARD, {2, {5, 2}}, 1}, /* not of whole microbatches */
      {0, "d_outputs", AB_BACKWARD, {2, {6, 2}}, 0},
      {0, "d_outputs", AB_BACKWARD, {2, {6, 2}}, NAN},
      {1, "d_outputs", AB_BACKWARD, {2, {6, 2}}, 1},
      {0, "d_outputs", AB_FORWARD, {2, {6, 2}}, 1},
      {0, "d_outputs", AB_BACKWARD, {2, {6, 2}}, 1},
      {0, "d_outputs", AB_BACKWARD, {2, {3, 1}}, 1}}, -1, 6},
    {{{1, "d_outputs", AB_BACKWARD, {2, {3, 1}}, 1}, {0, "d_outputs", AB_BACKWARD, {2, {3, 1}}, 1}}, -1, 1},
};

static int place_of(const struct ab_captured *taken) {
  return taken->values ? taken->observation.id.accumulation : -1;
}

/* The place is the number of the accumulation. */
START_TEST(a_leaf_and_rows_that_can_be_damaged_are_taken) {
  struct side s = side_new("nnx");
  struct both both;
  for (int i = 0; i < MOST && offers[_i].tensor[i].name; i++) {
    const struct offered *o = &offers[_i].tensor[i];
    struct ab_identity id = identity(o->step, strncmp(o->name, "d_", 2) ? 1 : -1, o->name, o->phase);
    id.accumulation = i;
    put(&s, id, o->shape, o->first);
  }
  ab_recording_complete(s.recording);
  struct ab_control_data data = data_of(&both, &s, false);
  ck_assert_int_eq(place_of(&data.leaf), offers[_i].leaf);
  ck_assert_int_eq(place_of(&data.rows), offers[_i].rows);
  ck_assert(!data.leaf_altered && !data.rows_altered);
  data_free(&data, &s);
}
END_TEST

START_TEST(rounding_of_terms_that_cancel_is_no_leaf) {
  struct side s = side_new("nnx");
  struct both both;
  put(&s, identity(0, 1, SCORES, AB_BACKWARD), (struct ab_shape){2, {1, 1}}, 1e-9f);
  put(&s, identity(0, 1, VALUES, AB_BACKWARD), (struct ab_shape){2, {2, 2}}, 1);
  ab_recording_complete(s.recording);
  struct ab_control_data data = data_of(&both, &s, false);
  ck_assert_str_eq(data.leaf.observation.id.tensor, VALUES);
  data_free(&data, &s);
}
END_TEST

/* Three steps, out of order, each with activations of -1 and all microbatches, a leaf and a metric. */
static struct side long_run(void) {
  struct side s = side_new("nnx");
  for (int i = 0; i < 3; i++) {
    int step = i ? 3 - i : 0;
    for (int m = -1; m < MICROBATCHES; m++) {
      struct ab_identity id = identity(step, 0, "mlp_output", AB_FORWARD);
      id.microbatch = m;
      put(&s, id, (struct ab_shape){1, {2}}, 1);
    }
    put(&s, identity(step, 0, WO, AB_BACKWARD), (struct ab_shape){2, {1, 2}}, 1);
    side_metric(&s, step, "loss", 1);
  }
  ab_recording_complete(s.recording);
  return s;
}

START_TEST(copies_keep_two_steps_and_the_microbatches_at_both_ends) {
  for (int narrow = 0; narrow < 2; narrow++) {
    struct side s = long_run();
    struct both both;
    struct ab_control_data data = data_of(&both, &s, narrow);
    struct ab_identity id = identity(1, 0, "mlp_output", AB_FORWARD);
    ck_assert_uint_eq(data.a->observations, narrow ? 1 : 2 * 4);
    ck_assert_uint_eq(data.b->observations, narrow ? 1 : 2 * 4);
    ck_assert_uint_eq(data.a->metrics, 2);
    for (id.microbatch = -1; id.microbatch < MICROBATCHES; id.microbatch++)
      ck_assert((ab_recording_find(data.a, &id) != NULL) == (!narrow && id.microbatch != 1));
    ck_assert_ptr_nonnull(ab_recording_find(data.a, &data.leaf.observation.id));
    data_free(&data, &s);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("controls_data");
  TCase *tcase = tcase_create("controls_data");
  tcase_add_loop_test(tcase, the_first_two_steps_are_found, 0, (int)(sizeof steps / sizeof *steps));
  tcase_add_loop_test(tcase, a_leaf_and_rows_that_can_be_damaged_are_taken, 0, (int)(sizeof offers / sizeof *offers));
  tcase_add_test(tcase, rounding_of_terms_that_cancel_is_no_leaf);
  tcase_add_test(tcase, copies_keep_two_steps_and_the_microbatches_at_both_ends);
  suite_add_tcase(suite, tcase);
  return ab_run_suite(suite);
}
