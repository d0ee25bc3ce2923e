/* Little-endian bytes of the stream's payloads. Writing goes into room that the caller has made; reading past the
 * end or a value out of range sets `bad` and yields zeros.
 */
#pragma once

#include "stream.h"

enum ab_frame {
  AB_FRAME_HEADER = 1,
  AB_FRAME_PLAN,
  AB_FRAME_OBSERVATION,
  AB_FRAME_COUNTER,
  AB_FRAME_METRIC,
  AB_FRAME_FINGERPRINT,
  AB_FRAME_NOTE,
  AB_FRAME_ERROR,
  AB_FRAME_END,
  AB_FRAMES
};

enum {
  AB_PREAMBLE = 12,     /* bytes: magic and version */
  AB_FRAME_HEAD = 8,    /* type and length */
  AB_FRAME_TAIL = 8,    /* checksum */
  AB_RECORD_ROOM = 1024 /* more than any payload but a text's */
};

#define AB_STREAM_MAGIC "abstream"

struct ab_totals {
  uint64_t observations, counters, metrics, fingerprints;
};

struct ab_encoder {
  unsigned char *at;
};
void ab_put_u32(struct ab_encoder *e, uint32_t value);
void ab_put_u64(struct ab_encoder *e, uint64_t value);
void ab_put_f64(struct ab_encoder *e, double value);
void ab_put_text(struct ab_encoder *e, const char *text, size_t length);
void ab_put_observation(struct ab_encoder *e, const struct ab_observation *o);
void ab_put_counter(struct ab_encoder *e, const struct ab_counter *c);
void ab_put_metric(struct ab_encoder *e, const struct ab_metric *m);
void ab_put_fingerprint(struct ab_encoder *e, const struct ab_fingerprint *f);
void ab_put_totals(struct ab_encoder *e, const struct ab_totals *t);

struct ab_decoder {
  const unsigned char *at, *end;
  bool bad;
};
uint32_t ab_get_u32(struct ab_decoder *d);
uint64_t ab_get_u64(struct ab_decoder *d);
double ab_get_f64(struct ab_decoder *d);
/* A string of at most size - 1 bytes without NUL. */
void ab_get_text(struct ab_decoder *d, char *text, size_t size);
void ab_get_observation(struct ab_decoder *d, struct ab_observation *o);
void ab_get_counter(struct ab_decoder *d, struct ab_counter *c);
void ab_get_metric(struct ab_decoder *d, struct ab_metric *m);
void ab_get_fingerprint(struct ab_decoder *d, struct ab_fingerprint *f);
void ab_get_totals(struct ab_decoder *d, struct ab_totals *t);

/* Of a frame's head and payload; `number` counts frames from 0. */
uint64_t ab_frame_checksum(const void *bytes, size_t count, uint64_t number);
