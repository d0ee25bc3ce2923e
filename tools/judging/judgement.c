#include "judgement.h"

#include <stdio.h>
#include <string.h>

#include "file.h"
#include "mem.h"
#include "memory_limit.h"
#include "process.h"
#include "variables.h"

enum { DEFAULT_TIMEOUT = 600 };

/* A command has no route: no engine's counters, and nothing that is bitwise. */
static const struct ab_route commands[] = {{.name = "a-cmd", .what = "a command", .family = AB_FAMILY_SEQUENTIAL},
                                           {.name = "b-cmd", .what = "a command", .family = AB_FAMILY_SEQUENTIAL}};

static ab_status choose_a(struct ab_judgement *j) {
  if (!j->request.a_cmd) return ab_route_find(&j->a, j->request.a ? j->request.a : "linen");
  j->a = &commands[0];
  return AB_OK;
}

static ab_status choose_b(struct ab_judgement *j) {
  if (j->request.b_cmd) {
    j->b = &commands[1];
    return AB_OK;
  }
  if (j->request.b) return ab_route_find(&j->b, j->request.b);
  AB_TRY(ab_route_select(&j->b, j->opened.config));
  if (j->b == j->a) AB_TRY(ab_route_find(&j->b, "nnx"));
  if (j->b == j->a) AB_TRY(ab_route_find(&j->b, "linen"));
  return AB_OK;
}

static ab_status choose_routes(struct ab_judgement *j) {
  AB_TRY(choose_a(j));
  AB_TRY(choose_b(j));
  if (j->a->arithmetic != j->b->arithmetic)
    return AB_FAIL(AB_ECONFIG, "routes '%s' and '%s' compute in different arithmetic; expected two of one kind (every "
                   "float32 comparison includes the float64 oracle)", j->a->name, j->b->name);
  if (j->a == j->b && !j->request.allow_same && ab_program_same(&j->program[0], &j->program[1]))
    return AB_FAIL(AB_ECONFIG, "both sides are route '%s': nothing would be compared; --allow-same allows it",
                   j->a->name);
  if (j->request.dump && j->a->arithmetic != AB_ARITHMETIC_F32)
    return AB_FAIL(AB_ECONFIG, "--dump of route '%s': a bundle holds float32, expected a float32 route as side A",
                   j->a->name);
  return AB_OK;
}

/* What the command line says about who runs one side. */
struct side_choice {
  const char *side, *bin_option, *rev_option, *cmd_option, *route, *bin, *rev, *cmd;
};

/* A command stands where a route, a build or a commit would. */
static ab_status check_command(const struct ab_judgement *j, const struct side_choice *c) {
  const char *other = c->bin ? c->bin_option : c->rev ? c->rev_option : c->route ? "a route" : NULL;
  if (other)
    return AB_FAIL(AB_ECONFIG, "%s and %s were both given; expected one program for side %s", c->cmd_option, other,
                   c->side);
  const struct ab_request *r = &j->request;
  if (r->dump || r->golden || r->intended_oracle || r->teeth || r->check_slope || r->save_artifact)
    return AB_FAIL(AB_ECONFIG, "%s does not go with --dump, --golden, --intended-oracle, --teeth, --check-slope or "
                   "--save-artifact", c->cmd_option);
  return AB_OK;
}

static ab_status open_program(struct ab_judgement *j, struct ab_program *out, const struct side_choice *c) {
  if (c->cmd) AB_TRY(check_command(j, c));
  if (c->cmd) return ab_judgement_note(j, "side %s is a command: %.400s", c->side, c->cmd);
  if (c->bin && c->rev)
    return AB_FAIL(AB_ECONFIG, "%s and %s were both given; expected one program for side %s", c->bin_option,
                   c->rev_option, c->side);
  if (c->bin) AB_TRY(ab_program_build(out, c->bin_option, c->bin));
  if (c->rev) AB_TRY(ab_program_revision(out, c->rev_option, c->rev, j->request.source));
  if (!c->bin && !c->rev) return AB_OK;
  return ab_judgement_note(j, "side %s is run by '%.300s': %s", c->side, c->bin ? c->bin : c->rev, out->about);
}

