#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "file_internal.h"
#include "mem.h"

enum { READ_FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, LONGEST_NAME = 1024 };
enum { BLOCK = 1 << 20 }; /* bytes per pread */

void ab_file_sentence(ab_status code, const char *doing, const char *path, int error) {
  char reason[128];
  const char *text = strerror_r(error, reason, sizeof reason);
  (void)AB_FAIL(code, "cannot %s '%.512s': %s", doing, path, text);
}

ab_status ab_path_join(char **out, const char *folder, const char *name) {
  char *path;
  size_t room = strlen(folder) + strlen(name) + 2;
  AB_TRY(ab_mem_new(&path, room, 1));
  snprintf(path, room, "%s/%s", folder, name);
  *out = path;
  return AB_OK;
}

static bool plain_component(const char *text, size_t length) {
  if (length == 0 || (length == 1 && text[0] == '.') || (length == 2 && text[0] == '.' && text[1] == '.')) return false;
  for (size_t i = 0; i < length; i++)
    if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) return false;
  return true;
}

ab_status ab_check_beneath(const char *folder, const char *name) {
  bool plain = strlen(name) < LONGEST_NAME;
  for (const char *at = name; plain; at++) {
    size_t length = strcspn(at, "/");
    plain = plain_component(at, length);
    at += length;
    if (!*at) break;
  }
  if (plain) return AB_OK;
  return AB_FAIL(AB_EFORMAT, "'%.512s' is not a plain name beneath '%s'", name, folder);
}

/* A link where a folder should be: openat2 says so, O_DIRECTORY alone does not. */
static int why_refused(int folder, const char *component, int error) {
  struct stat about;
  if (error != ENOTDIR || fstatat(folder, component, &about, AT_SYMLINK_NOFOLLOW) != 0) return error;
  return S_ISLNK(about.st_mode) ? ELOOP : error;
}

static int open_walking(int folder, const char *name, int flags, mode_t mode) {
  int at = folder;
  for (;;) {
    char component[LONGEST_NAME];
    size_t length = strcspn(name, "/");
    if (!plain_component(name, length) || length >= sizeof component) {
      errno = EXDEV;
      break;
    }
    memcpy(component, name, length);
    component[length] = '\0';
    bool last = !name[length];
    int next = openat(at, component, last ? flags | O_NOFOLLOW : O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, mode);
    int error = next < 0 ? why_refused(at, component, errno) : 0;
    if (at != folder) close(at);
    errno = error;
    if (last || next < 0) return next;
    at = next;
    name += length + 1;
  }
  if (at != folder) close(at);
  errno = EXDEV;
  return -1;
}

int ab_open_beneath(int folder, const char *name, int flags, mode_t mode, bool walk) {
  struct open_how how = {.flags = (unsigned)flags, .mode = mode, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
  if (walk) return open_walking(folder, name, flags, mode);
  int fd;
  do fd = (int)syscall(SYS_openat2, folder, name, &how, sizeof how);
  while (fd < 0 && (errno == EINTR || errno == EAGAIN));
  bool missing = fd < 0 && (errno == ENOSYS || errno == EPERM); /* an old kernel, or a filter of system calls */
  return missing ? open_walking(folder, name, flags, mode) : fd;
}

ab_status ab_folder_open(int *out, const char *path) {
  int fd;
  do fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOCTTY);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) return ab_file_fail("open the folder", path, errno);
  *out = fd;
  return AB_OK;
}

static const char *kind_name(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

/* Takes the descriptor over. */
static ab_status file_from(struct ab_file *out, int fd, const char *path) {
  struct ab_file file = {.fd = fd};
  struct stat about;
  ab_status status = AB_OK;
  if (fstat(fd, &about) != 0)
    status = ab_file_fail("look at", path, errno);
  else if (!S_ISREG(about.st_mode))
    status = AB_FAIL(AB_EIO, "'%s' is %s, expected a regular file", path, kind_name(about.st_mode));
  else
    status = ab_mem_string(&file.path, path);
  if (status != AB_OK) close(fd);
  AB_TRY(status);
  file.size = (uint64_t)about.st_size;
  *out = file;
  return AB_OK;
}

ab_status ab_file_open(struct ab_file *out, const char *path) {
  int fd;
  do fd = open(path, READ_FLAGS);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) return ab_file_fail("open", path, errno);
  return file_from(out, fd, path);
}

