#include "diff_map.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "mem.h"
#include "text.h"

enum { MAP_BYTES = 1 << 20, RULES_MAX = 1000, EXPRESSION_MAX = 200, REPEATS_MAX = 8, GROUPS = 10 };

struct rule {
  regex_t expression;
  char *replacement; /* within the text */
  int axis;
  bool transpose;
  size_t line;
};

struct ab_name_map {
  char *path, *text;
  struct rule *rule;
  size_t rules;
};

static ab_status wrong(const struct ab_name_map *map, size_t line, const char *why) {
  return AB_FAIL(AB_EFORMAT, "%s:%zu: %s; expected REGEX -> REPLACEMENT [unstack=AXIS] [transpose]", map->path, line,
                 why);
}

static char *trimmed(char *text) {
  text += strspn(text, " \t\r");
  size_t length = strlen(text);
  while (length && strchr(" \t\r", text[length - 1])) text[--length] = '\0';
  return text;
}

/* Words behind the replacement. */
static ab_status read_flags(struct rule *rule, const struct ab_name_map *map, size_t line) {
  char *space;
  while ((space = strrchr(rule->replacement, ' '))) {
    const char *word = space + 1;
    if (strcmp(word, "transpose") == 0)
      rule->transpose = true;
    else if (strncmp(word, "unstack=", 8) == 0 && word[8] >= '0' && word[8] < '0' + AB_MAX_RANK && !word[9])
      rule->axis = word[8] - '0';
    else
      return wrong(map, line, "unknown words at its end");
    *space = '\0';
    trimmed(rule->replacement);
  }
  const char *index = strchr(rule->replacement, '%');
  bool has = index && strncmp(index, "%d", 2) == 0 && !strchr(index + 1, '%');
  if ((index && !has) || has != (rule->axis != AB_NOT_STACKED))
    return wrong(map, line, "unstack and one %d need each other");
  return AB_OK;
}

/* What regcomp is not to be given; NULL: nothing. */
static const char *unfit(const char *text) {
  int repeats = 0;
  if (strlen(text) > EXPRESSION_MAX) return "its regular expression has more than 200 bytes";
  for (const char *p = text; *p; p++) {
    if (*p == '{') return "its regular expression counts repetitions with {}";
    if (strchr("*+?", *p) && ++repeats > REPEATS_MAX) return "its regular expression has more than 8 of * + ?";
    if (*p != '\\') continue;
    p++;
    if (*p >= '1' && *p <= '9') return "its regular expression refers back to a group";
    if (!*p) break; /* malformed: regcomp says so */
  }
  return NULL;
}

static ab_status compile(struct rule *rule, const struct ab_name_map *map, size_t line, const char *text) {
  const char *why = unfit(text);
  if (map->rules == RULES_MAX) why = "more than 1000 lines";
  if (!why && regcomp(&rule->expression, text, REG_EXTENDED) != 0) why = "its regular expression is malformed";
  return why ? wrong(map, line, why) : AB_OK;
}

static ab_status read_rule(struct ab_name_map *map, char *text, size_t line) {
  char *comment = strchr(text, '#'), *arrow;
  if (comment) *comment = '\0';
  text = trimmed(text);
  if (!*text) return AB_OK;
  if (!ab_text_is_printable(text)) return wrong(map, line, "control characters or no UTF-8 in it");
  arrow = strstr(text, " -> ");
  if (!arrow) return wrong(map, line, "no ' -> ' in it");
  *arrow = '\0';
  if ((map->rules & (map->rules - 1)) == 0) /* room grows at powers of two */
    AB_TRY(ab_mem_resize(&map->rule, map->rules ? 2 * map->rules : 1, sizeof *map->rule));
  struct rule *rule = &map->rule[map->rules];
  *rule = (struct rule){.replacement = trimmed(arrow + 4), .axis = AB_NOT_STACKED, .line = line};
  AB_TRY(read_flags(rule, map, line));
  AB_TRY(compile(rule, map, line, trimmed(text)));
  map->rules++;
  return AB_OK;
}

static ab_status read_map(struct ab_name_map *map, const char *path) {
  size_t size, line = 1;
  AB_TRY(ab_mem_string(&map->path, path));
  AB_TRY(ab_file_read(&map->text, &size, path, MAP_BYTES));
  for (char *at = map->text, *end; at; at = end, line++) {
    end = strchr(at, '\n');
    if (end) *end++ = '\0';
    AB_TRY(read_rule(map, at, line));
  }
  return AB_OK;
}

ab_status ab_name_map_open(struct ab_name_map **out, const char *path) {
  struct ab_name_map *map;
  AB_TRY(ab_mem_new(&map, 1, sizeof *map));
  ab_status status = read_map(map, path);
  if (status == AB_OK) *out = map;
  else ab_name_map_close(map);
  return status;
}

void ab_name_map_close(struct ab_name_map *map) {
  if (!map) return;
  for (size_t i = 0; i < map->rules; i++) regfree(&map->rule[i].expression);
  ab_mem_free(map->rule);
  ab_mem_free(map->text);
  ab_mem_free(map->path);
  ab_mem_free(map);
}

static ab_status too_long(const char *name) {
  return AB_FAIL(AB_EMISMATCH, "the tensor name '%.120s' has more than %d bytes; expected a --map that shortens it",
                 name, AB_NAME_MAX - 1);
}

/* \1 to \9 are what the groups matched. */
static ab_status expand(struct ab_mapped *out, const struct rule *rule, const char *name, const regmatch_t *group) {
  size_t used = 0;
  for (const char *p = rule->replacement; *p; p++) {
    const char *from = p;
    size_t count = 1;
    if (p[0] == '\\' && p[1] >= '1' && p[1] <= '9') {
      const regmatch_t *g = &group[*++p - '0'];
      from = name + (g->rm_so < 0 ? 0 : g->rm_so);
      count = g->rm_so < 0 ? 0 : (size_t)(g->rm_eo - g->rm_so);
    }
    if (used + count >= AB_NAME_MAX) return too_long(name);
    memcpy(out->name + used, from, count);
    used += count;
  }
  out->name[used] = '\0';
  if (!used || !ab_text_is_printable(out->name))
    return AB_FAIL(AB_EMISMATCH, "what the map makes of the tensor name '%.200s' is empty or no UTF-8", name);
  out->axis = rule->axis;
  out->transpose = rule->transpose;
  out->line = rule->line;
  return AB_OK;
}

ab_status ab_name_map_apply(struct ab_mapped *out, const struct ab_name_map *map, const char *name) {
  regmatch_t group[GROUPS];
  *out = (struct ab_mapped){.axis = AB_NOT_STACKED, .map = map ? map->path : NULL};
  if (!map) {
    if (strlen(name) >= AB_NAME_MAX) return too_long(name);
    snprintf(out->name, sizeof out->name, "%s", name);
    return AB_OK;
  }
  for (size_t i = 0; i < map->rules; i++) {
    if (regexec(&map->rule[i].expression, name, GROUPS, group, 0) != 0) continue;
    if (group[0].rm_so == 0 && (size_t)group[0].rm_eo == strlen(name)) return expand(out, &map->rule[i], name, group);
  }
  return AB_FAIL(AB_EMISMATCH, "%s: no line matches the tensor name '%.200s'", map->path, name);
}
