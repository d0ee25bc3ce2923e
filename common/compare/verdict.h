/* Joins two recordings and judges them: structure first, values second, counts always.
 *
 * b is the reference: distances are relative to it, and its order of arrival is the execution order. Sides are
 * joined by identity, never by arrival. Bitwise tier: equal digests and no non-finite value. Where digests differ,
 * values are asked for; without values, fingerprints estimate the distance, and a bounded tensor with neither is not
 * compared.
 */
#pragma once

#include "calibration.h"
#include "exitcode.h"
#include "metrics.h"
#include "recording.h"
#include "tiers.h"

/* Values of one observation. side 0 is a, 1 is b. The view is borrowed until the next call for that side.
 * AB_ENOTFOUND: not kept. Any other failure ends the judgement. */
typedef ab_status (*ab_values_fn)(void *ctx, int side, const struct ab_observation *observation, struct ab_view *out);
/* How far both are apart, where the caller has walked over them by itself. */
typedef ab_status (*ab_apart_fn)(void *ctx, const struct ab_observation *a, const struct ab_observation *b,
                                 struct ab_difference *out);
/* The bounds known for one identity (a metric has the tensor name of the metric and layer -1): what the reference
 * carries and the f32 oracle's own distance to f64. Both preset to -1: unknown. */
typedef void (*ab_bounds_fn)(void *ctx, const struct ab_identity *id, double *given, double *own);

/* What config and parameter tables say must be there; never taken from a stream. */
struct ab_expected {
  size_t steps;                   /* distinct steps >= 0 with a compared metric or tensor */
  size_t tensors[AB_QUANTITIES];  /* [AB_Q_METRIC]: metrics, one per step and name */
  size_t elements[AB_QUANTITIES]; /* [AB_Q_METRIC] is not used */
};
/* A count that is not pinned, e.g. of activations under a remat policy. Everything else must be exactly as expected. */
#define AB_UNCOUNTED ((size_t)-1)
/* Nothing pinned. */
struct ab_expected ab_expected_none(void);

struct ab_comparison {
  const struct ab_recording *a, *b;
  enum ab_pair pair;
  unsigned quantities; /* bit i: quantity i takes part; AB_Q_ALL */
  bool partial;        /* b holds a selection: what only a has is ignored and counted, not a difference of structure */
  bool retyped;        /* f32 against f64: a different float dtype is no difference of structure */
  const struct ab_calibration *calibration; /* of this config, for float32 against float64; NULL: none */
  bool headers;        /* names, shapes and dtypes alone: no value was read */
  bool calibrated;     /* an uncalibrated bound makes the outcome 5 */
  struct ab_expected expected;
  ab_values_fn values; /* NULL: no values */
  ab_apart_fn apart;   /* instead of values, and digests are then not looked at. NULL: values */
  void *values_ctx;    /* of both */
  ab_bounds_fn bounds; /* NULL: none known */
  void *bounds_ctx;
};
static inline bool ab_takes_part(const struct ab_comparison *c, enum ab_quantity quantity) {
  return c->quantities >> quantity & 1;
}

enum ab_change { AB_CHANGE_MISSING, AB_CHANGE_ADDED, AB_CHANGE_RESHAPED, AB_CHANGE_RETYPED };
const char *ab_change_name(enum ab_change change);

/* Identities that differ in the same way: "missing layers/<asterisk>/mlp/wo/kernel backward (8)". */
struct ab_group {
  enum ab_change change;
  char pattern[AB_IDENTITY_TEXT];
  size_t count;
  struct ab_identity example;
  struct ab_shape shape_a, shape_b; /* of the example; rank -1 where that side lacks it */
  enum ab_dtype dtype_a, dtype_b;
};

/* How a distance is known. */
enum ab_evidence {
  AB_EVIDENCE_DIGEST,   /* equal digests, or norms only */
  AB_EVIDENCE_VALUES,   /* all elements */
  AB_EVIDENCE_ESTIMATE, /* projections */
  AB_EVIDENCE_SCALAR    /* a metric */
};
const char *ab_evidence_name(enum ab_evidence evidence);