/* Who made the numbers of a side that is not ours. */
static ab_status open_programs(struct ab_judgement *j) {
  const struct ab_request *r = &j->request;
  const struct side_choice choice[] = {{"a", "--a-bin", "--a-rev", "--a-cmd", r->a, r->a_bin, r->a_rev, r->a_cmd},
                                       {"b", "--b-bin", "--b-rev", "--b-cmd", r->b, r->b_bin, r->b_rev, r->b_cmd}};
  for (int i = 0; i < 2; i++) AB_TRY(open_program(j, &j->program[i], &choice[i]));
  return AB_OK;
}

static ab_status fits(struct ab_golden *golden, const struct ab_case *c) {
  struct ab_pair_text *pairs;
  size_t count;
  AB_TRY(ab_config_pairs(&pairs, &count, c->config));
  ab_status status = ab_golden_check_config(golden, pairs, count, c->golden_path);
  ab_mem_free(pairs);
  return status;
}

/* What --devices changes are derived keys alone. */
static void tell_golden(struct ab_judgement *j) {
  char sentence[1024];
  int used = snprintf(sentence, sizeof sentence, "%s", ab_status_message());
  if (j->stale && j->request.devices && used < 900)
    snprintf(sentence + used, sizeof sentence - (size_t)used, ", with --devices %ld", j->request.devices);
  ab_judgement_trouble(j, AB_EXIT_GOLDEN, sentence);
}

/* A golden that cannot be used is exit 4, and nothing runs unless for a pending one in the place of a stale one. */
static ab_status read_golden(struct ab_judgement *j) {
  if (!j->opened.golden_path) return AB_OK;
  ab_status status = ab_golden_read(&j->golden, j->opened.golden_path);
  if (status == AB_OK) status = ab_golden_recording(&j->golden_recording, j->golden);
  bool usable = status == AB_OK;
  if (usable) status = fits(j->golden, &j->opened);
  if (status == AB_ENOMEM) return status;
  j->stale = usable && status != AB_OK;
  if (status != AB_OK) tell_golden(j);
  if (!usable) return AB_OK;
  j->fingerprints = true;
  if (j->request.numerics) return AB_OK;
  j->request.numerics = j->golden->numerics;
  if (ab_numerics_find(&j->opened.numerics, j->golden->numerics) != AB_OK)
    ab_judgement_trouble(j, AB_EXIT_GOLDEN, ab_status_message());
  return AB_OK;
}

/* The oracle opens the same case; with --intended-oracle without upstream's defects. */
static ab_status take_arguments(struct ab_judgement *j) {
  if (j->request.intended_oracle && !j->opened.config->upstream_faithful)
    return AB_FAIL(AB_ECONFIG,
                   "--intended-oracle is given, but upstream_faithful names no defect that it could leave out");
  struct ab_request oracle = j->request;
  const char **overrides;
  AB_TRY(ab_request_case_arguments(&j->case_arguments, &j->request));
  AB_TRY(ab_mem_new(&overrides, oracle.override_count + 1, sizeof *overrides));
  for (size_t i = 0; i < oracle.override_count; i++) overrides[i] = oracle.overrides[i];
  oracle.overrides = overrides;
  if (oracle.intended_oracle) overrides[oracle.override_count++] = "upstream_faithful=";
  ab_status status = ab_request_case_arguments(&j->oracle_arguments, &oracle);
  ab_mem_free(overrides);
  return status;
}

static ab_status open_all(struct ab_judgement *j) {
  if (ab_has_command(j)) j->request.ignore_golden = true;
  AB_TRY(ab_case_open(&j->opened, &j->request));
  AB_TRY(open_programs(j));
  AB_TRY(choose_routes(j));
  AB_TRY(read_golden(j));
  AB_TRY(ab_mem_new(&j->side, AB_SIDES, sizeof *j->side));
  AB_TRY(ab_mem_new(&j->facts, 1, sizeof *j->facts));
  AB_TRY(ab_mem_new(&j->teeth, 1, sizeof *j->teeth));
  return take_arguments(j);
}

