#include "side_mode.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cell.h"
#include "file.h"
#include "kept.h"
#include "mem.h"
#include "process.h"
#include "run.h"
#include "shake.h"
#include "version.h"
#include "what_if.h"

/* Everything one side holds. */
struct side {
  const struct ab_request *request;
  struct ab_case opened;
  const struct ab_route *route;
  struct ab_stream_writer *writer;
  struct ab_recording *against, *from;
  struct ab_kept_values *from_values;
  struct ab_keeper keeper;
  struct ab_kept_window window;
  struct ab_what_if_plan plan; /* passes 0: steps */
  struct ab_doctor *doctor;
  struct ab_shake shake;
  int32_t *shuffled; /* the batch in another order */
};

static ab_status read_stream(struct ab_recording **out, const char *path) {
  struct ab_stream_reader *reader;
  struct ab_file file;
  AB_TRY(ab_recording_new(out, path));
  AB_TRY(ab_stream_reader_new(&reader, &ab_recording_handler, *out));
  ab_status status = ab_file_open(&file, path);
  if (status == AB_OK) {
    status = ab_stream_read(reader, file.fd);
    ab_file_close(&file);
  }
  ab_stream_reader_free(reader);
  return status;
}

static ab_status open_values(struct side *side) {
  const struct ab_request *request = side->request;
  side->keeper = (struct ab_keeper){.writer = side->writer, .fd = -1, .fingerprints = request->side_fingerprint};
  if (request->side_against) AB_TRY(read_stream(&side->against, request->side_against));
  side->keeper.against = side->against;
  if (request->side_from_stream) {
    AB_TRY(read_stream(&side->from, request->side_from_stream));
    AB_TRY(ab_kept_open(&side->from_values, side->from, request->side_from_values, NULL, NULL));
  }
  if (!request->side_values) return AB_OK;
  return ab_file_create(&side->keeper.fd, request->side_values);
}

/* Parameters before `step` of the side that this one follows: those after its step - 1. Step 0 has the initial ones. */
static ab_status follow(void *ctx, const struct ab_side *target, const struct ab_kernels *kernels, int step) {
  struct side *side = ctx;
  struct ab_leaf_table table;
  struct ab_leaf_values buffer;
  if (step == 0) return AB_OK;
  AB_TRY(ab_leaf_table_new(&table, side->opened.config, kernels, false));
  ab_status status = ab_leaf_values_new(&buffer, &table);
  if (status != AB_OK) {
    ab_leaf_table_free(&table);
    return status;
  }
  status = ab_leaf_table_fill(&table, target, AB_PARAMS);
  for (size_t i = 0; i < table.leaves && status == AB_OK; i++) {
    struct ab_identity id = {.step = step - 1, .microbatch = -1, .layer = table.leaf[i].layer, .phase = AB_UPDATE};
    struct ab_view view;
    snprintf(id.tensor, sizeof id.tensor, "%s", table.leaf[i].param->name);
    status = ab_kept_read(side->from_values, &id, &view);
    if (status != AB_OK) break;
    if (view.dtype != AB_F32 || ab_view_count(&view) != table.leaf[i].count) {
      status = AB_FAIL(AB_ESHAPE, "'%s' of layer %d in the followed side has another shape", id.tensor, id.layer);
      break;
    }
    memcpy(buffer.values, view.data, table.leaf[i].count * sizeof *buffer.values);
    status = ab_leaf_set(&table.leaf[i], &buffer, kernels);
  }
  ab_leaf_values_free(&buffer);
  ab_leaf_table_free(&table);
  if (status == AB_OK) status = ab_shake_params(&side->shake, target, side->opened.config, kernels, step);
  return status;
}

static ab_status doctored_weights(void *ctx, const struct ab_side *target, const struct ab_kernels *kernels, int pass) {
  struct side *side = ctx;
  if (pass == 0 && side->from) AB_TRY(follow(ctx, target, kernels, side->plan.step));
  return ab_doctor_weights(side->doctor, target, kernels, pass);
}

static ab_status doctored_inputs(void *ctx, struct ab_pass_inputs *inputs, int pass) {
  struct side *side = ctx;
  return ab_doctor_inputs(side->doctor, inputs, pass);
}

/* Of step 0; what a side follows later is shaken there. */
static ab_status shake_initial(void *ctx, const struct ab_side *target, const struct ab_kernels *kernels) {
  struct side *side = ctx;
  return ab_shake_params(&side->shake, target, side->opened.config, kernels, 0);
}

static ab_status shake_batch(void *ctx, struct ab_batch *batch) {
  struct side *side = ctx;
  return ab_shake_batch(&side->shuffled, batch, &side->shake, side->opened.config);
}

static ab_status send_metric(void *ctx, int step, const char *name, double value) {
  struct side *side = ctx;
  struct ab_metric metric = {.step = step, .value = value, .f32 = side->route->arithmetic == AB_ARITHMETIC_F32};
  snprintf(metric.name, sizeof metric.name, "%s", name);
  return ab_stream_metric(side->writer, &metric);
}

static bool wanted(void *ctx, const struct ab_identity *id) {
  const struct side *side = ctx;
  return ab_kept(side->request->side_window ? &side->window : NULL, id);
}

