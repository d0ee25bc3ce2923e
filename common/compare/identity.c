#define XXH_INLINE_ALL
#include "identity.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "text.h"

/* Last components of parameter paths. "embedding" alone is an activation, so those need a module in front. */
static const struct {
  const char *name;
  bool alone;
} leaf_names[] = {{"kernel", false}, {"scale", false}, {"embedding", false}, {"bias", false},
                  {"weights", true}, {"ff_1", true},   {"ff_2", true}};

static bool names_parameter(const char *tensor) {
  const char *slash = strrchr(tensor, '/'), *last = slash ? slash + 1 : tensor;
  for (size_t i = 0; i < sizeof leaf_names / sizeof *leaf_names; i++)
    if (strcmp(last, leaf_names[i].name) == 0) return slash || leaf_names[i].alone;
  return false;
}

/* Beginnings of names: blocks/observed.h. They go before what a name ends in. */
static const struct {
  const char *begin;
  enum ab_quantity quantity;
} families[] = {{"intermediates/", AB_Q_METRIC}, {"input/", AB_Q_INPUT}, {"state/", AB_Q_STATE}};

enum ab_quantity ab_quantity_of(const struct ab_identity *id) {
  bool whole = id->layer < 0;
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    if (strncmp(id->tensor, families[i].begin, strlen(families[i].begin)) == 0) return families[i].quantity;
  if (names_parameter(id->tensor)) return id->phase == AB_BACKWARD ? AB_Q_WEIGHT_GRADIENT : AB_Q_PARAMETER;
  if (id->phase == AB_RECOMPUTE) return AB_Q_RECOMPUTE;
  if (id->phase == AB_BACKWARD) return whole ? AB_Q_INPUT_GRADIENT : AB_Q_COTANGENT;
  return whole ? AB_Q_OUTPUT : AB_Q_ACTIVATION;
}

bool ab_is_moment(const char *tensor) { return strncmp(tensor, "mu/", 3) == 0 || strncmp(tensor, "nu/", 3) == 0; }

const char *ab_quantity_name(enum ab_quantity quantity) {
  static const char *const names[] = {
      [AB_Q_METRIC] = "metric",       [AB_Q_OUTPUT] = "output",       [AB_Q_INPUT_GRADIENT] = "input gradient",
      [AB_Q_PARAMETER] = "parameter", [AB_Q_ACTIVATION] = "activation", [AB_Q_WEIGHT_GRADIENT] = "weight gradient",
      [AB_Q_RECOMPUTE] = "recompute", [AB_Q_COTANGENT] = "cotangent",
      [AB_Q_INPUT] = "input",         [AB_Q_STATE] = "state"};
  return names[quantity];
}

bool ab_identity_equal(const struct ab_identity *a, const struct ab_identity *b) {
  return a->step == b->step && a->accumulation == b->accumulation && a->microbatch == b->microbatch &&
         a->layer == b->layer && a->phase == b->phase && strcmp(a->tensor, b->tensor) == 0;
}

uint64_t ab_identity_hash(const struct ab_identity *id) {
  int64_t numbers[] = {id->step, id->accumulation, id->microbatch, id->layer, (int64_t)id->phase};
  uint64_t seed = XXH3_64bits_withSeed(numbers, sizeof numbers, ab_hash_secret());
  return XXH3_64bits_withSeed(id->tensor, strlen(id->tensor), seed);
}

/* Appends "word number " unless the number is below `least`; what does not fit is left out. */
static void append(char text[AB_IDENTITY_TEXT], const char *word, int number, int least) {
  size_t used = strlen(text);
  if (number >= least) snprintf(text + used, AB_IDENTITY_TEXT - used, "%s %d ", word, number);
}

void ab_identity_print(char text[AB_IDENTITY_TEXT], const struct ab_identity *id) {
  char name[4 * AB_NAME_MAX], layer[32] = "";
  ab_text_escape(name, sizeof name, id->tensor);
  text[0] = '\0';
  append(text, "step", id->step, 0);
  append(text, "accumulation", id->accumulation, 1);
  append(text, "microbatch", id->microbatch, 0);
  if (id->layer >= 0) snprintf(layer, sizeof layer, "layers/%d/", id->layer);
  size_t used = strlen(text);
  snprintf(text + used, AB_IDENTITY_TEXT - used, "%s%s %s", layer, name, ab_phase_name(id->phase));
}

/* Length of a run of digits that is a whole path component at p, 0 if there is none. */
static size_t digits(const char *start, const char *p) {
  if (p != start && p[-1] != '/') return 0;
  size_t length = strspn(p, "0123456789");
  return p[length] == '/' || p[length] == '\0' ? length : 0;
}

void ab_identity_pattern(char text[AB_IDENTITY_TEXT], const struct ab_identity *id) {
  char starred[AB_NAME_MAX], name[4 * AB_NAME_MAX];
  size_t used = 0;
  for (const char *p = id->tensor; *p;) {
    size_t run = digits(id->tensor, p);
    starred[used++] = run ? '*' : *p;
    p += run ? run : 1;
  }
  starred[used] = '\0';
  ab_text_escape(name, sizeof name, starred);
  snprintf(text, AB_IDENTITY_TEXT, "%s%s %s", id->layer >= 0 ? "layers/*/" : "", name, ab_phase_name(id->phase));
}
