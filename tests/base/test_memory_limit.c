#include <stdio.h>
#include <string.h>

#include "file.h"
#include "mem.h"
#include "memory_limit.h"
#include "tap.h"

static char *root;

static void open_root(void) { ck_ok(ab_scratch_new(&root, NULL)); }

static void close_root(void) {
  ck_ok(ab_scratch_remove(root));
  ab_mem_free(root);
}

static void plant(const char *name, const char *text) {
  char path[4096];
  snprintf(path, sizeof path, "%s%s", root, name);
  char *slash = strrchr(path, '/');
  *slash = '\0';
  ck_ok(ab_folder_make(path));
  *slash = '/';
  ck_ok(ab_file_write(path, text, strlen(text)));
}

static void check(uint64_t available, const char *governor) {
  struct ab_memory_limit limit;
  ck_ok(ab_memory_available(&limit, root));
  ck_assert_str_eq(limit.governor, governor);
  ck_assert_uint_eq(limit.available, available);
}

static const char meminfo[] = "MemTotal:       9000 kB\nMemFree:  1 kB\nMemAvailable:    8000 kB\n";

START_TEST(without_groups_meminfo_governs) {
  plant("/proc/meminfo", meminfo);
  check(8000 * 1024, "MemAvailable");
}
END_TEST

START_TEST(a_group_or_one_above_it_governs) {
  plant("/proc/meminfo", meminfo);
  plant("/proc/self/cgroup", "0::/a/b\n");
  plant("/sys/fs/cgroup/a/b/memory.max", "max\n");
  plant("/sys/fs/cgroup/a/memory.max", "5000000\n");
  plant("/sys/fs/cgroup/a/memory.current", "3000000\n");
  check(2000000, "the cgroup limit");
  plant("/sys/fs/cgroup/a/memory.stat", "anon 7\ninactive_file 1000000\n");
  check(3000000, "the cgroup limit");
  plant("/sys/fs/cgroup/a/memory.current", "6000000\n");
  check(0, "the cgroup limit");
}
END_TEST

START_TEST(version_one_governs) {
  plant("/proc/meminfo", meminfo);
  plant("/proc/self/cgroup", "12:cpu,memory:/a\n1:name=systemd:/a\n");
  plant("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  check(8000 * 1024, "MemAvailable");
  plant("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4000000\n");
  plant("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000\n");
  check(3000000, "the cgroup limit");
}
END_TEST

START_TEST(too_much_is_refused_with_both_numbers) {
  plant("/proc/meminfo", meminfo);
  ck_ok(ab_memory_require(8000 * 1024, "the run", root));
  ck_fails(ab_memory_require(8000 * 1024 + 1, "the run", root), AB_ECONFIG,
           "the run needs 8192001 bytes (0.0 GiB) of memory, MemAvailable allows 8192000");
}
END_TEST

START_TEST(nothing_known_is_said) {
  struct ab_memory_limit limit;
  ck_fails(ab_memory_available(&limit, root), AB_ENOTFOUND, "does not say");
}
END_TEST

START_TEST(this_machine_has_a_limit) {
  struct ab_memory_limit limit;
  ck_ok(ab_memory_available(&limit, ""));
  ck_assert_uint_gt(limit.available, 1 << 20);
  ck_assert_uint_lt(limit.available, (uint64_t)1 << 50);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("memory_limit");
  TCase *c = tcase_create("memory_limit");
  tcase_add_checked_fixture(c, open_root, close_root);
  tcase_add_test(c, without_groups_meminfo_governs);
  tcase_add_test(c, a_group_or_one_above_it_governs);
  tcase_add_test(c, version_one_governs);
  tcase_add_test(c, too_much_is_refused_with_both_numbers);
  tcase_add_test(c, nothing_known_is_said);
  tcase_add_test(c, this_machine_has_a_limit);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
