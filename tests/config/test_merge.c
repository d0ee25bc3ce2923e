#include "cases.h"

static char *folder; /* of the test's files; made anew for each test */

static void set_up(void) { folder = new_scratch(); }
static void tear_down(void) { free_scratch(folder); }

static struct ab_config *must_load(const char *file, const char *arguments) {
  struct ab_config *c = NULL;
  ab_status status = load(&c, file, arguments);
  ck_assert_msg(status == AB_OK, "'%s': %s [%s]", arguments, ab_status_message(), ab_status_trace());
  return c;
}

static void check_value(const char *file, const char *arguments, const char *key, const char *value) {
  struct ab_config *c = must_load(file, arguments);
  ck_assert_msg(strcmp(ab_config_value(c, key), value) == 0, "%s: %s, expected %s", key, ab_config_value(c, key),
                value);
  ab_config_free(c);
}

START_TEST(a_file_beats_defaults_and_an_override_beats_the_file) {
  const char *file = write_text(folder, "c.yml", "steps: 7\nlearning_rate: 1e-5\n");
  check_value(file, "", "steps", "7");
  check_value(file, "", "learning_rate", "1e-05");
  check_value(file, "steps=9", "steps", "9");
  check_value(file, "steps=9 steps=11 steps=10", "steps", "10"); /* a repeated key: last wins */
}
END_TEST

START_TEST(parents_are_loaded_recursively_and_the_child_wins) {
  write_text(folder, "grand.yml", "steps: 1\nlog_period: 11\nvocab_size: 64\n");
  write_text(folder, "parent.yml", "base_config: grand.yml\nsteps: 2\nvocab_size: 65\n");
  const char *child = write_text(folder, "child.yml", "base_config: parent.yml\nsteps: 3\n");
  check_value(child, "", "steps", "3");
  check_value(child, "", "vocab_size", "65");
  check_value(child, "", "log_period", "11");
}
END_TEST

START_TEST(a_parent_is_searched_beside_the_child_then_in_configs) {
  const char *child = write_text(folder, "child.yml", "base_config: base.yml\nsteps: 3\n");
  check_value(child, "", "steps", "3");
  write_text(folder, "base.yml", "log_period: 12\n");
  check_value(child, "", "log_period", "12");
}
END_TEST

START_TEST(the_data_folder_may_be_elsewhere) {
  ck_ok(ab_folder_make(folder));
  char configs[1024], models[1100];
  snprintf(configs, sizeof configs, "%s/configs", folder);
  snprintf(models, sizeof models, "%s/models", configs);
  ck_ok(ab_folder_make(models));
  write_text(configs, "mine.yml", "log_period: 13\n");
  write_text(models, "llama2-7b.yml", "base_num_decoder_layers: 2\n");
  const char *child = write_text(folder, "child.yml", "base_config: mine.yml\nmodel_name: llama2-7b\n");
  must_refuse(child, "", "key 'base_config' names 'mine.yml', which is neither in");
  setenv("AB_DATADIR", folder, 1);
  check_value(child, "", "log_period", "13");
  check_value(child, "", "num_decoder_layers", "2");
  unsetenv("AB_DATADIR");
}
END_TEST

START_TEST(a_bad_parent_is_refused) {
  char long_name[300] = "base_config: ", *end = long_name + strlen(long_name);
  memset(end, 'a', 256);
  must_refuse(write_text(folder, "long.yml", long_name), "", "long.yml:1:14: key 'base_config' is a name of 256 bytes");
  end[255] = '\0';
  must_refuse(write_text(folder, "long.yml", long_name), "", "which is neither in");
  must_refuse(write_text(folder, "a.yml", "base_config: nowhere.yml\n"), "",
              "a.yml:1:14: key 'base_config' names 'nowhere.yml'");
  must_refuse(write_text(folder, "b.yml", "base_config: b.yml\n"), "", "makes a chain of more than 16 files");
  must_refuse(write_text(folder, "c.yml", "base_config: ../c.yml\n"), "", "not a plain name");
  must_refuse(write_text(folder, "d.yml", "base_config: /etc/passwd\n"), "", "not a plain name");
  must_refuse(write_text(folder, "e.yml", "base_config: [x]\n"), "",
              "key 'base_config' is a list, expected a file name");
  write_text(folder, "broken.yml", "a: [\n");
  must_refuse(write_text(folder, "f.yml", "base_config: broken.yml\n"), "", "f.yml:1:14: key 'base_config': ");
  must_refuse(NULL, "base_config=x.yml", "key 'base_config' is read in files only");
}
END_TEST

