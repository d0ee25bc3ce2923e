#include "cases.h"

static const struct row kinds[] = {
    {"steps=x", "override 'steps=x': key 'steps' is x, expected a decimal integer of 64 bits without leading zeros"},
    {"steps=3.0", "key 'steps' is 3.0, expected a decimal integer"},
    {"steps=010", "key 'steps' is 010, expected a decimal integer"},
    {"steps=0x10", "key 'steps' is 0x10, expected a decimal integer"},
    {"steps=1e3", "key 'steps' is 1e3, expected a decimal integer"},
    {"steps=true", "key 'steps' is true, expected a decimal integer"},
    {"steps=none", "key 'steps' is none, expected a decimal integer"},
    {"steps=[3]", "key 'steps' is [3], expected a decimal integer"},
    {"learning_rate=fast", "key 'learning_rate' is fast, expected a finite number"},
    {"learning_rate=.inf", "key 'learning_rate' is .inf, expected a finite number"},
    {"learning_rate=-.inf", "expected a finite number"},
    {"learning_rate=.nan", "key 'learning_rate' is .nan, expected a finite number"},
    {"learning_rate=nan", "key 'learning_rate' is nan, expected a finite number"},
    {"learning_rate=1e999", "key 'learning_rate' is 1e999, expected a finite number"},
    {"learning_rate=00.5", "expected a finite number without leading zeros"},
    {"learning_rate=0,5", "expected a finite number"},
    {"z_loss_multiplier=.nan", "key 'z_loss_multiplier' is .nan, expected a finite number"}, /* the last of them */
    {"emb_dim=x", "key 'emb_dim' is x, expected a decimal integer or null"},
    {"emb_dim=true", "key 'emb_dim' is true, expected a decimal integer or null"},
    {"attn_logits_soft_cap=x", "key 'attn_logits_soft_cap' is x, expected a finite number or null"},
    {"attn_logits_soft_cap=.nan", "expected a finite number or null"},
    {"packing=no", "key 'packing' is no, expected true or false"},
    {"packing=1", "key 'packing' is 1, expected true or false"},
    {"packing=on", "expected true or false"},
    {"packing=TrUe", "expected true or false"},
    {"packing=\"true\"", "expected true or false"},
    {"mlp_activations=silu", "key 'mlp_activations' is silu, expected a list"},
    {"run_name=[a]", "expected a string"},
    {"vllm_hf_overrides=x", "expected a map"},
};

START_TEST(a_value_of_the_wrong_kind_is_refused) {
  REFUSE("", kinds);
  static const char *const good[] = {"packing=true",
                                     "packing=True",
                                     "packing=TRUE",
                                     "packing=False",
                                     "learning_rate=1e-5",
                                     "learning_rate=1.0e-5",
                                     "learning_rate=1",
                                     "steps=1_000",
                                     "rope_max_timescale=10_000",
                                     "run_name=no",
                                     "run_name=007",
                                     "attn_logits_soft_cap=none",
                                     "attn_logits_soft_cap=0.0",
                                     "final_logits_soft_cap=0",
                                     "load_parameters_path=none",
                                     "quantization=None",
                                     "remat_policy=none"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) must_accept(NULL, good[i]);
}
END_TEST

/* Where remat_policy custom puts each tensor; what is kept changes no bit, so no golden either. */
START_TEST(each_tensor_has_a_place_of_its_own) {
  struct ab_config *config = NULL, *plain = NULL;
  ck_ok(load(&config, NULL, "remat_policy=custom query_proj=device mlpwi_0=offload decoder_layer_input=remat "
                      "attention_out=device"));
  ck_assert_int_eq((int)ab_config_tensor_remat(config, "attention_out"), AB_TENSOR_DEVICE);
  ck_ok(load(&plain, NULL, "remat_policy=custom"));
  ck_assert_int_eq((int)ab_config_tensor_remat(config, "query_proj"), AB_TENSOR_DEVICE);
  ck_assert_int_eq((int)ab_config_tensor_remat(config, "mlpwi_0"), AB_TENSOR_OFFLOAD);
  ck_assert_int_eq((int)ab_config_tensor_remat(config, "decoder_layer_input"), AB_TENSOR_REMAT);
  ck_assert_int_eq((int)ab_config_tensor_remat(plain, "decoder_layer_input"), AB_TENSOR_DEVICE);
  ck_assert_int_eq((int)ab_config_tensor_remat(config, "mlpwi_1"), AB_TENSOR_REMAT);
  ck_assert_int_eq((int)ab_config_tensor_remat(config, "post_norm"), AB_TENSOR_REMAT);
  ck_assert(ab_config_digest(config) == ab_config_digest(plain));
  ab_config_free(config);
  ab_config_free(plain);
}
END_TEST

