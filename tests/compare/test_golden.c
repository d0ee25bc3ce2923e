#include <ctype.h>
#include <locale.h>
#include <sys/mman.h>
#include <unistd.h>

#include "file.h"
#include "golden.h"
#include "sides.h"

static const struct ab_pair_text config_rows[] = {{"steps", "2"}, {"base_emb_dim", "128"}, {"dtype", "float32"}};

static size_t config_new(struct ab_pair_text out[3]) {
  memcpy(out, config_rows, sizeof config_rows);
  return 3;
}

static const struct ab_provenance provenance = {.producer = "ab_golden sequential",
                                                .version = "0.1.0",
                                                .commit = "unknown",
                                                .compiler = "gcc \"12\"",
                                                .kernels = "f32-portable",
                                                .blas_core = "none",
                                                .created = "2026-01-02T03:04:05Z",
                                                .threads = 2};

static struct ab_golden *golden_of(const struct side *s, const char *numerics) {
  struct ab_golden *g;
  struct ab_pair_text config[3];
  size_t count = config_new(config);
  ck_ok(ab_golden_new(&g, s->recording, config, count, &provenance, numerics));
  ck_ok(ab_golden_log(g, provenance.created, "first", NULL, -1));
  return g;
}

static struct ab_golden *portable_golden(void) {
  struct side s = side_values("sequential");
  side_leaf(&s, 0, 0, 0)[3] = -0.0f;
  side_leaf(&s, 0, 0, 1)[3] = 1e-42f; /* subnormal */
  side_run(&s, false, true);
  struct ab_golden *g = golden_of(&s, "portable");
  side_free(&s);
  return g;
}

__attribute__((noinline)) static char *portable_text(void) {
  struct ab_golden *g = portable_golden();
  char *text;
  ck_ok(ab_golden_text(&text, g));
  ab_golden_free(g);
  return text;
}

static ab_status parse(const char *text, size_t size) {
  struct ab_golden *g;
  ab_status status = ab_golden_parse(&g, text, size, "golden.json");
  if (status == AB_OK) ab_golden_free(g);
  return status;
}

static void check_equal(const struct ab_golden *a, const struct ab_golden *b) {
  ck_assert_str_eq(a->config_digest, b->config_digest);
  ck_assert_str_eq(a->numerics, b->numerics);
  ck_assert_uint_eq(a->metrics, b->metrics);
  ck_assert_uint_eq(a->leaves, b->leaves);
  for (size_t i = 0; i < a->metrics; i++) {
    ck_assert_mem_eq(&a->metric[i].value, &b->metric[i].value, sizeof(double));
    ck_assert_uint_eq(a->metric_order[i], b->metric_order[i]);
  }
  for (size_t i = 0; i < a->leaves; i++) {
    const struct ab_fingerprint *x = &a->leaf[i], *y = &b->leaf[i];
    ck_assert(ab_identity_equal(&x->id, &y->id));
    ck_assert_mem_eq(&x->summary, &y->summary, sizeof x->summary);
    ck_assert_mem_eq(x->sample, y->sample, sizeof x->sample);
    ck_assert_mem_eq(x->projection, y->projection, sizeof x->projection);
    ck_assert_uint_eq(x->seed, y->seed);
    ck_assert_uint_eq(a->leaf_order[i], b->leaf_order[i]);
  }
}

static void check_taken(struct ab_golden *g) {
  struct ab_golden *again;
  char *text, *twice;
  ck_ok(ab_golden_text(&text, g));
  ck_ok(ab_golden_parse(&again, text, strlen(text), "golden.json"));
  check_equal(g, again);
  ck_ok(ab_golden_text(&twice, again));
  ck_assert_str_eq(text, twice);
  ab_golden_free(again);
  ab_mem_free(text);
  ab_mem_free(twice);
}

START_TEST(what_is_written_reads_back_to_the_bit_and_writes_again_the_same) {
  struct ab_golden *g = portable_golden();
  check_taken(g);
  ab_golden_free(g);
}
END_TEST

/* Read as a double, the shortest decimal of one of these floats lies on the middle to its neighbour. */
START_TEST(a_float_whose_decimal_lies_between_two_reads_back) {
  for (uint32_t bits = 0x15ae43fc; bits <= 0x15ae43ff; bits++)
    for (uint32_t sign = 0; sign < 2; sign++) {
      struct ab_golden *g = portable_golden(), *again;
      char *text;
      g->metric[0].f32 = true;
      g->metric[0].value = ab_value_of(bits | sign << 31, true);
      ck_ok(ab_golden_text(&text, g));
      ck_ok(ab_golden_parse(&again, text, strlen(text), "golden.json"));
      ck_assert_mem_eq(&again->metric[0].value, &g->metric[0].value, sizeof(double));
      ab_golden_free(g);
      ab_golden_free(again);
      ab_mem_free(text);
    }
}
END_TEST

