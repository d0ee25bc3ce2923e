/* Generated cases: a pipeline's keys, and weights and a batch that follow from a seed. */
#pragma once

#include "request.h"

enum { SWEEP_KEYS = 48, SWEEP_COMMAND = 2048 };

/* Values of a case, by what the arithmetic can hold. */
enum sweep_fill {
  SWEEP_RESIDUES,       /* integers of 24 bits: residues of products have no structure left */
  SWEEP_SMALL_INTEGERS, /* so small that every sum is below 2^24: exact in float32 too, in any order */
  SWEEP_NORMAL          /* MaxText's initial values, normal activations */
};

struct sweep_case {
  uint64_t seed; /* of the values */
  char text[SWEEP_KEYS][64];
  const char *key[SWEEP_KEYS]; /* "name=value" */
  size_t keys;
  struct ab_case opened;
};

/* A number from a seeded sequence (splitmix64); below: in [0, n). */
uint64_t sweep_word(uint64_t *state);
int64_t sweep_below(uint64_t *state, int64_t n);
double sweep_unit(uint64_t *state); /* [0, 1) */

void sweep_key(struct sweep_case *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The keys of an S x M x R x K pipeline with `rows` rows per microbatch of `length` tokens. */
void sweep_pipeline(struct sweep_case *c, int64_t S, int64_t M, int64_t R, int64_t K, int64_t rows, int64_t length);

/* Loads the config and draws a bundle in memory: of kind train, or of kind engine with this loss. */
ab_status sweep_open(struct sweep_case *c, enum sweep_fill fill, enum ab_loss_kind loss);
void sweep_close(struct sweep_case *c);
/* "<program> <seed> key=value ...": runs this case alone. */
void sweep_command(char text[SWEEP_COMMAND], const struct sweep_case *c, const char *program);
/* The case of such a command line. */
void sweep_parse(struct sweep_case *c, int argc, char **argv);
