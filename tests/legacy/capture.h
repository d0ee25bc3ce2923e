/* Keeps what a side reports: counters, and the values of chosen tensors. */
#pragma once

#include "probe.h"

struct capture_counter {
  char name[AB_NAME_MAX];
  struct ab_identity id;
  struct ab_where at;
  int64_t amount;
};
struct capture_tensor {
  struct ab_identity id;
  struct ab_where at;
  size_t count;
  size_t bytes;
  void *values; /* NULL where only the summary was wanted */
  uint64_t digest;
};
struct capture {
  struct ab_probe *probe;
  struct capture_counter *counter;
  size_t counters, counter_room;
  struct capture_tensor *tensor;
  size_t tensors, tensor_room;
  const char *prefix; /* values of tensors whose name starts so are kept */
};

void capture_new(struct capture *capture, enum ab_level level, int stages, const char *prefix);
void capture_free(struct capture *capture);
/* The amounts of a counter, summed. */
int64_t capture_total(const struct capture *capture, const char *name);
/* Fails the test unless every recomputed tensor has the digest of its forward one. How many there are. */
int capture_check_recomputed(const struct capture *capture);
/* The values of a tensor after an iteration; fails the test when there are none. */
const struct capture_tensor *capture_find(const struct capture *capture, const char *name, int iteration);
