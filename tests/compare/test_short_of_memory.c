/* Every allocation of the comparer fails once: AB_ENOMEM, nothing left behind, and never a result that lacks
 * something. */
#include <stdlib.h>
#include <unistd.h>

#include "controls.h"
#include "explain_rig.h"
#include "golden_diff.h"
#include "pending.h"
#include "report_forms.h"
#include "sides.h"
#include "sweep.h"
#include "teeth.h"

enum { MANY = 300 }; /* more than any table begins with */

static struct fixture two;       /* equal sides */
static struct fixture unlike;    /* b has other values and other names */
static char *stream;             /* path of what `two.a` would send */
static struct ab_golden *golden, *other;
static char *text;               /* of the golden */

static ab_status fill(struct ab_recording *r) {
  for (int i = 0; i < MANY; i++) {
    struct ab_observation o = {.id = identity(0, i, "w", AB_FORWARD), .dtype = AB_F32, .shape = {1, {1}}};
    struct ab_metric metric = {.step = i, .name = "loss", .value = i};
    struct ab_counter counter = {.id = o.id, .at = {-1, i, 0, false}, .amount = 1};
    struct ab_fingerprint f = {.id = o.id};
    AB_TRY(ab_recording_observe(r, &o));
    AB_TRY(ab_recording_add_metric(r, &metric));
    AB_TRY(ab_recording_add_counter(r, &counter));
    AB_TRY(ab_recording_add_fingerprint(r, &f));
  }
  ck_assert(r->observations == MANY && r->metrics == MANY && r->counters == MANY && r->fingerprints == MANY);
  return AB_OK;
}

static ab_status record(void) {
  struct ab_recording *r;
  AB_TRY(ab_recording_new(&r, "linen"));
  ab_status status = fill(r);
  ab_recording_free(r);
  return status;
}

static ab_status send_all(struct ab_stream_writer *w) {
  const struct ab_recording *r = two.a.recording;
  AB_TRY(ab_stream_plan(w, 1));
  for (size_t i = 0; i < r->observations; i++) AB_TRY(ab_stream_observation(w, &r->observation[i].observation));
  for (size_t i = 0; i < r->metrics; i++) AB_TRY(ab_stream_metric(w, &r->metric[i].metric));
  for (size_t i = 0; i < r->fingerprints; i++) AB_TRY(ab_stream_fingerprint(w, &r->fingerprint[i]));
  AB_TRY(ab_stream_counter(w, &(struct ab_counter){.id = identity(0, 0, "execute", AB_FORWARD), .amount = 1}));
  AB_TRY(ab_stream_note(w, "a note"));
  AB_TRY(ab_stream_note(w, "another note"));
  return ab_stream_end(w);
}

static ab_status send(void) {
  struct ab_stream_writer *w;
  FILE *file = fopen(stream, "w");
  ab_status status = ab_stream_writer_new(&w, fileno(file), "{}");
  if (status == AB_OK) {
    status = send_all(w);
    ab_stream_writer_free(w);
  }
  fclose(file);
  return status;
}

static ab_status receive_into(struct ab_recording *r) {
  struct ab_stream_reader *reader;
  AB_TRY(ab_stream_reader_new(&reader, &ab_recording_handler, r));
  FILE *file = fopen(stream, "r");
  ab_status status = ab_stream_read(reader, fileno(file));
  fclose(file);
  ab_stream_reader_free(reader);
  if (status == AB_OK) ck_assert(r->complete && r->observations == two.a.recording->observations && r->notes);
  return status;
}

static ab_status receive(void) {
  struct ab_recording *r;
  AB_TRY(ab_recording_new(&r, "linen"));
  ab_status status = receive_into(r);
  ab_recording_free(r);
  return status;
}