START_TEST(the_text_is_the_same_under_any_locale) {
  static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "C.utf8", "C"};
  char *text = portable_text();
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    locale_t there = newlocale(LC_ALL_MASK, names[i], (locale_t)0);
    if (!there) continue;
    locale_t old = uselocale(there);
    char *other = portable_text();
    ck_ok(parse(text, strlen(text)));
    uselocale(old);
    freelocale(there);
    ck_assert_str_eq(text, other);
    ab_mem_free(other);
  }
  ab_mem_free(text);
}
END_TEST

START_TEST(more_observations_do_not_change_the_file) {
  struct side s = side_values("sequential");
  struct ab_observation o = {.at = {-1, -1, -1, false}, .dtype = AB_F32};
  o.id = identity(0, 0, "query_proj", AB_FORWARD);
  ck_ok(ab_recording_observe(s.recording, &o));
  side_leaf(&s, 0, 0, 0)[3] = -0.0f;
  side_leaf(&s, 0, 0, 1)[3] = 1e-42f;
  side_run(&s, false, true);
  struct ab_golden *g = golden_of(&s, "portable");
  char *text, *usual = portable_text();
  ck_ok(ab_golden_text(&text, g));
  ck_assert_str_eq(text, usual);
  ab_mem_free(text);
  ab_mem_free(usual);
  ab_golden_free(g);
  side_free(&s);
}
END_TEST

START_TEST(truncated_anywhere_it_is_rejected) {
  char *text = portable_text();
  size_t size = strlen(text), last = size;
  while (text[last - 1] == '\n') last--;
  for (size_t cut = 0; cut < last; cut += cut < 2048 || cut + 2048 > last ? 1 : 1024) {
    struct ab_golden *g = NULL;
    ab_status status = ab_golden_parse(&g, text, cut, "golden.json");
    ck_assert_msg(status == AB_EFORMAT && !g, "cut at %zu: status %d", cut, status);
  }
  ck_ok(parse(text, last));
  ab_mem_free(text);
}
END_TEST

/* The text with its first `from` replaced by `to`. */
static char *replaced(const char *text, const char *from, const char *to) {
  const char *at = strstr(text, from);
  char *out;
  ck_assert_msg(at != NULL, "'%s' is not in the text", from);
  size_t before = (size_t)(at - text);
  ck_ok(ab_mem_new(&out, strlen(text) + strlen(to) + 1, 1));
  memcpy(out, text, before);
  strcpy(out + before, to);
  strcat(out, at + strlen(from));
  return out;
}

#define NAME_OF_24 "abcdefghijklmnopqrstuvwx"
#define NAME_OF_96 NAME_OF_24 NAME_OF_24 NAME_OF_24 NAME_OF_24

