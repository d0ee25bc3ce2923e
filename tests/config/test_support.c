#include "cases.h"

static const struct row unsupported[] = {
    {"dtype=bfloat16", "override 'dtype=bfloat16': key 'dtype' is bfloat16, expected float32, give dtype=float32"},
    {"weight_dtype=bfloat16", "give weight_dtype=float32"},
    {"grad_dtype=bfloat16", "give grad_dtype=float32"},
    {"mu_dtype=bfloat16", "give mu_dtype=float32"},
    {"decoder_block=mixtral",
     "expected llama2 or simple or simple_mlp (other values are not supported by this build)"},
    {"decoder_block=default", "expected llama2 or simple or simple_mlp"},
    {"attention=flash", "key 'attention' is flash, expected autoselected or dot_product"},
    {"attention_type=mla", "key 'attention_type' is mla, expected global"},
    {"mlp_activations=[gelu,linear]", "key 'mlp_activations' is [gelu, linear], expected [silu, linear]"},
    {"opt_type=adam_pax", "expected adamw or sgd"},
    {"opt_type=muon", "expected adamw or sgd"},
    {"adamw_mask=[scale]", "key 'adamw_mask' is [scale], expected []"},
    {"quantization=int8", "key 'quantization' is int8, expected no quantization"},
    {"quantization=fp8", "key 'quantization' is fp8, expected no quantization"},
    {"num_experts=4 base_moe_mlp_dim=7168", "key 'num_experts' is 4, expected 1"},
    {"gradient_accumulation_steps=2", "key 'gradient_accumulation_steps' is 2, expected 1"},
    {"logits_via_embedding=true", "key 'logits_via_embedding' is true, expected false"},
    {"attn_logits_soft_cap=30.0", "key 'attn_logits_soft_cap' is 30.0, expected 0.0 or none"},
    {"final_logits_soft_cap=30", "key 'final_logits_soft_cap' is 30, expected 0.0 or none"},
    {"fused_qkv=true", "key 'fused_qkv' is true, expected false"},
    {"fused_mlp=true", "key 'fused_mlp' is true, expected false"},
    {"use_iota_embed=true", "key 'use_iota_embed' is true, expected false"},
    {"trainable_position_size=16", "key 'trainable_position_size' is 16, expected -1"},
    {"mtp_num_layers=1", "key 'mtp_num_layers' is 1, expected 0"},
    {"num_vocab_tiling=2", "key 'num_vocab_tiling' is 2, expected 1"},
    {"rope_type=yarn", "key 'rope_type' is yarn, expected default"},
    {"use_multimodal=true", "key 'use_multimodal' is true, expected false"},
    {"training_objective=block_diffusion", "expected causal_lm"},
    {"skip_step_on_spikes=true", "expected false"},
    {"load_parameters_path=gs://x", "expected \"\" (other values are not supported by this build: weights come from"},
    {"dropout_rate=0.1", "key 'dropout_rate' is 0.1, expected 0.0, or enable_dropout=false"},
    {"upstream_faithful=B23", "key 'upstream_faithful' is B23, expected a comma-separated list of B1"},
};

START_TEST(what_this_build_lacks_is_refused_by_name_unless_inspected) {
  REFUSE("", unsupported);
  for (size_t i = 0; i < sizeof unsupported / sizeof unsupported[0]; i++) {
    struct ab_config *c = NULL;
    ab_status status = load_with(&c, NULL, unsupported[i].arguments, true, false);
    ck_assert_msg(status == AB_OK, "%s: %s", unsupported[i].arguments, ab_status_message());
    ab_config_free(c);
  }
}
END_TEST

START_TEST(what_changes_no_number_is_accepted) {
  static const char *const good[] = {"dropout_rate=0.1 enable_dropout=false",
                                     "matmul_precision=highest",
                                     "activations_in_float32=true",
                                     "float32_logits=true",
                                     "logits_dot_in_fp32=true",
                                     "ici_tensor_parallelism=2",
                                     "num_experts_per_tok=2",
                                     "sliding_window_size=4",
                                     "enable_checkpointing=false",
                                     "hardware=cpu",
                                     "mlpwi=offload",
                                     "remat_policy=minimal",
                                     "remat_policy=custom",
                                     "remat_policy=custom mlpwi=offload query_proj=device",
                                     "remat_policy=save_qkv_proj",
                                     "mu_dtype=float32",
                                     "scan_pipeline_repeats=true",
                                     "enable_nnx=false",
                                     "profiler=xplane",
                                     PIPELINE "pipeline_fsdp_ag_once=true",
                                     PIPELINE "pipeline_fsdp_ag_per_repeat=true",
                                     "hf_train_files=[a,b]"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) must_accept(NULL, good[i]);
}
END_TEST

/* 2^20, n - 1, n, n + 1: the pipeline runs 2 x (524286 + 1) layers, and there are some after it. */
#define LONGEST "ici_pipeline_parallelism=2 pipeline_parallel_layers=2 per_device_batch_size=262143 max_target_length=1 "
START_TEST(a_step_runs_so_many_layers_at_most) {
  must_accept(NULL, LONGEST "num_pipeline_microbatches=524286 base_num_decoder_layers=3");
  must_accept(NULL, LONGEST "num_pipeline_microbatches=524286 base_num_decoder_layers=4");
  must_refuse(NULL, LONGEST "num_pipeline_microbatches=524286 base_num_decoder_layers=5",
              "key 'num_pipeline_microbatches' is 524286, expected fewer: with 524287 iterations of the pipeline a step "
              "runs 1048577 layers, of at most 1048576");
  must_accept(NULL, "base_num_decoder_layers=1048576");
  must_refuse(NULL, "base_num_decoder_layers=1048577",
              "key 'num_decoder_layers' is 1048577, expected fewer: a step runs 1048577 layers, of at most 1048576");
}
END_TEST

/* An unsupported value is a decision of the last moment: an invalid one beside it is named first. */
START_TEST(support_is_judged_last) {
  must_refuse(NULL, "dtype=bfloat16 steps=0", "key 'steps' is 0");
  must_refuse(NULL, PIPELINE "fused_qkv=true num_pipeline_microbatches=3", "a multiple of the 2");
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("support");
  TCase *c = tcase_create("support");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, what_this_build_lacks_is_refused_by_name_unless_inspected);
  tcase_add_test(c, what_changes_no_number_is_accepted);
  tcase_add_test(c, support_is_judged_last);
  tcase_add_test(c, a_step_runs_so_many_layers_at_most);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
