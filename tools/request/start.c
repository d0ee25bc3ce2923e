#include "start.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "mem.h"
#include "number.h"
#include "outcome.h"
#include "process.h"
#include "side_mode.h"
#include "stop.h"

enum { WORKERS_MAX = 1024 }; /* both libgomp and libomp crash when they are asked for many more */

/* Of the hook. Behind the door's lock. */
static struct {
  bool on, persistent;
  int64_t from; /* the first that fails, from 1 on; 0: none */
  int64_t calls, failed;
} hook;

static bool is_side;

static void *alloc(void *ctx, size_t bytes) {
  (void)ctx;
  hook.calls++;
  if (hook.from && (hook.calls == hook.from || (hook.persistent && hook.calls > hook.from))) {
    hook.failed++;
    return NULL;
  }
  return aligned_alloc(AB_ALIGN, bytes);
}

static void release(void *ctx, void *block, size_t bytes) {
  (void)ctx;
  (void)bytes;
  free(block);
}

static ab_status open_hook(const char *variable) {
  static const struct ab_allocator failing = {NULL, alloc, release};
  const char *text = getenv(variable);
  char digits[32];
  if (!text) return AB_OK;
  size_t length = strlen(text);
  hook.persistent = length && text[length - 1] == '+';
  snprintf(digits, sizeof digits, "%.*s", (int)(length - hook.persistent), text);
  if (ab_number_int64(&hook.from, digits) != AB_OK || hook.from < 0)
    return AB_FAIL(AB_ECONFIG, "environment variable %s is '%.40s'; expected a number, or a number and +", variable,
                   text);
  hook.on = true;
  ab_mem_install(&failing);
  return AB_OK;
}

/* Before the first call into OpenMP. */
static ab_status check_workers(void) {
  const char *asked = getenv("OMP_NUM_THREADS");
  if (!asked || strtol(asked, NULL, 10) <= WORKERS_MAX) return AB_OK;
  return AB_FAIL(AB_ECONFIG, "environment variable OMP_NUM_THREADS asks for %.40s workers; expected at most %d", asked,
                 WORKERS_MAX);
}

int ab_start(const char *tool, int argc, char **argv) {
  is_side = argc > 1 && strcmp(argv[1], "--" AB_SIDE_ROUTE) == 0;
  if (ab_process_claim_standard_fds() != AB_OK || ab_float_environment() != AB_OK) return AB_EXIT_USAGE;
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  if (!is_side) ab_stop_on_signals(tool);
  if (check_workers() == AB_OK && open_hook(is_side ? "AB_FAIL_ALLOC_SIDE" : "AB_FAIL_ALLOC") == AB_OK) return 0;
  return ab_complain(tool, ab_status_message());
}

int ab_finish(const char *tool, int code) {
  if (is_side && code == AB_EXIT_USAGE && ab_status_code() == AB_ENOMEM) code = AB_EXIT_SIDE;
  if (fflush(stdout) != 0 || ferror(stdout)) code = ab_complain(tool, "cannot write standard output");
  if (hook.on)
    fprintf(stderr, "%s: %lld allocations, %lld failed, %zu blocks left\n", tool, (long long)hook.calls,
            (long long)hook.failed, ab_mem_stats().live_blocks);
  return code;
}