static const struct {
  const char *from, *to, *sentence;
} mutation[] = {
    {"abpipe-golden/2", "abpipe-golden/3", "'abpipe-golden/3', this program reads abpipe-golden/2: a newer abpipe"},
    {"abpipe-golden/2", "abpipe-golden/10", "'abpipe-golden/10', this program reads abpipe-golden/2: a newer abpipe"},
    {"abpipe-golden/2", "abpipe-golden/1", "'abpipe-golden/1', this program reads abpipe-golden/2; record the case anew"},
    {"abpipe-golden/2", "abpipe-report/1", "is not that of a golden"},
    {"\"schema\"", "\"Schema\"", "schema"},
    {"\"numerics\": \"portable\"", "\"numerics\": \"Portable\"", "neither 'portable' nor 'fast'"},
    {"\"numerics\": \"portable\"", "\"numerics\": null", "numerics"},
    {"\"numerics\": \"portable\"", "\"numerics\": \"portable\", \"numerics\": \"portable\"", "numerics"},
    {"\"numerics\": \"portable\"", "\"numerics\": \"portable\", \"extra\": 1", "is not a key of abpipe-golden/2"},
    {"\"base_emb_dim\": \"128\"", "\"base_emb_dim\": \"256\"", "not the digest of its config"},
    {"\"base_emb_dim\": \"128\"", "\"base_emb_dim\": \"128\", \"base_emb_dim\": \"128\"", "base_emb_dim"},
    {"\"blas_core\": \"none\"", "\"zlas_core\": \"none\"", "is not in key order"},
    {"\"bits\": \"40dccccd\"", "\"bits\": \"40dcccce\"", "bits that are not those of its value"},
    {"\"bits\": \"40dccccd\"", "\"bits\": \"40DCCCCD\"", "lower-case hex"},
    {"\"bits\": \"40dccccd\"", "\"bits\": \"40dcccc\"", "wrong number of hex digits"},
    {"\"value\": 6.9", "\"value\": null", "value"},
    {"\"value\": 6.9", "\"value\": NaN", "golden.json"},
    {"\"value\": 6.9", "\"value\": {\"nonfinite\": \"nan\"}", "value"},
    {"\"value\": 6.9", "\"value\": \"6.9\"", "value"},
    {"\"value\": 6.9", "\"value\": 6,9", "golden.json"},
    {"\"value\": 6.9, \"bits\": \"40dccccd\"", "\"value\": 0, \"bits\": \"7fc00000\"", "is not finite"},
    {"\"step\": 0", "\"step\": 0.5", "step"},
    {"\"step\": 0", "\"step\": -2", "out of range"},
    {"\"step\": 0", "\"step\": 4294967296", "out of range"},
    {"\"order\": 1", "\"order\": -1", "does not ascend"},
    {"\"order\": 1", "\"order\": 9", "does not ascend"},
    {"\"phase\": \"backward\"", "\"phase\": \"Backward\"", "not a known phase"},
    {"\"phase\": \"backward\"", "\"phase\": 2", ".phase'"},
    {"\"dtype\": \"F32\"", "\"dtype\": 1", ".dtype'"},
    {"\"name\": \"loss\"", "\"name\": 1", ".name'"},
    {"\"order\": 1", "\"order\": \"1\"", ".order'"},
    {"\"step\": 0", "\"step\": \"0\"", ".step'"},
    {"\"shape\": [3, 4]", "\"shape\": 12", ".shape'"},
    {"\"negative_zeros\": 0", "\"negative_zeros\": \"0\"", ".negative_zeros'"},
    {"\"dtype\": \"F32\"", "\"dtype\": \"BF16\"", "not a known dtype"},
    {"\"name\": \"loss\"", "\"name\": \"\"", "is no name"},
    {"\"name\": \"loss\"", "\"name\": \"" NAME_OF_96 "\"", "is no name of 1 to 95 bytes"},
    {"\"dtype\": \"F32\"", "\"dtype\": \"I32\"", "is not F32 or F64"},
    {"\"tensor\": \"self_attention/query/kernel\",\n", "", "tensor"},
    {"\"shape\": [3, 4]", "\"shape\": [3, -4]", "not a shape"},
    {"\"shape\": [3, 4]", "\"shape\": [1,1,1,1,1,1,1,1,1]", "rank above 8"},
    {"\"negative_zeros\": 0", "\"negative_zeros\": 13", "out of range"},
    {"\"schema\"", "\n<<<<<<< HEAD\n\"schema\"", "merge conflict"},
    {"\"numerics\"", "\n=======\n\"numerics\"", "merge conflict"},
    {"\"numerics\"", "\n>>>>>>> other\n\"numerics\"", "merge conflict"},
    {"\"reason\": \"first\"", "\"reason\": \"better\"", "'seal' is not the digest of the rest"},
    {"\"blas_core\": \"none\"", "\"blas_core\": \"Haswell\"", "'seal' is not the digest of the rest"},
    {"\"seal\"", "\"seel\"", "lacks the key 'seal'"},
};

START_TEST(a_golden_that_is_not_one_is_rejected_with_a_sentence) {
  char *text = portable_text(), *bad = replaced(text, mutation[_i].from, mutation[_i].to);
  ab_status status = parse(bad, strlen(bad));
  ck_assert_msg(status == AB_EFORMAT, "%s -> %s: status %d", mutation[_i].from, mutation[_i].to, status);
  ck_assert_msg(strstr(ab_status_message(), mutation[_i].sentence) != NULL, "%s -> %s: \"%s\"", mutation[_i].from,
                mutation[_i].to, ab_status_message());
  ck_assert_msg(strstr(ab_status_message(), "golden.json") != NULL, "no file in \"%s\"", ab_status_message());
  ab_mem_free(text);
  ab_mem_free(bad);
}
END_TEST

START_TEST(a_conflict_marker_is_seen_up_to_the_last_byte) {
  ck_fails(parse("{}\n=======", 10), AB_EFORMAT, "merge conflict");
  ck_fails(parse("{}\n======", 9), AB_EFORMAT, "golden.json");
  ck_assert_ptr_null(strstr(ab_status_message(), "merge conflict"));
}
END_TEST

/* What a reader takes at its limits: written with the right seal, and read back. */
static void longest_name(struct ab_golden *g) { memset(g->leaf[0].id.tensor, 'n', AB_NAME_MAX - 1); }
static void last_step(struct ab_golden *g) { g->leaf[0].id.step = INT32_MAX; }
static void highest_rank(struct ab_golden *g) { g->leaf[0].shape = (struct ab_shape){8, {1, 1, 1, 1, 1, 1, 3, 4}}; }
static void zeros_alone(struct ab_golden *g) { g->leaf[0].summary.negative_zeros = LEAF; }
static void double_metric(struct ab_golden *g) { g->metric[0].f32 = false; }
static void bare(struct ab_golden *g) {
  ab_mem_free(g->provenance);
  g->provenance = NULL;
  g->provenances = 0;
}
static void (*const limits[])(struct ab_golden *) = {longest_name, last_step, highest_rank, zeros_alone, double_metric,
                                                     bare};
