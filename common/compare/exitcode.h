/* Exit codes of the comparing tools. */
#pragma once

enum ab_exit {
  AB_EXIT_EQUAL = 0,        /* everything that had to be compared was compared and is equal */
  AB_EXIT_DIFFERENT = 1,    /* a numeric difference */
  AB_EXIT_USAGE = 2,        /* usage, config or environment error; an output that was asked for could not be written */
  AB_EXIT_SIDE = 3,         /* a side failed: crash, hang, out of memory, damaged or unfinished stream */
  AB_EXIT_GOLDEN = 4,       /* golden asked for but missing, stale or malformed */
  AB_EXIT_INCOMPARABLE = 5, /* structure or counts differ, nothing compared, no calibration where one is required */
  AB_EXIT_SELFTEST = 6      /* a control that must turn red stayed green */
};

/* The one of the two that is reported: the first in the order 2 3 6 5 4 1 0. An unknown code counts as 2. */
enum ab_exit ab_exit_fold(enum ab_exit a, enum ab_exit b);
/* "equal", "numeric difference", ... for reports. */
const char *ab_exit_reason(enum ab_exit code);
