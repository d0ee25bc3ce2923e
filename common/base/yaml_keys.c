#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "yaml_scalar.h"

/* Two keys of a map are one when they are written alike ("1" and 1: whoever looks a key up goes by its text), and when
 * their canonical spellings are (~ and null, .INF and ".inf"), quotes apart. */

typedef const struct ab_yaml_node *key_ref;
typedef int (*compare_fn)(const void *a, const void *b);

enum { SPELLED = 64 }; /* bytes; of a null, a boolean or a number */

static int by_place(key_ref x, key_ref y) { return (x > y) - (x < y); }

static int by_text(const void *a, const void *b) {
  key_ref x = *(const key_ref *)a, y = *(const key_ref *)b;
  int order = strcmp(x->string, y->string);
  return order ? order : by_place(x, y);
}

static const char *canonical(char spelled[SPELLED], key_ref key) {
  if (key->type == AB_YAML_STRING) return key->string;
  ab_yaml_spell(spelled, SPELLED, key);
  return spelled;
}

static int compare_canonical(key_ref x, key_ref y) {
  char left[SPELLED], right[SPELLED];
  return strcmp(canonical(left, x), canonical(right, y));
}

static int by_canonical(const void *a, const void *b) {
  key_ref x = *(const key_ref *)a, y = *(const key_ref *)b;
  int order = compare_canonical(x, y);
  return order ? order : by_place(x, y);
}

static int compare_text(key_ref x, key_ref y) { return strcmp(x->string, y->string); }

static ab_status check_sorted(const struct ab_yaml *y, key_ref *keys, size_t count, compare_fn order,
                              int (*compare)(key_ref, key_ref)) {
  qsort(keys, count, sizeof *keys, order);
  for (size_t i = 1; i < count; i++)
    if (compare(keys[i - 1], keys[i]) == 0)
      return AB_FAIL(AB_EFORMAT, "%s:%d:%d: key '%.64s' is given twice, first on line %d", y->name, keys[i]->line,
                     keys[i]->column, keys[i]->string, keys[i - 1]->line);
  return AB_OK;
}

static ab_status check_map(const struct ab_yaml *y, key_ref map, key_ref *keys) {
  size_t count = 0;
  for (key_ref key = map + 1; key < map + map->span; key += 1 + key[1].span) keys[count++] = key;
  AB_TRY(check_sorted(y, keys, count, by_text, compare_text));
  return check_sorted(y, keys, count, by_canonical, compare_canonical);
}

ab_status ab_yaml_check_keys(const struct ab_yaml *y, size_t most) {
  key_ref *keys = NULL;
  AB_TRY(ab_mem_new(&keys, most, sizeof *keys));
  ab_status status = AB_OK;
  for (size_t i = 0; i < y->count && status == AB_OK; i++)
    if (y->nodes[i].type == AB_YAML_MAP) status = check_map(y, &y->nodes[i], keys);
  ab_mem_free(keys);
  return status;
}
