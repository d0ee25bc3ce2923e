/* Hostile .npz archives: one right archive of two members, stored and deflated, spoiled in one place each. */
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "file.h"
#include "mem.h"
#include "npz.h"
#include "tap.h"

enum { LOCAL, LOCAL_NAME, NPY, CENTRAL, CENTRAL_NAME, SECOND, END, PLACES }; /* records of the archive */

enum { MEMBERS_MOST = 65535, NPY_HEADER_MOST = 64 * 1024, NAME_MOST = 1024, RATIO_MOST = 1100 }; /* limits of the reader */

static struct {
  unsigned char data[12 << 20]; /* for the most members */
  size_t size, at[PLACES];
} archive;

static void put(const void *bytes, size_t count) {
  ck_assert_uint_le(archive.size + count, sizeof archive.data);
  memcpy(archive.data + archive.size, bytes, count);
  archive.size += count;
}

static void put_number(uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++, value >>= 8) archive.data[archive.size++] = (unsigned char)value;
}

struct member {
  const char *name;
  unsigned char plain[NPY_HEADER_MOST + 512], packed[NPY_HEADER_MOST + 512];
  size_t plain_size, packed_size, local;
  uint32_t crc;
  int method;
};

static int version; /* of the first .npy; 0: the least that can state its length */

static void make_npy(struct member *m, const char *header, const void *data, size_t size) {
  size_t length = strlen(header);
  int form = version ? version : length < 65536 ? 1 : 2;
  size_t start = form == 1 ? 10 : 12;
  memcpy(m->plain, "\x93NUMPY\1\0", 8);
  m->plain[6] = (unsigned char)form;
  for (size_t i = 8; i < start; i++) m->plain[i] = (unsigned char)(length >> 8 * (i - 8));
  memcpy(m->plain + start, header, length);
  memcpy(m->plain + start + length, data, size);
  m->plain_size = start + length + size;
  m->crc = (uint32_t)crc32(0, m->plain, (uInt)m->plain_size);
  memcpy(m->packed, m->plain, m->plain_size);
  m->packed_size = m->plain_size;
}

