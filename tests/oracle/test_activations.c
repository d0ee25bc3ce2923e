/* Every intermediate activation of p01_llama2 against the real MaxText code, as the oracle's probe reports it. */
#include <string.h>

#include "oracle.h"
#include "reference.h"
#include "tap.h"

/* The names of activations.safetensors are those of the values; slots carry MaxText's checkpoint names. */
static const struct {
  const char *file, *slot;
} names[] = {
    {"layer_input", "decoder_layer_input"}, {"pre_norm", "pre_norm"},           {"q_proj", "query_raw"},
    {"key_proj", "key_raw"},                {"value_proj", "value_proj"},       {"q_rope", "query_proj"},
    {"k_rope", "key_proj"},                 {"attention_core", "attention_core"}, {"attention_out", "out_proj"},
    {"post_norm", "post_norm"},             {"mlp_out", "mlpwo"},               {"layer_output", "layer_output"},
};

struct check {
  const struct reference_case *c;
  const struct ab_tree *want;
  int found;
};

static const char *file_name(const char *slot) {
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strcmp(names[i].slot, slot) == 0) return names[i].file;
  return NULL;
}

static ab_status on_observe(void *ctx, const struct ab_observation *o, const void *values) {
  struct check *check = ctx;
  const char *file = file_name(o->id.tensor);
  if (o->id.phase != AB_FORWARD || !file || o->id.layer < 0) return AB_OK;
  char path[128];
  int stages = (int)check->c->config->num_stages;
  snprintf(path, sizeof path, "s%d/r%d/m%d/%s", o->id.layer % stages, o->id.layer / stages, o->id.microbatch, file);
  struct ab_tensor *want;
  ck_ok(ab_tree_get(&want, check->want, path, "activations.safetensors"));
  ck_assert_uint_eq(want->count, o->summary.count);
  double distance = reference_distance(values, o->dtype, want->data, want->count);
  ck_assert_msg(distance <= 2e-6, "%s is %.3g away", path, distance);
  check->found++;
  return AB_OK;
}

static ab_status on_count(void *ctx, const char *name, const struct ab_identity *id, const struct ab_where *at,
                          int64_t amount) {
  (void)ctx, (void)name, (void)id, (void)at, (void)amount;
  return AB_OK;
}

START_TEST(test_every_activation) {
  static const struct ab_kernels *const tables[] = {&ab_kernels_f32, &ab_kernels_f32_portable, &ab_kernels_f64};
  static const struct ab_probe_ops ops = {on_observe, on_count};
  struct reference_case c = reference_open_named("p01_llama2");
  struct ab_tree *want = reference_tensors(&c, "activations.safetensors");
  struct check check = {&c, want, 0};
  struct ab_probe *probe;
  ck_ok(ab_probe_new(&probe, &ops, &check, AB_LEVEL_FULL, 1));
  struct reference_run run = reference_run_pipeline(&c, &ab_oracle_pipeline_ops, tables[_i], probe);
  ck_assert_uint_eq((size_t)check.found, ab_tree_size(want));
  reference_run_free(&run);
  ab_probe_free(probe);
  ab_tree_free(want);
  reference_close(&c);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("oracle_activations");
  TCase *tc = tcase_create("activations");
  tcase_add_loop_test(tc, test_every_activation, 0, 3);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
