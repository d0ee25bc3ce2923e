#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file_internal.h"
#include "mem.h"

bool ab_folder_exists(const char *path) {
  struct stat about;
  return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

bool ab_file_exists(const char *path) {
  struct stat about;
  return lstat(path, &about) == 0;
}

static ab_status found(bool *out, int result, const char *path) {
  if (result != 0 && errno != ENOENT && errno != ENOTDIR) return ab_file_fail("look at", path, errno);
  *out = result == 0;
  return AB_OK;
}

ab_status ab_file_find(bool *out, const char *path) {
  struct stat about;
  return found(out, lstat(path, &about), path);
}

ab_status ab_folder_find(bool *out, const char *path) {
  struct stat about = {0};
  AB_TRY(found(out, stat(path, &about), path));
  *out = *out && S_ISDIR(about.st_mode);
  return AB_OK;
}

static ab_status make_one(const char *path) {
  if (mkdir(path, 0777) == 0) return AB_OK;
  int error = errno;
  bool there = false;
  if (error == EEXIST) AB_TRY(ab_folder_find(&there, path));
  return there ? AB_OK : ab_file_fail("make the folder", path, error);
}

ab_status ab_folder_make(const char *path) {
  char *prefix;
  AB_TRY(ab_mem_string(&prefix, path));
  ab_status status = AB_OK;
  for (char *slash = strchr(prefix + (*prefix != '\0'), '/'); slash && status == AB_OK;
       slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    status = ab_folder_exists(prefix) ? AB_OK : make_one(prefix);
    *slash = '/';
  }
  ab_mem_free(prefix);
  AB_TRY(status);
  return make_one(path);
}

static bool is_temporary(const char *name) { return !strncmp(name, AB_TEMPORARY_PREFIX, strlen(AB_TEMPORARY_PREFIX)); }

static bool is_dots(const char *name) { return !strcmp(name, ".") || !strcmp(name, ".."); }

static ab_status open_stream(DIR **out, const char *path) {
  int fd;
  AB_TRY(ab_folder_open(&fd, path));
  DIR *stream = fdopendir(fd);
  if (!stream) {
    int error = errno;
    close(fd);
    return ab_file_fail("read the folder", path, error);
  }
  *out = stream;
  return AB_OK;
}

/* *name is NULL at the end. */
static ab_status next_name(const char **name, DIR *stream, const char *path) {
  struct dirent *entry;
  do {
    errno = 0;
    entry = readdir(stream);
  } while (entry && is_dots(entry->d_name));
  if (!entry && errno) return ab_file_fail("read the folder", path, errno);
  *name = entry ? entry->d_name : NULL;
  return AB_OK;
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static ab_status append_name(struct ab_names *names, size_t *room, const char *name) {
  if (names->count == *room) {
    size_t more = *room ? 2 * *room : 32;
    AB_TRY(ab_mem_resize(&names->name, more, sizeof *names->name));
    *room = more;
  }
  AB_TRY(ab_mem_string(&names->name[names->count], name));
  names->count++;
  return AB_OK;
}

static ab_status list(struct ab_names *names, DIR *stream, const char *path, size_t limit) {
  size_t room = 0;
  const char *name;
  for (;;) {
    AB_TRY(next_name(&name, stream, path));
    if (!name) break;
    if (is_temporary(name)) continue;
    if (names->count == limit) return AB_FAIL(AB_EFORMAT, "the folder '%s' holds more than %zu names", path, limit);
    AB_TRY(append_name(names, &room, name));
  }
  if (names->count) qsort(names->name, names->count, sizeof *names->name, by_bytes);
  return AB_OK;
}

ab_status ab_folder_list(struct ab_names *out, const char *path, size_t limit) {
  DIR *stream;
  struct ab_names names = {0};
  AB_TRY(open_stream(&stream, path));
  ab_status status = list(&names, stream, path, limit);
  closedir(stream);
  if (status != AB_OK) ab_names_free(&names);
  AB_TRY(status);
  *out = names;
  return AB_OK;
}

void ab_names_free(struct ab_names *names) {
  for (size_t i = 0; i < names->count; i++) ab_mem_free(names->name[i]);
  ab_mem_free(names->name);
  *names = (struct ab_names){0};
}
