/* Values that travel through a file: of each step the gradients, the parameters, and what enters and leaves the
 * pipeline.
 *
 * A side appends them to one file in the order in which it observes them; the reader finds them again by walking the
 * side's recording in the same order, so that no index is stored. A side that runs `against` an earlier one keeps
 * only what differs from it: equal digests are equal values.
 */
#pragma once

#include "recording.h"

/* What a re-run keeps instead: everything of one layer in one step. */
struct ab_kept_window {
  int step, microbatch, layer; /* microbatch -1: every one */
};
enum { AB_KEPT_WORDS = 48 };
/* "STEP:MICROBATCH:LAYER". */
void ab_kept_window_words(char words[AB_KEPT_WORDS], const struct ab_kept_window *window);
/* AB_ECONFIG for other words. */
ab_status ab_kept_window_parse(struct ab_kept_window *out, const char *words);

/* The tensors whose values are kept; window NULL: those of every run. */
bool ab_kept(const struct ab_kept_window *window, const struct ab_identity *id);

/* A probe's receiver: observations and counters go on to the stream, values of kept tensors to the file. */
struct ab_keeper {
  struct ab_stream_writer *writer;
  int fd;                              /* -1: keep nothing */
  const struct ab_recording *against;  /* NULL: keep every kept tensor */
  bool fingerprints;                   /* send a fingerprint of every kept tensor, for goldens */
};
extern const struct ab_probe_ops ab_keeper_probe; /* ctx: a struct ab_keeper */

/* Reader over a finished side. */
struct ab_kept_values;
/* path: the side's file. against: the same as the side's, with its own values; both NULL or both given. All
 * borrowed. */
ab_status ab_kept_open(struct ab_kept_values **out, const struct ab_recording *recording, const char *path,
                       const struct ab_recording *against, struct ab_kept_values *against_values);
/* Of a side that ran with a window. */
ab_status ab_kept_open_window(struct ab_kept_values **out, const struct ab_recording *recording, const char *path,
                              const struct ab_kept_window *window);
/* What another program wrote: AB_EFORMAT when values are not those whose digest its stream states. */
ab_status ab_kept_check(struct ab_kept_values *values);
/* Accepts NULL. */
void ab_kept_close(struct ab_kept_values *values);
/* The values of one observation, in a buffer of the reader's until the next call; AB_ENOTFOUND when they were not
 * kept. */
ab_status ab_kept_read(struct ab_kept_values *values, const struct ab_identity *id, struct ab_view *out);
