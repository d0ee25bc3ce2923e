#include "run.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "init.h"
#include "inputs.h"
#include "mem.h"
#include "memory_limit.h"
#include "observed.h"

/* Bookkeeping memory of a dry run: real and cleared, so it starts small and grows until it is enough. */
static const size_t BOOK_FIRST = (size_t)1 << 20, BOOK_LIMIT = (size_t)256 << 20;
enum { EVENTS_PER_LAYER = 128 };

/* A run under way. */
struct running {
  const struct ab_run *run;
  struct ab_arena slab, arena, book;
  struct ab_mesh mesh;
  struct ab_exec exec;
  struct ab_side side;
  struct ab_synthetic *data;
};

size_t ab_run_plan_bytes(const struct ab_run_plan *plan) { return plan->slab + plan->arena + plan->book; }

ab_status ab_run_check_memory(const struct ab_run_plan *plan) {
  AB_TRY(ab_memory_require(ab_run_plan_bytes(plan), "this model", ""));
  return AB_OK;
}

/* Blocks are asked by the layer plan. */
static ab_status check_arithmetic(const struct ab_run *run) {
  if (!run->kernels->polynomial) return AB_OK;
  if (!ab_bundle_is_engine(run->bundle))
    return AB_FAIL(AB_ECONFIG, "route '%s' has sums and products only: it runs the pipeline module of a bundle of kind "
                   "engine, not a whole model", run->route->name);
  if (ab_loss_kind_polynomial(run->bundle->loss_kind)) return AB_OK;
  return AB_FAIL(AB_ECONFIG, "loss_kind '%s' of the bundle needs more than the sums and products of route '%s'; "
                 "expected dot", ab_loss_kind_name(run->bundle->loss_kind), run->route->name);
}

static int stages_of(const struct ab_config *config) { return config->pipelined ? (int)config->num_stages : 1; }

static ab_status start(struct running *r, const struct ab_run *run, const struct ab_kernels *kernels) {
  r->run = run;
  AB_TRY(ab_mesh_init_local(&r->mesh, kernels, stages_of(run->config)));
  if (run->mesh && !kernels->dry) r->mesh.ops = run->mesh;
  if (!run->bundle) AB_TRY(ab_synthetic_new(&r->data, run->config));
  r->exec = (struct ab_exec){
      .kernels = kernels, .slab = &r->slab, .arena = &r->arena, .book = &r->book, .mesh = &r->mesh};
  return AB_OK;
}

static void stop(struct running *r) {
  ab_probe_free(r->exec.probe);
  ab_synthetic_free(r->data);
  ab_mesh_free(&r->mesh);
  ab_arena_free(&r->slab);
  ab_arena_free(&r->arena);
  ab_arena_free(&r->book);
}

static ab_status batch_of(struct ab_batch *out, const struct running *r, int64_t step) {
  if (r->run->bundle) AB_TRY(ab_bundle_batch(out, r->run->bundle, step));
  else *out = ab_synthetic_batch(r->data);
  return AB_OK;
}

static ab_status load(struct running *r) {
  const struct ab_run *run = r->run;
  if (r->exec.kernels->dry) return AB_OK;
  if (run->bundle) AB_TRY(ab_bundle_load(run->bundle, &r->side, r->exec.kernels));
  else AB_TRY(ab_init_weights(&r->side, run->config, r->exec.kernels));
  AB_TRY(ab_observe_inputs(run, &r->side, &r->exec, r->data));
  if (run->loaded) AB_TRY(run->loaded(run->ctx, &r->side, r->exec.kernels));
  return AB_OK;
}

static const struct ab_identity whole = {.microbatch = -1, .layer = -1};
static const struct ab_where nowhere = {.iteration = -1, .stage = -1, .repeat = -1};

