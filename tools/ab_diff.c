#include <stdio.h>
#include <string.h>

#include "diff_source.h"
#include "diff_walk.h"
#include "mem.h"
#include "number.h"
#include "options.h"
#include "outcome.h"
#include "start.h"
#include "version.h"

enum { NOTES = 4, NOTE = 512, COMMAND = 8192 };

static const char usage[] =
    "ab_diff: compare two bundles, dumps, .safetensors or .npz files tensor by tensor.\n"
    "\n"
    "  ab_diff before/ after/\n"
    "  ab_diff ours.safetensors theirs.safetensors --map unscanned --bound 1e-6\n"
    "\n"
    "usage: ab_diff A B [options]\n"
    "A folder is compared by all its .safetensors and .npz files and the metrics of its expected.json.\n"
    "B is the reference.\n"
    "\n"
    "exit codes: 0 equal; 1 numeric difference; 2 usage or unreadable file; 5 names, shapes or dtypes differ\n"
    "\n";

struct diff {
  const char *path[2];
  const char *map_name, *bound_text;
  struct ab_paper_options papers;
  bool structure_only, help, version;
  double bound; /* negative: bitwise */
  struct ab_name_map *map;
  struct ab_diff_source *source[2];
  struct ab_diff_walk *walk;
  struct ab_verdict verdict;
  bool judged;
  struct ab_facts facts;
  char note[NOTES][NOTE];
  size_t notes;
  char mismatch[1024]; /* names that cannot be joined */
  char command[COMMAND];
};

static ab_status open_map(struct diff *d) {
  char path[4096];
  static const char *const shipped[] = {"linen", "nnx", "unscanned"};
  snprintf(path, sizeof path, "%s", d->map_name);
  for (size_t i = 0; i < sizeof shipped / sizeof *shipped; i++)
    if (strcmp(d->map_name, shipped[i]) == 0) snprintf(path, sizeof path, "%s/%s.map", AB_MAPS_DIR, shipped[i]);
  return ab_name_map_open(&d->map, path);
}

static ab_status apart(void *ctx, const struct ab_observation *a, const struct ab_observation *b,
                       struct ab_difference *out) {
  const struct diff *d = ctx;
  (void)a;
  return ab_diff_walk_find(out, d->walk, &b->id);
}

/* Structure alone is judged by the headers: nothing differs in what was not read. */
static ab_status unread(void *ctx, const struct ab_observation *a, const struct ab_observation *b,
                        struct ab_difference *out) {
  (void)ctx;
  (void)a;
  (void)b;
  *out = (struct ab_difference){0};
  return AB_OK;
}

static void bounds(void *ctx, const struct ab_identity *id, double *given, double *own) {
  const struct diff *d = ctx;
  (void)id;
  (void)own;
  *given = d->bound;
}

/* Everything that the reference holds, and is read. */
static struct ab_expected owed(const struct ab_recording *b, bool headers) {
  struct ab_expected e = ab_expected_none();
  for (int q = 0; q < AB_QUANTITIES; q++) e.tensors[q] = 0;
  for (int q = 0; q < AB_QUANTITIES && !headers; q++) e.elements[q] = 0;
  for (size_t i = 0; i < b->observations; i++) {
    const struct ab_observation *o = &b->observation[i].observation;
    enum ab_quantity quantity = ab_quantity_of(&o->id);
    e.tensors[quantity]++;
    if (!headers) e.elements[quantity] += (size_t)o->summary.count;
  }
  e.tensors[AB_Q_METRIC] += b->metrics;
  return e;
}

static ab_status judge(struct diff *d) {
  struct ab_comparison c = {.a = ab_diff_source_recording(d->source[0]),
                            .b = ab_diff_source_recording(d->source[1]),
                            .pair = d->bound < 0 ? AB_PAIR_SAME : AB_PAIR_RECORDED,
                            .quantities = AB_Q_ALL,
                            .headers = d->structure_only,
                            .apart = d->structure_only ? unread : apart,
                            .values_ctx = d,
                            .bounds = bounds,
                            .bounds_ctx = d};
  c.expected = owed(c.b, d->structure_only);
  if (!d->structure_only) AB_TRY(ab_diff_walk_run(&d->walk, d->source[0], d->source[1]));
  AB_TRY(ab_verdict(&d->verdict, &c));
  d->judged = true;
  ab_fact_verdict(&d->facts, AB_FACT_AB, &d->verdict);
  return AB_OK;
}

static bool reversed(const struct ab_shape *a, const struct ab_shape *b) {
  if (a->rank != b->rank || ab_shape_equal(a, b)) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dim[i] != b->dim[a->rank - 1 - i]) return false;
  return true;
}

/* Only the shape says so: a square one that is transposed looks like other numbers. */
static void note_transposed(struct diff *d) {
  const struct ab_recording *a = ab_diff_source_recording(d->source[0]), *b = ab_diff_source_recording(d->source[1]);
  const char *first = NULL;
  size_t count = 0;
  for (size_t i = 0; i < b->observations; i++) {
    const struct ab_observation *o = &b->observation[i].observation;
    const struct ab_recorded *other = ab_recording_find(a, &o->id);
    if (!other || !reversed(&other->observation.shape, &o->shape)) continue;
    if (!count++) first = o->id.tensor;
  }
  if (count)
    snprintf(d->note[d->notes++], NOTE, "%zu tensors have the axes of the other side in reverse, first %s: `transpose` "
             "in a map turns them", count, first);
}

