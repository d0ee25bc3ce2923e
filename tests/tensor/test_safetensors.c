#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "mem.h"
#include "safetensors.h"
#include "sweep.h"
#include "tap.h"

static char *scratch;

static void open_scratch(void) { ck_ok(ab_scratch_new(&scratch, NULL)); }

static void close_scratch(void) {
  ck_ok(ab_scratch_remove(scratch));
  ab_mem_free(scratch);
}

static const char *at(const char *name) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s", scratch, name);
  return path;
}

static struct ab_shape shape_of(int rank, const int64_t *dim) {
  struct ab_shape shape = {.rank = rank};
  for (int i = 0; i < rank; i++) shape.dim[i] = dim[i];
  return shape;
}

/* Every dtype, odd bits, an empty tensor, a scalar, rank 8. */
static struct ab_tree *sample(void) {
  static const float floats[] = {0.0f, -0.0f, INFINITY, NAN, 1e-45f, -3.5f};
  struct ab_tree *tree;
  struct ab_tensor *tensor;
  ck_ok(ab_tree_new(&tree));
  struct ab_shape shape = shape_of(2, (int64_t[]){2, 3});
  ck_ok(ab_tree_add(tree, "params/b/kernel", AB_F32, &shape, &tensor));
  memcpy(tensor->data, floats, sizeof floats);
  shape = shape_of(0, NULL);
  ck_ok(ab_tree_add(tree, "scalar", AB_F64, &shape, &tensor));
  *(double *)tensor->data = 1.0 / 3;
  shape = shape_of(2, (int64_t[]){0, 5});
  ck_ok(ab_tree_add(tree, "empty", AB_I32, &shape, NULL));
  shape = shape_of(8, (int64_t[]){1, 1, 1, 2, 1, 1, 1, 1});
  ck_ok(ab_tree_add(tree, "deep", AB_I64, &shape, &tensor));
  ((int64_t *)tensor->data)[1] = INT64_MIN;
  shape = shape_of(1, (int64_t[]){3});
  ck_ok(ab_tree_add(tree, "a name with \"quotes\" and \xc3\xa9", AB_U8, &shape, &tensor));
  memcpy(tensor->data, "\x00\x80\xff", 3);
  return tree;
}

static void check_same(const struct ab_tree *a, const struct ab_tree *b) {
  struct ab_leaf_difference *differences;
  size_t count;
  ck_ok(ab_tree_diff(&differences, &count, a, b));
  ck_assert_uint_eq(count, 0);
  for (size_t i = 0; i < ab_tree_size(a); i++) {
    struct ab_tensor *left = ab_tree_at(a, i), *right = ab_tree_find(b, left->name);
    ck_assert_msg(!memcmp(left->data, right->data, left->count * ab_dtype_size(left->dtype)), "%s", left->name);
  }
}

START_TEST(what_is_written_is_read_back_bit_by_bit) {
  struct ab_tree *tree = sample(), *back;
  ck_ok(ab_safetensors_write(at("f"), tree));
  ck_ok(ab_safetensors_load(&back, at("f")));
  check_same(tree, back);
  ab_tree_free(tree);
  ab_tree_free(back);
}
END_TEST

START_TEST(the_index_knows_names_and_order) {
  struct ab_safetensors_writer *w;
  struct ab_safetensors *file;
  struct ab_shape shape = shape_of(1, (int64_t[]){2});
  ck_ok(ab_safetensors_writer_new(&w, at("f")));
  ck_ok(ab_safetensors_writer_declare(w, "z", AB_F32, &shape));
  ck_ok(ab_safetensors_writer_declare(w, "a", AB_I64, &shape));
  ck_ok(ab_safetensors_writer_put(w, (float[]){1, 2}, 8));
  ck_ok(ab_safetensors_writer_put(w, (int64_t[]){3}, 8));
  ck_ok(ab_safetensors_writer_put(w, (int64_t[]){4}, 8));
  ck_ok(ab_safetensors_writer_commit(w));
  ab_safetensors_writer_free(w);
  ck_ok(ab_safetensors_open(&file, at("f")));
  ck_assert_uint_eq(ab_safetensors_size(file), 2);
  ck_assert_str_eq(ab_safetensors_at(file, 0)->name, "z");
  ck_assert_ptr_null(ab_safetensors_find(file, "b"));
  int64_t values[2];
  const struct ab_safetensor *a = ab_safetensors_find(file, "a");
  ck_assert_uint_eq(a->bytes, sizeof values);
  ck_assert_uint_eq(a->offset % 8, 0);
  ck_ok(ab_safetensors_read(file, a, values));
  ck_assert_int_eq(values[1], 4);
  ab_safetensors_close(file);
}
END_TEST