static const struct row ranges[] = {
    {"remat_policy=custom query_proj=host", "key 'query_proj' is host, expected device, offload or remat"},
    {"attention_out=none", "key 'attention_out' is none, expected device, offload or remat"}, /* the last of them */
    {"mlpwo=on", "key 'mlpwo' is on, expected device, offload or remat"},
    {"decoder_layer_input=none", "key 'decoder_layer_input' is none, expected device, offload or remat"},
    {"engram=disk", "key 'engram' is disk, expected device, offload or remat"},
    {"steps=0", "key 'steps' is 0, expected an integer from 1 to 2147483647, or -1"},
    {"steps=-2", "key 'steps' is -2, expected an integer from 1 to 2147483647, or -1"},
    {"steps=2147483648", "key 'steps' is 2147483648, expected an integer from 1 to 2147483647, or -1"},
    {"num_pipeline_microbatches=-2", "key 'num_pipeline_microbatches' is -2, expected -1 or an integer from 1"},
    {"num_pipeline_microbatches=0", "key 'num_pipeline_microbatches' is 0, expected -1 or an integer from 1"},
    {"num_pipeline_microbatches=2147483648", "key 'num_pipeline_microbatches' is 2147483648, expected -1 or an integer from 1"},
    {"num_pipeline_repeats=-2", "key 'num_pipeline_repeats' is -2, expected -1 or an integer from 1"},
    {"num_pipeline_repeats=0", "key 'num_pipeline_repeats' is 0, expected -1 or an integer from 1"},
    {"num_pipeline_repeats=2147483648", "key 'num_pipeline_repeats' is 2147483648, expected -1 or an integer from 1"},
    {"pipeline_parallel_layers=-2", "key 'pipeline_parallel_layers' is -2, expected -1 or an integer from 1"},
    {"pipeline_parallel_layers=0", "key 'pipeline_parallel_layers' is 0, expected -1 or an integer from 1"},
    {"pipeline_parallel_layers=2147483648", "key 'pipeline_parallel_layers' is 2147483648, expected -1 or an integer from 1"},
    {"max_segments_per_seq=-2", "key 'max_segments_per_seq' is -2, expected -1 or an integer from 1"},
    {"max_segments_per_seq=0", "key 'max_segments_per_seq' is 0, expected -1 or an integer from 1"},
    {"max_segments_per_seq=2147483648", "key 'max_segments_per_seq' is 2147483648, expected -1 or an integer from 1"},
    {"steps=-1", "key 'steps' is -1, expected a positive integer, since learning_rate_schedule_steps is -1 too"},
    {"learning_rate_schedule_steps=0", "key 'learning_rate_schedule_steps' is 0, expected an integer from 1"},
    {"base_emb_dim=0", "key 'base_emb_dim' is 0, expected an integer from 1 to 2147483647"},
    {"base_emb_dim=-5", "key 'base_emb_dim' is -5, expected an integer from 1 to 2147483647"},
    {"base_emb_dim=2147483648", "key 'base_emb_dim' is 2147483648, expected"},
    {"base_emb_dim=9223372036854775807 global_parameter_scale=8",
     "key 'base_emb_dim' is 9223372036854775807, expected an integer from 1 to 2147483647"},
    {"base_mlp_dim=0", "key 'base_mlp_dim' is 0, expected"},
    {"base_num_query_heads=0", "key 'base_num_query_heads' is 0, expected"},
    {"base_num_kv_heads=0", "key 'base_num_kv_heads' is 0, expected"},
    {"base_num_decoder_layers=0", "key 'base_num_decoder_layers' is 0, expected"},
    {"vocab_size=0", "key 'vocab_size' is 0, expected"},
    {"max_target_length=0", "key 'max_target_length' is 0, expected"},
    {"head_dim=0", "key 'head_dim' is 0, expected"},
    {"head_dim=7", "key 'head_dim' is 7, expected an even number"},
    {"head_dim=2147483646", "expected at most 2147483647 for num_query_heads x head_dim"},
    {"max_target_length=2147483647", "expected at most 2147483647 tokens in a batch"},
    {"base_num_kv_heads=3", "key 'base_num_kv_heads' is 3, expected a divisor of num_query_heads = 16"},
    {"base_num_kv_heads=32", "key 'base_num_kv_heads' is 32, expected a divisor of num_query_heads = 16"},
    {"per_device_batch_size=0", "key 'per_device_batch_size' is 0, expected a positive number"},
    {"per_device_batch_size=-1.5", "expected a positive number"},
    {"per_device_batch_size=0.5", "key 'per_device_batch_size' is 0.5, expected at least one row over all devices"},
    {"per_device_batch_size=2147483647 ici_data_parallelism=2", "expected at most 2147483647 rows over all devices"},
    {"gradient_accumulation_steps=0", "key 'gradient_accumulation_steps' is 0"},
    {"max_segments_per_seq=0", "key 'max_segments_per_seq' is 0, expected -1 or an integer from 1 to 2147483647"},
    {"param_scan_axis=2", "key 'param_scan_axis' is 2, expected 0 or 1"},
    {"adam_b1=1", "key 'adam_b1' is 1, expected a number from 0 to below 1"},
    {"adam_b2=1.0", "key 'adam_b2' is 1.0, expected a number from 0 to below 1"},
    {"adam_eps=-1e-8", "key 'adam_eps' is -1e-8, expected a number of at least 0"},
    {"warmup_steps_fraction=1.5", "key 'warmup_steps_fraction' is 1.5, expected a number from 0 to 1"},
    {"lr_schedule_type=wsd warmup_steps_fraction=0.6 wsd_decay_steps_fraction=0.5",
     "key 'wsd_decay_steps_fraction' is 0.5, expected at most 1 together with warmup_steps_fraction"},
    {"lr_schedule_type=linear", "key 'lr_schedule_type' is linear, expected one of cosine, wsd"},
    {"gradient_clipping_threshold=-1", "expected a number of at least 0"},
    {"dropout_rate=1.0", "key 'dropout_rate' is 1.0, expected a number from 0 to below 1"},
    {"init_weights_seed=-1", "key 'init_weights_seed' is -1, expected an integer from 0 to 4294967295"},
    {"init_weights_seed=4294967296", "expected an integer from 0 to 4294967295"},
    {"global_parameter_scale=3", "key 'global_parameter_scale' is 3, expected a power of two"},
    {"global_parameter_scale=0", "expected a power of two"},
    {"global_parameter_scale=-2", "expected a power of two"},
    {"global_parameter_scale=4611686018427387904", "expected a value that is from 1 to 2147483647 after"},
    {"rope_min_timescale=0", "key 'rope_min_timescale' is 0, expected a positive number"},
    {"num_experts=0", "key 'num_experts' is 0, expected a positive integer"},
    {"num_experts=4", "key 'base_moe_mlp_dim' is -1, expected a positive integer, since num_experts > 1"},
    {"num_experts=4 base_moe_mlp_dim=1", "key 'base_mlp_dim' is 7168, expected the value of base_moe_mlp_dim"},
    {"emb_dim=5", "key 'emb_dim' is 5, expected 2048, which follows from other keys"},
    {"remat_policy=ful", "key 'remat_policy' is ful, expected one of none, full, minimal"},
    {"decoder_block=lama2", "key 'decoder_block' is lama2, expected one of default, llama2"},
    {"decoder_block=", "expected one of default, llama2"},
    {"dataset_type=syntetic", "key 'dataset_type' is syntetic, expected one of synthetic, tfds"},
    {"opt_type=adam", "key 'opt_type' is adam, expected one of adamw, adam_pax, sgd, muon"},
    {"quantization=fp8 gradient_accumulation_steps=2",
     "key 'gradient_accumulation_steps' is 2, expected 1, since quantization"},
    {"quantization=te_fp8_delayedscaling gradient_accumulation_steps=2", "is 2, expected 1, since quantization"},
};

