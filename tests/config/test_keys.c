#include "cases.h"
#include "config_keys.h"
#include "json.h"
#include "yaml_door.h"

/* JSON value -> canonical YAML text, for comparing defaults. */
static void spell_json(char *out, size_t size, const struct ab_json *value) {
  struct ab_yaml *yaml = NULL;
  const char *string;
  size_t used = 1;
  int64_t integer;
  double number;
  bool boolean;
  switch (ab_json_type(value)) {
  case AB_JSON_NULL: snprintf(out, size, "null"); return;
  case AB_JSON_BOOL:
    ck_ok(ab_json_bool(&boolean, value));
    snprintf(out, size, boolean ? "true" : "false");
    return;
  case AB_JSON_NUMBER:
    ck_ok(ab_json_double(&number, value));
    if (ab_json_int64(&integer, value) == AB_OK) snprintf(out, size, "%lld", (long long)integer);
    else ab_yaml_spell(out, size, &(struct ab_yaml_node){.type = AB_YAML_FLOAT, .number = number});
    return;
  case AB_JSON_STRING:
    ck_ok(ab_json_string(&string, value));
    ck_ok(ab_yaml_string(&yaml, "default", string));
    snprintf(out, size, "%s",
             strcmp(string, "None") == 0 || strcmp(string, "none") == 0 ? "null" : yaml->nodes[0].text);
    ab_yaml_free(yaml);
    return;
  default: break;
  }
  out[0] = ab_json_type(value) == AB_JSON_ARRAY ? '[' : '{';
  for (const struct ab_json *item = ab_json_first(value); item; item = ab_json_next(item)) {
    if (used > 1) used += (size_t)snprintf(out + used, size - used, ", ");
    spell_json(out + used, size - used, item);
    used += strlen(out + used);
  }
  snprintf(out + used, size - used, "%c", out[0] == '[' ? ']' : '}');
}

static struct ab_json *read_keys(const struct ab_json **base, const struct ab_json **extra) {
  struct ab_json *root = NULL;
  ck_ok(ab_json_read(&root, source_path("tests/fixtures/reference/maxtext_keys.json"), NULL));
  ck_ok(ab_json_get_object(base, root, "keys"));
  ck_ok(ab_json_get_object(extra, root, "accepted_but_not_in_base_yml"));
  return root;
}

static void check_default(const struct ab_json *member, const char *ours) {
  static char text[16384];
  spell_json(text, sizeof text, member);
  const char *key = ab_json_key(member);
  if (strcmp(key, "dtype") == 0) {
    ck_assert_str_eq(text, "bfloat16");
    snprintf(text, sizeof text, "float32");
  }
  struct ab_yaml *a = NULL;
  ck_ok(ab_yaml_parse(&a, "ours", ours, strlen(ours)));
  bool same = strcmp(a->nodes[0].text, text) == 0 || (strstr(ours, ".0") && strtod(text, NULL) == a->nodes[0].number);
  ck_assert_msg(same, "%s: %s, MaxText has %s", key, ours, text);
  ab_yaml_free(a);
}

START_TEST(every_key_of_maxtext_has_its_default) {
  const struct ab_json *objects[2];
  struct ab_json *root = read_keys(&objects[0], &objects[1]);
  size_t count = 0;
  for (int i = 0; i < 2; i++)
    for (const struct ab_json *m = ab_json_first(objects[i]); m; m = ab_json_next(m), count++) {
      size_t row = ab_key_find(ab_json_key(m));
      ck_assert_msg(row < ab_key_count, "%s is missing", ab_json_key(m));
      check_default(m, ab_keys[row].initial);
    }
  ck_assert_uint_eq(count, 696 + 79);
  ck_assert_uint_eq(ab_key_count, count + 3); /* ours: ab_compute_bubbles, upstream_faithful, use_nnx_pipeline */
  ab_json_free(root);
}
END_TEST