/* One less than the longest chain that is allowed, that, and one more. */
START_TEST(the_chain_of_parents_has_a_limit) {
  char name[32], text[64];
  for (int i = 0; i < 17; i++) {
    snprintf(name, sizeof name, "p%d.yml", i);
    snprintf(text, sizeof text, i ? "base_config: p%d.yml\n" : "steps: 5\n", i - 1);
    write_text(folder, name, text);
  }
  char path[1024];
  for (int last = 14; last <= 15; last++) {
    snprintf(path, sizeof path, "%s/p%d.yml", folder, last);
    check_value(path, "", "steps", "5");
  }
  snprintf(path, sizeof path, "%s/p16.yml", folder);
  must_refuse(path, "", "makes a chain of more than 16 files");
}
END_TEST

START_TEST(a_missing_or_misspelt_file_is_refused) {
  char path[1024];
  struct ab_config *c = NULL;
  snprintf(path, sizeof path, "%s/nowhere.yml", folder);
  must_refuse(path, "", "nowhere.yml");
  must_refuse(write_text(folder, "c.yml", "steps: 7\nstpes: 3\n"), "",
              "c.yml:2:1: key 'stpes' is unknown, the nearest known key is 'steps'");
  ck_fails(load(&c, folder, ""), AB_EIO, "expected a regular file");
}
END_TEST

START_TEST(a_file_may_be_the_first_argument) {
  char arguments[1100];
  const char *file = write_text(folder, "c.yml", "steps: 7\n");
  check_value(NULL, file, "steps", "7");
  snprintf(arguments, sizeof arguments, "%s steps=9", file);
  check_value(NULL, arguments, "steps", "9");
  must_refuse(file, file, "is not of the form key=value");
  check_value(NULL, "run_name=c.yml", "run_name", "c.yml");
}
END_TEST

/* The model file */

START_TEST(a_model_file_beats_the_file_and_an_equal_override_is_accepted) {
  const char *file = write_text(folder, "c.yml", "model_name: llama2-7b\nbase_emb_dim: 128\n");
  must_accept(file, "");
  check_value(file, "", "emb_dim", "4096");
  check_value(file, "base_emb_dim=4096", "emb_dim", "4096");
  check_value(file, "normalization_layer_epsilon=0.00001", "normalization_layer_epsilon", "1e-05");
  check_value(file, "mlp_activations=['silu','linear']", "mlp_activations", "[silu, linear]");
}
END_TEST

START_TEST(a_different_override_needs_override_model_config) {
  const char *file = write_text(folder, "c.yml", "model_name: llama2-7b\n");
  must_refuse(file, "base_emb_dim=128", "override 'base_emb_dim=128': key 'base_emb_dim' is 4096 in");
  must_refuse(file, "base_emb_dim=4096 base_emb_dim=128", "expected the same value or override_model_config=true");
  must_refuse(file, "decoder_block=simple", "key 'decoder_block' is llama2 in");
  must_refuse(file, "enable_dropout=true", "key 'enable_dropout' is false in");
  must_refuse(file, "mlp_activations=[gelu,linear]", "key 'mlp_activations' is [silu, linear] in");
  must_refuse(file, "base_emb_dim='4096'", "key 'base_emb_dim' is 4096 in");
  check_value(file, "base_emb_dim=128 override_model_config=true", "emb_dim", "128");
  check_value(file, "base_emb_dim=128 base_emb_dim=4096", "emb_dim", "4096");
}
END_TEST

