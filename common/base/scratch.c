#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "file_internal.h"
#include "mem.h"
#include "stop.h"

enum { DEEPEST = 16, SCRATCHES = 8, LONGEST = 4096, ENTRIES = 2048 /* bytes of names at once */, PASSES = 3 };
enum { ATTEMPTS = 100 };

/* The part of their name that tells folders, which are locked while their owner lives, from files. */
#define FOLDER_PREFIX AB_TEMPORARY_PREFIX "d-"

/* What a signal handler has to remove. A slot is in use while its lock is an open descriptor, of the folder itself. */
static struct scratch {
  volatile sig_atomic_t used;
  int lock;
  char path[LONGEST];
} scratches[SCRATCHES];

static bool begins(const char *name, const char *prefix) { return !strncmp(name, prefix, strlen(prefix)); }

static bool is_dots(const char *name) { return !strcmp(name, ".") || !strcmp(name, ".."); }

static int empty(int folder, int depth);

/* 0, or -1 and errno. */
static int remove_name(int folder, const char *name, int depth) {
  if (is_dots(name) || unlinkat(folder, name, 0) == 0 || errno == ENOENT) return 0;
  if (errno != EISDIR && errno != EPERM) return -1;
  int inner = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (inner < 0) return -1;
  int result = empty(inner, depth + 1), error = errno;
  close(inner);
  errno = error;
  return result != 0 ? result : unlinkat(folder, name, AT_REMOVEDIR);
}

/* By system calls alone, without a DIR: a signal handler may be the caller. Removing moves the names of some file
 * systems about, so another pass looks again. */
static int empty(int folder, int depth) {
  char names[ENTRIES] __attribute__((aligned(8)));
  long got = 1;
  if (depth >= DEEPEST) {
    errno = ELOOP;
    return -1;
  }
  for (int pass = 0; pass < PASSES && got >= 0; pass++) {
    if (lseek(folder, 0, SEEK_SET) != 0) return -1;
    while ((got = syscall(SYS_getdents64, folder, names, sizeof names)) > 0)
      for (long at = 0; at < got;) {
        const struct dirent64 *entry = (const void *)(names + at);
        if (remove_name(folder, entry->d_name, depth) != 0) return -1;
        at += entry->d_reclen;
      }
  }
  return got < 0 ? -1 : 0;
}

static struct scratch *slot_of(const char *path) {
  for (int i = 0; i < SCRATCHES; i++)
    if (scratches[i].used && !strcmp(scratches[i].path, path)) return &scratches[i];
  return NULL;
}

static void forget(const char *path) {
  struct scratch *slot = slot_of(path);
  if (!slot) return;
  slot->used = false;
  close(slot->lock);
}

void ab_scratches_drop(void) {
  for (int i = 0; i < SCRATCHES; i++)
    for (int pass = 0; scratches[i].used && pass < PASSES; pass++)
      if (empty(scratches[i].lock, 0) == 0 && rmdir(scratches[i].path) == 0) break;
}

/* Makes and locks it; -1 and errno. A sweep between the two leaves a folder without a name: EEXIST, again. */
static int make_locked(char *path) {
  struct stat about;
  if (!mkdtemp(path)) return -1;
  int fd;
  do fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  while (fd < 0 && errno == EINTR);
  if (fd < 0 && errno != ENOENT) {
    int error = errno;
    rmdir(path);
    errno = error;
    return -1;
  }
  bool ours = fd >= 0 && (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK); /* or there are no locks here */
  if (ours && fstat(fd, &about) == 0 && about.st_nlink > 0) return fd;
  if (fd >= 0) close(fd);
  rmdir(path);
  errno = EEXIST;
  return -1;
}

static ab_status make_in(struct scratch *slot, const char *parent) {
  int fd = -1;
  for (int i = 0; i < ATTEMPTS && fd < 0; i++) {
    int length = snprintf(slot->path, LONGEST, "%s/" FOLDER_PREFIX "XXXXXX", parent);
    if (length >= LONGEST) return ab_file_fail("make a scratch folder in", parent, ENAMETOOLONG);
    fd = make_locked(slot->path);
    if (fd < 0 && errno != EEXIST) break;
  }
  if (fd < 0) return ab_file_fail("make a scratch folder in", parent, errno);
  slot->lock = fd;
  slot->used = true;
  return AB_OK;
}