START_TEST(a_value_out_of_range_is_refused) {
  REFUSE("", ranges);
  must_accept(NULL, "emb_dim=2048 head_dim=7 decoder_block=simple");
}
END_TEST

START_TEST(a_list_of_choices_is_no_choice) {
  static const char *const texts[] = {"lr_schedule_type: cosine, wsd\n", "wsd_decay_style: linear, cosine\n",
                                      "remat_policy: full, minimal\n", "remat_policy: \", full\"\n"};
  char *folder = new_scratch();
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    must_refuse(write_text(folder, "c.yml", texts[i]), "", ", expected one of ");
  free_scratch(folder);
}
END_TEST

/* The edges of one range, n - 1, n, n + 1. */
START_TEST(ranges_hold_at_their_edges) {
  must_accept(NULL, "decoder_block=simple base_emb_dim=2147483646");
  must_accept(NULL, "decoder_block=simple base_emb_dim=2147483647");
  must_refuse(NULL, "decoder_block=simple base_emb_dim=2147483648", "2147483647");
  must_accept(NULL, "per_device_batch_size=1 max_target_length=2147483647");
  must_accept(NULL, "per_device_batch_size=2147483647 max_target_length=1");
  must_refuse(NULL, "per_device_batch_size=2 max_target_length=1073741824", "tokens in a batch");
  must_accept(NULL, "init_weights_seed=4294967295");
  must_accept(NULL, "decoder_block=simple head_dim=134217727"); /* x 16 heads */
  must_accept(NULL, "lr_schedule_type=wsd warmup_steps_fraction=0.5 wsd_decay_steps_fraction=0.5");
  must_accept(NULL, "ici_data_parallelism=2147483647 per_device_batch_size=1 max_target_length=1");
}
END_TEST

