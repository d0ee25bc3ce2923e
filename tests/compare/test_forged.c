/* Frames whose checksum is right and whose content is not: what a faulty or hostile side could send. */
#include <stdio.h>
#include <string.h>

#include "codec.h"
#include "mem.h"
#include "recording.h"
#include "tap.h"

struct forge {
  unsigned char data[8192];
  struct ab_encoder e;
  uint64_t frames;
};

static void forge_frame(struct forge *f, uint32_t type, const unsigned char *payload, size_t size) {
  unsigned char *start = f->e.at;
  ab_put_u32(&f->e, type);
  ab_put_u32(&f->e, (uint32_t)size);
  memcpy(f->e.at, payload, size);
  f->e.at += size;
  ab_put_u64(&f->e, ab_frame_checksum(start, AB_FRAME_HEAD + size, f->frames++));
}

static void forge_start(struct forge *f) {
  *f = (struct forge){.frames = 0};
  f->e.at = f->data;
  memcpy(f->e.at, AB_STREAM_MAGIC, 8);
  f->e.at += 8;
  ab_put_u32(&f->e, AB_STREAM_VERSION);
}

static void forge_header(struct forge *f) {
  unsigned char payload[16];
  struct ab_encoder e = {payload};
  ab_put_text(&e, "{}", 2);
  forge_frame(f, AB_FRAME_HEADER, payload, (size_t)(e.at - payload));
}

static void forge_end(struct forge *f, uint64_t observations) {
  unsigned char payload[64];
  struct ab_encoder e = {payload};
  struct ab_totals totals = {.observations = observations};
  ab_put_totals(&e, &totals);
  forge_frame(f, AB_FRAME_END, payload, (size_t)(e.at - payload));
}

static ab_status receive(const struct forge *f, bool *complete) {
  struct ab_recording *r;
  struct ab_stream_reader *reader;
  ck_ok(ab_recording_new(&r, "forged"));
  ck_ok(ab_stream_reader_new(&reader, &ab_recording_handler, r));
  ab_status status = ab_stream_feed(reader, f->data, (size_t)(f->e.at - f->data));
  if (status == AB_OK) status = ab_stream_finish(reader);
  *complete = r->complete;
  ab_stream_reader_free(reader);
  ab_recording_free(r);
  return status;
}

/* Header, one frame, end: damage, with the sentence. */
static void refused(uint32_t type, const unsigned char *payload, size_t size, const char *sentence) {
  struct forge f;
  bool complete;
  forge_start(&f);
  forge_header(&f);
  forge_frame(&f, type, payload, size);
  forge_end(&f, 1);
  ck_fails(receive(&f, &complete), AB_EFORMAT, sentence);
  ck_assert(!complete);
}

static struct ab_observation sound(void) {
  return (struct ab_observation){.id = {0, 0, -1, 2, AB_FORWARD, "out_proj"},
                                 .at = {1, 1, 0, false},
                                 .dtype = AB_F32,
                                 .shape = {2, {3, 4}},
                                 .summary = {.count = 12}};
}

static size_t encode(unsigned char *payload, const struct ab_observation *o) {
  struct ab_encoder e = {payload};
  ab_put_observation(&e, o);
  return (size_t)(e.at - payload);
}

static void refused_observation(const struct ab_observation *o) {
  unsigned char payload[AB_RECORD_ROOM];
  size_t size = encode(payload, o);
  refused(AB_FRAME_OBSERVATION, payload, size, "malformed observation frame");
}

START_TEST(the_sound_one_is_accepted) {
  struct forge f;
  bool complete;
  unsigned char payload[AB_RECORD_ROOM];
  struct ab_observation o = sound();
  forge_start(&f);
  forge_header(&f);
  forge_frame(&f, AB_FRAME_OBSERVATION, payload, encode(payload, &o));
  forge_end(&f, 1);
  ck_ok(receive(&f, &complete));
  ck_assert(complete);
}
END_TEST

