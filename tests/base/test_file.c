#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "file_internal.h"
#include "mem.h"
#include "tap.h"

static char *scratch;

static void open_scratch(void) { ck_ok(ab_scratch_new(&scratch, NULL)); }

static void close_scratch(void) {
  ck_ok(ab_scratch_remove(scratch));
  ck_assert(!ab_folder_exists(scratch));
  ab_mem_free(scratch);
}

/* A path below the scratch folder; good until the fourth call after it. */
static const char *at(const char *name) {
  static char paths[4][4096];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", scratch, name);
  return path;
}

static void plant(const char *name, const char *text) { ck_ok(ab_file_write(at(name), text, strlen(text))); }

static void check_text(const char *path, const char *expected) {
  char *text;
  size_t size;
  ck_ok(ab_file_read(&text, &size, path, 1 << 20));
  ck_assert_uint_eq(size, strlen(expected));
  ck_assert_str_eq(text, expected);
  ab_mem_free(text);
}

/* Raw names, temporary ones included. */
static int count_entries(void) {
  char command[4200];
  int count = -1;
  snprintf(command, sizeof command, "ls -A '%s' | wc -l", scratch);
  FILE *pipe = popen(command, "r");
  ck_assert_int_eq(fscanf(pipe, "%d", &count), 1);
  pclose(pipe);
  return count;
}

START_TEST(a_file_is_read_up_to_the_limit) {
  char *text = NULL;
  size_t size = 7;
  plant("f", "12345");
  ck_ok(ab_file_read(&text, &size, at("f"), 5));
  ck_assert_uint_eq(size, 5);
  ck_assert_str_eq(text, "12345");
  ab_mem_free(text);
  text = NULL;
  ck_fails(ab_file_read(&text, &size, at("f"), 4), AB_EFORMAT, "has 5 bytes, at most 4");
  ck_assert_ptr_null(text);
  ck_ok(ab_file_read(&text, &size, "/proc/self/status", 1 << 20));
  ck_assert_uint_gt(size, 100);
  ab_mem_free(text);
  ck_fails(ab_file_read(&text, &size, "/proc/self/status", 100), AB_EFORMAT, "more than 100 bytes");
}
END_TEST

START_TEST(only_regular_files_are_read_and_nothing_blocks) {
  char *text;
  size_t size;
  ck_assert_int_eq(mkfifo(at("fifo"), 0600), 0);
  ck_fails(ab_file_read(&text, &size, at("fifo"), 10), AB_EIO, "is a FIFO, expected a regular file");
  ck_fails(ab_file_read(&text, &size, scratch, 10), AB_EIO, "is a folder");
  ck_fails(ab_file_read(&text, &size, "/dev/zero", 10), AB_EIO, "is a device");
  ck_fails(ab_file_read(&text, &size, at("none"), 10), AB_ENOTFOUND, "No such file or directory");
  ck_fails(ab_file_read(&text, &size, at("\x1b[2J"), 10), AB_ENOTFOUND, "\\x1b[2J");
}
END_TEST

START_TEST(names_from_data_stay_beneath_the_folder) {
  static const char *const bad[] = {"",   ".", "..",    "../x", "/etc/passwd", "a/../b", "a//b",
                                    "a/", "/", "a/./b", "a\nb", "..\x7f",      "a/.."};
  char *text;
  size_t size;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    ck_fails(ab_file_read_beneath(&text, &size, scratch, bad[i], 10), AB_EFORMAT, "is not a plain name beneath");
  char longest[1025];
  memset(longest, 'x', 1024);
  longest[1024] = '\0';
  ck_fails(ab_file_read_beneath(&text, &size, scratch, longest, 10), AB_EFORMAT, "is not a plain name");
}
END_TEST

