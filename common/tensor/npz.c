#include "npz.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "file.h"
#include "mem.h"
#include "npz_internal.h"
#include "text.h"

enum {
  END_RECORD = 22,
  END_SEARCH = END_RECORD + 65535, /* with the longest comment */
  CENTRAL = 46,
  LOCAL = 30,
  STORED = 0,
  DEFLATED = 8,
  MOST_RATIO = 1100, /* deflate makes nothing more than 1032 times larger */
  NPY_HEADER_MAX = 64 * 1024,
  CHUNK = 64 * 1024
};

struct member {
  struct ab_safetensor tensor; /* offset: of the elements in the unpacked member */
  char *name;
  bool fortran, deflated;
  uint64_t local, data, packed, unpacked;
  uint32_t crc;
};

struct ab_npz {
  struct ab_file file;
  struct member *member;
  size_t members;
};

/* Reads one member from its begin to its end. */
struct unpacking {
  const struct ab_npz *archive;
  const struct member *member;
  z_stream z;
  uint64_t taken; /* packed bytes */
  uint32_t crc;
  unsigned char chunk[CHUNK];
};

static uint32_t u16(const unsigned char *p) { return (uint32_t)(p[0] | p[1] << 8); }
static uint32_t u32(const unsigned char *p) { return u16(p) | u16(p + 2) << 16; }

static ab_status wrong(const struct ab_npz *archive, const char *why) {
  return AB_FAIL(AB_EFORMAT, "%s is no .npz archive that can be read: %s", archive->file.path, why);
}

static ab_status wrong_member(const struct ab_npz *archive, const struct member *m, const char *why) {
  return AB_FAIL(AB_EFORMAT, "%s: member '%s' %s", archive->file.path, m->name, why);
}

static ab_status begin(struct unpacking *u, const struct ab_npz *archive, const struct member *member) {
  memset(u, 0, sizeof *u);
  u->archive = archive;
  u->member = member;
  u->crc = (uint32_t)crc32(0, NULL, 0);
  if (member->deflated && inflateInit2(&u->z, -MAX_WBITS) != Z_OK)
    return AB_FAIL(AB_ENOMEM, "no memory to inflate '%s'", member->name);
  return AB_OK;
}

static void end(struct unpacking *u) {
  if (u->member->deflated) inflateEnd(&u->z);
}

static ab_status refill(struct unpacking *u) {
  uint64_t left = u->member->packed - u->taken;
  size_t count = left < CHUNK ? (size_t)left : CHUNK;
  if (!count) return wrong_member(u->archive, u->member, "ends before its data does");
  AB_TRY(ab_file_read_at(&u->archive->file, u->chunk, count, u->member->data + u->taken));
  u->taken += count;
  u->z.next_in = u->chunk;
  u->z.avail_in = (uInt)count;
  return AB_OK;
}

static ab_status inflate_some(struct unpacking *u, unsigned char *out, size_t count) {
  u->z.next_out = out;
  u->z.avail_out = (uInt)count;
  while (u->z.avail_out) {
    if (!u->z.avail_in) AB_TRY(refill(u));
    int code = inflate(&u->z, Z_NO_FLUSH);
    if (code == Z_STREAM_END && !u->z.avail_out) break;
    if (code != Z_OK) return wrong_member(u->archive, u->member, "is damaged: it cannot be inflated");
  }
  return AB_OK;
}

/* The next `count` unpacked bytes: below 4 GiB, as all of a member. */
static ab_status next(struct unpacking *u, void *out, uint64_t count) {
  if (!count) return AB_OK;
  if (u->member->deflated) {
    AB_TRY(inflate_some(u, out, count));
  } else {
    AB_TRY(ab_file_read_at(&u->archive->file, out, count, u->member->data + u->taken));
    u->taken += count;
  }
  u->crc = (uint32_t)crc32(u->crc, out, (uInt)count);
  return AB_OK;
}

