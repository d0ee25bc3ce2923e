#include "sown.h"

#include <stdio.h>

#include "observed.h"

const char *const ab_sown_names[AB_SOWN] = {[AB_SOWN_MEAN] = "activation_mean",
                                            [AB_SOWN_STDEV] = "activation_stdev",
                                            [AB_SOWN_FRACTION_ZERO] = "activation_fraction_zero"};

bool ab_sows(const struct ab_config *config, const struct ab_kernels *kernels) {
  return config->record_internal_nn_metrics > 0 && !kernels->polynomial;
}

ab_status ab_observe_sown(struct ab_probe *probe, const struct ab_kernels *kernels, int layer, enum ab_sown which,
                          void *value) {
  struct ab_identity id = {.microbatch = -1, .layer = layer, .phase = AB_FORWARD};
  struct ab_view view = {.dtype = kernels->dtype, .shape = {1, {1}}, .stride = {1}, .data = value};
  if (kernels->dry) return AB_OK;
  snprintf(id.tensor, sizeof id.tensor, "%s%s", AB_OBS_SOWN, ab_sown_names[which]);
  AB_TRY(ab_probe_observe(probe, &id, &(struct ab_where){-1, -1, -1, false}, &view));
  return AB_OK;
}
