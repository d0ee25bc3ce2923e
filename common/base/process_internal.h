/* Shared by the parts of the process door only. */
#pragma once

#include <spawn.h>

#include "process.h"

struct running {
  const struct ab_process_spec *spec;
  struct ab_process_result *result;
  pid_t pid;                         /* also its process group; 0 when it was never started or is reaped */
  int stream, tail;                  /* our ends, non-blocking; -1 when at their end */
  int pidfd;                         /* readable when it has ended; -1 where the kernel has none */
  double started, deadline, kill_at; /* monotonic seconds; 0 for none */
  bool ended;                        /* it has exited; its pipes may still be open */
  ab_status failed;                  /* of take */
};

/* Starts the program of running->spec and fills the rest. */
ab_status process_start(struct running *running);
/* For a signal handler, safe there: kills every process group of a run that is under way. */
void process_kill_all(void);
