/* What has to be compared, from config and parameter tables alone: never from a stream. */
#pragma once

#include "golden.h"
#include "request.h"
#include "verdict.h"

/* What two trained (or, for bundles of kind engine, differentiated) sides owe each other over all steps of a case. */
ab_status ab_expect_sides(struct ab_expected *out, const struct ab_case *c);
/* What exact sides owe otherwise: their loss is a tensor, and their layers sow nothing. */
void ab_expect_exact(struct ab_expected *e, const struct ab_case *c);
/* What a side owes the float64 oracle, which differentiates each step at the side's own parameters. */
ab_status ab_expect_truth(struct ab_expected *out, const struct ab_case *c);
/* What a golden of this selection holds: metrics, gradients, parameters, and what enters and leaves the pipeline. */
ab_status ab_expect_golden(struct ab_expected *out, const struct ab_case *c, enum ab_selection selection);

/* Executed cells of an engine: the sum of "execute" and, per pipeline cell, every (repeat, stage) M times per step.
 * AB_EMISMATCH names the first count that is not what the config asks for. */
ab_status ab_check_executions(const struct ab_recording *recording, const struct ab_case *c);
/* Weight fetches of an engine with pipeline_fsdp_ag_once or pipeline_fsdp_ag_per_repeat (mesh.h: what the gather door
 * counts), and what upstream_faithful=B7 moves besides; the two circular engines differ there by design.
 * AB_EMISMATCH. */
ab_status ab_check_gathers(const struct ab_recording *recording, const struct ab_case *c, enum ab_family family);
/* Metrics that the layers sow in one step (sown.h). upstream_faithful=B20: in pipelines they are lost, but in an
 * NNXPipeline without repeats; two sides owe each other what Linen records. */
size_t ab_expect_sown(const struct ab_case *c, enum ab_family family);
/* As many in the recording, every step. AB_EMISMATCH. */
ab_status ab_check_sown(const struct ab_recording *recording, const struct ab_case *c, enum ab_family family);
/* What an engine keeps from forward to backward, moves to the host and back, and computes again, by name: every counter
 * of observed.h under residual/, host/, offload/ and recompute/, over all steps. upstream_faithful=B13, B15 and B29 are
 * known. AB_EMISMATCH names the first that is not what config and block table ask for. */
ab_status ab_check_remat(const struct ab_recording *recording, const struct ab_case *c, const struct ab_route *route);
/* Where the rng streams of every (repeat, stage) stand after every step: split, folded by every iteration, and carried
 * on or made anew as the route says. AB_EMISMATCH names the first that stands elsewhere, or that nothing expects. */
ab_status ab_check_rng(const struct ab_recording *recording, const struct ab_case *c, const struct ab_route *route);
/* Where some are expected and none is reported: whether the side's build is older than such reports. */
ab_status ab_rng_predates(bool *out, const struct ab_recording *recording, const struct ab_case *c,
                          const struct ab_route *route);
/* Whether upstream_faithful=B15 lets the engines compute different tensors again. */
bool ab_remat_differs(const struct ab_config *config);
/* The totals of execute, recompute and ring counters are the same in both, those of weight fetches and of
 * recomputed operators where asked for. AB_EMISMATCH names the first that differs. */
ab_status ab_check_same_counters(const struct ab_recording *a, const struct ab_recording *b, bool fetches_too,
                                 bool recomputes_too);
