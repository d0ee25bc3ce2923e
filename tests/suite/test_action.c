#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "file.h"
#include "mem.h"
#include "request.h"
#include "tap.h"
#include "yaml_door.h"

static const char *root_path(char text[1024], const char *name) {
  snprintf(text, 1024, "%s/%s", getenv("AB_SOURCE_ROOT"), name);
  return text;
}

static const struct ab_yaml_node *next(const struct ab_yaml_node *node) { return node + node->span; }

/* The value of a map's key, NULL if there is none. */
static const struct ab_yaml_node *find(const struct ab_yaml_node *map, const char *key) {
  if (!map || map->type != AB_YAML_MAP) return NULL;
  for (const struct ab_yaml_node *k = map + 1; k < next(map); k = next(k + 1))
    if (strcmp(k->string, key) == 0) return k + 1;
  return NULL;
}

static struct ab_yaml *action(void) {
  char path[1024];
  struct ab_yaml *yaml;
  ck_ok(ab_yaml_read(&yaml, root_path(path, ".github/actions/abpipe/action.yml")));
  return yaml;
}

START_TEST(every_step_is_well_formed_and_splices_nothing) {
  struct ab_yaml *yaml = action();
  const struct ab_yaml_node *runs = find(yaml->nodes, "runs"), *steps = find(runs, "steps");
  ck_assert_str_eq(find(runs, "using")->string, "composite");
  ck_assert_int_eq(steps->type, AB_YAML_LIST);
  int scripts = 0, uses = 0;
  for (const struct ab_yaml_node *s = steps + 1; s < next(steps); s = next(s)) {
    const struct ab_yaml_node *run = find(s, "run");
    ck_assert_msg(!run != !find(s, "uses"), "line %d: a step either runs or uses", s->line);
    uses += !run;
    if (!run) continue;
    scripts++;
    ck_assert_str_eq(find(s, "shell")->string, "bash");
    ck_assert_msg(!strstr(run->string, "${{"), "line %d: an expression in a script", run->line);
  }
  ck_assert_int_eq(scripts, 2);
  ck_assert_int_eq(uses, 1);
  ab_yaml_free(yaml);
}
END_TEST

/* "--name" in `text` as a word of its own. */
static bool is_listed(const char *text, const char *option, size_t length) {
  for (const char *at = text; (at = strstr(at, "--")); at += 2)
    if (strncmp(at, option, length) == 0 && !isalnum((unsigned char)at[length]) && at[length] != '-') return true;
  return false;
}

START_TEST(every_option_of_the_comparison_is_one) {
  struct ab_yaml *yaml = action();
  char *help;
  size_t size;
  FILE *out = open_memstream(&help, &size);
  ab_request_help(out);
  fclose(out);
  const struct ab_yaml_node *steps = find(find(yaml->nodes, "runs"), "steps"), *script = NULL;
  for (const struct ab_yaml_node *s = steps + 1; s < next(steps); s = next(s))
    if (find(s, "id")) script = find(s, "run");
  int options = 0;
  for (const char *at = script->string; (at = strstr(at, "--")); at += 2) {
    size_t length = 2 + strspn(at + 2, "abcdefghijklmnopqrstuvwxyz-");
    ck_assert_msg(is_listed(help, at, length), "%.*s is no option of ab_compare", (int)length, at);
    options++;
  }
  ck_assert_int_eq(options, 5);
  ck_assert(!is_listed(help, "--jsonx", 7) && !is_listed(help, "--j", 3));
  free(help);
  ab_yaml_free(yaml);
}
END_TEST

/* The block in docs/ci.md is YAML, has ten lines, and gives inputs that there are. */
START_TEST(ten_lines_are_ten_lines) {
  char path[1024], *text;
  size_t size;
  struct ab_yaml *yaml = action(), *lines;
  ck_ok(ab_file_read(&text, &size, root_path(path, "docs/ci.md"), 1 << 20));
  char *begin = strstr(text, "```yaml\n") + 8, *end = strstr(begin, "```");
  int count = 0;
  for (const char *p = begin; p < end; p++) count += *p == '\n';
  ck_assert_int_eq(count, 10);
  ck_ok(ab_yaml_parse(&lines, "docs/ci.md", begin, (size_t)(end - begin)));
  const struct ab_yaml_node *jobs = find(lines->nodes, "jobs"), *steps = find(jobs + 2, "steps"), *with = NULL;
  for (const struct ab_yaml_node *s = steps + 1; s < next(steps); s = next(s))
    if (strstr(find(s, "uses")->string, "/.github/actions/abpipe@")) with = find(s, "with");
  ck_assert_ptr_nonnull(with);
  for (const struct ab_yaml_node *k = with + 1; k < next(with); k = next(k + 1))
    ck_assert_msg(find(find(yaml->nodes, "inputs"), k->string) != NULL, "no input '%s'", k->string);
  ab_yaml_free(lines);
  ab_yaml_free(yaml);
  ab_mem_free(text);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("action");
  TCase *c = tcase_create("action");
  tcase_add_test(c, every_step_is_well_formed_and_splices_nothing);
  tcase_add_test(c, every_option_of_the_comparison_is_one);
  tcase_add_test(c, ten_lines_are_ten_lines);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
