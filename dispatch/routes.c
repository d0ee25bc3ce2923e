#include <stdio.h>
#include <string.h>

#include "dispatch.h"
#include "linen.h"
#include "nnx.h"
#include "oracle.h"
#include "to_linen.h"

#define ENGINE_ROUTES(prefix, family, rng, model, pipeline, what)                                    \
  {prefix, what " in float32", family, rng, AB_ARITHMETIC_F32, model, pipeline},                     \
      {prefix "64", what " in float64", family, rng, AB_ARITHMETIC_F64, model, pipeline},            \
      {prefix "-exact", what " in integers modulo 2^61 - 1", family, rng, AB_ARITHMETIC_EXACT, model, pipeline}

const struct ab_route ab_routes[] = {
    ENGINE_ROUTES("linen", AB_FAMILY_LINEN, AB_RNG_NONE, &linen_model_ops, &linen_pipeline_ops,
                  "module-style engine, Linen decoder around Pipeline,"),
    ENGINE_ROUTES("linen+nnx-pipeline", AB_FAMILY_NNX, AB_RNG_REBUILT, &to_linen_model_ops, &to_linen_pipeline_ops,
                  "Linen decoder around NNXPipeline in ToLinen,"),
    ENGINE_ROUTES("nnx", AB_FAMILY_NNX, AB_RNG_CARRIED, &nnx_model_ops, &nnx_pipeline_ops,
                  "split/merge engine, NNX decoder around NNXPipeline,"),
    ENGINE_ROUTES("sequential", AB_FAMILY_SEQUENTIAL, AB_RNG_NONE, &ab_oracle_model_ops, &ab_oracle_pipeline_ops,
                  "oracle, layers one after another,"),
    {0}};

ab_status ab_route_find(const struct ab_route **out, const char *name) {
  char known[256] = "";
  for (const struct ab_route *route = ab_routes; route->name; route++) {
    if (strcmp(route->name, name) == 0) {
      *out = route;
      return AB_OK;
    }
    size_t used = strlen(known);
    snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", route->name);
  }
  return AB_FAIL(AB_ENOTFOUND, "route '%s' is unknown; expected one of %s", name, known);
}

ab_status ab_route_select(const struct ab_route **out, const struct ab_config *config) {
  if (config->enable_nnx && !config->pure_nnx_decoder)
    return AB_FAIL(AB_ECONFIG, "pure_nnx_decoder=false selects the wrapped route 'nnx+linen-decoder', which is not "
                   "supported yet; expected enable_nnx and pure_nnx_decoder both true or enable_nnx false");
  if (config->enable_nnx) return ab_route_find(out, "nnx");
  return ab_route_find(out, config->use_nnx_pipeline ? "linen+nnx-pipeline" : "linen");
}

const struct ab_kernels *ab_route_kernels(const struct ab_route *route, enum ab_numerics numerics) {
  if (route->arithmetic == AB_ARITHMETIC_F64) return &ab_kernels_f64;
  if (route->arithmetic == AB_ARITHMETIC_EXACT) return &ab_kernels_exact;
  return numerics == AB_NUMERICS_PORTABLE ? &ab_kernels_f32_portable : &ab_kernels_f32;
}

static const char *const numerics_names[] = {[AB_NUMERICS_FAST] = "fast", [AB_NUMERICS_PORTABLE] = "portable"};

const char *ab_numerics_name(enum ab_numerics numerics) { return numerics_names[numerics]; }

ab_status ab_numerics_find(enum ab_numerics *out, const char *name) {
  for (int i = AB_NUMERICS_FAST; i <= AB_NUMERICS_PORTABLE; i++) {
    if (strcmp(numerics_names[i], name) != 0) continue;
    *out = (enum ab_numerics)i;
    return AB_OK;
  }
  return AB_FAIL(AB_ENOTFOUND, "--numerics is '%s'; expected fast or portable", name);
}
