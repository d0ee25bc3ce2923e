/* Where the real MaxText code is wrong. By default this program does what was meant; `upstream_faithful=B1,B7` does
 * what the released code does, in engines and oracle alike, for comparison with real runs.
 */
#pragma once

#include <stdbool.h>

#include "config.h"

enum ab_defect {
  AB_DEFECT_B1,
  AB_DEFECT_B7,
  AB_DEFECT_B8,
  AB_DEFECT_B11,
  AB_DEFECT_B12,
  AB_DEFECT_B13,
  AB_DEFECT_B14,
  AB_DEFECT_B15,
  AB_DEFECT_B20,
  AB_DEFECT_B21,
  AB_DEFECT_B22,
  AB_DEFECT_B23,
  AB_DEFECT_B29,
  AB_DEFECT_B31,
  AB_DEFECT_B32,
  AB_DEFECT_B33,
  AB_DEFECT_B34,
  AB_DEFECT_COUNT
};

struct ab_upstream_defect {
  const char *id;      /* "B1" */
  const char *what;    /* one line: what the real code does, and what was meant */
  const char *changes; /* "value", "count", "byte" or "failure" */
  const char *source;  /* where in MaxText, as "NP: NNXCircularPipeline.bsw_all_gather_over_fsdp" */
  const char *missing; /* why it cannot be switched on here: the part it sits in is not built; NULL: it can */
};

/* By enum ab_defect. Sources: LP, NP: layers/pipeline.py before and after the migration; PU: pipeline_utils.py; ND,
 * LD: layers/nnx_decoders.py, decoders.py; MX: trainers/pre_train and common. */
extern const struct ab_upstream_defect ab_upstream_defects[AB_DEFECT_COUNT];

/* Whether the config asks for the defect. False for all of a default config. */
bool ab_faithful(const struct ab_config *config, enum ab_defect defect);
/* "B1,B7": the defects in force in the table's order, "" for none. Returns buffer. */
enum { AB_DEFECTS_SHOWN = 96 };
const char *ab_faithful_shown(char buffer[AB_DEFECTS_SHOWN], const struct ab_config *config);
