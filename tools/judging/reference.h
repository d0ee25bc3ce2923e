/* Judging a side against a bundle's numbers: both restacked into the bundle's layout, leaf by leaf. */
#pragma once

#include "bounds.h"
#include "request.h"
#include "sides.h"

struct ab_reference;

/* Reads the results of the case's bundle. Codes as ab_bundle_expect's. c is borrowed. */
ab_status ab_reference_open(struct ab_reference **out, const struct ab_case *c);
/* Accepts NULL. */
void ab_reference_close(struct ab_reference *reference);
/* Files, keys and metrics of the bundle that nobody needed. */
size_t ab_reference_ignored(const struct ab_reference *reference);
/* Whether the default is judged by the bundle's *_sequential numbers, since a defect of the real code shows in the
 * others. */
bool ab_reference_as_meant(const struct ab_reference *reference);
/* The verdict borrows names from the reference. May be called once per side. */
/* What ab_reference_judge judges; borrows the reference. Each side once, by either of the two. */
ab_status ab_reference_comparison(struct ab_comparison *out, struct ab_reference *reference,
                                  const struct ab_side_result *side);
ab_status ab_reference_judge(struct ab_verdict *out, struct ab_reference *reference, const struct ab_side_result *side);

/* What a side produced, as trees in the bundle's layout. Owned by the caller: ab_produced_free. */
struct ab_produced {
  struct ab_tree *grads, *params_final, *params_step1, *outputs;
};
ab_status ab_produced_new(struct ab_produced *out, const struct ab_case *c, const struct ab_layout *layout,
                          const struct ab_side_result *side);
void ab_produced_free(struct ab_produced *produced);