static ab_status judge_unlike(void) {
  struct ab_verdict v;
  struct ab_comparison c = comparison_of(&unlike.both, &unlike.a, &unlike.b);
  AB_TRY(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  ck_assert_uint_gt(v.findings, 1);
  ck_assert_uint_gt(v.groups, 1);
  ab_verdict_free(&v);
  return AB_OK;
}

static ab_status bite(void) {
  struct ab_controls controls = {0};
  static const struct ab_control_facts facts = {2, 1, 0, 2};
  struct ab_comparison c = comparison_of(&two.both, &two.a, &two.b);
  AB_TRY(ab_controls_run(&controls, &c, &facts, ab_verdict));
  ck_assert_uint_gt(ab_controls_count(&controls, AB_CONTROL_CAUGHT), 3);
  ck_assert_uint_eq(ab_controls_count(&controls, AB_CONTROL_MISSED), 0);
  return AB_OK;
}

static const struct ab_provenance provenance = {.producer = "test", .commit = "c1", .created = "2026-01-02T03:04:05Z"};

/* Calibrated, with a history, and cut to its ends. */
static ab_status furnish(struct ab_golden *g, const struct ab_golden *old) {
  AB_TRY(ab_mem_new(&g->calibration, 1, sizeof *g->calibration));
  struct ab_calibration *c = g->calibration;
  *c = (struct ab_calibration){.runs = 59, .seed = 1, .layers = 3, .reduction = 12};
  char **const words[] = {&c->config_digest, &c->created, &c->commit, &c->numerics, &c->cores, &c->dropped};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) AB_TRY(ab_mem_string(words[i], i ? "1" : g->config_digest));
  for (int i = 0; i < MANY; i++) {
    char kind[AB_KIND_TEXT];
    snprintf(kind, sizeof kind, "weight gradient w%d", i);
    AB_TRY(ab_calibration_add(c, kind, 1e-7));
  }
  ab_calibration_conclude(c);
  AB_TRY(ab_golden_add_provenance(g, "threads_too", "2"));
  AB_TRY(ab_golden_select(g, AB_SELECT_ENDS));
  AB_TRY(ab_golden_log(g, provenance.created, "first", NULL, -1));
  if (old) AB_TRY(ab_golden_inherit(g, old));
  return ab_golden_log(g, provenance.created, "second", "0123456789abcdef0123456789abcdef", 0.5);
}

static ab_status make(struct ab_golden **out, const struct fixture *f, const struct ab_golden *old) {
  struct ab_pair_text config[] = {{"dtype", "float32"}, {"steps", "2"}};
  AB_TRY(ab_golden_new(out, f->a.recording, config, 2, &provenance, "portable"));
  ab_status status = furnish(*out, old);
  if (status != AB_OK) ab_golden_free(*out);
  return status;
}

static ab_status make_golden(void) {
  struct ab_golden *g;
  AB_TRY(make(&g, &two, other));
  ck_assert_uint_eq(g->changes, 4);
  ab_golden_free(g);
  return AB_OK;
}

static ab_status write_golden(void) {
  char *now;
  AB_TRY(ab_golden_text(&now, golden));
  ck_assert_str_eq(now, text);
  ab_mem_free(now);
  return AB_OK;
}

static ab_status read_golden(void) {
  struct ab_golden *g;
  AB_TRY(ab_golden_parse(&g, text, strlen(text), "golden.json"));
  ck_assert(g->leaves == golden->leaves && g->metrics == golden->metrics && g->changes == golden->changes);
  ck_assert_uint_eq(g->calibration->kinds, MANY);
  ab_golden_free(g);
  return AB_OK;
}

static ab_status check_golden(void) {
  return ab_golden_check_explained(golden, "golden.json");
}

static ab_status play_golden(void) {
  struct ab_recording *r;
  AB_TRY(ab_golden_recording(&r, golden));
  ck_assert(r->complete && r->observations == golden->leaves && r->metrics == golden->metrics);
  ab_recording_free(r);
  return AB_OK;
}

static ab_status diff_goldens(void) {
  struct ab_golden_diff d;
  AB_TRY(ab_golden_diff(&d, golden, other));
  ck_assert_uint_gt(d.moves, 1);
  ab_golden_diff_free(&d);
  return AB_OK;
}

static ab_status pend(void) {
  char path[256];
  struct ab_pending read, written = {(char[]){"both moved"}, (char[]){"v"}, (char[]){"c"}, (char[]){"0"}, true, other};
  snprintf(path, sizeof path, "%s.pending", stream);
  AB_TRY(ab_pending_write(&written, path));
  ab_status status = ab_pending_read(&read, path);
  if (status == AB_OK) {
    ck_assert_str_eq(read.cause, "both moved");
    ab_pending_free(&read);
  }
  unlink(path);
  return status;
}

static ab_status report_all(const struct ab_report *report) {
  char *out;
  AB_TRY(ab_report_text(&out, report));
  ck_assert_ptr_nonnull(strstr(out, "EQUAL"));
  ab_mem_free(out);
  for (enum ab_form_kind kind = 0; kind < AB_FORMS; kind++) {
    struct ab_sheet sheet;
    struct ab_entry entry = {.name = "case", .report = report};
    AB_TRY(ab_sheet_open(&sheet, kind, &(struct ab_about){"ab_compare", "0.1.0", NULL}));
    ab_status status = ab_sheet_entry(&sheet, &entry);
    if (status == AB_OK) status = ab_sheet_finish(&out, &sheet, AB_EXIT_EQUAL);
    if (status == AB_OK) ab_mem_free(out);
    ab_sheet_close(&sheet);
    AB_TRY(status);
  }
  return AB_OK;
}

static struct ab_verdict green;
static struct ab_facts facts;
static struct ab_teeth teeth;

static ab_status report(void) {
  const struct ab_verdict *all[] = {&green};
  return report_all(&(struct ab_report){.tool = "ab_compare", .version = "0.1.0", .case_name = "case", .command = "c",
                                        .numerics = "fast", .dtype = "float32", .verdict = all, .verdicts = 1,
                                        .facts = &facts, .teeth = &teeth});
}