enum { LIMITS = sizeof limits / sizeof *limits };

START_TEST(a_golden_is_taken_up_to_every_limit) {
  struct ab_golden *g = portable_golden();
  if (_i < LIMITS) limits[_i](g);
  else g->leaf[0].dtype = (enum ab_dtype)(_i - LIMITS);
  check_taken(g);
  ab_golden_free(g);
}
END_TEST

START_TEST(every_phase_is_read_back) {
  struct ab_golden *g = portable_golden();
  for (enum ab_phase phase = AB_FORWARD; phase <= AB_UPDATE; phase++) {
    g->leaf[0].id.phase = phase;
    check_taken(g);
  }
  ab_golden_free(g);
}
END_TEST

/* Wrong in a way that no seal tells: it is of the whole. */
static void equal_orders(struct ab_golden *g) { g->leaf_order[1] = g->leaf_order[0]; }
static void equal_metric_orders(struct ab_golden *g) { g->metric_order[1] = g->metric_order[0]; }
static void no_metrics(struct ab_golden *g) { g->metrics = 0; }
static void no_leaves(struct ab_golden *g) { g->leaves = 0; }
static const struct {
  void (*change)(struct ab_golden *);
  const char *sentence;
} sealed[] = {{equal_orders, "does not ascend"}, {equal_metric_orders, "does not ascend"},
              {no_metrics, "'metrics' is empty"}, {no_leaves, "'leaves' is empty"}};

START_TEST(a_sealed_golden_that_is_none_is_refused) {
  struct ab_golden *g = portable_golden();
  size_t metrics = g->metrics, leaves = g->leaves;
  char *text;
  sealed[_i].change(g);
  ck_ok(ab_golden_text(&text, g));
  ck_fails(parse(text, strlen(text)), AB_EFORMAT, sealed[_i].sentence);
  g->metrics = metrics;
  g->leaves = leaves;
  ab_golden_free(g);
  ab_mem_free(text);
}
END_TEST

/* As goldens from before there were digests have them. */
START_TEST(a_changelog_of_lines_is_read) {
  static const char *const lines[][2] = {{"2026-01-02 for good", "for good"}, {"2026-01-02", ""}};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    struct ab_golden *g = portable_golden(), *again;
    char *text, from[128], to[64];
    ab_mem_free(g->changelog[0].digest);
    ab_mem_free(g->changelog[0].reason);
    g->changelog[0].digest = NULL;
    ck_ok(ab_mem_string(&g->changelog[0].reason, lines[i][1]));
    ck_ok(ab_golden_text(&text, g));
    snprintf(from, sizeof from, "{\n      \"date\": \"2026-01-02\",\n      \"reason\": \"%s\"\n    }", lines[i][1]);
    snprintf(to, sizeof to, "\"%s\"", lines[i][0]);
    char *old = replaced(text, from, to);
    ck_ok(ab_golden_parse(&again, old, strlen(old), "golden.json"));
    ck_assert_str_eq(again->changelog[0].date, "2026-01-02");
    ck_assert_str_eq(again->changelog[0].reason, lines[i][1]);
    ab_golden_free(again);
    ab_golden_free(g);
    ab_mem_free(text);
    ab_mem_free(old);
  }
}
END_TEST

/* Line by line: what git compares and the digests are of. */
START_TEST(a_recorded_golden_is_its_canonical_text) {
  const char *root = getenv("AB_SOURCE_ROOT");
  char path[512], *text, *again;
  struct ab_golden *g;
  size_t size;
  snprintf(path, sizeof path, "%s/golden/unpipelined/golden.json", root ? root : ".");
  ck_ok(ab_file_read(&text, &size, path, 1 << 24));
  ck_ok(ab_golden_read(&g, path));
  ck_ok(ab_golden_text(&again, g));
  ck_assert_ptr_nonnull(g->calibration);
  ck_assert_uint_ge(g->changes, 2);
  ck_assert(strcmp(text, again) == 0);
  ab_golden_free(g);
  ab_mem_free(text);
  ab_mem_free(again);
}
END_TEST

