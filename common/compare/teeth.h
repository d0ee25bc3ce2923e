/* What stands behind a green: the controls that were caught, the inputs whose change nobody would have seen, and the
 * faults that need what this run does not have.
 */
#pragma once

#include "controls.h"
#include "json.h"

enum { AB_TEETH_NAME = 96, AB_TEETH_TEXT = 256 };

/* An input that could be anything: nothing that is compared depends on it, or not in the way that it should. */
struct ab_unobserved {
  char name[AB_TEETH_NAME];   /* "segment_ids", "layers/2/mlp/wo/kernel" */
  char reason[AB_TEETH_TEXT]; /* "every token has segment 1" */
};

/* One row of the trigger matrix that this config and batch lack. */
struct ab_blind {
  const char *name;           /* "repeats" */
  char reason[AB_TEETH_TEXT]; /* what the run has instead: "one repeat" */
  const char *hidden;         /* what therefore cannot show */
  bool built;                 /* false: no run of this build can have it */
};

enum { AB_BLINDS_MAX = 32, AB_UNOBSERVED_MAX = 256 };
struct ab_teeth {
  struct ab_controls controls;
  bool controlled; /* controls have run and are closed */
  bool looked;     /* the next two lists were made */
  bool perturbed;  /* batch inputs were changed one after the other, not only looked at */
  struct ab_unobserved unobserved[AB_UNOBSERVED_MAX];
  size_t unobserveds, unobserved_left_out;
  const char *unobservable; /* why there is no list of unobserved inputs; NULL: there is */
  struct ab_blind blind[AB_BLINDS_MAX];
  size_t blinds;
};

/* Adds one; more than fit are counted. */
__attribute__((format(printf, 3, 4))) void ab_teeth_unobserved(struct ab_teeth *teeth, const char *name,
                                                               const char *format, ...);

/* Lines of a report, each with its end, escaped: "controls: ...", "unobserved: ...", "blind to: ..."; in full: one line
 * per control and per blind row. Owned by the caller. */
ab_status ab_teeth_text(char **out, const struct ab_teeth *teeth, bool full);
/* Members "controls", "unobserved" and "blind" of the object that is open; null for NULL and for what was not done. */
void ab_teeth_put(struct ab_json_writer *writer, const struct ab_teeth *teeth);
