/* Memory that runs out at any allocation: an honest status, an untouched output, nothing left behind. */
#include "cases.h"

struct countdown {
  size_t left;
};

static void *count_down(void *ctx, size_t bytes) {
  struct countdown *c = ctx;
  if (c->left == 0) return NULL;
  c->left--;
  return aligned_alloc(AB_ALIGN, bytes);
}

static void release(void *ctx, void *block, size_t bytes) {
  (void)ctx;
  (void)bytes;
  free(block);
}

/* One load with `allowed` allocations; true when it succeeded. */
static bool load_within(size_t allowed, const char *file, const char *arguments) {
  struct countdown c = {allowed};
  struct ab_allocator allocator = {&c, count_down, release};
  struct ab_config *config = NULL;
  ab_mem_install(&allocator);
  ab_status status = load(&config, file, arguments);
  if (status == AB_OK) ab_config_free(config);
  ab_mem_install(NULL);
  ck_assert_msg(status == AB_OK || status == AB_ENOMEM, "%zu: %d %s", allowed, status, ab_status_message());
  ck_assert_msg(ab_mem_stats().live_blocks == 0, "%zu allocations leave %zu blocks", allowed,
                ab_mem_stats().live_blocks);
  if (status != AB_OK) ck_assert_ptr_null(config);
  return status == AB_OK;
}

START_TEST(a_load_survives_the_failure_of_any_allocation) {
  const char *file = source_path("configs/main.yml");
  size_t allowed = 0;
  while (!load_within(allowed, file, "steps=3 logical_axis_rules=[[a,b]] run_name=x per_device_batch_size=4"))
    allowed++;
  ck_assert_uint_gt(allowed, 50);
}
END_TEST

/* A byte of a small configuration replaced, everywhere and by bytes that mean something: a status, nothing left. */
START_TEST(a_damaged_file_never_harms) {
  const char seed[] = "steps: 3\nmlp_activations: [silu, linear]\nadam_eps: 1e-8\nmodel_name: \"llama2-tiny\"\n";
  static const char damage[] = {'\n', '[', ':', '9', '\xff'};
  char *folder = new_scratch(), text[sizeof seed];
  size_t before = ab_mem_stats().live_blocks;
  for (size_t i = 0; i + 1 < sizeof seed; i++) {
    struct ab_config *config = NULL;
    memcpy(text, seed, sizeof seed);
    text[i] = damage[i % sizeof damage];
    ab_status status = load(&config, write_text(folder, "c.yml", text), "");
    ck_assert_msg(status == AB_OK || status == AB_ECONFIG, "byte %zu: %d %s", i, status, ab_status_message());
    if (status != AB_OK) ck_assert_ptr_null(config);
    ab_config_free(config);
    ck_assert_uint_eq(ab_mem_stats().live_blocks, before);
  }
  free_scratch(folder);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("memory");
  TCase *c = tcase_create("memory");
  tcase_set_timeout(c, 120);
  tcase_add_test(c, a_load_survives_the_failure_of_any_allocation);
  tcase_add_test(c, a_damaged_file_never_harms);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
