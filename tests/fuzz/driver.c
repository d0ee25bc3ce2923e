/* Runs a target without libFuzzer: first over every file of the folders, then over a fixed number of mutations of them,
 * the same ones at every run. A crash leaves its input in $AB_BUILD_ROOT/crash-<target>: mend it, and keep the file in
 * tests/corpora/found/<target>/, where this program finds it again.
 *
 *   driver TARGET RUNS FOLDER...   the first folder holds what was found once and may be empty; others may not
 *   driver TARGET 0 FILE           one file alone
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"
#include "fuzz.h"
#include "mem.h"
#include "mutate.h"

enum { MOST_FILES = 4000, MOST_BYTES = 1 << 20 };

static struct mutate_input files[MOST_FILES];
static size_t file_count;
static struct {
  char path[4096];
  const uint8_t *data;
  size_t size;
} current;

/* Only calls that a signal allows. */
static void keep_input(int number) {
  int fd = open(current.path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd >= 0 && write(fd, current.data, current.size) == (ssize_t)current.size) close(fd);
  signal(number, SIG_DFL);
  raise(number);
}

/* In a block of its own size, so that reading past its end is seen. */
static void run(const uint8_t *data, size_t size) {
  uint8_t *copy = malloc(size ? size : 1);
  fuzz_check(copy != NULL, "no memory for an input");
  if (size) memcpy(copy, data, size);
  current.data = copy;
  current.size = size;
  LLVMFuzzerTestOneInput(copy, size);
  free(copy);
}

static bool add_file(const char *path) {
  char *text;
  size_t size;
  if (file_count == MOST_FILES || ab_file_read(&text, &size, path, MOST_BYTES) != AB_OK) return false;
  uint8_t *copy = malloc(size ? size : 1);
  if (copy) memcpy(copy, text, size);
  ab_mem_free(text);
  files[file_count++] = (struct mutate_input){copy, size};
  return copy != NULL;
}

static bool add_folder(const char *folder, bool may_be_empty) {
  struct ab_names names;
  char path[8192];
  size_t before = file_count;
  if (ab_folder_list(&names, folder, MOST_FILES) != AB_OK) return false;
  bool all = true;
  for (size_t i = 0; i < names.count; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names.name[i]);
    if (names.name[i][0] != '.') all &= add_file(path);
  }
  ab_names_free(&names);
  return all && (may_be_empty || file_count > before);
}

static void run_mutations(unsigned long runs) {
  static uint8_t changed[MUTATE_ROOM];
  struct mutate_state state;
  mutate_start(&state, files, file_count);
  for (unsigned long i = 0; i < runs; i++) run(changed, mutate_next(&state, changed));
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  const char *build = getenv("AB_BUILD_ROOT");
  unsigned long runs = strtoul(argv[2], NULL, 10);
  struct stat about;
  snprintf(current.path, sizeof current.path, "%s/crash-%s", build ? build : ".", argv[1]);
  signal(SIGABRT, keep_input);
#if !defined(__SANITIZE_ADDRESS__)
  signal(SIGSEGV, keep_input);
  signal(SIGFPE, keep_input);
#endif
  bool there = true, alone = stat(argv[3], &about) == 0 && S_ISREG(about.st_mode);
  for (int i = 3; i < argc; i++) there &= alone ? add_file(argv[i]) : add_folder(argv[i], i == 3);
  printf("1..2\n%sok 1 - %s: %d folders of inputs are there: %s\n", there ? "" : "not ", argv[1], argc - 3,
         there ? "yes" : ab_status_message());
  for (size_t i = 0; i < file_count; i++) run(files[i].data, files[i].size);
  run_mutations(file_count ? runs : 0);
  printf("ok 2 - %s: %zu files and %lu mutations\n", argv[1], file_count, runs);
  return there ? 0 : 1;
}
