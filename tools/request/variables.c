#include "variables.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "text.h"

extern char **environ;

enum { NAME = 128 };

/* What ab_config_each passes on. */
struct pass {
  struct ab_page *page;
  ab_status failed;
};

static void upper(char name[NAME], const char *key) {
  size_t i = 0;
  for (; key[i] && i < NAME - 1; i++) name[i] = (char)toupper((unsigned char)key[i]);
  name[i] = '\0';
}

static ab_status put_variable(struct ab_page *page, const char *name, const char *value) {
  char *word;
  AB_TRY(ab_mem_new(&word, 4 * strlen(value) + 8, 1));
  size_t used = ab_shell_word(word, 0, value);
  ab_page_print(page, "M_%s=%.*s ", name, (int)used, word);
  ab_mem_free(word);
  return page->failed;
}

static void put_in_force(void *ctx, const char *key, const char *value, const char *source) {
  struct pass *p = ctx;
  char name[NAME], variable[NAME + 2];
  if (p->failed != AB_OK || strcmp(source, "environment") != 0) return;
  upper(name, key);
  snprintf(variable, sizeof variable, "M_%s", name);
  const char *given = getenv(variable);
  p->failed = put_variable(p->page, name, given ? given : value);
}

ab_status ab_variables_put(struct ab_page *page, const struct ab_config *config) {
  struct pass p = {.page = page};
  ab_config_each(config, put_in_force, &p);
  return p.failed;
}

static void offer(void *nearest, const char *key, const char *value, const char *source) {
  (void)value, (void)source;
  ab_nearest_offer(nearest, key);
}

/* "M_STEPS=3" -> "STEPS", cut to size: no key is so long. */
static bool name_of(char name[NAME], const char *entry) {
  const char *equals = strchr(entry, '=');
  if (strncmp(entry, "M_", 2) != 0 || !equals) return false;
  snprintf(name, NAME, "%.*s", (int)(equals - entry - 2), entry + 2);
  return true;
}

/* False: it was read. */
static bool describe_known(char *text, size_t size, const struct ab_case *c, const char *name, const char *key) {
  char capitals[NAME];
  upper(capitals, key);
  if (strcmp(name, capitals) != 0)
    snprintf(text, size, "M_%s is set and not read: the variable of key '%s' is M_%s", name, key, capitals);
  else if (c->bundle)
    snprintf(text, size, "M_%s is set and not read: the config of a bundle stands", name);
  else
    return false;
  return true;
}

static bool describe(char *text, size_t size, const struct ab_case *c, const char *name) {
  char key[NAME], nearest[NAME];
  struct ab_nearest found;
  for (size_t i = 0; i <= strlen(name); i++) key[i] = (char)tolower((unsigned char)name[i]);
  if (ab_config_value(c->config, key)) return describe_known(text, size, c, name, key);
  ab_nearest_start(&found, key);
  ab_config_each(c->config, offer, &found);
  upper(nearest, found.name);
  bool near = found.distance <= strlen(key) / 2;
  snprintf(text, size, "M_%s is set, but there is no such key%s%s", name, near ? "; the nearest is M_" : "",
           near ? nearest : "");
  return true;
}

ab_status ab_variables_each(const struct ab_case *opened, ab_status (*fn)(void *ctx, const char *sentence), void *ctx) {
  char name[NAME], text[4 * NAME];
  for (char **entry = environ; entry && *entry; entry++)
    if (name_of(name, *entry) && describe(text, sizeof text, opened, name)) AB_TRY(fn(ctx, text));
  return AB_OK;
}
