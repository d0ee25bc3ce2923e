/* Observation: what engines and oracle report, and under which identity.
 *
 * An observation is joined between sides by `step / accumulation / microbatch / layer / tensor / phase` alone; where it
 * happened (iteration, stage, repeat) is carried beside it. Inside a parallel region each stage records into its own
 * preallocated buffer; ab_probe_flush delivers the buffers in stage order. A NULL probe or recorder costs nothing.
 */
#pragma once

#include "tensor.h"

enum ab_phase { AB_FORWARD, AB_RECOMPUTE, AB_BACKWARD, AB_UPDATE };
const char *ab_phase_name(enum ab_phase phase);

enum { AB_NAME_MAX = 96 }; /* bytes of a tensor or counter name, terminator included */

/* -1 in a number means "not split by this" (a whole-batch tensor has microbatch -1, the head has layer -1). */
struct ab_identity {
  int step, accumulation, microbatch, layer;
  enum ab_phase phase;
  char tensor[AB_NAME_MAX]; /* e.g. "query_proj", "pipeline/outputs", "self_attention/query/kernel" */
};

/* iteration, stage, repeat are -1 outside a pipeline. Bubble cells stay outside the join. */
struct ab_where {
  int iteration, stage, repeat;
  bool bubble;
};

/* What is known of a tensor without keeping it. -0 counts as +0 in the digest. */
struct ab_summary {
  uint64_t digest[2]; /* XXH3-128 of the canonical elements in row-major order */
  uint64_t count, nonfinite, negative_zeros;
  double l2, sum, max_abs; /* over the finite elements, fixed order, in double */
};
void ab_summarize(struct ab_summary *out, const struct ab_view *view);
/* Equal digests: equal elements, -0 and +0 alike. */
bool ab_summary_same(const struct ab_summary *a, const struct ab_summary *b);
/* Whether these are the elements that were summarized. */
bool ab_summary_holds(const struct ab_summary *summary, const struct ab_view *view);

struct ab_observation {
  struct ab_identity id;
  struct ab_where at;
  enum ab_dtype dtype;
  struct ab_shape shape;
  struct ab_summary summary;
};

/* Receives what is flushed. Both methods may be called only outside parallel regions. */
struct ab_probe_ops {
  /* values: the tensor itself in row-major order, or NULL below level VALUES and for tensors that are not wanted.
   * AB_OK continues. */
  ab_status (*observe)(void *ctx, const struct ab_observation *observation, const void *values);
  /* A counter of the run, e.g. "execute" at (repeat, stage), "recompute/attention", "gather", "ring/messages". */
  ab_status (*count)(void *ctx, const char *name, const struct ab_identity *id, const struct ab_where *at,
                     int64_t amount);
};

enum ab_level { AB_LEVEL_OFF, AB_LEVEL_STATE, AB_LEVEL_DIGEST, AB_LEVEL_VALUES, AB_LEVEL_FULL };

struct ab_probe;
struct ab_recorder; /* one stage's buffer */

/* `stages` recorders (at least 1). Levels: OFF reports counters only, STATE adds what is named once per step
 * (metrics, gradients, parameters, pipeline inputs and outputs), DIGEST adds every activation, VALUES also delivers
 * the values of the tensors for which `want` returns true (all if NULL), FULL adds the loop buffers of a pipeline's
 * every iteration. STATE delivers such values too, of what it names (none if NULL). */
ab_status ab_probe_new(struct ab_probe **out, const struct ab_probe_ops *ops, void *ctx, enum ab_level level,
                       int stages);
void ab_probe_want(struct ab_probe *probe, bool (*want)(void *ctx, const struct ab_identity *id), void *ctx);
void ab_probe_free(struct ab_probe *probe);
enum ab_level ab_probe_level(const struct ab_probe *probe);
/* Step and accumulation index put into every identity from now on. */
void ab_probe_step(struct ab_probe *probe, int step, int accumulation);

/* The buffer of one stage; NULL for a NULL probe. Below DIGEST it takes counters only, and ab_record does nothing. */
struct ab_recorder *ab_probe_recorder(struct ab_probe *probe, int stage);
/* Called by a stage's worker: summarises now, delivers at flush. Grows its buffer only outside a step
 * (ab_probe_reserve); a full buffer is remembered and reported by the flush. */
void ab_record(struct ab_recorder *recorder, const struct ab_identity *id, const struct ab_where *at,
               const struct ab_view *view);
void ab_record_count(struct ab_recorder *recorder, const char *name, const struct ab_identity *id,
                     const struct ab_where *at, int64_t amount);
/* Room for `events` observations per stage between two flushes (and `bytes` of values at level VALUES and above). */
ab_status ab_probe_reserve(struct ab_probe *probe, size_t events, size_t bytes);
/* Delivers all buffers, stage by stage, and empties them. AB_ENOMEM when a buffer had been full since the last flush:
 * what it held is delivered, the sentence counts what is lost, and the buffer is made large enough for the same
 * again. */
ab_status ab_probe_flush(struct ab_probe *probe);

/* One observation or counter outside a parallel region, delivered at once. NULL probe: nothing. Observations are
 * delivered from level STATE on: who reports activations this way asks ab_probe_level first. */
ab_status ab_probe_observe(struct ab_probe *probe, const struct ab_identity *id, const struct ab_where *at,
                           const struct ab_view *view);
ab_status ab_probe_count(struct ab_probe *probe, const char *name, const struct ab_identity *id,
                         const struct ab_where *at, int64_t amount);
