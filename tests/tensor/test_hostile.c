/* Hostile safetensors files, each made here: what is wrong with it, and what is said of it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "file.h"
#include "mem.h"
#include "safetensors.h"
#include "tap.h"

#define T(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define ONE(dtype, shape, offsets) "{\"a\":" T(dtype, shape, offsets) "}"
#define TWO(first, second) "{\"a\":" first ",\"b\":" second "}"

static const struct hostile {
  const char *wrong, *header;
  size_t data;          /* bytes behind the header */
  uint64_t stated;      /* length of the header; 0: its own */
  const char *sentence; /* NULL: it is right, and is read */
} files[] = {
    {"no header at all", "", 0, 0, "the header of 0 bytes does not begin with '{'"},
    {"a header of blanks", "        ", 0, 0, "does not begin with '{'"},
    {"a blank before the header", " {}", 0, 0, "does not begin with '{'"},
    {"a byte order mark", "\xef\xbb\xbf{}", 0, 0, "does not begin with '{'"},
    {"a list for a header", "[]", 0, 0, "does not begin with '{'"},
    {"nothing but the opening brace", "{", 0, 0, ":1:2: expected '\"' before a key"},
    {"a header cut in a value", "{\"a\":", 0, 0, ":1:6: expected a value, found the end"},
    {"text behind the header", "{} x", 0, 0, ":1:4: expected the end, found 'x'"},
    {"NUL behind the header", "{\"a\":" T("U8", "[]", "[0,1]") "}\x01", 1, 0, "expected the end, found byte 0x01"},
    {"bad UTF-8 in a name", "{\"\xff\":1}", 0, 0, "the text is not valid UTF-8"},
    {"a comma too many", "{\"a\":" T("U8", "[]", "[0,1]") ",}", 1, 0, "expected '\"' before a key"},
    {"a header shorter than stated by one", "{}", 0, 3, "states a header of 3 bytes, the file has 10"},
    {"a header of 2^31 bytes", "{}", 0, UINT64_C(1) << 31, "states a header of 2147483648 bytes, at most 100000000"},
    {"a header of 2^53 bytes", "{}", 0, UINT64_C(1) << 53, "at most 100000000"},
    {"a header of 2^63 bytes", "{}", 0, UINT64_C(1) << 63, "at most 100000000"},
    {"a header of 2^64 - 8 bytes: 8 + n wraps to 0", "{}", 0, UINT64_MAX - 7, "at most 100000000"},
    {"a header of 2^64 - 1 bytes", "{}", 0, UINT64_MAX, "at most 100000000"},
    {"a header of the limit and one", "{}", 0, 100000001, "100000001 bytes, at most 100000000"},
    {"a header of the limit", "{}", 0, 100000000, "states a header of 100000000 bytes, the file has 10"},
    {"trailing bytes without a tensor", "{}", 1, 0, "cover 0 bytes of data, the file has 1"},
    {"trailing bytes behind a tensor", ONE("F32", "[1]", "[0,4]"), 5, 0, "cover 4 bytes of data, the file has 5"},
    {"a byte of the data missing", ONE("F32", "[1]", "[0,4]"), 3, 0, "expected begin <= end <= 3"},
    {"a tensor that is a number", "{\"a\":1}", 0, 0, "'a' is not an object of dtype"},
    {"a tensor that is null", "{\"a\":null}", 0, 0, "'a' is not an object of dtype"},
    {"a tensor without keys", "{\"a\":{}}", 0, 0, "'a' is not an object of dtype"},
    {"a tensor with a key too many", "{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1],\"x\":0}}", 1, 0,
     "'a' is not an object of dtype"},
    {"offsets by another name", "{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"offsets\":[0,1]}}", 1, 0,
     "lacks the key 'data_offsets'"},
    {"a dtype twice", "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[]}}", 1, 0, "'dtype' stands twice"},
    {"a dtype that is a number", "{\"a\":{\"dtype\":5,\"shape\":[],\"data_offsets\":[0,1]}}", 1, 0, "'a.dtype' is a number"},
    {"a shape that is a number", "{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", 1, 0,
     "'a.shape' is a number"},
    {"dtype BF16", ONE("BF16", "[2]", "[0,4]"), 4, 0, "is 'BF16', expected F32, F64, I32, I64 or U8"},
    {"dtype F16", ONE("F16", "[2]", "[0,4]"), 4, 0, "is 'F16', expected"},
    {"dtype F8_E4M3", ONE("F8_E4M3", "[4]", "[0,4]"), 4, 0, "is 'F8_E4M3', expected"},
    {"dtype F8_E5M2", ONE("F8_E5M2", "[4]", "[0,4]"), 4, 0, "is 'F8_E5M2', expected"},
    {"dtype I8", ONE("I8", "[4]", "[0,4]"), 4, 0, "is 'I8', expected"},
    {"dtype I16", ONE("I16", "[2]", "[0,4]"), 4, 0, "is 'I16', expected"},
    {"dtype U16", ONE("U16", "[2]", "[0,4]"), 4, 0, "is 'U16', expected"},
    {"dtype U32", ONE("U32", "[1]", "[0,4]"), 4, 0, "is 'U32', expected"},
    {"dtype U64", ONE("U64", "[1]", "[0,8]"), 8, 0, "is 'U64', expected"},
    {"dtype BOOL", ONE("BOOL", "[4]", "[0,4]"), 4, 0, "is 'BOOL', expected"},
    {"dtype M61, which is ours and has no spelling", ONE("M61", "[1]", "[0,8]"), 8, 0, "is 'M61', expected"},
    {"a dtype in lower case", ONE("f32", "[1]", "[0,4]"), 4, 0, "is 'f32', expected"},
    {"an empty dtype", ONE("", "[1]", "[0,4]"), 4, 0, "is '', expected"},
    {"an escape sequence as a dtype", ONE("\\u001b[2J", "[1]", "[0,4]"), 4, 0, "is '\\x1b[2J', expected"},
    {"rank 9", ONE("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, 0, "has rank 9, at most 8"},
    {"a negative extent", ONE("F32", "[-1]", "[0,4]"), 4, 0, "'a.shape[0]' is negative"},
    {"two negative extents, whose product is right", ONE("F32", "[-1,-1]", "[0,4]"), 4, 0, "'a.shape[0]' is negative"},
    {"a fraction for an extent", ONE("F32", "[1.0]", "[0,4]"), 4, 0, "is 1.0, expected an integer"},
    {"an exponent for an extent", ONE("F32", "[1e0]", "[0,4]"), 4, 0, "is 1e0, expected an integer"},
    {"a string for an extent", ONE("F32", "[\"1\"]", "[0,4]"), 4, 0, "'a.shape[0]' is a string"},
    {"a list for an extent", ONE("F32", "[[1]]", "[0,4]"), 4, 0, "nested deeper than 3"},
    {"a product that wraps to 0", ONE("F32", "[4294967296,4294967296]", "[0,0]"), 0, 0, "does not fit into memory"},
    {"a product that wraps to 4", ONE("U8", "[4611686018427387905,4]", "[0,4]"), 4, 0, "does not fit into memory"},
    {"a product that wraps to 0 behind a 0", ONE("F32", "[0,4294967296,4294967296]", "[0,0]"), 0, 0, NULL},
    {"bytes that wrap to 0", ONE("F64", "[2305843009213693952]", "[0,0]"), 0, 0, "its shape and dtype need"},
    {"bytes that wrap to 8", ONE("F64", "[2305843009213693953]", "[0,8]"), 8, 0, "its shape and dtype need"},
    {"an extent of 2^31", ONE("U8", "[2147483648]", "[0,1]"), 1, 0, "need 2147483648 x 1"},
    {"an extent of 2^53 + 1", ONE("U8", "[9007199254740993]", "[0,1]"), 1, 0, "need 9007199254740993 x 1"},
    {"an extent of 2^63 - 1", ONE("U8", "[9223372036854775807]", "[0,1]"), 1, 0, "need 9223372036854775807 x 1"},
    {"an extent of 2^63", ONE("F32", "[9223372036854775808]", "[0,4]"), 4, 0, "expected an integer of 64 bits"},
    {"an end of 2^31", ONE("U8", "[1]", "[0,2147483648]"), 1, 0, "[0, 2147483648], expected begin <= end <= 1"},
    {"an end of 2^53 + 1", ONE("U8", "[1]", "[0,9007199254740993]"), 1, 0, "[0, 9007199254740993], expected"},
    {"an end of 2^63 - 1", ONE("U8", "[1]", "[0,9223372036854775807]"), 1, 0, "[0, 9223372036854775807], expected"},
    {"an end of 2^64 + 4, which wraps to 4", ONE("F32", "[1]", "[0,18446744073709551620]"), 4, 0, "64 bits"},
    {"a begin of 2^63 - 1", ONE("U8", "[1]", "[9223372036854775807,9223372036854775807]"), 1, 0, "expected begin <= end"},
    {"a negative begin", ONE("F32", "[2]", "[-4,4]"), 4, 0, "'a.data_offsets[0]' is negative"},
    {"an end before its begin", ONE("F32", "[1]", "[4,0]"), 8, 0, "expected begin <= end"},
    {"one offset", ONE("F32", "[1]", "[4]"), 4, 0, "is not a pair of begin and end"},
    {"three offsets", ONE("F32", "[1]", "[0,4,4]"), 4, 0, "is not a pair of begin and end"},
    {"a span shorter than the shape", ONE("F32", "[2]", "[0,4]"), 4, 0, "spans 4 bytes, its shape and dtype need 2 x 4"},
    {"a span longer than the shape", ONE("F32", "[1]", "[0,8]"), 8, 0, "spans 8 bytes, its shape and dtype need 1 x 4"},
    {"a span of another dtype", ONE("F64", "[1]", "[0,4]"), 4, 0, "spans 4 bytes, its shape and dtype need 1 x 8"},
    {"a hole at the front", ONE("F32", "[1]", "[4,8]"), 8, 0, "begins at 4, expected 0 (a hole)"},
    {"a hole between", TWO(T("F32", "[1]", "[0,4]"), T("F32", "[1]", "[8,12]")), 12, 0, "begins at 8, expected 4 (a hole)"},
    {"an overlap", TWO(T("F32", "[2]", "[0,8]"), T("F32", "[1]", "[4,8]")), 8, 0, "begins at 4, expected 8 (an overlap)"},
    {"two in one place", TWO(T("F32", "[1]", "[0,4]"), T("F32", "[1]", "[0,4]")), 4, 0, "(an overlap)"},
    {"one inside the other", TWO(T("U8", "[8]", "[0,8]"), T("U8", "[2]", "[3,5]")), 8, 0, "(an overlap)"},
    {"an empty tensor inside another", TWO(T("U8", "[8]", "[0,8]"), T("U8", "[0]", "[3,3]")), 8, 0, "(an overlap)"},
    {"a name twice", "{\"a\":" T("U8", "[]", "[0,1]") ",\"a\":" T("U8", "[]", "[1,2]") "}", 2, 0, "stands twice"},
    {"a name twice, once escaped", "{\"a\":" T("U8", "[]", "[0,1]") ",\"\\u0061\":" T("U8", "[]", "[1,2]") "}", 2, 0,
     "stands twice"},
    {"an empty name", "{\"\":" T("U8", "[]", "[0,1]") "}", 1, 0, "is not 1 to 1024 bytes of printable UTF-8"},
    {"NUL in a name", "{\"a\\u0000\":" T("U8", "[]", "[0,1]") "}", 1, 0, "a key holds a NUL character"},
    {"an escape sequence in a name", "{\"\\u001b[2J\":" T("U8", "[]", "[0,1]") "}", 1, 0, "'\\x1b[2J' of 4 bytes"},
    {"a new line in a name", "{\"a\\nb\":" T("U8", "[]", "[0,1]") "}", 1, 0, "'a\\x0ab' of 3 bytes"},
    {"metadata that is a list", "{\"__metadata__\":[]}", 0, 0, "'__metadata__' is not a map of strings"},
    {"metadata of numbers", "{\"__metadata__\":{\"a\":1}}", 0, 0, "'__metadata__.a' is not a string"},
    {"metadata that is a tensor", "{\"__metadata__\":" T("U8", "[]", "[0,1]") "}", 1, 0, "is not a string"},
    {"depth", "{\"a\":[[[[]]]]}", 0, 0, "nested deeper than 3"},
    {"nothing: no tensors", "{}", 0, 0, NULL},
    {"nothing: blanks behind the header", "{}      ", 0, 0, NULL},
    {"nothing: rank 0", ONE("F64", "[]", "[0,8]"), 8, 0, NULL},
    {"nothing: rank 8", ONE("U8", "[1,1,1,2,1,1,1,1]", "[0,2]"), 2, 0, NULL},
    {"nothing: no elements", ONE("F32", "[0]", "[0,0]"), 0, 0, NULL},
    {"nothing: no elements, a large extent", ONE("F32", "[9223372036854775807,0]", "[0,0]"), 0, 0, NULL},
    {"nothing: the data in another order", TWO(T("U8", "[1]", "[1,2]"), T("U8", "[1]", "[0,1]")), 2, 0, NULL},
    {"nothing: dtype F32", ONE("F32", "[1]", "[0,4]"), 4, 0, NULL},
    {"nothing: dtype F64", ONE("F64", "[1]", "[0,8]"), 8, 0, NULL},
    {"nothing: dtype I32", ONE("I32", "[1]", "[0,4]"), 4, 0, NULL},
    {"nothing: dtype I64", ONE("I64", "[1]", "[0,8]"), 8, 0, NULL},
    {"nothing: dtype U8", ONE("U8", "[1]", "[0,1]"), 1, 0, NULL},
};
enum { FILES = sizeof files / sizeof *files, LEAST = 60 };

static char *scratch;
static char path[4096];

static void open_scratch(void) {
  ck_ok(ab_scratch_new(&scratch, NULL));
  snprintf(path, sizeof path, "%s/hostile.safetensors", scratch);
}

static void close_scratch(void) {
  ck_ok(ab_scratch_remove(scratch));
  ab_mem_free(scratch);
}

static void plant(const char *header, size_t length, size_t data, uint64_t stated) {
  char *bytes;
  ck_ok(ab_mem_new(&bytes, 8 + length + data, 1));
  for (int i = 0; i < 8; i++) bytes[i] = (char)(stated >> 8 * i);
  memcpy(bytes + 8, header, length);
  ck_ok(ab_file_write(path, bytes, 8 + length + data));
  ab_mem_free(bytes);
}

/* Opens and loads; the sentence must be there, name the file, and leave no memory behind. */
static void check(const char *wrong, const char *sentence) {
  struct ab_tree *tree = NULL;
  size_t live = ab_mem_stats().live_blocks;
  ab_status status = ab_safetensors_load(&tree, path);
  ck_assert_msg(status == (sentence ? AB_EFORMAT : AB_OK), "%s: status %d, %s", wrong, status, ab_status_message());
  if (sentence)
    ck_assert_msg(strstr(ab_status_message(), sentence) && strstr(ab_status_message(), "hostile.safetensors"), "%s: \"%s\"",
                  wrong, ab_status_message());
  ab_tree_free(tree);
  ck_assert_msg(ab_mem_stats().live_blocks == live, "%s: memory is left behind", wrong);
}

START_TEST(each_file_ends_as_it_should) {
  ck_assert_int_ge(FILES, LEAST);
  for (size_t i = 0; i < FILES; i++) {
    size_t length = strlen(files[i].header);
    plant(files[i].header, length, files[i].data, files[i].stated ? files[i].stated : length);
    check(files[i].wrong, files[i].sentence);
  }
}
END_TEST

/* Refused before anything of a stated size is allocated. */
START_TEST(what_a_file_states_is_not_allocated) {
  plant(ONE("U8", "[9007199254740993]", "[0,9007199254740993]"), strlen(ONE("U8", "[9007199254740993]", "[0,9007199254740993]")),
        1, strlen(ONE("U8", "[9007199254740993]", "[0,9007199254740993]")));
  size_t before = ab_mem_stats().high_bytes;
  check("2^53 + 1 bytes", "expected begin <= end <= 1");
  plant("{}", 2, 0, 100000000);
  check("a header of 100 MB", "the file has 10");
  ck_assert_uint_le(ab_mem_stats().high_bytes, (before > 1 << 20 ? before : 1 << 20));
}
END_TEST

/* A true header of the limit, most of it blanks; one more is refused by its length (files, above). */
START_TEST(a_header_of_the_limit_is_read) {
  static const char tensor[] = "{\"a\":" T("U8", "[1]", "[0,1]") "}";
  enum { MOST = 100000000 };
  char *header;
  for (size_t n = MOST - 1; n <= MOST; n++) {
    ck_ok(ab_mem_new(&header, MOST, 1));
    memset(header, ' ', MOST);
    memcpy(header, tensor, sizeof tensor - 1);
    plant(header, n, 1, n);
    ab_mem_free(header);
    check("a header of the limit", NULL);
  }
}
END_TEST

/* n empty tensors. */
static void plant_many(size_t n) {
  char *header = NULL;
  size_t size;
  FILE *out = open_memstream(&header, &size);
  for (size_t i = 0; i < n; i++)
    fprintf(out, "%c\"%zx\":" T("U8", "[0]", "[0,0]"), i ? ',' : '{', i);
  fputs("}", out);
  fclose(out);
  plant(header, size, 0, size);
  free(header);
}

START_TEST(a_million_tensors_and_not_one_more) {
  static const size_t counts[] = {999999, 1000000, 1000001};
  for (int i = 0; i < 3; i++) {
    struct ab_safetensors *file = NULL;
    plant_many(counts[i]);
    ab_status status = ab_safetensors_open(&file, path);
    ck_assert_msg(status == (i < 2 ? AB_OK : AB_EFORMAT), "%zu: %s", counts[i], ab_status_message());
    if (i == 2) ck_assert_ptr_nonnull(strstr(ab_status_message(), "holds 1000001 tensors, at most 1000000"));
    if (i < 2) ck_assert_uint_eq(ab_safetensors_size(file), counts[i]);
    ab_safetensors_close(file);
  }
}
END_TEST

START_TEST(names_and_ranks_at_their_limits) {
  char name[1026], header[2048];
  for (size_t n = 1023; n <= 1025; n++) {
    memset(name, 'n', n);
    name[n] = '\0';
    snprintf(header, sizeof header, "{\"%s\":" T("U8", "[]", "[0,1]") "}", name);
    plant(header, strlen(header), 1, strlen(header));
    check("a long name", n > 1024 ? "is not 1 to 1024 bytes" : NULL);
  }
  for (int rank = 7; rank <= 9; rank++) {
    snprintf(header, sizeof header, "{\"a\":{\"dtype\":\"U8\",\"shape\":[%.*s],\"data_offsets\":[0,1]}}", 2 * rank - 1,
             "1,1,1,1,1,1,1,1,1,1");
    plant(header, strlen(header), 1, strlen(header));
    check("a high rank", rank > 8 ? "has rank 9, at most 8" : NULL);
  }
}
END_TEST

/* Shorter than the length of a header. */
START_TEST(short_files_are_refused) {
  for (size_t n = 0; n < 8; n++) {
    ck_ok(ab_file_write(path, "\2\0\0\0\0\0\0", n));
    check("a short file", "too few for a safetensors file");
  }
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("hostile");
  TCase *c = tcase_create("safetensors");
  tcase_set_timeout(c, 120); /* with sanitizers, on a busy machine */
  tcase_add_checked_fixture(c, open_scratch, close_scratch);
  tcase_add_test(c, each_file_ends_as_it_should);
  tcase_add_test(c, what_a_file_states_is_not_allocated);
  tcase_add_test(c, a_million_tensors_and_not_one_more);
  tcase_add_test(c, names_and_ranks_at_their_limits);
  tcase_add_test(c, a_header_of_the_limit_is_read);
  tcase_add_test(c, short_files_are_refused);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
