#include <string.h>

#include "mem.h"
#include "recording.h"

enum { NOTES_MAX = 64 * 1024 }; /* bytes kept; a chatty side cannot fill the parent */

static ab_status on_header(void *ctx, const char *text) {
  struct ab_recording *r = ctx;
  return ab_mem_string(&r->header, text);
}

static ab_status on_plan(void *ctx, uint64_t bytes) {
  ((struct ab_recording *)ctx)->plan_bytes = bytes;
  return AB_OK;
}

static ab_status on_observation(void *ctx, const struct ab_observation *observation) {
  return ab_recording_observe(ctx, observation);
}

static ab_status on_counter(void *ctx, const struct ab_counter *counter) {
  return ab_recording_add_counter(ctx, counter);
}

static ab_status on_metric(void *ctx, const struct ab_metric *metric) { return ab_recording_add_metric(ctx, metric); }

static ab_status on_fingerprint(void *ctx, const struct ab_fingerprint *fingerprint) {
  return ab_recording_add_fingerprint(ctx, fingerprint);
}

static ab_status on_note(void *ctx, const char *text) {
  struct ab_recording *r = ctx;
  size_t length = strlen(text);
  if (r->note_bytes + length + 2 > NOTES_MAX) return AB_OK;
  AB_TRY(ab_mem_resize(&r->notes, r->note_bytes + length + 2, 1));
  memcpy(r->notes + r->note_bytes, text, length);
  r->note_bytes += length;
  r->notes[r->note_bytes++] = '\n';
  return AB_OK;
}

static ab_status on_error(void *ctx, ab_status code, const char *sentence, const char *trace) {
  struct ab_recording *r = ctx;
  AB_TRY(ab_mem_string(&r->error_sentence, sentence));
  AB_TRY(ab_mem_string(&r->error_trace, trace));
  r->error = code;
  return AB_OK;
}

static ab_status on_end(void *ctx) {
  ab_recording_complete(ctx);
  return AB_OK;
}

const struct ab_stream_handler ab_recording_handler = {
    .header = on_header, .plan = on_plan, .observation = on_observation, .counter = on_counter, .metric = on_metric,
    .fingerprint = on_fingerprint, .note = on_note, .error = on_error, .end = on_end};