/* What went through the doors in this step. */
static ab_status count_doors(struct running *r) {
  struct ab_ledger ledger = ab_mesh_ledger(&r->mesh);
  struct ab_probe *probe = r->exec.probe;
  AB_TRY(ab_probe_count(probe, "ring/messages", &whole, &nowhere, ledger.ring_messages));
  AB_TRY(ab_probe_count(probe, "ring/bytes", &whole, &nowhere, ledger.ring_bytes));
  AB_TRY(ab_probe_count(probe, "gather/calls", &whole, &nowhere, ledger.gathers));
  AB_TRY(ab_probe_count(probe, "gather/bytes", &whole, &nowhere, ledger.gather_bytes));
  if (ledger.reshard_bytes) AB_TRY(ab_probe_count(probe, "reshard/bytes", &whole, &nowhere, ledger.reshard_bytes));
  ab_mesh_reset(&r->mesh);
  return AB_OK;
}

static ab_status send_metrics(const struct ab_run *run, int step, const struct ab_metrics *metrics, bool updated) {
  if (!run->metric) return AB_OK;
  for (const struct ab_metric_field *field = ab_metric_fields; field->name; field++) {
    bool of_update = field->offset == offsetof(struct ab_metrics, grad_norm) ||
                     field->offset == offsetof(struct ab_metrics, learning_rate) ||
                     field->offset == offsetof(struct ab_metrics, param_norm);
    if (of_update && !updated) continue;
    double value;
    memcpy(&value, (const char *)metrics + field->offset, sizeof value);
    AB_TRY(run->metric(run->metric_ctx, step, field->name, value));
  }
  return AB_OK;
}

/* What the caller changes before a pass. */
static ab_status prepare(struct running *r, struct ab_pass_inputs *inputs, int pass) {
  const struct ab_run *run = r->run;
  if (r->exec.kernels->dry) return AB_OK;
  if (run->parameters) AB_TRY(run->parameters(run->ctx, &r->side, r->exec.kernels, pass));
  if (run->passes && run->doctor) AB_TRY(run->doctor(run->ctx, inputs, pass));
  return AB_OK;
}

static ab_status one_step(struct running *r, struct ab_trainer *trainer, int step) {
  const struct ab_run *run = r->run;
  bool train = !run->parameters && !run->passes;
  struct ab_pass_inputs inputs = {0};
  struct ab_metrics metrics;
  trainer->step = step;
  AB_TRY(batch_of(&inputs.batch, r, run->passes ? run->of_step : step));
  if (run->batch) AB_TRY(run->batch(run->ctx, &inputs.batch));
  AB_TRY(prepare(r, &inputs, step));
  AB_TRY(train ? ab_trainer_step(trainer, &inputs.batch, &metrics)
               : ab_trainer_measure(trainer, &inputs.batch, &metrics));
  if (r->exec.kernels->dry) return AB_OK;
  AB_TRY(count_doors(r));
  AB_TRY(send_metrics(run, step, &metrics, train));
  return AB_OK;
}

static ab_status train(struct running *r, int64_t steps) {
  struct ab_trainer trainer;
  const struct ab_model_ops *ops = r->run->route->model;
  r->side.model_ops = ops;
  AB_TRY(ops->create(&r->side.model, r->run->config, &r->exec));
  AB_TRY(ab_trainer_init(&trainer, r->run->config, &r->exec, ops, r->side.model));
  ab_status status = load(r);
  for (int64_t step = 0; step < steps && status == AB_OK; step++) status = one_step(r, &trainer, (int)step);
  ab_trainer_free(&trainer);
  return status;
}

/* float32 values of a bundle as elements of the table's dtype. */
static ab_status take(void **out, struct running *r, const char *name, const float *values, size_t count) {
  const struct ab_kernels *k = r->exec.kernels;
  AB_TRY(ab_arena_take(&r->arena, out, count, k->element));
  size_t taken = k->from_f32(*out, values, count);
  if (taken == count) return AB_OK;
  return AB_FAIL(AB_EFORMAT, "the bundle's '%s' is %g at element %zu, which table %s cannot hold; expected an integer",
                 name, (double)values[taken], taken, k->name);
}

