/* The file door: everything that is read from or written to disk passes here, with its limits.
 *
 * Only regular files are read, in blocks, never mapped; a FIFO or a device never blocks. Sentences hold the path
 * (escaped) and errno's text. A missing thing is AB_ENOTFOUND, any other refusal AB_EIO, a size outside the limit
 * AB_EFORMAT.
 * `_beneath` is for names that come from data: "/"-joined plain components below `folder`, no link followed on the way.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

/* Names of our temporary files and folders begin so; they are never goldens, cases or reports. */
#define AB_TEMPORARY_PREFIX ".ab-tmp-"

/* AB_EFORMAT unless `name` is relative and made of plain components: not empty, ".", ".." or with control bytes. */
ab_status ab_check_beneath(const char *folder, const char *name);

/* A whole file of at most `limit` bytes into *out (ab_mem_free), with a NUL behind its *size bytes. */
ab_status ab_file_read(char **out, size_t *size, const char *path, size_t limit);
ab_status ab_file_read_beneath(char **out, size_t *size, const char *folder, const char *name, size_t limit);

/* Random access to a large file. */
struct ab_file {
  int fd;
  uint64_t size; /* when it was opened */
  char *path;
};
ab_status ab_file_open(struct ab_file *out, const char *path);
ab_status ab_file_open_beneath(struct ab_file *out, const char *folder, const char *name);
/* Exactly `count` bytes at `offset`; AB_EFORMAT when the file ends before. */
ab_status ab_file_read_at(const struct ab_file *file, void *out, size_t count, uint64_t offset);
/* Accepts a zeroed or closed struct. */
void ab_file_close(struct ab_file *file);

/* A file that appears under its name only when it is complete: temporary file beside it, full writes, fsync, rename,
 * fsync of the folder. The mode of a file that is replaced is kept. A device, a pipe or anything below /dev or /proc is
 * written directly. */
struct ab_writer;
ab_status ab_writer_new(struct ab_writer **out, const char *path);
ab_status ab_writer_new_beneath(struct ab_writer **out, const char *folder, const char *name);
ab_status ab_writer_put(struct ab_writer *writer, const void *bytes, size_t count);
/* Makes it appear. The writer is still to be freed. */
ab_status ab_writer_commit(struct ab_writer *writer);
/* Removes what was not committed. Accepts NULL. */
void ab_writer_free(struct ab_writer *writer);
/* new, put, commit and free in one. */
ab_status ab_file_write(const char *path, const void *bytes, size_t size);
/* The same where the last component is our word and not the user's: a link of that name is refused, not followed. */
ab_status ab_file_replace(const char *path, const void *bytes, size_t size);
/* A file in a scratch folder of ours: made or emptied, mode 0600; *out is a descriptor. No link is followed. */
ab_status ab_file_create(int *out, const char *path);
/* Before the work whose result goes there: what ab_file_write, ab_file_replace would refuse now. Nothing is left or
 * opened that somebody else waits for: of a device or a pipe only the permission is seen. */
ab_status ab_file_check_write(const char *path);
ab_status ab_file_check_replace(const char *path);
/* All bytes to an open descriptor (standard output); `what` names it in the sentence. */
ab_status ab_file_put(int fd, const void *bytes, size_t count, const char *what);

/* Makes a folder and what is missing above it; an existing one is fine. */
ab_status ab_folder_make(const char *path);
bool ab_folder_exists(const char *path);
/* "folder/name", owned by the caller. */
ab_status ab_path_join(char **out, const char *folder, const char *name);
/* Anything of that name, of whatever kind. */
bool ab_file_exists(const char *path);
/* The same where a wrong "no" would leave something out: *out is false only when it is not there (for a folder also:
 * something else is); AB_EIO when that cannot be seen. */
ab_status ab_file_find(bool *out, const char *path);
ab_status ab_folder_find(bool *out, const char *path);

/* Whether two paths lead to one file or folder: what exists is known by device and inode, what is to be made by those
 * of its folder and its name. A device or a pipe is no file that two could share. */
ab_status ab_file_same(bool *out, const char *a, const char *b);

/* Sorted by bytes; "." and ".." and temporary names are left out. AB_EFORMAT beyond `limit` names. */
struct ab_names {
  char **name;
  size_t count;
};
ab_status ab_folder_list(struct ab_names *out, const char *path, size_t limit);
void ab_names_free(struct ab_names *names);

/* A fresh folder of our own below `parent` (NULL: $TMPDIR, else /tmp), mode 0700; *out is its path (ab_mem_free). It
 * is locked while we live: what dead processes of ours left there is removed first. */
ab_status ab_scratch_new(char **out, const char *parent);
/* Removes it with all it holds, if it is still there under its name; refuses a path whose last component is not a
 * temporary name. Follows no link. */
ab_status ab_scratch_remove(const char *path);
/* A scratch folder where `path` is to be; makes what is missing above it. */
ab_status ab_scratch_beside(char **out, const char *path);
/* Gives a scratch folder its name for good: rename(2), which replaces an empty folder and refuses any other. */
ab_status ab_scratch_place(const char *scratch, const char *path);
/* Removes temporary files and scratch folders in `path` whose owners have died. Writers do it where they write. */
ab_status ab_folder_sweep(const char *path);

/* Waits until nobody else holds the folder. The lock is flock(2) on the folder itself: nothing is left behind when its
 * holder dies, and a folder that cannot be written can be held too. Children do not inherit it. */
ab_status ab_folder_lock(int *out, const char *path);
/* Accepts -1. */
void ab_folder_unlock(int lock);
/* Removes a file for good: the folder is written to disk too. */
ab_status ab_file_remove(const char *path);