/* Magic, version, length of the header, header. */
static ab_status read_npy(struct ab_npz *archive, struct member *m, struct unpacking *u) {
  unsigned char head[12] = {0}; /* version 1 has two bytes of length */
  char *text;
  if (m->unpacked < 12) return wrong_member(archive, m, "is too short for a .npy");
  AB_TRY(next(u, head, 10));
  if (memcmp(head, "\x93NUMPY", 6) != 0 || head[6] < 1 || head[6] > 3)
    return wrong_member(archive, m, "is no .npy of version 1 to 3");
  if (head[6] > 1) AB_TRY(next(u, head + 10, 2));
  uint64_t length = u32(head + 8), start = head[6] > 1 ? 12 : 10;
  if (length > NPY_HEADER_MAX || start + length > m->unpacked)
    return wrong_member(archive, m, "has a .npy header that does not fit into it");
  AB_TRY(ab_mem_new(&text, (size_t)length + 1, 1));
  const char *why = NULL;
  ab_status status = next(u, text, length);
  if (status == AB_OK) why = npy_header(&m->tensor, &m->fortran, text);
  ab_mem_free(text);
  AB_TRY(status);
  if (why) return wrong_member(archive, m, why);
  m->tensor.offset = start + length;
  size_t bytes;
  if (__builtin_mul_overflow(m->tensor.count, ab_dtype_size(m->tensor.dtype), &bytes))
    return wrong_member(archive, m, "has a shape of more bytes than memory can have");
  m->tensor.bytes = bytes;
  if (m->tensor.offset + m->tensor.bytes != m->unpacked)
    return wrong_member(archive, m, "holds another number of bytes than its shape and dtype need");
  return AB_OK;
}

/* The data begins behind the member's own header, whose name and extra field have lengths of their own. */
static ab_status locate(struct ab_npz *archive, struct member *m) {
  unsigned char local[LOCAL];
  if (m->local + LOCAL > archive->file.size) return wrong_member(archive, m, "begins behind the end of the file");
  AB_TRY(ab_file_read_at(&archive->file, local, LOCAL, m->local));
  if (u32(local) != 0x04034b50) return wrong_member(archive, m, "has no header where the directory says");
  m->data = m->local + LOCAL + u16(local + 26) + u16(local + 28);
  if (m->data + m->packed > archive->file.size) return wrong_member(archive, m, "reaches behind the end of the file");
  if (m->unpacked / MOST_RATIO > m->packed || (!m->deflated && m->packed != m->unpacked))
    return wrong_member(archive, m, "has sizes that do not go together");
  return AB_OK;
}

static ab_status read_member(struct ab_npz *archive, struct member *m) {
  struct unpacking *u;
  AB_TRY(locate(archive, m));
  AB_TRY(ab_mem_new(&u, 1, sizeof *u));
  ab_status status = begin(u, archive, m);
  if (status == AB_OK) status = read_npy(archive, m, u);
  end(u);
  ab_mem_free(u);
  return status;
}

/* One entry of the directory; *size is its length. */
static ab_status read_entry(struct ab_npz *archive, const unsigned char *at, size_t left, size_t *size) {
  struct member *m = &archive->member[archive->members];
  if (left < CENTRAL || u32(at) != 0x02014b50) return wrong(archive, "its directory is damaged");
  size_t name = u16(at + 28);
  *size = CENTRAL + name + u16(at + 30) + u16(at + 32);
  if (*size > left || name == 0 || name > AB_SAFETENSORS_NAME) return wrong(archive, "its directory is damaged");
  AB_TRY(ab_mem_new(&m->name, name + 1, 1));
  memcpy(m->name, at + CENTRAL, name);
  archive->members++;
  uint32_t method = u16(at + 10);
  m->deflated = method == DEFLATED;
  m->crc = u32(at + 16);
  m->packed = u32(at + 20);
  m->unpacked = u32(at + 24);
  m->local = u32(at + 42);
  if (strlen(m->name) != name || !ab_text_is_printable(m->name)) return wrong(archive, "a name in it is not printable");
  if (u16(at + 8) & 1) return wrong_member(archive, m, "is encrypted");
  if (method != STORED && method != DEFLATED) return wrong_member(archive, m, "is neither stored nor deflated");
  if (m->packed == UINT32_MAX || m->unpacked == UINT32_MAX || m->local == UINT32_MAX)
    return wrong_member(archive, m, "is in zip64 form (4 GiB and more), which is not read here");
  if (name > 4 && strcmp(m->name + name - 4, ".npy") == 0) m->name[name - 4] = '\0';
  AB_TRY(read_member(archive, m));
  m->tensor.name = m->name;
  return AB_OK;
}