/* Both ways of looking beneath: openat2 and the component walk. */
START_TEST(links_are_not_followed_beneath_a_folder) {
  ck_ok(ab_folder_make(at("real/inner")));
  plant("real/inner/f", "x");
  ck_assert_int_eq(symlink("real", at("link")), 0);
  ck_assert_int_eq(symlink("inner/f", at("real/leaf")), 0);
  int folder;
  ck_ok(ab_folder_open(&folder, scratch));
  for (int walk = 0; walk < 2; walk++) {
    int fd = ab_open_beneath(folder, "real/inner/f", O_RDONLY, 0, walk);
    ck_assert_msg(fd >= 0, "walk %d", walk);
    close(fd);
    static const char *const bad[] = {"link/inner/f",   "real/leaf", "real/../real/inner/f", "/etc/passwd", "none/f",
                                      "real/inner/f/g", "../x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
      if (!walk && i == 2) continue; /* openat2 allows it; names are checked before */
      fd = ab_open_beneath(folder, bad[i], O_RDONLY, 0, walk);
      ck_assert_msg(fd < 0, "walk %d opened %s", walk, bad[i]);
      ck_assert_msg(i != 0 || errno == ELOOP, "walk %d takes a link for something else: %d", walk, errno);
    }
  }
  close(folder);
  struct ab_writer *writer = NULL;
  ck_fails(ab_writer_new_beneath(&writer, scratch, "link/new"), AB_EIO, "cannot open the folder");
  ck_ok(ab_writer_new_beneath(&writer, scratch, "real/new"));
  ck_ok(ab_writer_put(writer, "y", 1));
  ck_ok(ab_writer_commit(writer));
  ab_writer_free(writer);
  check_text(at("real/new"), "y");
}
END_TEST

START_TEST(reading_at_an_offset) {
  struct ab_file file;
  char bytes[4] = "";
  plant("f", "0123456789");
  ck_ok(ab_file_open(&file, at("f")));
  ck_assert_uint_eq(file.size, 10);
  ck_ok(ab_file_read_at(&file, bytes, 3, 7));
  ck_assert_str_eq(bytes, "789");
  ck_fails(ab_file_read_at(&file, bytes, 3, 8), AB_EFORMAT, "ends at byte 10");
  ck_fails(ab_file_read_at(&file, bytes, 3, UINT64_MAX - 1), AB_EFORMAT, "has no byte");
  ab_file_close(&file);
}
END_TEST

START_TEST(a_file_appears_only_when_it_is_committed) {
  struct ab_writer *writer;
  plant("f", "old");
  ck_assert_int_eq(chmod(at("f"), 0640), 0);
  ck_ok(ab_writer_new(&writer, at("f")));
  ck_ok(ab_writer_put(writer, "new", 3));
  check_text(at("f"), "old");
  ck_assert_int_eq(count_entries(), 2);
  struct ab_names names;
  ck_ok(ab_folder_list(&names, scratch, 10));
  ck_assert_uint_eq(names.count, 1);
  ab_names_free(&names);
  ab_writer_free(writer);
  check_text(at("f"), "old");
  ck_assert_int_eq(count_entries(), 1);
  plant("f", "newer");
  check_text(at("f"), "newer");
  struct stat about;
  ck_assert_int_eq(stat(at("f"), &about), 0);
  ck_assert_int_eq(about.st_mode & 0777, 0640);
  ck_assert_int_eq(count_entries(), 1);
}
END_TEST

START_TEST(what_cannot_be_written_is_said_and_leaves_nothing) {
  ck_fails(ab_file_write(at("none/f"), "x", 1), AB_ENOTFOUND, "cannot open the folder");
  ck_fails(ab_file_write(scratch, "x", 1), AB_EIO, "not a regular file");
  ck_fails(ab_file_write("/dev/full", "x", 1), AB_EIO, "No space left on device");
  ck_ok(ab_file_write("/dev/null", "x", 1));
  struct stat about;
  ck_assert_int_eq(stat("/dev/null", &about), 0);
  ck_assert(S_ISCHR(about.st_mode));
  ck_assert_int_eq(count_entries(), 0);
}
END_TEST

START_TEST(a_link_that_the_user_names_is_kept) {
  plant("real", "old");
  ck_assert_int_eq(symlink("real", at("link")), 0);
  plant("link", "new");
  check_text(at("real"), "new");
  struct stat about;
  ck_assert_int_eq(lstat(at("link"), &about), 0);
  ck_assert(S_ISLNK(about.st_mode));
}
END_TEST

