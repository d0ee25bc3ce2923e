#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mem.h"
#include "recording.h"
#include "tap.h"

/* A whole stream in memory, with the offset behind each frame. */
struct bytes {
  unsigned char data[64 * 1024];
  size_t size, end_of_header;
};

static struct ab_observation observation(int layer, const char *name) {
  struct ab_observation o = {.id = {3, 0, 1, layer, AB_BACKWARD, ""}, .at = {5, 1, 0, false}, .dtype = AB_F32};
  strncat(o.id.tensor, name, AB_NAME_MAX - 1);
  o.shape = (struct ab_shape){2, {3, 7}};
  o.summary = (struct ab_summary){{1, UINT64_MAX}, 21, 0, 2, 1.5, -2.25, 0.1};
  return o;
}

static struct ab_counter counter(int64_t amount, int repeat) {
  return (struct ab_counter){.id = {0, 0, 2, 1, AB_FORWARD, "execute"}, .at = {4, 1, repeat, false}, .amount = amount};
}

static struct ab_fingerprint fingerprint(void) {
  float values[6] = {1, -2, 3, -4, 5, -0.0f};
  struct ab_view view = {.dtype = AB_F32, .shape = {2, {2, 3}}, .data = values};
  struct ab_identity id = {0, 0, -1, 2, AB_BACKWARD, "mlp/wo/kernel"};
  struct ab_fingerprint f;
  ab_view_contiguous(&view);
  ab_fingerprint(&f, &id, &view, 7);
  return f;
}

static void send_all(struct ab_stream_writer *w) {
  struct ab_observation first = observation(0, "query_proj"), second = observation(1, "query_proj");
  struct ab_counter c = counter(2, 0);
  struct ab_metric m = {1, "loss", (double)0.1f, true};
  struct ab_fingerprint f = fingerprint();
  ck_ok(ab_stream_plan(w, UINT64_C(1) << 40));
  ck_ok(ab_stream_observation(w, &first));
  ck_ok(ab_stream_counter(w, &c));
  ck_ok(ab_stream_observation(w, &second));
  ck_ok(ab_stream_metric(w, &m));
  ck_ok(ab_stream_fingerprint(w, &f));
  ck_ok(ab_stream_note(w, "a note"));
}

static size_t drain(int fd, unsigned char *data, size_t room) {
  size_t size = 0;
  for (ssize_t n; (n = read(fd, data + size, room - size)) > 0;) size += (size_t)n;
  return size;
}

static void make_stream(struct bytes *out, void (*send)(struct ab_stream_writer *), bool end) {
  int fds[2];
  struct ab_stream_writer *w;
  ck_assert_int_eq(pipe(fds), 0);
  ck_ok(ab_stream_writer_new(&w, fds[1], "{\"route\": \"linen\"}"));
  send(w);
  if (end) ck_ok(ab_stream_end(w));
  ab_stream_writer_free(w);
  close(fds[1]);
  out->size = drain(fds[0], out->data, sizeof out->data);
  close(fds[0]);
}

/* Feeds everything in pieces; the status of the last call. */
static ab_status receive(struct ab_recording *r, const void *data, size_t size, size_t piece) {
  struct ab_stream_reader *reader;
  ck_ok(ab_stream_reader_new(&reader, &ab_recording_handler, r));
  ab_status status = AB_OK;
  for (size_t at = 0; at < size && status == AB_OK; at += piece)
    status = ab_stream_feed(reader, (const unsigned char *)data + at, size - at < piece ? size - at : piece);
  if (status == AB_OK) status = ab_stream_finish(reader);
  ab_stream_reader_free(reader);
  return status;
}

static ab_status receive_new(bool *complete, const void *data, size_t size) {
  struct ab_recording *r;
  ck_ok(ab_recording_new(&r, "linen"));
  ab_status status = receive(r, data, size, size ? size : 1);
  *complete = r->complete;
  ab_recording_free(r);
  return status;
}