START_TEST(a_file_that_overrides_by_itself_beats_the_model_file) {
  const char *file =
      write_text(folder, "c.yml", "model_name: llama2-7b\noverride_model_config: true\nbase_emb_dim: 128\n");
  check_value(file, "", "emb_dim", "128");
  check_value(file, "", "num_decoder_layers", "32");
  check_value(file, "base_emb_dim=256", "emb_dim", "256");
}
END_TEST

START_TEST(the_note_names_a_value_that_gave_way) {
  struct ab_config *c = must_load(
      write_text(folder, "c.yml",
                 "model_name: llama2-7b\nbase_emb_dim: 128\ndecoder_block: simple\nbase_mlp_dim: 11008\n"
                 "hardware: gpu\n"), "");
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  ab_config_print_notes(out, c);
  fclose(out);
  ck_assert_ptr_nonnull(strstr(text, "base_emb_dim: 128 of "));
  ck_assert_ptr_nonnull(strstr(text, "c.yml:2:15 gives way to 4096 of the model file"));
  ck_assert_ptr_nonnull(strstr(text, "c.yml:3:16 gives way to llama2 of the model file"));
  ck_assert_ptr_nonnull(strstr(text, "hardware: gpu has no effect here"));
  ck_assert_ptr_null(strstr(text, "base_mlp_dim")); /* as in the model file */
  free(text);
  ab_config_free(c);
}
END_TEST

START_TEST(a_model_file_is_searched_beside_the_file_and_one_folder_up) {
  char below[1024], models[1100];
  snprintf(below, sizeof below, "%s/below", folder);
  snprintf(models, sizeof models, "%s/models", folder);
  ck_ok(ab_folder_make(below));
  ck_ok(ab_folder_make(models));
  write_text(models, "mistral-7b.yml", "base_num_decoder_layers: 3\n");
  const char *beside = write_text(folder, "c.yml", "model_name: mistral-7b\n");
  check_value(beside, "", "num_decoder_layers", "3");
  const char *lower = write_text(below, "c.yml", "model_name: mistral-7b\n");
  check_value(lower, "", "num_decoder_layers", "3");
  check_value(beside, "model_name=mistral-7b-Instruct", "num_decoder_layers", "3");
  write_text(models, "mistral-7b.yml", "base_num_decoder_layer: 3\n");
  must_refuse(beside, "",
              "mistral-7b.yml:1:1: key 'base_num_decoder_layer' is unknown, the nearest known key is "
              "'base_num_decoder_layers'");
  write_text(models, "mistral-7b.yml", "base_config: x.yml\n");
  must_refuse(beside, "", "is not read in a model file");
}
END_TEST

START_TEST(model_names_are_a_closed_list) {
  must_refuse(NULL, "model_name=llama2-7", "key 'model_name' is llama2-7, the nearest known name is 'llama2-7b'");
  must_refuse(NULL, "model_name=simple_mlp-tin", "the nearest known name is 'simple_mlp-tiny'"); /* the last of them */
  must_refuse(NULL, "model_name=../../etc/passwd", "key 'model_name' is ../../etc/passwd, the nearest known name is");
  must_refuse(NULL, "model_name=mixtral-8x7b", "there is no models/mixtral-8x7b.yml beside the configuration nor in");
  must_refuse(NULL, "model_name=", "the nearest known name is");
  check_value(NULL, "model_name=default", "model_name", "default");
}
END_TEST