static void note_values(struct diff *d) {
  char odd[AB_LACK_TEXT], empty[AB_LACK_TEXT];
  ab_verdict_note_nonfinite(odd, &d->verdict);
  ab_verdict_note_empty(empty, &d->verdict);
  if (odd[0]) snprintf(d->note[d->notes++], NOTE, "%s", odd);
  if (empty[0]) snprintf(d->note[d->notes++], NOTE, "%s", empty);
}

static ab_status record(struct diff *d) {
  ab_status status = ab_diff_source_record(d->source[0], d->map, !d->structure_only);
  if (status == AB_OK) status = ab_diff_source_record(d->source[1], NULL, !d->structure_only);
  if (status != AB_EMISMATCH) return status;
  snprintf(d->mismatch, sizeof d->mismatch, "%s", ab_status_message());
  ab_status_clear();
  return AB_OK;
}

static ab_status compare(struct diff *d) {
  d->bound = -1;
  if (d->bound_text) AB_TRY(ab_number_double(&d->bound, d->bound_text));
  if (d->bound_text && !(d->bound >= 0 && d->bound <= AB_BOUND_MOST))
    return AB_FAIL(AB_ECONFIG, "--bound is '%.80s'; expected a number from 0 to %g", d->bound_text, AB_BOUND_MOST);
  if (d->map_name) AB_TRY(open_map(d));
  AB_TRY(ab_diff_source_open(&d->source[0], d->path[0], d->path[0]));
  AB_TRY(ab_diff_source_open(&d->source[1], d->path[1], d->path[1]));
  AB_TRY(record(d));
  if (*d->mismatch) return AB_OK;
  AB_TRY(judge(d));
  note_transposed(d);
  note_values(d);
  if (d->structure_only) snprintf(d->note[d->notes++], NOTE, "structure only: no value was read");
  return AB_OK;
}

static ab_status print(struct diff *d, int *code) {
  const struct ab_verdict *verdict = &d->verdict;
  const char *notes[NOTES];
  for (size_t i = 0; i < d->notes; i++) notes[i] = d->note[i];
  struct ab_report report = {.tool = "ab_diff", .version = ab_version, .case_name = "files", .command = d->command,
                             .numerics = "of the files", .dtype = "of the files", .verdict = &verdict,
                             .verdicts = d->judged, .cause = ab_cause_of(&d->facts), .facts = &d->facts,
                             .note = notes, .notes = d->notes};
  if (*d->mismatch) report.extra = AB_EXIT_INCOMPARABLE;
  if (*d->mismatch) report.extra_sentence = d->mismatch;
  *code = (int)ab_report_exit(&report);
  const struct ab_entry entry = {.name = report.case_name, .report = &report, .config = d->path[0]};
  return ab_reports_put(&d->papers, &entry);
}

static ab_status parse(struct diff *d, int argc, char **argv) {
  const struct ab_option rows[] = {
      {.name = "map", .argument = "FILE|linen|nnx|unscanned", .text = &d->map_name,
       .help = "names of A in those of B (docs/sides.md)"},
      {.name = "bound", .argument = "X", .help = "relative L2 that passes, at most 1e-3 (default: bitwise)",
       .text = &d->bound_text},
      {.name = "structure-only", .help = "names, shapes and dtypes alone", .flag = &d->structure_only},
      {.name = "help", .help = "print this", .flag = &d->help},
      {.name = "version", .help = "print version and compiler", .flag = &d->version},
      {0}};
  struct ab_option options[sizeof rows / sizeof *rows + AB_PAPER_OPTIONS];
  memcpy(options + ab_papers_table(options, &d->papers), rows, sizeof rows);
  const struct ab_command_line line = {usage, options};
  const char **positional;
  size_t count = 0;
  AB_TRY(ab_mem_new(&positional, (size_t)argc + 1, sizeof *positional));
  ab_status status = ab_options_parse(&line, argc, argv, positional, &count);
  d->path[0] = positional[0];
  d->path[1] = count > 1 ? positional[1] : NULL;
  ab_mem_free(positional);
  AB_TRY(status);
  if (d->help) ab_options_help(stdout, &line);
  if (d->version) ab_version_print(stdout, "ab_diff");
  if (!d->help && !d->version && count != 2)
    return AB_FAIL(AB_ECONFIG, "%zu paths were given; expected two files or folders to compare", count);
  struct ab_paths paths = {.input = {d->path[0], d->path[1], d->map_name}};
  return ab_papers_check(&d->papers, &paths);
}

static void remember_command(struct diff *d, int argc, char **argv) {
  size_t used = 0;
  for (int i = 0; i < argc; i++) {
    if (used + 4 * strlen(argv[i]) + 5 > sizeof d->command) return;
    used = ab_shell_word(d->command, used, argv[i]);
  }
}

static int run(struct diff *d, int argc, char **argv) {
  int code = AB_EXIT_EQUAL;
  remember_command(d, argc, argv);
  ab_status status = parse(d, argc, argv);
  bool asked = d->help || d->version;
  if (status == AB_OK && !asked) status = compare(d);
  if (status == AB_OK && !asked) status = print(d, &code);
  return status == AB_OK ? code : ab_complain("ab_diff", ab_status_message());
}

int main(int argc, char **argv) {
  static struct diff d;
  int code = ab_start("ab_diff", argc, argv);
  if (code) return code;
  code = run(&d, argc, argv);
  if (d.judged) ab_verdict_free(&d.verdict);
  ab_diff_walk_free(d.walk);
  ab_diff_source_close(d.source[0]);
  ab_diff_source_close(d.source[1]);
  ab_name_map_close(d.map);
  return ab_finish("ab_diff", code);
}
