/* What the parent keeps of a side: its observations in order of arrival, findable by identity. */
#pragma once

#include "identity.h"
#include "stream.h"

/* `order` numbers observations and metrics of one recording in the order of arrival: the side's execution order. */
struct ab_recorded {
  struct ab_observation observation;
  size_t order;
};
struct ab_recorded_metric {
  struct ab_metric metric;
  size_t order;
};

/* Open-addressing index over rows that someone else holds: slot = row + 1, 0 empty. */
struct ab_index {
  size_t *slot, slots, used;
};

/* Read-only outside recording.c. */
struct ab_recording {
  char *name;   /* of the side, e.g. "linen" */
  char *header; /* JSON text; NULL before the header frame */
  struct ab_recorded *observation; /* bubbles excluded */
  struct ab_recorded_metric *metric;
  struct ab_counter *counter; /* summed by identity and place */
  struct ab_fingerprint *fingerprint;
  char *notes; /* one per line, NULL if none */
  size_t observations, metrics, counters, fingerprints, bubbles;
  struct ab_observation pole; /* with has_pole: the first forward value of a bubble that is not finite */
  bool has_pole;
  uint64_t plan_bytes;
  bool complete;       /* reached `end` */
  ab_status error;     /* AB_OK, or the side's own failure with its sentence and trace */
  char *error_sentence, *error_trace;
  size_t order, capacity[4], note_bytes;
  struct ab_index by_identity, by_metric, by_counter, by_fingerprint;
};

ab_status ab_recording_new(struct ab_recording **out, const char *name);
/* Accepts NULL. */
void ab_recording_free(struct ab_recording *recording);
/* For ab_stream_reader_new, with the recording as ctx. */
extern const struct ab_stream_handler ab_recording_handler;

/* The same by hand, for references that come from files. AB_EMISMATCH for a repeated identity. */
ab_status ab_recording_observe(struct ab_recording *recording, const struct ab_observation *observation);
ab_status ab_recording_add_metric(struct ab_recording *recording, const struct ab_metric *metric);
ab_status ab_recording_add_counter(struct ab_recording *recording, const struct ab_counter *counter);
ab_status ab_recording_add_fingerprint(struct ab_recording *recording, const struct ab_fingerprint *fingerprint);
/* Says that nothing more comes: a recording that is not complete is never judged. */
void ab_recording_complete(struct ab_recording *recording);

/* NULL when there is none. Expected constant time. Borrowed. */
const struct ab_recorded *ab_recording_find(const struct ab_recording *recording, const struct ab_identity *id);
const struct ab_recorded_metric *ab_recording_metric(const struct ab_recording *recording, int step, const char *name);
const struct ab_fingerprint *ab_recording_fingerprint(const struct ab_recording *recording,
                                                      const struct ab_identity *id);
/* Sum of the counters that match: id->tensor is the name; -1 elsewhere in id and at means any; NULL `at`: anywhere. */
int64_t ab_recording_count(const struct ab_recording *recording, const struct ab_identity *id,
                           const struct ab_where *at);
/* The last observation as text, for "the side died after ..."; "nothing" if none. */
void ab_recording_last(char text[AB_IDENTITY_TEXT], const struct ab_recording *recording);
/* Recomputed tensors whose digest differs from the forward one: their number, and the first (NULL if none). */
size_t ab_recording_recompute_faults(const struct ab_recording *recording, const struct ab_recorded **first);
