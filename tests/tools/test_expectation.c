/* What must be there, in numbers that were worked out once and are held by engines and oracle in e2e tests: a quantity
 * that is not expected any more would be missed by nobody. */
#include "expectation.h"

#include <stdio.h>
#include <string.h>

#include "tap.h"

enum { OVERRIDES = 3, KINDS = 5, WIDTH = 512 };
static const char *const kinds[KINDS] = {"sides", "truth", "golden", "ends", "exact"};

static void open_case(struct ab_case *out, const char *target, const char *const *overrides) {
  char path[512];
  const char *root = getenv("AB_SOURCE_ROOT");
  struct ab_request request = {.target = path, .overrides = overrides, .ignore_golden = true};
  snprintf(path, sizeof path, "%s/%s", root ? root : ".", target);
  while (request.override_count < OVERRIDES && overrides[request.override_count]) request.override_count++;
  ck_ok(ab_case_open(out, &request));
}

static ab_status expect(struct ab_expected *e, const struct ab_case *c, int kind) {
  if (kind == 1) return ab_expect_truth(e, c);
  if (kind == 2) return ab_expect_golden(e, c, AB_SELECT_ALL);
  if (kind == 3) return ab_expect_golden(e, c, AB_SELECT_ENDS);
  AB_TRY(ab_expect_sides(e, c));
  if (kind == 4) ab_expect_exact(e, c);
  return AB_OK;
}

/* "steps 2; metric 18; output 8/512; ..."; what is not pinned is left out. */
static void print(char text[WIDTH], const struct ab_expected *e) {
  int used = snprintf(text, WIDTH, "steps %zu", e->steps);
  for (int q = 0; q < AB_QUANTITIES; q++) {
    ck_assert((e->tensors[q] == AB_UNCOUNTED) == (e->elements[q] == AB_UNCOUNTED));
    if (e->tensors[q] != AB_UNCOUNTED)
      used += snprintf(text + used, (size_t)(WIDTH - used), "; %s %zu/%zu", ab_quantity_name((enum ab_quantity)q),
                       e->tensors[q], e->elements[q]);
    ck_assert_int_lt(used, WIDTH);
  }
}

