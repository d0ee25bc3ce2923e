/* The command line of the tools: one table per tool makes parsing, --help and the checks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "status.h"

/* One `--name`; exactly one of flag, text, number is set. */
struct ab_option {
  const char *name;     /* without the dashes */
  const char *argument; /* "ROUTE" for --help; NULL for a flag */
  const char *help;     /* one line; NULL keeps it out of --help */
  bool *flag;
  const char **text;
  long *number; /* at least 1 */
};

struct ab_command_line {
  const char *usage;              /* the lines above the option list */
  const struct ab_option *option; /* a NULL name ends the table */
};

/* Fills the options' targets; what is not an option goes to positional (room for argc). AB_ECONFIG names an unknown
 * option with the nearest known one, or a missing or malformed argument. No abbreviations. */
ab_status ab_options_parse(const struct ab_command_line *line, int argc, char **argv, const char **positional,
                           size_t *count);
void ab_options_help(FILE *out, const struct ab_command_line *line);
