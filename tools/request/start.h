/* What every main begins and ends with.
 *
 * A hook of the tests lives here, so that the allocator door itself knows nothing of it: AB_FAIL_ALLOC=N lets this
 * process's N-th allocation fail, N+ all from there on, 0 none; for a side it is AB_FAIL_ALLOC_SIDE. Where it is set,
 * the last line on standard error says how many were asked for, how many failed and how many blocks are left.
 */
#pragma once

/* Closed descriptors are taken, the floating-point mode is set, a broken pipe and a file that is too large become
 * errors, a signal to stop cleans up. `tool` names it in sentences. 0, else the exit code, with nothing to undo. */
int ab_start(const char *tool, int argc, char **argv);
/* After everything is released: the exit code, which is AB_EXIT_USAGE when standard output could not be written, and
 * AB_EXIT_SIDE when a side had no memory for its own arguments. */
int ab_finish(const char *tool, int code);
