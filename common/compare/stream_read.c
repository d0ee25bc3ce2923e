#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "codec.h"
#include "mem.h"

/* The reader gathers one unit - preamble, head, or whole frame - in `pending` and then acts on it. */
struct ab_stream_reader {
  const struct ab_stream_handler *handler;
  void *ctx;
  unsigned char *pending;
  size_t used, need, room;
  uint64_t offset; /* in the stream, of pending[0] */
  uint64_t frames;
  struct ab_totals totals;
  bool greeted, over, damaged;
};

static ab_status damage(struct ab_stream_reader *reader, const char *why) {
  reader->damaged = true;
  return AB_FAIL(AB_EFORMAT, "stream damaged at byte %llu: %s", (unsigned long long)reader->offset, why);
}

static ab_status need(struct ab_stream_reader *reader, size_t bytes) {
  reader->need = bytes;
  if (bytes <= reader->room) return AB_OK;
  size_t room = bytes < 2 * reader->room ? 2 * reader->room : bytes;
  AB_TRY(ab_mem_resize(&reader->pending, room, 1));
  reader->room = room;
  return AB_OK;
}

ab_status ab_stream_reader_new(struct ab_stream_reader **out, const struct ab_stream_handler *handler, void *ctx) {
  struct ab_stream_reader *reader;
  AB_TRY(ab_mem_new(&reader, 1, sizeof *reader));
  reader->handler = handler;
  reader->ctx = ctx;
  reader->room = 1;
  ab_status status = need(reader, 4096);
  reader->need = AB_PREAMBLE;
  if (status != AB_OK) ab_stream_reader_free(reader);
  AB_TRY(status);
  *out = reader;
  return AB_OK;
}

void ab_stream_reader_free(struct ab_stream_reader *reader) {
  if (!reader) return;
  ab_mem_free(reader->pending);
  ab_mem_free(reader);
}

static void consume(struct ab_stream_reader *reader) {
  reader->offset += reader->used;
  reader->used = 0;
  reader->need = AB_FRAME_HEAD;
}

static ab_status greet(struct ab_stream_reader *reader) {
  struct ab_decoder d = {reader->pending + 8, reader->pending + AB_PREAMBLE, false};
  if (memcmp(reader->pending, AB_STREAM_MAGIC, 8) != 0) return damage(reader, "it is no abpipe stream");
  uint32_t version = ab_get_u32(&d);
  if (version != AB_STREAM_VERSION)
    return AB_FAIL(AB_EFORMAT, "stream damaged at byte 8: version %u, expected %d", version, AB_STREAM_VERSION);
  reader->greeted = true;
  consume(reader);
  return AB_OK;
}

/* The whole payload as one string, which is NUL-terminated in place of the checksum's first byte. */
static const char *only_text(struct ab_decoder *d) {
  size_t length = ab_get_u32(d);
  char *text = (char *)(uintptr_t)d->at;
  if (d->bad || length != (size_t)(d->end - d->at) || memchr(text, 0, length)) {
    d->bad = true;
    return "";
  }
  text[length] = '\0';
  d->at += length;
  return text;
}

typedef ab_status (*frame_fn)(struct ab_stream_reader *reader, struct ab_decoder *d);

static bool whole(struct ab_decoder *d) { return !d->bad && d->at == d->end; }

static ab_status on_header(struct ab_stream_reader *reader, struct ab_decoder *d) {
  const char *text = only_text(d);
  if (!whole(d)) return damage(reader, "malformed header frame");
  return reader->handler->header(reader->ctx, text);
}

static ab_status on_plan(struct ab_stream_reader *reader, struct ab_decoder *d) {
  uint64_t bytes = ab_get_u64(d);
  if (!whole(d)) return damage(reader, "malformed plan frame");
  return reader->handler->plan(reader->ctx, bytes);
}

static ab_status on_observation(struct ab_stream_reader *reader, struct ab_decoder *d) {
  struct ab_observation o;
  ab_get_observation(d, &o);
  if (!whole(d)) return damage(reader, "malformed observation frame");
  reader->totals.observations++;
  return reader->handler->observation(reader->ctx, &o);
}

static ab_status on_counter(struct ab_stream_reader *reader, struct ab_decoder *d) {
  struct ab_counter c;
  ab_get_counter(d, &c);
  if (!whole(d)) return damage(reader, "malformed counter frame");
  reader->totals.counters++;
  return reader->handler->counter(reader->ctx, &c);
}

static ab_status on_metric(struct ab_stream_reader *reader, struct ab_decoder *d) {
  struct ab_metric m;
  ab_get_metric(d, &m);
  if (!whole(d)) return damage(reader, "malformed metric frame");
  reader->totals.metrics++;
  return reader->handler->metric(reader->ctx, &m);
}

static ab_status on_fingerprint(struct ab_stream_reader *reader, struct ab_decoder *d) {
  struct ab_fingerprint f;
  ab_get_fingerprint(d, &f);
  if (!whole(d)) return damage(reader, "malformed fingerprint frame");
  reader->totals.fingerprints++;
  return reader->handler->fingerprint(reader->ctx, &f);
}