START_TEST(axis_rules_are_merged_by_name) {
  struct ab_config *c = must_load(NULL, "logical_axis_rules=[[norm,tensor],[embed,data],[embed,x]]");
  const char *rules = ab_config_value(c, "logical_axis_rules");
  ck_assert_ptr_nonnull(strstr(rules, ", [norm, tensor], [embed, data], [embed, x]]"));
  ck_assert_ptr_nonnull(strstr(rules, "[[circular_repeats, []], "));
  ck_assert_ptr_null(strstr(rules, "[embed, [fsdp"));
  ab_config_free(c);
  check_value(NULL, "override_logical_axis_rules=true logical_axis_rules=[[norm,tensor]]", "logical_axis_rules",
              "[[norm, tensor]]");
  const char *file = write_text(folder, "c.yml", "logical_axis_rules: [[norm, tensor], [embed, data], word]\n");
  check_value(file, "logical_axis_rules=[[norm]]", "logical_axis_rules", "[[embed, data], word, [norm]]");
  check_value(file, "logical_axis_rules=[a,embed]", "logical_axis_rules",
              "[[norm, tensor], [embed, data], word, a, embed]");
  check_value(file, "logical_axis_rules=[]", "logical_axis_rules", "[[norm, tensor], [embed, data], word]");
  check_value(file, "logical_axis_rules=", "logical_axis_rules", "[[norm, tensor], [embed, data], word]");
  must_refuse(file, "logical_axis_rules=5", "key 'logical_axis_rules' is 5, expected a list");
  must_refuse(NULL, "logical_axis_rules={\"a\":1}", "expected a list");
}
END_TEST

/* Overrides */

START_TEST(an_override_is_key_equals_value) {
  must_refuse(NULL, "steps", "override 'steps' is not of the form key=value");
  must_refuse(NULL, "=3", "override '=3' is not of the form key=value");
  must_refuse(NULL, "--steps=3", "key '--steps' is unknown");
  must_refuse(NULL, "a.b=3", "key 'a.b' is unknown");
  must_refuse(NULL, "run_name=*x", "override 'run_name=*x':1:1: aliases are not supported here, found 'x'");
  must_refuse(NULL, "steps=3 configs/base.yml", "is not of the form key=value");
  check_value(NULL, "run_name=", "run_name", "null");
  check_value(NULL, "run_name=a=b", "run_name", "a=b");
}
END_TEST

START_TEST(an_override_has_the_limits_of_a_document) {
  size_t size = (1 << 20) + 2;
  char *long_value = calloc(size + 16, 1), *deep = calloc(256, 1);
  snprintf(long_value, 16, "run_name=");
  memset(long_value + 9, 'x', size - 1);
  snprintf(deep, 32, "mlp_activations=");
  memset(deep + 16, '[', 100);
  const char *const overrides[] = {long_value, deep};
  for (int i = 0; i < 2; i++) {
    struct ab_config *c = NULL;
    struct ab_config_request request = {.overrides = &overrides[i], .override_count = 1, .ignore_environment = true};
    ck_fails(ab_config_load(&c, &request), AB_ECONFIG, i ? "nested deeper than 64" : "expected at most 1048576");
  }
  free(long_value);
  free(deep);
}
END_TEST

/* Environment */

static ab_status load_in(struct ab_config **out, const char *file, const char *arguments, const char *name,
                         const char *value) {
  setenv(name, value, 1);
  ab_status status = load_with(out, file, arguments, false, true);
  unsetenv(name);
  return status;
}

START_TEST(the_environment_beats_all) {
  const char *file = write_text(folder, "c.yml", "steps: 7\n");
  struct ab_config *c = NULL;
  ck_ok(load_in(&c, file, "", "M_STEPS", "21"));
  ck_assert_int_eq(c->steps, 21);
  ab_config_free(c);
  ck_ok(load_in(&c, file, "", "M_RUN_NAME", "007: no [x"));
  ck_assert_str_eq(c->run_name, "007: no [x"); /* a string key takes the text as it is */
  ab_config_free(c);
  char long_name[400] = "M_", edge[129] = "M_";
  memset(long_name + 2, 'A', sizeof long_name - 3);
  memset(edge + 2, 'A', sizeof edge - 3);
  const char *const others[] = {"M_NOT_A_KEY", "M_steps",  "N_STEPS", "M-STEPS", "STEPS",
                                "M_STEPSS",    "M_",      long_name, edge};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    ck_ok(load_in(&c, file, "", others[i], "1"));
    ck_assert_msg(c->steps == 7, "%s is taken for steps", others[i]);
    ab_config_free(c);
  }
  setenv("M_STEPS", "21", 1);
  check_value(file, "", "steps", "7"); /* ignore_environment */
  unsetenv("M_STEPS");
}
END_TEST