/* types.py: get_individual_scales. */
START_TEST(the_parameter_scale_multiplies_dimensions) {
  static const struct {
    int scale, emb, heads, mlp, layers;
  } rows[] = {{1, 1, 1, 1, 1},  {2, 1, 2, 2, 1},  {4, 2, 2, 2, 1}, {8, 2, 2, 2, 2},
              {16, 2, 4, 4, 2}, {32, 4, 4, 4, 2}, {64, 4, 4, 4, 4}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char arguments[80];
    struct ab_config *c = NULL;
    snprintf(arguments, sizeof arguments, "global_parameter_scale=%d", rows[i].scale);
    ck_ok(load(&c, NULL, arguments));
    ck_assert_int_eq(c->emb_dim, 2048 * rows[i].emb);
    ck_assert_int_eq(c->num_query_heads, 16 * rows[i].heads);
    ck_assert_int_eq(c->num_kv_heads, 16 * rows[i].heads);
    ck_assert_int_eq(c->mlp_dim, 7168 * rows[i].mlp);
    ck_assert_int_eq(c->num_decoder_layers, 16 * rows[i].layers);
    ck_assert_int_eq(c->head_dim, 128);
    ab_config_free(c);
  }
  struct ab_config *c = NULL;
  ck_ok(load(&c, NULL, "global_parameter_scale=8 base_moe_mlp_dim=-1"));
  ck_assert_str_eq(ab_config_value(c, "moe_mlp_dim"), "-1"); /* unset is not scaled */
  ab_config_free(c);
  ck_ok(load(&c, NULL, "global_parameter_scale=8 base_moe_mlp_dim=1"));
  ck_assert_str_eq(ab_config_value(c, "moe_mlp_dim"), "2");
  ab_config_free(c);
}
END_TEST

/* types.py: calculate_global_batch_sizes. */
START_TEST(batch_sizes_follow_maxtext) {
  static const struct {
    const char *arguments;
    int64_t micro, train, load;
  } rows[] = {
      {"per_device_batch_size=12", 12, 12, 12},
      {"per_device_batch_size=2.5 ici_data_parallelism=4", 10, 10, 10},
      {"per_device_batch_size=1.3 ici_data_parallelism=2", 2, 2, 2},
      {"per_device_batch_size=0.5 ici_data_parallelism=4", 2, 2, 4},
      {"per_device_batch_size=2 expansion_factor_real_data=3", 2, 2, 6},
      {"per_device_batch_size=2 expansion_factor_real_data=0", 2, 2, 2},
      {"per_device_batch_size=0.25 ici_data_parallelism=8 expansion_factor_real_data=2", 2, 2, 16},
      {"per_device_batch_size=2 gradient_accumulation_steps=3", 2, 6, 6},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct ab_config *c = NULL;
    ck_ok(load_with(&c, NULL, rows[i].arguments, true, false));
    ck_assert_int_eq(c->micro_batch_size_to_train_on, rows[i].micro);
    ck_assert_int_eq(c->global_batch_size_to_train_on, rows[i].train);
    ck_assert_int_eq(c->global_batch_size_to_load, rows[i].load);
    ab_config_free(c);
  }
}
END_TEST