static void check_observation(const struct ab_observation *got, const struct ab_observation *sent) {
  ck_assert(ab_identity_equal(&got->id, &sent->id));
  ck_assert_int_eq(got->at.iteration, sent->at.iteration);
  ck_assert_int_eq(got->at.stage, sent->at.stage);
  ck_assert_int_eq(got->at.repeat, sent->at.repeat);
  ck_assert(got->at.bubble == sent->at.bubble);
  ck_assert_int_eq(got->dtype, sent->dtype);
  ck_assert(ab_shape_equal(&got->shape, &sent->shape));
  ck_assert_mem_eq(&got->summary, &sent->summary, sizeof got->summary);
}

static void check_received(const struct ab_recording *r) {
  struct ab_observation first = observation(0, "query_proj"), second = observation(1, "query_proj");
  struct ab_fingerprint f = fingerprint();
  ck_assert(r->complete);
  ck_assert_str_eq(r->header, "{\"route\": \"linen\"}");
  ck_assert_uint_eq(r->plan_bytes, UINT64_C(1) << 40);
  ck_assert_uint_eq(r->observations, 2);
  check_observation(&r->observation[0].observation, &first);
  check_observation(&r->observation[1].observation, &second);
  ck_assert_ptr_eq(ab_recording_find(r, &second.id), &r->observation[1]);
  ck_assert_uint_eq(r->metrics, 1);
  ck_assert_uint_eq(r->metric[0].order, 2);
  ck_assert_double_eq(ab_recording_metric(r, 1, "loss")->metric.value, (double)0.1f);
  ck_assert(r->metric[0].metric.f32);
  ck_assert_int_eq(r->counter[0].amount, 2);
  ck_assert_uint_eq(r->fingerprints, 1);
  ck_assert_mem_eq(r->fingerprint[0].sample, f.sample, sizeof f.sample);
  ck_assert_mem_eq(r->fingerprint[0].projection, f.projection, sizeof f.projection);
  ck_assert_uint_eq(r->fingerprint[0].seed, 7);
  ck_assert_str_eq(r->notes, "a note\n");
}

START_TEST(what_is_sent_arrives_in_any_pieces) {
  static const size_t pieces[] = {1, 2, 3, 7, 64, 1000, 65536};
  struct bytes stream;
  make_stream(&stream, send_all, true);
  for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
    struct ab_recording *r;
    ck_ok(ab_recording_new(&r, "linen"));
    ck_ok(receive(r, stream.data, stream.size, pieces[i]));
    check_received(r);
    ab_recording_free(r);
  }
}
END_TEST

START_TEST(a_cut_at_any_byte_is_never_complete) {
  struct bytes stream;
  bool complete;
  make_stream(&stream, send_all, true);
  for (size_t size = 0; size < stream.size; size++) {
    ck_fails(receive_new(&complete, stream.data, size), AB_ECOMM, "ended at byte");
    ck_assert(!complete);
  }
  ck_ok(receive_new(&complete, stream.data, stream.size));
  ck_assert(complete);
}
END_TEST

START_TEST(any_flipped_bit_is_seen) {
  struct bytes stream;
  bool complete;
  make_stream(&stream, send_all, true);
  for (size_t bit = 0; bit < 8 * stream.size; bit++) {
    stream.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    ab_status status = receive_new(&complete, stream.data, stream.size);
    ck_assert_msg(status == AB_EFORMAT || status == AB_ECOMM, "bit %zu: status %d", bit, status);
    ck_assert_msg(!complete, "bit %zu", bit);
    stream.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
  }
}
END_TEST

/* Start of frame n (0: header) and its whole size. */
static size_t frame_at(const struct bytes *s, int n, size_t *size) {
  size_t at = 12;
  for (;; n--) {
    uint32_t length;
    memcpy(&length, s->data + at + 4, 4);
    *size = 16 + (size_t)length;
    if (n == 0) return at;
    at += *size;
  }
}