static void accepted(uint32_t type, const unsigned char *payload, size_t size) {
  struct forge f;
  bool complete;
  struct ab_totals totals = {.observations = type == AB_FRAME_OBSERVATION, .metrics = type == AB_FRAME_METRIC};
  unsigned char last[64];
  struct ab_encoder e = {last};
  forge_start(&f);
  forge_header(&f);
  forge_frame(&f, type, payload, size);
  ab_put_totals(&e, &totals);
  forge_frame(&f, AB_FRAME_END, last, (size_t)(e.at - last));
  ck_ok(receive(&f, &complete));
  ck_assert(complete);
}

START_TEST(fields_at_their_limits_are_accepted) {
  unsigned char payload[AB_RECORD_ROOM];
  struct ab_observation all[] = {sound(), sound(), sound(), sound(), sound(), sound(), sound()};
  all[0].id.phase = AB_UPDATE;
  all[1].dtype = AB_M61;
  all[2].shape = (struct ab_shape){8, {1, 1, 1, 1, 1, 1, 3, 4}};
  all[3].summary.nonfinite = 12;
  all[4].summary.negative_zeros = 12;
  all[5].id.step = INT32_MAX - 1;
  memset(all[6].id.tensor, 'n', AB_NAME_MAX); /* not ended: cut */
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    accepted(AB_FRAME_OBSERVATION, payload, encode(payload, &all[i]));
  struct ab_metric metric = {.step = 0};
  struct ab_encoder e = {payload};
  memset(metric.name, 'n', AB_NAME_MAX);
  ab_put_metric(&e, &metric);
  accepted(AB_FRAME_METRIC, payload, (size_t)(e.at - payload));
}
END_TEST

/* A payload of each kind, and how many bytes it has. */
static size_t payload_of(uint32_t type, unsigned char *payload) {
  struct ab_encoder e = {payload};
  struct ab_observation o = sound();
  struct ab_counter c = {.id = o.id, .at = o.at, .amount = 1};
  struct ab_metric m = {.step = 1, .name = "loss"};
  struct ab_fingerprint fp = {.id = o.id, .dtype = o.dtype, .shape = o.shape, .summary = o.summary};
  struct ab_totals totals = {.observations = 0};
  if (type == AB_FRAME_HEADER || type == AB_FRAME_NOTE) ab_put_text(&e, "text", 4);
  if (type == AB_FRAME_PLAN) ab_put_u64(&e, 7);
  if (type == AB_FRAME_OBSERVATION) ab_put_observation(&e, &o);
  if (type == AB_FRAME_COUNTER) ab_put_counter(&e, &c);
  if (type == AB_FRAME_METRIC) ab_put_metric(&e, &m);
  if (type == AB_FRAME_FINGERPRINT) ab_put_fingerprint(&e, &fp);
  if (type == AB_FRAME_ERROR) ab_put_u32(&e, AB_ENOTFOUND);
  if (type == AB_FRAME_ERROR) ab_put_text(&e, "why", 3);
  if (type == AB_FRAME_ERROR) ab_put_text(&e, "where", 5);
  if (type == AB_FRAME_END) ab_put_totals(&e, &totals);
  return (size_t)(e.at - payload);
}

