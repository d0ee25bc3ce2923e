/* The bundle door: what it gives, what it refuses, and that a dump is a bundle. */
#include <math.h>

#include "bundle_copy.h"
#include "safetensors.h"

/* How a file of tensors is spoiled: fn changes the tree that was read, and returns the one to write. */
typedef void (*spoil_fn)(struct ab_tree *to, const struct ab_tensor *tensor, const char *victim);

static struct ab_tensor *keep(struct ab_tree *to, const struct ab_tensor *tensor) {
  struct ab_tensor *added;
  ck_ok(ab_tree_add(to, tensor->name, tensor->dtype, &tensor->shape, &added));
  memcpy(added->data, tensor->data, tensor->count * ab_dtype_size(tensor->dtype));
  return added;
}

static void put_nan(struct ab_tree *to, const struct ab_tensor *tensor, const char *victim) {
  (void)victim;
  ((float *)keep(to, tensor)->data)[tensor->count - 1] = NAN;
}

static void put_infinity(struct ab_tree *to, const struct ab_tensor *tensor, const char *victim) {
  (void)victim;
  ((float *)keep(to, tensor)->data)[0] = -INFINITY;
}

static void put_large(struct ab_tree *to, const struct ab_tensor *tensor, const char *victim) {
  (void)victim;
  ((int32_t *)keep(to, tensor)->data)[1] = 64;
}

static void put_negative(struct ab_tree *to, const struct ab_tensor *tensor, const char *victim) {
  (void)victim;
  ((int32_t *)keep(to, tensor)->data)[2] = -1;
}

static void drop(struct ab_tree *to, const struct ab_tensor *tensor, const char *victim) {
  (void)to, (void)tensor, (void)victim;
}

static void rename_it(struct ab_tree *to, const struct ab_tensor *tensor, const char *victim) {
  struct ab_tensor *added;
  (void)victim;
  ck_ok(ab_tree_add(to, "intruder", tensor->dtype, &tensor->shape, &added));
}

static void add_another(struct ab_tree *to, const struct ab_tensor *tensor, const char *victim) {
  keep(to, tensor);
  rename_it(to, tensor, victim);
}

static void reshape(struct ab_tree *to, const struct ab_tensor *tensor, const char *victim) {
  struct ab_shape shape = tensor->shape;
  (void)victim;
  shape.dim[shape.rank - 1]++;
  ck_ok(ab_tree_add(to, tensor->name, tensor->dtype, &shape, NULL));
}

static void retype(struct ab_tree *to, const struct ab_tensor *tensor, const char *victim) {
  (void)victim;
  ck_ok(ab_tree_add(to, tensor->name, AB_F64, &tensor->shape, NULL));
}

static void spoil(const struct copy *copy, const char *file, const char *victim, spoil_fn fn) {
  char path[512];
  struct ab_tree *tree, *to;
  copy_path(path, copy, file);
  ck_ok(ab_safetensors_load(&tree, path));
  ck_ok(ab_tree_new(&to));
  for (size_t i = 0; i < ab_tree_size(tree); i++) {
    const struct ab_tensor *tensor = ab_tree_at(tree, i);
    if (strcmp(tensor->name, victim) == 0)
      fn(to, tensor, victim);
    else
      keep(to, tensor);
  }
  ck_ok(ab_safetensors_write(path, to));
  ab_tree_free(tree);
  ab_tree_free(to);
}