START_TEST(repeated_lost_and_reordered_frames_are_damage) {
  struct bytes s, t;
  bool complete;
  size_t size, next_size;
  make_stream(&s, send_all, true);
  size_t at = frame_at(&s, 2, &size), next = frame_at(&s, 3, &next_size);
  t = s; /* twice */
  memcpy(t.data + at + size, s.data + at, s.size - at);
  ck_fails(receive_new(&complete, t.data, s.size + size), AB_EFORMAT, "checksum");
  char offset[64];
  snprintf(offset, sizeof offset, "damaged at byte %zu: ", at + size);
  ck_assert_ptr_nonnull(strstr(ab_status_message(), offset));
  t = s; /* lost */
  memcpy(t.data + at, s.data + next, s.size - next);
  ck_fails(receive_new(&complete, t.data, s.size - size), AB_EFORMAT, "checksum");
  t = s; /* exchanged */
  memcpy(t.data + at, s.data + next, next_size);
  memcpy(t.data + at + next_size, s.data + at, size);
  ck_fails(receive_new(&complete, t.data, s.size), AB_EFORMAT, "checksum");
  t = s; /* a side's own writer again after the end */
  memcpy(t.data + s.size, s.data, 12);
  ck_fails(receive_new(&complete, t.data, s.size + 1), AB_EFORMAT, "after the end");
}
END_TEST

static void send_twice(struct ab_stream_writer *w) {
  struct ab_observation o = observation(0, "query_proj");
  ck_ok(ab_stream_observation(w, &o));
  ck_ok(ab_stream_observation(w, &o));
}

START_TEST(an_identity_observed_twice_is_damage_and_names_it) {
  struct bytes s;
  bool complete;
  make_stream(&s, send_twice, true);
  ck_fails(receive_new(&complete, s.data, s.size), AB_EFORMAT,
           "'step 3 microbatch 1 layers/0/query_proj backward' was observed twice");
  ck_assert(!complete);
}
END_TEST

static void send_bubbles(struct ab_stream_writer *w) {
  struct ab_observation o = observation(0, "query_proj");
  o.at.bubble = true;
  for (int i = 0; i < 3; i++) ck_ok(ab_stream_observation(w, &o));
}

START_TEST(bubbles_stay_outside) {
  struct bytes s;
  struct ab_recording *r;
  make_stream(&s, send_bubbles, true);
  ck_ok(ab_recording_new(&r, "linen"));
  ck_ok(receive(r, s.data, s.size, s.size));
  ck_assert_uint_eq(r->bubbles, 3);
  ck_assert_uint_eq(r->observations, 0);
  ab_recording_free(r);
}
END_TEST

/* Of a backward value, of a finite one, and of two that are not, the third is the one to name. */
static void send_poles(struct ab_stream_writer *w) {
  struct ab_observation o = observation(0, "query_proj");
  o.at.bubble = true;
  for (int i = 0; i < 4; i++) {
    o.at.stage = i;
    o.id.phase = i == 0 ? AB_BACKWARD : AB_FORWARD;
    o.summary.nonfinite = i == 1 ? 0 : 2;
    ck_ok(ab_stream_observation(w, &o));
  }
}

START_TEST(the_first_pole_of_a_bubble_is_kept) {
  struct bytes s;
  struct ab_recording *r;
  make_stream(&s, send_poles, true);
  ck_ok(ab_recording_new(&r, "linen"));
  ck_ok(receive(r, s.data, s.size, s.size));
  ck_assert(r->has_pole);
  ck_assert_int_eq(r->pole.at.stage, 2);
  ck_assert_uint_eq(r->observations, 0);
  ab_recording_free(r);
}
END_TEST

static void send_error(struct ab_stream_writer *w) {
  struct ab_observation o = observation(4, "attention_out");
  ck_ok(ab_stream_observation(w, &o));
  ck_ok(ab_stream_error(w, AB_ESHAPE, "the sentence", "a.c:1 b.c:2"));
  ck_fails(ab_stream_observation(w, &o), AB_EFORMAT, "after the end");
}