/* Also where the last field that is there is whole, or only its length is. */
START_TEST(a_frame_cut_at_any_byte_is_damage) {
  static const char *const name[AB_FRAMES] = {
      [AB_FRAME_HEADER] = "header", [AB_FRAME_PLAN] = "plan",     [AB_FRAME_OBSERVATION] = "observation",
      [AB_FRAME_COUNTER] = "counter", [AB_FRAME_METRIC] = "metric", [AB_FRAME_FINGERPRINT] = "fingerprint",
      [AB_FRAME_NOTE] = "note",     [AB_FRAME_ERROR] = "error",   [AB_FRAME_END] = "end"};
  unsigned char payload[AB_RECORD_ROOM];
  for (uint32_t type = AB_FRAME_HEADER; type < AB_FRAMES; type++) {
    size_t whole = payload_of(type, payload);
    for (size_t size = 0; size < whole; size++) {
      struct forge f;
      bool complete;
      char sentence[96];
      forge_start(&f);
      if (type != AB_FRAME_HEADER) forge_header(&f);
      snprintf(sentence, sizeof sentence, "stream damaged at byte %zu: malformed %s frame", (size_t)(f.e.at - f.data),
               name[type]);
      forge_frame(&f, type, payload, size);
      ck_assert_int_eq(receive(&f, &complete), AB_EFORMAT);
      ck_assert_msg(strcmp(ab_status_message(), sentence) == 0, "%zu of %zu: %s", size, whole, ab_status_message());
    }
  }
}
END_TEST

START_TEST(an_error_frame_of_the_last_code_ends_a_stream) {
  unsigned char payload[AB_RECORD_ROOM];
  struct forge f;
  bool complete;
  forge_start(&f);
  forge_header(&f);
  forge_frame(&f, AB_FRAME_ERROR, payload, payload_of(AB_FRAME_ERROR, payload));
  ck_ok(receive(&f, &complete));
  ck_assert(!complete);
}
END_TEST

/* On the wire, where a length may say anything. */
START_TEST(names_of_no_byte_and_of_one_too_many_are_damage) {
  for (size_t length = 0; length <= AB_NAME_MAX; length++) {
    unsigned char payload[AB_RECORD_ROOM], name[AB_NAME_MAX];
    struct ab_encoder e = {payload};
    memset(name, 'n', sizeof name);
    ab_put_u32(&e, 1);
    ab_put_u32(&e, 1);
    ab_put_f64(&e, 0.5);
    ab_put_text(&e, (const char *)name, length);
    size_t size = (size_t)(e.at - payload);
    if (length % AB_NAME_MAX == 0) refused(AB_FRAME_METRIC, payload, size, "malformed metric frame");
    else accepted(AB_FRAME_METRIC, payload, size);
  }
}
END_TEST

START_TEST(notes_are_kept_up_to_the_last_byte) {
  for (size_t over = 0; over < 2; over++) {
    struct ab_recording *r;
    char *note;
    size_t length = (size_t)64 * 1024 - 2 + over;
    ck_ok(ab_recording_new(&r, "chatty"));
    ck_ok(ab_mem_new(&note, length + 1, 1));
    memset(note, 'n', length);
    ck_ok(ab_recording_handler.note(r, note));
    ck_assert_uint_eq(r->note_bytes, over ? 0 : length + 1);
    ab_mem_free(note);
    ab_recording_free(r);
  }
}
END_TEST

START_TEST(fields_out_of_range_are_damage) {
  struct ab_observation o = sound();
  o.id.step = -2;
  refused_observation(&o);
  o = sound();
  o.id.phase = (enum ab_phase)4;
  refused_observation(&o);
  o = sound();
  o.dtype = (enum ab_dtype)6;
  refused_observation(&o);
  o = sound();
  o.id.tensor[0] = '\0';
  refused_observation(&o);
  o = sound();
  o.summary.count = 13;
  refused_observation(&o);
  o = sound();
  o.summary.nonfinite = 13;
  refused_observation(&o);
  o = sound();
  o.summary.negative_zeros = 13;
  refused_observation(&o);
  o = sound();
  o.shape.dim[0] = -3;
  refused_observation(&o);
  o = sound();
  o.shape = (struct ab_shape){2, {INT64_MAX, INT64_MAX}};
  o.summary.count = 1;
  refused_observation(&o);
}
END_TEST

/* Bytes changed inside an encoded frame. */
static void refused_patch(size_t at, unsigned char value) {
  unsigned char payload[AB_RECORD_ROOM];
  struct ab_observation o = sound();
  size_t size = encode(payload, &o);
  payload[at] = value;
  refused(AB_FRAME_OBSERVATION, payload, size, "malformed observation frame");
}

