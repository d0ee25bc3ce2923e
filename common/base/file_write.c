#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file_internal.h"
#include "mem.h"

enum { TEMPORARY_LENGTH = 64, ATTEMPTS = 100, WRITERS = 8 };

struct ab_writer {
  int fd, folder;                   /* folder is -1 when the target is written directly */
  char temporary[TEMPORARY_LENGTH]; /* "" once it is renamed or gone */
  const char *leaf;                 /* into path */
  char *path;
};

/* What a signal handler has to remove; a writer beyond the table is left to the next sweep. */
static struct ab_writer *volatile writers[WRITERS];

static void swap_writer(const struct ab_writer *from, struct ab_writer *to) {
  for (int i = 0; i < WRITERS; i++)
    if (writers[i] == from) {
      writers[i] = to;
      return;
    }
}

void ab_writers_drop(void) {
  for (int i = 0; i < WRITERS; i++)
    if (writers[i] && writers[i]->temporary[0]) unlinkat(writers[i]->folder, writers[i]->temporary, 0);
}

ab_status ab_file_put(int fd, const void *bytes, size_t count, const char *what) {
  const char *at = bytes;
  while (count) {
    ssize_t n = write(fd, at, count);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return ab_file_fail("write", what, n < 0 ? errno : EIO);
    at += n;
    count -= (size_t)n;
  }
  return AB_OK;
}

ab_status ab_file_create(int *out, const char *path) {
  int fd;
  do fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) return ab_file_fail("write", path, errno);
  *out = fd;
  return AB_OK;
}

static unsigned next_number(void) {
  static atomic_uint number;
  return atomic_fetch_add(&number, 1);
}

/* The lock tells ab_folder_sweep that the writer lives. A sweep between open and flock leaves a file without a name:
 * again. */
static int try_temporary(struct ab_writer *writer) {
  snprintf(writer->temporary, sizeof writer->temporary, AB_TEMPORARY_PREFIX "%ld-%u", (long)getpid(), next_number());
  int fd = openat(writer->folder, writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  struct stat about;
  if (fd < 0) return -1;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &about) == 0 && about.st_nlink == 0) {
    close(fd);
    errno = EEXIST;
    return -1;
  }
  return fd;
}

static ab_status open_temporary(struct ab_writer *writer) {
  int fd = -1;
  ab_folder_sweep_at(writer->folder);
  for (int i = 0; i < ATTEMPTS && fd < 0; i++) {
    fd = try_temporary(writer);
    if (fd < 0 && errno != EEXIST && errno != EINTR) break;
  }
  if (fd < 0) {
    writer->temporary[0] = '\0';
    return ab_file_fail("create a temporary file beside", writer->path, errno);
  }
  writer->fd = fd;
  return AB_OK;
}

/* A target that exists must be a regular file; its mode goes over to the new one. */
static ab_status take_mode(struct ab_writer *writer) {
  struct stat about;
  if (fstatat(writer->folder, writer->leaf, &about, AT_SYMLINK_NOFOLLOW) != 0)
    return errno == ENOENT ? AB_OK : ab_file_fail("look at", writer->path, errno);
  if (!S_ISREG(about.st_mode)) return AB_FAIL(AB_EIO, "'%s' exists and is not a regular file", writer->path);
  if (fchmod(writer->fd, about.st_mode & 07777) != 0) return ab_file_fail("set the mode of", writer->path, errno);
  return AB_OK;
}

static ab_status new_writer(struct ab_writer **out, const char *path) {
  struct ab_writer *writer;
  AB_TRY(ab_mem_new(&writer, 1, sizeof *writer));
  writer->fd = writer->folder = -1;
  swap_writer(NULL, writer);
  ab_status status = ab_mem_string(&writer->path, path);
  if (status != AB_OK) ab_writer_free(writer);
  AB_TRY(status);
  const char *slash = strrchr(writer->path, '/');
  writer->leaf = slash ? slash + 1 : writer->path;
  *out = writer;
  return AB_OK;
}

static ab_status start(struct ab_writer *writer) {
  AB_TRY(open_temporary(writer));
  AB_TRY(take_mode(writer));
  return AB_OK;
}

static ab_status open_parent(struct ab_writer *writer) {
  if (!*writer->leaf) return AB_FAIL(AB_EIO, "'%s' names a folder, expected a file", writer->path);
  if (writer->leaf == writer->path) return ab_folder_open(&writer->folder, ".");
  char *folder;
  AB_TRY(ab_mem_string(&folder, writer->path));
  size_t length = (size_t)(writer->leaf - writer->path);
  folder[length > 1 ? length - 1 : 1] = '\0';
  ab_status status = ab_folder_open(&writer->folder, folder);
  ab_mem_free(folder);
  return status;
}

