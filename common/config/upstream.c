#include "upstream.h"

#include <stdio.h>
#include <string.h>

#include "config_values.h"

static const char no_experts[] = "mixture of experts is not built";

/* Where a run can show a defect. */

static bool stages_behind_the_second(const struct ab_config *c) {
  return c->pipelined && c->pipeline_fsdp_ag_per_repeat && c->num_stages > 2;
}

static bool repeats_gathered_once(const struct ab_config *c) {
  return c->pipelined && c->pipeline_fsdp_ag_once && !c->pipeline_fsdp_ag_per_repeat && c->num_pipeline_repeats > 1;
}

static bool windows_without_remat(const struct ab_config *c) {
  return c->pipelined && c->pipeline_fsdp_ag_per_repeat && !c->set_remat_policy_on_pipeline_iterations;
}

static bool iterations_with_remat(const struct ab_config *c) {
  return c->pipelined && (c->pipeline_fsdp_ag_per_repeat || c->set_remat_policy_on_pipeline_iterations);
}

static bool layers_with_remat_alone(const struct ab_config *c) {
  return c->pipelined && !iterations_with_remat(c) && c->set_remat_policy_on_layers_per_stage;
}

static bool sown_in_pipeline(const struct ab_config *c) { return c->pipelined && c->record_internal_nn_metrics > 0; }

/* Blocks simple and simple_mlp have no decoder_layer_input. */
static bool both_input_names(const struct ab_config *c) {
  bool named = strcmp(c->remat_policy, "custom") != 0 && strncmp(c->decoder_block, "simple", 6) != 0;
  return iterations_with_remat(c) && named;
}

static bool scanned_stage(const struct ab_config *c) {
  return c->pipelined && c->scan_layers_per_stage && c->num_layers_per_pipeline_stage > 1;
}

const struct ab_upstream_defect ab_upstream_defects[AB_DEFECT_COUNT] = {
    [AB_DEFECT_B1] = {"B1",
                      "pipeline_fsdp_ag_per_repeat prefetches the weights of iteration t0 + 1 for every stage, so "
                      "stages >= 2 run repeat r >= 1 with the weights of repeat r - 1; meant: repeat r for all",
                      "value", "LP: CircularPipeline, NP: NNXCircularPipeline, weight prefetch of a window", NULL,
                      stages_behind_the_second},
    [AB_DEFECT_B7] = {"B7",
                      "with pipeline_fsdp_ag_once and repeats the NNX engine drops the repeats axis from the sharding "
                      "before it gathers, so every axis is off by one and weights land on other stages",
                      "byte", "NP: NNXPipeline.__call__", NULL, repeats_gathered_once},
    [AB_DEFECT_B8] = {"B8",
                      "the list of axes to drop is shared and changed per leaf, so experts lose their axis after any "
                      "other leaf was visited",
                      "byte", "PU: derive_stage_weight_partition_specs", no_experts, NULL},
    [AB_DEFECT_B11] = {"B11", "a Gemma 4 decoder with a pipeline bypasses it", "failure", "ND: NNXDecoder.__call__",
                       "the Gemma 4 block is not built", NULL},
    [AB_DEFECT_B12] = {"B12",
                       "a stage output is unwrapped if scan_layers is set, not if it is a tuple, so scan_layers=false "
                       "fails inside the loop",
                       "failure", "LP, NP: run_one_iteration", "blocks return one tensor here, never a tuple", NULL},
    [AB_DEFECT_B13] = {"B13",
                       "the NNX circular engine rematerialises windows only under "
                       "set_remat_policy_on_pipeline_iterations; meant: always, as Linen does",
                       "count", "NP: NNXCircularPipeline.__call__", NULL, windows_without_remat},
    [AB_DEFECT_B14] = {"B14", "updates of a non-trainable variable in the pipeline are lost or refused", "value",
                       "NP: NNXPipeline.__call__", "no block has a non-trainable variable", NULL},
    [AB_DEFECT_B15] = {"B15",
                       "set_remat_policy_on_layers_per_stage does nothing in the NNX engines; meant: the layers of a "
                       "stage are rematerialised one by one",
                       "count", "ND: NNXSequentialPipelineStage, NNXScannedPipelineStage",
                       NULL, layers_with_remat_alone},
    [AB_DEFECT_B20] = {"B20",
                       "metrics that layers sow in a pipeline are lost in both Linen engines and in the NNX circular "
                       "one, and fail in NNXPipeline with repeats; meant: they are reported per layer",
                       "value", "LP: Pipeline, CircularPipeline, NP: NNXPipeline, NNXCircularPipeline", NULL,
                       sown_in_pipeline},
    [AB_DEFECT_B21] = {"B21",
                       "sown metrics of a pipeline are read as if iterations and stages were layers, bubbles "
                       "included; meant: of each layer, over its microbatches",
                       "value", "MX: metric_logger, record_activation_metrics", NULL, sown_in_pipeline},
    [AB_DEFECT_B22] = {"B22", "a layer with a pole at zero makes NaN gradients in bubbles", "value",
                       "LP, NP: run_one_iteration",
                       "a switch of its own: ab_compute_bubbles=true runs layers in bubbles", NULL},
    [AB_DEFECT_B23] = {"B23", "fp8 scales are summed over iterations, bubbles included; meant: the maximum", "value",
                       "LP: Pipeline, NP: NNXPipeline, _overwrite_with_gradient", "quantization is not built", NULL},
    [AB_DEFECT_B29] = {"B29",
                       "iteration_input and decoder_layer_input name one tensor when a stage is one layer; keeping "
                       "both names stores it twice; meant: once",
                       "byte", "LP, NP: get_pipeline_remat_policy", NULL, both_input_names},
    [AB_DEFECT_B31] = {"B31", "Linen with scan_layers_per_stage fails: model_mode is not passed to the scanned layers",
                       "failure", "LD: get_pipeline_stage_module", NULL, scanned_stage},
    [AB_DEFECT_B32] = {"B32", "a balance loss with repeats fails in the NNX pipeline and is 0 in the Linen one",
                       "value", "NP: NNXPipeline.__call__, LP: Pipeline", no_experts, NULL},
    [AB_DEFECT_B33] = {"B33", "norm_topk_prob is ignored by NNX, and applied after the scaling factor by Linen",
                       "value", "MX: layers/moe, RoutedMoE, deepseek branch", no_experts, NULL},
    [AB_DEFECT_B34] = {"B34", "NNX shards layers_outside_pipeline over the stages and fails if they do not divide",
                       "failure", "ND: NNXDecoder", "layers outside the pipeline are not placed on stages here", NULL},
};

