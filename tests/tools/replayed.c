/* Makes a tool whose sides are computed once and replayed afterwards, byte for byte: AB_REPLAY=DIR keeps what each side
 * streamed and its values under the words of its command line. For sweeps over what the parent does. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "side_mode.h"

int __real_ab_side_main(const struct ab_request *request);
int __wrap_ab_side_main(const struct ab_request *request);

enum { PATH = 4096, ASIDE = 30 };

static bool copy(int from, int to) {
  char bytes[65536];
  ssize_t count;
  while ((count = read(from, bytes, sizeof bytes)) > 0)
    for (ssize_t done = 0, put; done < count; done += put)
      if ((put = write(to, bytes + done, (size_t)(count - done))) <= 0) return false;
  return count == 0;
}

static bool copy_file(const char *from, const char *to, int to_fd) {
  int in = open(from, O_RDONLY | O_CLOEXEC);
  int out = to ? open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : to_fd;
  bool well = in >= 0 && out >= 0 && copy(in, out);
  if (in >= 0) close(in);
  if (to && out >= 0) close(out);
  return well;
}

/* Of the command line without the paths in the scratch folder, which has another name each time. */
static unsigned long long key(void) {
  static char words[65536];
  int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  ssize_t size = fd < 0 ? -1 : read(fd, words, sizeof words);
  if (size <= 0) abort();
  close(fd);
  XXH64_hash_t hash = 0;
  for (const char *at = words; at < words + size; at += strlen(at) + 1)
    if (!strstr(at, "/.ab-tmp-")) hash = XXH3_64bits_withSeed(at, strlen(at) + 1, hash);
  return hash;
}

static int compute(const struct ab_request *request, const char *stream, const char *values) {
  char part[PATH + 32];
  snprintf(part, sizeof part, "%s.%ld", stream, (long)getpid());
  int fd = open(part, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || dup2(AB_SIDE_FD, ASIDE) < 0 || dup2(fd, AB_SIDE_FD) < 0) abort();
  int code = __real_ab_side_main(request);
  if (lseek(fd, 0, SEEK_SET) != 0 || !copy(fd, ASIDE)) return code;
  if (code) unlink(part);
  else if (request->side_values && !copy_file(request->side_values, values, -1)) abort();
  else rename(part, stream);
  return code;
}

int __wrap_ab_side_main(const struct ab_request *request) {
  const char *folder = getenv("AB_REPLAY");
  char stream[PATH], values[PATH];
  if (!folder || !*folder) return __real_ab_side_main(request);
  snprintf(stream, sizeof stream, "%s/%016llx.stream", folder, key());
  snprintf(values, sizeof values, "%s/%016llx.values", folder, key());
  if (access(stream, R_OK) != 0) return compute(request, stream, values);
  if (request->side_values && !copy_file(values, request->side_values, -1)) return 3;
  return copy_file(stream, NULL, AB_SIDE_FD) ? 0 : 3;
}
