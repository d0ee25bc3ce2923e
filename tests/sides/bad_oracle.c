/* Makes a tool in which one route is run by another program: $ENGINE_ROUTE by $ENGINE_BIN, with the side's own words. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "side_mode.h"

int __real_ab_side_main(const struct ab_request *request);
int __wrap_ab_side_main(const struct ab_request *request);

enum { BYTES = 65536, WORDS = 256 };

static void become(const char *program) {
  static char bytes[BYTES];
  char *words[WORDS] = {NULL};
  int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  ssize_t size = read(fd, bytes, sizeof bytes - 1);
  size_t count = 0;
  for (char *at = bytes; at < bytes + size && count < WORDS - 1; at += strlen(at) + 1) words[count++] = at;
  execv(program, words);
  abort();
}

int __wrap_ab_side_main(const struct ab_request *request) {
  const char *route = getenv("ENGINE_ROUTE"), *program = getenv("ENGINE_BIN");
  if (route && program && strcmp(request->side, route) == 0) become(program);
  return __real_ab_side_main(request);
}