static const struct {
  const char *name, *file, *victim;
  spoil_fn fn;
  ab_status code;
  const char *sentence;
} inputs[] = {
    {"p01_simple", "params.safetensors", "layers/weights", put_nan, AB_EFORMAT,
     "'layers/weights' is nan at [1, 15, 15]"},
    {"p01_simple", "params.safetensors", "layers/weights", put_infinity, AB_EFORMAT, "is -inf at [0, 0, 0]"},
    {"p01_simple", "params.safetensors", "layers/weights", rename_it, AB_EMISMATCH, "'layers/weights' is missing"},
    {"p01_simple", "params.safetensors", "layers/weights", add_another, AB_EMISMATCH, "'intruder' is unknown"},
    {"p01_simple", "params.safetensors", "layers/weights", reshape, AB_ESHAPE, "shape [2, 16, 17]"},
    {"p01_simple", "params.safetensors", "layers/weights", retype, AB_EMISMATCH, "is F64, expected F32"},
    {"p01_simple", "batch.safetensors", "inputs", put_nan, AB_EFORMAT, "'inputs' is nan at"},
    {"p01_simple", "batch.safetensors", "targets", drop, AB_EMISMATCH, "'targets' is missing"},
    {"p01_simple", "batch.safetensors", "positions", reshape, AB_ESHAPE, "'positions' has shape"},
    {"p01_simple", "batch.safetensors", "segment_ids", put_negative, AB_EFORMAT, "'segment_ids' is -1 at [0, 2]"},
    {"o01_order", "batch.safetensors", "output_cotangent", put_infinity, AB_EFORMAT, "'output_cotangent' is -inf"},
    {"t01", "params.safetensors", "token_embedder/embedding", put_nan, AB_EFORMAT, "'token_embedder/embedding' is nan"},
    {"t01", "batch.safetensors", "inputs", put_large, AB_EFORMAT, "'inputs' is 64 at [0, 0, 1], expected 0 to 63"},
    {"t01", "batch.safetensors", "targets", put_negative, AB_EFORMAT, "'targets' is -1 at [0, 0, 2]"},
    {"t01", "batch.safetensors", "inputs_position", reshape, AB_ESHAPE, "[15, 4, 33]"},
    {"t01", "batch.safetensors", "targets_segmentation", retype, AB_EMISMATCH, "is F64, expected I32"},
};

START_TEST(spoiled_inputs_are_named) {
  struct copy copy = copy_new(inputs[_i].name);
  struct ab_bundle *bundle;
  spoil(&copy, inputs[_i].file, inputs[_i].victim, inputs[_i].fn);
  ck_fails(ab_bundle_open(&bundle, copy.folder, copy.config), inputs[_i].code, inputs[_i].sentence);
  ck_assert_msg(strstr(ab_status_message(), inputs[_i].file) != NULL, "%s", ab_status_message());
  copy_free(&copy);
}
END_TEST

static const struct {
  const char *name, *file, *victim;
  spoil_fn fn;
  ab_status code;
  const char *sentence;
} outcomes[] = {
    {"p01_simple", "grads.safetensors", "layers/weights", add_another, AB_EMISMATCH, "'intruder' is unknown"},
    {"p01_simple", "grads.safetensors", "layers/weights", reshape, AB_ESHAPE, "shape [2, 16, 17]"},
    {"p01_simple", "grads.safetensors", "layers/weights", retype, AB_EMISMATCH, "is F64"},
    {"p01_simple", "outputs.safetensors", "d_inputs", drop, AB_EMISMATCH, "'d_inputs' is missing"},
    {"t01", "params_final.safetensors", "decoder/decoder_norm/scale", drop, AB_EMISMATCH, "is missing"},
};

START_TEST(spoiled_results_are_named) {
  struct copy copy = copy_new(outcomes[_i].name);
  struct ab_bundle *bundle;
  struct ab_results results;
  spoil(&copy, outcomes[_i].file, outcomes[_i].victim, outcomes[_i].fn);
  ck_ok(ab_bundle_open(&bundle, copy.folder, copy.config));
  ck_fails(ab_bundle_expect(&results, bundle), outcomes[_i].code, outcomes[_i].sentence);
  ab_bundle_free(bundle);
  copy_free(&copy);
}
END_TEST

