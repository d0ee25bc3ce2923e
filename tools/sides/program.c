#include "program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mem.h"
#include "process.h"
#include "revision.h"
#include "stream.h"

enum { PATIENCE = 60 /* seconds for --version, on a machine that is busy */ };

/* What stands between two texts of a --version, cut to size. */
static bool between(char *out, size_t size, const char *text, const char *before, const char *after) {
  const char *at = strstr(text, before);
  if (!at) return false;
  at += strlen(before);
  snprintf(out, size, "%.*s", (int)strcspn(at, after), at);
  return *out != '\0';
}

static ab_status understand(struct ab_program *out, const char *option, const char *text) {
  char version[32], commit[24], changes[24], stream[16];
  bool known = between(version, sizeof version, text, "ab_compare ", "\n") &&
               between(commit, sizeof commit, text, "\ncommit ", " \n") &&
               between(changes, sizeof changes, text, "(changes: ", ")\n") &&
               between(stream, sizeof stream, text, ", stream ", " ,\n");
  if (!known)
    return AB_FAIL(AB_ECONFIG, "%s '%s' is no build of ab_compare: its --version says something else", option,
                   out->path);
  if (atoi(stream) != AB_STREAM_VERSION)
    return AB_FAIL(AB_ECONFIG, "%s '%s' writes version %s of the stream; expected version %d", option, out->path,
                   stream, AB_STREAM_VERSION);
  bool clean = strcmp(changes, "clean") == 0 || strcmp(changes, "unknown") == 0;
  snprintf(out->shown, sizeof out->shown, "@%s%s%.8s", commit, clean ? "" : "+", clean ? "" : changes);
  snprintf(out->about, sizeof out->about, "abpipe %s, commit %s, changes: %s", version, commit, changes);
  return AB_OK;
}

/* Its standard output is what the process door keeps of it. */
static ab_status ask(struct ab_program *out, const char *option, struct ab_process_result *result) {
  const char *const arguments[] = {"ab_compare", "--version", NULL};
  struct ab_process_spec spec = {.name = option, .program = out->path, .arguments = arguments, .timeout = PATIENCE};
  char how[128];
  ab_status status = ab_process_run(result, &spec);
  if (status == AB_ENOMEM) return status;
  if (status != AB_OK) return AB_FAIL(AB_ECONFIG, "%s cannot be run: %s", option, ab_status_message());
  ab_process_print(how, sizeof how, result);
  if (result->exit_code != 0)
    return AB_FAIL(AB_ECONFIG, "%s '%s' is no build of ab_compare: asked for its --version, it %s", option, out->path,
                   how);
  return understand(out, option, result->tail);
}

static ab_status find(struct ab_program *out, const char *option, const char *path) {
  struct stat about;
  char *real = realpath(path, NULL);
  if (!real) return AB_FAIL(AB_ECONFIG, "%s '%s' cannot be run: %s", option, path, strerror(errno));
  ab_status status = ab_mem_string(&out->path, real);
  free(real);
  AB_TRY(status);
  if (stat(out->path, &about) != 0 || !S_ISREG(about.st_mode))
    return AB_FAIL(AB_ECONFIG, "%s '%s' is not a file; expected a build of ab_compare", option, path);
  if (access(out->path, X_OK) != 0)
    return AB_FAIL(AB_ECONFIG, "%s '%s' is not executable; expected a build of ab_compare", option, path);
  return AB_OK;
}

ab_status ab_program_build(struct ab_program *out, const char *option, const char *path) {
  struct ab_process_result *result;
  *out = (struct ab_program){0};
  AB_TRY(ab_mem_new(&result, 1, sizeof *result));
  ab_status status = find(out, option, path);
  if (status == AB_OK) status = ask(out, option, result);
  ab_mem_free(result);
  if (status != AB_OK) ab_program_close(out);
  return status;
}

ab_status ab_program_revision(struct ab_program *out, const char *option, const char *rev, const char *source) {
  char commit[48], *path = NULL;
  const char *tree = ab_revision_source(source);
  *out = (struct ab_program){0};
  AB_TRY(ab_revision_find(commit, option, rev, tree));
  ab_status status = ab_revision_build(&path, option, commit, tree);
  if (status == AB_ECOMM) {
    snprintf(out->shown, sizeof out->shown, "@%.12s", commit);
    snprintf(out->about, sizeof out->about, "commit %.12s", commit);
    return ab_mem_string(&out->trouble, ab_status_message());
  }
  AB_TRY(status);
  status = ab_program_build(out, option, path);
  ab_mem_free(path);
  return status;
}

const char *ab_program_path(const struct ab_program *program) {
  return program && program->path ? program->path : "/proc/self/exe";
}

bool ab_program_same(const struct ab_program *a, const struct ab_program *b) {
  struct stat one, other;
  if (stat(ab_program_path(a), &one) != 0 || stat(ab_program_path(b), &other) != 0) return false;
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

void ab_program_close(struct ab_program *program) {
  ab_mem_free(program->path);
  ab_mem_free(program->trouble);
  *program = (struct ab_program){0};
}