START_TEST(folders_are_made_listed_and_limited) {
  struct ab_names names;
  ck_ok(ab_folder_make(at("a/b/c")));
  ck_ok(ab_folder_make(at("a/b/c")));
  ck_ok(ab_folder_make(at("a/z/")));
  plant("a/m", "x");
  ck_fails(ab_folder_make(at("a/m/q")), AB_EIO, "File exists");
  ck_fails(ab_folder_make(at("a/m")), AB_EIO, "File exists");
  ck_ok(ab_folder_list(&names, at("a"), 3));
  ck_assert_uint_eq(names.count, 3);
  ck_assert_str_eq(names.name[0], "b");
  ck_assert_str_eq(names.name[1], "m");
  ck_assert_str_eq(names.name[2], "z");
  ab_names_free(&names);
  ck_fails(ab_folder_list(&names, at("a"), 2), AB_EFORMAT, "more than 2 names");
}
END_TEST

START_TEST(only_scratch_folders_are_removed_and_links_not_followed) {
  ck_ok(ab_folder_make(at("keep")));
  plant("keep/f", "x");
  ck_fails(ab_scratch_remove(at("keep")), AB_EIO, "not a scratch folder");
  char *inner;
  ck_ok(ab_scratch_new(&inner, scratch));
  char link[4200];
  snprintf(link, sizeof link, "%s/link", inner);
  ck_assert_int_eq(symlink("../keep", link), 0);
  ck_ok(ab_scratch_remove(inner));
  ck_ok(ab_scratch_remove(inner)); /* nothing left to remove */
  ab_mem_free(inner);
  check_text(at("keep/f"), "x");
}
END_TEST

START_TEST(a_scratch_folder_is_removed_however_deep) {
  char *inner, deep[2000];
  for (int depth = 15; depth < 800; depth += 1 + 10 * (depth > 34)) {
    ck_ok(ab_scratch_new(&inner, scratch));
    int length = snprintf(deep, sizeof deep, "%s", inner);
    for (int i = 0; i < depth; i++) length += snprintf(deep + length, sizeof deep - (size_t)length, "/d");
    ck_ok(ab_folder_make(deep));
    ck_ok(ab_folder_make(strcat(deep, "e")));
    ck_ok(ab_scratch_remove(inner));
    ck_assert(!ab_folder_exists(inner));
    ab_mem_free(inner);
  }
  ck_assert_int_eq(count_entries(), 0);
}
END_TEST

START_TEST(a_sweep_takes_what_dead_writers_left) {
  struct ab_writer *alive;
  char *inner;
  plant("f", "x");
  plant(AB_TEMPORARY_PREFIX "1-1", "dead");
  ck_ok(ab_writer_new(&alive, at("g"))); /* sweeps where it writes */
  ck_assert_int_eq(count_entries(), 2);
  plant(AB_TEMPORARY_PREFIX "1-1", "dead");
  ck_assert_int_eq(mkdir(at(AB_TEMPORARY_PREFIX "d-dead"), 0700), 0);
  plant(AB_TEMPORARY_PREFIX "d-dead/half", "dead");
  ck_assert_int_eq(mkdir(at(AB_TEMPORARY_PREFIX "other"), 0700), 0);
  ck_ok(ab_scratch_new(&inner, scratch));
  ck_assert_int_eq(count_entries(), 5); /* f, the writer's, other, inner and its lock */
  ck_ok(ab_folder_sweep(scratch));
  ck_assert_int_eq(count_entries(), 5);
  ck_ok(ab_scratch_remove(inner));
  ab_mem_free(inner);
  ck_assert_int_eq(rmdir(at(AB_TEMPORARY_PREFIX "other")), 0);
  ck_ok(ab_writer_put(alive, "y", 1));
  ck_ok(ab_writer_commit(alive));
  ab_writer_free(alive);
  check_text(at("g"), "y");
}
END_TEST

/* Sweeps of another process, again and again until it is killed. */
static pid_t sweep_forever(void) {
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  while (child == 0) (void)ab_folder_sweep(scratch);
  return child;
}

START_TEST(what_is_put_in_place_during_a_sweep_stays) {
  enum { TIMES = 300 };
  pid_t child = sweep_forever();
  int lost = 0;
  for (int i = 0; i < TIMES; i++) {
    char *folder, file[4200];
    ck_ok(ab_scratch_beside(&folder, at("case")));
    snprintf(file, sizeof file, "%s/f", folder);
    ck_ok(ab_file_write(file, "x", 1));
    ck_ok(ab_scratch_place(folder, at("case")));
    lost += !ab_file_exists(at("case/f"));
    unlink(at("case/f"));
    ck_assert_int_eq(rmdir(at("case")), 0);
    ab_mem_free(folder);
  }
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  ck_assert_int_eq(lost, 0);
}
END_TEST