static const struct {
  const char *arguments, *name, *value, *sentence;
} environment_errors[] = {
    {"steps=3", "M_STEPS", "21", "key 'steps' is given by the environment variable M_STEPS and by an override"},
    {"", "M_STEPS", "x", "environment variable M_STEPS: key 'steps' is x, expected a decimal integer"},
    {"", "M_STEPS", "", "environment variable M_STEPS: key 'steps' is null, expected a decimal integer"},
    {"", "M_ENABLE_NNX", "no", "key 'enable_nnx' is no, expected true or false"},
    {"", "M_STEPS", "[", "environment variable M_STEPS:"},
    {"", "M_MLP_ACTIVATIONS", "[gelu]", "key 'mlp_activations' is a list, expected a string, number or boolean key"},
    {"", "M_BASE_CONFIG", "x.yml", "variable M_BASE_CONFIG: key 'base_config' decides what is merged before the"},
    {"", "M_MODEL_NAME", "nope", "variable M_MODEL_NAME: key 'model_name' decides what is merged before the"},
    {"", "M_OVERRIDE_MODEL_CONFIG", "true", "key 'override_model_config' decides what is merged before the"},
    {"model_name=llama2-7b", "M_BASE_EMB_DIM", "4096", "or override_model_config=true"},
};

START_TEST(the_environment_has_rules) {
  for (size_t i = 0; i < sizeof environment_errors / sizeof environment_errors[0]; i++) {
    struct ab_config *c = NULL;
    size_t before = ab_mem_stats().live_blocks;
    ck_fails(
        load_in(&c, NULL, environment_errors[i].arguments, environment_errors[i].name, environment_errors[i].value),
        AB_ECONFIG, environment_errors[i].sentence);
    ck_assert_uint_eq(ab_mem_stats().live_blocks, before);
  }
  struct ab_config *c = NULL;
  ck_ok(load_in(&c, NULL, "model_name=llama2-7b override_model_config=true", "M_BASE_EMB_DIM", "64"));
  ck_assert_int_eq(c->emb_dim, 64);
  ab_config_free(c);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("merge");
  TCase *c = tcase_create("merge");
  tcase_set_timeout(c, 60);
  tcase_add_checked_fixture(c, set_up, tear_down);
  tcase_add_test(c, a_file_beats_defaults_and_an_override_beats_the_file);
  tcase_add_test(c, parents_are_loaded_recursively_and_the_child_wins);
  tcase_add_test(c, a_parent_is_searched_beside_the_child_then_in_configs);
  tcase_add_test(c, the_data_folder_may_be_elsewhere);
  tcase_add_test(c, a_bad_parent_is_refused);
  tcase_add_test(c, the_chain_of_parents_has_a_limit);
  tcase_add_test(c, a_missing_or_misspelt_file_is_refused);
  tcase_add_test(c, a_file_may_be_the_first_argument);
  tcase_add_test(c, a_model_file_beats_the_file_and_an_equal_override_is_accepted);
  tcase_add_test(c, a_different_override_needs_override_model_config);
  tcase_add_test(c, a_file_that_overrides_by_itself_beats_the_model_file);
  tcase_add_test(c, the_note_names_a_value_that_gave_way);
  tcase_add_test(c, a_model_file_is_searched_beside_the_file_and_one_folder_up);
  tcase_add_test(c, model_names_are_a_closed_list);
  tcase_add_test(c, axis_rules_are_merged_by_name);
  tcase_add_test(c, an_override_is_key_equals_value);
  tcase_add_test(c, an_override_has_the_limits_of_a_document);
  tcase_add_test(c, the_environment_beats_all);
  tcase_add_test(c, the_environment_has_rules);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