START_TEST(all_of_the_provenance_is_kept_under_its_key) {
  static const char *const kept[][2] = {
      {"producer", "ab_golden sequential"}, {"version", "0.1.0"},       {"commit", "unknown"}, {"diff_hash", "unknown"},
      {"compiler", "gcc \"12\""},           {"flags", "unknown"},       {"kernels", "f32-portable"},
      {"blas_core", "none"},                {"created", "2026-01-02T03:04:05Z"}, {"threads", "2"}};
  struct ab_golden *g = portable_golden();
  ck_assert_uint_eq(g->provenances, sizeof kept / sizeof *kept);
  for (size_t i = 0; i < g->provenances; i++) {
    ck_assert_str_eq(ab_golden_provenance(g, kept[i][0]), kept[i][1]);
    ck_fails(ab_golden_add_provenance(g, kept[i][0], "again"), AB_EMISMATCH, "given twice");
  }
  ck_ok(ab_golden_add_provenance(g, "aa", "first"));
  ck_assert_str_eq(g->provenance[0].key, "aa");
  for (char key[] = "xa"; key[1] < 'z'; key[1]++) {
    ck_ok(ab_golden_add_provenance(g, key, key + 1));
    ck_assert_str_eq(ab_golden_provenance(g, key), key + 1);
  }
  ab_golden_free(g);
}
END_TEST

/* What lies behind either list, small or large, is no rank. */
START_TEST(ranks_are_of_both_lists_together) {
  static const struct {
    size_t metric[4], metrics, leaf[4], leaves, metric_rank[4], leaf_rank[4];
  } rows[] = {{{3, 40, 0}, 2, {7, 9, 0}, 2, {0, 3, 0}, {1, 2, 0}},
              {{3, 4, 0}, 2, {7, 9, 50, 0}, 3, {0, 1, 0}, {2, 3, 4, 0}},
              {{8, 99}, 1, {2, 99}, 1, {1, 99}, {0, 99}}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    size_t metric[4], leaf[4];
    memcpy(metric, rows[i].metric, sizeof metric);
    memcpy(leaf, rows[i].leaf, sizeof leaf);
    struct ab_golden g = {.metric_order = metric, .metrics = rows[i].metrics, .leaf_order = leaf,
                          .leaves = rows[i].leaves};
    ab_golden_rank(&g);
    ck_assert_msg(memcmp(metric, rows[i].metric_rank, sizeof metric) == 0, "row %zu: metrics", i);
    ck_assert_msg(memcmp(leaf, rows[i].leaf_rank, sizeof leaf) == 0, "row %zu: leaves", i);
  }
}
END_TEST

/* With all that a golden may hold. */
static char *full_text(void) {
  struct ab_golden *g = portable_golden();
  struct ab_calibration *c = calibration_begun(g->config_digest, 7);
  char *text;
  ck_ok(ab_golden_log(g, "2026-01-03", "moved", "0123456789abcdef0123456789abcdef", 0.25));
  g->calibration = c;
  ck_ok(ab_calibration_add(c, "weight gradient mlp/wo/kernel", 2e-6));
  ck_ok(ab_calibration_add(c, "metric loss", 1e-9));
  ab_calibration_conclude(c);
  g->selection = AB_SELECT_ENDS;
  ck_ok(ab_golden_text(&text, g));
  ab_golden_free(g);
  return text;
}

/* Refused as malformed; or another spelling of the same number, which is written as it was. */
static void check_edit(const char *edited, const char *text, size_t at) {
  struct ab_golden *g = NULL;
  char *again;
  ab_status status = ab_golden_parse(&g, edited, strlen(edited), "golden.json");
  if (status == AB_OK) {
    ck_ok(ab_golden_text(&again, g));
    ck_assert_msg(strcmp(again, text) == 0, "an edit at %zu is not noticed: ...%.60s", at, edited + at);
    ab_mem_free(again);
    ab_golden_free(g);
    return;
  }
  ck_assert_msg(status == AB_EFORMAT, "status %d for an edit at %zu: ...%.60s", status, at, edited + at);
}

/* Every key and every value: the last character of each word, number and digest becomes another one. */
START_TEST(no_word_of_a_golden_can_be_edited) {
  char *text = full_text(), *edited;
  size_t edits = 0;
  ck_ok(parse(text, strlen(text)));
  ck_ok(ab_mem_string(&edited, text));
  for (size_t i = 0; text[i]; i++) {
    if (!isalnum((unsigned char)text[i]) || isalnum((unsigned char)text[i + 1])) continue;
    edited[i] = text[i] == '9' ? '8' : text[i] == 'f' ? 'e' : (char)(text[i] + 1);
    check_edit(edited, text, i);
    edited[i] = text[i];
    edits++;
  }
  ck_assert_uint_gt(edits, 1000);
  ab_mem_free(text);
  ab_mem_free(edited);
}
END_TEST

