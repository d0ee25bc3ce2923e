#include <strings.h>
#include <xxhash.h>

#include "cases.h"
#include "config_keys.h"
#include "json.h"

static const char main_case[] =
    "model_name=llama2-7b dataset_type=synthetic steps=15 debug_sharding=true per_device_batch_size=2 "
    "max_target_length=32 ici_pipeline_parallelism=2 num_pipeline_microbatches=4 num_layers_per_pipeline_stage=2 "
    "enable_checkpointing=false enable_nnx=true pure_nnx_decoder=true scan_layers_per_stage=false "
    "async_checkpointing=false run_name=x base_output_directory=gs://y";
static const char laptop[] = " override_model_config=true base_num_decoder_layers=8 base_emb_dim=128 "
                             "base_num_query_heads=4 base_num_kv_heads=4 "
                             "base_mlp_dim=256 head_dim=32 vocab_size=1024 per_device_batch_size=4";

/* Cases that the manifest gives to other work: their configuration must load for inspection, and may be refused to
 * run. */
static const char *const later[] = {"routes", "circular", "models"};

static bool is_later(const char *issue) {
  for (size_t i = 0; i < 3; i++)
    if (strcmp(issue, later[i]) == 0) return true;
  return false;
}

static void check_number(const struct ab_json *row, const char *key, int64_t found, const char *name) {
  int64_t expected;
  ck_ok(ab_json_get_int64(&expected, row, key));
  ck_assert_msg(found == expected, "%s: %s is %lld, the manifest has %lld", name, key, (long long)found,
                (long long)expected);
}

static void check_case(const struct ab_json *row) {
  const char *name, *issue, *block;
  char file[256];
  size_t before = ab_mem_stats().live_blocks;
  struct ab_config *c = NULL;
  bool circular;
  ck_ok(ab_json_get_string(&name, row, "case"));
  ck_ok(ab_json_get_string(&issue, row, "issue"));
  ck_ok(ab_json_get_string(&block, row, "block"));
  ck_ok(ab_json_get_bool(&circular, row, "circular_engine"));
  snprintf(file, sizeof file, "tests/fixtures/reference/%s/config.yml", name);
  ab_status status = load_with(&c, source_path(file), "", is_later(issue), false);
  ck_assert_msg(status == AB_OK, "%s: %s", name, ab_status_message());
  check_number(row, "S", c->num_stages, name);
  check_number(row, "M", c->num_pipeline_microbatches, name);
  check_number(row, "R", c->num_pipeline_repeats, name);
  check_number(row, "K", c->num_layers_per_pipeline_stage, name);
  check_number(row, "delay", ab_forwarding_delay(c), name);
  ck_assert_str_eq(c->decoder_block, block);
  ck_assert_msg(c->pipeline_fsdp_ag_per_repeat == circular, "%s: circular engine", name);
  ab_config_free(c);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, before);
}

START_TEST(every_bundle_loads_with_the_shape_of_its_row) {
  struct ab_json *root = NULL;
  const struct ab_json *cases;
  size_t count = 0;
  ck_ok(ab_json_read(&root, source_path("tests/fixtures/reference/manifest.json"), NULL));
  ck_ok(ab_json_get_array(&cases, root, "cases"));
  for (const struct ab_json *row = ab_json_first(cases); row; row = ab_json_next(row), count++) check_case(row);
  ck_assert_uint_eq(count, 81);
  ab_json_free(root);
}
END_TEST

