/* What faults.c uses of Check, for a program that is no test: a failure ends it. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#define ck_assert_msg(holds, ...)                      \
  do {                                                 \
    if (!(holds)) fprintf(stderr, __VA_ARGS__), abort(); \
  } while (0)
#define ck_abort_msg(...) ck_assert_msg(0, __VA_ARGS__)
#define ck_assert_uint_eq(a, b) ck_assert_msg((a) == (b), "%s is not %s", #a, #b)
#define ck_assert_uint_ge(a, b) ck_assert_msg((a) >= (b), "%s is below %s", #a, #b)
#define ck_ok(call) ck_assert_msg((call) == AB_OK, "%s: %s", #call, ab_status_message())