static const struct {
  const char *file, *text;
  bool opens;
  ab_status code;
  const char *sentence;
} texts[] = {
    {"meta.json", NULL, false, AB_ENOTFOUND, "meta.json"},
    {"meta.json", "{", false, AB_EFORMAT, "meta.json"},
    {"meta.json", "{\"kind\": \"serve\", \"loss_kind\": \"norm\"}", false, AB_EFORMAT, "kind 'serve' is unknown"},
    {"meta.json", "{\"kind\": \"engine\", \"loss_kind\": \"hinge\"}", false, AB_EFORMAT, "'hinge' is unknown"},
    {"meta.json", "{\"kind\": \"engine\", \"loss_kind\": \"train\"}", false, AB_EFORMAT, "does not go with"},
    {"meta.json", "{\"loss_kind\": \"norm\"}", false, AB_EFORMAT, "kind"},
    {"expected.json", NULL, true, AB_ENOTFOUND, "expected.json"},
    {"expected.json", "[1, 2]", true, AB_EFORMAT, "is not an object"},
    {"expected.json", "{\"loss\": 3}", true, AB_EFORMAT, "loss"},
    {"expected.json", "{\"loss\": {\"value\": \"x\"}}", true, AB_EFORMAT, "value"},
    {"expected.json", "{\"schema\": 2, \"loss\": {\"value\": 1.0}}", true, AB_EFORMAT, "newer"},
};

START_TEST(spoiled_texts_are_named) {
  struct copy copy = copy_new("p01_simple");
  struct ab_bundle *bundle = NULL;
  struct ab_results results;
  char path[512];
  copy_path(path, &copy, texts[_i].file);
  if (texts[_i].text)
    ck_ok(ab_file_write(path, texts[_i].text, strlen(texts[_i].text)));
  else
    ck_assert_int_eq(unlink(path), 0);
  if (texts[_i].opens) {
    ck_ok(ab_bundle_open(&bundle, copy.folder, copy.config));
    ck_fails(ab_bundle_expect(&results, bundle), texts[_i].code, texts[_i].sentence);
  } else {
    ck_fails(ab_bundle_open(&bundle, copy.folder, copy.config), texts[_i].code, texts[_i].sentence);
  }
  ab_bundle_free(bundle);
  copy_free(&copy);
}
END_TEST

START_TEST(what_nobody_needs_is_counted) {
  struct copy copy = copy_new("p01_simple");
  struct ab_bundle *bundle;
  struct ab_results results;
  char path[512];
  static const char text[] =
      "{\"kind\": \"engine\", \"loss\": {\"value\": 2.5, \"f32\": \"2.5\"}, \"mood\": 1, \"note\": \"x\"}";
  copy_path(path, &copy, "masks_sample.safetensors");
  ck_ok(ab_file_write(path, "anything", 8));
  copy_path(path, &copy, "expected.json");
  ck_ok(ab_file_write(path, text, strlen(text)));
  spoil(&copy, "batch.safetensors", "positions", add_another);
  ck_ok(ab_bundle_open(&bundle, copy.folder, copy.config));
  ck_ok(ab_bundle_expect(&results, bundle));
  ck_assert_uint_eq(bundle->ignored, 2);
  ck_assert_uint_eq(results.ignored, 2);
  ck_assert(results.loss == 2.5);
  ab_results_free(&results);
  ab_bundle_free(bundle);
  copy_free(&copy);
}
END_TEST