/* What hides the most: a bound with its measurement, a calibration, a reason and an entry taken out. */
START_TEST(no_part_of_a_golden_can_be_taken_out) {
  static const struct {
    const char *from, *to, *sentence;
  } edit[] = {{"\"largest\": 2e-06, \"bound\": 4e-06", "\"largest\": 2e-05, \"bound\": 4e-05", "'seal'"},
              {"\"largest\": 2e-06", "\"largest\": 2e-05", "does not follow"},
              {"\"bound\": 4e-06", "\"bound\": 4e-05", "does not follow"},
              {"\"factor\": 2", "\"factor\": 20", "'calibration.factor' is not what follows"},
              {"\"quantile\": 0.95", "\"quantile\": 0.9", "'calibration.quantile'"},
              {"\"family_false_alarm\": 0.0", "\"family_false_alarm\": 0.1", "'calibration.family_false_alarm'"},
              {"\"runs\": 59", "\"runs\": 60", "'calibration.confidence'"},
              {"\"layers\": 4", "\"layers\": 40", "'seal'"},
              {"\"longest_reduction\": 1024", "\"longest_reduction\": 1048576", "'seal'"},
              {"\"seed\": 7", "\"seed\": 8", "'seal'"},
              {"\"factor\": 2", "\"factor\": 2, \"more\": 1", "is not a key of a calibration"},
              {"\"kind\": \"metric loss\"", "\"kind\": \"metric lass\"", "'seal'"},
              {"\"largest\": 1e-09", "\"largest\": 1e-08", "'seal'"},
              {"\"reason\": \"moved\"", "\"reason\": \"better\"", "'seal'"},
              {"\"date\": \"2026-01-03\"", "\"date\": \"2026-01-04\"", "'seal'"},
              {"\"largest_change\": 0.25", "\"largest_change\": 0.125", "'seal'"},
              {",\n      \"largest_change\": 0.25", "", "'seal'"}};
  char *text = full_text();
  for (size_t i = 0; i < sizeof edit / sizeof *edit; i++) {
    char *bad = replaced(text, edit[i].from, edit[i].to);
    ab_status status = parse(bad, strlen(bad));
    ck_assert_msg(status == AB_EFORMAT && strstr(ab_status_message(), edit[i].sentence), "%s -> %s: status %d \"%s\"",
                  edit[i].from, edit[i].to, status, ab_status_message());
    ab_mem_free(bad);
  }
  char *at = strstr(text, "  \"calibration\""), *end = strstr(text, "  \"changelog\"");
  memmove(at, end, strlen(end) + 1);
  ck_fails(parse(text, strlen(text)), AB_EFORMAT, "'seal' is not the digest of the rest");
  ab_mem_free(text);
}
END_TEST

START_TEST(leaves_and_metrics_must_not_be_empty) {
  char *text = portable_text(), *bad;
  const char *at = strstr(text, "\"metrics\": [");
  ck_ok(ab_mem_string(&bad, text));
  strcpy(bad + (at - text), "\"metrics\": [], \"leaves\": [], \"changelog\": [], \"seal\": \"\"}");
  ck_fails(parse(bad, strlen(bad)), AB_EFORMAT, "is empty");
  ab_mem_free(text);
  ab_mem_free(bad);
}
END_TEST

/* As large as a JSON text may be, with blanks behind it; in memory, so that a test that is killed leaves nothing. */
START_TEST(a_file_of_64_mebibytes_and_not_one_more) {
  char path[64], *blanks, *text = portable_text();
  const size_t most = (size_t)64 << 20, length = strlen(text);
  struct ab_golden *g = NULL;
  int fd = memfd_create("golden", MFD_CLOEXEC);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  ck_ok(ab_mem_new(&blanks, most + 1, 1));
  memset(blanks, ' ', most + 1);
  memcpy(blanks, text, length);
  ck_assert_int_eq(pwrite(fd, blanks, most + 1, 0), (ssize_t)most + 1);
  ck_fails(ab_golden_read(&g, path), AB_EFORMAT, "67108865 bytes, at most 67108864");
  for (size_t size = most; size >= most - 1; size--) {
    ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
    ck_ok(ab_golden_read(&g, path));
    ab_golden_free(g);
  }
  close(fd);
  ab_mem_free(blanks);
  ab_mem_free(text);
}
END_TEST

START_TEST(missing_malformed_and_stale_can_be_told_apart) {
  char path[] = "/tmp/ab_golden_XXXXXX";
  struct ab_golden *g = portable_golden(), *read = NULL;
  struct ab_pair_text config[3];
  size_t count = config_new(config);
  close(mkstemp(path));
  ck_fails(ab_golden_read(&read, "/nonexistent/golden.json"), AB_ENOTFOUND, "golden.json");
  ck_fails(ab_golden_read(&read, path), AB_EFORMAT, path);
  ck_ok(ab_golden_write(g, path));
  ck_ok(ab_golden_read(&read, path));
  check_equal(g, read);
  ck_ok(ab_golden_check_config(read, config, count, path));
  ck_fails(ab_golden_check_config(read, config, count - 1, path), AB_EMISMATCH, "'dtype' is float32 there and absent");
  struct ab_pair_text more[] = {config[0], config[1], config[2], {"zeta", "1"}};
  ck_fails(ab_golden_check_config(read, more, 4, path), AB_EMISMATCH, "'zeta' is absent there and 1 here");
  config[1].value = "228";
  ck_fails(ab_golden_check_config(read, config, count, path), AB_EMISMATCH, "'base_emb_dim' is 128 there and 228 here");
  config[1].key = "case_emb_dim";
  ck_fails(ab_golden_check_config(read, config, count, path), AB_EMISMATCH, "'base_emb_dim' is 128 there and absent");
  config[1].key = "base_emb_dim";
  config[0].value = "3"; /* the caller's order */
  ck_fails(ab_golden_check_config(read, config, count, path), AB_EMISMATCH, "'steps' is 2 there and 3 here");
  ab_golden_free(read);
  ab_golden_free(g);
  unlink(path);
}
END_TEST

