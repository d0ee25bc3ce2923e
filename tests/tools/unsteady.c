/* Makes an ab_golden whose runs go wrong, by other initial weights: AB_WRONG=ROUTE in the sides of that route;
 * AB_UNSTEADY=FILE in every side from the second one of route linen on, which the file counts. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init.h"
#include "side_mode.h"

ab_status __real_ab_init_weights(const struct ab_side *side, const struct ab_config *config,
                                 const struct ab_kernels *kernels);
ab_status __wrap_ab_init_weights(const struct ab_side *side, const struct ab_config *config,
                                 const struct ab_kernels *kernels);
int __real_ab_side_main(const struct ab_request *request);
int __wrap_ab_side_main(const struct ab_request *request);

static bool others;

static off_t count(const char *path, bool more) {
  struct stat about = {0};
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (fd < 0 || (more && write(fd, "x", 1) != 1) || fstat(fd, &about) != 0) abort();
  close(fd);
  return about.st_size;
}

int __wrap_ab_side_main(const struct ab_request *request) {
  const char *wrong = getenv("AB_WRONG"), *file = getenv("AB_UNSTEADY");
  others = wrong && strcmp(request->side, wrong) == 0;
  if (file) others = count(file, strcmp(request->side, "linen") == 0) > 1;
  return __real_ab_side_main(request);
}

ab_status __wrap_ab_init_weights(const struct ab_side *side, const struct ab_config *config,
                                 const struct ab_kernels *kernels) {
  struct ab_config moved = *config;
  moved.init_weights_seed += others;
  return __real_ab_init_weights(side, &moved, kernels);
}