ab_status ab_judgement_open(struct ab_judgement *out, const struct ab_request *request) {
  *out = (struct ab_judgement){.request = *request};
  ab_status status = open_all(out);
  if (status != AB_OK) ab_judgement_close(out);
  return status;
}

static struct ab_side_order order(struct ab_judgement *j, const char *label, const char *route) {
  return (struct ab_side_order){.label = label,
                                .route = route,
                                .case_arguments = j->case_arguments,
                                .scratch = j->scratch,
                                .fingerprints = j->fingerprints,
                                .progress = &j->progress,
                                .timeout = j->request.timeout ? (double)j->request.timeout : DEFAULT_TIMEOUT};
}

/* Side A (0) or B (1). Inputs and results of a command have folders in the scratch folder. */
static ab_status engine_order(struct ab_side_order *out, struct ab_judgement *j, int side) {
  const char *command = side ? j->request.b_cmd : j->request.a_cmd, *label = side ? "b" : "a";
  *out = order(j, label, side ? j->b->name : j->a->name);
  out->program = &j->program[side];
  if (!command) return AB_OK;
  AB_TRY(ab_path_join(&j->command_in[side], j->scratch, side ? "b.in" : "a.in"));
  AB_TRY(ab_path_join(&j->command_out[side], j->scratch, side ? "b.out" : "a.out"));
  AB_TRY(ab_judgement_inputs(j, j->command_in[side]));
  out->command = command;
  out->in = j->command_in[side];
  out->out = j->command_out[side];
  out->opened = &j->opened;
  return AB_OK;
}

static struct ab_side_order oracle_order(struct ab_judgement *j, const char *label, const char *route) {
  struct ab_side_order oracle = order(j, label, route);
  oracle.case_arguments = j->oracle_arguments;
  return oracle;
}

/* Notes failures; true when the side can be judged. */
static bool succeeded(struct ab_judgement *j, enum ab_side_place place) {
  const struct ab_side_result *side = &j->side[place];
  if (side->exit == AB_EXIT_EQUAL) return true;
  if (side->exit == AB_EXIT_USAGE || side->exit == AB_EXIT_INCOMPARABLE) {
    ab_judgement_trouble(j, side->exit, side->reason);
    return false;
  }
  j->failure[j->failures++] = (struct ab_side_failure){side->name, side->reason, side->last};
  return false;
}

static bool is_f32(const struct ab_route *route) { return route->arithmetic == AB_ARITHMETIC_F32; }

/* At the same time when their memory allows it: B and the f32 oracle need about what A did, float64 twice that. */
static ab_status run_together_or_in_turn(struct ab_judgement *j, const struct ab_side_order *orders, size_t count) {
  struct ab_memory_limit limit;
  AB_TRY(ab_memory_available(&limit, ""));
  if (j->side[AB_SIDE_A].recording->plan_bytes < limit.available / 5)
    return ab_sides_run(&j->side[AB_SIDE_B], orders, count);
  for (size_t i = 0; i < count; i++) AB_TRY(ab_sides_run(&j->side[AB_SIDE_B + (int)i], &orders[i], 1));
  return AB_OK;
}

/* The truth about residues is their oracle itself. */
static ab_status run_others(struct ab_judgement *j) {
  struct ab_side_order orders[3];
  bool exact = j->a->arithmetic == AB_ARITHMETIC_EXACT;
  int count = exact ? 2 : 3;
  AB_TRY(engine_order(&orders[0], j, 1));
  orders[1] = oracle_order(j, "oracle", exact ? "sequential-exact" : "sequential");
  orders[2] = oracle_order(j, "truth", "sequential64");
  for (int i = 0; i < 2 && !ab_has_command(j); i++) orders[i].against = &j->side[AB_SIDE_A];
  if (is_f32(j->a) && !ab_has_command(j)) orders[2].params_from = &j->side[AB_SIDE_A];
  orders[2].state = is_f32(j->a); /* activations of two arithmetics are never compared */
  AB_TRY(run_together_or_in_turn(j, orders, (size_t)count));
  bool all = true;
  for (int i = 0; i < count; i++) all &= succeeded(j, (enum ab_side_place)(AB_SIDE_B + i));
  if (all) AB_TRY(ab_judge_all(j));
  return AB_OK;
}

