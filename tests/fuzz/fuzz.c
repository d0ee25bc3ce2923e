#include "fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "file.h"
#include "mem.h"
#include "text.h"

void fuzz_check(bool holds, const char *sentence) {
  if (holds) return;
  fprintf(stderr, "fuzz: %s (last sentence: \"%s\")\n", sentence, ab_status_message());
  abort();
}

bool fuzz_read(ab_status status) {
  static const ab_status refusals[] = {AB_EFORMAT, AB_ECONFIG, AB_EMISMATCH, AB_ESHAPE, AB_ENOTFOUND, AB_ECOMM};
  bool refused = false;
  if (status == AB_OK) return true;
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) refused |= status == refusals[i];
  fuzz_check(refused, "bad input ended in a code that is not for bad input");
  fuzz_check(ab_status_message()[0] != '\0', "a refusal has no sentence");
  fuzz_check(ab_text_is_printable(ab_status_message()), "a sentence is not one line of printable UTF-8");
  ab_status_clear();
  return false;
}

size_t fuzz_begin(void) {
  ab_status_clear();
  return ab_mem_stats().live_blocks;
}

void fuzz_end(size_t live) { fuzz_check(ab_mem_stats().live_blocks == live, "memory is left behind"); }

static char place[4096];

static void remove_place(void) {
  ab_scratch_remove(place);
  ab_status_clear();
}

static void make_place(void) {
  char *folder;
  fuzz_check(ab_scratch_new(&folder, NULL) == AB_OK, "no folder can be made");
  snprintf(place, sizeof place, "%s", folder);
  ab_mem_free(folder);
  atexit(remove_place);
}

const char *fuzz_place(const char *name, const void *data, size_t size) {
  char path[sizeof place + 256];
  if (!place[0]) make_place();
  snprintf(path, sizeof path, "%s/%s", place, name);
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) {
    *strrchr(path, '/') = '\0';
    fuzz_check(ab_folder_make(path) == AB_OK, "no folder can be made");
    path[strlen(path)] = '/';
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  }
  bool written = fd >= 0 && ftruncate(fd, (off_t)size) == 0 && (size == 0 || pwrite(fd, data, size, 0) == (ssize_t)size);
  fuzz_check(written && close(fd) == 0, "the input could not be written to a file");
  return place;
}

const char *fuzz_file(const void *data, size_t size) {
  static char path[64];
  static int fd = -1;
  if (fd < 0) {
    fd = memfd_create("fuzz", MFD_CLOEXEC);
    fuzz_check(fd >= 0, "memfd_create failed");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  }
  bool written = ftruncate(fd, 0) == 0 && (size == 0 || pwrite(fd, data, size, 0) == (ssize_t)size);
  fuzz_check(written, "the input could not be written to memory");
  return path;
}