START_TEST(bare_names_are_written_in_the_current_folder) {
  char before[4096];
  ck_assert_ptr_nonnull(getcwd(before, sizeof before));
  ck_assert_int_eq(chdir(scratch), 0);
  ab_status status = ab_file_write("bare", "x", 1);
  ck_assert_int_eq(chdir(before), 0);
  ck_ok(status);
  check_text(at("bare"), "x");
}
END_TEST

START_TEST(whether_it_can_be_written_is_said_before) {
  plant("f", "old");
  ck_assert_int_eq(symlink("f", at("link")), 0);
  ck_assert_int_eq(symlink("none", at("dead")), 0);
  ck_assert_int_eq(mkfifo(at("fifo"), 0600), 0);
  ck_ok(ab_file_check_write(at("f")));
  ck_ok(ab_file_check_write(at("new")));
  ck_ok(ab_file_check_write(at("link")));
  ck_ok(ab_file_check_write(at("fifo"))); /* nobody reads it yet */
  ck_ok(ab_file_check_write("/dev/full"));
  ck_fails(ab_file_check_write(scratch), AB_EIO, "not a regular file");
  ck_fails(ab_file_check_write(""), AB_EIO, "names a folder, expected a file");
  ck_fails(ab_file_check_write(at("none/f")), AB_ENOTFOUND, "cannot open the folder");
  ck_fails(ab_file_check_write(at("dead")), AB_ENOTFOUND, "cannot follow the link");
  ck_fails(ab_file_check_write("/dev/null/f"), AB_ENOTFOUND, "cannot write");
  ck_ok(ab_file_check_replace(at("f")));
  ck_ok(ab_file_check_replace(at("new")));
  ck_fails(ab_file_check_replace(at("link")), AB_EIO, "not a regular file");
  check_text(at("f"), "old");
  ck_assert_int_eq(count_entries(), 4);
}
END_TEST

static bool same(const char *a, const char *b) {
  bool out;
  ck_ok(ab_file_same(&out, a, b));
  return out;
}

START_TEST(a_file_is_the_same_by_whatever_path) {
  plant("f", "x");
  plant("g", "x");
  ck_ok(ab_folder_make(at("real")));
  ck_assert_int_eq(symlink("f", at("link")), 0);
  ck_assert_int_eq(symlink("real", at("other")), 0);
  ck_assert_int_eq(link(at("f"), at("hard")), 0);
  ck_assert(same(at("f"), at("link")) && same(at("f"), at("hard")) && same(at("f"), at("real/../f")));
  ck_assert(same(at("real"), at("other/")) && same(at("real/new"), at("other//new")));
  ck_assert(!same(at("f"), at("g")) && !same(at("real/new"), at("new")) && !same(at("real/new"), at("real/old")));
  ck_assert(!same(at("real"), at("real/new")) && !same(at("none/f"), at("none/f")));
  ck_assert(!same("/dev/null", "/dev/null"));
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("file");
  TCase *c = tcase_create("file");
  tcase_add_checked_fixture(c, open_scratch, close_scratch);
  tcase_add_test(c, a_file_is_read_up_to_the_limit);
  tcase_add_test(c, only_regular_files_are_read_and_nothing_blocks);
  tcase_add_test(c, names_from_data_stay_beneath_the_folder);
  tcase_add_test(c, links_are_not_followed_beneath_a_folder);
  tcase_add_test(c, reading_at_an_offset);
  tcase_add_test(c, a_file_appears_only_when_it_is_committed);
  tcase_add_test(c, what_cannot_be_written_is_said_and_leaves_nothing);
  tcase_add_test(c, a_link_that_the_user_names_is_kept);
  tcase_add_test(c, folders_are_made_listed_and_limited);
  tcase_add_test(c, only_scratch_folders_are_removed_and_links_not_followed);
  tcase_add_test(c, a_scratch_folder_is_removed_however_deep);
  tcase_add_test(c, a_sweep_takes_what_dead_writers_left);
  tcase_add_test(c, what_is_put_in_place_during_a_sweep_stays);
  tcase_add_test(c, bare_names_are_written_in_the_current_folder);
  tcase_add_test(c, whether_it_can_be_written_is_said_before);
  tcase_add_test(c, a_file_is_the_same_by_whatever_path);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