START_TEST(an_error_is_the_last_word_and_never_complete) {
  struct bytes s;
  struct ab_recording *r;
  char last[AB_IDENTITY_TEXT];
  make_stream(&s, send_error, false);
  ck_ok(ab_recording_new(&r, "linen"));
  ck_ok(receive(r, s.data, s.size, 5));
  ck_assert(!r->complete);
  ck_assert_int_eq(r->error, AB_ESHAPE);
  ck_assert_str_eq(r->error_sentence, "the sentence");
  ck_assert_str_eq(r->error_trace, "a.c:1 b.c:2");
  ab_recording_last(last, r);
  ck_assert_str_eq(last, "step 3 microbatch 1 layers/4/attention_out backward");
  ab_recording_complete(r);
  ck_assert(!r->complete);
  ab_recording_free(r);
}
END_TEST

START_TEST(garbage_versions_and_lengths_are_refused) {
  struct bytes s;
  bool complete;
  uint32_t large = 0x7fffffff;
  make_stream(&s, send_all, true);
  ck_fails(receive_new(&complete, "HTTP/1.1 200 OK\r\n", 17), AB_EFORMAT, "damaged at byte 0");
  s.data[8] = 2;
  ck_fails(receive_new(&complete, s.data, s.size), AB_EFORMAT, "version 2, expected 1");
  s.data[8] = 1;
  memcpy(s.data + 16, &large, 4);
  ck_fails(receive_new(&complete, s.data, s.size), AB_EFORMAT, "longer than the limit");
}
END_TEST

START_TEST(the_writer_reports_a_parent_that_is_gone) {
  int fds[2];
  struct ab_stream_writer *w;
  signal(SIGPIPE, SIG_IGN);
  ck_assert_int_eq(pipe(fds), 0);
  ck_ok(ab_stream_writer_new(&w, fds[1], "{}"));
  close(fds[0]);
  ck_fails(ab_stream_end(w), AB_EIO, "Broken pipe");
  ck_fails(ab_stream_note(w, "more"), AB_EIO, "failed before");
  ab_stream_writer_free(w);
  close(fds[1]);
}
END_TEST

/* A note whose frame has `payload` bytes, written to a file and read back. */
static ab_status send_note(size_t payload) {
  struct ab_stream_writer *w;
  char *text, path[] = "/tmp/ab_stream_XXXXXX";
  int fd = mkstemp(path);
  bool complete = false;
  size_t length = payload - 4; /* behind its own length */
  unlink(path);
  ck_ok(ab_stream_writer_new(&w, fd, "{}"));
  ck_ok(ab_mem_new(&text, length + 1, 1));
  memset(text, 'x', length);
  ab_status status = ab_stream_note(w, text);
  ck_ok(ab_stream_end(w));
  ab_mem_free(text);
  ab_stream_writer_free(w);
  off_t size = lseek(fd, 0, SEEK_END);
  ck_ok(ab_mem_new(&text, (size_t)size, 1));
  ck_assert_int_eq(pread(fd, text, (size_t)size, 0), size);
  ck_ok(receive_new(&complete, text, (size_t)size));
  ck_assert(complete);
  ab_mem_free(text);
  close(fd);
  return status;
}

START_TEST(a_frame_of_one_mebibyte_and_not_one_byte_more) {
  ck_ok(send_note(AB_STREAM_FRAME_MAX - 1));
  ck_ok(send_note(AB_STREAM_FRAME_MAX));
  ck_fails(send_note(AB_STREAM_FRAME_MAX + 1), AB_EFORMAT, "1048577 bytes does not go into the stream, at most 1048576");
}
END_TEST

/* The reader refuses by the head, before it waits for the rest. */
START_TEST(a_head_that_states_more_is_refused) {
  struct bytes s;
  bool complete;
  make_stream(&s, send_all, true);
  for (uint32_t length = AB_STREAM_FRAME_MAX - 1; length <= AB_STREAM_FRAME_MAX + 1; length++) {
    memcpy(s.data + 16, &length, 4);
    ab_status status = receive_new(&complete, s.data, s.size);
    bool over = length > AB_STREAM_FRAME_MAX;
    ck_assert_msg(status == (over ? AB_EFORMAT : AB_ECOMM) &&
                      strstr(ab_status_message(), over ? "longer than the limit" : "before its end frame"),
                  "%u: %d, %s", length, status, ab_status_message());
  }
}
END_TEST

