#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "sweep.h"
#include "tap.h"
#include "tree.h"

static const struct ab_shape two = {.rank = 1, .dim = {2}}, three = {.rank = 1, .dim = {3}};

static struct ab_tree *new_tree(void) {
  struct ab_tree *tree;
  ck_ok(ab_tree_new(&tree));
  return tree;
}

static void add(struct ab_tree *tree, const char *path, enum ab_dtype dtype, const struct ab_shape *shape) {
  ck_ok(ab_tree_add(tree, path, dtype, shape, NULL));
}

START_TEST(paths_are_found_and_keep_their_order) {
  struct ab_tree *tree = new_tree();
  char path[64];
  struct ab_tensor *tensor, *first = NULL;
  ck_assert_ptr_null(ab_tree_find(tree, "a"));
  for (int i = 0; i < 3000; i++) {
    snprintf(path, sizeof path, "params/layers_%d/kernel", 7919 * i % 3000);
    ck_ok(ab_tree_add(tree, path, AB_F32, &two, &tensor));
    ck_assert(((float *)tensor->data)[1] == 0);
    if (!first) first = tensor;
  }
  ck_assert_uint_eq(ab_tree_size(tree), 3000);
  for (int i = 0; i < 3000; i++) {
    snprintf(path, sizeof path, "params/layers_%d/kernel", 7919 * i % 3000);
    ck_assert_ptr_eq(ab_tree_find(tree, path), ab_tree_at(tree, (size_t)i));
    ck_assert_str_eq(ab_tree_at(tree, (size_t)i)->name, path);
  }
  ck_assert_ptr_eq(ab_tree_at(tree, 0), first);
  ck_fails(ab_tree_add(tree, path, AB_F32, &two, NULL), AB_EMISMATCH, "is declared twice");
  ck_assert_uint_eq(ab_tree_size(tree), 3000);
  ck_fails(ab_tree_get(&tensor, tree, "none", "w.safetensors"), AB_ENOTFOUND, "w.safetensors holds no tensor 'none'");
  ab_tree_free(tree);
}
END_TEST

static struct ab_leaf_difference *differences;
static size_t count;

static void diff(const struct ab_tree *a, const struct ab_tree *b) {
  ab_mem_free(differences);
  ck_ok(ab_tree_diff(&differences, &count, a, b));
}

static void check(size_t i, const char *sentence) {
  char text[512];
  ck_assert_uint_lt(i, count);
  ab_leaf_difference_print(text, sizeof text, &differences[i]);
  ck_assert_str_eq(text, sentence);
}

START_TEST(differences_are_listed_and_named) {
  struct ab_tree *a = new_tree(), *b = new_tree();
  add(a, "same", AB_F32, &two);
  add(b, "same", AB_F32, &two);
  diff(a, b);
  ck_assert_uint_eq(count, 0);
  ck_assert_ptr_null(differences);
  add(a, "reshaped", AB_F32, &two);
  add(b, "reshaped", AB_F32, &three);
  add(a, "retyped", AB_F32, &two);
  add(b, "retyped", AB_F64, &two);
  add(a, "old/kernel", AB_F32, &two);
  add(b, "new/kernel", AB_F32, &two);
  add(a, "gone/bias", AB_F32, &two);
  add(b, "fresh/bias", AB_F32, &three);
  diff(a, b);
  ck_assert_uint_eq(count, 5);
  check(0, "reshaped: 'reshaped' is [2] in A and [3] in B");
  check(1, "retyped: 'retyped' is F32 in A and F64 in B");
  check(2, "renamed: 'old/kernel' in A is 'new/kernel' in B, both F32 [2]");
  check(3, "missing: 'gone/bias' F32 [2] is only in A");
  check(4, "added: 'fresh/bias' F32 [3] is only in B");
  diff(b, a);
  check(2, "renamed: 'new/kernel' in A is 'old/kernel' in B, both F32 [2]");
  ab_mem_free(differences);
  differences = NULL;
  ab_tree_free(a);
  ab_tree_free(b);
}
END_TEST

START_TEST(many_renamed_leaves_are_paired_in_order) {
  enum { MANY = 20000 };
  struct ab_tree *a = new_tree(), *b = new_tree();
  char path[64];
  for (int i = 0; i < MANY; i++) {
    snprintf(path, sizeof path, "a%d/kernel", i);
    add(a, path, AB_F32, &two);
    snprintf(path, sizeof path, "b%d/kernel", i);
    if (i) add(b, path, AB_F32, &two);
  }
  diff(a, b);
  ck_assert_uint_eq(count, MANY);
  check(0, "renamed: 'a0/kernel' in A is 'b1/kernel' in B, both F32 [2]");
  check(MANY - 1, "missing: 'a19999/kernel' F32 [2] is only in A");
  ab_mem_free(differences);
  differences = NULL;
  ab_tree_free(a);
  ab_tree_free(b);
}
END_TEST

static ab_status build_and_diff(void) {
  struct ab_tree *a = NULL, *b = NULL;
  ab_status status = ab_tree_new(&a);
  if (status == AB_OK) status = ab_tree_new(&b);
  for (int i = 0; i < 40 && status == AB_OK; i++) {
    char path[16];
    snprintf(path, sizeof path, "%d", i);
    status = ab_tree_add(a, path, AB_F32, &two, NULL);
  }
  struct ab_leaf_difference *list = NULL;
  size_t n;
  if (status == AB_OK) status = ab_tree_diff(&list, &n, a, b);
  ab_mem_free(list);
  ab_tree_free(a);
  ab_tree_free(b);
  return status;
}

START_TEST(every_refused_allocation_is_survived) { ck_assert_uint_gt(sweep_allocations(build_and_diff), 80); }
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("tree");
  TCase *c = tcase_create("tree");
  tcase_add_test(c, paths_are_found_and_keep_their_order);
  tcase_add_test(c, differences_are_listed_and_named);
  tcase_add_test(c, many_renamed_leaves_are_paired_in_order);
  tcase_add_test(c, every_refused_allocation_is_survived);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
