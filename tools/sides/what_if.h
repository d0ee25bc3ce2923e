/* What-if passes: the oracle runs one step again and again, each time with one thing changed, to see whether that is
 * what a wrong side did. Parent and side make the same list from the same case and words.
 */
#pragma once

#include "explain.h"
#include "request.h"
#include "run.h"

enum ab_change_kind {
  AB_IF_PART,           /* the contribution of microbatch x alone */
  AB_IF_WITHOUT,        /* everything but microbatch x */
  AB_IF_LAYER,          /* layer x has the weights of layer y */
  AB_IF_REPEAT,         /* every repeat has the weights of repeat x */
  AB_IF_STAGES,         /* stages x and y have each other's weights */
  AB_IF_TRANSPOSED,     /* parameter y / AB_PARAM_RANK of layer x, cut in two before axis y % AB_PARAM_RANK */
  AB_IF_POSITIONS,      /* every microbatch has the positions of microbatch x */
  AB_IF_SEGMENTS,       /* every microbatch has the segments of microbatch x */
  AB_IF_NO_SEGMENTS,    /* one segment everywhere */
  AB_IF_LABELS,         /* every microbatch has the labels of microbatch x */
  AB_IF_LABELS_SHIFTED, /* labels one place on, the last ones 0 (x 0), repeated (x 1) or of the next row (x 2) */
  AB_IF_LABELS_TURNED,  /* every microbatch has the labels of the x-th after it */
  AB_IF_LABELS_INPUTS,  /* labels are the inputs: not shifted at all */
  AB_IF_NO_Z_LOSS,      /* the loss is the cross entropy alone */
  AB_IF_NUDGED          /* array x (ab_nudged) has other values in a few places of every row; x -1: nothing changes */
};

struct ab_what_if_pass {
  enum ab_change_kind kind;
  int x, y;
};

enum { AB_WHAT_IF_MOST = 96, AB_WHAT_IF_WORDS = 64 };

struct ab_what_if_plan {
  int step, layer;
  size_t passes;
  struct ab_what_if_pass pass[AB_WHAT_IF_MOST];
  struct ab_what_if what[AB_WHAT_IF_MOST];
};

/* Instead of a question: the first step as it is, and with each array changed. `what` holds the arrays' names. */
#define AB_WHAT_IF_NUDGE "0:-1:nudge"
/* The integer arrays of a batch, or of activations; NULL ends the list. */
extern const char *const ab_nudged_of_batch[], *const ab_nudged_of_activations[];

/* "STEP:LAYER:forward": what is asked about. */
void ab_what_if_words(char words[AB_WHAT_IF_WORDS], const struct ab_identity *first);
/* AB_ECONFIG for other words. */
ab_status ab_what_if_plan(struct ab_what_if_plan *out, const struct ab_case *c, const char *words);

/* The side's end: what a run of `plan` passes calls. */
struct ab_doctor;
ab_status ab_doctor_new(struct ab_doctor **out, const struct ab_what_if_plan *plan, const struct ab_case *c);
/* Accepts NULL. */
void ab_doctor_free(struct ab_doctor *doctor);
/* Keeps the side's weights at pass 0, and sets those of the pass from them. */
ab_status ab_doctor_weights(struct ab_doctor *doctor, const struct ab_side *side, const struct ab_kernels *kernels,
                            int pass);
ab_status ab_doctor_inputs(struct ab_doctor *doctor, struct ab_pass_inputs *inputs, int pass);