static ab_status load_on(struct ab_config **out, int64_t devices, const char *const *overrides, size_t count) {
  struct ab_config_request request = {.overrides = overrides, .override_count = count, .devices = devices};
  request.ignore_environment = true;
  return ab_config_load(out, &request);
}

static void check_devices(int64_t given, const char *override, int64_t expected) {
  struct ab_config *c = NULL;
  ab_status status = load_on(&c, given, &override, 1);
  ck_assert_msg(status == (expected ? AB_OK : AB_ECONFIG), "%s on %lld: %s", override, (long long)given,
                ab_status_message());
  if (expected) ck_assert_int_eq(c->devices, expected);
  else ck_assert_ptr_nonnull(strstr(ab_status_message(), "devices, expected"));
  ab_config_free(c);
}

START_TEST(devices_are_the_product_of_factors_or_given) {
  check_devices(0, "ici_tensor_parallelism=4", 4);
  check_devices(0, "ici_fsdp_parallelism=4", 4); /* its default of -1 counts as one */
  check_devices(8, "ici_tensor_parallelism=4", 8);
  check_devices(6, "ici_tensor_parallelism=4", 0);
  check_devices(2, "ici_tensor_parallelism=4", 0);
  check_devices(-1, "ici_tensor_parallelism=4", 0);
  check_devices(2147483648, "ici_tensor_parallelism=4", 0);
  must_accept(NULL, "ici_fsdp_parallelism=2 dcn_data_parallelism=2 num_target_devices=4");
  const char *const fixed[] = {"ici_fsdp_parallelism=1", "dcn_data_parallelism=1"};
  struct ab_config *c = NULL;
  ck_fails(load_on(&c, 2, fixed, 2), AB_ECONFIG, "2 devices, expected 1, the product");
  must_refuse(NULL, "ici_tensor_parallelism=0",
              "key 'ici_tensor_parallelism' is 0, expected a positive integer, or -1");
  must_refuse(NULL, "ici_data_parallelism=-2", "key 'ici_data_parallelism' is -2");
  must_refuse(NULL, "ici_data_parallelism=-1", "since another factor of this network is already -1");
  must_refuse(NULL, "ici_data_parallelism=65536 dcn_tensor_parallelism=65536",
              "a product of mesh factors of at most");
}
END_TEST

/* Pipeline */

static const struct row pipeline[] = {
    {"num_layers_per_pipeline_stage=3",
     "key 'pipeline_parallel_layers' is 4, expected a multiple of 2 stages x num_layers_per_pipeline_stage 3"},
    {"num_pipeline_repeats=3", "key 'pipeline_parallel_layers' is 4, expected 2 stages x num_pipeline_repeats 3 x "
                               "num_layers_per_pipeline_stage 1"},
    {"pipeline_parallel_layers=6 num_pipeline_repeats=3",
     "key 'pipeline_parallel_layers' is 6, expected at most num_decoder_layers = 4"},
    {"num_pipeline_repeats=9223372036854775807", "key 'num_pipeline_repeats' is 9223372036854775807, expected"},
    {"num_pipeline_repeats=2147483647 num_layers_per_pipeline_stage=2147483647",
     "expected 2 stages x num_pipeline_repeats"},
    {"num_pipeline_repeats=0", "key 'num_pipeline_repeats' is 0, expected -1 or an integer from 1 to 2147483647"},
    {"num_pipeline_microbatches=0", "key 'num_pipeline_microbatches' is 0, expected -1 or an integer from 1 to 2147483647"},
    {"num_pipeline_microbatches=-4", "key 'num_pipeline_microbatches' is -4, expected -1 or an integer from 1 to 2147483647"},
    {"num_pipeline_microbatches=3",
     "key 'num_pipeline_microbatches' is 3, expected a multiple of the 2 pipeline stages"},
    {"num_pipeline_microbatches=6",
     "key 'num_pipeline_microbatches' is 6, expected a divisor of micro_batch_size_to_train_on = 8"},
    {"per_device_batch_size=0.5", "expected a divisor of micro_batch_size_to_train_on = 1"},
    {"num_pipeline_microbatches=2 pipeline_delay_activation_forwarding=true",
     "key 'num_pipeline_microbatches' is 2, expected at least 4, twice the stages"},
    {"base_num_decoder_layers=2000000 per_device_batch_size=4096 num_pipeline_microbatches=4096",
     "key 'num_pipeline_microbatches' is 4096, expected fewer: with 4096000001 iterations of the pipeline a "
     "step runs 8192000002 layers, of at most 1048576"},
    {"num_layers_per_pipeline_stage=0", "key 'num_layers_per_pipeline_stage' is 0"},
    {"pipeline_parallel_layers=0", "key 'pipeline_parallel_layers' is 0"},
};