static void deflate_it(struct member *m) {
  z_stream z = {.next_in = m->plain, .avail_in = (uInt)m->plain_size, .next_out = m->packed,
                .avail_out = sizeof m->packed};
  ck_assert_int_eq(deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
  m->packed_size = z.total_out;
  m->method = 8;
  deflateEnd(&z);
}

/* From the version needed to the length of the extra field: the same in both kinds of header. */
static void put_common(const struct member *m) {
  put_number(20, 2);
  put_number(0, 2);
  put_number((uint64_t)m->method, 2);
  put_number(0, 4);
  put_number(m->crc, 4);
  put_number(m->packed_size, 4);
  put_number(m->plain_size, 4);
  put_number(strlen(m->name), 2);
  put_number(0, 2);
}

static void put_local(struct member *m) {
  m->local = archive.size;
  put_number(0x04034b50, 4);
  put_common(m);
  put(m->name, strlen(m->name));
  put(m->packed, m->packed_size);
}

static void put_central(const struct member *m) {
  put_number(0x02014b50, 4);
  put_number(20, 2);
  put_common(m);
  put_number(0, 2 + 2 + 2 + 4);
  put_number(m->local, 4);
  put(m->name, strlen(m->name));
}

#define HEADER(descr, order, shape) "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }\n"

static void put_end(size_t members, size_t directory) {
  size_t size = archive.size - directory;
  put_number(0x06054b50, 4);
  put_number(0, 4);
  put_number(members, 2);
  put_number(members, 2);
  put_number(size, 4);
  put_number(directory, 4);
  put_number(0, 2);
}

static void make_archive(const char *name, const char *header, size_t data) {
  static const float values[6] = {1, 2, 3, 4, 5, 6};
  static const unsigned char zeros[300];
  static struct member first, second;
  archive.size = 0;
  first = (struct member){.name = name};
  second = (struct member){.name = "b.npy"};
  make_npy(&first, header, values, data);
  make_npy(&second, HEADER("'|u1'", "False", "(300,)"), zeros, sizeof zeros);
  deflate_it(&second);
  put_local(&first);
  put_local(&second);
  archive.at[LOCAL_NAME] = 30;
  archive.at[NPY] = 30 + strlen(name);
  archive.at[CENTRAL] = archive.size;
  archive.at[CENTRAL_NAME] = archive.size + 46;
  put_central(&first);
  archive.at[SECOND] = archive.size;
  put_central(&second);
  archive.at[END] = archive.size;
  put_end(2, archive.at[CENTRAL]);
}

static void make_right(void) { make_archive("a.npy", HEADER("'<f4'", "False", "(2, 3)"), 24); }

static char *scratch;
static char path[4096];

static void open_scratch(void) {
  ck_ok(ab_scratch_new(&scratch, NULL));
  snprintf(path, sizeof path, "%s/hostile.npz", scratch);
}

static void close_scratch(void) {
  ck_ok(ab_scratch_remove(scratch));
  ab_mem_free(scratch);
}

static ab_status read_all(const struct ab_npz *npz) {
  for (size_t i = 0; i < ab_npz_size(npz); i++) {
    const struct ab_safetensor *t = ab_npz_at(npz, i);
    char *values;
    AB_TRY(ab_mem_new(&values, (size_t)t->bytes + 1, 1));
    ab_status status = ab_npz_read(npz, t, values);
    ab_mem_free(values);
    AB_TRY(status);
  }
  return AB_OK;
}

/* Opens the first `size` bytes of the archive and reads every member. */
static ab_status open_and_read(size_t size) {
  struct ab_npz *npz;
  size_t live = ab_mem_stats().live_blocks;
  ck_ok(ab_file_write(path, archive.data, size));
  ab_status status = ab_npz_open(&npz, path);
  if (status == AB_OK) {
    status = read_all(npz);
    ab_npz_close(npz);
  }
  ck_assert_uint_eq(ab_mem_stats().live_blocks, live);
  return status;
}

static void check(const char *wrong, const char *sentence) {
  ab_status status = open_and_read(archive.size);
  ck_assert_msg(status == (sentence ? AB_EFORMAT : AB_OK), "%s: status %d, %s", wrong, status, ab_status_message());
  if (!sentence) return;
  ck_assert_msg(strstr(ab_status_message(), sentence) && strstr(ab_status_message(), "hostile.npz"), "%s: \"%s\"", wrong,
                ab_status_message());
}

static const struct {
  const char *wrong;
  int place;
  size_t offset;
  int bytes;
  uint64_t value;
  const char *sentence;
} patches[] = {
    {"another end record", END, 0, 4, 0x06054b51, "it has no end record"},
    {"a second disk", END, 4, 2, 1, "it has several disks"},
    {"a count of another disk", END, 8, 2, 1, "it has several disks"},
    {"a directory beyond the end", END, 16, 4, 5000, "its directory does not fit"},
    {"a count one lower", END, 8, 4, 1 << 16 | 1, "its directory holds more than it counts"},
    {"a count of nothing", END, 8, 4, 0, "its directory holds more than it counts"},
    {"a directory of 4 GiB", END, 12, 4, UINT32_MAX, "its directory does not fit"},
    {"a directory one shorter", END, 12, 4, 101, "its directory is damaged"},
    {"a comment that is not there", END, 20, 2, 1, "it has no end record"},
    {"another central header", CENTRAL, 0, 4, 0, "its directory is damaged"},
    {"a name of nothing", CENTRAL, 28, 2, 0, "its directory is damaged"},
    {"a name beyond the directory", CENTRAL, 28, 2, 65535, "its directory is damaged"},
    {"a comment beyond the directory", CENTRAL, 32, 2, 65535, "its directory is damaged"},
    {"an encrypted member", CENTRAL, 8, 2, 1, "'a.npy' is encrypted"},
    {"method 9", CENTRAL, 10, 2, 9, "'a.npy' is neither stored nor deflated"},
    {"a stored member that is said to be deflated", CENTRAL, 10, 2, 8, "cannot be inflated"},
    {"a packed size of another", CENTRAL, 20, 4, 90, "has sizes that do not go together"},
    {"a packed size of zip64", CENTRAL, 20, 4, UINT32_MAX, "zip64"},
    {"an unpacked size of zip64", CENTRAL, 24, 4, UINT32_MAX, "zip64"},
    {"a place of zip64", CENTRAL, 42, 4, UINT32_MAX, "zip64"},
    {"a packed size beyond the end", CENTRAL, 20, 4, 100000, "reaches behind the end of the file"},
    {"a place beyond the end", CENTRAL, 42, 4, 100000, "begins behind the end of the file"},
    {"a place without a header", CENTRAL, 42, 4, 1, "has no header where the directory says"},
    {"another checksum", CENTRAL, 16, 4, 7, "its checksum is wrong"},
    {"NUL in a name", CENTRAL_NAME, 0, 1, 0, "a name in it is not printable"},
    {"an escape sequence in a name", CENTRAL_NAME, 0, 1, 27, "a name in it is not printable"},
    {"bad UTF-8 in a name", CENTRAL_NAME, 0, 1, 0xff, "a name in it is not printable"},
    {"another local header", LOCAL, 0, 4, 0, "has no header where the directory says"},
    {"a local name beyond the end", LOCAL, 26, 2, 65535, "reaches behind the end of the file"},
    {"a local extra field that moves the data", LOCAL, 28, 2, 1, "is no .npy"},
    {"another magic", NPY, 1, 1, 'M', "is no .npy of version 1 to 3"},
    {"version 0", NPY, 6, 1, 0, "is no .npy of version 1 to 3"},
    {"version 4", NPY, 6, 1, 4, "is no .npy of version 1 to 3"},
    {"a header longer than the member", NPY, 8, 2, 65535, "header that does not fit into it"},
    {"version 2, whose header is longer than all", NPY, 6, 1, 2, "header that does not fit into it"},
    {"an element changed", NPY, 80, 1, 0x55, "its checksum is wrong"},
    {"a bomb: 4 GiB out of a few bytes", SECOND, 24, 4, UINT32_MAX - 1, "has sizes that do not go together"},
    {"more than the member inflates to", SECOND, 24, 4, 1000, "holds another number of bytes"},
    {"no more than the header of a .npy", SECOND, 24, 4, 11, "is too short for a .npy"},
    {"a packed size of nothing", SECOND, 20, 4, 0, "ends before its data does"},
    {"a packed size cut by half", SECOND, 20, 4, 30, "ends before its data does"},
    {"a deflated member that is said to be stored", SECOND, 10, 2, 0, "has sizes that do not go together"},
};

START_TEST(each_spoiled_record_is_named) {
  make_right();
  check("nothing", NULL);
  for (size_t i = 0; i < sizeof patches / sizeof *patches; i++) {
    make_right();
    size_t at = archive.at[patches[i].place] + patches[i].offset;
    for (int b = 0; b < patches[i].bytes; b++) archive.data[at + (size_t)b] = (unsigned char)(patches[i].value >> 8 * b);
    check(patches[i].wrong, patches[i].sentence);
  }
}
END_TEST

static const struct {
  const char *wrong, *name, *header;
  size_t data;
  const char *sentence;
} members[] = {
    {"an object array", "a.npy", HEADER("'|O'", "False", "(1,)"), 8, "a pickle, which is never read"},
    {"a dtype of other bytes", "a.npy", HEADER("'>f4'", "False", "(2, 3)"), 24, "has another dtype"},
    {"float16", "a.npy", HEADER("'<f2'", "False", "(12,)"), 24, "has another dtype"},
    {"a record dtype", "a.npy", HEADER("[('x', '<f4')]", "False", "(6,)"), 24, "has another dtype"},
    /* 64 bytes: a byte more and AddressSanitizer sees it. */
    {"no key in all of a block", "a.npy", "{'a block of the allocator is a multiple of 64 bytes long': 1}  ", 24,
     "without descr"},
    {"no shape", "a.npy", "{'descr': '<f4', 'fortran_order': False}\n", 24, "without descr, fortran_order or shape"},
    {"a list for a shape", "a.npy", HEADER("'<f4'", "False", "[2, 3]"), 24, "a shape that cannot be read"},
    {"a negative extent", "a.npy", HEADER("'<f4'", "False", "(-1, 3)"), 24, "a shape that cannot be read"},
    {"rank 9", "a.npy", HEADER("'<f4'", "False", "(6,1,1,1,1,1,1,1,1)"), 24, "or of more than 8 axes"},
    {"a product that wraps to 0", "a.npy", HEADER("'<f4'", "False", "(4294967296, 4294967296)"), 0, "a shape that cannot"},
    {"bytes that wrap to 0", "a.npy", HEADER("'<f4'", "False", "(4611686018427387904,)"), 0, "of more bytes than memory"},
    {"an extent of 2^63", "a.npy", HEADER("'<f4'", "False", "(9223372036854775808,)"), 24, "a shape that cannot be read"},
    {"neither order", "a.npy", HEADER("'<f4'", "Maybe", "(2, 3)"), 24, "is neither True nor False"},
    {"an element too few", "a.npy", HEADER("'<f4'", "False", "(2, 3)"), 20, "holds another number of bytes"},
    {"an element too many", "a.npy", HEADER("'<f4'", "False", "(5,)"), 24, "holds another number of bytes"},
    {"nothing: a path for a name", "../../etc/a.npy", HEADER("'<f4'", "False", "(2, 3)"), 24, NULL},
    {"nothing: an absolute path for a name", "/etc/passwd", HEADER("'<f4'", "False", "(2, 3)"), 24, NULL},
    {"nothing: rank 0", "a.npy", HEADER("'<f4'", "False", "()"), 4, NULL},
    {"nothing: no elements", "a.npy", HEADER("'<f4'", "True", "(0, 3)"), 0, NULL},
    {"nothing: an extent of 9 between blanks", "a.npy", HEADER("'|u1'", "False", "( 9 , )"), 9, NULL},
    {"nothing: rank 8", "a.npy", HEADER("'<f4'", "True", "(6,1,1,1,1,1,1,1)"), 24, NULL},
};

/* Names are names and never places: nothing is written wherever they point. */
START_TEST(each_spoiled_member_is_named) {
  for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
    make_archive(members[i].name, members[i].header, members[i].data);
    check(members[i].wrong, members[i].sentence);
  }
}
END_TEST

