/* Shared by the parts of the file door only (and by its tests). */
#pragma once

#include <errno.h>
#include <sys/types.h>

#include "file.h"

void ab_file_sentence(ab_status code, const char *doing, const char *path, int error);
/* "cannot <doing> '<path>': <errno's text>", AB_ENOTFOUND for ENOENT and ENOTDIR, else AB_EIO. Inline so that compilers
 * see that it never succeeds. */
static inline ab_status ab_file_fail(const char *doing, const char *path, int error) {
  ab_status code = error == ENOENT || error == ENOTDIR ? AB_ENOTFOUND : AB_EIO;
  ab_file_sentence(code, doing, path, error);
  return code;
}
/* Opens `name` beneath `folder` (an open folder) without following a link; -1 and errno. `walk` forces the component
 * walk that stands in for openat2 on old kernels. */
int ab_open_beneath(int folder, const char *name, int flags, mode_t mode, bool walk);
/* Opens a folder for *at calls; *out is a descriptor. */
ab_status ab_folder_open(int *out, const char *path);
/* "dir" of "dir/name", "." of "name"; owned by the caller. */
ab_status ab_parent_of(char **out, const char *path);
/* fsync, again when a signal interrupts it: 0, or -1 and errno. */
int ab_file_sync(int fd);
/* fsync of the folder that holds `path`; a file system that cannot do it is fine. */
ab_status ab_sync_parent(const char *path);
/* ab_folder_sweep of an open folder; what cannot be swept is left. */
void ab_folder_sweep_at(int folder);
/* For a signal handler, safe there: removes every temporary file and scratch folder of this process. */
void ab_writers_drop(void);
void ab_scratches_drop(void);
