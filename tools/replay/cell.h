/* The judgement of one artifact: which operator of the cell differs given agreed inputs, or what the cell was fed.
 *
 * Each operator of a side is held to the one runner's, from the operator's own recorded inputs. On the machine and core
 * that wrote the artifact the reference's operators come out bit for bit, and so must a side's; elsewhere an operator
 * may be off by four times what the reference's is, at least 1e-6.
 */
#pragma once

#include "artifact.h"
#include "divergence.h"
#include "exitcode.h"
#include "request.h"

/* Computes; AB_EXIT_DIFFERENT when a side differs. */
ab_status ab_cell_judge(struct ab_replayed *out, enum ab_exit *exit, const struct ab_artifact *artifact);

/* The process that does it (side mode): judges request->side_cell and prints JSON. Its exit code. */
int ab_cell_main(const struct ab_request *request);
/* Starts that process on a folder and takes in what it says. AB_EFORMAT, AB_ECOMM ... with its sentence when it
 * failed; `exit` is then not set. */
ab_status ab_cell_ask(struct ab_replayed *out, enum ab_exit *exit, const char *folder, double timeout);
/* --replay: asks and prints; the exit code. */
int ab_replay_main(const struct ab_request *request);