/* One tensor or metric that was judged. */
struct ab_finding {
  bool metric;
  struct ab_identity id;
  struct ab_where at_a, at_b;
  size_t order; /* in b */
  enum ab_quantity quantity;
  struct ab_bound bound;
  enum ab_evidence evidence;
  double distance;                /* relative L2, or relative difference; what it would have to be bounded by to pass */
  struct ab_difference difference; /* element counts and worst values if evidence is VALUES or SCALAR */
  struct ab_shape shape;
  bool differs, fails;
  bool alike; /* the same bits, some of them NaN or infinite: they fail, but tell nothing of who is wrong */
};

struct ab_tally {
  size_t expected, compared; /* expected is the caller's; AB_UNCOUNTED where nothing is pinned */
};

struct ab_verdict {
  const char *name_a, *name_b; /* borrowed from the recordings */
  enum ab_pair pair;
  enum ab_exit exit;
  bool headers; /* as in the comparison */
  struct ab_tally steps, tensors, elements, metrics; /* tensors and elements: sum over the quantities that are pinned */
  struct ab_tally by_quantity[AB_QUANTITIES];        /* tensors */
  size_t unpinned;             /* compared tensors and metrics of quantities without an expected count */
  bool counts_right;           /* every pinned count is as expected */
  size_t ignored;              /* only in a, with a partial reference */
  size_t unjudged;             /* bounded, different, and neither values nor fingerprints */
  size_t differing, failing, alike; /* tensors and metrics */
  size_t differing_of[AB_QUANTITIES], failing_of[AB_QUANTITIES];
  size_t differing_elements;   /* as far as values were seen */
  size_t sign_only;            /* +0 against -0; without values the difference of their numbers */
  size_t nonfinite;            /* of both sides */
  bool numberless;             /* not one element and no metric was compared, where not headers alone were asked for */
  size_t empty;                /* compared tensors without an element */
  char first_empty[AB_NAME_MAX]; /* the name of one */
  size_t first_bad_step, exact_steps; /* lowest failing step (AB_UNCOUNTED: none); steps without any difference */
  bool any, any_difference;
  struct ab_finding worst;       /* largest distance / limit, non-finite first; valid if `any` */
  struct ab_finding first;       /* first failing in b's order; valid if failing > 0 */
  struct ab_finding first_difference; /* first differing bit, failing or not; valid if any_difference */
  struct ab_finding worst_of[AB_QUANTITIES]; /* as `worst`; valid if differing_of[q] > 0 */
  struct ab_finding *finding;    /* owned; those that differ, as they came, at most AB_FINDINGS_MAX */
  size_t findings, findings_room;
  bool uncalibrated;             /* a bound by AB_RULE_UNCALIBRATED or FLOOR was used */
  size_t changed;                /* identities that differ in structure */
  size_t changed_of[AB_QUANTITIES], lacking_of[AB_QUANTITIES]; /* lacking: missing or added, of those that changed */
  struct ab_group *group;        /* owned; at most AB_GROUPS_MAX, the largest first */
  size_t groups, groups_left_out;
};
enum { AB_GROUPS_MAX = 32, AB_FINDINGS_MAX = 4096 };

/* Whether a failure tells the sides apart: not all of them are the same NaN and infinity on both. */
static inline bool ab_verdict_parts(const struct ab_verdict *v) { return v->failing > v->alike; }

/* Whether anything was compared. */
static inline bool ab_verdict_compared(const struct ab_verdict *v) { return v->any && !v->numberless; }

enum { AB_LACK_TEXT = 256 };
/* What keeps both from being compared, with names: "missing state/step update (2)", "parameter 30 of 60"; "" if
 * nothing does. */
void ab_verdict_lack(char text[AB_LACK_TEXT], const struct ab_verdict *v);

/* A sentence for a note, "" if there is none: that values are NaN or infinite; that tensors have no element. */
void ab_verdict_note_nonfinite(char text[AB_LACK_TEXT], const struct ab_verdict *v);
void ab_verdict_note_empty(char text[AB_LACK_TEXT], const struct ab_verdict *v);

/* The bound of one identity: given goes before a calibration, which goes before own. */
struct ab_bound ab_comparison_bound(const struct ab_comparison *c, const struct ab_identity *id,
                                    enum ab_quantity quantity, double given, double own);

/* Fails only on memory, on a callback's failure, and on a recording that is not complete (AB_ECOMM). Every outcome,
 * equal or not, is AB_OK and in out->exit: 5 when structure or counts differ, or not one number was compared; else 1;
 * else 0. */
ab_status ab_verdict(struct ab_verdict *out, const struct ab_comparison *comparison);
void ab_verdict_free(struct ab_verdict *verdict);
