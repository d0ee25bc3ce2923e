/* The stream from a side to its parent: a preamble, then frames, over a pipe.
 *
 * Preamble: "abstream", u32 version. Frame: u32 type, u32 length, payload, u64 XXH3-64 of type, length and payload with
 * the frame's number as seed, so that a lost, repeated or reordered frame is as visible as a flipped bit. Integers and
 * IEEE bits little endian, strings as u32 length and bytes. The first frame is the header, the last is `end` with the
 * totals, or `error`; nothing may follow. Only a stream that reached `end` is complete.
 */
#pragma once

#include "fingerprint.h"

enum { AB_STREAM_VERSION = 1, AB_STREAM_FRAME_MAX = 1 << 20 };

/* Step values of MaxText's metric names without their prefix: "loss", "grad_norm". */
struct ab_metric {
  int step;
  char name[AB_NAME_MAX];
  double value; /* a float32 is widened exactly */
  bool f32;
};

/* id.tensor is the counter's name; its phase means nothing. */
struct ab_counter {
  struct ab_identity id;
  struct ab_where at;
  int64_t amount;
};

/* Writer: the side's end. Buffers 64 KiB; the fd stays the caller's, who ignores SIGPIPE. After a failed write every
 * further call fails with the same code (AB_EIO). */
struct ab_stream_writer;
/* header: JSON text with route, provenance and config digest, see `ab_provenance` in golden.h for the keys. */
ab_status ab_stream_writer_new(struct ab_stream_writer **out, int fd, const char *header);
/* Frees; does not write what is buffered. Accepts NULL. */
void ab_stream_writer_free(struct ab_stream_writer *writer);
ab_status ab_stream_plan(struct ab_stream_writer *writer, uint64_t bytes);
ab_status ab_stream_observation(struct ab_stream_writer *writer, const struct ab_observation *observation);
ab_status ab_stream_counter(struct ab_stream_writer *writer, const struct ab_counter *counter);
ab_status ab_stream_metric(struct ab_stream_writer *writer, const struct ab_metric *metric);
ab_status ab_stream_fingerprint(struct ab_stream_writer *writer, const struct ab_fingerprint *fingerprint);
ab_status ab_stream_note(struct ab_stream_writer *writer, const char *text);
/* The side's last word: status, sentence and trace of a failure. Flushes. */
ab_status ab_stream_error(struct ab_stream_writer *writer, ab_status code, const char *sentence, const char *trace);
/* Writes the totals and flushes. */
ab_status ab_stream_end(struct ab_stream_writer *writer);
ab_status ab_stream_flush(struct ab_stream_writer *writer);

/* A probe's receiver with a writer as ctx: ab_probe_new(&probe, &ab_stream_probe, writer, level, stages). Values are
 * not sent: full tensors travel through files. */
extern const struct ab_probe_ops ab_stream_probe;

/* Reader: the parent's end. Every method is required. A method's failure is the stream's failure: a repeated identity,
 * for example, is damage. Strings are borrowed for the call. */
struct ab_stream_handler {
  ab_status (*header)(void *ctx, const char *text);
  ab_status (*plan)(void *ctx, uint64_t bytes);
  ab_status (*observation)(void *ctx, const struct ab_observation *observation);
  ab_status (*counter)(void *ctx, const struct ab_counter *counter);
  ab_status (*metric)(void *ctx, const struct ab_metric *metric);
  ab_status (*fingerprint)(void *ctx, const struct ab_fingerprint *fingerprint);
  ab_status (*note)(void *ctx, const char *text);
  ab_status (*error)(void *ctx, ab_status code, const char *sentence, const char *trace);
  ab_status (*end)(void *ctx);
};

struct ab_stream_reader;
ab_status ab_stream_reader_new(struct ab_stream_reader **out, const struct ab_stream_handler *handler, void *ctx);
void ab_stream_reader_free(struct ab_stream_reader *reader);
/* Any cut of the bytes. AB_EFORMAT "stream damaged at byte n: why"; the reader then refuses everything. */
ab_status ab_stream_feed(struct ab_stream_reader *reader, const void *bytes, size_t count);
/* End of file: AB_OK after `end` or `error`; AB_ECOMM "the stream ended at byte n" otherwise. */
ab_status ab_stream_finish(struct ab_stream_reader *reader);
/* Reads fd to its end and finishes. For files and tests; the parent of live sides polls and feeds. */
ab_status ab_stream_read(struct ab_stream_reader *reader, int fd);