static ab_status open_joined(struct ab_file *out, const char *folder, const char *name, const char *path) {
  int at;
  AB_TRY(ab_folder_open(&at, folder));
  int fd = ab_open_beneath(at, name, READ_FLAGS, 0, false);
  int error = errno;
  close(at);
  if (fd < 0) return ab_file_fail("open", path, error);
  return file_from(out, fd, path);
}

ab_status ab_file_open_beneath(struct ab_file *out, const char *folder, const char *name) {
  AB_TRY(ab_check_beneath(folder, name));
  char *path;
  AB_TRY(ab_path_join(&path, folder, name));
  ab_status status = open_joined(out, folder, name, path);
  ab_mem_free(path);
  return status;
}

void ab_file_close(struct ab_file *file) {
  if (file->path) close(file->fd);
  ab_mem_free(file->path);
  *file = (struct ab_file){.fd = -1};
}

/* Up to `count` bytes; fewer only at the end of the file. */
static ab_status read_some(const struct ab_file *file, unsigned char *out, size_t count, uint64_t offset, size_t *got) {
  size_t done = 0;
  while (done < count) {
    size_t want = count - done < BLOCK ? count - done : BLOCK;
    ssize_t n = pread(file->fd, out + done, want, (off_t)(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ab_file_fail("read", file->path, errno);
    if (n == 0) break;
    done += (size_t)n;
  }
  *got = done;
  return AB_OK;
}

ab_status ab_file_read_at(const struct ab_file *file, void *out, size_t count, uint64_t offset) {
  size_t got;
  if (offset > INT64_MAX || count > INT64_MAX - offset)
    return AB_FAIL(AB_EFORMAT, "'%s' has no byte %llu", file->path, (unsigned long long)offset);
  AB_TRY(read_some(file, out, count, offset, &got));
  if (got < count)
    return AB_FAIL(AB_EFORMAT, "'%s' ends at byte %llu, expected %zu bytes from %llu on", file->path,
                   (unsigned long long)offset + got, count, (unsigned long long)offset);
  return AB_OK;
}

/* Reads to the end whatever fstat said: files of /proc have size 0, and others may grow. */
static ab_status read_all(char **text, size_t *size, const struct ab_file *file, size_t limit) {
  if (file->size > limit)
    return AB_FAIL(AB_EFORMAT, "'%s' has %llu bytes, at most %zu are read", file->path, (unsigned long long)file->size,
                   limit);
  size_t room = (size_t)file->size + 1, used = 0, got = 0;
  do {
    if (used + got == room) room = room < 4096 ? 4096 : room > limit / 2 ? limit + 1 : 2 * room;
    used += got;
    AB_TRY(ab_mem_resize(text, room + 1, 1));
    AB_TRY(read_some(file, (unsigned char *)*text + used, room - used, used, &got));
  } while (got == room - used && used + got <= limit);
  used += got;
  if (used > limit) return AB_FAIL(AB_EFORMAT, "'%s' has more than %zu bytes, which is the limit", file->path, limit);
  (*text)[used] = '\0';
  *size = used;
  return AB_OK;
}

/* Closes the file. */
static ab_status read_and_close(char **out, size_t *size, struct ab_file *file, size_t limit) {
  char *text = NULL;
  ab_status status = read_all(&text, size, file, limit);
  ab_file_close(file);
  if (status != AB_OK) ab_mem_free(text);
  AB_TRY(status);
  *out = text;
  return AB_OK;
}

ab_status ab_file_read(char **out, size_t *size, const char *path, size_t limit) {
  struct ab_file file;
  AB_TRY(ab_file_open(&file, path));
  return read_and_close(out, size, &file, limit);
}

ab_status ab_file_read_beneath(char **out, size_t *size, const char *folder, const char *name, size_t limit) {
  struct ab_file file;
  AB_TRY(ab_file_open_beneath(&file, folder, name));
  return read_and_close(out, size, &file, limit);
}
