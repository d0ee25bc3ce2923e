/* Routes run on a generated case, and compared. */
#pragma once

#include "generate.h"
#include "recording.h"
#include "run.h"
#include "verdict.h"

/* What one side observed, with all values. */
struct sweep_side {
  struct ab_recording *recording;
  unsigned char *bytes; /* all values, one after another; NULL below level VALUES */
  size_t used, room;
  size_t *offset; /* by row of the recording, plus 1; 0: none */
  size_t rows;
};

/* What is put between the side and the world; NULL members: nothing. */
struct sweep_hooks {
  const struct ab_kernels *kernels;
  const struct ab_mesh_ops *mesh;
  int64_t cotangent_parts;
};

/* One step. Of an engine, what it says that it keeps and computes again must be what config and block table ask for. */
ab_status sweep_run(struct sweep_side *out, const struct sweep_case *c, const char *route, enum ab_numerics numerics,
                    enum ab_level level, const struct sweep_hooks *hooks);
void sweep_side_free(struct sweep_side *side);
/* The values of one observation; false when they were not kept. Borrowed. */
bool sweep_value(struct ab_view *out, const struct sweep_side *side, const struct ab_identity *id);

/* a against b. pair SAME: every tensor and metric, bit for bit; F64: what leaves the modules, and the gradients, within
 * the table's bound. All that both owe each other is expected. An empty sentence: equal. */
enum { SWEEP_SENTENCE = 1024 };
ab_status sweep_compare(char sentence[SWEEP_SENTENCE], const struct sweep_case *c, const struct sweep_side *a,
                        const struct sweep_side *b, enum ab_pair pair);
/* A side in floating point whose values are integers, against one in residues: every tensor. */
ab_status sweep_compare_integers(char sentence[SWEEP_SENTENCE], const struct sweep_side *a, const struct sweep_side *b);
