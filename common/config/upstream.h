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
  bool (*can_show)(const struct ab_config *config); /* whether such a run can differ by it; NULL where it is missing */
};

/* By enum ab_defect. Sources: LP, NP: layers/pipeline.py before and after the migration; PU: pipeline_utils.py; ND,
 * LD: layers/nnx_decoders.py, decoders.py; MX: trainers/pre_train and common. */
extern const struct ab_upstream_defect ab_upstream_defects[AB_DEFECT_COUNT];

/* Whether the config asks for the defect. False for all of a default config. */
bool ab_faithful(const struct ab_config *config, enum ab_defect defect);
/* Whether a run of the config can differ by the defect in a value, a count or a byte, were it asked for. */
bool ab_defect_can_show(const struct ab_config *config, enum ab_defect defect);
enum { AB_DEFECTS_SHOWN = 96 };
/* "B1,B7": the defects that the config asks for in the table's order, "" for none; and those of them that cannot show
 * in it. Both return buffer. */
const char *ab_faithful_shown(char buffer[AB_DEFECTS_SHOWN], const struct ab_config *config);
const char *ab_faithful_idle(char buffer[AB_DEFECTS_SHOWN], const struct ab_config *config);