START_TEST(a_train_bundle_gives_its_steps) {
  char path[512];
  struct ab_config *config = case_config("t01");
  struct ab_bundle *bundle;
  struct ab_results results;
  struct ab_batch first, last;
  case_path(path, "t01", "");
  bool there;
  ck_ok(ab_bundle_find(&there, path));
  ck_assert(there);
  ck_ok(ab_bundle_open(&bundle, path, config));
  ck_assert_int_eq(ab_bundle_steps(bundle), 15);
  ck_ok(ab_bundle_batch(&first, bundle, 0));
  ck_ok(ab_bundle_batch(&last, bundle, 14));
  ck_assert(first.rows == 4 && first.length == 32);
  ck_assert_mem_eq(first.targets, last.targets, 128 * sizeof(int32_t));
  ck_assert_ptr_eq(last.inputs, first.inputs + 14 * 128);
  ck_assert_int_eq(first.inputs[1], first.targets[0]);
  ck_fails(ab_bundle_batch(&last, bundle, 15), AB_ESHAPE, "holds 15 steps, but the run needs step 16");
  ck_ok(ab_bundle_expect(&results, bundle));
  ck_assert_uint_eq(results.steps, 15);
  ck_assert_uint_eq(results.step[0].present, 511);
  ck_assert(results.step[0].metrics.raw_grad_norm == 2.2672312259674072 && results.step[0].metrics.learning_rate == 0);
  ck_assert_ptr_nonnull(results.params_final);
  ck_assert_ptr_null(results.params_step1);
  ab_results_free(&results);
  ab_bundle_free(bundle);
  ab_config_free(config);
}
END_TEST

START_TEST(a_folder_without_meta_is_no_bundle) {
  char path[512];
  case_path(path, "", "");
  bool there;
  ck_ok(ab_bundle_find(&there, path));
  ck_assert(!there);
  ck_assert_str_eq(ab_status_message(), "");
}
END_TEST

static void check_same(const struct ab_tree *a, const struct ab_tree *b) {
  ck_assert_uint_eq(ab_tree_size(a), ab_tree_size(b));
  for (size_t i = 0; i < ab_tree_size(a); i++) {
    const struct ab_tensor *x = ab_tree_at(a, i), *y = ab_tree_find(b, x->name);
    ck_assert_msg(y && y->count == x->count, "%s", x->name);
    ck_assert_mem_eq(x->data, y->data, x->count * ab_dtype_size(x->dtype));
  }
}

static struct ab_dump dump_of(const struct ab_bundle *b, const struct ab_results *r, struct ab_metrics *steps) {
  for (size_t i = 0; i < r->steps; i++) steps[i] = r->step[i].metrics;
  return (struct ab_dump){.config = b->config,
                          .train = b->train,
                          .loss_kind = b->loss_kind,
                          .produced_by = "linen",
                          .params = b->params,
                          .batch = b->batch,
                          .grads = r->grads,
                          .outputs = r->outputs,
                          .params_final = r->params_final,
                          .params_step1 = r->params_step1,
                          .step = steps,
                          .steps = r->steps,
                          .loss = r->loss};
}

static void check_dump(const char *folder, const struct ab_bundle *b, const struct ab_results *r) {
  char path[1024];
  struct ab_config *config;
  struct ab_bundle *again;
  struct ab_results results;
  snprintf(path, sizeof path, "%s/config.yml", folder);
  ck_ok(ab_config_load(&config, &(struct ab_config_request){.file = path, .ignore_environment = true}));
  ck_assert(ab_config_digest(config) == ab_config_digest(b->config));
  ck_ok(ab_bundle_open(&again, folder, config));
  ck_ok(ab_bundle_expect(&results, again));
  check_same(b->params, again->params);
  check_same(b->batch, again->batch);
  check_same(r->grads, results.grads);
  ck_assert(results.loss == r->loss && results.steps == r->steps);
  for (size_t i = 0; i < r->steps; i++)
    ck_assert_mem_eq(&results.step[i].metrics, &r->step[i].metrics, sizeof results.step[i].metrics);
  ab_results_free(&results);
  ab_bundle_free(again);
  ab_config_free(config);
}

static const char *const dumped[] = {"t01", "t03b", "p09_llama2", "o01_order", "e06_simple_mlp"};