static struct ab_run run_of(struct side *side, const struct ab_kernels *kernels) {
  return (struct ab_run){.route = side->route,
                         .kernels = kernels,
                         .config = side->opened.config,
                         .bundle = side->opened.bundle,
                         .steps = side->opened.steps,
                         .cotangent_parts = side->request->side_terms
                                                ? side->opened.config->num_pipeline_microbatches
                                                : 0,
                         .passes = (int64_t)side->plan.passes,
                         .of_step = side->plan.step,
                         .doctor = doctored_inputs,
                         .level = side->request->side_state ? AB_LEVEL_STATE : AB_LEVEL_VALUES,
                         .want = wanted,
                         .parameters = side->doctor ? doctored_weights : side->from ? follow : NULL,
                         .loaded = side->request->side_shake ? shake_initial : NULL,
                         .batch = side->request->side_shake ? shake_batch : NULL,
                         .ctx = side,
                         .probe = &ab_keeper_probe,
                         .probe_ctx = &side->keeper,
                         .metric = send_metric,
                         .metric_ctx = side};
}

static ab_status open_what_if(struct side *side) {
  if (!side->request->side_what_if) return AB_OK;
  AB_TRY(ab_what_if_plan(&side->plan, &side->opened, side->request->side_what_if));
  return ab_doctor_new(&side->doctor, &side->plan, &side->opened);
}

static ab_status work(struct side *side) {
  struct ab_run_plan plan;
  AB_TRY(ab_case_open(&side->opened, side->request));
  if (side->request->side_window) AB_TRY(ab_kept_window_parse(&side->window, side->request->side_window));
  if (side->request->side_shake) AB_TRY(ab_shake_parse(&side->shake, side->request->side_shake));
  ab_gemm_set_blocks(side->shake.rows, side->shake.cols, side->shake.depth);
  const struct ab_kernels *kernels = ab_route_kernels(side->route, side->opened.numerics);
  AB_TRY(open_values(side));
  AB_TRY(open_what_if(side));
  struct ab_run run = run_of(side, kernels);
  size_t refused = ab_mem_stats().refused;
  ab_status planned = ab_run_plan(&plan, &run);
  bool too_large = planned == AB_ENOMEM && ab_mem_stats().refused == refused;
  if (too_large) return AB_FAIL(AB_ECONFIG, "this model cannot be planned: %s", ab_status_message());
  AB_TRY(planned);
  AB_TRY(ab_stream_plan(side->writer, ab_run_plan_bytes(&plan)));
  AB_TRY(ab_run_check_memory(&plan));
  AB_TRY(ab_float_environment_workers());
  AB_TRY(ab_kernels_self_test(kernels));
  AB_TRY(ab_run_steps(&run, &plan));
  AB_TRY(ab_float_environment_kept());
  AB_TRY(ab_stream_end(side->writer));
  return AB_OK;
}

static void close_side(struct side *side) {
  if (side->keeper.fd > 2) close(side->keeper.fd);
  ab_doctor_free(side->doctor);
  ab_kept_close(side->from_values);
  ab_recording_free(side->against);
  ab_recording_free(side->from);
  ab_case_close(&side->opened);
  ab_stream_writer_free(side->writer);
  ab_mem_free(side->shuffled);
}

static const char *kernels_name(const struct side *side) {
  enum ab_numerics numerics = AB_NUMERICS_FAST;
  if (side->request->numerics && ab_numerics_find(&numerics, side->request->numerics) != AB_OK) return "unknown";
  return ab_route_kernels(side->route, numerics)->name;
}

static ab_status begin(struct side *side, const struct ab_request *request) {
  char *header;
  side->request = request;
  side->keeper.fd = -1;
  AB_TRY(ab_process_end_with_parent(SIGKILL));
  AB_TRY(ab_route_find(&side->route, request->side));
  AB_TRY(ab_version_side_header(&header, side->route->name, kernels_name(side)));
  ab_status status = ab_stream_writer_new(&side->writer, AB_SIDE_FD, header);
  ab_mem_free(header);
  AB_TRY(status);
  return AB_OK;
}

/* A user's mistake and a refusal of memory leave with AB_ECONFIG: the parent gives them exit code 2. */
static ab_status as_input_error(ab_status status, bool opened) {
  if (status == AB_EIO) return AB_ECONFIG; /* a disk that is full is the environment's fault, not the side's */
  return !opened && (status == AB_EFORMAT || status == AB_ESHAPE || status == AB_EIO || status == AB_ENOTFOUND ||
                     status == AB_EMISMATCH) ? AB_ECONFIG : status;
}

int ab_side_main(const struct ab_request *request) {
  struct side side = {0};
  if (request->side_cell) return ab_cell_main(request);
  ab_status status = begin(&side, request);
  if (status == AB_OK) status = work(&side);
  if (status != AB_OK && side.writer) {
    ab_status code = as_input_error(status, side.opened.config != NULL);
    ab_stream_error(side.writer, code, ab_status_message(), ab_status_trace());
  } else if (status != AB_OK) {
    fprintf(stderr, "%s\n", ab_status_message());
  }
  close_side(&side);
  return status == AB_OK ? AB_EXIT_EQUAL : AB_EXIT_SIDE;
}