/* As Python writes it: beyond the most, the end record counts no further. */
static void make_many(size_t count) {
  static struct member m;
  static size_t local[MEMBERS_MOST + 1];
  char name[32];
  make_npy(&m, HEADER("'|u1'", "False", "()"), "x", 1);
  m.name = name;
  archive.size = 0;
  for (size_t i = 0; i < count; i++) {
    snprintf(name, sizeof name, "%05zx.npy", i);
    put_local(&m);
    local[i] = m.local;
  }
  size_t directory = archive.size;
  for (size_t i = 0; i < count; i++) {
    snprintf(name, sizeof name, "%05zx.npy", i);
    m.local = local[i];
    put_central(&m);
  }
  put_end(count < MEMBERS_MOST ? count : MEMBERS_MOST, directory);
}

START_TEST(members_at_their_limit) {
  for (size_t n = MEMBERS_MOST - 1; n <= MEMBERS_MOST + 1; n++) {
    make_many(n);
    check("many members", n > MEMBERS_MOST ? "holds more than it counts, which is 65535 at most" : NULL);
  }
}
END_TEST

START_TEST(names_at_their_limit) {
  char name[NAME_MOST + 2];
  for (size_t n = NAME_MOST - 1; n <= NAME_MOST + 1; n++) {
    memset(name, 'n', n);
    strcpy(name + n - 4, ".npy");
    make_archive(name, HEADER("'<f4'", "False", "(2, 3)"), 24);
    check("a long name", n > NAME_MOST ? "its directory is damaged" : NULL);
  }
}
END_TEST