ab_status ab_judgement_run_oracle_at_a(struct ab_judgement *j) {
  struct ab_side_order again = oracle_order(j, "oracle-at-a", "sequential");
  again.params_from = &j->side[AB_SIDE_A];
  AB_TRY(ab_sides_run(&j->side[AB_SIDE_ORACLE_AT_A], &again, 1));
  succeeded(j, AB_SIDE_ORACLE_AT_A);
  return AB_OK;
}

ab_status ab_judgement_run_free(struct ab_judgement *j) {
  struct ab_side_order orders[] = {oracle_order(j, "free-truth", "sequential64"),
                                   oracle_order(j, "free-golden", "sequential")};
  struct ab_request request = j->request;
  const char **arguments;
  request.numerics = j->golden->numerics;
  AB_TRY(ab_request_case_arguments(&arguments, &request));
  orders[1].case_arguments = arguments;
  ab_status status = ab_sides_run(&j->side[AB_SIDE_FREE_TRUTH], orders, 2);
  ab_mem_free(arguments);
  AB_TRY(status);
  for (int i = 0; i < 2; i++) succeeded(j, (enum ab_side_place)(AB_SIDE_FREE_TRUTH + i));
  return AB_OK;
}

ab_status ab_judgement_run_slope(struct ab_judgement *j, const char *up, const char *down) {
  struct ab_side_order orders[2];
  const char *const label[] = {"slope-up", "slope-down"}, *const shake[] = {up, down};
  for (int i = 0; i < 2; i++) {
    orders[i] = oracle_order(j, label[i], "sequential64");
    orders[i].params_from = &j->side[AB_SIDE_A];
    orders[i].shake = shake[i];
  }
  AB_TRY(ab_sides_run(&j->side[AB_SIDE_SLOPE_UP], orders, 2));
  for (int i = 0; i < 2; i++) succeeded(j, (enum ab_side_place)(AB_SIDE_SLOPE_UP + i));
  return AB_OK;
}

ab_status ab_judgement_run_terms(struct ab_judgement *j) {
  struct ab_side_order terms = oracle_order(j, "terms", "sequential-exact");
  terms.terms = true;
  return ab_sides_run(&j->side[AB_SIDE_TERMS], &terms, 1);
}

ab_status ab_judgement_run_what_if(struct ab_judgement *j, const char *words) {
  bool f64 = j->a->arithmetic == AB_ARITHMETIC_F64;
  struct ab_side_order passes = oracle_order(j, "what-if", f64 ? "sequential64" : "sequential");
  passes.what_if = words;
  if (!f64 && !j->side[AB_SIDE_A].given.outside && !ab_bundle_is_engine(j->opened.bundle))
    passes.params_from = &j->side[AB_SIDE_A];
  return ab_sides_run(&j->side[AB_SIDE_WHAT_IF_PASSES], &passes, 1);
}

/* The same case, cut after the step. */
static ab_status cut(const char ***out, const char *const *arguments, const char *steps) {
  size_t n = 0;
  while (arguments[n]) n++;
  AB_TRY(ab_mem_new(out, n + 3, sizeof **out));
  memcpy(*out, arguments, n * sizeof *arguments);
  (*out)[n] = "--steps";
  (*out)[n + 1] = steps;
  return AB_OK;
}

static ab_status run_window(struct ab_judgement *j, int i, const struct ab_kept_window *window, const char *steps) {
  static const char *const labels[] = {"a-again", "b-again", "oracle-again"};
  bool exact = j->a->arithmetic == AB_ARITHMETIC_EXACT;
  struct ab_side_order again = oracle_order(j, labels[i], exact ? "sequential-exact" : "sequential");
  const char **arguments;
  if (i < 2) AB_TRY(engine_order(&again, j, i));
  again.label = labels[i];
  again.fingerprints = false;
  again.window = window;
  AB_TRY(cut(&arguments, again.case_arguments, steps));
  again.case_arguments = arguments;
  ab_status status = ab_sides_run(&j->side[AB_SIDE_WINDOW_A + i], &again, 1);
  ab_mem_free(arguments);
  return status;
}

