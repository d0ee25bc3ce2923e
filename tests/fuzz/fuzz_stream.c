/* Streams from a side. The first byte says how the rest is read: even, the bytes of the pipe as they are; odd, frames
 * whose checksums are made right here, so that what lies behind the checksum is reached too. Bits 1 to 7 say in what
 * pieces they arrive: the pieces must not matter.
 */
#include <stdlib.h>
#include <string.h>

#include "codec.h"
#include "fuzz.h"
#include "mem.h"
#include "recording.h"

enum { PREAMBLE = AB_PREAMBLE, ROOM = 1 << 16 };

struct bytes {
  unsigned char data[ROOM];
  size_t size;
};

/* u8 type, u16 length, payload; a length of more than is left takes what is left. */
static size_t put_frame(struct bytes *out, const uint8_t *at, size_t left, uint64_t number) {
  size_t length = left > 2 ? (size_t)(at[1] | at[2] << 8) : 0, head = left < 3 ? left : 3;
  if (length > left - head) length = left - head;
  if (out->size + length + AB_FRAME_HEAD + AB_FRAME_TAIL > ROOM) return left;
  struct ab_encoder e = {out->data + out->size};
  ab_put_u32(&e, at[0]);
  ab_put_u32(&e, (uint32_t)length);
  memcpy(e.at, at + head, length);
  e.at += length;
  ab_put_u64(&e, ab_frame_checksum(out->data + out->size, AB_FRAME_HEAD + length, number));
  out->size = (size_t)(e.at - out->data);
  return head + length;
}

static void put_frames(struct bytes *out, const uint8_t *at, size_t left) {
  struct ab_encoder e = {out->data};
  memcpy(e.at, AB_STREAM_MAGIC, 8);
  e.at += 8;
  ab_put_u32(&e, AB_STREAM_VERSION);
  out->size = PREAMBLE;
  for (uint64_t number = 0; left; number++) {
    size_t taken = put_frame(out, at, left, number);
    at += taken;
    left -= taken;
  }
}

static bool feed(struct ab_recording **out, const struct bytes *bytes, size_t piece) {
  struct ab_stream_reader *reader;
  fuzz_check(ab_recording_new(out, "side") == AB_OK, "no recording");
  fuzz_check(ab_stream_reader_new(&reader, &ab_recording_handler, *out) == AB_OK, "no reader");
  ab_status status = AB_OK;
  for (size_t at = 0; at < bytes->size && status == AB_OK; at += piece)
    status = ab_stream_feed(reader, bytes->data + at, bytes->size - at < piece ? bytes->size - at : piece);
  bool fed = fuzz_read(status), complete = fuzz_read(ab_stream_finish(reader)) && fed;
  ab_stream_reader_free(reader);
  return complete;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct bytes bytes;
  struct ab_recording *whole, *pieces;
  size_t live = fuzz_begin();
  if (size < 1 || size > ROOM) return 0;
  bytes.size = size - 1;
  memcpy(bytes.data, data + 1, size - 1);
  if (data[0] & 1) put_frames(&bytes, data + 1, size - 1);
  bool complete = feed(&whole, &bytes, ROOM);
  fuzz_check(feed(&pieces, &bytes, (size_t)data[0] / 2 + 1) == complete, "the pieces of a stream matter");
  ab_recording_free(whole);
  ab_recording_free(pieces);
  fuzz_end(live);
  return 0;
}