START_TEST(headers_at_their_limit) {
  static char header[NPY_HEADER_MOST + 2];
  for (int n = NPY_HEADER_MOST - 1; n <= NPY_HEADER_MOST + 1; n++) {
    snprintf(header, sizeof header, "%-*s\n", n - 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
    make_archive("a.npy", header, 24);
    check("a long header", n > NPY_HEADER_MOST ? "header that does not fit into it" : NULL);
  }
}
END_TEST

/* From the limit on, the stated size itself is refused; below it, what is inflated tells. */
START_TEST(ratios_at_their_limit) {
  for (int more = -1; more <= 1; more++) {
    make_right();
    unsigned char *packed = archive.data + archive.at[SECOND] + 20;
    uint64_t size = (uint64_t)RATIO_MOST * (packed[0] + 1u) + (uint64_t)more;
    for (int b = 0; b < 4; b++) packed[4 + b] = (unsigned char)(size >> 8 * b);
    check("a high ratio", more < 0 ? "holds another number of bytes" : "has sizes that do not go together");
  }
}
END_TEST

START_TEST(cut_at_every_byte_it_is_refused) {
  make_right();
  for (size_t cut = 0; cut < archive.size; cut++)
    ck_assert_msg(open_and_read(cut) == AB_EFORMAT, "cut at %zu of %zu: %s", cut, archive.size, ab_status_message());
}
END_TEST

START_TEST(each_version_is_read) {
  for (version = 1; version <= 3; version++) {
    make_right();
    check("a version of .npy", NULL);
  }
  version = 0;
}
END_TEST

START_TEST(the_name_of_a_tensor_is_its_members_without_npy) {
  static const char *const names[][2] = {
      {"a.npy", "a"}, {"params/b.npy", "params/b"}, {".npy", ".npy"}, {"a", "a"}, {"a.npz", "a.npz"}, {"npy", "npy"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct ab_npz *npz;
    make_archive(names[i][0], HEADER("'<f4'", "False", "(2, 3)"), 24);
    ck_ok(ab_file_write(path, archive.data, archive.size));
    ck_ok(ab_npz_open(&npz, path));
    ck_assert_str_eq(ab_npz_at(npz, 0)->name, names[i][1]);
    ab_npz_close(npz);
  }
}
END_TEST

/* What np.savez() writes: an end record and nothing else. */
START_TEST(an_archive_of_nothing_is_one) {
  struct ab_npz *npz;
  archive.size = 0;
  put_end(0, 0);
  ck_ok(ab_file_write(path, archive.data, archive.size));
  ck_ok(ab_npz_open(&npz, path));
  ck_assert_uint_eq(ab_npz_size(npz), 0);
  ab_npz_close(npz);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("hostile_npz");
  TCase *c = tcase_create("npz");
  tcase_set_timeout(c, 120); /* with sanitizers, on a busy machine */
  tcase_add_checked_fixture(c, open_scratch, close_scratch);
  tcase_add_test(c, each_spoiled_record_is_named);
  tcase_add_test(c, each_spoiled_member_is_named);
  tcase_add_test(c, members_at_their_limit);
  tcase_add_test(c, names_at_their_limit);
  tcase_add_test(c, headers_at_their_limit);
  tcase_add_test(c, ratios_at_their_limit);
  tcase_add_test(c, each_version_is_read);
  tcase_add_test(c, the_name_of_a_tensor_is_its_members_without_npy);
  tcase_add_test(c, an_archive_of_nothing_is_one);
  tcase_add_test(c, cut_at_every_byte_it_is_refused);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
