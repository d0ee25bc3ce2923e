#include "options.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

static const struct ab_option *find(const struct ab_command_line *line, const char *name, size_t length) {
  for (const struct ab_option *option = line->option; option->name; option++)
    if (strlen(option->name) == length && strncmp(option->name, name, length) == 0) return option;
  return NULL;
}

static ab_status unknown(const struct ab_command_line *line, const char *argument) {
  struct ab_nearest nearest;
  ab_nearest_start(&nearest, argument + 2);
  for (const struct ab_option *option = line->option; option->name; option++)
    if (option->help) ab_nearest_offer(&nearest, option->name);
  return AB_FAIL(AB_ECONFIG, "option '%.80s' is unknown; the nearest known one is --%s", argument, nearest.name);
}

static ab_status set_number(long *out, const char *name, const char *text) {
  char *end;
  errno = 0;
  long value = strtol(text, &end, 10);
  if (errno || end == text || *end || value < 1 || value > INT32_MAX)
    return AB_FAIL(AB_ECONFIG, "--%s is '%.80s'; expected a whole number from 1 to 2147483647", name, text);
  *out = value;
  return AB_OK;
}

static ab_status set(const struct ab_option *option, const char *value) {
  if (option->flag) *option->flag = true;
  if (option->text) *option->text = value;
  if (option->number) AB_TRY(set_number(option->number, option->name, value));
  return AB_OK;
}

/* argv[*i] starts with "--". */
static ab_status parse_one(const struct ab_command_line *line, int argc, char **argv, int *i) {
  const char *name = argv[*i] + 2, *equals = strchr(name, '=');
  const struct ab_option *option = find(line, name, equals ? (size_t)(equals - name) : strlen(name));
  if (!option) return unknown(line, argv[*i]);
  if (option->flag && equals)
    return AB_FAIL(AB_ECONFIG, "--%s takes no value, found '%.80s'", option->name, equals + 1);
  if (option->flag) return set(option, NULL);
  if (!equals && *i + 1 == argc) return AB_FAIL(AB_ECONFIG, "--%s needs a value: %s", option->name, option->argument);
  return set(option, equals ? equals + 1 : argv[++*i]);
}

ab_status ab_options_parse(const struct ab_command_line *line, int argc, char **argv, const char **positional,
                           size_t *count) {
  *count = 0;
  for (int i = 1; i < argc; i++) {
    if (argv[i][0] == '-' && argv[i][1] == '-' && argv[i][2])
      AB_TRY(parse_one(line, argc, argv, &i));
    else if (argv[i][0] == '-' && argv[i][1])
      return AB_FAIL(AB_ECONFIG, "option '%.80s' is unknown; options are long: --help lists them", argv[i]);
    else
      positional[(*count)++] = argv[i];
  }
  return AB_OK;
}

void ab_options_help(FILE *out, const struct ab_command_line *line) {
  fputs(line->usage, out);
  for (const struct ab_option *option = line->option; option->name; option++) {
    if (!option->help) continue;
    char head[64];
    snprintf(head, sizeof head, "--%s%s%s", option->name, option->argument ? " " : "",
             option->argument ? option->argument : "");
    fprintf(out, "  %-26s %s\n", head, option->help);
  }
}
