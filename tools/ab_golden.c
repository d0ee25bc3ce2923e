#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "file.h"
#include "json.h"
#include "judgement.h"
#include "mem.h"
#include "outcome.h"
#include "process.h"
#include "side_mode.h"
#include "version.h"

static const char usage[] =
    "ab_golden: record the numbers of a case as golden JSON.\n"
    "\n"
    "  ab_golden record golden/main\n"
    "  ab_golden record golden/main --reason 'learning rate of the case was changed'\n"
    "\n"
    "usage: ab_golden record CASE_DIR [--reason TEXT] [--keep all|ends] [--timeout S]\n"
    "Runs linen, nnx and the oracle with portable numerics; only when all agree bit for bit, CASE_DIR/golden.json is\n"
    "written. A golden that is there already is replaced only with a reason; review the difference like code.\n"
    "--keep ends leaves out the tensors between the first step and the last (default: what the golden there keeps,\n"
    "else all).\n";

static int fail(const char *sentence) { return ab_complain("ab_golden", sentence); }

/* SOURCE_DATE_EPOCH makes a recording reproducible. */
static void now(char *text, size_t size) {
  const char *epoch = getenv("SOURCE_DATE_EPOCH");
  time_t seconds = epoch ? (time_t)strtoll(epoch, NULL, 10) : time(NULL);
  struct tm utc;
  if (!gmtime_r(&seconds, &utc) || !strftime(text, size, "%Y-%m-%dT%H:%M:%SZ", &utc)) snprintf(text, size, "unknown");
}

static const char *member(const struct ab_json *header, const char *key) {
  const char *text;
  if (ab_json_get_string(&text, header, key) == AB_OK) return text;
  ab_status_clear();
  return "unknown";
}

static struct ab_provenance provenance_of(const struct ab_json *header, const char *created) {
  int64_t threads = 0;
  if (ab_json_get_int64(&threads, header, "threads") != AB_OK) ab_status_clear();
  return (struct ab_provenance){.producer = "ab_golden linen",
                                .version = member(header, "version"),
                                .commit = member(header, "commit"),
                                .diff_hash = member(header, "diff_hash"),
                                .compiler = member(header, "compiler"),
                                .flags = member(header, "flags"),
                                .kernels = member(header, "kernels"),
                                .blas_core = member(header, "blas_core"),
                                .created = created,
                                .threads = (int)threads};
}

static ab_status make_golden(struct ab_golden **out, const struct ab_judgement *j, const char *reason) {
  const struct ab_recording *recording = j->side[AB_SIDE_A].recording;
  struct ab_pair_text *pairs;
  struct ab_json *header;
  char created[32], line[512];
  size_t count;
  now(created, sizeof created);
  snprintf(line, sizeof line, "%.10s %s", created, reason);
  AB_TRY(ab_json_parse(&header, recording->header, strlen(recording->header), "stream header", NULL));
  ab_status status = ab_config_pairs(&pairs, &count, j->opened.config);
  if (status == AB_OK) {
    struct ab_provenance provenance = provenance_of(header, created);
    status = ab_golden_new(out, recording, pairs, count, &provenance, ab_numerics_name(j->opened.numerics), line);
    ab_pairs_free(pairs, count);
  }
  ab_json_free(header);
  return status;
}

/* As asked; else as the golden that is replaced, if it can be read; else all. */
static ab_status selection_of(enum ab_selection *out, const struct ab_request *request, const char *path) {
  struct ab_golden *old;
  *out = AB_SELECT_ALL;
  if (request->keep) return ab_selection_find(out, request->keep);
  if (!ab_file_exists(path)) return AB_OK;
  if (ab_golden_read(&old, path) != AB_OK) {
    ab_status_clear();
    return AB_OK;
  }
  *out = old->selection;
  ab_golden_free(old);
  return AB_OK;
}

static ab_status write_golden(const struct ab_judgement *j, const char *path, enum ab_selection selection,
                              const char *reason) {
  struct ab_golden *golden;
  AB_TRY(make_golden(&golden, j, reason));
  ab_status status = ab_golden_select(golden, selection);
  if (status == AB_OK) status = ab_golden_write(golden, path);
  ab_golden_free(golden);
  return status;
}

static int record_at(const struct ab_request *request, const char *path) {
  struct ab_judgement j;
  enum ab_selection selection;
  const char *reason = request->reason ? request->reason : "first recording";
  if (ab_file_exists(path) && !request->reason)
    return fail("there is a golden.json in the case already; expected --reason TEXT to replace it");
  if (selection_of(&selection, request, path) != AB_OK) return fail(ab_status_message());
  if (ab_judgement_open(&j, request) != AB_OK) return fail(ab_status_message());
  j.fingerprints = true;
  ab_status status = ab_judgement_run(&j);
  int code = status == AB_OK ? ab_outcome_print(&j, "ab_golden") : fail(ab_status_message());
  if (code == AB_EXIT_EQUAL && write_golden(&j, path, selection, reason) != AB_OK) code = fail(ab_status_message());
  if (code == AB_EXIT_EQUAL) printf("recorded %s\n", path);
  ab_judgement_close(&j);
  return code;
}

static int record(const struct ab_request *request) {
  char *path;
  if (ab_path_join(&path, request->target, "golden.json") != AB_OK) return fail(ab_status_message());
  int code = record_at(request, path);
  ab_mem_free(path);
  return code;
}

static int act(struct ab_request *request) {
  if (request->side) return ab_side_main(request);
  if (request->help) return fputs(usage, stdout) < 0;
  if (request->version) return ab_version_print(stdout, "ab_golden"), 0;
  if (request->a_bin || request->b_bin || request->a_rev || request->b_rev)
    return fail("a golden is recorded from this build; expected no other program as a side");
  request->numerics = "portable";
  request->ignore_golden = true;
  request->program = "ab_compare"; /* what repeats the comparison without recording */
  return record(request);
}

int main(int argc, char **argv) {
  struct ab_request request;
  bool records = argc > 1 && strcmp(argv[1], "record") == 0;
  if (ab_process_claim_standard_fds() != AB_OK) return AB_EXIT_USAGE;
  signal(SIGPIPE, SIG_IGN);
  if (ab_request_parse(&request, argc - records, argv + records) != AB_OK) return fail(ab_status_message());
  bool plain = request.side || request.help || request.version;
  int code = records || plain ? act(&request) : fail("the first word must be record; --help shows examples");
  ab_request_free(&request);
  return fflush(stdout) == 0 ? code : fail("cannot write standard output");
}
