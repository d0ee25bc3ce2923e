#include "request.h"

#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "mem.h"
#include "options.h"
#include "side_mode.h"
#include "text.h"
#include "variables.h"

enum { OPTIONS = 80, SIDE_OPTIONS = 16, CASE_ARGUMENTS = 8 };

static const char usage[] =
    "ab_compare: run two pipeline engines on one config, weights and batch, and say whether they are equal.\n"
    "\n"
    "  ab_compare configs/main.yml\n"
    "  ab_compare configs/base.yml model_name=llama2-7b override_model_config=true base_emb_dim=128 ...\n"
    "  ab_compare golden/circ_storage --a nnx --b sequential\n"
    "  ab_compare --suite golden/maxtext_pipeline.yml\n"
    "\n"
    "usage: ab_compare CONFIG.yml|CASE_DIR [key=value ...] [options]\n"
    "       ab_compare --suite FILE.yml [options]\n"
    "       ab_compare --replay DIR\n"
    "A CASE_DIR holds config.yml and either golden.json or MaxText's weights, batch and results (a bundle).\n"
    "\n"
    "exit codes: 0 equal; 1 numeric difference; 2 usage, config or environment error, or an output could not be\n"
    "written; 3 a side failed; 4 golden missing, stale or malformed; 5 not comparable; 6 self-test failed\n"
    "\n";

/* What the parent tells a side: the end of the table. */
static void side_table(struct ab_option *out, struct ab_request *r) {
  const struct ab_option rows[] = {
      {.name = AB_SIDE_ROUTE, .argument = "ROUTE", .text = &r->side},
      {.name = AB_SIDE_VALUES, .argument = "FILE", .text = &r->side_values},
      {.name = AB_SIDE_AGAINST, .argument = "FILE", .text = &r->side_against},
      {.name = AB_SIDE_FROM_STREAM, .argument = "FILE", .text = &r->side_from_stream},
      {.name = AB_SIDE_FROM_VALUES, .argument = "FILE", .text = &r->side_from_values},
      {.name = AB_SIDE_SHAKE, .argument = "WHAT", .text = &r->side_shake},
      {.name = AB_SIDE_FINGERPRINT, .flag = &r->side_fingerprint},
      {.name = AB_SIDE_TERMS_ALONE, .flag = &r->side_terms},
      {.name = AB_SIDE_STATE_ALONE, .flag = &r->side_state},
      {.name = AB_SIDE_WHAT_IF, .argument = "WORDS", .text = &r->side_what_if},
      {.name = AB_SIDE_WINDOW, .argument = "WORDS", .text = &r->side_window},
      {.name = AB_SIDE_CELL, .argument = "DIR", .text = &r->side_cell},
      {0}};
  _Static_assert(sizeof rows <= SIDE_OPTIONS * sizeof *rows, "SIDE_OPTIONS holds every row");
  memcpy(out, rows, sizeof rows);
}