START_TEST(the_main_case_is_accepted_as_one_calls_maxtext) {
  char arguments[2048];
  struct ab_config *c = NULL;
  snprintf(arguments, sizeof arguments, "%s %s", source_path("configs/base.yml"), main_case);
  ck_ok(load(&c, NULL, arguments));
  ck_assert_int_eq(c->emb_dim, 4096);
  ck_assert_int_eq(c->mlp_dim, 11008);
  ck_assert_int_eq(c->num_pipeline_repeats, 8);
  ck_assert_int_eq(c->micro_batch_size_to_train_on, 4);
  ck_assert_int_eq(c->devices, 2);
  ck_assert_str_eq(c->run_name, "x");
  ck_assert_str_eq(c->base_output_directory, "gs://y");
  ck_assert_str_eq(c->dataset_type, "synthetic");
  ck_assert_str_eq(ab_config_value(c, "num_pipeline_repeats"), "8");
  ck_assert(c->pipelined && c->debug_sharding && c->enable_nnx && c->pure_nnx_decoder && !c->scan_layers_per_stage);
  ab_config_free(c);
}
END_TEST

static void check_laptop(const struct ab_config *c) {
  ck_assert_int_eq(c->emb_dim, 128);
  ck_assert_int_eq(c->num_query_heads, 4);
  ck_assert_int_eq(c->num_kv_heads, 4);
  ck_assert_int_eq(c->head_dim, 32);
  ck_assert_int_eq(c->mlp_dim, 256);
  ck_assert_int_eq(c->num_decoder_layers, 8);
  ck_assert_int_eq(c->vocab_size, 1024);
  ck_assert_int_eq(c->max_target_length, 32);
  ck_assert_int_eq(c->steps, 15);
  ck_assert_int_eq(c->learning_rate_schedule_steps, 15);
  ck_assert_int_eq(c->micro_batch_size_to_train_on, 8);
  ck_assert_int_eq(c->num_stages, 2);
  ck_assert_int_eq(c->num_pipeline_microbatches, 4);
  ck_assert_int_eq(c->num_pipeline_repeats, 2);
  ck_assert_int_eq(c->num_layers_per_pipeline_stage, 2);
}

START_TEST(the_bundled_main_case_is_that_command_at_laptop_size) {
  char arguments[2048];
  struct ab_config *file = NULL, *command = NULL;
  snprintf(arguments, sizeof arguments, "%s%s", main_case, laptop);
  ck_ok(load(&command, source_path("configs/base.yml"), arguments));
  ck_ok(load(&file, source_path("configs/main.yml"), ""));
  check_laptop(command);
  check_laptop(file);
  ck_assert_str_eq(file->run_name, "main");
  ck_assert_uint_eq(ab_config_digest(file), ab_config_digest(command));
  ab_config_free(file);
  ab_config_free(command);
}
END_TEST

START_TEST(defaults_alone_are_maxtexts) {
  struct ab_config *c = NULL;
  ck_ok(load(&c, NULL, ""));
  ck_assert_int_eq(c->emb_dim, 2048);
  ck_assert_int_eq(c->num_decoder_layers, 16);
  ck_assert_int_eq(c->micro_batch_size_to_train_on, 12);
  ck_assert_int_eq(c->steps, 150001);
  ck_assert(!c->pipelined);
  ck_assert_int_eq(c->num_stages, 1);
  ck_assert_int_eq(c->num_pipeline_repeats, -1);
  ck_assert_int_eq(c->pipeline_parallel_layers, 16);
  ck_assert_str_eq(c->remat_policy, "full");
  ck_assert_str_eq(c->dataset_type, "tfds");
  ck_assert(c->learning_rate == 3e-5 && c->adam_eps == 1e-8);
  ab_config_free(c);
}
END_TEST

START_TEST(every_model_file_of_ours_loads) {
  static const char *const names[] = {"llama2-7b",   "llama2-13b",      "llama2-70b",        "llama2-tiny",
                                      "simple-tiny", "simple_mlp-tiny", "llama2-7b-Instruct"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char argument[64];
    snprintf(argument, sizeof argument, "model_name=%s", names[i]);
    must_accept(source_path("configs/base.yml"), argument);
  }
}
END_TEST

/* Observation */

struct listing {
  size_t count;
  char last[128], steps_source[32], emb_source[32];
};

