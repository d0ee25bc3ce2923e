/* What a side changes about a run on purpose: things that must not matter (for calibration), or its weights along one
 * direction (for the slope of the loss). Goes from parent to side as one word, "seed=7,ulp,order,blocks=128x512x64".
 */
#pragma once

#include "run.h"

struct ab_shake {
  uint64_t seed;
  bool ulp;                  /* every parameter of every step is moved by -1, 0 or +1 ulp */
  bool order;                /* the microbatches of the batch change places */
  int64_t rows, cols, depth; /* gemm blocks (kernels.h); 0: as they are */
  double slope;              /* parameters of step `at` get slope x d, d a direction of length 1; 0: none */
  int at;
};

enum { AB_SHAKE_TEXT = 160 };
void ab_shake_print(char text[AB_SHAKE_TEXT], const struct ab_shake *shake);
/* AB_ECONFIG for anything that ab_shake_print does not write. */
ab_status ab_shake_parse(struct ab_shake *out, const char *text);

/* A word that depends on all of its arguments alone. */
uint64_t ab_shake_word(uint64_t seed, int layer, const char *name, size_t i);
/* Element i of sqrt(N) d: +1 or -1, so that d has length 1 over N parameters. */
double ab_shake_sign(uint64_t seed, int layer, const char *name, size_t i);

/* Moves float32 values by -1, 0 or +1 ulp each. Zeros and what is not finite stay. */
void ab_shake_ulp(float *values, size_t count, uint64_t seed, int layer, const char *name);
/* The place of microbatch m after a shuffle of `count`: fills place[count], a permutation. */
void ab_shake_order(int *place, int count, uint64_t seed);
/* A side's parameters as they are, moved as `shake` says for `step`. Not during a step (allocates). */
ab_status ab_shake_params(const struct ab_shake *shake, const struct ab_side *side, const struct ab_config *config,
                          const struct ab_kernels *kernels, int step);
/* The batch with its microbatches in another order; *storage is the caller's (ab_mem_free), reused between calls. */
ab_status ab_shake_batch(int32_t **storage, struct ab_batch *batch, const struct ab_shake *shake,
                         const struct ab_config *config);