bool ab_faithful(const struct ab_config *config, enum ab_defect defect) {
  return config->upstream_faithful & (UINT32_C(1) << defect);
}

bool ab_defect_can_show(const struct ab_config *config, enum ab_defect defect) {
  return !ab_upstream_defects[defect].missing && ab_upstream_defects[defect].can_show(config);
}

/* The defects that the config asks for, all of them or those that cannot show. */
static const char *list(char buffer[AB_DEFECTS_SHOWN], const struct ab_config *config, bool idle_only) {
  size_t used = 0;
  buffer[0] = '\0';
  for (int d = 0; d < AB_DEFECT_COUNT; d++)
    if (ab_faithful(config, (enum ab_defect)d) && !(idle_only && ab_defect_can_show(config, (enum ab_defect)d)))
      used += (size_t)snprintf(buffer + used, AB_DEFECTS_SHOWN - used, "%s%s", used ? "," : "",
                               ab_upstream_defects[d].id);
  return buffer;
}

const char *ab_faithful_shown(char buffer[AB_DEFECTS_SHOWN], const struct ab_config *config) {
  return list(buffer, config, false);
}

const char *ab_faithful_idle(char buffer[AB_DEFECTS_SHOWN], const struct ab_config *config) {
  return list(buffer, config, true);
}

/* The defect whose id is the `length` bytes at text; AB_DEFECT_COUNT for none. */
static int find(const char *text, size_t length) {
  int d = 0;
  while (d < AB_DEFECT_COUNT &&
         (strncmp(ab_upstream_defects[d].id, text, length) != 0 || ab_upstream_defects[d].id[length]))
    d++;
  return d;
}

static ab_status refuse(const struct ab_config *config, const char *beside) {
  char expected[400] = "a comma-separated list of ";
  size_t used = strlen(expected), listed = 0;
  for (int d = 0; d < AB_DEFECT_COUNT; d++)
    if (!ab_upstream_defects[d].missing)
      used += (size_t)snprintf(expected + used, sizeof expected - used, "%s%s", listed++ ? ", " : "",
                               ab_upstream_defects[d].id);
  snprintf(expected + used, sizeof expected - used, "%s", beside);
  return ab_value_refuse(config->values, ab_key_find("upstream_faithful"), expected);
}

ab_status ab_config_fill_upstream(struct ab_config *config) {
  const char *at = ab_values_string(config->values, "upstream_faithful");
  while (*at) {
    at += strspn(at, ", ");
    size_t length = strcspn(at, ", ");
    int defect = length ? find(at, length) : AB_DEFECT_COUNT;
    if (defect == AB_DEFECT_COUNT) return refuse(config, "");
    if (ab_faithful(config, (enum ab_defect)defect)) return refuse(config, ", each of them once");
    config->upstream_faithful |= UINT32_C(1) << defect;
    at += length;
  }
  return AB_OK;
}

ab_status ab_config_check_upstream(const struct ab_config *config) {
  for (int d = 0; d < AB_DEFECT_COUNT; d++) {
    const struct ab_upstream_defect *defect = &ab_upstream_defects[d];
    char beside[200];
    if (!ab_faithful(config, (enum ab_defect)d) || !defect->missing) continue;
    snprintf(beside, sizeof beside, " (%s is known, but %s)", defect->id, defect->missing);
    return refuse(config, beside);
  }
  return AB_OK;
}
