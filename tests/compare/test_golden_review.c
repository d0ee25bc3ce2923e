/* What moved between goldens, the changelog, pending files, and a writer that is killed. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "file.h"
#include "golden_diff.h"
#include "pending.h"
#include "sides.h"

static struct ab_golden *golden_with(void (*change)(struct side *s)) {
  struct ab_golden *g;
  struct ab_pair_text config[] = {{"dtype", "float32"}, {"steps", "2"}};
  const struct ab_provenance provenance = {.producer = "test", .commit = "c1", .created = "2026-01-02T03:04:05Z"};
  struct side s = side_values("linen");
  if (change) change(&s);
  side_run(&s, false, true);
  ck_ok(ab_golden_new(&g, s.recording, config, 2, &provenance, "portable"));
  side_free(&s);
  return g;
}

static void up(struct side *s) { side_leaf(s, 1, 2, 0)[0] += 0.5f; }
static void down(struct side *s) {
  side_leaf(s, 0, 0, 0)[0] += 1;
  side_leaf(s, 1, 1, 0)[0] -= 1;
}

START_TEST(what_moved_stands_worst_first_and_signs_do_not_cancel) {
  struct ab_golden *old = golden_with(NULL), *now = golden_with(down);
  struct ab_golden_diff d;
  ck_ok(ab_golden_diff(&d, old, now));
  ck_assert_uint_eq(d.compared, old->leaves + old->metrics);
  ck_assert_uint_eq(d.of_kind[AB_MOVE_VALUE], 2);
  ck_assert_int_eq(d.first_step, 0);
  ck_assert_double_gt(d.q50, 0);
  ck_assert_double_le(d.q50, d.q90);
  ck_assert_double_eq(d.largest, d.move[0].change);
  ck_assert_double_ge(d.move[0].change, d.move[1].change);
  ck_ok(ab_golden_check_no_loss(&d, "g"));
  ab_golden_diff_free(&d);
  ck_ok(ab_golden_diff(&d, old, old));
  ck_assert_uint_eq(d.moves, 0);
  ck_assert_double_eq(d.largest, 0);
  ab_golden_diff_free(&d);
  ab_golden_free(old);
  ab_golden_free(now);
}
END_TEST

START_TEST(a_change_of_one_metric_is_relative_to_the_larger) {
  struct ab_golden *old = golden_with(NULL), *now = golden_with(NULL);
  struct ab_golden_diff d;
  for (int turned = 0; turned < 2; turned++) {
    old->metric[1].value = turned ? -6 : 2;
    now->metric[1].value = turned ? 2 : -6;
    now->metric[1].step = old->metric[1].step;
    ck_ok(ab_golden_diff(&d, old, now));
    ck_assert_uint_eq(d.moves, 1);
    ck_assert(d.move[0].metric);
    ck_assert_double_eq(d.move[0].change, 8.0 / 6);
    ab_golden_diff_free(&d);
  }
  ab_golden_free(old);
  ab_golden_free(now);
}
END_TEST

/* By the larger of projections and norms; of other seeds projections tell nothing. */
START_TEST(a_change_of_a_tensor_is_of_its_norm) {
  static const struct {
    double norm[2], projection; /* of both; how far all projections are apart */
    bool seeds;                 /* other ones */
    double change;
  } rows[] = {{{4, 5}, 0, false, 0.2}, {{5, 4}, 0, true, 0.2},  {{4, 5}, 3, false, 0.6},
              {{4, 5}, 3, true, 0.2},  {{0, 0}, 3, false, INFINITY}, {{5, 5}, 0, false, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct ab_golden *old = golden_with(NULL), *now = golden_with(NULL);
    struct ab_golden_diff d;
    old->leaf[0].summary.l2 = rows[i].norm[0];
    now->leaf[0].summary.l2 = rows[i].norm[1];
    now->leaf[0].summary.digest[0]++;
    now->leaf[0].seed += rows[i].seeds;
    for (int j = 0; j < AB_PROJECTIONS; j++)
      now->leaf[0].projection[j] = old->leaf[0].projection[j] + rows[i].projection;
    ck_ok(ab_golden_diff(&d, old, now));
    ck_assert_uint_eq(d.moves, 1);
    ck_assert_msg(fabs(d.move[0].change - rows[i].change) < 1e-12 || d.move[0].change == rows[i].change, "row %zu: %g",
                  i, d.move[0].change);
    ab_golden_diff_free(&d);
    ab_golden_free(old);
    ab_golden_free(now);
  }
}
END_TEST

/* Tensor i moves by (i + 1) / 10 of itself, 1 to 10 of them: by nearest rank. */
START_TEST(quantiles_are_of_the_nearest_rank) {
  static const struct {
    size_t moved;
    double q50, q90, q99;
  } rows[] = {{1, 0.1, 0.1, 0.1}, {2, 0.1, 0.2, 0.2}, {5, 0.3, 0.5, 0.5}, {10, 0.5, 0.9, 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct ab_golden *old = golden_with(NULL), *now = golden_with(NULL);
    struct ab_golden_diff d;
    for (size_t k = 0; k < rows[i].moved; k++) {
      old->leaf[k].summary.l2 = 10;
      now->leaf[k].summary.l2 = 9 - (double)k;
      now->leaf[k].summary.digest[0]++;
      memcpy(now->leaf[k].projection, old->leaf[k].projection, sizeof old->leaf[k].projection);
    }
    ck_ok(ab_golden_diff(&d, old, now));
    ck_assert_uint_eq(d.of_kind[AB_MOVE_VALUE], rows[i].moved);
    ck_assert_msg(d.q50 == rows[i].q50 && d.q90 == rows[i].q90 && d.q99 == rows[i].q99, "row %zu: %g %g %g", i, d.q50,
                  d.q90, d.q99);
    ck_assert_double_eq(d.largest, (double)rows[i].moved / 10);
    ab_golden_diff_free(&d);
    ab_golden_free(old);
    ab_golden_free(now);
  }
}
END_TEST

/* Letters are keys, digits their values: "a1b2". */
static size_t keys_of(struct ab_pair_text *out, char (*text)[2][2], const char *spelled) {
  size_t count = 0;
  for (; spelled[2 * count]; count++) {
    memcpy(text[count], (char[2][2]){{spelled[2 * count], 0}, {spelled[2 * count + 1], 0}}, sizeof *text);
    out[count] = (struct ab_pair_text){text[count][0], text[count][1]};
  }
  return count;
}

START_TEST(keys_are_compared_in_their_order) {
  static const struct {
    const char *old, *now;
    size_t removed, added, changed;
    const char *key;
  } rows[] = {{"a1c1", "a1c1", 0, 0, 0, NULL}, {"a1c1", "a2c1", 0, 0, 1, "a"}, {"a1c1", "a1c3", 0, 0, 1, "c"},
              {"a1", "a1z1", 0, 1, 0, "z"},    {"b1", "a1b1", 0, 1, 0, "a"},   {"a1b1", "b2", 1, 0, 1, "a"},
              {"a1b1", "a2c1", 1, 1, 1, "b"},  {"", "a1b1", 0, 2, 0, "a"},     {"a1b1c1", "", 3, 0, 0, "a"},
              {"a1b1", "a2b2", 0, 0, 2, "a"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct ab_golden *g[] = {golden_with(NULL), golden_with(NULL)};
    struct ab_golden_diff d;
    for (int side = 0; side < 2; side++) ab_mem_free(g[side]->config);
    struct ab_pair_text pairs[2][8];
    char text[2][8][2][2];
    for (int side = 0; side < 2; side++) {
      keys_of(pairs[side], text[side], "x1x1x1x1x1x1x1x1"); /* what lies behind the end */
      g[side]->config = pairs[side];
      g[side]->configs = keys_of(pairs[side], text[side], side ? rows[i].now : rows[i].old);
    }
    ck_ok(ab_golden_diff(&d, g[0], g[1]));
    ck_assert_msg(d.keys_removed == rows[i].removed && d.keys_added == rows[i].added &&
                      d.keys_changed == rows[i].changed, "row %zu: -%zu +%zu ~%zu", i, d.keys_removed, d.keys_added,
                  d.keys_changed);
    ck_assert_msg(rows[i].key ? d.key && !strcmp(d.key, rows[i].key) : !d.key, "row %zu: '%s'", i, d.key);
    ab_golden_diff_free(&d);
    for (int side = 0; side < 2; side++) {
      g[side]->config = NULL;
      g[side]->configs = 0;
      ab_golden_free(g[side]);
    }
  }
}
END_TEST

/* Of the same badness: in the order of execution, metrics and tensors together. */
START_TEST(moves_stand_in_a_fixed_order) {
  struct ab_golden *old = golden_with(NULL), *now = golden_with(NULL);
  struct ab_golden_diff d;
  now->metric[1].name[0] = 'X';  /* one removed, one added */
  now->leaf[0].id.tensor[0] = 'X';
  now->leaf[1].shape.dim[0]++;
  now->leaf[2].dtype = AB_F64;
  now->leaf[3].summary.digest[0]++;
  now->leaf[3].summary.l2 *= 2;
  now->leaf[4].summary.digest[0]++;
  now->leaf[4].summary.l2 *= 4;
  ck_ok(ab_golden_diff(&d, old, now));
  static const enum ab_move_kind kinds[] = {AB_MOVE_REMOVED, AB_MOVE_REMOVED,  AB_MOVE_ADDED, AB_MOVE_ADDED,
                                            AB_MOVE_RESHAPED, AB_MOVE_RESHAPED, AB_MOVE_VALUE, AB_MOVE_VALUE};
  ck_assert_uint_eq(d.moves, sizeof kinds / sizeof *kinds);
  for (size_t i = 0; i < d.moves; i++) {
    ck_assert_msg(d.move[i].kind == kinds[i], "move %zu is %s", i, ab_move_name(d.move[i].kind));
    if (i && kinds[i] == kinds[i - 1] && kinds[i] != AB_MOVE_VALUE)
      ck_assert_msg(d.move[i].order > d.move[i - 1].order, "move %zu", i);
  }
  ck_assert(!d.move[0].metric && d.move[1].metric && !d.move[2].metric && d.move[3].metric);
  ck_assert_double_eq(d.move[6].change, d.largest);
  ck_assert_double_gt(d.move[6].change, d.move[7].change);
  ab_golden_diff_free(&d);
  ab_golden_free(old);
  ab_golden_free(now);
}
END_TEST

/* Each takes something away; false where the loss is of the config. */
static void lose_leaf(struct ab_golden *g) { g->leaves--; }
static void lose_metric(struct ab_golden *g) { g->metrics--; }
static void lose_key(struct ab_golden *g) { g->configs--; }
static void rename_leaf(struct ab_golden *g) { g->leaf[0].id.tensor[0] = 'X'; }
static void (*const losses[])(struct ab_golden *g) = {lose_leaf, lose_metric, lose_key, rename_leaf};

START_TEST(a_golden_may_not_lose_anything) {
  struct ab_golden *old = golden_with(NULL), *now = golden_with(NULL);
  struct ab_golden_diff d;
  losses[_i](now);
  ck_ok(ab_golden_diff(&d, old, now));
  ck_fails(ab_golden_check_no_loss(&d, "golden.json"), AB_EMISMATCH, _i == 2 ? "'steps'" : "would shrink by 1");
  ab_golden_diff_free(&d);
  ck_ok(ab_golden_diff(&d, now, old)); /* more is no loss */
  if (_i < 3) ck_ok(ab_golden_check_no_loss(&d, "golden.json"));
  ab_golden_diff_free(&d);
  ab_golden_free(old);
  ab_golden_free(now);
}
END_TEST

START_TEST(the_changelog_explains_the_content_and_nothing_else) {
  size_t before = ab_mem_stats().live_blocks;
  struct ab_golden *g = golden_with(NULL), *next = golden_with(up);
  char digest[33], again[33];
  ck_fails(ab_golden_check_explained(g, "g"), AB_EMISMATCH, "changelog is empty");
  ck_ok(ab_golden_log(g, "2026-01-02T03:04:05Z", "first", NULL, -1));
  ck_ok(ab_golden_check_explained(g, "g"));
  ck_assert_str_eq(g->changelog[0].date, "2026-01-02");
  ck_ok(ab_golden_content_digest(digest, g));
  ck_ok(ab_golden_add_provenance(g, "origin", "elsewhere"));
  ck_fails(ab_golden_add_provenance(g, "origin", "twice"), AB_EMISMATCH, "given twice");
  ck_assert_str_eq(ab_golden_provenance(g, "origin"), "elsewhere");
  ck_assert_str_eq(ab_golden_provenance(g, "nothing"), "unknown");
  ck_ok(ab_golden_content_digest(again, g));
  ck_assert_str_eq(digest, again);
  ck_ok(ab_golden_inherit(next, g));
  ck_fails(ab_golden_check_explained(next, "g"), AB_EMISMATCH, "the last changelog entry explains");
  ck_ok(ab_golden_log(next, "2026-01-03", "moved", digest, 0.25));
  ck_ok(ab_golden_check_explained(next, "g"));
  ck_assert_uint_eq(next->changes, 2);
  ck_assert_str_eq(next->changelog[1].from, digest);
  g->metric[0].value += 1;
  ck_fails(ab_golden_check_explained(g, "g"), AB_EMISMATCH, "the last changelog entry explains");
  next->changelog[1].reason[0] = '\0';
  ck_fails(ab_golden_check_explained(next, "g"), AB_EMISMATCH, "entry 2 has no reason");
  ab_golden_free(g);
  ab_golden_free(next);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, before);
}
END_TEST

START_TEST(a_long_changelog_keeps_every_entry) {
  enum { OLD = 9, OWN = 2 };
  struct ab_golden *old = golden_with(NULL), *now = golden_with(up);
  char reason[32];
  for (int i = 0; i < OLD + OWN; i++) {
    snprintf(reason, sizeof reason, "reason %d", i);
    ck_ok(ab_golden_log(i < OLD ? old : now, "2026-01-02", reason, NULL, i));
  }
  ck_ok(ab_golden_inherit(now, old));
  ck_assert_uint_eq(now->changes, OLD + OWN);
  for (int i = 0; i < OLD + OWN; i++) {
    snprintf(reason, sizeof reason, "reason %d", i);
    ck_assert_str_eq(now->changelog[i].reason, reason);
    ck_assert_str_eq(now->changelog[i].date, "2026-01-02");
    ck_assert_double_eq(now->changelog[i].largest, i);
  }
  ab_golden_free(old);
  ab_golden_free(now);
}
END_TEST

START_TEST(placeholders_are_found) {
  struct ab_golden *g = golden_with(NULL);
  ck_ok(ab_golden_check_genuine(g, "g"));
  for (size_t i = 0; i < g->leaves; i++)
    for (int k = 0; k < AB_SAMPLES; k++) g->leaf[i].sample[k] = 3;
  for (size_t i = 0; i < g->metrics; i++) g->metric[i].value = 3;
  ck_fails(ab_golden_check_genuine(g, "g"), AB_EMISMATCH, "every number in it is 3");
  g->metric[g->metrics - 1].value = 3.5;
  ck_ok(ab_golden_check_genuine(g, "g"));
  g->metric[g->metrics - 1].value = 3;
  g->leaf[g->leaves - 1].sample[AB_SAMPLES - 1] = 3.5;
  ck_ok(ab_golden_check_genuine(g, "g"));
  for (size_t i = 0; i < g->leaves; i++) g->leaf[i].summary.count = i == 0;
  ck_ok(ab_golden_check_genuine(g, "g"));
  g->leaf[0].summary.count = 0;
  g->leaf[g->leaves - 1].summary.count = 1;
  ck_ok(ab_golden_check_genuine(g, "g"));
  g->leaf[g->leaves - 1].summary.count = 0;
  ck_fails(ab_golden_check_genuine(g, "g"), AB_EMISMATCH, "hold no element");
  ab_golden_free(g);
}
END_TEST

START_TEST(a_pending_golden_reads_back) {
  char *scratch, *path, *text;
  size_t size, before = ab_mem_stats().live_blocks;
  ck_ok(ab_scratch_new(&scratch, NULL));
  ck_ok(ab_path_join(&path, scratch, "golden.pending.json"));
  struct ab_pending p = {.engines_equal = true, .golden = golden_with(up)}, read = {0};
  ck_ok(ab_mem_string(&p.cause, "both moved"));
  ck_ok(ab_mem_string(&p.verdict, "1 fail"));
  ck_ok(ab_mem_string(&p.command, "ab_compare 'x y'"));
  ck_fails(ab_pending_read(&read, path), AB_ENOTFOUND, "golden.pending.json");
  ck_ok(ab_pending_write(&p, path));
  ck_ok(ab_pending_read(&read, path));
  ck_assert_str_eq(read.command, p.command);
  ck_assert(read.engines_equal && !read.from && read.golden->changes == 0);
  ab_pending_free(&read);
  ck_ok(ab_mem_string(&p.from, "0123456789abcdef0123456789abcdef"));
  ck_ok(ab_pending_write(&p, path));
  ck_ok(ab_pending_read(&read, path));
  ck_assert_str_eq(read.from, p.from);
  ab_pending_free(&read);
  ck_ok(ab_file_read(&text, &size, path, 1 << 24));
  ck_assert_int_eq(strncmp(text, "{\n  \"schema\": \"abpipe-pending/1\",\n  \"cause\"", 43), 0);
  ck_ok(ab_file_write(path, text, size / 2));
  ck_fails(ab_pending_read(&read, path), AB_EFORMAT, "golden.pending.json");
  ck_ok(ab_golden_write(p.golden, path));
  ck_fails(ab_pending_read(&read, path), AB_EFORMAT, "is not abpipe-pending/1");
  for (off_t more = -1; more <= 1; more++) { /* a hole of zeros behind it: read, and no JSON, up to the limit */
    ck_assert_int_eq(truncate(path, ((off_t)64 << 20) + more), 0);
    ck_fails(ab_pending_read(&read, path), AB_EFORMAT, more > 0 ? "67108865 bytes, at most 67108864" : "golden.pending.json:");
  }
  ck_assert_ptr_null(read.golden);
  ab_pending_free(&p);
  ab_mem_free(text);
  ab_mem_free(path);
  ck_ok(ab_scratch_remove(scratch));
  ab_mem_free(scratch);
  ck_assert_uint_eq(ab_mem_stats().live_blocks, before);
}
END_TEST

/* Ends with the process. */
static void write_for_ever(struct ab_golden *const *g, const char *path) {
  for (unsigned i = 0;; i++)
    if (ab_golden_write(g[i % 2], path) != AB_OK) _exit(1);
}

START_TEST(a_writer_killed_at_any_moment_leaves_one_golden_or_the_other) {
  char *scratch, *path, digest[2][33], found[33];
  struct ab_golden *g[] = {golden_with(NULL), golden_with(up)}, *read;
  struct ab_names names;
  ck_ok(ab_scratch_new(&scratch, NULL));
  ck_ok(ab_path_join(&path, scratch, "golden.json"));
  for (int i = 0; i < 2; i++) ck_ok(ab_golden_content_digest(digest[i], g[i]));
  ck_ok(ab_golden_write(g[0], path));
  for (unsigned i = 0; i < 40; i++) {
    int how;
    pid_t child = fork();
    ck_assert_int_ne(child, -1);
    if (child == 0) write_for_ever(g, path);
    usleep(500 + 731 * i % 9000);
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, &how, 0), child);
    ck_assert(WIFSIGNALED(how));
    ck_ok(ab_golden_read(&read, path));
    ck_ok(ab_golden_content_digest(found, read));
    ck_assert_msg(!strcmp(found, digest[0]) || !strcmp(found, digest[1]), "kill %u left neither", i);
    ab_golden_free(read);
    ck_ok(ab_folder_list(&names, scratch, 10)); /* what is left over is no golden */
    ck_assert_uint_eq(names.count, 1);
    ab_names_free(&names);
  }
  ck_ok(ab_folder_sweep(scratch));
  ck_ok(ab_file_remove(path));
  ck_assert_int_eq(rmdir(scratch), 0); /* nothing else is in it */
  for (int i = 0; i < 2; i++) ab_golden_free(g[i]);
  ab_mem_free(path);
  ab_mem_free(scratch);
}
END_TEST

