/* Stands over a program that is not ours, a command or another build as a side, so that nothing of it is left.
 *
 * `ab_compare --guard PROGRAM ARGS ...` runs PROGRAM with its own descriptors and ends as it ends. What the program
 * leaves behind falls to the guard, also from a session of its own: it may end by itself for a second and is killed
 * then. One that had the stream or the tail open to the last makes a good end a bad one (AB_EXIT_SIDE, with a sentence
 * on standard error): what it wrote may be half. AB_GUARD_END, which also comes when the parent dies, ends them all;
 * SIGTERM is the program's own affair.
 */
#pragma once

#include <signal.h>

#define AB_GUARD "guard" /* the first word of a command line, behind two dashes; not in --help */
enum { AB_GUARD_END = SIGUSR1 };

/* command: PROGRAM and its arguments, NULL at the end; the program is looked up in PATH when it has no slash. */
int ab_guard_main(char **command);