START_TEST(the_config_digest_is_of_sorted_pairs) {
  struct ab_pair_text config[3], turned[3];
  char a[33], b[33];
  size_t count = config_new(config);
  for (size_t i = 0; i < count; i++) turned[i] = config[count - 1 - i];
  ck_ok(ab_golden_digest(a, config, count));
  ck_ok(ab_golden_digest(b, turned, count));
  ck_assert_str_eq(a, b);
  config[0].value = "3";
  ck_ok(ab_golden_digest(b, config, count));
  ck_assert_str_ne(a, b);
  turned[0] = turned[1];
  ck_fails(ab_golden_digest(b, turned, count), AB_EMISMATCH, "given twice");
}
END_TEST

START_TEST(no_golden_of_what_is_unfinished_empty_or_not_finite) {
  struct ab_golden *g = NULL;
  struct ab_pair_text config[3];
  size_t count = config_new(config);
  struct side s = side_values("sequential");
  ck_fails(ab_golden_new(&g, s.recording, config, count, &provenance, "portable"), AB_EMISMATCH, "did not finish");
  side_run(&s, false, false);
  ck_fails(ab_golden_new(&g, s.recording, config, count, &provenance, "portable"), AB_EMISMATCH, "0 fingerprints");
  side_free(&s);
  s = side_values("sequential");
  side_leaf(&s, 1, 1, 1)[0] = NAN;
  side_run(&s, false, true);
  ck_fails(ab_golden_new(&g, s.recording, config, count, &provenance, "portable"), AB_EMISMATCH, "1 non-finite");
  side_free(&s);
  s = side_values("sequential");
  side_run(&s, false, true);
  ck_fails(ab_golden_new(&g, s.recording, config, count, &provenance, "exact"), AB_EMISMATCH, "'exact'");
  s.recording->metric[0].metric.value = (double)INFINITY;
  ck_fails(ab_golden_new(&g, s.recording, config, count, &provenance, "fast"), AB_EMISMATCH, "is not finite");
  s.recording->metric[0].metric.value = 1;
  s.recording->fingerprint[0].summary.digest[0]++;
  ck_fails(ab_golden_new(&g, s.recording, config, count, &provenance, "fast"), AB_EMISMATCH, "is not that of");
  s.recording->fingerprint[0].summary.digest[0]--;
  s.recording->fingerprint[s.recording->fingerprints - 1].summary.digest[0]++;
  ck_fails(ab_golden_new(&g, s.recording, config, count, &provenance, "fast"), AB_EMISMATCH, "is not that of");
  ck_assert_ptr_null(g);
  side_free(&s);
}
END_TEST

static const float steps_off[] = {0, 1e-7f, 1e-3f};

/* Exit code of a run that is off by a relative amount in one leaf, and the verdict's rule. */
static enum ab_exit judge_run(const char *numerics, bool portable, float off, struct ab_finding *worst) {
  struct side reference = side_values("sequential"), run = side_values("linen");
  struct ab_recording *side;
  struct ab_verdict v;
  side_leaf(&run, 1, 2, 0)[4] *= 1 + off;
  side_run(&reference, false, true);
  side_run(&run, true, true);
  struct ab_golden *g = golden_of(&reference, numerics);
  struct ab_expected expected = expected_run();
  ck_ok(ab_golden_recording(&side, g));
  struct ab_comparison c = ab_golden_comparison(g, run.recording, side, portable, &expected);
  ck_ok(ab_verdict(&v, &c));
  ck_assert_str_eq(v.name_b, "golden");
  enum ab_exit exit = v.exit;
  *worst = v.worst;
  ab_verdict_free(&v);
  ab_recording_free(side);
  ab_golden_free(g);
  side_free(&reference);
  side_free(&run);
  return exit;
}