START_TEST(a_dump_is_a_bundle) {
  char path[512], folder[600], *scratch;
  struct ab_config *config = case_config(dumped[_i]);
  struct ab_bundle *bundle;
  struct ab_results results;
  struct ab_metrics steps[15];
  ck_ok(ab_scratch_new(&scratch, NULL));
  snprintf(folder, sizeof folder, "%s/out/%s", scratch, dumped[_i]);
  case_path(path, dumped[_i], "");
  ck_ok(ab_bundle_open(&bundle, path, config));
  ck_ok(ab_bundle_expect(&results, bundle));
  struct ab_dump dump = dump_of(bundle, &results, steps);
  ck_ok(ab_dump_write(&dump, folder));
  check_dump(folder, bundle, &results);
  ck_fails(ab_dump_write(&dump, folder), AB_EIO, "cannot put in place");
  check_dump(folder, bundle, &results);
  ab_results_free(&results);
  ab_bundle_free(bundle);
  ab_config_free(config);
  ck_ok(ab_scratch_remove(scratch));
  ab_mem_free(scratch);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, 0);
}
END_TEST

/* Memory that runs out after n blocks: every call fails cleanly until it has enough. */
static size_t budget = SIZE_MAX;

static void *limited_alloc(void *ctx, size_t bytes) {
  (void)ctx;
  if (budget == 0) return NULL;
  budget -= budget != SIZE_MAX;
  return aligned_alloc(AB_ALIGN, bytes);
}

static void limited_release(void *ctx, void *block, size_t bytes) {
  (void)ctx, (void)bytes;
  free(block);
}

static const struct ab_allocator limited = {NULL, limited_alloc, limited_release};

static ab_status open_and_expect(const char *path, const struct ab_config *config) {
  struct ab_bundle *bundle;
  struct ab_results results;
  AB_TRY(ab_bundle_open(&bundle, path, config));
  ab_status status = ab_bundle_expect(&results, bundle);
  if (status == AB_OK) ab_results_free(&results);
  ab_bundle_free(bundle);
  return status;
}

static ab_status make_data(const char *path, const struct ab_config *config) {
  struct ab_synthetic *data;
  (void)path;
  AB_TRY(ab_synthetic_new(&data, config));
  ab_synthetic_free(data);
  return AB_OK;
}

static ab_status (*const constructors[])(const char *path, const struct ab_config *config) = {open_and_expect,
                                                                                              make_data};

START_TEST(running_out_of_memory_leaves_nothing_behind) {
  char path[512];
  ab_mem_install(&limited);
  struct ab_config *config = case_config("p01_simple");
  config->packing = true, config->max_segments_per_seq = 3;
  size_t live = ab_mem_stats().live_blocks, tries = 0;
  case_path(path, "p01_simple", "");
  ab_status status = AB_ENOMEM;
  for (; status != AB_OK && tries < 2000; tries++) {
    budget = tries;
    status = constructors[_i](path, config);
    budget = SIZE_MAX;
    ck_assert_msg(status == AB_OK || status == AB_ENOMEM, "after %zu blocks: %s", tries, ab_status_message());
    ck_assert_uint_eq(ab_mem_stats().live_blocks, live);
    ab_status_clear();
  }
  ck_assert_msg(status == AB_OK && tries > 5, "%zu tries", tries);
  ab_config_free(config);
  ab_mem_install(NULL);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("bundle");
  TCase *c = tcase_create("bundle");
  tcase_add_loop_test(c, spoiled_inputs_are_named, 0, (int)(sizeof inputs / sizeof *inputs));
  tcase_add_loop_test(c, spoiled_results_are_named, 0, (int)(sizeof outcomes / sizeof *outcomes));
  tcase_add_loop_test(c, spoiled_texts_are_named, 0, (int)(sizeof texts / sizeof *texts));
  tcase_add_test(c, what_nobody_needs_is_counted);
  tcase_add_test(c, a_train_bundle_gives_its_steps);
  tcase_add_test(c, a_folder_without_meta_is_no_bundle);
  tcase_add_loop_test(c, running_out_of_memory_leaves_nothing_behind, 0, 2);
  tcase_add_loop_test(c, a_dump_is_a_bundle, 0, (int)(sizeof dumped / sizeof *dumped));
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
