#include "revision.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "file.h"
#include "guard.h"
#include "mem.h"
#include "process.h"

enum { LOG_SHOWN = 600, BUILD_TIMEOUT = 3600, ASK_TIMEOUT = 60, COMMIT = 40 };

/* $1 source, $2 commit, $3 folder. Git tells its hooks and `bisect run` where it is: not here. A worktree that an
 * earlier attempt left is used again. */
static const char script[] =
    "unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_PREFIX\n"
    "exec >\"$3/log\" 2>&1\n"
    "set -e\n"
    "git -C \"$1\" worktree prune\n"
    "if [ -e \"$3/source/.git\" ]; then git -C \"$3/source\" checkout -q --force --detach \"$2\"\n"
    "else git -C \"$1\" worktree add -q --force --detach \"$3/source\" \"$2\"; fi\n"
    "[ -e \"$3/build/build.ninja\" ] || meson setup \"$3/build\" \"$3/source\"\n"
    "ninja -C \"$3/build\" tools/ab_compare\n"
    "test -x \"$3/build/tools/ab_compare\"\n"
    ": >\"$3/built\"\n";

const char *ab_revision_source(const char *given) { return given ? given : AB_SOURCE_DIR; }

static bool is_commit(const char *text) {
  return strspn(text, "0123456789abcdef") >= COMMIT && strchr("\n", text[COMMIT]);
}

static ab_status git(struct ab_process_result *result, const char *const *arguments) {
  struct ab_process_spec spec = {.name = "git", .program = "git", .arguments = arguments, .timeout = ASK_TIMEOUT};
  return ab_process_run(result, &spec);
}

static ab_status resolve(char commit[48], const char *option, const char *rev, const char *source,
                         struct ab_process_result *result) {
  char wanted[300];
  snprintf(wanted, sizeof wanted, "%.250s^{commit}", rev);
  const char *const repository[] = {"git", "-C", source, "rev-parse", "--git-dir", NULL};
  const char *const revision[] = {"git", "-C", source, "rev-parse", "--verify", "--quiet", "--end-of-options", wanted,
                                  NULL};
  ab_status status = git(result, repository);
  if (status == AB_ENOMEM) return status;
  if (status != AB_OK) return AB_FAIL(AB_ECONFIG, "%s needs git: %s", option, ab_status_message());
  if (result->exit_code != 0)
    return AB_FAIL(AB_ECONFIG, "%s '%s': '%s' is not a git repository; --source DIR says where abpipe's is", option,
                   rev, source);
  AB_TRY(git(result, revision));
  if (result->exit_code != 0 || !is_commit(result->tail))
    return AB_FAIL(AB_ECONFIG, "%s '%s' is no revision of the repository '%s'", option, rev, source);
  snprintf(commit, 48, "%.*s", COMMIT, result->tail);
  return AB_OK;
}

ab_status ab_revision_find(char commit[48], const char *option, const char *rev, const char *source) {
  struct ab_process_result *result;
  AB_TRY(ab_mem_new(&result, 1, sizeof *result));
  ab_status status = resolve(commit, option, rev, source, result);
  ab_mem_free(result);
  return status;
}

/* The last bytes of a log as one line. */
static void last_lines(char *text, size_t size, const char *path) {
  char *log = NULL;
  size_t count = 0;
  text[0] = '\0';
  if (ab_file_read(&log, &count, path, 64 << 20) == AB_OK) {
    while (count && log[count - 1] == '\n') log[--count] = '\0';
    snprintf(text, size, "%s", count > LOG_SHOWN ? log + count - LOG_SHOWN : log);
    for (char *p = text; *p; p++)
      if (*p == '\n') *p = '|';
    ab_mem_free(log);
  }
  ab_status_clear();
}

static ab_status build(const char *folder, const char *commit, const char *source, struct ab_process_result *result) {
  const char *const arguments[] = {"ab_compare", "--" AB_GUARD, "/bin/sh", "-c", script, "ab_compare", source, commit,
                                   folder, NULL};
  struct ab_process_spec spec = {.name = "the build", .program = ab_program_path(NULL), .arguments = arguments,
                                 .timeout = BUILD_TIMEOUT, .end_signal = AB_GUARD_END};
  char log[4096], how[128], lines[LOG_SHOWN + 64];
  AB_TRY(ab_process_run(result, &spec));
  if (result->exit_code == 0) return AB_OK;
  ab_process_print(how, sizeof how, result);
  snprintf(log, sizeof log, "%s/log", folder);
  last_lines(lines, sizeof lines, log);
  return AB_FAIL(AB_ECOMM, "the build of commit %.12s %s: %s (all of it: %s)", commit, how, lines, log);
}

/* The lock is let go when its descriptor is closed, however this program ends. */
static ab_status build_locked(const char *folder, const char *commit, const char *source) {
  struct ab_process_result *result;
  char path[4096];
  snprintf(path, sizeof path, "%s/lock", folder);
  int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (lock < 0) return AB_FAIL(AB_ECONFIG, "cannot write '%s': %s", path, strerror(errno));
  while (flock(lock, LOCK_EX) != 0 && errno == EINTR) {}
  snprintf(path, sizeof path, "%s/built", folder);
  ab_status status = AB_OK;
  if (!ab_file_exists(path)) {
    status = ab_mem_new(&result, 1, sizeof *result);
    if (status == AB_OK) {
      status = build(folder, commit, source, result);
      ab_mem_free(result);
    }
  }
  close(lock);
  return status;
}

ab_status ab_revision_build(char **path, const char *option, const char *commit, const char *source) {
  char folder[2048];
  if (!ab_folder_exists(AB_BUILD_DIR))
    return AB_FAIL(AB_ECONFIG, "%s builds below '%s', which is not there", option, AB_BUILD_DIR);
  snprintf(folder, sizeof folder, "%s/revisions/%s", AB_BUILD_DIR, commit);
  ab_status status = ab_folder_make(folder);
  if (status != AB_OK) return AB_FAIL(AB_ECONFIG, "%s: %s", option, ab_status_message());
  AB_TRY(build_locked(folder, commit, source));
  return ab_path_join(path, folder, "build/tools/ab_compare");
}
