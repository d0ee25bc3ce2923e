#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "file_internal.h"
#include "mem.h"
#include "stop.h"

enum { DEEPEST = 16, SCRATCHES = 8, LONGEST = 4096, ENTRIES = 2048 /* bytes of names at once */ };
enum { ATTEMPTS = 100, RETRIES = 3, PASSES = 1 << 14 };

/* A scratch folder has a file beside it that its owner holds locked while it lives: d-1234 and l-1234.
 * The folder itself may be locked as any other (ab_folder_lock). The file is there first and goes last. */
#define FOLDER_PREFIX AB_TEMPORARY_PREFIX "d-"
enum { KIND = sizeof AB_TEMPORARY_PREFIX - 1 /* where the d or l stands */, NAME = 64 };

/* What a signal handler has to remove. */
static struct scratch {
  volatile sig_atomic_t used;
  int lock;
  char path[LONGEST], lock_path[LONGEST];
} scratches[SCRATCHES];

static bool begins(const char *name, const char *prefix) { return !strncmp(name, prefix, strlen(prefix)); }

static bool is_dots(const char *name) { return !strcmp(name, ".") || !strcmp(name, ".."); }

static int empty(int folder, int top, int depth);

/* A folder too deep to descend to goes to the top, where a later pass finds it. No other has the name of its inode. */
static int hoist(int folder, const char *name, int top) {
  char up[] = "up-0123456789abcdef";
  struct stat about;
  if (fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) != 0) return -1;
  for (int i = 0; i < 16; i++) up[3 + i] = "0123456789abcdef"[about.st_ino >> 4 * i & 15];
  return renameat(folder, name, top, up);
}

/* 0, or -1 and errno. top: an open folder above it; -1: it is the top itself. */
static int remove_name(int folder, const char *name, int top, int depth) {
  if (is_dots(name) || unlinkat(folder, name, 0) == 0 || errno == ENOENT) return 0;
  if (errno != EISDIR && errno != EPERM) return -1;
  if (depth == DEEPEST) return hoist(folder, name, top);
  int inner = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (inner < 0) return -1;
  int result = empty(inner, top < 0 ? inner : top, depth + 1), error = errno;
  close(inner);
  errno = error;
  return result != 0 ? result : unlinkat(folder, name, AT_REMOVEDIR);
}

/* Passes until one finds nothing: removing moves the names of some file systems about. By system calls alone, without
 * a DIR: a signal handler may be the caller. */
static int empty(int folder, int top, int depth) {
  char names[ENTRIES] __attribute__((aligned(8)));
  bool found = true;
  for (int pass = 0; found && pass < PASSES; pass++) {
    long got;
    found = false;
    if (lseek(folder, 0, SEEK_SET) != 0) return -1;
    while ((got = syscall(SYS_getdents64, folder, names, sizeof names)) > 0)
      for (long at = 0; at < got;) {
        const struct dirent64 *entry = (const void *)(names + at);
        if (remove_name(folder, entry->d_name, top, depth) != 0) return -1;
        found |= !is_dots(entry->d_name);
        at += entry->d_reclen;
      }
    if (got < 0) return -1;
  }
  return 0;
}

static struct scratch *slot_of(const char *path) {
  for (int i = 0; i < SCRATCHES; i++)
    if (scratches[i].used && !strcmp(scratches[i].path, path)) return &scratches[i];
  return NULL;
}

static void forget(const char *path) {
  struct scratch *slot = slot_of(path);
  if (!slot) return;
  unlink(slot->lock_path);
  slot->used = false;
  close(slot->lock);
}

void ab_scratches_drop(void) {
  for (int i = 0; i < SCRATCHES; i++) {
    int folder = scratches[i].used ? open(scratches[i].path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    for (int pass = 0; folder >= 0 && pass < RETRIES; pass++)
      if (empty(folder, folder, 0) == 0 && rmdir(scratches[i].path) == 0) break;
    if (scratches[i].used) unlink(scratches[i].lock_path);
  }
}

/* -1 and errno. A sweep between open and flock leaves a file without a name: EEXIST, again. */
static int make_lock(const char *path) {
  struct stat about;
  int fd;
  do fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) return -1;
  bool ours = flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; /* or there are no locks here */
  if (ours && fstat(fd, &about) == 0 && about.st_nlink > 0) return fd;
  close(fd);
  errno = EEXIST;
  return -1;
}

/* Makes and locks it; -1 and errno. */
static int make_locked(struct scratch *slot) {
  int fd = make_lock(slot->lock_path);
  if (fd < 0 || mkdir(slot->path, 0700) == 0) return fd;
  int error = errno;
  unlink(slot->lock_path);
  close(fd);
  errno = error;
  return -1;
}

/* Nobody can put something there beforehand whose name is not known. */
static bool name_slot(struct scratch *slot, const char *parent) {
  uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) number = (uint64_t)getpid() << 32 | (uint64_t)clock();
  int length = snprintf(slot->path, LONGEST, "%s/" FOLDER_PREFIX "%016llx", parent, (unsigned long long)number);
  if (length >= LONGEST) return false;
  memcpy(slot->lock_path, slot->path, (size_t)length + 1);
  slot->lock_path[strlen(parent) + 1 + KIND] = 'l';
  return true;
}

static ab_status make_in(struct scratch *slot, const char *parent) {
  int fd = -1;
  for (int i = 0; i < ATTEMPTS && fd < 0; i++) {
    if (!name_slot(slot, parent)) return ab_file_fail("make a scratch folder in", parent, ENAMETOOLONG);
    fd = make_locked(slot);
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
  if (folder >= 0 && (empty(folder, folder, 0) != 0 || rmdir(path) != 0)) error = errno;
  if (folder >= 0) close(folder);
  forget(path);
  return error && error != ENOENT ? ab_file_fail("remove", path, error) : AB_OK;
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

/* True when nobody holds it or it is not there. */
static bool free_of_owner(int folder, const char *name) {
  int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT;
  bool free = flock(fd, LOCK_EX | LOCK_NB) == 0;
  close(fd);
  return free;
}

static void sweep_file(int folder, const char *name, int fd) {
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlinkat(folder, name, 0);
}

/* Opened after its owner was seen to be gone: what is there under this name then was not put in place. */
static void sweep_folder(int folder, const char *name) {
  char lock[NAME];
  if (!begins(name, FOLDER_PREFIX) || strlen(name) >= sizeof lock) return;
  memcpy(lock, name, strlen(name) + 1);
  lock[KIND] = 'l';
  if (free_of_owner(folder, lock)) remove_name(folder, name, -1, 0);
}

/* A living owner holds a lock on its file, or on the one beside its folder. */
static void sweep_name(int folder, const char *name) {
  struct stat about;
  int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  bool seen = fstat(fd, &about) == 0;
  if (seen && S_ISREG(about.st_mode)) sweep_file(folder, name, fd);
  if (seen && S_ISDIR(about.st_mode) && about.st_uid == geteuid()) sweep_folder(folder, name); /* else not ours */
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
