#include "bench_diff.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench_child.h"
#include "file.h"
#include "mem.h"
#include "outcome.h"
#include "process.h"
#include "safetensors.h"

enum { PIECE = 256 << 10, SMALL = 8, SPARSE = 16384 };

/* What a child sends. */
struct clocks {
  double seconds, processor_seconds;
};
struct pass {
  struct clocks memory, files;
};

struct timing {
  struct clocks took;
  uint64_t peak_memory;
};

static struct clocks clocks_now(void) {
  return (struct clocks){bench_clock(CLOCK_MONOTONIC), bench_clock(CLOCK_PROCESS_CPUTIME_ID)};
}

static struct clocks clocks_since(struct clocks begin) {
  struct clocks now = clocks_now();
  return (struct clocks){now.seconds - begin.seconds, now.processor_seconds - begin.processor_seconds};
}

static void keep_least(struct clocks *least, const struct clocks *took, bool first) {
  if (first) *least = *took;
  least->seconds = fmin(least->seconds, took->seconds);
  least->processor_seconds = fmin(least->processor_seconds, took->processor_seconds);
}

/* --- Dumps: one tensor of half the size, the rest in eight. */

static void fill(float *piece, uint32_t *state, bool sparse) {
  for (size_t i = 0; i < PIECE / sizeof *piece; i++) {
    *state = *state * 1664525u + 1013904223u;
    piece[i] = (float)(int32_t)*state * 0x1p-31f;
    if (sparse && i % SPARSE == SPARSE / 2) piece[i] = nextafterf(piece[i], 2);
  }
}

static ab_status declare(struct ab_safetensors_writer *writer, int64_t bytes) {
  char name[32];
  struct ab_shape large = {2, {bytes / 2 / 4096, 1024}}, small = {2, {bytes / 2 / SMALL / 4096, 1024}};
  AB_TRY(ab_safetensors_writer_declare(writer, "large", AB_F32, &large));
  for (int i = 0; i < SMALL; i++) {
    snprintf(name, sizeof name, "small_%d", i);
    AB_TRY(ab_safetensors_writer_declare(writer, name, AB_F32, &small));
  }
  return AB_OK;
}

static ab_status write_dump(const char *path, long mib, bool sparse) {
  struct ab_safetensors_writer *writer;
  float *piece;
  uint32_t state = 1;
  int64_t bytes = (int64_t)mib << 20;
  AB_TRY(ab_mem_new(&piece, PIECE, 1));
  ab_status status = ab_safetensors_writer_new(&writer, path);
  if (status == AB_OK) {
    status = declare(writer, bytes);
    for (int64_t at = 0; at < bytes && status == AB_OK; at += PIECE) {
      fill(piece, &state, sparse);
      status = ab_safetensors_writer_put(writer, piece, PIECE);
    }
    if (status == AB_OK) status = ab_safetensors_writer_commit(writer);
    ab_safetensors_writer_free(writer);
  }
  ab_mem_free(piece);
  return status;
}

/* --- The pass. */

static struct clocks pass_memory(const unsigned char *a, const unsigned char *b, size_t size, size_t *unlike) {
  struct clocks begin = clocks_now();
  size_t count = 0;
#pragma omp parallel for schedule(static) reduction(+ : count)
  for (size_t at = 0; at < size; at += PIECE)
    count += memcmp(a + at, b + at, size - at < PIECE ? size - at : PIECE) != 0;
  *unlike = count;
  return clocks_since(begin);
}

/* Into the same few blocks, over and over. */
static struct clocks pass_files(const struct ab_file *a, const struct ab_file *b, size_t *unlike) {
  struct clocks begin = clocks_now();
  size_t count = 0;
#pragma omp parallel for schedule(dynamic, 1) reduction(+ : count)
  for (uint64_t at = 0; at < a->size; at += PIECE) {
    static _Thread_local unsigned char block[2][PIECE];
    size_t n = a->size - at < PIECE ? (size_t)(a->size - at) : PIECE;
    bool read = ab_file_read_at(a, block[0], n, at) == AB_OK && ab_file_read_at(b, block[1], n, at) == AB_OK;
    count += !read || memcmp(block[0], block[1], n) != 0;
  }
  *unlike = count;
  return clocks_since(begin);
}

static ab_status check_like(size_t unlike) {
  return unlike ? AB_FAIL(AB_EMISMATCH, "%zu pieces of two equal dumps differ", unlike) : AB_OK;
}

static ab_status measure_pass(struct pass *out, const struct ab_file *a, const struct ab_file *b) {
  unsigned char *memory[2];
  size_t unlike, size = (size_t)a->size;
  if (a->size != b->size) return AB_FAIL(AB_EMISMATCH, "'%s' and '%s' are of two sizes", a->path, b->path);
  AB_TRY(ab_mem_new(&memory[0], 2 * size, 1));
  memory[1] = memory[0] + size;
  ab_status status = ab_file_read_at(a, memory[0], size, 0);
  if (status == AB_OK) status = ab_file_read_at(b, memory[1], size, 0);
  for (int warm = 1; warm >= 0 && status == AB_OK; warm--) { /* the first time starts the threads */
    out->memory = pass_memory(memory[0], memory[1], warm ? PIECE : size, &unlike);
    status = check_like(unlike);
  }
  ab_mem_free(memory[0]);
  AB_TRY(status);
  out->files = pass_files(a, b, &unlike);
  return check_like(unlike);
}

