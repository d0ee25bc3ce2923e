/* Sides of a case in this process, recorded, with something put in their way; and their verdict. */
#pragma once

#include <stdio.h>

#include "expectation.h"
#include "recording.h"
#include "run.h"
#include "verdict.h"

/* name: a folder of tests/fixtures/reference, or a file of tests/fixtures/faults ending in .yml. At most two steps. */
void side_case_open(struct ab_case *out, const char *name);

/* The same with overrides, NULL at the end. */
void side_case_open_with(struct ab_case *out, const char *name, const char *const *overrides);

/* What is between a side and the world; NULL in a member: nothing. */
struct side_hooks {
  const struct ab_kernels *kernels;
  const struct ab_mesh_ops *mesh;
  ab_status (*loaded)(void *ctx, const struct ab_side *side, const struct ab_kernels *kernels);
  bool (*hides)(const struct ab_identity *id); /* an observation that never arrives */
  FILE *values;                                /* where what is kept (kept.h) goes */
};

/* Runs the route in float32; AB_OK, or what the run failed with. The recording is the caller's. */
ab_status side_run(struct ab_recording **out, const struct ab_case *c, const struct ab_route *route,
                   const struct side_hooks *hooks);
const struct ab_route *side_route(const char *name);

/* a against b, whose order is the execution order; everything that both owe each other is expected. */
struct ab_verdict side_verdict(const struct ab_recording *a, const struct ab_recording *b, const struct ab_case *c);