/* The one table: parsing, --help and side mode read it. */
static void table(struct ab_option out[OPTIONS], struct ab_request *r) {
  const struct ab_option rows[] = {
      {.name = "a", .argument = "ROUTE", .help = "side A (default: linen)", .text = &r->a},
      {.name = "b", .argument = "ROUTE", .help = "side B (default: the config's flags; nnx if that is A)",
       .text = &r->b},
      {.name = "a-bin", .argument = "PATH", .help = "another build of ab_compare runs side A", .text = &r->a_bin},
      {.name = "b-bin", .argument = "PATH", .help = "another build of ab_compare runs side B", .text = &r->b_bin},
      {.name = "a-rev", .argument = "REV", .help = "builds this commit (once) and lets it run side A",
       .text = &r->a_rev},
      {.name = "b-rev", .argument = "REV", .help = "builds this commit (once) and lets it run side B",
       .text = &r->b_rev},
      {.name = "source", .argument = "DIR", .help = "abpipe's repository for --a-rev, --b-rev (default: this build's)",
       .text = &r->source},
      {.name = "a-cmd", .argument = "'CMD ...'", .text = &r->a_cmd,
       .help = "any program is side A: reads $AB_IN, writes $AB_OUT (docs/sides.md)"},
      {.name = "b-cmd", .argument = "'CMD ...'", .help = "any program is side B", .text = &r->b_cmd},
      {.name = "golden", .argument = "PATH", .help = "compare with this golden JSON too", .text = &r->golden},
      {.name = "numerics", .argument = "fast|portable", .help = "OpenBLAS (default), or the same bits on every machine",
       .text = &r->numerics},
      {.name = "suite", .argument = "FILE.yml", .help = "run every case of a list and print a matrix",
       .text = &r->suite},
      {.name = "dump", .argument = "DIR", .help = "write what A produced as a bundle", .text = &r->dump},
      {.name = "save-artifact", .argument = "DIR", .text = &r->save_artifact,
       .help = "keep inputs and outputs of the cell where a side goes wrong"},
      {.name = "replay", .argument = "DIR", .help = "judge that cell again, without the run", .text = &r->replay},
      {.name = "no-pending", .help = "write no golden.pending.json when a golden differs", .flag = &r->no_pending},
      {.name = "require-pending", .help = "make it an error when that file cannot be written",
       .flag = &r->require_pending},
      {.name = "steps", .argument = "N", .help = "run the first N steps of the schedule", .number = &r->steps},
      {.name = "devices", .argument = "N", .help = "device count (default: product of the parallelism factors)",
       .number = &r->devices},
      {.name = "timeout", .argument = "S", .help = "seconds a side may take (default 600)", .number = &r->timeout},
      {.name = "allow-same", .help = "let A and B be one route", .flag = &r->allow_same},
      {.name = "list-routes", .help = "name every route and exit", .flag = &r->list_routes},
      {.name = "intended-oracle", .help = "let upstream_faithful count for A and B only: shows what a defect does",
       .flag = &r->intended_oracle},
      {.name = "list-upstream-defects", .help = "name what upstream_faithful=ID,... can reproduce and exit",
       .flag = &r->list_defects},
      {.name = "check-slope", .help = "hold both gradients against the slope of the float64 loss too",
       .flag = &r->check_slope},
      {.name = "require-calibration", .help = "refuse (exit 5) what only an uncalibrated bound lets pass",
       .flag = &r->require_calibration},
      {.name = "teeth", .argument = "full", .help = "change each input too, and name those that nothing depends on",
       .text = &r->teeth},
      {.name = "verbose", .help = "print every config value, all that differs, and what this build cannot do",
       .flag = &r->verbose},
      {.name = "help", .help = "print this", .flag = &r->help},
      {.name = "version", .help = "print version, compiler and BLAS", .flag = &r->version}};
  _Static_assert(sizeof rows <= (OPTIONS - SIDE_OPTIONS - AB_PAPER_OPTIONS) * sizeof *rows, "OPTIONS holds every row");
  size_t papers = ab_papers_table(out, &r->papers);
  memcpy(out + papers, rows, sizeof rows);
  side_table(out + papers + sizeof rows / sizeof *rows, r);
}

static ab_status sort_positional(struct ab_request *r, size_t count) {
  r->target = count ? r->positional[0] : NULL;
  if (r->target && strchr(r->target, '=') && !ab_folder_exists(r->target) && !strstr(r->target, ".yml"))
    return AB_FAIL(AB_ECONFIG, "the first argument is '%.200s'; expected a CONFIG.yml or a CASE_DIR before key=value",
                   r->target);
  for (size_t i = 1; i < count; i++)
    if (!strchr(r->positional[i], '='))
      return AB_FAIL(AB_ECONFIG, "argument '%.200s' is not key=value", r->positional[i]);
  r->overrides = r->positional + 1;
  r->override_count = count ? count - 1 : 0;
  return AB_OK;
}

