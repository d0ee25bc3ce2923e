#include <string.h>

#include "init.h"
#include "judgement.h"
#include "mem.h"

/* The initial weights: the bundle's, or drawn again from the seed. */
static ab_status initial(struct ab_tree **out, const struct ab_case *c, const struct ab_layout *layout) {
  struct ab_inventory inventory;
  struct ab_layer_dims dims = ab_layer_dims_of(c->config, c->config->micro_batch_size_to_train_on);
  float *drawn = NULL;
  AB_TRY(ab_inventory_new(&inventory, c->config, false));
  size_t largest = 0;
  for (size_t i = 0; i < inventory.rows; i++)
    if (inventory.row[i].count > largest) largest = inventory.row[i].count;
  ab_status status = ab_layout_tree(out, layout, AB_F32);
  if (status == AB_OK) status = ab_mem_new(&drawn, largest, sizeof *drawn);
  for (size_t i = 0; i < inventory.rows && status == AB_OK; i++) {
    const struct ab_inventory_row *row = &inventory.row[i];
    struct ab_view view;
    ab_init_draw(drawn, row->param, &dims, c->config->init_weights_seed, row->layer);
    status = ab_layout_view(&view, layout, *out, row->layer, row->param->name);
    if (status == AB_OK) ab_view_unpack(&view, drawn);
  }
  ab_mem_free(drawn);
  ab_inventory_free(&inventory);
  return status;
}

static ab_status metrics_of(struct ab_metrics **out, const struct ab_recording *recording, int64_t steps) {
  AB_TRY(ab_mem_new(out, (size_t)steps, sizeof **out));
  for (int64_t t = 0; t < steps; t++)
    for (const struct ab_metric_field *field = ab_metric_fields; field->name; field++) {
      const struct ab_recorded_metric *metric = ab_recording_metric(recording, (int)t, field->name);
      if (metric) memcpy((char *)&(*out)[t] + field->offset, &metric->metric.value, sizeof(double));
    }
  return AB_OK;
}

/* Trees of a run without a bundle. */
struct own_inputs {
  struct ab_layout layout;
  struct ab_tree *params, *batch;
};

static ab_status make_inputs(struct own_inputs *in, const struct ab_case *c) {
  struct ab_synthetic *data;
  AB_TRY(ab_layout_new(&in->layout, c->config, false));
  AB_TRY(initial(&in->params, c, &in->layout));
  AB_TRY(ab_synthetic_new(&data, c->config));
  struct ab_batch batch = ab_synthetic_batch(data);
  ab_status status = ab_dump_batch(&in->batch, &batch, c->steps);
  ab_synthetic_free(data);
  return status;
}

static void drop_inputs(struct own_inputs *in) {
  ab_tree_free(in->params);
  ab_tree_free(in->batch);
  ab_layout_free(&in->layout);
}

static ab_status write_dump(const struct ab_judgement *j, const struct own_inputs *in, const struct ab_produced *p) {
  const struct ab_case *c = &j->opened;
  const struct ab_recorded_metric *loss = ab_recording_metric(j->side[AB_SIDE_A].recording, 0, "loss");
  struct ab_metrics *step = NULL;
  struct ab_dump dump = {.config = c->config,
                         .train = !ab_bundle_is_engine(c->bundle),
                         .loss_kind = c->bundle ? c->bundle->loss_kind : AB_LOSS_TRAIN,
                         .produced_by = j->a->name,
                         .params = c->bundle ? c->bundle->params : in->params,
                         .batch = c->bundle ? c->bundle->batch : in->batch,
                         .grads = p->grads,
                         .outputs = p->outputs,
                         .params_final = p->params_final,
                         .params_step1 = p->params_step1,
                         .loss = loss ? loss->metric.value : 0};
  if (dump.train) {
    AB_TRY(metrics_of(&step, j->side[AB_SIDE_A].recording, c->steps));
    dump.step = step;
    dump.steps = (size_t)c->steps;
  }
  ab_status status = ab_dump_write(&dump, j->request.dump);
  ab_mem_free(step);
  return status;
}

ab_status ab_judgement_inputs(const struct ab_judgement *j, const char *folder) {
  struct own_inputs in = {0};
  const struct ab_bundle *bundle = j->opened.bundle;
  ab_status status = bundle ? AB_OK : make_inputs(&in, &j->opened);
  struct ab_dump dump = {.config = j->opened.config,
                         .train = !ab_bundle_is_engine(bundle),
                         .loss_kind = bundle ? bundle->loss_kind : AB_LOSS_TRAIN,
                         .produced_by = "ab_compare",
                         .params = bundle ? bundle->params : in.params,
                         .batch = bundle ? bundle->batch : in.batch,
                         .inputs_only = true};
  if (status == AB_OK) status = ab_dump_write(&dump, folder);
  drop_inputs(&in);
  return status;
}

ab_status ab_judgement_dump(const struct ab_judgement *j) {
  struct own_inputs in = {0};
  struct ab_produced produced = {0};
  const struct ab_bundle *bundle = j->opened.bundle;
  ab_status status = bundle ? AB_OK : make_inputs(&in, &j->opened);
  if (status == AB_OK)
    status = ab_produced_new(&produced, &j->opened, bundle ? &bundle->layout : &in.layout, &j->side[AB_SIDE_A]);
  if (status == AB_OK) status = write_dump(j, &in, &produced);
  ab_produced_free(&produced);
  drop_inputs(&in);
  return status;
}