START_TEST(the_writer_refuses_what_follows_the_end) {
  int fds[2];
  struct ab_stream_writer *w;
  ck_assert_int_eq(pipe(fds), 0);
  ck_ok(ab_stream_writer_new(&w, fds[1], "{}"));
  ck_ok(ab_stream_end(w));
  ck_fails(ab_stream_note(w, "more"), AB_EFORMAT, "after the end");
  ab_stream_writer_free(w);
  close(fds[0]);
  close(fds[1]);
}
END_TEST

START_TEST(counters_are_summed_by_place) {
  struct ab_recording *r;
  struct ab_identity any = {-1, -1, -1, -1, AB_FORWARD, "execute"}, other = any;
  struct ab_where at = {-1, -1, 1, false};
  strcpy(other.tensor, "gather");
  ck_ok(ab_recording_new(&r, "linen"));
  for (int i = 0; i < 1000; i++) {
    struct ab_counter c = counter(1, i % 4);
    c.id.step = i % 7;
    ck_ok(ab_recording_add_counter(r, &c));
  }
  ck_assert_uint_eq(r->counters, 28);
  ck_assert_int_eq(ab_recording_count(r, &any, NULL), 1000);
  ck_assert_int_eq(ab_recording_count(r, &any, &at), 250);
  ck_assert_int_eq(ab_recording_count(r, &other, NULL), 0);
  any.step = 0;
  ck_assert_int_eq(ab_recording_count(r, &any, NULL), 143);
  ab_recording_free(r);
}
END_TEST

START_TEST(the_probe_feeds_the_stream) {
  struct bytes s;
  int fds[2];
  struct ab_stream_writer *w;
  struct ab_probe *probe;
  float values[2] = {1, 2};
  struct ab_view view = {.dtype = AB_F32, .shape = {1, {2}}, .stride = {1}, .data = values};
  struct ab_identity id = {0, 0, -1, -1, AB_FORWARD, "logits"};
  struct ab_where nowhere = {-1, -1, -1, false};
  ck_assert_int_eq(pipe(fds), 0);
  ck_ok(ab_stream_writer_new(&w, fds[1], "{}"));
  ck_ok(ab_probe_new(&probe, &ab_stream_probe, w, AB_LEVEL_DIGEST, 1));
  ab_probe_step(probe, 4, 0);
  ck_ok(ab_probe_observe(probe, &id, &nowhere, &view));
  ck_ok(ab_probe_count(probe, "gather", NULL, &nowhere, 3));
  ck_ok(ab_stream_end(w));
  ab_probe_free(probe);
  ab_stream_writer_free(w);
  close(fds[1]);
  s.size = drain(fds[0], s.data, sizeof s.data);
  close(fds[0]);
  struct ab_recording *r;
  ck_ok(ab_recording_new(&r, "linen"));
  ck_ok(receive(r, s.data, s.size, s.size));
  id.step = 4;
  ck_assert_ptr_nonnull(ab_recording_find(r, &id));
  ck_assert_int_eq(ab_recording_count(r, &(struct ab_identity){-1, -1, -1, -1, AB_FORWARD, "gather"}, NULL), 3);
  ab_recording_free(r);
}
END_TEST

START_TEST(many_observations_are_all_found) {
  struct ab_recording *r;
  size_t before = ab_mem_stats().live_blocks;
  ck_ok(ab_recording_new(&r, "linen"));
  for (int i = 0; i < 5000; i++) {
    struct ab_observation o = observation(i, "x");
    ck_ok(ab_recording_observe(r, &o));
  }
  for (int i = 0; i < 5000; i++) {
    struct ab_observation o = observation(i, "x");
    ck_assert_uint_eq(ab_recording_find(r, &o.id)->order, (size_t)i);
  }
  struct ab_observation none = observation(0, "y");
  ck_assert_ptr_null(ab_recording_find(r, &none.id));
  ab_recording_free(r);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, before);
}
END_TEST