static ab_status open_directly(struct ab_writer *writer) {
  writer->fd = open(writer->path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (writer->fd < 0) return ab_file_fail("open", writer->path, errno);
  int flags = fcntl(writer->fd, F_GETFL);
  if (flags >= 0) fcntl(writer->fd, F_SETFL, flags & ~O_NONBLOCK);
  return AB_OK;
}

static bool is_direct(const char *path) {
  struct stat about;
  bool memory = !strncmp(path, "/dev/shm/", 9); /* a file system like others */
  if ((!strncmp(path, "/dev/", 5) && !memory) || !strncmp(path, "/proc/", 6)) return true;
  return stat(path, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode);
}

static ab_status open_target(struct ab_writer **out, const char *path) {
  struct ab_writer *writer;
  AB_TRY(new_writer(&writer, path));
  ab_status status = is_direct(path) ? open_directly(writer) : open_parent(writer);
  if (status == AB_OK && writer->fd < 0) status = start(writer);
  if (status != AB_OK) ab_writer_free(writer);
  AB_TRY(status);
  *out = writer;
  return AB_OK;
}

/* A link that the user names is kept: the file behind it is replaced. */
ab_status ab_writer_new(struct ab_writer **out, const char *path) {
  struct stat about;
  if (is_direct(path) || lstat(path, &about) != 0 || !S_ISLNK(about.st_mode)) return open_target(out, path);
  char *real = realpath(path, NULL);
  if (!real) return ab_file_fail("follow the link", path, errno);
  ab_status status = open_target(out, real);
  free(real);
  return status;
}

static ab_status open_parent_beneath(struct ab_writer *writer, const char *folder, const char *name) {
  int at;
  AB_TRY(ab_folder_open(&at, folder));
  const char *slash = strrchr(name, '/');
  if (!slash) {
    writer->folder = at;
    return AB_OK;
  }
  char parent[1024];
  snprintf(parent, sizeof parent, "%.*s", (int)(slash - name), name);
  writer->folder = ab_open_beneath(at, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, false);
  int error = errno;
  close(at);
  if (writer->folder < 0) return ab_file_fail("open the folder of", writer->path, error);
  return AB_OK;
}

ab_status ab_writer_new_beneath(struct ab_writer **out, const char *folder, const char *name) {
  char *path;
  struct ab_writer *writer;
  AB_TRY(ab_check_beneath(folder, name));
  AB_TRY(ab_path_join(&path, folder, name));
  ab_status status = new_writer(&writer, path);
  ab_mem_free(path);
  AB_TRY(status);
  status = open_parent_beneath(writer, folder, name);
  if (status == AB_OK) status = start(writer);
  if (status != AB_OK) ab_writer_free(writer);
  AB_TRY(status);
  *out = writer;
  return AB_OK;
}

ab_status ab_writer_put(struct ab_writer *writer, const void *bytes, size_t count) {
  AB_TRY(ab_file_put(writer->fd, bytes, count, writer->path));
  return AB_OK;
}

static ab_status close_written(struct ab_writer *writer) {
  int fd = writer->fd;
  writer->fd = -1;
  if (close(fd) != 0 && errno != EINTR) return ab_file_fail("close", writer->path, errno);
  return AB_OK;
}

ab_status ab_writer_commit(struct ab_writer *writer) {
  if (writer->folder < 0) return close_written(writer);
  if (ab_file_sync(writer->fd) != 0) return ab_file_fail("write to disk", writer->path, errno);
  /* The lock goes with the descriptor: rename first, or a sweep might take the file away in between. */
  if (renameat(writer->folder, writer->temporary, writer->folder, writer->leaf) != 0)
    return ab_file_fail("put in place", writer->path, errno);
  writer->temporary[0] = '\0';
  AB_TRY(close_written(writer));
  if (ab_file_sync(writer->folder) != 0 && errno != EINVAL && errno != EROFS)
    return ab_file_fail("write to disk the folder of", writer->path, errno);
  return AB_OK;
}

void ab_writer_free(struct ab_writer *writer) {
  if (!writer) return;
  swap_writer(writer, NULL);
  if (writer->temporary[0]) unlinkat(writer->folder, writer->temporary, 0);
  if (writer->fd >= 0) close(writer->fd);
  if (writer->folder >= 0) close(writer->folder);
  ab_mem_free(writer->path);
  ab_mem_free(writer);
}

/* Frees the writer. */
static ab_status write_all(struct ab_writer *writer, const void *bytes, size_t size) {
  ab_status status = ab_writer_put(writer, bytes, size);
  if (status == AB_OK) status = ab_writer_commit(writer);
  ab_writer_free(writer);
  AB_TRY(status);
  return AB_OK;
}

ab_status ab_file_write(const char *path, const void *bytes, size_t size) {
  struct ab_writer *writer;
  AB_TRY(ab_writer_new(&writer, path));
  return write_all(writer, bytes, size);
}

static ab_status new_replacing(struct ab_writer **out, const char *path) {
  const char *slash = strrchr(path, '/');
  char *folder;
  AB_TRY(ab_parent_of(&folder, path));
  ab_status status = ab_writer_new_beneath(out, folder, slash ? slash + 1 : path);
  ab_mem_free(folder);
  return status;
}

ab_status ab_file_replace(const char *path, const void *bytes, size_t size) {
  struct ab_writer *writer;
  AB_TRY(new_replacing(&writer, path));
  return write_all(writer, bytes, size);
}

ab_status ab_file_check_write(const char *path) {
  struct ab_writer *writer;
  if (is_direct(path)) return access(path, W_OK) == 0 ? AB_OK : ab_file_fail("write", path, errno);
  AB_TRY(ab_writer_new(&writer, path));
  ab_writer_free(writer);
  return AB_OK;
}

ab_status ab_file_check_replace(const char *path) {
  struct ab_writer *writer;
  AB_TRY(new_replacing(&writer, path));
  ab_writer_free(writer);
  return AB_OK;
}
