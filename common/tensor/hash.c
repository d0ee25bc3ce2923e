#include "hash.h"

void AB_HASH_NAME(XXH3_state_t *state, const void *bytes, size_t count) {
  XXH3_128bits_update(state, bytes, count);
}