/* What a case of the list says is not said for all of them. */
static ab_status check_suite(const struct ab_request *r, size_t positional) {
  const struct {
    bool given;
    const char *what;
  } refused[] = {{positional > 0, "CONFIG.yml, CASE_DIR or key=value"}, {r->golden != NULL, "--golden"},
                 {r->dump != NULL, "--dump"}, {r->a_cmd || r->b_cmd, "--a-cmd or --b-cmd"},
                 {r->save_artifact != NULL, "--save-artifact"}, {r->replay != NULL, "--replay"},
                 {r->steps != 0, "--steps"}, {r->devices != 0, "--devices"}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (refused[i].given)
      return AB_FAIL(AB_ECONFIG, "--suite was given with %s; expected each case of the list to say that itself",
                     refused[i].what);
  return AB_OK;
}

static bool has_paper(const struct ab_request *r) {
  for (int form = 0; form < AB_FORMS; form++)
    if (r->papers.path[form]) return true;
  return r->papers.github;
}

/* An artifact holds its case and both sides. */
static ab_status check_replay(const struct ab_request *r, size_t positional) {
  const struct {
    bool given;
    const char *what;
  } refused[] = {{positional > 0, "CONFIG.yml, CASE_DIR or key=value"},
                 {r->a || r->a_bin || r->a_rev || r->a_cmd, "a side A"},
                 {r->b || r->b_bin || r->b_rev || r->b_cmd, "a side B"},
                 {r->golden != NULL, "--golden"},
                 {r->numerics != NULL, "--numerics"},
                 {has_paper(r), "another form of report"},
                 {r->dump != NULL, "--dump"},
                 {r->save_artifact != NULL, "--save-artifact"},
                 {r->steps || r->devices, "--steps or --devices"}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (refused[i].given)
      return AB_FAIL(AB_ECONFIG, "--replay was given with %s; expected the artifact alone, which holds its case",
                     refused[i].what);
  return AB_OK;
}

static ab_status parse(struct ab_request *r, int argc, char **argv) {
  struct ab_option options[OPTIONS];
  size_t count;
  table(options, r);
  AB_TRY(ab_mem_new(&r->positional, (size_t)argc + 1, sizeof *r->positional));
  AB_TRY(ab_options_parse(&(struct ab_command_line){usage, options}, argc, argv, r->positional, &count));
  if (r->help || r->version || r->list_routes || r->list_defects) return AB_OK;
  if (r->teeth && strcmp(r->teeth, "full") != 0)
    return AB_FAIL(AB_ECONFIG, "--teeth is '%.80s'; expected full", r->teeth);
  if (r->suite) return check_suite(r, count);
  if (r->side_cell) return AB_OK;
  if (r->replay) return check_replay(r, count);
  AB_TRY(sort_positional(r, count));
  if (!r->target) return AB_FAIL(AB_ECONFIG, "no CONFIG.yml or CASE_DIR was given; --help shows examples");
  return AB_OK;
}

ab_status ab_request_parse(struct ab_request *out, int argc, char **argv) {
  *out = (struct ab_request){.program = argc ? argv[0] : "ab_compare"};
  ab_status status = parse(out, argc, argv);
  if (status != AB_OK) ab_request_free(out);
  return status;
}

void ab_request_free(struct ab_request *request) {
  ab_mem_free(request->positional);
  request->positional = NULL;
}

void ab_request_help(FILE *out) {
  struct ab_request none = {0};
  struct ab_option options[OPTIONS];
  table(options, &none);
  ab_options_help(out, &(struct ab_command_line){usage, options});
}

/* --name value, with numbers printed into text kept behind the pointers. */
static size_t put_number(const char **argv, size_t n, char (*text)[24], const char *name, long value) {
  if (!value) return n;
  snprintf(*text, sizeof *text, "%ld", value);
  argv[n] = name;
  argv[n + 1] = *text;
  return n + 2;
}

ab_status ab_request_case_arguments(const char ***out, const struct ab_request *request) {
  size_t pointers = request->override_count + CASE_ARGUMENTS, n = 0;
  unsigned char *block;
  AB_TRY(ab_mem_new(&block, pointers * sizeof(char *) + 2 * 24, 1));
  const char **argv = (const char **)(void *)block;
  char(*text)[24] = (char(*)[24])(block + pointers * sizeof(char *));
  argv[n++] = request->target;
  for (size_t i = 0; i < request->override_count; i++) argv[n++] = request->overrides[i];
  n = put_number(argv, n, &text[0], "--steps", request->steps);
  n = put_number(argv, n, &text[1], "--devices", request->devices);
  if (request->numerics) {
    argv[n++] = "--numerics";
    argv[n++] = request->numerics;
  }
  *out = argv;
  return AB_OK;
}

/* In $'...' of bash, zsh and ksh. */
static size_t put_escaped(char *out, size_t used, const char *word) {
  static const char digits[] = "0123456789abcdef";
  out[used++] = '$';
  out[used++] = '\'';
  for (const unsigned char *p = (const unsigned char *)word; *p; p++) {
    bool plain = *p >= 0x20 && *p < 0x7f;
    if (!plain || *p == '\'' || *p == '\\') out[used++] = '\\';
    if (plain) {
      out[used++] = (char)*p;
    } else {
      out[used++] = 'x';
      out[used++] = digits[*p >> 4];
      out[used++] = digits[*p & 15];
    }
  }
  out[used++] = '\'';
  return used;
}

static size_t put_quoted(char *out, size_t used, const char *word) {
  out[used++] = '\'';
  for (const char *p = word; *p; p++) {
    size_t length = *p == '\'' ? 4 : 1;
    memcpy(out + used, *p == '\'' ? "'\\''" : p, length);
    used += length;
  }
  out[used++] = '\'';
  return used;
}

size_t ab_shell_word(char *out, size_t used, const char *word) {
  static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  size_t length = strlen(word);
  if (used) out[used++] = ' ';
  if (!ab_text_is_printable(word)) return put_escaped(out, used, word);
  if (!length || strspn(word, safe) != length) return put_quoted(out, used, word);
  memcpy(out + used, word, length);
  return used + length;
}

static ab_status put_command(char **out, const struct ab_request *r) {
  const char **argv;
  AB_TRY(ab_request_case_arguments(&argv, r));
  const char *named[] = {"--a", r->a, "--b", r->b, "--a-bin", r->a_bin, "--b-bin", r->b_bin,
                         "--a-rev", r->a_rev, "--b-rev", r->b_rev, "--source", r->source,
                         "--a-cmd", r->a_cmd, "--b-cmd", r->b_cmd, "--golden", r->golden};
  const size_t names = sizeof named / sizeof *named;
  const char *program = r->program ? r->program : "ab_compare";
  size_t room = 256 + 4 * strlen(program), used = 0;
  for (size_t i = 0; argv[i]; i++) room += 4 * strlen(argv[i]) + 8;
  for (size_t i = 0; i < names; i += 2) room += named[i + 1] ? 4 * strlen(named[i + 1]) + 24 : 0;
  char *line;
  ab_status status = ab_mem_new(&line, room, 1);
  if (status == AB_OK) {
    used = ab_shell_word(line, used, program);
    for (size_t i = 0; argv[i]; i++) used = ab_shell_word(line, used, argv[i]);
    for (size_t i = 0; i < names; i += 2)
      if (named[i + 1]) used = ab_shell_word(line, ab_shell_word(line, used, named[i]), named[i + 1]);
    if (r->timeout) {
      char seconds[24];
      snprintf(seconds, sizeof seconds, "%ld", r->timeout);
      used = ab_shell_word(line, ab_shell_word(line, used, "--timeout"), seconds);
    }
    if (r->allow_same) used = ab_shell_word(line, used, "--allow-same");
    if (r->intended_oracle) used = ab_shell_word(line, used, "--intended-oracle");
    if (r->check_slope) used = ab_shell_word(line, used, "--check-slope");
    if (r->require_calibration) used = ab_shell_word(line, used, "--require-calibration");
    if (r->teeth) used = ab_shell_word(line, ab_shell_word(line, used, "--teeth"), r->teeth);
    *out = line;
  }
  ab_mem_free(argv);
  return status;
}

ab_status ab_request_command(char **out, const struct ab_request *request, const struct ab_config *config) {
  struct ab_page page = {0};
  char *command;
  AB_TRY(put_command(&command, request));
  ab_status status = config ? ab_variables_put(&page, config) : AB_OK;
  ab_page_put(&page, command);
  ab_mem_free(command);
  if (status != AB_OK) ab_page_free(&page);
  AB_TRY(status);
  return ab_page_take(out, &page);
}