START_TEST(a_recomputed_tensor_must_be_the_forward_one) {
  struct ab_recording *r;
  const struct ab_recorded *first;
  ck_ok(ab_recording_new(&r, "linen"));
  for (int layer = 0; layer < 3; layer++)
    for (int again = 0; again < 2; again++) {
      struct ab_observation o = observation(layer, "x");
      o.id.phase = again ? AB_RECOMPUTE : AB_FORWARD;
      o.summary.digest[0] += layer == 1 && again;
      ck_ok(ab_recording_observe(r, &o));
    }
  ck_assert_uint_eq(ab_recording_recompute_faults(r, &first), 1);
  ck_assert_int_eq(first->observation.id.layer, 1);
  struct ab_observation alone = observation(9, "x");
  alone.id.phase = AB_RECOMPUTE;
  ck_ok(ab_recording_observe(r, &alone)); /* nothing that it could be equal to */
  ck_assert_uint_eq(ab_recording_recompute_faults(r, &first), 2);
  ab_recording_free(r);
}
END_TEST

START_TEST(a_lone_recomputed_tensor_is_a_fault_wherever_it_stands) {
  struct ab_recording *r;
  char last[AB_IDENTITY_TEXT] = "?";
  const struct ab_recorded *first = (const struct ab_recorded *)last;
  ck_ok(ab_recording_new(&r, "linen"));
  ab_recording_last(last, r);
  ck_assert_str_eq(last, "nothing");
  ck_assert_uint_eq(ab_recording_recompute_faults(r, &first), 0);
  ck_assert_ptr_null(first);
  struct ab_observation alone = observation(9, "x"), cotangent = observation(8, "x");
  alone.id.phase = AB_RECOMPUTE;
  cotangent.id.phase = AB_BACKWARD;
  ck_ok(ab_recording_observe(r, &alone));
  ck_ok(ab_recording_observe(r, &cotangent));
  ck_assert_uint_eq(ab_recording_recompute_faults(r, &first), 1);
  ck_assert_ptr_eq(first, r->observation);
  ab_recording_free(r);
}
END_TEST

START_TEST(a_metric_is_found_by_the_longest_name_and_by_what_is_cut_to_it) {
  struct ab_recording *r;
  struct ab_metric m = {.step = 1};
  char longer[2 * AB_NAME_MAX];
  memset(longer, 'n', sizeof longer);
  longer[sizeof longer - 1] = 0;
  memcpy(m.name, longer, AB_NAME_MAX - 1);
  ck_ok(ab_recording_new(&r, "linen"));
  ck_ok(ab_recording_add_metric(r, &m));
  ck_assert_ptr_nonnull(ab_recording_metric(r, 1, m.name));
  ck_assert_ptr_nonnull(ab_recording_metric(r, 1, longer));
  ck_assert_ptr_null(ab_recording_metric(r, 1, m.name + 1));
  ck_assert_ptr_null(ab_recording_metric(r, 0, m.name));
  ab_recording_free(r);
}
END_TEST

/* More than one search begins in the same place: only all of a place tells two counters apart. */
START_TEST(counters_of_other_places_stay_apart) {
  enum { MANY = 300 };
  for (int field = 0; field < 4; field++) {
    struct ab_recording *r;
    ck_ok(ab_recording_new(&r, "linen"));
    for (int round = 0; round < 2; round++)
      for (int i = 0; i < MANY; i++) {
        struct ab_counter c = {.id = {.tensor = "execute"}, .at = {1, 1, 1, false}, .amount = i};
        *(int *[]){&c.at.iteration, &c.at.stage, &c.at.repeat, &c.at.stage}[field] = i / (field == 3 ? 2 : 1);
        c.at.bubble = field == 3 && i % 2;
        ck_ok(ab_recording_add_counter(r, &c));
      }
    ck_assert_msg(r->counters == MANY, "field %d: %zu counters", field, r->counters);
    for (int i = 0; i < MANY; i++) ck_assert_int_eq(r->counter[i].amount, 2 * i);
    ab_recording_free(r);
  }
}
END_TEST

static void file_of(int *fd, const struct bytes *s) {
  *fd = memfd_create("stream", MFD_CLOEXEC);
  ck_assert_int_eq(pwrite(*fd, s->data, s->size, 0), (ssize_t)s->size);
}