ab_status bench_diff_pass(const char *path_a, const char *path_b) {
  struct ab_file a = {0}, b = {0};
  struct pass pass = {0};
  ab_status status = ab_file_open(&a, path_a);
  if (status == AB_OK) status = ab_file_open(&b, path_b);
  if (status == AB_OK) status = measure_pass(&pass, &a, &b);
  ab_file_close(&a);
  ab_file_close(&b);
  AB_TRY(status);
  return bench_child_answer(&pass, sizeof pass);
}

/* --- ab_diff. */

static ab_status find_diff(char *out, size_t size) {
  char self[4000];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length < 0) return AB_FAIL(AB_EIO, "cannot read where bench lies");
  self[length] = '\0';
  snprintf(out, size, "%.*s/ab_diff", (int)(strrchr(self, '/') - self), self);
  return AB_OK;
}

static ab_status run_diff(struct timing *best, const char *a, const char *b, enum ab_exit expected, bool first) {
  static struct ab_process_result result;
  char program[4096];
  AB_TRY(find_diff(program, sizeof program));
  const char *const arguments[] = {"ab_diff", a, b, NULL}, *const environment[] = {NULL};
  struct ab_process_spec spec = {.name = "ab_diff", .program = program, .arguments = arguments,
                                 .environment = environment};
  double used = bench_processor();
  AB_TRY(ab_process_run(&result, &spec));
  used = bench_processor() - used;
  if (result.exit_code != (int)expected)
    return AB_FAIL(AB_EMISMATCH, "ab_diff ended with exit code %d; expected %d", result.exit_code, (int)expected);
  struct clocks took = {result.seconds, used};
  keep_least(&best->took, &took, first);
  if (result.peak_memory > best->peak_memory) best->peak_memory = result.peak_memory;
  return AB_OK;
}

/* --- All of it. */

struct diff {
  char *folder, *dump[3]; /* one, its equal, and one that differs */
  struct pass pass;
  struct timing equal, sparse;
};

static ab_status write_dumps(struct diff *d, long mib) {
  static const char *const names[] = {"a.safetensors", "b.safetensors", "c.safetensors"};
  for (int i = 0; i < 3; i++) {
    AB_TRY(ab_path_join(&d->dump[i], d->folder, names[i]));
    AB_TRY(write_dump(d->dump[i], mib, i == 2));
  }
  return AB_OK;
}

static ab_status one_round(struct diff *d, bool first) {
  struct pass pass;
  const char *const arguments[] = {"bench", "--pass", d->dump[0], "--against", d->dump[1], NULL};
  AB_TRY(bench_child_run(&pass, sizeof pass, NULL, arguments));
  keep_least(&d->pass.memory, &pass.memory, first);
  keep_least(&d->pass.files, &pass.files, first);
  AB_TRY(run_diff(&d->equal, d->dump[0], d->dump[1], AB_EXIT_EQUAL, first));
  return run_diff(&d->sparse, d->dump[2], d->dump[0], AB_EXIT_DIFFERENT, first);
}

static void put_clocks(struct ab_json_writer *w, const struct clocks *c) {
  ab_json_put_double(w, "seconds", c->seconds);
  ab_json_put_double(w, "processor_seconds", c->processor_seconds);
}

/* How fast ab_diff is, the pass being 1. */
static void put_ratio(struct ab_json_writer *w, const char *key, const struct clocks *pass, const struct clocks *took) {
  ab_json_put_object(w, key, true);
  ab_json_put_double(w, "throughput", pass->seconds / took->seconds);
  ab_json_put_double(w, "per_processor_second", pass->processor_seconds / took->processor_seconds);
  ab_json_put_end(w);
}

static void put_pass(struct ab_json_writer *w, const char *key, const struct clocks *pass) {
  ab_json_put_object(w, key, true);
  put_clocks(w, pass);
  ab_json_put_end(w);
}

static void put_timing(struct ab_json_writer *w, const char *key, const struct timing *t, const struct pass *pass) {
  ab_json_put_object(w, key, false);
  put_clocks(w, &t->took);
  put_ratio(w, "to_memory_pass", &pass->memory, &t->took);
  put_ratio(w, "to_file_pass", &pass->files, &t->took);
  ab_json_put_int64(w, "peak_memory", (int64_t)t->peak_memory);
  ab_json_put_end(w);
}

static void put(struct ab_json_writer *w, const struct diff *d, long rounds, long mib) {
  ab_json_put_object(w, "diff", false);
  ab_json_put_int64(w, "bytes_each", (int64_t)mib << 20);
  ab_json_put_int64(w, "rounds", rounds);
  put_pass(w, "memory_pass", &d->pass.memory);
  put_pass(w, "file_pass", &d->pass.files);
  put_timing(w, "equal", &d->equal, &d->pass);
  put_timing(w, "sparse", &d->sparse, &d->pass);
  ab_json_put_end(w);
}

ab_status bench_diff_put(struct ab_json_writer *writer, long rounds, long mib) {
  struct diff d = {0};
  AB_TRY(ab_scratch_new(&d.folder, NULL));
  ab_status status = write_dumps(&d, mib);
  for (long round = 0; round < rounds && status == AB_OK; round++) status = one_round(&d, round == 0);
  if (status == AB_OK) put(writer, &d, rounds, mib);
  ab_status removed = ab_scratch_remove(d.folder);
  for (int i = 0; i < 3; i++) ab_mem_free(d.dump[i]);
  ab_mem_free(d.folder);
  AB_TRY(status);
  return removed;
}
