#include "diff_source.h"

#include <stdio.h>
#include <string.h>

#include "diff_metrics.h"
#include "file.h"
#include "json.h"
#include "mem.h"
#include "npz.h"
#include "safetensors.h"

enum { FILES_MAX = 64, NAMES_MAX = 10000, ROWS_MAX = 1000000 };

/* One file: exactly one of both is there. */
struct container {
  struct ab_safetensors *tensors;
  struct ab_npz *npz;
  char stem[64]; /* "grads"; "" of a bare file */
};

/* Where a row of the recording comes from. */
struct row {
  size_t file;
  const struct ab_safetensor *tensor;
  int axis;
  int64_t index;
  bool transpose;
};

struct ab_diff_source {
  struct container file[FILES_MAX];
  size_t files;
  struct ab_json *expected; /* NULL: none */
  struct ab_recording *recording;
  struct row *row;
  size_t rows, room;
  const struct ab_safetensor *held; /* whose values are in the buffer */
  unsigned char *buffer;
  size_t buffer_room;
};

static bool ends_in(const char *name, const char *ending) {
  size_t length = strlen(name), tail = strlen(ending);
  return length > tail && strcmp(name + length - tail, ending) == 0;
}

static bool is_npz(const char *name) { return ends_in(name, ".npz"); }

static size_t size_of(const struct container *c) {
  return c->npz ? ab_npz_size(c->npz) : ab_safetensors_size(c->tensors);
}

static const struct ab_safetensor *tensor_at(const struct container *c, size_t i) {
  return c->npz ? ab_npz_at(c->npz, i) : ab_safetensors_at(c->tensors, i);
}

static ab_status read_tensor(const struct container *c, const struct ab_safetensor *tensor, void *out) {
  return c->npz ? ab_npz_read(c->npz, tensor, out) : ab_safetensors_read(c->tensors, tensor, out);
}

static ab_status open_file(struct ab_diff_source *s, const char *path, const char *stem, size_t stem_length) {
  if (s->files == FILES_MAX) return AB_FAIL(AB_EFORMAT, "%s: more than %d files to compare", path, FILES_MAX);
  struct container *c = &s->file[s->files];
  if (is_npz(path))
    AB_TRY(ab_npz_open(&c->npz, path));
  else
    AB_TRY(ab_safetensors_open(&c->tensors, path));
  snprintf(c->stem, sizeof c->stem, "%.*s", (int)stem_length, stem);
  s->files++;
  return AB_OK;
}

static ab_status open_member(struct ab_diff_source *s, const char *folder, const char *name) {
  char *path;
  bool tensors = ends_in(name, ".safetensors") || is_npz(name);
  bool metrics = strcmp(name, "expected.json") == 0;
  if (!tensors && !metrics) return AB_OK;
  AB_TRY(ab_path_join(&path, folder, name));
  size_t stem = (size_t)(strrchr(name, '.') - name);
  ab_status status = tensors ? open_file(s, path, name, stem) : ab_json_read(&s->expected, path, NULL);
  ab_mem_free(path);
  return status;
}

static ab_status open_folder(struct ab_diff_source *s, const char *folder) {
  struct ab_names names;
  ab_status status = AB_OK;
  AB_TRY(ab_folder_list(&names, folder, NAMES_MAX));
  for (size_t i = 0; i < names.count && status == AB_OK; i++) status = open_member(s, folder, names.name[i]);
  ab_names_free(&names);
  if (status == AB_OK && !s->files)
    status = AB_FAIL(AB_ENOTFOUND, "the folder '%s' holds no .safetensors or .npz file: nothing to compare",
                     folder);
  return status;
}

ab_status ab_diff_source_open(struct ab_diff_source **out, const char *path, const char *name) {
  struct ab_diff_source *s;
  AB_TRY(ab_mem_new(&s, 1, sizeof *s));
  ab_status status = ab_recording_new(&s->recording, name);
  bool folder = false;
  if (status == AB_OK) status = ab_folder_find(&folder, path);
  if (status == AB_OK) status = folder ? open_folder(s, path) : open_file(s, path, "", 0);
  if (status == AB_OK) *out = s;
  else ab_diff_source_close(s);
  return status;
}