static ab_status on_note(struct ab_stream_reader *reader, struct ab_decoder *d) {
  const char *text = only_text(d);
  if (!whole(d)) return damage(reader, "malformed note frame");
  return reader->handler->note(reader->ctx, text);
}

static ab_status on_error(struct ab_stream_reader *reader, struct ab_decoder *d) {
  char sentence[1024], trace[1024];
  uint32_t code = ab_get_u32(d);
  ab_get_text(d, sentence, sizeof sentence);
  ab_get_text(d, trace, sizeof trace);
  if (!whole(d) || code == AB_OK || code > AB_ENOTFOUND) return damage(reader, "malformed error frame");
  reader->over = true;
  return reader->handler->error(reader->ctx, (ab_status)code, sentence, trace);
}

static ab_status on_end(struct ab_stream_reader *reader, struct ab_decoder *d) {
  struct ab_totals t;
  ab_get_totals(d, &t);
  if (!whole(d)) return damage(reader, "malformed end frame");
  const struct ab_totals *own = &reader->totals;
  if (t.observations != own->observations || t.counters != own->counters || t.metrics != own->metrics ||
      t.fingerprints != own->fingerprints)
    return damage(reader, "the totals at its end are not what it held");
  reader->over = true;
  return reader->handler->end(reader->ctx);
}

static const frame_fn frame_table[AB_FRAMES] = {
    [AB_FRAME_HEADER] = on_header,           [AB_FRAME_PLAN] = on_plan,       [AB_FRAME_OBSERVATION] = on_observation,
    [AB_FRAME_COUNTER] = on_counter,         [AB_FRAME_METRIC] = on_metric,   [AB_FRAME_NOTE] = on_note,
    [AB_FRAME_FINGERPRINT] = on_fingerprint, [AB_FRAME_ERROR] = on_error,     [AB_FRAME_END] = on_end,
};

/* What may stand in a head, before its payload is waited for. */
static ab_status check_head(struct ab_stream_reader *reader, uint32_t type, uint32_t length) {
  if (reader->over) return damage(reader, "a frame after the end");
  if (type >= AB_FRAMES || !frame_table[type]) return damage(reader, "a frame of unknown type");
  if ((type == AB_FRAME_HEADER) != (reader->frames == 0)) return damage(reader, "the header is not the first frame");
  if (length > AB_STREAM_FRAME_MAX) return damage(reader, "a frame longer than the limit");
  return AB_OK;
}

/* What a receiver refuses is the stream's fault, unless memory ran out. */
static ab_status deliver(struct ab_stream_reader *reader, uint32_t type, struct ab_decoder *payload) {
  ab_status status = frame_table[type](reader, payload);
  if (status == AB_OK || reader->damaged || status == AB_ENOMEM) return status;
  return damage(reader, ab_status_message());
}

static ab_status on_unit(struct ab_stream_reader *reader) {
  if (!reader->greeted) return greet(reader);
  struct ab_decoder head = {reader->pending, reader->pending + AB_FRAME_HEAD, false};
  uint32_t type = ab_get_u32(&head), length = ab_get_u32(&head);
  size_t checked = AB_FRAME_HEAD + (size_t)length;
  if (reader->used == AB_FRAME_HEAD) {
    AB_TRY(check_head(reader, type, length));
    return need(reader, checked + AB_FRAME_TAIL);
  }
  struct ab_decoder tail = {reader->pending + checked, reader->pending + checked + AB_FRAME_TAIL, false};
  if (ab_get_u64(&tail) != ab_frame_checksum(reader->pending, checked, reader->frames))
    return damage(reader, "the checksum of the frame is wrong");
  reader->frames++;
  struct ab_decoder payload = {reader->pending + AB_FRAME_HEAD, reader->pending + checked, false};
  AB_TRY(deliver(reader, type, &payload));
  consume(reader);
  return AB_OK;
}

ab_status ab_stream_feed(struct ab_stream_reader *reader, const void *bytes, size_t count) {
  const unsigned char *at = bytes;
  while (count) {
    if (reader->damaged) return AB_FAIL(AB_EFORMAT, "the stream was damaged before");
    if (reader->over) return damage(reader, "bytes after the end");
    size_t missing = reader->need - reader->used, taken = count < missing ? count : missing;
    memcpy(reader->pending + reader->used, at, taken);
    reader->used += taken;
    at += taken;
    count -= taken;
    ab_status status = reader->used == reader->need ? on_unit(reader) : AB_OK;
    reader->damaged |= status != AB_OK;
    AB_TRY(status);
  }
  return AB_OK;
}

ab_status ab_stream_finish(struct ab_stream_reader *reader) {
  if (reader->damaged) return AB_FAIL(AB_EFORMAT, "the stream was damaged before");
  if (!reader->over)
    return AB_FAIL(AB_ECOMM, "the stream ended at byte %llu, before its end frame",
                   (unsigned long long)(reader->offset + reader->used));
  return AB_OK;
}

ab_status ab_stream_read(struct ab_stream_reader *reader, int fd) {
  unsigned char block[16 * 1024];
  for (;;) {
    ssize_t n = read(fd, block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return AB_FAIL(AB_EIO, "cannot read the stream: %s", strerror(errno));
    if (n == 0) return ab_stream_finish(reader);
    AB_TRY(ab_stream_feed(reader, block, (size_t)n));
  }
}