static void list_key(void *ctx, const char *key, const char *value, const char *source) {
  struct listing *l = ctx;
  ck_assert(key != NULL && value != NULL);
  ck_assert_msg(strcmp(l->last, key) < 0, "%s after %s", key, l->last);
  snprintf(l->last, sizeof l->last, "%s", key);
  if (strcmp(key, "steps") == 0) snprintf(l->steps_source, sizeof l->steps_source, "%s", source);
  if (strcmp(key, "emb_dim") == 0) snprintf(l->emb_source, sizeof l->emb_source, "%s", source);
  l->count++;
}

START_TEST(every_key_is_listed_sorted_with_its_source) {
  struct ab_config *c = NULL;
  struct listing l = {0};
  ck_ok(load(&c, NULL, "steps=3"));
  ab_config_each(c, list_key, &l);
  ck_assert_uint_eq(l.count, 778);
  ck_assert_str_eq(l.steps_source, "override");
  ck_assert_str_eq(l.emb_source, "derived");
  ck_assert_ptr_null(ab_config_value(c, "no_key"));
  ab_config_free(c);
}
END_TEST

static char *printed(void (*print)(FILE *, const struct ab_config *), const char *arguments) {
  struct ab_config *c = NULL;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  ck_ok(load(&c, NULL, arguments));
  print(out, c);
  fclose(out);
  ab_config_free(c);
  return text;
}

START_TEST(parameters_are_printed_as_maxtext_does) {
  char *text = printed(ab_config_print, "steps=3 learning_rate=1e-3");
  ck_assert_ptr_nonnull(strstr(text, "Config param steps: 3\n"));
  ck_assert_ptr_nonnull(strstr(text, "Config param learning_rate: 0.001\n"));
  ck_assert_ptr_nonnull(strstr(text, "Config param mlp_activations: [silu, linear]\n"));
  ck_assert_ptr_nonnull(strstr(text, "Config param attn_logits_soft_cap: null\n"));
  ck_assert_ptr_nonnull(strstr(text, "Config param mu_dtype: float32\n"));
  ck_assert_ptr_nonnull(strstr(text, "Config param eval_per_device_batch_size: 12.0\n"));
  ck_assert_str_eq(strstr(text, "Config param z_"), "Config param z_loss_multiplier: 0.0\n"); /* the last */
  free(text);
}
END_TEST

START_TEST(what_is_printed_steers_no_terminal) {
  char *text = printed(ab_config_print, "run_name=a\u202eb");
  ck_assert_ptr_nonnull(strstr(text, "Config param run_name: \"a\\xe2\\x80\\xaeb\"\n"));
  free(text);
}
END_TEST

START_TEST(notes_name_what_has_no_effect_and_what_defaults_mean) {
  char *text = printed(ab_config_print_notes, "hardware=gpu checkpoint_period=10000");
  ck_assert_ptr_nonnull(strstr(text, "hardware: gpu has no effect here: set-up of JAX, XLA and the hardware\n"));
  ck_assert_ptr_nonnull(strstr(text, "dataset_type: by default tfds: no data set is read"));
  ck_assert_ptr_nonnull(strstr(text, "enable_tensorboard: by default true: no tensorboard log is written\n"));
  ck_assert_ptr_null(strstr(text, "checkpoint_period")); /* given, but as it is by default */
  free(text);
  text = printed(ab_config_print_notes, "mlpwi_0=offload");
  ck_assert_ptr_nonnull(strstr(text, "mlpwi_0: offload has no effect here: read only with remat_policy custom\n"));
  free(text);
  text = printed(ab_config_print_notes, "mlpwi_0=offload remat_policy=custom");
  ck_assert_ptr_null(strstr(text, "mlpwi_0"));
  free(text);
}
END_TEST

static void put_line(void *ctx, const char *key, const char *value, const char *source) {
  (void)source;
  if (ab_key_is_numeric(&ab_keys[ab_key_find(key)])) fprintf(ctx, "%s: %s\n", key, value);
}

