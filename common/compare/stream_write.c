#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "codec.h"
#include "mem.h"

enum { BUFFER = 64 * 1024 };

struct ab_stream_writer {
  int fd;
  ab_status failed; /* of the first failed write */
  unsigned char *buffer;
  size_t used, room;
  uint64_t frames;
  struct ab_totals totals;
  bool over; /* end or error was written */
};

static ab_status write_some(int fd, const unsigned char *bytes, size_t count, size_t *written) {
  ssize_t n = write(fd, bytes, count);
  *written = n > 0 ? (size_t)n : 0;
  if (n >= 0 || errno == EINTR) return AB_OK;
  if (errno != EAGAIN) return AB_FAIL(AB_EIO, "cannot write the stream to the parent: %s", strerror(errno));
  struct pollfd ready = {.fd = fd, .events = POLLOUT};
  poll(&ready, 1, -1);
  return AB_OK;
}

static ab_status write_all(int fd, const unsigned char *bytes, size_t count) {
  while (count) {
    size_t written;
    AB_TRY(write_some(fd, bytes, count, &written));
    bytes += written;
    count -= written;
  }
  return AB_OK;
}

ab_status ab_stream_flush(struct ab_stream_writer *writer) {
  if (writer->failed) return AB_FAIL(writer->failed, "the stream to the parent failed before");
  writer->failed = write_all(writer->fd, writer->buffer, writer->used);
  writer->used = 0;
  AB_TRY(writer->failed);
  return AB_OK;
}

static ab_status make_room(struct ab_stream_writer *writer, size_t bytes) {
  if (writer->failed) return AB_FAIL(writer->failed, "the stream to the parent failed before");
  if (bytes > AB_STREAM_FRAME_MAX)
    return AB_FAIL(AB_EFORMAT, "a frame of %zu bytes does not go into the stream, at most %d", bytes,
                   AB_STREAM_FRAME_MAX);
  if (writer->over) return AB_FAIL(AB_EFORMAT, "a frame after the end of the stream");
  size_t total = AB_FRAME_HEAD + bytes + AB_FRAME_TAIL;
  if (writer->used + total > writer->room && writer->used) AB_TRY(ab_stream_flush(writer));
  if (total <= writer->room) return AB_OK;
  AB_TRY(ab_mem_resize(&writer->buffer, total, 1));
  writer->room = total;
  return AB_OK;
}

/* Where the payload of a frame of at most `bytes` goes. */
static ab_status begin(struct ab_stream_writer *writer, size_t bytes, struct ab_encoder *out) {
  AB_TRY(make_room(writer, bytes));
  out->at = writer->buffer + writer->used + AB_FRAME_HEAD;
  return AB_OK;
}

static void finish(struct ab_stream_writer *writer, enum ab_frame type, struct ab_encoder payload) {
  unsigned char *start = writer->buffer + writer->used;
  size_t length = (size_t)(payload.at - start) - AB_FRAME_HEAD;
  struct ab_encoder head = {start};
  ab_put_u32(&head, type);
  ab_put_u32(&head, (uint32_t)length);
  ab_put_u64(&payload, ab_frame_checksum(start, AB_FRAME_HEAD + length, writer->frames++));
  writer->used += AB_FRAME_HEAD + length + AB_FRAME_TAIL;
}

static ab_status text_frame(struct ab_stream_writer *writer, enum ab_frame type, const char *text) {
  struct ab_encoder e;
  size_t length = strlen(text);
  AB_TRY(begin(writer, length + 4, &e));
  ab_put_text(&e, text, length);
  finish(writer, type, e);
  return AB_OK;
}

static ab_status start(struct ab_stream_writer *writer, const char *header) {
  AB_TRY(ab_mem_new(&writer->buffer, BUFFER, 1));
  writer->room = BUFFER;
  struct ab_encoder e = {writer->buffer};
  memcpy(e.at, AB_STREAM_MAGIC, 8);
  e.at += 8;
  ab_put_u32(&e, AB_STREAM_VERSION);
  writer->used = AB_PREAMBLE;
  AB_TRY(text_frame(writer, AB_FRAME_HEADER, header));
  return AB_OK;
}

