/* Every shape of pipeline in exact arithmetic: each route must equal the oracle in every tensor, whatever the order of
 * additions. A third of the cases has integers so small that float32 must give the very same numbers.
 */
#include <stdlib.h>

#include "frame.h"

enum { S_MOST = 8, M_MOST = 32, R_MOST = 8, K_MOST = 3, SAMPLE = 40, EMB = 6, POINTS_MOST = 8192 };

/* One point of the grid. */
struct point {
  int S, M, R, K;
  bool delay, per_repeat;
};

static struct point points[POINTS_MOST];
static int point_count;

static void add_point(struct point p) {
  if (p.delay && p.M < 2 * p.S) return;
  if (p.per_repeat && (p.R == 1 || p.K > 1 || p.delay)) return;
  if (point_count == POINTS_MOST) abort();
  points[point_count++] = p;
}

static void lay_grid(void) {
  bool per_repeat = sweep_supports_per_repeat();
  for (int S = 2; S <= S_MOST; S++)
    for (int M = S; M <= M_MOST; M += S)
      for (int R = 1; R <= R_MOST; R++)
        for (int K = 1; K <= K_MOST; K++) {
          add_point((struct point){S, M, R, K, false, false});
          add_point((struct point){S, M, R, K, true, false});
          if (per_repeat) add_point((struct point){S, M, R, K, false, true});
        }
}

static bool is_small(const struct sweep_case *c) { return c->seed % 3 == 0; }

static const char *coin(uint64_t *state, int64_t sides) { return sweep_below(state, sides) ? "true" : "false"; }

static const char *const policies[] = {"full", "minimal", "custom"};

static void choose(struct sweep_case *c, int index) {
  const struct point *p = &points[index];
  *c = (struct sweep_case){.seed = (uint64_t)index + 1};
  uint64_t state = c->seed;
  sweep_key(c, "decoder_block=%s", sweep_below(&state, 2) ? "simple_mlp" : "simple");
  sweep_key(c, "base_emb_dim=%d", EMB);
  sweep_key(c, "base_mlp_dim=%d", is_small(c) ? EMB : 4 + (int)sweep_below(&state, 5));
  sweep_key(c, "base_num_decoder_layers=%d", p->S * p->R * p->K);
  sweep_key(c, "dtype=float32");
  sweep_pipeline(c, p->S, p->M, p->R, p->K, 1 + sweep_below(&state, 2), 1 + sweep_below(&state, 2));
  if (p->delay) sweep_key(c, "pipeline_delay_activation_forwarding=true");
  if (p->per_repeat) sweep_key(c, "pipeline_fsdp_ag_per_repeat=true");
  sweep_key(c, "remat_policy=%s", policies[sweep_below(&state, 3)]);
  sweep_key(c, "set_remat_policy_on_pipeline_iterations=%s", coin(&state, 3));
  sweep_key(c, "scan_pipeline_iterations=%s", coin(&state, 3));
  if (p->K > 1) sweep_key(c, "scan_layers_per_stage=%s", coin(&state, 2));
  sweep_key(c, "ab_compute_bubbles=%s", coin(&state, 2));
}

static const char *const exact_routes[] = {"linen-exact", "nnx-exact", "linen+nnx-pipeline-exact",
                                           "sequential-exact"};
static const char *const float_routes[] = {"linen", "nnx", "linen+nnx-pipeline", "sequential"};

static ab_status check_floats(char sentence[SWEEP_SENTENCE], const struct sweep_case *c,
                              const struct sweep_side *truth) {
  struct sweep_side side[SWEEP_ROUTES] = {0};
  ab_status status = sweep_run_all(side, c, float_routes, AB_NUMERICS_FAST, AB_LEVEL_VALUES);
  for (int i = 0; i < SWEEP_ROUTES && status == AB_OK && !sentence[0]; i++)
    status = sweep_compare_integers(sentence, &side[i], truth);
  sweep_free_all(side);
  return status;
}

static void check(struct sweep_case *c) {
  struct sweep_side side[SWEEP_ROUTES] = {0};
  char sentence[SWEEP_SENTENCE] = "";
  enum ab_level level = is_small(c) ? AB_LEVEL_VALUES : AB_LEVEL_DIGEST;
  ab_status status = sweep_open(c, is_small(c) ? SWEEP_SMALL_INTEGERS : SWEEP_RESIDUES, AB_LOSS_DOT);
  if (status == AB_OK) status = sweep_run_all(side, c, exact_routes, AB_NUMERICS_FAST, level);
  if (status == AB_OK) status = sweep_compare_all(sentence, c, side, AB_PAIR_SAME);
  if (status == AB_OK && !sentence[0] && is_small(c)) status = check_floats(sentence, c, &side[SWEEP_ORACLE]);
  sweep_free_all(side);
  sweep_close(c);
  sweep_expect(c, status, sentence);
}

int main(int argc, char **argv) {
  lay_grid();
  struct sweep sweep = {"exact_sweep", point_count, SAMPLE, choose, check};
  return sweep_main(&sweep, argc, argv);
}
