/* The side mode of ab_compare: what the parent spawns. Not for people: it is left out of --help. */
#pragma once

#include "request.h"

/* Option names, without dashes. */
#define AB_SIDE_ROUTE "side"                    /* route to run */
#define AB_SIDE_VALUES "side-values"            /* file for kept values */
#define AB_SIDE_AGAINST "side-against"          /* stream of the side to keep differences from */
#define AB_SIDE_FROM_STREAM "side-params-stream" /* stream and values of the side whose parameters to use */
#define AB_SIDE_FROM_VALUES "side-params-values"
#define AB_SIDE_FINGERPRINT "side-fingerprint"  /* send fingerprints of kept tensors (goldens) */
#define AB_SIDE_TERMS_ALONE "side-terms"        /* one pass per microbatch, with its cotangent alone */
#define AB_SIDE_STATE_ALONE "side-state"        /* no activations: level AB_LEVEL_STATE */
#define AB_SIDE_WHAT_IF "side-what-if"          /* what-if passes instead of steps: what_if.h */
#define AB_SIDE_SHAKE "side-shake"              /* what to change on purpose: shake.h */
#define AB_SIDE_WINDOW "side-window"            /* keep the values of one layer of one step instead: kept.h */
#define AB_SIDE_CELL "side-cell"                /* replays the cell of this artifact (cell.h); no route, no case */

/* The stream's descriptor in a side. */
enum { AB_SIDE_FD = 3 };

/* Runs request->side and streams it; the process's exit code. */
int ab_side_main(const struct ab_request *request);