ab_status ab_stream_writer_new(struct ab_stream_writer **out, int fd, const char *header) {
  struct ab_stream_writer *writer;
  AB_TRY(ab_mem_new(&writer, 1, sizeof *writer));
  writer->fd = fd;
  ab_status status = start(writer, header);
  if (status != AB_OK) ab_stream_writer_free(writer);
  AB_TRY(status);
  *out = writer;
  return AB_OK;
}

void ab_stream_writer_free(struct ab_stream_writer *writer) {
  if (!writer) return;
  ab_mem_free(writer->buffer);
  ab_mem_free(writer);
}

ab_status ab_stream_plan(struct ab_stream_writer *writer, uint64_t bytes) {
  struct ab_encoder e;
  AB_TRY(begin(writer, AB_RECORD_ROOM, &e));
  ab_put_u64(&e, bytes);
  finish(writer, AB_FRAME_PLAN, e);
  return AB_OK;
}

ab_status ab_stream_observation(struct ab_stream_writer *writer, const struct ab_observation *observation) {
  struct ab_encoder e;
  AB_TRY(begin(writer, AB_RECORD_ROOM, &e));
  ab_put_observation(&e, observation);
  finish(writer, AB_FRAME_OBSERVATION, e);
  writer->totals.observations++;
  return AB_OK;
}

ab_status ab_stream_counter(struct ab_stream_writer *writer, const struct ab_counter *counter) {
  struct ab_encoder e;
  AB_TRY(begin(writer, AB_RECORD_ROOM, &e));
  ab_put_counter(&e, counter);
  finish(writer, AB_FRAME_COUNTER, e);
  writer->totals.counters++;
  return AB_OK;
}

ab_status ab_stream_metric(struct ab_stream_writer *writer, const struct ab_metric *metric) {
  struct ab_encoder e;
  AB_TRY(begin(writer, AB_RECORD_ROOM, &e));
  ab_put_metric(&e, metric);
  finish(writer, AB_FRAME_METRIC, e);
  writer->totals.metrics++;
  return AB_OK;
}

ab_status ab_stream_fingerprint(struct ab_stream_writer *writer, const struct ab_fingerprint *fingerprint) {
  struct ab_encoder e;
  AB_TRY(begin(writer, AB_RECORD_ROOM, &e));
  ab_put_fingerprint(&e, fingerprint);
  finish(writer, AB_FRAME_FINGERPRINT, e);
  writer->totals.fingerprints++;
  return AB_OK;
}

ab_status ab_stream_note(struct ab_stream_writer *writer, const char *text) {
  return text_frame(writer, AB_FRAME_NOTE, text);
}

ab_status ab_stream_error(struct ab_stream_writer *writer, ab_status code, const char *sentence, const char *trace) {
  struct ab_encoder e;
  AB_TRY(begin(writer, strlen(sentence) + strlen(trace) + 12, &e));
  ab_put_u32(&e, code);
  ab_put_text(&e, sentence, strlen(sentence));
  ab_put_text(&e, trace, strlen(trace));
  finish(writer, AB_FRAME_ERROR, e);
  writer->over = true;
  return ab_stream_flush(writer);
}

ab_status ab_stream_end(struct ab_stream_writer *writer) {
  struct ab_encoder e;
  AB_TRY(begin(writer, AB_RECORD_ROOM, &e));
  ab_put_totals(&e, &writer->totals);
  finish(writer, AB_FRAME_END, e);
  writer->over = true;
  return ab_stream_flush(writer);
}

static ab_status probe_observe(void *ctx, const struct ab_observation *observation, const void *values) {
  (void)values;
  return ab_stream_observation(ctx, observation);
}

static ab_status probe_count(void *ctx, const char *name, const struct ab_identity *id, const struct ab_where *at,
                             int64_t amount) {
  struct ab_counter counter = {.id = *id, .at = *at, .amount = amount};
  counter.id.tensor[0] = '\0';
  strncat(counter.id.tensor, name, AB_NAME_MAX - 1);
  return ab_stream_counter(ctx, &counter);
}

const struct ab_probe_ops ab_stream_probe = {probe_observe, probe_count};
