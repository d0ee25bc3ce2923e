/* The frame of every test program: one Check suite, TAP on stdout, no fork (a forked child hangs in libgomp once the parent
 * has used OpenMP). Loop tests name their case in the assertion message.
 */
#pragma once

#include <check.h>
#include <stdlib.h>

#include "status.h"

static inline int ab_run_suite(Suite *suite) {
  setenv("CK_TAP_LOG_FILE_NAME", "-", 1);
  SRunner *runner = srunner_create(suite);
  srunner_set_fork_status(runner, CK_NOFORK);
  srunner_run_all(runner, CK_SILENT);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* A status that must be AB_OK; the sentence and its trace are the failure message. */
#define ck_ok(expr)                                                                                     \
  do {                                                                                                  \
    ab_status ck_status = (expr);                                                                       \
    ck_assert_msg(ck_status == AB_OK, "%s: %s [%s]", #expr, ab_status_message(), ab_status_trace());    \
  } while (0)

/* A status that must be `code`, with `text` in its sentence. */
#define ck_fails(expr, code, text)                                                                      \
  do {                                                                                                  \
    ab_status ck_status = (expr);                                                                       \
    ck_assert_msg(ck_status == (code), "%s: status %d, expected %d (%s)", #expr, ck_status, (code),     \
                  ab_status_message());                                                                 \
    ck_assert_msg(strstr(ab_status_message(), (text)) != NULL, "%s: sentence \"%s\" lacks \"%s\"", #expr, \
                  ab_status_message(), (text));                                                         \
  } while (0)