static const struct {
  const char *target, *override[OVERRIDES], *numbers[KINDS]; /* NULL: not asked */
} rows[] = {
    {"tests/fixtures/faults/circ.yml",
     {NULL},
     {"steps 2; metric 18/18; output 10/28672; input gradient 8/24576; weight gradient 78/86592; "
      "parameter 234/259776; activation 512/286720; input 45/43680; state 4/4",
      "steps 2; metric 12/12; weight gradient 78/86592",
      "steps 2; metric 18/18; output 4/8192; input gradient 4/8192; weight gradient 78/86592; "
      "parameter 78/86592",
      "steps 2; metric 18/18; output 2/4096; input gradient 2/4096; weight gradient 39/43296; "
      "parameter 39/43296"}},
    {"tests/fixtures/faults/circ.yml",
     {"opt_type=sgd", "record_internal_nn_metrics=1"},
     {"steps 2; metric 42/42; output 10/28672; input gradient 8/24576; weight gradient 78/86592; "
      "parameter 78/86592; activation 512/286720; input 45/43680; state 4/4",
      "steps 2; metric 36/36; weight gradient 78/86592",
      "steps 2; metric 42/42; output 4/8192; input gradient 4/8192; weight gradient 78/86592; "
      "parameter 78/86592",
      "steps 2; metric 30/42; output 2/4096; input gradient 2/4096; weight gradient 39/43296; "
      "parameter 39/43296"}},
    {"tests/fixtures/faults/circ.yml",
     {"record_internal_nn_metrics=1", "upstream_faithful=B20"},
     {"steps 2; metric 18/18; output 10/28672; input gradient 8/24576; weight gradient 78/86592; "
      "parameter 234/259776; activation 512/286720; input 45/43680; state 4/4"}},
    {"golden/layers_outside/config.yml",
     {"record_internal_nn_metrics=1"},
     {"steps 2; metric 54/54; output 10/57344; input gradient 8/49152; weight gradient 114/117568; "
      "parameter 342/352704; activation 576/860160; input 63/59552; state 4/4",
      "steps 2; metric 48/48; weight gradient 114/117568",
      "steps 2; metric 54/54; output 4/16384; input gradient 4/16384; weight gradient 114/117568; "
      "parameter 114/117568",
      "steps 2; metric 36/54; output 2/8192; input gradient 2/8192; weight gradient 57/58784; "
      "parameter 57/58784"}},
    {"golden/unpipelined/config.yml",
     {"steps=3"},
     {"steps 3; metric 27/27; output 9/30720; input gradient 6/24576; weight gradient 90/97440; "
      "parameter 270/292320; activation 144/322560; input 36/32864; state 6/6",
      "steps 3; metric 18/18; weight gradient 90/97440",
      "steps 3; metric 27/27; output 0/0; input gradient 0/0; weight gradient 90/97440; parameter "
      "90/97440",
      "steps 3; metric 27/27; output 0/0; input gradient 0/0; weight gradient 30/32480; parameter "
      "30/32480"}},
    {"tests/fixtures/reference/p04_llama2",
     {NULL},
     {"steps 1; metric 1/1; output 2/6144; input gradient 2/6144; weight gradient 72/24832; parameter "
      "0/0; activation 1024/540672; input 76/31360",
      "steps 1; metric 1/1; weight gradient 72/24832",
      "steps 1; metric 1/1; output 2/6144; input gradient 2/6144; weight gradient 72/24832; parameter "
      "0/0",
      "steps 1; metric 1/1; output 2/6144; input gradient 2/6144; weight gradient 72/24832; parameter "
      "0/0"}},
    {"tests/fixtures/reference/e01_simple",
     {"record_internal_nn_metrics=1"},
     {"steps 1; metric 25/25; output 2/6144; input gradient 2/6144; weight gradient 8/2048; parameter "
      "0/0; activation 128/49152; input 12/8576",
      NULL,
      NULL,
      NULL,
      "steps 1; metric 1/25; output 3/6145; input gradient 2/6144; weight gradient 8/2048; parameter "
      "0/0; activation 128/49152; input 12/8576"}},
    {"tests/fixtures/reference/p09_simple",
     {NULL},
     {"steps 1; metric 1/1; output 2/3072; input gradient 2/3072; weight gradient 8/2048; parameter "
      "0/0; activation 64/24576; input 12/5312",
      NULL,
      NULL,
      NULL,
      "steps 1; metric 1/1; output 3/3073; input gradient 2/3072; weight gradient 8/2048; parameter "
      "0/0; activation 64/24576; input 12/5312"}},
    {"tests/fixtures/reference/t01",
     {NULL},
     {"steps 15; metric 135/135; output 75/368640; input gradient 60/307200; weight gradient "
      "1125/1298400; parameter 3375/3895200; activation 7680/9338880; input 81/98080; state 30/30",
      "steps 15; metric 90/90; weight gradient 1125/1298400",
      "steps 15; metric 135/135; output 30/122880; input gradient 30/122880; weight gradient "
      "1125/1298400; parameter 1125/1298400"}}
};

START_TEST(every_quantity_is_expected_in_its_number) {
  struct ab_case c;
  open_case(&c, rows[_i].target, rows[_i].override);
  for (int kind = 0; kind < KINDS; kind++) {
    struct ab_expected e;
    char text[WIDTH];
    if (!rows[_i].numbers[kind]) continue;
    ck_ok(expect(&e, &c, kind));
    print(text, &e);
    ck_assert_msg(strcmp(text, rows[_i].numbers[kind]) == 0, "%s %s, %s: %s", rows[_i].target,
                  rows[_i].override[0] ? rows[_i].override[0] : "", kinds[kind], text);
  }
  ab_case_close(&c);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("expectation");
  TCase *tests = tcase_create("expectation");
  tcase_add_loop_test(tests, every_quantity_is_expected_in_its_number, 0, sizeof rows / sizeof *rows);
  suite_add_tcase(suite, tests);
  return ab_run_suite(suite);
}