/* A double holds 53 bits of a residue: of those tables the loss is a tensor of one element. */
static ab_status observe_loss(struct running *r, const void *outputs, const void *other, size_t count) {
  const struct ab_kernels *k = r->exec.kernels;
  struct ab_gemm dot = {.m = 1, .n = 1, .k = (int64_t)count, .lda = (int64_t)count, .ldb = 1, .ldc = 1};
  struct ab_identity id = {.microbatch = -1, .layer = -1, .phase = AB_FORWARD, .tensor = AB_OBS_LOSS};
  struct ab_view loss = {.dtype = k->dtype, .shape = {1, {1}}, .stride = {1}};
  if (!k->polynomial || r->run->bundle->loss_kind == AB_LOSS_GIVEN) return AB_OK;
  AB_TRY(ab_arena_take(&r->arena, &loss.data, 1, k->element));
  k->gemm(loss.data, outputs, other, &dot);
  if (!k->dry) AB_TRY(ab_probe_observe(r->exec.probe, &id, &nowhere, &loss));
  return AB_OK;
}

static ab_status observe_gradients(struct running *r) {
  struct ab_leaf_table table;
  if (r->exec.kernels->dry) return AB_OK;
  AB_TRY(ab_leaf_table_new(&table, r->run->config, r->exec.kernels, true));
  ab_status status = ab_leaf_table_fill(&table, &r->side, AB_GRADS);
  for (size_t i = 0; i < table.leaves && status == AB_OK; i++) {
    struct ab_identity id = {.microbatch = -1, .layer = table.leaf[i].layer, .phase = AB_BACKWARD};
    snprintf(id.tensor, sizeof id.tensor, "%s", table.leaf[i].param->name);
    status = ab_probe_observe(r->exec.probe, &id, &nowhere, &table.leaf[i].view);
  }
  ab_leaf_table_free(&table);
  return status;
}

/* Zeros outside one part of the rows. */
static void keep_part(void *d_outputs, const struct running *r, const struct ab_pass_inputs *inputs) {
  const struct ab_kernels *k = r->exec.kernels;
  size_t count = inputs->given.count, size = inputs->parts ? count / (size_t)inputs->parts : count;
  size_t begin = (size_t)inputs->part * size, end = begin + size;
  k->zero(d_outputs, begin);
  k->zero((void *)((uintptr_t)d_outputs + end * k->element), count - end);
}

static ab_status pass_through(struct running *r, const struct ab_pass_inputs *pass_inputs, int pass) {
  const struct ab_activations given = pass_inputs->given;
  const struct ab_run *run = r->run;
  const struct ab_kernels *k = r->exec.kernels;
  const struct ab_pipeline_ops *ops = run->route->pipeline;
  void *inputs, *other, *outputs, *d_inputs;
  AB_TRY(take(&inputs, r, "inputs", given.inputs, given.count));
  AB_TRY(take(&other, r, run->bundle->loss_kind == AB_LOSS_GIVEN ? "output_cotangent" : "targets", given.other,
              given.count));
  AB_TRY(ab_arena_take(&r->arena, &outputs, given.count, k->element));
  AB_TRY(ab_arena_take(&r->arena, &d_inputs, given.count, k->element));
  AB_TRY(ops->forward(r->side.pipeline, outputs, inputs, given.positions, given.segment_ids));
  AB_TRY(observe_loss(r, outputs, other, given.count));
  double loss = ab_output_loss(outputs, run->bundle->loss_kind, outputs, other, given.count, k);
  keep_part(outputs, r, pass_inputs);
  AB_TRY(ops->backward(r->side.pipeline, d_inputs, outputs));
  AB_TRY(observe_gradients(r));
  if (k->dry) return AB_OK;
  AB_TRY(count_doors(r));
  if (run->metric && run->bundle->loss_kind != AB_LOSS_GIVEN)
    AB_TRY(run->metric(run->metric_ctx, pass, "loss", loss));
  return AB_OK;
}

static ab_status differentiate(struct running *r) {
  r->side.pipeline_ops = r->run->route->pipeline;
  AB_TRY(r->side.pipeline_ops->create(&r->side.pipeline, r->run->config, &r->exec));
  AB_TRY(load(r));
  size_t mark = ab_arena_mark(&r->arena), book = ab_arena_mark(&r->book);
  int64_t parts = r->run->cotangent_parts, passes = r->run->passes ? r->run->passes : parts;
  for (int pass = 0; pass == 0 || pass < passes; pass++) {
    struct ab_pass_inputs inputs = {
        .given = ab_bundle_activations(r->run->bundle), .part = parts ? pass : 0, .parts = parts};
    ab_probe_step(r->exec.probe, pass, 0);
    AB_TRY(prepare(r, &inputs, pass));
    AB_TRY(pass_through(r, &inputs, pass));
    ab_arena_release(&r->arena, mark);
    ab_arena_release(&r->book, book);
  }
  return AB_OK;
}

