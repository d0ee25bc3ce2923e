/* What a wrong tensor *is*: a table of known mistakes, each verified by arithmetic before it is said.
 *
 * Three mechanisms. Digests: a tensor that is bitwise another known one is named after it. Fits: a wrong tensor is
 * written as a sum of known ones - the truth, and its parts per microbatch - and what remains must be noise. What-if
 * passes: the oracle has run the same step with one thing changed (the weights of another layer, the positions of
 * microbatch 0 ...); a pass that reproduces the wrong tensor bit for bit is the explanation.
 *
 * "Noise" is a relative L2 of AB_EXPLAIN_NOISE, or AB_EXPLAIN_FACTOR times what the truth's own sum of parts leaves.
 */
#pragma once

#include "verdict.h"

#define AB_EXPLAIN_NOISE 4e-6
#define AB_EXPLAIN_FACTOR 16.0

enum { AB_EXPLAIN_SIDES = 3, AB_EXPLAIN_LINES = 8, AB_EXPLAIN_TEXT = 400, AB_EXPLAIN_ID = 40, AB_EXPLAIN_PARTS = 32 };

/* One answer. id is of a fixed vocabulary (ab_explain_rows), or "none". */
struct ab_explained_line {
  char id[AB_EXPLAIN_ID];
  char side[64];          /* whose tensor */
  struct ab_identity of;
  bool metric;
  bool complete;          /* a pass with this mistake reproduces every wrong tensor of the step */
  char text[AB_EXPLAIN_TEXT]; /* "is the truth times 0.25 (= 1/M); residual 3e-08" */
};
struct ab_explained_list {
  struct ab_explained_line line[AB_EXPLAIN_LINES]; /* what does not fit in is left out */
  size_t lines;
};

/* A number of the config by which a factor is named: "1/M". */
struct ab_explain_number {
  const char *name;
  double value;
};

/* What one pass of the oracle had changed. */
struct ab_what_if {
  const char *id;     /* the explanation it stands for where it is the wrong tensor itself */
  int part;           /* the microbatch whose contribution alone it is; -1: a changed whole */
  char sentence[160]; /* "the weights of layer 2 are those of layer 0 (repeat 0, expected 1)" */
};

/* The optimizer's numbers; rate is the learning rate of a step. AdamW (decay decoupled) or plain SGD (adam false). */
struct ab_explain_update {
  bool known, adam;
  double b1, b2, epsilon, decay, clip; /* clip 0: none */
  double (*rate)(const void *ctx, int64_t step);
  const void *ctx;
};

struct ab_explain {
  const struct ab_recording *got, *truth; /* the wrong side, and what it is held to */
  const struct ab_recording *passes;      /* step p: what_if[p]; NULL: none were run */
  const struct ab_what_if *what_if;
  size_t what_ifs;
  ab_values_fn values;                    /* side 0 got, 1 truth, 2 passes; AB_ENOTFOUND: not kept */
  void *ctx;
  const struct ab_explain_number *number; /* those that are 1 are left out by the caller */
  size_t numbers;
  int layers, layers_per_stage, stages;   /* layer (r S + s) K + k; stages 1: no pipeline */
  struct ab_explain_update update;
};

/* Adds what is found about one finding of the verdict got against truth: every row that fits, or one line "none" that
 * says what was tried. A finding that the list already tells of is not told again. */
ab_status ab_explain(struct ab_explained_list *out, const struct ab_explain *question,
                     const struct ab_finding *finding);

/* The vocabulary, NULL at the end. */
extern const char *const ab_explain_vocabulary[];