ab_status ab_judgement_run_window(struct ab_judgement *j, const struct ab_kept_window *window) {
  char steps[24];
  snprintf(steps, sizeof steps, "%d", window->step + 1);
  for (int i = 0; i < 3; i++) AB_TRY(run_window(j, i, window, steps));
  return AB_OK;
}

static ab_status run_sides(struct ab_judgement *j) {
  struct ab_side_order first;
  AB_TRY(ab_scratch_new(&j->scratch, NULL));
  AB_TRY(engine_order(&first, j, 0));
  AB_TRY(ab_sides_run(&j->side[AB_SIDE_A], &first, 1));
  if (succeeded(j, AB_SIDE_A)) AB_TRY(run_others(j));
  return AB_OK;
}

/* Exit 4 for a golden that cannot be used, 5 for results that do not fit this run. */
static ab_status open_results(struct ab_judgement *j) {
  if (!j->opened.bundle) return AB_OK;
  ab_status status = ab_reference_open(&j->reference, &j->opened);
  bool other = status == AB_EMISMATCH || status == AB_ESHAPE;
  if (status == AB_ENOMEM) return status;
  if (status != AB_OK) ab_judgement_trouble(j, other ? AB_EXIT_INCOMPARABLE : AB_EXIT_GOLDEN, ab_status_message());
  return AB_OK;
}

/* A program that could not be built is a side that failed. */
static bool programs_stand(struct ab_judgement *j) {
  static const char *const names[] = {"a", "b"};
  for (int i = 0; i < 2; i++)
    if (j->program[i].trouble)
      j->failure[j->failures++] = (struct ab_side_failure){names[i], j->program[i].trouble, NULL};
  return !j->failures;
}

static ab_status note_variable(void *j, const char *sentence) { return ab_judgement_note(j, "%s", sentence); }

static ab_status run(struct ab_judgement *j) {
  AB_TRY(ab_variables_each(&j->opened, note_variable, j));
  if (!programs_stand(j)) return AB_OK;
  AB_TRY(open_results(j));
  if (j->extra == AB_EXIT_GOLDEN && !(j->stale && ab_pending_wanted(j))) return AB_OK;
  ab_status status = run_sides(j);
  if (status == AB_OK) status = ab_judgement_pend(j);
  if (j->scratch) ab_scratch_remove(j->scratch);
  return status;
}

ab_status ab_judgement_run(struct ab_judgement *j) {
  double start = ab_process_now();
  size_t planned = j->a->arithmetic == AB_ARITHMETIC_EXACT ? 3 : 4;
  ab_progress_begin(&j->progress, j->request.papers.progress, j->request.label, (size_t)j->opened.steps, planned);
  ab_status status = run(j);
  ab_progress_end(&j->progress);
  j->seconds = ab_process_now() - start;
  return status;
}

void ab_judgement_close(struct ab_judgement *j) {
  for (size_t i = 0; i < j->verdicts; i++) ab_verdict_free(&j->verdict[i]);
  for (size_t i = 0; i < j->notes; i++) ab_mem_free(j->note[i]);
  if (j->side) ab_sides_free(j->side, AB_SIDES);
  ab_mem_free(j->side);
  ab_mem_free(j->facts);
  for (int i = 0; i < 2; i++) {
    ab_program_close(&j->program[i]);
    ab_mem_free(j->command_in[i]);
    ab_mem_free(j->command_out[i]);
  }
  for (size_t i = 0; i < j->commons; i++) ab_recording_free(j->common[i]);
  ab_mem_free(j->teeth);
  ab_mem_free(j->replay);
  ab_reference_close(j->reference);
  ab_golden_free(j->golden);
  ab_recording_free(j->golden_recording);
  ab_case_close(&j->opened);
  ab_mem_free(j->case_arguments);
  ab_mem_free(j->oracle_arguments);
  ab_mem_free(j->scratch);
  *j = (struct ab_judgement){0};
}
