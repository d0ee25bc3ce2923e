#include "mesh.h"

#include <string.h>

#include "mem.h"

static void ring_local(struct ab_mesh *mesh, void *dst, const void *src, size_t count, int shift) {
  size_t bytes = count * mesh->kernels->element;
  for (int s = 0; s < mesh->stages; s++) {
    int to = (s + shift + mesh->stages) % mesh->stages;
    mesh->kernels->copy((unsigned char *)dst + (size_t)to * bytes, (const unsigned char *)src + (size_t)s * bytes,
                        count);
  }
  mesh->ledger.ring_messages += mesh->stages;
  mesh->ledger.ring_bytes += (int64_t)(bytes * (size_t)mesh->stages);
}

static const void *gather_local(struct ab_mesh *mesh, const void *src, size_t count, int repeat, int stage) {
  (void)repeat;
  mesh->by_stage[stage].gathers++;
  mesh->by_stage[stage].gather_bytes += (int64_t)(count * mesh->kernels->element);
  return src;
}

static void reshard_local(struct ab_mesh *mesh, size_t count, int stage) {
  mesh->by_stage[stage].reshard_bytes += (int64_t)(count * mesh->kernels->element);
}

static const struct ab_mesh_ops local_ops = {.ring = ring_local, .gather = gather_local, .reshard = reshard_local};

ab_status ab_mesh_init_local(struct ab_mesh *mesh, const struct ab_kernels *kernels, int stages) {
  struct ab_ledger *by_stage;
  AB_TRY(ab_mem_new(&by_stage, (size_t)stages, sizeof *by_stage));
  *mesh = (struct ab_mesh){
      .ops = &local_ops, .kernels = kernels, .stages = stages, .stage_end = stages, .by_stage = by_stage};
  return AB_OK;
}

void ab_mesh_free(struct ab_mesh *mesh) {
  ab_mem_free(mesh->by_stage);
  mesh->by_stage = NULL;
}

void ab_mesh_reset(struct ab_mesh *mesh) {
  mesh->ledger = (struct ab_ledger){0};
  memset(mesh->by_stage, 0, (size_t)mesh->stages * sizeof *mesh->by_stage);
}

struct ab_ledger ab_mesh_ledger(const struct ab_mesh *mesh) {
  struct ab_ledger sum = mesh->ledger;
  for (int s = 0; s < mesh->stages; s++) {
    sum.gathers += mesh->by_stage[s].gathers;
    sum.gather_bytes += mesh->by_stage[s].gather_bytes;
    sum.reshard_bytes += mesh->by_stage[s].reshard_bytes;
  }
  return sum;
}
