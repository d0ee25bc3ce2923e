/* What this run cannot see: the trigger matrix (which faults need which config and batch), and inputs that nothing
 * depends on. The triggers are those of real bugs; S.. and B.. name them in docs/verdict.md.
 */
#pragma once

#include "request.h"
#include "teeth.h"

/* What a batch is made of, over all steps that have one of their own. */
struct ab_batch_facts {
  bool train;                    /* a token batch; else activations with positions and segments */
  int64_t microbatches, rows, length;
  bool counts_differ;            /* valid tokens of two microbatches of one step */
  bool any_valid;
  int most_segments;             /* in one row */
  bool boundaries_differ;        /* segments of two microbatches */
  bool positions_differ;         /* of two rows */
  int32_t last_position;
  bool microbatches_differ;      /* no two microbatches of a step hold the same tokens */
  bool repeated_tokens;          /* one token twice in a row of the embedding */
  bool one_segment;              /* the same segment id everywhere */
};
/* Of one step; further steps are joined by ab_batch_facts_join. AB_ENOMEM, never a guess. */
ab_status ab_batch_facts_of(struct ab_batch_facts *out, const struct ab_batch *batch, int64_t microbatches);
ab_status ab_activation_facts_of(struct ab_batch_facts *out, const struct ab_activations *given, int64_t rows,
                                 int64_t length, int64_t microbatches);
void ab_batch_facts_join(struct ab_batch_facts *facts, const struct ab_batch_facts *other);

struct ab_run_facts {
  const struct ab_config *config;
  struct ab_batch_facts batch;
  int64_t steps;
  int64_t clipped, unclipped; /* steps whose gradient norm was above the threshold, and not */
};

enum { AB_TRIGGERS = 25 };
/* The rows that the run lacks, in the matrix's order. */
void ab_blind_of(struct ab_teeth *out, const struct ab_run_facts *facts);
const char *ab_trigger_name(size_t row);

/* From the recording of a side and the batch: gradients that are 0 in every step, inputs that are the same everywhere,
 * and what the block does not read. */
void ab_unobserved_of(struct ab_teeth *out, const struct ab_run_facts *facts, const struct ab_recording *recording);

/* Opens the batch of a case and counts. */
ab_status ab_run_facts_of(struct ab_run_facts *out, const struct ab_case *c, const struct ab_recording *recording);