START_TEST(a_folder_is_locked_for_one_holder_at_a_time) {
  char *scratch;
  int lock, how;
  ck_ok(ab_scratch_new(&scratch, NULL));
  ck_ok(ab_folder_lock(&lock, scratch));
  pid_t child = fork();
  ck_assert_int_ne(child, -1);
  if (child == 0) {
    int mine;
    ab_folder_unlock(lock);   /* its copy of ours */
    signal(SIGALRM, SIG_DFL); /* Check's own would kill the whole process group */
    alarm(1);                 /* waits: ended by the alarm */
    _exit(ab_folder_lock(&mine, scratch) == AB_OK ? 0 : 1);
  }
  ck_assert_int_eq(waitpid(child, &how, 0), child);
  ck_assert(WIFSIGNALED(how) && WTERMSIG(how) == SIGALRM);
  ab_folder_unlock(lock);
  ck_ok(ab_folder_lock(&lock, scratch)); /* a killed waiter leaves nothing */
  ab_folder_unlock(lock);
  ck_fails(ab_folder_lock(&lock, "/nonexistent"), AB_ENOTFOUND, "/nonexistent");
  ck_ok(ab_scratch_remove(scratch));
  ab_mem_free(scratch);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("golden_review");
  TCase *tc = tcase_create("golden_review");
  tcase_set_timeout(tc, 60);
  tcase_add_test(tc, what_moved_stands_worst_first_and_signs_do_not_cancel);
  tcase_add_test(tc, a_change_of_one_metric_is_relative_to_the_larger);
  tcase_add_test(tc, a_change_of_a_tensor_is_of_its_norm);
  tcase_add_test(tc, quantiles_are_of_the_nearest_rank);
  tcase_add_test(tc, keys_are_compared_in_their_order);
  tcase_add_test(tc, moves_stand_in_a_fixed_order);
  tcase_add_loop_test(tc, a_golden_may_not_lose_anything, 0, sizeof losses / sizeof *losses);
  tcase_add_test(tc, the_changelog_explains_the_content_and_nothing_else);
  tcase_add_test(tc, a_long_changelog_keeps_every_entry);
  tcase_add_test(tc, placeholders_are_found);
  tcase_add_test(tc, a_pending_golden_reads_back);
  tcase_add_test(tc, a_writer_killed_at_any_moment_leaves_one_golden_or_the_other);
  tcase_add_test(tc, a_folder_is_locked_for_one_holder_at_a_time);
  suite_add_tcase(suite, tc);
  return ab_run_suite(suite);
}