START_TEST(the_base_file_holds_every_key_of_maxtext_at_its_default) {
  const struct ab_json *base, *extra;
  struct ab_json *root = read_keys(&base, &extra);
  struct ab_yaml *yaml = NULL;
  ck_ok(ab_yaml_read(&yaml, source_path("configs/base.yml")));
  const struct ab_yaml_node *key = yaml->nodes + 1, *end = yaml->nodes + yaml->nodes->span;
  size_t count = 0;
  for (; key < end; key += 1 + key[1].span, count++) {
    const struct ab_json *member = ab_json_find(base, key->string);
    ck_assert_msg(member != NULL, "%s is not MaxText's", key->string);
    bool none = key[1].string && strcasecmp(key[1].string, "none") == 0;
    check_default(member, none ? "null" : key[1].text);
  }
  ck_assert_uint_eq(count, ab_json_size(base));
  ab_yaml_free(yaml);
  ab_json_free(root);
}
END_TEST

START_TEST(model_files_have_the_true_figures) {
  static const char *const names[] = {"llama2-7b", "llama2-13b", "llama2-70b"};
  const struct ab_json *models, *model;
  struct ab_json *root = NULL;
  ck_ok(ab_json_read(&root, source_path("tests/fixtures/reference/maxtext_models.json"), NULL));
  ck_ok(ab_json_get_object(&models, root, "models"));
  for (size_t i = 0; i < 3; i++) {
    struct ab_yaml *yaml = NULL;
    char path[64];
    size_t count = 0;
    snprintf(path, sizeof path, "configs/models/%s.yml", names[i]);
    ck_ok(ab_yaml_read(&yaml, source_path(path)));
    ck_ok(ab_json_get_object(&model, models, names[i]));
    const struct ab_yaml_node *key = yaml->nodes + 1, *end = yaml->nodes + yaml->nodes->span;
    for (; key < end; key += 1 + key[1].span, count++) {
      ck_assert_msg(ab_json_find(model, key->string) != NULL, "%s: %s", names[i], key->string);
      check_default(ab_json_find(model, key->string), key[1].text);
    }
    ck_assert_uint_eq(count, ab_json_size(model));
    ab_yaml_free(yaml);
  }
  ab_json_free(root);
}
END_TEST

START_TEST(the_table_is_sorted_and_complete) {
  for (size_t i = 0; i < ab_key_count; i++) {
    if (i) ck_assert_msg(strcmp(ab_keys[i - 1].name, ab_keys[i].name) < 0, "%s", ab_keys[i].name);
    ck_assert_msg(*ab_key_why_text(ab_keys[i].why), "%s has no reason", ab_keys[i].name);
    ck_assert_uint_eq(ab_key_find(ab_keys[i].name), i);
    ck_assert_str_eq(ab_key_nearest(ab_keys[i].name), ab_keys[i].name);
  }
}
END_TEST

START_TEST(the_nearest_name_is_named) {
  static const char *const pairs[][2] = {{"base_emb_dmi", "base_emb_dim"},
                                         {"num_pipeline_microbatch", "num_pipeline_microbatches"},
                                         {"Steps", "steps"},
                                         {"learnig_rate", "learning_rate"},
                                         {"ici_pipeline_paralelism", "ici_pipeline_parallelism"}};
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    char argument[80], sentence[160];
    ck_assert_str_eq(ab_key_nearest(pairs[i][0]), pairs[i][1]);
    snprintf(argument, sizeof argument, "%s=1", pairs[i][0]);
    snprintf(sentence, sizeof sentence, "override '%s': key '%s' is unknown, the nearest known key is '%s'", argument,
             pairs[i][0], pairs[i][1]);
    must_refuse(NULL, argument, sentence);
  }
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("keys");
  TCase *c = tcase_create("keys");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, every_key_of_maxtext_has_its_default);
  tcase_add_test(c, the_base_file_holds_every_key_of_maxtext_at_its_default);
  tcase_add_test(c, model_files_have_the_true_figures);
  tcase_add_test(c, the_table_is_sorted_and_complete);
  tcase_add_test(c, the_nearest_name_is_named);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