START_TEST(a_wrong_writer_is_stopped_and_leaves_nothing) {
  struct ab_safetensors_writer *w;
  struct ab_shape shape = shape_of(1, (int64_t[]){2});
  ck_ok(ab_safetensors_writer_new(&w, at("f")));
  ck_ok(ab_safetensors_writer_declare(w, "a", AB_F32, &shape));
  ck_fails(ab_safetensors_writer_declare(w, "a", AB_F32, &shape), AB_EMISMATCH, "'a' is taken");
  ck_fails(ab_safetensors_writer_declare(w, "__metadata__", AB_F32, &shape), AB_EMISMATCH, "is taken");
  ck_fails(ab_safetensors_writer_declare(w, "m", AB_M61, &shape), AB_EFORMAT, "M61");
  ck_fails(ab_safetensors_writer_declare(w, "", AB_F32, &shape), AB_EFORMAT, "1 to 1024 bytes");
  ck_fails(ab_safetensors_writer_put(w, (float[]){1, 2, 3}, 12), AB_EMISMATCH, "4 bytes of values more than the 8");
  ck_ok(ab_safetensors_writer_put(w, (float[]){1}, 4));
  ck_fails(ab_safetensors_writer_declare(w, "b", AB_F32, &shape), AB_EMISMATCH, "after the first values");
  ck_fails(ab_safetensors_writer_commit(w), AB_EMISMATCH, "4 bytes of values came, 8 were declared");
  ab_safetensors_writer_free(w);
  struct ab_names names;
  ck_ok(ab_folder_list(&names, scratch, 10));
  ck_assert_uint_eq(names.count, 0);
  ab_names_free(&names);
}
END_TEST

START_TEST(more_bytes_than_can_be_counted_are_not_declared) {
  struct ab_safetensors_writer *w;
  struct ab_shape half = shape_of(1, (int64_t[]){INT64_MAX}), two = shape_of(1, (int64_t[]){2});
  ck_ok(ab_safetensors_writer_new(&w, at("f")));
  ck_ok(ab_safetensors_writer_declare(w, "a", AB_U8, &half));
  ck_ok(ab_safetensors_writer_declare(w, "b", AB_U8, &half));
  ck_fails(ab_safetensors_writer_declare(w, "c", AB_U8, &two), AB_ENOMEM, "does not fit into memory");
  ck_fails(ab_safetensors_writer_commit(w), AB_EMISMATCH, "0 bytes of values came, 18446744073709551614 were declared");
  ab_safetensors_writer_free(w);
}
END_TEST

/* Writes a file with this header, `data` bytes behind it, and a stated length that differs by `lie`. */
static void plant(const char *header, size_t data, int64_t lie) {
  char *file;
  size_t length = strlen(header);
  ck_ok(ab_mem_new(&file, 8 + length + data, 1));
  uint64_t stated = length + (uint64_t)lie;
  memcpy(file, &stated, 8);
  memcpy(file + 8, header, length);
  ck_ok(ab_file_write(at("h"), file, 8 + length + data));
  ab_mem_free(file);
}

static void check_refused(const char *sentence) {
  struct ab_safetensors *file = NULL;
  size_t live = ab_mem_stats().live_blocks;
  ck_fails(ab_safetensors_open(&file, at("h")), AB_EFORMAT, sentence);
  ck_assert_ptr_null(file);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, live);
}

#define TENSOR(dtype, shape, offsets) "{\"dtype\": \"" dtype "\", \"shape\": " shape ", \"data_offsets\": " offsets "}"
#define ONE(dtype, shape, offsets) "{\"a\": " TENSOR(dtype, shape, offsets) "}"

