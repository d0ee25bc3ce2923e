#include "memory_limit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "file.h"
#include "mem.h"

enum { SMALL_FILE = 1 << 20, PATH_ROOM = 4096, FILE_ROOM = PATH_ROOM + 64 };

static void lower(struct ab_memory_limit *limit, uint64_t available, const char *governor) {
  if (available >= limit->available) return;
  limit->available = available;
  limit->governor = governor;
}

/* A file of /proc or /sys as text (ab_mem_free), NULL when there is none: then it sets no limit. */
static char *read_text(const char *path) {
  char *text;
  size_t size;
  return ab_file_read(&text, &size, path, SMALL_FILE) == AB_OK ? text : NULL;
}

/* The number behind `label` at the start of a line. */
static int labelled(uint64_t *out, const char *text, const char *label) {
  size_t length = strlen(label);
  for (const char *line = text; line; line = strchr(line, '\n')) {
    line += *line == '\n';
    if (!strncmp(line, label, length)) return sscanf(line + length, " %" SCNu64, out) == 1;
  }
  return 0;
}

static void look_at_meminfo(struct ab_memory_limit *limit, const char *root) {
  char path[PATH_ROOM];
  uint64_t kib;
  snprintf(path, sizeof path, "%s/proc/meminfo", root);
  char *text = read_text(path);
  if (text && labelled(&kib, text, "MemAvailable:")) lower(limit, kib * 1024, "MemAvailable");
  ab_mem_free(text);
}

static void look_at_rlimit(struct ab_memory_limit *limit, const char *root) {
  char path[PATH_ROOM];
  struct rlimit as;
  uint64_t pages = 0;
  if (getrlimit(RLIMIT_AS, &as) != 0 || as.rlim_cur == RLIM_INFINITY) return;
  snprintf(path, sizeof path, "%s/proc/self/statm", root);
  char *text = read_text(path);
  if (text) sscanf(text, "%" SCNu64, &pages);
  ab_mem_free(text);
  uint64_t mapped = pages * (uint64_t)sysconf(_SC_PAGESIZE);
  lower(limit, as.rlim_cur > mapped ? as.rlim_cur - mapped : 0, "RLIMIT_AS");
}

static int number_in(uint64_t *out, const char *folder, const char *name) {
  char path[FILE_ROOM];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  char *text = read_text(path);
  int found = text && sscanf(text, "%" SCNu64, out) == 1; /* "max" is no number */
  ab_mem_free(text);
  return found;
}

struct cgroup_version {
  const char *mount, *limit, *usage, *reclaimable; /* the last: a line of memory.stat */
};
static const struct cgroup_version v2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "};
static const struct cgroup_version v1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                         "total_inactive_file "};

static void look_at_group(struct ab_memory_limit *limit, const struct cgroup_version *version, const char *folder) {
  char path[FILE_ROOM];
  uint64_t most, used = 0, cache = 0;
  if (!number_in(&most, folder, version->limit)) return;
  number_in(&used, folder, version->usage);
  snprintf(path, sizeof path, "%s/memory.stat", folder);
  char *text = read_text(path);
  if (text) labelled(&cache, text, version->reclaimable);
  ab_mem_free(text);
  used -= cache < used ? cache : used;
  lower(limit, most > used ? most - used : 0, "the cgroup limit");
}

/* The group and all above it: each may set a limit. */
static void climb(struct ab_memory_limit *limit, const struct cgroup_version *version, const char *root,
                  const char *group) {
  char folder[PATH_ROOM];
  int mount = snprintf(folder, sizeof folder, "%s%s", root, version->mount);
  int full = snprintf(folder + mount, sizeof folder - (size_t)mount, "%s", group);
  if (full >= (int)sizeof folder - mount) folder[mount] = '\0';
  for (;;) {
    look_at_group(limit, version, folder);
    char *slash = strrchr(folder + mount, '/');
    if (!slash) return;
    *slash = '\0';
  }
}

/* Lines "0::/path" (v2) and "5:cpu,memory:/path" (v1). */
static void look_at_cgroup_line(struct ab_memory_limit *limit, const char *root, char *line) {
  char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
  if (!group) return;
  *controllers++ = *group++ = '\0';
  if (!*controllers) climb(limit, &v2, root, group);
  char *rest = controllers;
  for (char *name; (name = strsep(&rest, ","));)
    if (!strcmp(name, "memory")) climb(limit, &v1, root, group);
}

static void look_at_cgroups(struct ab_memory_limit *limit, const char *root) {
  char path[PATH_ROOM];
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  char *text = read_text(path), *rest = text;
  for (char *line; (line = strsep(&rest, "\n"));) look_at_cgroup_line(limit, root, line);
  ab_mem_free(text);
}

ab_status ab_memory_available(struct ab_memory_limit *out, const char *root) {
  struct ab_memory_limit limit = {.available = UINT64_MAX};
  size_t refused = ab_mem_stats().refused;
  look_at_meminfo(&limit, root);
  look_at_cgroups(&limit, root);
  look_at_rlimit(&limit, root);
  ab_status_clear(); /* a file that is not there is no failure */
  if (ab_mem_stats().refused != refused)
    return AB_FAIL(AB_ENOMEM, "cannot allocate what it takes to read how much memory is available");
  if (!limit.governor) return AB_FAIL(AB_ENOTFOUND, "%s/proc/meminfo does not say how much memory is available", root);
  *out = limit;
  return AB_OK;
}

ab_status ab_memory_require(uint64_t bytes, const char *what, const char *root) {
  struct ab_memory_limit limit;
  AB_TRY(ab_memory_available(&limit, root));
  if (bytes <= limit.available) return AB_OK;
  return AB_FAIL(AB_ECONFIG, "%s needs %" PRIu64 " bytes (%.1f GiB) of memory, %s allows %" PRIu64 " (%.1f GiB)", what,
                 bytes, (double)bytes / (1 << 30), limit.governor, limit.available,
                 (double)limit.available / (1 << 30));
}
