#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file_internal.h"
#include "mem.h"

ab_status ab_folder_lock(int *out, const char *path) {
  int fd, result;
  AB_TRY(ab_folder_open(&fd, path));
  do result = flock(fd, LOCK_EX);
  while (result != 0 && errno == EINTR);
  if (result != 0) {
    int error = errno;
    close(fd);
    return ab_file_fail("lock the folder", path, error);
  }
  *out = fd;
  return AB_OK;
}

void ab_folder_unlock(int lock) {
  if (lock >= 0) close(lock);
}

ab_status ab_parent_of(char **out, const char *path) {
  char *copy;
  AB_TRY(ab_mem_string(&copy, path));
  ab_status status = ab_mem_string(out, dirname(copy));
  ab_mem_free(copy);
  return status;
}

int ab_file_sync(int fd) {
  int result;
  do result = fsync(fd);
  while (result != 0 && errno == EINTR);
  return result;
}

ab_status ab_sync_parent(const char *path) {
  char *folder;
  int fd;
  AB_TRY(ab_parent_of(&folder, path));
  ab_status status = ab_folder_open(&fd, folder);
  ab_mem_free(folder);
  AB_TRY(status);
  int result = ab_file_sync(fd), error = errno;
  close(fd);
  if (result != 0 && error != EINVAL && error != EROFS)
    return ab_file_fail("write to disk the folder of", path, error);
  return AB_OK;
}

ab_status ab_file_remove(const char *path) {
  if (unlink(path) != 0) return ab_file_fail("remove", path, errno);
  return ab_sync_parent(path);
}

/* leaf "": what is there itself, else a name in the folder. */
struct location {
  bool known;
  dev_t device;
  ino_t inode;
  char leaf[NAME_MAX + 1];
};

static ab_status look_beside(struct location *out, struct stat *about, const char *path) {
  char *folder, *copy;
  AB_TRY(ab_mem_string(&copy, path));
  snprintf(out->leaf, sizeof out->leaf, "%s", basename(copy));
  ab_mem_free(copy);
  AB_TRY(ab_parent_of(&folder, path));
  out->known = stat(folder, about) == 0;
  ab_mem_free(folder);
  return AB_OK;
}

static ab_status locate(struct location *out, const char *path) {
  struct stat about = {0};
  *out = (struct location){0};
  if (stat(path, &about) == 0) out->known = S_ISREG(about.st_mode) || S_ISDIR(about.st_mode);
  else AB_TRY(look_beside(out, &about, path));
  out->device = about.st_dev;
  out->inode = about.st_ino;
  return AB_OK;
}

ab_status ab_file_same(bool *out, const char *a, const char *b) {
  struct location one, two;
  AB_TRY(locate(&one, a));
  AB_TRY(locate(&two, b));
  *out = one.known && two.known && one.device == two.device && one.inode == two.inode && !strcmp(one.leaf, two.leaf);
  return AB_OK;
}
