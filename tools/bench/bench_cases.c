#include "bench_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The step that peers are measured with: 375 GFLOP without recomputation. */
static const char *const llama2_512[] = {
    "model_name=llama2-7b", "override_model_config=true", "base_emb_dim=512", "base_mlp_dim=1376",
    "base_num_query_heads=8", "base_num_kv_heads=8", "head_dim=64", "base_num_decoder_layers=8", "vocab_size=8192",
    "max_target_length=128", "dataset_type=synthetic", "steps=100", "enable_checkpointing=false", NULL};
static const char *const none[] = {NULL};
static const char *const long_run[] = {"steps=100", NULL};

#define PIPELINE(stages, rows, layers)                                                            \
  "ici_pipeline_parallelism=" stages, "num_pipeline_microbatches=8", "per_device_batch_size=" rows, \
      "num_layers_per_pipeline_stage=" layers, "scan_layers_per_stage=false"
static const char *const two_stages[] = {PIPELINE("2", "8", "4"), "remat_policy=none",
                                         "set_remat_policy_on_pipeline_iterations=false", NULL};
static const char *const two_stages_remat[] = {PIPELINE("2", "8", "4"), "remat_policy=full", NULL};
static const char *const four_stages[] = {PIPELINE("4", "4", "2"), "remat_policy=none",
                                          "set_remat_policy_on_pipeline_iterations=false", NULL};
static const char *const scan[] = {"per_device_batch_size=16", "remat_policy=none", NULL};
static const char *const scan_remat[] = {"per_device_batch_size=16", "remat_policy=full", NULL};

const struct bench_case bench_cases[] = {
    {"main/linen", "the main case", "linen", "main.yml", none, long_run},
    {"main/nnx", "the main case", "nnx", "main.yml", none, long_run},
    {"main/sequential", "the main case", "sequential", "main.yml", none, long_run},
    {"pipeline/linen", "8 microbatches, 2 stages of 4 layers", "linen", "base.yml", llama2_512, two_stages},
    {"pipeline/nnx", "8 microbatches, 2 stages of 4 layers", "nnx", "base.yml", llama2_512, two_stages},
    {"pipeline-remat/linen", "2 stages of 4 layers, recomputed", "linen", "base.yml", llama2_512, two_stages_remat},
    {"pipeline-remat/nnx", "2 stages of 4 layers, recomputed", "nnx", "base.yml", llama2_512, two_stages_remat},
    {"pipeline-4/linen", "8 microbatches, 4 stages of 2 layers", "linen", "base.yml", llama2_512, four_stages},
    {"scan/linen", "whole batch, scan over 8 layers", "linen", "base.yml", llama2_512, scan},
    {"scan/nnx", "whole batch, scan over 8 layers", "nnx", "base.yml", llama2_512, scan},
    {"scan-remat/linen", "whole batch, layers recomputed", "linen", "base.yml", llama2_512, scan_remat},
    {"scan-remat/nnx", "whole batch, layers recomputed", "nnx", "base.yml", llama2_512, scan_remat},
    {0}};

#define MEMORY(...)                                                                                          \
  "ici_pipeline_parallelism=4", "num_pipeline_microbatches=8", "num_layers_per_pipeline_stage=1",            \
      "num_pipeline_repeats=2", "per_device_batch_size=4", "scan_layers_per_stage=false", __VA_ARGS__, NULL
#define ITERATIONS_OFF "set_remat_policy_on_pipeline_iterations=false"
static const char *const plain_full[] = {MEMORY("remat_policy=full")};
static const char *const plain_minimal[] = {MEMORY("remat_policy=minimal")};
static const char *const plain_off[] = {MEMORY("remat_policy=none", ITERATIONS_OFF)};
static const char *const once_full[] = {MEMORY("remat_policy=full", "pipeline_fsdp_ag_once=true")};
static const char *const once_off[] = {MEMORY("remat_policy=none", ITERATIONS_OFF, "pipeline_fsdp_ag_once=true")};
static const char *const circular_full[] = {MEMORY("remat_policy=full", "pipeline_fsdp_ag_per_repeat=true")};
static const char *const circular_minimal[] = {MEMORY("remat_policy=minimal", "pipeline_fsdp_ag_per_repeat=true")};
static const char *const circular_kept[] = {
    MEMORY("remat_policy=none", ITERATIONS_OFF, "pipeline_fsdp_ag_per_repeat=true", "upstream_faithful=B13")};

#define BOTH(case_name, text, overrides)                                                                  \
  {"memory/" case_name "/linen", text, "linen", "base.yml", llama2_512, overrides},                       \
      {"memory/" case_name "/nnx", text, "nnx", "base.yml", llama2_512, overrides}
const struct bench_case bench_memory_cases[] = {
    BOTH("plain-full", "per iteration, all recomputed", plain_full),
    BOTH("plain-minimal", "per iteration, projections kept", plain_minimal),
    BOTH("plain-none", "per iteration, nothing recomputed", plain_off),
    BOTH("once-full", "pipeline_fsdp_ag_once, all recomputed", once_full),
    BOTH("once-none", "pipeline_fsdp_ag_once, nothing recomputed", once_off),
    BOTH("circular-full", "pipeline_fsdp_ag_per_repeat, all recomputed", circular_full),
    BOTH("circular-minimal", "pipeline_fsdp_ag_per_repeat, projections kept", circular_minimal),
    BOTH("circular-kept", "pipeline_fsdp_ag_per_repeat, windows kept as upstream (B13)", circular_kept),
    {0}};

ab_status bench_case_find(const struct bench_case **out, const char *name) {
  char names[1024] = "";
  size_t used = 0;
  for (const struct bench_case *c = bench_cases; c->name; c++) {
    if (strcmp(c->name, name) == 0) {
      *out = c;
      return AB_OK;
    }
    int more = snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", c->name);
    if (more > 0 && used + (size_t)more < sizeof names) used += (size_t)more;
  }
  return AB_FAIL(AB_ENOTFOUND, "case '%.80s' is unknown; expected one of %s", name, names);
}

ab_status bench_config_path(char *out, size_t size, const char *file) {
  const char *data = getenv("AB_DATADIR");
  int length = data && *data ? snprintf(out, size, "%s/configs/%s", data, file)
                             : snprintf(out, size, "%s/%s", AB_CONFIG_DIR, file);
  if (length < 0 || (size_t)length >= size) return AB_FAIL(AB_ECONFIG, "the path of configs/%s is too long", file);
  return AB_OK;
}

static size_t put(const char **out, size_t n, const char *const *list) {
  for (; *list; list++) out[n++] = *list;
  return n;
}

ab_status bench_case_open(struct ab_case *out, const struct bench_case *c) {
  char path[4096];
  const char *overrides[BENCH_OVERRIDES_MAX];
  AB_TRY(bench_config_path(path, sizeof path, c->file));
  size_t n = put(overrides, put(overrides, 0, c->shape), c->variant);
  struct ab_request request = {.target = path, .overrides = overrides, .override_count = n};
  return ab_case_open(out, &request);
}