START_TEST(a_file_is_read_to_its_end) {
  struct bytes s;
  struct ab_recording *r;
  struct ab_stream_reader *reader;
  size_t before = ab_mem_stats().live_blocks;
  int fd;
  make_stream(&s, send_all, true);
  for (int closed = 0; closed < 2; closed++) {
    file_of(&fd, &s);
    if (closed) close(fd);
    ck_ok(ab_recording_new(&r, "linen"));
    ck_ok(ab_stream_reader_new(&reader, &ab_recording_handler, r));
    errno = EINTR; /* of an earlier call */
    if (closed) ck_fails(ab_stream_read(reader, fd), AB_EIO, "cannot read the stream: Bad file descriptor");
    else ck_ok(ab_stream_read(reader, fd));
    ck_assert(r->complete == !closed);
    if (!closed) close(fd);
    ab_stream_reader_free(reader);
    ab_recording_free(r);
  }
  ab_stream_reader_free(NULL);
  ab_stream_writer_free(NULL);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, before);
}
END_TEST

/* The writer waits until the reader has been interrupted, which the reader tells by sending a byte. */
static int told[2];
static void tell(int signal) {
  (void)signal;
  if (write(told[1], "!", 1) != 1) _exit(1);
}

START_TEST(an_interrupted_read_goes_on) {
  struct bytes s;
  struct ab_recording *r;
  struct ab_stream_reader *reader;
  int fds[2];
  struct itimerval soon = {.it_value = {.tv_usec = 1000}};
  struct sigaction action = {.sa_handler = tell}, old;
  make_stream(&s, send_all, true);
  ck_assert_int_eq(pipe(fds), 0);
  ck_assert_int_eq(pipe(told), 0);
  pid_t child = fork();
  ck_assert_int_ne(child, -1);
  if (child == 0) {
    char byte;
    _exit(read(told[0], &byte, 1) == 1 && write(fds[1], s.data, s.size) == (ssize_t)s.size ? 0 : 1);
  }
  close(fds[1]);
  ck_ok(ab_recording_new(&r, "linen"));
  ck_ok(ab_stream_reader_new(&reader, &ab_recording_handler, r));
  sigaction(SIGALRM, &action, &old);
  setitimer(ITIMER_REAL, &soon, NULL);
  ck_ok(ab_stream_read(reader, fds[0]));
  sigaction(SIGALRM, &old, NULL);
  ck_assert(r->complete);
  ck_assert_int_eq(waitpid(child, NULL, 0), child);
  ab_stream_reader_free(reader);
  ab_recording_free(r);
  close(fds[0]);
  close(told[0]);
  close(told[1]);
}
END_TEST

static void wait_for_held(int fd, int held) {
  for (int bytes = -1; bytes != held; usleep(100))
    if (ioctl(fd, FIONREAD, &bytes) != 0) _exit(1);
}

/* The child takes the header alone, and the rest when nothing more goes into the pipe. */
static int drain_when_full(int fd, size_t header, int full) {
  struct ab_recording *r;
  struct ab_stream_reader *reader;
  unsigned char first[64];
  if (ab_recording_new(&r, "linen") != AB_OK) return 1;
  if (ab_stream_reader_new(&reader, &ab_recording_handler, r) != AB_OK) return 1;
  if (read(fd, first, header) != (ssize_t)header || ab_stream_feed(reader, first, header) != AB_OK) return 1;
  wait_for_held(fd, full);
  return ab_stream_read(reader, fd) == AB_OK && r->complete ? 0 : 1;
}