START_TEST(exact_only_where_both_are_portable) {
  struct ab_finding worst;
  for (int i = 0; i < 3; i++) {
    float off = steps_off[i];
    enum ab_exit exact = off == 0 ? AB_EXIT_EQUAL : AB_EXIT_DIFFERENT;
    enum ab_exit bounded = off < 1e-6f ? AB_EXIT_EQUAL : AB_EXIT_DIFFERENT;
    ck_assert_int_eq(judge_run("portable", true, off, &worst), exact);
    ck_assert_int_eq(worst.bound.tier, AB_TIER_BITWISE);
    ck_assert_int_eq(judge_run("fast", true, off, &worst), bounded);
    ck_assert_int_eq(worst.bound.rule, AB_RULE_FLOOR);
    ck_assert_int_eq(judge_run("portable", false, off, &worst), bounded);
    ck_assert_int_eq(judge_run("fast", false, off, &worst), bounded);
  }
}
END_TEST

START_TEST(a_golden_lacking_what_the_config_asks_for_is_not_equal) {
  struct side s = side_values("sequential");
  struct ab_recording *side;
  struct ab_verdict v;
  side_run(&s, false, true);
  struct ab_golden *g = golden_of(&s, "portable");
  struct ab_expected expected = expected_run();
  g->leaves--; /* content vanished from the file */
  ck_ok(ab_golden_recording(&side, g));
  struct ab_comparison c = ab_golden_comparison(g, s.recording, side, true, &expected);
  ck_ok(ab_verdict(&v, &c));
  ck_assert_int_eq(v.exit, AB_EXIT_INCOMPARABLE);
  ck_assert(!v.counts_right);
  ab_verdict_free(&v);
  ab_recording_free(side);
  ab_golden_free(g);
  side_free(&s);
}
END_TEST

START_TEST(the_golden_keeps_the_execution_order) {
  struct side s = side_values("sequential");
  struct ab_recording *side;
  side_run(&s, true, true);
  struct ab_golden *g = golden_of(&s, "portable");
  ck_ok(ab_golden_recording(&side, g));
  ck_assert_uint_eq(side->order, s.recording->order);
  for (size_t i = 0; i < s.recording->observations; i++) {
    const struct ab_recorded *here = &s.recording->observation[i];
    const struct ab_recorded *there = ab_recording_find(side, &here->observation.id);
    ck_assert_uint_eq(there->order, here->order);
  }
  ck_assert_uint_eq(ab_recording_metric(side, 1, "loss")->order, 7);
  ab_recording_free(side);
  ab_golden_free(g);
  side_free(&s);
}
END_TEST

START_TEST(a_repeated_leaf_is_refused) {
  struct ab_golden *g = portable_golden();
  struct ab_recording *side = NULL;
  g->leaf[3].id = g->leaf[2].id;
  ck_fails(ab_golden_recording(&side, g), AB_EMISMATCH, "twice");
  ck_assert_ptr_null(side);
  ab_golden_free(g);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("golden");
  TCase *c = tcase_create("golden");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, what_is_written_reads_back_to_the_bit_and_writes_again_the_same);
  tcase_add_test(c, a_float_whose_decimal_lies_between_two_reads_back);
  tcase_add_test(c, the_text_is_the_same_under_any_locale);
  tcase_add_test(c, more_observations_do_not_change_the_file);
  tcase_add_test(c, truncated_anywhere_it_is_rejected);
  tcase_add_loop_test(c, a_golden_that_is_not_one_is_rejected_with_a_sentence, 0, sizeof mutation / sizeof *mutation);
  tcase_add_test(c, no_word_of_a_golden_can_be_edited);
  tcase_add_test(c, no_part_of_a_golden_can_be_taken_out);
  tcase_add_test(c, leaves_and_metrics_must_not_be_empty);
  tcase_add_test(c, a_conflict_marker_is_seen_up_to_the_last_byte);
  tcase_add_loop_test(c, a_golden_is_taken_up_to_every_limit, 0, LIMITS + AB_M61 + 1);
  tcase_add_test(c, every_phase_is_read_back);
  tcase_add_loop_test(c, a_sealed_golden_that_is_none_is_refused, 0, sizeof sealed / sizeof *sealed);
  tcase_add_test(c, a_changelog_of_lines_is_read);
  tcase_add_test(c, a_recorded_golden_is_its_canonical_text);
  tcase_add_test(c, all_of_the_provenance_is_kept_under_its_key);
  tcase_add_test(c, ranks_are_of_both_lists_together);
  tcase_add_test(c, a_file_of_64_mebibytes_and_not_one_more);
  tcase_add_test(c, missing_malformed_and_stale_can_be_told_apart);
  tcase_add_test(c, the_config_digest_is_of_sorted_pairs);
  tcase_add_test(c, no_golden_of_what_is_unfinished_empty_or_not_finite);
  tcase_add_test(c, exact_only_where_both_are_portable);
  tcase_add_test(c, a_golden_lacking_what_the_config_asks_for_is_not_equal);
  tcase_add_test(c, the_golden_keeps_the_execution_order);
  tcase_add_test(c, a_repeated_leaf_is_refused);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