static const struct row gather[] = {
    {"pipeline_parallel_layers=2",
     "key 'num_pipeline_repeats' is 1, expected more than 1, since pipeline_fsdp_ag_per_repeat"},
    {"base_num_decoder_layers=8 num_layers_per_pipeline_stage=2",
     "key 'num_layers_per_pipeline_stage' is 2, expected 1, since"},
    {"pipeline_delay_activation_forwarding=true",
     "key 'pipeline_delay_activation_forwarding' is true, expected false, since"},
    {"quantization=int8", "key 'quantization' is int8, expected none, since"},
    {"scan_layers_per_stage=true", "key 'scan_layers_per_stage' is true, expected false, since"},
};

START_TEST(the_asserts_of_the_pipeline_keys_hold) {
  must_accept(NULL, PIPELINE);
  must_accept(NULL, PIPELINE "pipeline_fsdp_ag_per_repeat=true");
  REFUSE(PIPELINE, pipeline);
  REFUSE(PIPELINE "pipeline_fsdp_ag_per_repeat=true ", gather);
}
END_TEST

START_TEST(the_asserts_come_in_maxtexts_order) {
  /* Each line breaks one rule more than the next. */
  static const struct row order[] = {
      {"num_pipeline_repeats=3 num_pipeline_microbatches=3 per_device_batch_size=3.5 "
       "pipeline_delay_activation_forwarding=true",
       "expected 2 stages x num_pipeline_repeats 3"},
      {"num_pipeline_microbatches=3 per_device_batch_size=3.5 pipeline_delay_activation_forwarding=true",
       "a multiple of the 2"},
      {"num_pipeline_microbatches=2 per_device_batch_size=3.5 pipeline_delay_activation_forwarding=true",
       "a divisor of"},
      {"num_pipeline_microbatches=2 pipeline_delay_activation_forwarding=true", "at least 4, twice the stages"},
  };
  REFUSE(PIPELINE, order);
  must_refuse(NULL, PIPELINE "pipeline_fsdp_ag_per_repeat=true num_pipeline_microbatches=3", "a multiple of the 2");
}
END_TEST

START_TEST(pipeline_defaults_are_resolved) {
  static const struct {
    const char *arguments;
    int64_t S, M, R, layers;
  } rows[] = {
      {"base_num_decoder_layers=8 ici_pipeline_parallelism=2 num_pipeline_microbatches=-1", 2, 2, 4, 8},
      {"base_num_decoder_layers=8 ici_pipeline_parallelism=2 pipeline_delay_activation_forwarding=true", 2, 4, 4, 8},
      {"base_num_decoder_layers=8 ici_pipeline_parallelism=2 dcn_pipeline_parallelism=2", 4, 4, 2, 8},
      {"base_num_decoder_layers=6 ici_pipeline_parallelism=2 pipeline_parallel_layers=4", 2, 2, 2, 4},
      {"base_num_decoder_layers=8 ici_pipeline_parallelism=2 num_layers_per_pipeline_stage=2 num_pipeline_repeats=2",
       2, 2, 2, 8},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct ab_config *c = NULL;
    ck_ok(load(&c, NULL, rows[i].arguments));
    ck_assert(c->pipelined);
    ck_assert_int_eq(c->num_stages, rows[i].S);
    ck_assert_int_eq(c->num_pipeline_microbatches, rows[i].M);
    ck_assert_int_eq(c->num_pipeline_repeats, rows[i].R);
    ck_assert_int_eq(c->pipeline_parallel_layers, rows[i].layers);
    ab_config_free(c);
  }
}
END_TEST

