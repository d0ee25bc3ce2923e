/* What controls.c, the damages and the copies share. */
#pragma once

#include "controls.h"

/* One tensor with the values that a side kept. */
struct ab_captured {
  struct ab_observation observation;
  unsigned char *values; /* NULL: none */
};

/* One comparison, made small: copies are owned. */
struct ab_control_data {
  const struct ab_comparison *c;
  const struct ab_control_facts *facts;
  struct ab_recording *a, *b;
  int step, next;          /* the first two; next -1: one step */
  struct ab_captured leaf; /* the smallest weight gradient of rank 2 or more, by a */
  struct ab_captured rows; /* a cotangent of the whole batch, its first axis the rows, by a */
  bool leaf_altered, rows_altered; /* the values that were kept do not have the digest that was recorded */
};
/* narrow: only the metrics, and the leaf; for comparisons whose tensors cost values. */
ab_status ab_control_data_new(struct ab_control_data *out, const struct ab_comparison *c,
                              const struct ab_control_facts *facts, bool narrow);
void ab_control_data_free(struct ab_control_data *data);
/* One observation of a recording with its fingerprint, by which a golden, which has no values, is judged. */
ab_status ab_control_copy(struct ab_recording *out, const struct ab_observation *o, const struct ab_recording *from);

/* One damage. An edit changes a row of a copy, or returns false to drop it. */
struct ab_trial {
  const struct ab_control_data *data;
  bool (*observation)(const struct ab_trial *t, struct ab_observation *o); /* NULL: all as they are */
  void (*metric)(const struct ab_trial *t, struct ab_metric *m);           /* drops none */
  void (*source)(const struct ab_trial *t, struct ab_identity *id); /* puts a's content of another identity here */
  bool both_sides;            /* edits b as well */
  bool unseen;                /* it may be that nothing changes: not applicable then, for the reason `why` */
  struct ab_observation with; /* the damaged tensor, and its values; NULL: not by values */
  unsigned char *values, *moved; /* moved: a buffer of trial_values */
  double given;               /* bound of the damaged tensor; negative: as the comparison's */
  double amount;              /* of the damaged metric */
  const char *name;           /* of the damaged metric */
  enum ab_exit expected;
  bool na;
  char on[AB_CONTROL_DETAIL], why[AB_CONTROL_DETAIL];
};
/* Sets edits, values and `on`, or `na` and `why`; or `why` alone: missed without a verdict. */
typedef ab_status (*ab_damage_fn)(struct ab_trial *t);

ab_status ab_damage_nothing(struct ab_trial *t);
ab_status ab_damage_one_ulp(struct ab_trial *t);
ab_status ab_damage_dropped_rows(struct ab_trial *t);
ab_status ab_damage_doubled_rows(struct ab_trial *t);
ab_status ab_damage_not_run(struct ab_trial *t);
ab_status ab_damage_run_twice(struct ab_trial *t);
ab_status ab_damage_swapped_stages(struct ab_trial *t);
ab_status ab_damage_scaled_loss(struct ab_trial *t);
ab_status ab_damage_scaled_gradient(struct ab_trial *t);
ab_status ab_damage_nan(struct ab_trial *t);
ab_status ab_damage_nan_both(struct ab_trial *t);
ab_status ab_damage_metric_nan(struct ab_trial *t);
ab_status ab_damage_metric_nan_both(struct ab_trial *t);
ab_status ab_damage_missing(struct ab_trial *t);
ab_status ab_damage_missing_both(struct ab_trial *t);
ab_status ab_damage_renamed(struct ab_trial *t);
ab_status ab_damage_transposed(struct ab_trial *t);
ab_status ab_damage_shifted(struct ab_trial *t);
ab_status ab_damage_metric_at(struct ab_trial *t);
ab_status ab_damage_metric_above(struct ab_trial *t);
ab_status ab_damage_tensor_at(struct ab_trial *t);
ab_status ab_damage_tensor_above(struct ab_trial *t);

/* For damages. */
void ab_trial_na(struct ab_trial *t, const char *why);
/* The bound under which the comparison judges an identity. */
struct ab_bound ab_trial_bound(const struct ab_trial *t, const struct ab_identity *id);
