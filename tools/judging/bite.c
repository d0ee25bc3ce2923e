#include "blind.h"
#include "judgement.h"

/* Numbers of 1 where there is no pipeline. */
static struct ab_control_facts facts_of(const struct ab_config *c) {
  if (!c->pipelined) return (struct ab_control_facts){1, 1, 0, 1};
  return (struct ab_control_facts){(int)c->num_stages, (int)c->num_layers_per_pipeline_stage,
                                   (int)(c->num_stages * c->num_layers_per_pipeline_stage * c->num_pipeline_repeats),
                                   (int)c->num_pipeline_microbatches};
}

ab_status ab_judge_controls(struct ab_judgement *j, const struct ab_comparison *c) {
  struct ab_control_facts facts = facts_of(j->opened.config);
  if (j->verdict[j->verdicts - 1].exit != AB_EXIT_EQUAL) return AB_OK;
  return ab_controls_run(&j->teeth->controls, c, &facts, ab_verdict);
}

static bool green(const struct ab_judgement *j) {
  for (size_t i = 0; i < j->verdicts; i++)
    if (j->verdict[i].exit != AB_EXIT_EQUAL) return false;
  return j->verdicts && !j->failures && j->extra == AB_EXIT_EQUAL;
}

static void judge_controls(struct ab_judgement *j) {
  char sentence[2 * AB_CONTROL_DETAIL + 256];
  if (ab_controls_missed(sentence, sizeof sentence, &j->teeth->controls))
    ab_judgement_trouble(j, AB_EXIT_SELFTEST, sentence);
  else if (!green(j))
    return;
  ab_controls_close(&j->teeth->controls);
  j->teeth->controlled = true;
}

/* Of a command nobody knows which inputs it read; what the config lacks, the oracle of its run tells. */
static ab_status look(struct ab_judgement *j) {
  bool command = ab_has_command(j);
  const struct ab_recording *recording = j->side[command ? AB_SIDE_ORACLE : AB_SIDE_A].recording;
  struct ab_run_facts facts;
  AB_TRY(ab_run_facts_of(&facts, &j->opened, recording));
  if (j->request.teeth) AB_TRY(ab_judge_perturbed(j));
  if (command) j->teeth->unobservable = "a command does not show what it made of its inputs";
  else ab_unobserved_of(j->teeth, &facts, recording);
  ab_blind_of(j->teeth, &facts);
  j->teeth->looked = true;
  return AB_OK;
}

ab_status ab_judge_teeth(struct ab_judgement *j) {
  judge_controls(j);
  return green(j) ? look(j) : AB_OK;
}