static ab_status read_directory(struct ab_npz *archive, const unsigned char *record) {
  size_t count = u16(record + 10), bytes = u32(record + 12), offset = u32(record + 16), used = 0, size = 0;
  unsigned char *directory;
  if (u16(record + 4) || u16(record + 6) || u16(record + 8) != count) return wrong(archive, "it has several disks");
  if (offset + bytes > archive->file.size) return wrong(archive, "its directory does not fit");
  AB_TRY(ab_mem_new(&archive->member, count, sizeof *archive->member));
  AB_TRY(ab_mem_new(&directory, bytes, 1));
  ab_status status = ab_file_read_at(&archive->file, directory, bytes, offset);
  for (size_t i = 0; i < count && status == AB_OK; i++, used += size)
    status = read_entry(archive, directory + used, bytes - used, &size);
  ab_mem_free(directory);
  AB_TRY(status);
  /* Writers of zip64 count to 65535 here and go on. */
  return used == bytes ? AB_OK : wrong(archive, "its directory holds more than it counts, which is 65535 at most");
}

/* The end record is the last thing in the file but for a comment. */
static ab_status read_archive(struct ab_npz *archive, const char *path) {
  unsigned char *tail;
  AB_TRY(ab_file_open(&archive->file, path));
  size_t size = archive->file.size < END_SEARCH ? (size_t)archive->file.size : END_SEARCH;
  if (size < END_RECORD) return wrong(archive, "it is too short");
  AB_TRY(ab_mem_new(&tail, size, 1));
  ab_status status = ab_file_read_at(&archive->file, tail, size, archive->file.size - size);
  size_t at = size - END_RECORD;
  while (status == AB_OK && at > 0 && !(u32(tail + at) == 0x06054b50 && u16(tail + at + 20) == size - END_RECORD - at))
    at--;
  if (status == AB_OK && u32(tail + at) != 0x06054b50) status = wrong(archive, "it has no end record");
  if (status == AB_OK) status = read_directory(archive, tail + at);
  ab_mem_free(tail);
  return status;
}

ab_status ab_npz_open(struct ab_npz **out, const char *path) {
  struct ab_npz *archive;
  AB_TRY(ab_mem_new(&archive, 1, sizeof *archive));
  ab_status status = read_archive(archive, path);
  if (status == AB_OK) *out = archive;
  else ab_npz_close(archive);
  return status;
}

void ab_npz_close(struct ab_npz *archive) {
  if (!archive) return;
  for (size_t i = 0; i < archive->members; i++) ab_mem_free(archive->member[i].name);
  ab_mem_free(archive->member);
  ab_file_close(&archive->file);
  ab_mem_free(archive);
}

size_t ab_npz_size(const struct ab_npz *archive) { return archive->members; }
const struct ab_safetensor *ab_npz_at(const struct ab_npz *archive, size_t i) { return &archive->member[i].tensor; }

/* `tensor` is the first thing in a member. */
static const struct member *member_of(const struct ab_safetensor *tensor) {
  return (const struct member *)(const void *)tensor;
}

bool ab_npz_fortran(const struct ab_npz *archive, const struct ab_safetensor *tensor) {
  (void)archive;
  return member_of(tensor)->fortran;
}

static ab_status read_all(struct unpacking *u, const struct member *m, void *out) {
  unsigned char *header;
  AB_TRY(ab_mem_new(&header, (size_t)m->tensor.offset, 1));
  ab_status status = next(u, header, m->tensor.offset);
  if (status == AB_OK) status = next(u, out, m->tensor.bytes);
  ab_mem_free(header);
  AB_TRY(status);
  return u->crc == m->crc ? AB_OK : wrong_member(u->archive, m, "is damaged: its checksum is wrong");
}

ab_status ab_npz_read(const struct ab_npz *archive, const struct ab_safetensor *tensor, void *out) {
  struct unpacking *u;
  AB_TRY(ab_mem_new(&u, 1, sizeof *u));
  ab_status status = begin(u, archive, member_of(tensor));
  if (status == AB_OK) status = read_all(u, member_of(tensor), out);
  end(u);
  ab_mem_free(u);
  return status;
}
