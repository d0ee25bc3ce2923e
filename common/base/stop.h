/* Being told to stop: SIGINT, SIGTERM and SIGHUP kill what this process runs, remove its temporary files and scratch
 * folders and say so on standard error; then it dies of the signal (a shell has 130, 143 and 129). Whatever was put in
 * place before stays.
 */
#pragma once

#include <signal.h>

/* For a main. `tool` names it in the sentence; borrowed. A signal that is ignored (nohup) stays ignored. */
void ab_stop_on_signals(const char *tool);

/* These signals wait between the two: for what a handler must not see half done. */
void ab_stop_hold(sigset_t *before);
void ab_stop_release(const sigset_t *before);