START_TEST(texts_ranks_and_lengths_that_lie_are_damage) {
  unsigned char payload[AB_RECORD_ROOM];
  struct ab_observation o = sound();
  size_t size = encode(payload, &o), name = 20, where = name + 4 + strlen("out_proj"), rank = where + 16 + 4;
  refused_patch(name + 4 + 3, '\0');  /* NUL inside a name */
  refused_patch(name, 7);             /* a shorter name shifts the rest */
  refused_patch(name, 255);           /* longer than any name */
  refused_patch(name + 3, 0x7f);      /* longer than the frame */
  refused_patch(where + 12, 2);       /* bubble is 0 or 1 */
  refused_patch(rank, 9);
  refused_patch(rank, 1);             /* one extent less: the frame is too long */
  refused(AB_FRAME_OBSERVATION, payload, size - 1, "malformed observation frame");
  payload[size] = 0;
  refused(AB_FRAME_OBSERVATION, payload, size + 1, "malformed observation frame");
  refused(AB_FRAME_OBSERVATION, payload, 0, "malformed observation frame");
}
END_TEST

START_TEST(every_kind_of_frame_refuses_a_byte_too_few_or_too_many) {
  static const char *const sentence[AB_FRAMES] = {
      [AB_FRAME_PLAN] = "plan",   [AB_FRAME_COUNTER] = "counter", [AB_FRAME_METRIC] = "metric",
      [AB_FRAME_NOTE] = "note",   [AB_FRAME_ERROR] = "error",     [AB_FRAME_FINGERPRINT] = "fingerprint",
      [AB_FRAME_END] = "end"};
  unsigned char payload[AB_RECORD_ROOM] = {0};
  for (uint32_t type = AB_FRAME_PLAN; type < AB_FRAMES; type++) {
    char expected[64];
    if (!sentence[type]) continue;
    snprintf(expected, sizeof expected, "malformed %s frame", sentence[type]);
    refused(type, payload, 3, expected);
    refused(type, payload, 1000, expected);
  }
}
END_TEST

START_TEST(unknown_types_and_headers_in_the_wrong_place_are_damage) {
  struct forge f;
  bool complete;
  refused(0, (const unsigned char *)"", 0, "unknown type");
  refused(AB_FRAMES, (const unsigned char *)"", 0, "unknown type");
  refused(0xffffffffu, (const unsigned char *)"", 0, "unknown type");
  forge_start(&f);
  forge_end(&f, 0);
  ck_fails(receive(&f, &complete), AB_EFORMAT, "not the first frame");
  forge_start(&f);
  forge_header(&f);
  forge_header(&f);
  ck_fails(receive(&f, &complete), AB_EFORMAT, "not the first frame");
}
END_TEST

START_TEST(an_end_that_counts_otherwise_is_damage) {
  struct forge f;
  bool complete;
  unsigned char payload[AB_RECORD_ROOM];
  struct ab_observation o = sound();
  for (uint64_t claimed = 0; claimed < 4; claimed++) {
    forge_start(&f);
    forge_header(&f);
    forge_frame(&f, AB_FRAME_OBSERVATION, payload, encode(payload, &o));
    forge_end(&f, claimed);
    ab_status status = receive(&f, &complete);
    ck_assert_int_eq(status, claimed == 1 ? AB_OK : AB_EFORMAT);
    ck_assert(complete == (claimed == 1));
  }
}
END_TEST

START_TEST(an_error_frame_must_be_an_error) {
  static const uint32_t codes[] = {AB_OK, AB_ENOTFOUND + 1, 0xffffffffu};
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    unsigned char payload[64];
    struct ab_encoder e = {payload};
    ab_put_u32(&e, codes[i]);
    ab_put_text(&e, "why", 3);
    ab_put_text(&e, "where", 5);
    refused(AB_FRAME_ERROR, payload, (size_t)(e.at - payload), "malformed error frame");
  }
}
END_TEST