static ab_status take_slot(struct scratch **out, const char *parent) {
  sigset_t before;
  int i = 0;
  while (i < SCRATCHES && scratches[i].used) i++;
  if (i == SCRATCHES) return AB_FAIL(AB_EIO, "there are %d scratch folders already", SCRATCHES);
  ab_stop_hold(&before);
  ab_status status = make_in(&scratches[i], parent);
  ab_stop_release(&before);
  AB_TRY(status);
  *out = &scratches[i];
  return AB_OK;
}

ab_status ab_scratch_new(char **out, const char *parent) {
  const char *from = getenv("TMPDIR");
  struct scratch *slot;
  if (!parent) parent = from && *from ? from : "/tmp";
  if (ab_folder_sweep(parent) != AB_OK) ab_status_clear(); /* the next line says what is wrong, if it matters */
  AB_TRY(take_slot(&slot, parent));
  ab_status status = ab_mem_string(out, slot->path);
  if (status == AB_OK) return AB_OK;
  rmdir(slot->path);
  forget(slot->path);
  return status;
}

ab_status ab_scratch_remove(const char *path) {
  const char *slash = strrchr(path, '/');
  if (!begins(slash ? slash + 1 : path, AB_TEMPORARY_PREFIX))
    return AB_FAIL(AB_EIO, "'%s' is not a scratch folder: its name does not begin with " AB_TEMPORARY_PREFIX, path);
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  int error = folder < 0 ? errno : 0;
  if (folder >= 0 && (empty(folder, 0) != 0 || rmdir(path) != 0)) error = errno;
  if (folder >= 0) close(folder);
  forget(path);
  return error ? ab_file_fail("remove", path, error) : AB_OK;
}

ab_status ab_scratch_beside(char **out, const char *path) {
  char *parent;
  AB_TRY(ab_parent_of(&parent, path));
  ab_status status = ab_folder_make(parent);
  if (status == AB_OK) status = ab_scratch_new(out, parent);
  ab_mem_free(parent);
  AB_TRY(status);
  return AB_OK;
}

ab_status ab_scratch_place(const char *scratch, const char *path) {
  sigset_t before;
  ab_stop_hold(&before); /* once renamed it is no scratch folder any more */
  bool placed = chmod(scratch, 0755) == 0 && rename(scratch, path) == 0;
  int error = errno;
  if (placed) forget(scratch);
  ab_stop_release(&before);
  if (!placed) return ab_file_fail("put in place", path, error);
  return ab_sync_parent(path);
}

/* A living owner holds a lock on its file or folder; a folder of another user is not ours to look into. */
static void sweep_name(int folder, const char *name) {
  struct stat about;
  int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  bool seen = fstat(fd, &about) == 0;
  bool file = seen && S_ISREG(about.st_mode);
  bool scratch = seen && S_ISDIR(about.st_mode) && begins(name, FOLDER_PREFIX) && about.st_uid == geteuid();
  if ((file || scratch) && flock(fd, LOCK_EX | LOCK_NB) == 0) {
    if (file) unlinkat(folder, name, 0);
    else if (empty(fd, 0) == 0) unlinkat(folder, name, AT_REMOVEDIR);
  }
  close(fd);
}

static int sweep_stream(DIR *stream) {
  const struct dirent *entry;
  do {
    errno = 0;
    entry = readdir(stream);
    if (entry && begins(entry->d_name, AB_TEMPORARY_PREFIX)) sweep_name(dirfd(stream), entry->d_name);
  } while (entry);
  int error = errno;
  closedir(stream);
  return error;
}

/* Takes the descriptor over; errno's number. */
static int sweep_fd(int fd) {
  DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
  int error = errno;
  if (!stream && fd >= 0) close(fd);
  return stream ? sweep_stream(stream) : error;
}

void ab_folder_sweep_at(int folder) { (void)sweep_fd(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)); }

ab_status ab_folder_sweep(const char *path) {
  int fd;
  AB_TRY(ab_folder_open(&fd, path));
  int error = sweep_fd(fd);
  return error ? ab_file_fail("read the folder", path, error) : AB_OK;
}