static struct rig explained;

static ab_status explain(void) {
  struct ab_explained_list list = {.lines = 0};
  AB_TRY(ab_explain(&list, &explained.question, &explained.finding));
  ck_assert_uint_gt(list.lines, 0);
  return AB_OK;
}

static const struct {
  const char *name;
  ab_status (*run)(void);
  size_t least; /* allocations */
} rows[] = {{"record", record, 20},       {"send", send, 1},          {"receive", receive, 8},
            {"judge", judge_unlike, 3},   {"bite", bite, 20},         {"make a golden", make_golden, 20},
            {"write a golden", write_golden, 1}, {"read a golden", read_golden, 20}, {"check a golden", check_golden, 1},
            {"play a golden", play_golden, 5},   {"diff goldens", diff_goldens, 1},  {"pend", pend, 20},
            {"report", report, 5},               {"explain", explain, 1}};
enum { ROWS_OF_ALL = sizeof rows / sizeof *rows };

START_TEST(every_allocation_may_fail) {
  size_t failed = sweep_allocations(rows[_i].run);
  ck_assert_msg(failed >= rows[_i].least, "%s: %zu allocations", rows[_i].name, failed);
}
END_TEST

static void set_up_reports(void) {
  struct ab_comparison c = comparison_of(&two.both, &two.a, &two.b);
  ck_ok(ab_verdict(&green, &c));
  ab_fact_verdict(&facts, AB_FACT_AB, &green);
  ck_ok(ab_controls_run(&teeth.controls, &c, &(struct ab_control_facts){1, 1, 0, 1}, ab_verdict));
  ab_controls_close(&teeth.controls);
  teeth.controlled = teeth.looked = true;
  ab_teeth_unobserved(&teeth, "segment_ids", "every token has segment 1");
}

static void set_up(void) {
  static char path[] = "/tmp/ab_short_XXXXXX";
  close(mkstemp(path));
  stream = path;
  start(&two);
  start(&unlike);
  side_run(&two.a, true, true);
  side_run(&two.b, false, true);
  for (int step = 0; step < STEPS; step++) side_leaf(&unlike.a, step, 0, 0)[0] += 1;
  side_run(&unlike.a, true, true);
  side_run(&unlike.b, false, true);
  unlike.a.recording->complete = unlike.b.recording->complete = false;
  for (int i = 0; i < MANY; i++) {
    char name[16];
    snprintf(name, sizeof name, "w%d", i);
    struct ab_observation o = {.id = identity(0, i, name, AB_BACKWARD), .dtype = AB_F32, .shape = {1, {1}}};
    ck_ok(ab_recording_observe(i % 2 ? unlike.a.recording : unlike.b.recording, &o));
  }
  ab_recording_complete(unlike.a.recording);
  ab_recording_complete(unlike.b.recording);
}

static void set_up_goldens(void) {
  struct fixture moved;
  start(&moved);
  for (int layer = 0; layer < LAYERS; layer++) side_leaf(&moved.a, 0, layer, 0)[0] += 1;
  side_run(&moved.a, true, true);
  ck_ok(make(&golden, &two, NULL));
  ck_ok(make(&other, &moved, NULL));
  ck_ok(ab_golden_text(&text, golden));
  side_free(&moved.a);
  side_free(&moved.b);
}

/* A quarter of the truth. */
static void set_up_explanation(void) {
  rig_new(&explained);
  float *got = put(&explained, 0, gradient(1), 1), *truth = put(&explained, 1, gradient(1), 1);
  for (int i = 0; i < COUNT; i++) got[i] = 0.25f * truth[i];
  for (int i = 0; i < 2; i++) {
    struct ab_identity id = gradient(1);
    side_observe(&explained.side[i], &id);
  }
  explained.finding = (struct ab_finding){.id = gradient(1), .quantity = AB_Q_WEIGHT_GRADIENT};
}

static void tear_down(void) {
  unlink(stream);
  for (size_t i = 0; i < 2; i++) {
    struct fixture *f = i ? &unlike : &two;
    side_free(&f->a);
    side_free(&f->b);
  }
  ab_verdict_free(&green);
  ab_golden_free(golden);
  ab_golden_free(other);
  ab_mem_free(text);
  rig_free(&explained);
}

int main(void) {
  Suite *suite = suite_create("short of memory");
  TCase *tests = tcase_create("short of memory");
  tcase_add_unchecked_fixture(tests, set_up, tear_down);
  tcase_add_unchecked_fixture(tests, set_up_reports, NULL);
  tcase_add_unchecked_fixture(tests, set_up_goldens, NULL);
  tcase_add_unchecked_fixture(tests, set_up_explanation, NULL);
  tcase_add_loop_test(tests, every_allocation_may_fail, 0, ROWS_OF_ALL);
  suite_add_tcase(suite, tests);
  return ab_run_suite(suite);
}