/* A pipe that takes all of a frame but its last two bytes. */
START_TEST(what_a_full_pipe_leaves_is_written_later) {
  int fds[2], how;
  struct ab_stream_writer *w;
  char *note;
  enum { HEADER = 12 + 16 + 6, NOTE = 16 + 4 };
  ck_assert_int_eq(pipe2(fds, O_NONBLOCK), 0);
  int room = fcntl(fds[1], F_GETPIPE_SZ);
  pid_t child = fork();
  ck_assert_int_ne(child, -1);
  if (child == 0) {
    close(fds[1]);
    fcntl(fds[0], F_SETFL, 0);
    _exit(drain_when_full(fds[0], HEADER, room));
  }
  close(fds[0]);
  size_t length = (size_t)room + 2 - NOTE;
  ck_ok(ab_mem_new(&note, length + 1, 1));
  memset(note, 'n', length);
  ck_ok(ab_stream_writer_new(&w, fds[1], "{}"));
  ck_ok(ab_stream_flush(w));
  wait_for_held(fds[1], 0);
  ck_ok(ab_stream_note(w, note));
  ck_ok(ab_stream_end(w));
  close(fds[1]);
  ck_assert_int_eq(waitpid(child, &how, 0), child);
  ck_assert_int_eq(how, 0);
  ab_stream_writer_free(w);
  ab_mem_free(note);
}
END_TEST

START_TEST(a_counters_name_is_cut_and_its_place_stays) {
  struct bytes s;
  struct ab_recording *r;
  struct ab_stream_writer *w;
  char name[2 * AB_NAME_MAX] = "";
  struct ab_identity id = {0, 0, -1, -1, AB_FORWARD, ""};
  struct ab_where at = {5, 1, 0, false};
  int fds[2];
  memset(name, 'n', sizeof name - 1);
  ck_assert_int_eq(pipe(fds), 0);
  ck_ok(ab_stream_writer_new(&w, fds[1], "{}"));
  ck_ok(ab_stream_probe.count(w, name, &id, &at, 3));
  ck_ok(ab_stream_end(w));
  ab_stream_writer_free(w);
  close(fds[1]);
  s.size = drain(fds[0], s.data, sizeof s.data);
  close(fds[0]);
  ck_ok(ab_recording_new(&r, "linen"));
  ck_ok(receive(r, s.data, s.size, s.size));
  ck_assert_uint_eq(r->counters, 1);
  ck_assert_uint_eq(strlen(r->counter[0].id.tensor), AB_NAME_MAX - 1);
  ck_assert_int_eq(r->counter[0].at.iteration, 5);
  ab_recording_free(r);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("stream");
  TCase *c = tcase_create("stream");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, what_is_sent_arrives_in_any_pieces);
  tcase_add_test(c, a_cut_at_any_byte_is_never_complete);
  tcase_add_test(c, any_flipped_bit_is_seen);
  tcase_add_test(c, repeated_lost_and_reordered_frames_are_damage);
  tcase_add_test(c, an_identity_observed_twice_is_damage_and_names_it);
  tcase_add_test(c, bubbles_stay_outside);
  tcase_add_test(c, the_first_pole_of_a_bubble_is_kept);
  tcase_add_test(c, an_error_is_the_last_word_and_never_complete);
  tcase_add_test(c, garbage_versions_and_lengths_are_refused);
  tcase_add_test(c, the_writer_reports_a_parent_that_is_gone);
  tcase_add_test(c, a_frame_of_one_mebibyte_and_not_one_byte_more);
  tcase_add_test(c, a_head_that_states_more_is_refused);
  tcase_add_test(c, the_writer_refuses_what_follows_the_end);
  tcase_add_test(c, counters_are_summed_by_place);
  tcase_add_test(c, the_probe_feeds_the_stream);
  tcase_add_test(c, many_observations_are_all_found);
  tcase_add_test(c, a_recomputed_tensor_must_be_the_forward_one);
  tcase_add_test(c, a_lone_recomputed_tensor_is_a_fault_wherever_it_stands);
  tcase_add_test(c, a_metric_is_found_by_the_longest_name_and_by_what_is_cut_to_it);
  tcase_add_test(c, counters_of_other_places_stay_apart);
  tcase_add_test(c, a_file_is_read_to_its_end);
  tcase_add_test(c, an_interrupted_read_goes_on);
  tcase_add_test(c, what_a_full_pipe_leaves_is_written_later);
  tcase_add_test(c, a_counters_name_is_cut_and_its_place_stays);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