START_TEST(dense_layers_before_the_pipeline_are_those_of_deepseek_alone) {
  struct ab_config *c = NULL;
  ck_ok(load_with(&c, NULL, "decoder_block=deepseek first_num_dense_layers=15", true, false));
  ck_assert_int_eq(c->pipeline_parallel_layers, 1);
  ab_config_free(c);
  ck_ok(load_with(&c, NULL, "first_num_dense_layers=15", true, false));
  ck_assert_int_eq(c->pipeline_parallel_layers, 16);
  ab_config_free(c);
  must_refuse(NULL, "decoder_block=deepseek first_num_dense_layers=16",
              "key 'first_num_dense_layers' is 16, expected at least 0 and fewer than num_decoder_layers");
  must_refuse(NULL, "decoder_block=deepseek first_num_dense_layers=-1", "key 'first_num_dense_layers' is -1");
}
END_TEST

START_TEST(without_pipelining_its_keys_stay_as_given) {
  struct ab_config *c = NULL;
  ck_ok(load(&c, NULL, "num_pipeline_microbatches=5 num_pipeline_repeats=7"));
  ck_assert(!c->pipelined);
  ck_assert_int_eq(c->num_pipeline_microbatches, 5);
  ck_assert_int_eq(c->num_pipeline_repeats, 7);
  ab_config_free(c);
}
END_TEST

START_TEST(bubbles_are_computed_if_asked_for_or_reported) {
  static const struct {
    const char *arguments;
    bool computed;
  } rows[] = {{"", false},
              {"ab_compute_bubbles=true", true},
              {"record_internal_nn_metrics=1", false},
              {"upstream_faithful=B21", false},
              {"record_internal_nn_metrics=1 upstream_faithful=B20", false},
              {"record_internal_nn_metrics=1 upstream_faithful=B21", true}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct ab_config *c = NULL;
    ck_ok(load(&c, NULL, rows[i].arguments));
    ck_assert_msg(c->compute_bubbles == rows[i].computed, "%s", rows[i].arguments);
    ab_config_free(c);
  }
}
END_TEST

START_TEST(schedule_steps_are_resolved) {
  struct ab_config *c = NULL;
  ck_ok(load(&c, NULL, "steps=5"));
  ck_assert_int_eq(c->learning_rate_schedule_steps, 5);
  ab_config_free(c);
  ck_ok(load(&c, NULL, "steps=-1 learning_rate_schedule_steps=9"));
  ck_assert_int_eq(c->steps, 9);
  ab_config_free(c);
  ck_ok(load(&c, NULL, "steps=5 learning_rate_schedule_steps=9"));
  ck_assert_int_eq(c->steps, 5);
  ck_assert_int_eq(c->learning_rate_schedule_steps, 9);
  ab_config_free(c);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("validate");
  TCase *c = tcase_create("validate");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, a_value_of_the_wrong_kind_is_refused);
  tcase_add_test(c, each_tensor_has_a_place_of_its_own);
  tcase_add_test(c, a_value_out_of_range_is_refused);
  tcase_add_test(c, a_list_of_choices_is_no_choice);
  tcase_add_test(c, ranges_hold_at_their_edges);
  tcase_add_test(c, the_parameter_scale_multiplies_dimensions);
  tcase_add_test(c, batch_sizes_follow_maxtext);
  tcase_add_test(c, devices_are_the_product_of_factors_or_given);
  tcase_add_test(c, the_asserts_of_the_pipeline_keys_hold);
  tcase_add_test(c, the_asserts_come_in_maxtexts_order);
  tcase_add_test(c, pipeline_defaults_are_resolved);
  tcase_add_test(c, dense_layers_before_the_pipeline_are_those_of_deepseek_alone);
  tcase_add_test(c, without_pipelining_its_keys_stay_as_given);
  tcase_add_test(c, bubbles_are_computed_if_asked_for_or_reported);
  tcase_add_test(c, schedule_steps_are_resolved);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