START_TEST(repeated_metrics_fingerprints_and_overflowing_counters_are_refused) {
  struct ab_recording *r;
  struct ab_metric m = {.step = 1, .name = "lo\x01s"};
  struct ab_fingerprint fp = {.id = {0, 0, -1, 2, AB_BACKWARD, "mlp/\x7f/kernel"}};
  struct ab_counter c = {.id = {0, 0, -1, -1, AB_FORWARD, "\xe5xecute"}, .amount = INT64_MAX};
  ck_ok(ab_recording_new(&r, "forged"));
  ck_ok(ab_recording_add_metric(r, &m));
  ck_fails(ab_recording_add_metric(r, &m), AB_EMISMATCH, "'lo\\x01s' of step 1 was reported twice");
  m.step = 2;
  ck_ok(ab_recording_add_metric(r, &m));
  ck_ok(ab_recording_add_fingerprint(r, &fp));
  ck_fails(ab_recording_add_fingerprint(r, &fp), AB_EMISMATCH, "mlp/\\x7f/kernel backward' was fingerprinted twice");
  ck_ok(ab_recording_add_counter(r, &c));
  c.amount = 1;
  ck_fails(ab_recording_add_counter(r, &c), AB_EFORMAT, "'step 0 \\xe5xecute forward' overflows");
  ab_recording_free(r);
}
END_TEST

START_TEST(a_chatty_side_does_not_fill_the_parent) {
  struct ab_recording *r;
  char *note;
  ck_ok(ab_recording_new(&r, "chatty"));
  ck_ok(ab_mem_new(&note, 10001, 1));
  memset(note, 'n', 10000);
  for (int i = 0; i < 100; i++) ck_ok(ab_recording_handler.note(r, note));
  ck_assert_uint_le(r->note_bytes, 64 * 1024);
  ck_assert_uint_gt(r->note_bytes, 32 * 1024);
  ab_mem_free(note);
  ab_recording_free(r);
}
END_TEST

START_TEST(identities_differ_in_every_part) {
  struct ab_identity a = {1, 2, 3, 4, AB_BACKWARD, "x"};
  struct ab_identity others[6] = {a, a, a, a, a, a};
  others[0].step++;
  others[1].accumulation++;
  others[2].microbatch++;
  others[3].layer++;
  others[4].phase = AB_UPDATE;
  others[5].tensor[0]++;
  ck_assert(ab_identity_equal(&a, &a));
  for (int i = 0; i < 6; i++) {
    ck_assert(!ab_identity_equal(&a, &others[i]));
    ck_assert_uint_ne(ab_identity_hash(&a), ab_identity_hash(&others[i]));
  }
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("forged");
  TCase *c = tcase_create("forged");
  tcase_add_test(c, the_sound_one_is_accepted);
  tcase_add_test(c, fields_at_their_limits_are_accepted);
  tcase_add_test(c, a_frame_cut_at_any_byte_is_damage);
  tcase_add_test(c, an_error_frame_of_the_last_code_ends_a_stream);
  tcase_add_test(c, names_of_no_byte_and_of_one_too_many_are_damage);
  tcase_add_test(c, notes_are_kept_up_to_the_last_byte);
  tcase_add_test(c, fields_out_of_range_are_damage);
  tcase_add_test(c, texts_ranks_and_lengths_that_lie_are_damage);
  tcase_add_test(c, every_kind_of_frame_refuses_a_byte_too_few_or_too_many);
  tcase_add_test(c, unknown_types_and_headers_in_the_wrong_place_are_damage);
  tcase_add_test(c, an_end_that_counts_otherwise_is_damage);
  tcase_add_test(c, an_error_frame_must_be_an_error);
  tcase_add_test(c, repeated_metrics_fingerprints_and_overflowing_counters_are_refused);
  tcase_add_test(c, a_chatty_side_does_not_fill_the_parent);
  tcase_add_test(c, identities_differ_in_every_part);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