static ab_status go(struct running *r, int64_t steps) {
  return ab_bundle_is_engine(r->run->bundle) ? differentiate(r) : train(r, steps);
}

/* Enough room that no observation of one iteration is ever lost. */
static ab_status watch(struct running *r) {
  const struct ab_run *run = r->run;
  int stages = stages_of(run->config);
  enum ab_level level = r->exec.kernels->dry ? AB_LEVEL_OFF : run->level; /* counters alone */
  if (!run->probe) return AB_OK;
  AB_TRY(ab_probe_new(&r->exec.probe, run->probe, run->probe_ctx, level, stages));
  if (run->want) ab_probe_want(r->exec.probe, run->want, run->ctx);
  size_t layers = (size_t)run->config->num_decoder_layers;
  AB_TRY(ab_probe_reserve(r->exec.probe, EVENTS_PER_LAYER * (layers + 1), 0));
  return AB_OK;
}

static ab_status prepare_dry(struct running *r, const struct ab_run *run, size_t book) {
  ab_arena_init_measuring(&r->slab, "parameter");
  ab_arena_init_measuring(&r->arena, "step");
  AB_TRY(ab_arena_init(&r->book, "bookkeeping", book));
  return start(r, run, ab_kernels_dry(run->kernels->dtype));
}

static ab_status plan_dry(struct running *r, const struct ab_run *run, size_t book) {
  AB_TRY(prepare_dry(r, run, book));
  AB_TRY(go(r, 1));
  return AB_OK;
}

static ab_status plan_with(struct ab_run_plan *out, const struct ab_run *run, size_t book) {
  struct running r = {0};
  ab_status status = plan_dry(&r, run, book);
  if (status == AB_OK) *out = (struct ab_run_plan){.slab = r.slab.high, .arena = r.arena.high, .book = r.book.high};
  stop(&r);
  return status;
}

ab_status ab_run_plan(struct ab_run_plan *out, const struct ab_run *run) {
  size_t book = BOOK_FIRST;
  AB_TRY(check_arithmetic(run));
  ab_status status = plan_with(out, run, book);
  while (status == AB_ENOMEM && book < BOOK_LIMIT) {
    ab_status_clear();
    book *= 4;
    status = plan_with(out, run, book);
  }
  return status;
}

static ab_status account_dry(struct running *r, struct ab_run_account *out, const struct ab_run *run) {
  AB_TRY(prepare_dry(r, run, out->plan.book));
  r->slab.ledger = &out->slab;
  r->arena.ledger = &out->arena;
  AB_TRY(watch(r));
  AB_TRY(go(r, 1));
  return AB_OK;
}

ab_status ab_run_account(struct ab_run_account *out, const struct ab_run *run) {
  struct running r = {0};
  *out = (struct ab_run_account){0};
  AB_TRY(ab_run_plan(&out->plan, run));
  ab_status status = account_dry(&r, out, run);
  ab_arena_ledger_close(&out->slab);
  ab_arena_ledger_close(&out->arena);
  stop(&r);
  if (status != AB_OK) ab_run_account_free(out);
  return status;
}

void ab_run_account_free(struct ab_run_account *account) {
  ab_arena_ledger_free(&account->slab);
  ab_arena_ledger_free(&account->arena);
}

static ab_status run_real(struct running *r, const struct ab_run *run, const struct ab_run_plan *plan) {
  AB_TRY(ab_arena_init(&r->slab, "parameter", plan->slab));
  AB_TRY(ab_arena_init(&r->arena, "step", plan->arena));
  AB_TRY(ab_arena_init(&r->book, "bookkeeping", plan->book));
  AB_TRY(start(r, run, run->kernels));
  AB_TRY(watch(r));
  AB_TRY(go(r, run->passes ? run->passes : run->steps));
  return AB_OK;
}

ab_status ab_run_steps(const struct ab_run *run, const struct ab_run_plan *plan) {
  struct running r = {0};
  ab_status status = run_real(&r, run, plan);
  stop(&r);
  return status;
}