START_TEST(the_digest_is_that_of_all_lines_with_numbers) {
  struct ab_config *c = NULL;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  ck_ok(load(&c, NULL, ""));
  ab_config_each(c, put_line, out);
  fclose(out);
  ck_assert_uint_eq(ab_config_digest(c), XXH3_64bits(text, size));
  free(text);
  ab_config_free(c);
}
END_TEST

static uint64_t digest_of(const char *arguments) {
  struct ab_config *c = NULL;
  ck_ok(load(&c, NULL, arguments));
  uint64_t digest = ab_config_digest(c);
  ab_config_free(c);
  return digest;
}

START_TEST(the_digest_follows_numbers_only) {
  uint64_t base = digest_of("");
  ck_assert_uint_eq(digest_of("run_name=a hardware=gpu enable_nnx=false"), base);
  ck_assert_uint_eq(digest_of("per_device_batch_size=12"), base); /* 12 and 12.0 are one number */
  ck_assert_uint_eq(digest_of("learning_rate=3e-5"), digest_of("learning_rate=0.00003"));
  ck_assert_uint_ne(digest_of("vocab_size=64"), base);
  ck_assert_uint_ne(digest_of("learning_rate=0.1"), base);
  ck_assert_uint_ne(digest_of("init_weights_seed=1"), base);
}
END_TEST

static char *shown(const struct ab_config_values *defaults, const char *file, const char *override) {
  struct ab_config_request request = {.file = file, .overrides = &override, .override_count = override != NULL,
                                      .ignore_environment = true, .defaults = defaults};
  struct ab_config *c = NULL;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  ck_ok(ab_config_load(&c, &request));
  ab_config_print(out, c);
  ab_config_print_notes(out, c);
  fclose(out);
  ab_config_free(c);
  return text;
}

/* Loads change nothing in them: each is what it is with defaults of its own. */
START_TEST(defaults_read_once_serve_many_loads) {
  static const char *const overrides[] = {NULL, "quantization=none", "logical_axis_rules=[[embed, x]]", "steps=3",
                                          "mu_dtype=None", "model_name=llama2-7b", "learning_rate=1", NULL};
  struct ab_config_values *defaults = NULL;
  size_t before = ab_mem_stats().live_blocks;
  ck_ok(ab_config_defaults(&defaults));
  for (size_t i = 0; i < 2 * sizeof overrides / sizeof *overrides; i++) {
    const char *file = i % 3 ? NULL : source_path("configs/main.yml"), *override = overrides[i / 2];
    char *own = shown(NULL, file, override), *shared = shown(defaults, file, override);
    ck_assert_str_eq(shared, own);
    free(own);
    free(shared);
  }
  ab_config_defaults_free(defaults);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, before);
}
END_TEST

/* Why they can serve: a load turns a string `none` into null where it stands. */
START_TEST(no_default_is_the_string_none) {
  for (size_t row = 0; row < ab_key_count; row++)
    ck_assert_msg(strcasecmp(ab_keys[row].initial, "none") != 0 && strcasecmp(ab_keys[row].initial, "\"none\"") != 0,
                  "%s", ab_keys[row].name);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("load");
  TCase *c = tcase_create("load");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, every_bundle_loads_with_the_shape_of_its_row);
  tcase_add_test(c, the_main_case_is_accepted_as_one_calls_maxtext);
  tcase_add_test(c, the_bundled_main_case_is_that_command_at_laptop_size);
  tcase_add_test(c, defaults_alone_are_maxtexts);
  tcase_add_test(c, every_model_file_of_ours_loads);
  tcase_add_test(c, every_key_is_listed_sorted_with_its_source);
  tcase_add_test(c, parameters_are_printed_as_maxtext_does);
  tcase_add_test(c, what_is_printed_steers_no_terminal);
  tcase_add_test(c, notes_name_what_has_no_effect_and_what_defaults_mean);
  tcase_add_test(c, the_digest_is_that_of_all_lines_with_numbers);
  tcase_add_test(c, the_digest_follows_numbers_only);
  tcase_add_test(c, defaults_read_once_serve_many_loads);
  tcase_add_test(c, no_default_is_the_string_none);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