void ab_diff_source_close(struct ab_diff_source *s) {
  if (!s) return;
  for (size_t i = 0; i < s->files; i++) {
    ab_safetensors_close(s->file[i].tensors);
    ab_npz_close(s->file[i].npz);
  }
  ab_json_free(s->expected);
  ab_recording_free(s->recording);
  ab_mem_free(s->row);
  ab_mem_free(s->buffer);
  ab_mem_free(s);
}

const struct ab_recording *ab_diff_source_recording(const struct ab_diff_source *source) { return source->recording; }

static ab_status hold(struct ab_diff_source *s, const struct row *row) {
  if (s->held == row->tensor) return AB_OK;
  s->held = NULL;
  if (row->tensor->bytes > s->buffer_room) {
    AB_TRY(ab_mem_resize(&s->buffer, row->tensor->bytes, 1));
    s->buffer_room = row->tensor->bytes;
  }
  AB_TRY(read_tensor(&s->file[row->file], row->tensor, s->buffer));
  s->held = row->tensor;
  return AB_OK;
}

/* Its axes, and their strides, in reverse. */
static struct ab_view turned(const struct ab_view *view) {
  struct ab_view out = *view;
  for (int i = 0; i < view->shape.rank; i++) {
    out.shape.dim[i] = view->shape.dim[view->shape.rank - 1 - i];
    out.stride[i] = view->stride[view->shape.rank - 1 - i];
  }
  return out;
}

/* Fortran order is row-major order of the shape in reverse. */
static struct ab_view whole_view(const struct ab_diff_source *s, const struct row *row) {
  const struct ab_npz *npz = s->file[row->file].npz;
  bool fortran = npz && ab_npz_fortran(npz, row->tensor);
  struct ab_view view = {.dtype = row->tensor->dtype, .shape = row->tensor->shape, .data = s->buffer};
  if (fortran) view = turned(&view);
  ab_view_contiguous(&view);
  return fortran ? turned(&view) : view;
}

static struct ab_view view_of(const struct ab_diff_source *s, const struct row *row) {
  struct ab_view view = whole_view(s, row);
  if (row->axis != AB_NOT_STACKED) view = ab_view_index(&view, row->axis, row->index);
  return row->transpose ? turned(&view) : view;
}

/* Gradients come before what they change, as in a run. */
static enum ab_phase phase_of(const char *stem) {
  if (strncmp(stem, "grads", 5) == 0) return AB_BACKWARD;
  return strncmp(stem, "params", 6) == 0 ? AB_UPDATE : AB_FORWARD;
}

static ab_status add_row(struct ab_diff_source *s, const struct row *row, const char *name) {
  struct ab_identity id = {.microbatch = -1, .layer = -1, .phase = phase_of(s->file[row->file].stem)};
  snprintf(id.tensor, sizeof id.tensor, "%s", name);
  const struct ab_recorded *there = ab_recording_find(s->recording, &id);
  if (there)
    return AB_FAIL(AB_EMISMATCH, "tensors '%s' and '%s' of %s both become '%s'",
                   s->row[there - s->recording->observation].tensor->name, row->tensor->name, s->recording->name, name);
  if (s->rows == s->room) {
    AB_TRY(ab_mem_resize(&s->row, 2 * s->room + 64, sizeof *s->row));
    s->room = 2 * s->room + 64;
  }
  struct ab_view view = view_of(s, row);
  struct ab_observation o = {.id = id, .at = {-1, -1, -1, false}, .dtype = view.dtype, .shape = view.shape};
  o.summary.count = ab_view_count(&view);
  s->row[s->rows++] = *row;
  return ab_recording_observe(s->recording, &o);
}

