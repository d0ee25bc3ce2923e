/* What decoder layers sow into the collection `intermediates` when record_internal_nn_metrics is above 0: three numbers
 * of the layer's output, scalars of the table's dtype. MaxText models/llama2.py: LlamaDecoderLayer.
 *
 * A side reports them after its forward pass, one element per layer and name: of a layer inside the pipeline the mean
 * over its microbatches, added from microbatch 0 on and then divided by their number, of any other layer that of the
 * whole batch. Where a pipeline keeps them is its engine's affair: layer (r S + s) K + k met microbatch m in iteration
 * t = r M + m + d s of stage s.
 *
 * upstream_faithful=B20: see the engines; the sequential side leaves out the layers inside the pipeline, as Linen does.
 * upstream_faithful=B21: layer l reports element number l of what was stacked over iterations, stages and layers of a
 * stage, [T, S, K], as if that axis were layers, bubbles included. common/metric_logger.py: record_activation_metrics.
 */
#pragma once

#include "config.h"
#include "kernels.h"
#include "probe.h"

enum ab_sown { AB_SOWN_MEAN, AB_SOWN_STDEV, AB_SOWN_FRACTION_ZERO, AB_SOWN };
/* "activation_mean", ...: names of the variables. */
extern const char *const ab_sown_names[AB_SOWN];

/* Whether layers sow: the config asks for it, and the table is one that has means and deviations. */
bool ab_sows(const struct ab_config *config, const struct ab_kernels *kernels);
/* Reports one element as AB_OBS_SOWN<name> of the layer, phase FORWARD, outside any parallel region. Nothing in a dry
 * run. */
ab_status ab_observe_sown(struct ab_probe *probe, const struct ab_kernels *kernels, int layer, enum ab_sown which,
                          void *value);
