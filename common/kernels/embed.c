/* Token embedding. MaxText layers/embeddings.py: Embed. */
#include "instance.h"

#include <string.h>

static bool known(int32_t id, int64_t vocab) { return id >= 0 && id < vocab; }

void KERNEL(embed)(void *y_, const void *table_, const int32_t *ids, const struct ab_embed_dims *dims) {
  real *y = y_;
  const real *table = table_;
  for (int64_t t = 0; t < dims->tokens; t++, y += dims->emb) {
    size_t bytes = (size_t)dims->emb * sizeof(real);
    if (known(ids[t], dims->vocab))
      memcpy(y, table + ids[t] * dims->emb, bytes);
    else
      memset(y, 0, bytes);
  }
}

void KERNEL(embed_weight)(void *dtable_, const void *dy_, const int32_t *ids, const struct ab_embed_dims *dims) {
  real *dtable = dtable_;
  const real *restrict dy = dy_;
  for (int64_t t = 0; t < dims->tokens; t++, dy += dims->emb) {
    if (!known(ids[t], dims->vocab)) continue;
    real *restrict row = dtable + ids[t] * dims->emb;
    for (int64_t i = 0; i < dims->emb; i++) row[i] += dy[i];
  }
}