/* A few bytes of a header say any number of layers without elements. */
static ab_status check_room(const struct ab_diff_source *s, const struct row *row, const struct ab_mapped *mapped) {
  int64_t layers = row->tensor->shape.dim[row->axis];
  if (layers <= (int64_t)ROWS_MAX - (int64_t)s->rows) return AB_OK;
  return AB_FAIL(AB_EFORMAT, "%s:%zu unstacks tensor '%s' along axis %d into %lld beside %zu others; expected at most "
                 "%d tensors", mapped->map, mapped->line, row->tensor->name, row->axis, (long long)layers, s->rows,
                 ROWS_MAX);
}

/* A stacked tensor is as many rows as it has layers. */
static ab_status add_tensor(struct ab_diff_source *s, size_t file, const struct ab_safetensor *tensor,
                            const struct ab_name_map *map) {
  char full[AB_SAFETENSORS_NAME + 80], name[AB_NAME_MAX + 24];
  struct ab_mapped mapped;
  snprintf(full, sizeof full, "%s%s%s", s->file[file].stem, *s->file[file].stem ? "/" : "", tensor->name);
  AB_TRY(ab_name_map_apply(&mapped, map, full));
  struct row row = {file, tensor, mapped.axis, 0, mapped.transpose};
  if (mapped.axis == AB_NOT_STACKED) return add_row(s, &row, mapped.name);
  if (row.axis >= tensor->shape.rank)
    return AB_FAIL(AB_EMISMATCH, "the map unstacks tensor '%s' along axis %d, but it has rank %d; expected at least %d",
                   full, row.axis, tensor->shape.rank, row.axis + 1);
  if (tensor->shape.dim[row.axis] == 0)
    return AB_FAIL(AB_EMISMATCH, "the map unstacks tensor '%s' along axis %d, which has no entry; expected one or more",
                   full, row.axis);
  AB_TRY(check_room(s, &row, &mapped));
  const char *mark = strstr(mapped.name, "%d");
  for (; row.index < tensor->shape.dim[row.axis]; row.index++) {
    int written = snprintf(name, sizeof name, "%.*s%lld%s", (int)(mark - mapped.name), mapped.name,
                           (long long)row.index, mark + 2);
    if (written >= AB_NAME_MAX) return AB_FAIL(AB_EMISMATCH, "the name '%s' is too long", name);
    AB_TRY(add_row(s, &row, name));
  }
  return AB_OK;
}

ab_status ab_diff_source_record(struct ab_diff_source *s, const struct ab_name_map *map, bool metrics) {
  for (size_t f = 0; f < s->files; f++)
    for (size_t i = 0; i < size_of(&s->file[f]); i++)
      AB_TRY(add_tensor(s, f, tensor_at(&s->file[f], i), map));
  if (s->expected && metrics) AB_TRY(ab_diff_metrics(s->recording, s->expected));
  ab_recording_complete(s->recording);
  return AB_OK;
}

/* What precedes a row in its tensor. */
static uint64_t offset_of(const struct row *row) {
  if (row->axis == AB_NOT_STACKED) return 0;
  return row->tensor->bytes / (uint64_t)row->tensor->shape.dim[0] * (uint64_t)row->index;
}

bool ab_diff_source_straight(const struct ab_diff_source *s, size_t i) {
  const struct row *row = &s->row[i];
  return s->file[row->file].tensors && !row->transpose && (row->axis == AB_NOT_STACKED || row->axis == 0);
}

ab_status ab_diff_source_read(const struct ab_diff_source *s, size_t i, void *out, uint64_t begin, size_t bytes) {
  const struct row *row = &s->row[i];
  return ab_safetensors_read_part(s->file[row->file].tensors, row->tensor, out, offset_of(row) + begin, bytes);
}

ab_status ab_diff_source_view(struct ab_diff_source *s, size_t i, struct ab_view *out) {
  AB_TRY(hold(s, &s->row[i]));
  *out = view_of(s, &s->row[i]);
  return AB_OK;
}