START_TEST(hostile_files_are_refused) {
  static const struct {
    const char *header;
    size_t data;
    int64_t lie;
    const char *sentence;
  } cases[] = {
      {"", 0, 0, "does not begin with '{'"},
      {" {}", 0, 0, "does not begin with '{'"},
      {"{}", 0, 1, "states a header of 3 bytes, the file has 10"},
      {"{}", 0, (int64_t)1 << 62, "at most 100000000"},
      {"{}", 0, -3, "at most 100000000"}, /* 2^64 - 1 */
      {"{}", 0, 99999999, "at most 100000000"},
      {"{}", 0, 99999998, "states a header of 100000000 bytes, the file has 10"},
      {"{}", 1, 0, "cover 0 bytes of data, the file has 1"},
      {"{\"a\": 1}", 0, 0, "'a' is not an object of dtype"},
      {"{\"a\": {}}", 0, 0, "'a' is not an object of dtype"},
      {"[]", 0, 0, "does not begin with '{'"},
      {"{\"a\": {\"dtype\": \"F32\", \"shape\": [], \"offsets\": [0, 4]}}", 4, 0, "lacks the key 'data_offsets'"},
      {ONE("F32", "[1]", "[0, 4]"), 3, 0, "expected begin <= end <= 3"},
      {ONE("F32", "[1]", "[0, 4]"), 5, 0, "cover 4 bytes of data, the file has 5"},
      {ONE("F32", "[1]", "[4, 8]"), 8, 0, "begins at 4, expected 0 (a hole)"},
      {ONE("F32", "[1]", "[4, 0]"), 8, 0, "expected begin <= end"},
      {ONE("F32", "[2]", "[0, 4]"), 4, 0, "spans 4 bytes, its shape and dtype need 2 x 4"},
      {ONE("F32", "[1]", "[0, 8]"), 8, 0, "spans 8 bytes, its shape and dtype need 1 x 4"},
      {ONE("F32", "[-1]", "[0, 4]"), 4, 0, "'a.shape[0]' is negative"},
      {ONE("F32", "[1.0]", "[0, 4]"), 4, 0, "is 1.0, expected an integer"},
      {ONE("F32", "[4294967296, 4294967296]", "[0, 0]"), 0, 0, "does not fit into memory"},
      {ONE("F64", "[4611686018427387904]", "[0, 0]"), 0, 0, "spans 0 bytes"},
      {ONE("F32", "[9223372036854775808]", "[0, 4]"), 4, 0, "64 bits"},
      {ONE("F32", "[1]", "[0, 18446744073709551620]"), 4, 0, "64 bits"},
      {ONE("F32", "[1,1,1,1,1,1,1,1,1]", "[0, 4]"), 4, 0, "has rank 9, at most 8"},
      {ONE("BF16", "[2]", "[0, 4]"), 4, 0, "is 'BF16', expected F32, F64, I32, I64 or U8"},
      {ONE("M61", "[1]", "[0, 8]"), 8, 0, "is 'M61', expected"},
      {ONE("f32", "[1]", "[0, 4]"), 4, 0, "is 'f32', expected"},
      {ONE("F32", "[1]", "[0]"), 4, 0, "is not a pair"},
      {ONE("F32", "[1]", "[0, 4, 8]"), 4, 0, "is not a pair"},
      {"{\"a\": " TENSOR("F32", "[1]", "[0, 4]") ", \"a\": " TENSOR("F32", "[1]", "[4, 8]") "}", 8, 0, "stands twice"},
      {"{\"a\": " TENSOR("F32", "[2]", "[0, 8]") ", \"b\": " TENSOR("F32", "[1]", "[4, 8]") "}", 8, 0, "(an overlap)"},
      {"{\"a\": " TENSOR("F32", "[1]", "[0, 4]") ", \"b\": " TENSOR("F32", "[1]", "[0, 4]") "}", 4, 0, "(an overlap)"},
      {"{\"a\": " TENSOR("F32", "[1]", "[0, 4]") ", \"b\": " TENSOR("F32", "[1]", "[8, 12]") "}", 12, 0, "(a hole)"},
      {"{\"\": " TENSOR("F32", "[1]", "[0, 4]") "}", 4, 0, "1 to 1024 bytes"},
      {"{\"a\\u001b[2J\": " TENSOR("F32", "[1]", "[0, 4]") "}", 4, 0, "a\\x1b[2J"},
      {"{\"a\\u0000\": " TENSOR("F32", "[1]", "[0, 4]") "}", 4, 0, "NUL"},
      {"{\"__metadata__\": {\"a\": 1}}", 0, 0, "'__metadata__.a' is not a string"},
      {"{\"__metadata__\": []}", 0, 0, "'__metadata__' is not a map"},
      {"{\"a\": [[[[]]]]}", 0, 0, "nested deeper than 3"},
      {"{\"a\": ", 0, 0, ":1:7: expected a value, found the end"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    plant(cases[i].header, cases[i].data, cases[i].lie);
    check_refused(cases[i].sentence);
  }
  ck_ok(ab_file_write(at("h"), "1234567", 7));
  check_refused("7 bytes, too few");
}
END_TEST

START_TEST(names_hold_at_their_border) {
  char header[1400], name[1026];
  for (size_t length = 1024; length <= 1025; length++) {
    memset(name, 'n', length);
    name[length] = '\0';
    snprintf(header, sizeof header, "{\"%s\": " TENSOR("U8", "[]", "[0, 1]") "}", name);
    plant(header, 1, 0);
    if (length > 1024) {
      check_refused("1 to 1024 bytes");
      continue;
    }
    struct ab_safetensors *file;
    ck_ok(ab_safetensors_open(&file, at("h")));
    ck_assert_ptr_nonnull(ab_safetensors_find(file, name));
    ab_safetensors_close(file);
  }
}
END_TEST

/* Any order of the header, blanks behind it, empty tensors between others. */
START_TEST(odd_but_right_files_are_read) {
  struct ab_safetensors *file;
  plant("{\"b\": " TENSOR("U8", "[2]", "[1, 3]") ", \"e\": " TENSOR("F64", "[3, 0]", "[1, 1]") ",\"a\": " TENSOR(
            "U8", "[]", "[0, 1]") "}   ",
        3, 0);
  ck_ok(ab_safetensors_open(&file, at("h")));
  ck_assert_uint_eq(ab_safetensors_size(file), 3);
  ck_assert_str_eq(ab_safetensors_at(file, 0)->name, "a");
  ck_assert_str_eq(ab_safetensors_at(file, 1)->name, "e");
  ab_safetensors_close(file);
  plant("{\"__metadata__\": {\"format\": \"pt\"}}", 0, 0);
  ck_ok(ab_safetensors_open(&file, at("h")));
  ck_assert_uint_eq(ab_safetensors_size(file), 0);
  ab_safetensors_close(file);
}
END_TEST

START_TEST(a_part_of_a_tensor_ends_where_the_tensor_does) {
  struct ab_safetensors *file;
  unsigned char read[8];
  const uint64_t huge = UINT64_MAX - 1;
  plant("{\"a\": " TENSOR("U8", "[4]", "[0, 4]") ", \"b\": " TENSOR("U8", "[4]", "[4, 8]") "}abcdwxyz", 0, -8);
  ck_ok(ab_safetensors_open(&file, at("h")));
  const struct ab_safetensor *b = ab_safetensors_find(file, "b"), *a = ab_safetensors_find(file, "a");
  ck_ok(ab_safetensors_read_part(file, b, read, 1, 2));
  ck_assert_mem_eq(read, "xy", 2);
  ck_ok(ab_safetensors_read_part(file, a, read, 0, 4));
  ck_assert_mem_eq(read, "abcd", 4);
  ck_ok(ab_safetensors_read_part(file, a, read, 4, 0));
  ck_fails(ab_safetensors_read_part(file, a, read, 1, 4), AB_EFORMAT, "'a' has 4 bytes; expected 4 from 1 on");
  ck_fails(ab_safetensors_read_part(file, a, read, 5, 0), AB_EFORMAT, "expected 0 from 5 on");
  ck_fails(ab_safetensors_read_part(file, b, read, huge, 2), AB_EFORMAT, "expected 2 from 18446744073709551614 on");
  ab_safetensors_close(file);
}
END_TEST

/* Cut at every byte, and every bit of the front flipped: refused or read, never a crash. */
START_TEST(damaged_files_never_crash) {
  char *text;
  size_t size;
  struct ab_tree *tree = sample();
  ck_ok(ab_safetensors_write(at("f"), tree));
  ck_ok(ab_file_read(&text, &size, at("f"), 1 << 20));
  for (size_t i = 0; i < 8 + 64; i++)
    for (int bit = 0; bit < 8; bit++) {
      struct ab_tree *back = NULL;
      text[i] = (char)(text[i] ^ 1 << bit);
      FILE *out = fopen(at("h"), "wb");
      fwrite(text, 1, bit == 7 ? i * size / 72 : size, out);
      fclose(out);
      if (ab_safetensors_load(&back, at("h")) == AB_OK) ab_tree_free(back);
      text[i] = (char)(text[i] ^ 1 << bit);
    }
  ab_mem_free(text);
  ab_tree_free(tree);
}
END_TEST

static char swept[4096];

static ab_status write_and_load(void) {
  struct ab_safetensors_writer *w;
  struct ab_tree *back;
  struct ab_shape shape = {.rank = 1, .dim = {1}};
  AB_TRY(ab_safetensors_writer_new(&w, swept));
  ab_status status = AB_OK;
  for (int i = 0; i < 20 && status == AB_OK; i++) {
    char name[16];
    snprintf(name, sizeof name, "t%d", i);
    status = ab_safetensors_writer_declare(w, name, AB_F32, &shape);
  }
  for (int i = 0; i < 20 && status == AB_OK; i++) status = ab_safetensors_writer_put(w, (float[]){1}, 4);
  if (status == AB_OK) status = ab_safetensors_writer_commit(w);
  ab_safetensors_writer_free(w);
  AB_TRY(status);
  AB_TRY(ab_safetensors_load(&back, swept));
  ab_tree_free(back);
  return AB_OK;
}

START_TEST(every_refused_allocation_is_survived) {
  snprintf(swept, sizeof swept, "%s", at("f"));
  char *kept = scratch; /* the fixture's own block must not be live */
  char path[4096];
  snprintf(path, sizeof path, "%s", scratch);
  ab_mem_free(kept);
  ck_assert_uint_gt(sweep_allocations(write_and_load), 80);
  ck_ok(ab_mem_string(&scratch, path));
  struct ab_names names;
  ck_ok(ab_folder_list(&names, scratch, 10));
  ck_assert_uint_eq(names.count, 1);
  ab_names_free(&names);
}
END_TEST

/* Files that the real code's tools wrote. */
START_TEST(reference_files_are_read) {
  char folder[4096], path[8300];
  struct ab_names names;
  size_t read = 0;
  snprintf(folder, sizeof folder, "%s/tests/fixtures/reference", getenv("AB_SOURCE_ROOT"));
  ck_ok(ab_folder_list(&names, folder, 1000));
  for (size_t i = 0; i < names.count; i++) {
    struct ab_safetensors *file;
    snprintf(path, sizeof path, "%s/%s/params.safetensors", folder, names.name[i]);
    if (access(path, F_OK) != 0) continue;
    ck_ok(ab_safetensors_open(&file, path));
    ck_assert_uint_gt(ab_safetensors_size(file), 0);
    ab_safetensors_close(file);
    read++;
  }
  ab_names_free(&names);
  ck_assert_uint_ge(read, 10);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("safetensors");
  TCase *c = tcase_create("safetensors");
  tcase_add_checked_fixture(c, open_scratch, close_scratch);
  tcase_add_test(c, what_is_written_is_read_back_bit_by_bit);
  tcase_add_test(c, the_index_knows_names_and_order);
  tcase_add_test(c, a_wrong_writer_is_stopped_and_leaves_nothing);
  tcase_add_test(c, more_bytes_than_can_be_counted_are_not_declared);
  tcase_add_test(c, hostile_files_are_refused);
  tcase_add_test(c, names_hold_at_their_border);
  tcase_add_test(c, odd_but_right_files_are_read);
  tcase_add_test(c, a_part_of_a_tensor_ends_where_the_tensor_does);
  tcase_add_test(c, damaged_files_never_crash);
  tcase_add_test(c, every_refused_allocation_is_survived);
  tcase_add_test(c, reference_files_are_read);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
