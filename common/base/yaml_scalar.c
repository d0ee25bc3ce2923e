#include "yaml_scalar.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "number.h"
#include "text.h"

enum { LONGEST_NUMBER = 255 };

static bool one_of(const char *text, const char *const *words) {
  while (*words && strcmp(text, *words) != 0) words++;
  return *words != NULL;
}

/* Digits with single underscores between them; returns the place after them, NULL when there is none. */
static const char *skip_digits(const char *p) {
  if (!isdigit((unsigned char)*p)) return NULL;
  while (isdigit((unsigned char)*p) || (*p == '_' && isdigit((unsigned char)p[1]))) p++;
  return p;
}

/* The exponent, or p itself when there is none. */
static const char *skip_exponent(const char *p) {
  if (*p != 'e' && *p != 'E') return p;
  const char *digits = p[1] == '+' || p[1] == '-' ? p + 2 : p + 1;
  const char *end = skip_digits(digits);
  return end ? end : p;
}

/* INT, FLOAT, or STRING when the text is not a decimal number without leading zeros. */
static enum ab_yaml_type number_grammar(const char *text) {
  const char *p = text + (*text == '-' || *text == '+');
  const char *whole = skip_digits(p);
  if (whole && p[0] == '0' && whole > p + 1) return AB_YAML_STRING;
  if (whole && !*whole) return AB_YAML_INT;
  const char *end = whole ? whole : p;
  if (*end == '.') {
    const char *fraction = skip_digits(end + 1);
    if (!whole && !fraction) return AB_YAML_STRING;
    end = fraction ? fraction : end + 1;
  } else if (!whole) {
    return AB_YAML_STRING;
  }
  return *skip_exponent(end) ? AB_YAML_STRING : AB_YAML_FLOAT;
}

/* Infinite when it is too large for a double. */
static double number_value(const char *digits) {
  double value;
  if (ab_number_double(&value, digits) == AB_OK) return value;
  ab_status_clear();
  return *digits == '-' ? -INFINITY : INFINITY;
}

static void strip_underscores(char *out, const char *text) {
  for (; *text; text++)
    if (*text != '_') *out++ = *text;
  *out = '\0';
}

static bool type_number(struct ab_yaml_node *node) {
  char digits[LONGEST_NUMBER + 1];
  if (strlen(node->string) > LONGEST_NUMBER) return false;
  enum ab_yaml_type type = number_grammar(node->string);
  if (type == AB_YAML_STRING) return false;
  strip_underscores(digits, node->string);
  node->number = number_value(digits);
  errno = 0;
  long long integer = strtoll(digits, NULL, 10);
  bool fits = type == AB_YAML_INT && errno == 0;
  node->integer = fits ? integer : 0;
  node->type = fits ? AB_YAML_INT : AB_YAML_FLOAT;
  return true;
}

static bool type_special_float(struct ab_yaml_node *node) {
  static const char *const nans[] = {".nan", ".NaN", ".NAN", NULL}, *const infs[] = {".inf", ".Inf", ".INF", NULL};
  const char *text = node->string;
  bool sign = *text == '-' || *text == '+';
  if (one_of(text, nans)) node->number = NAN;
  else if (one_of(text + sign, infs)) node->number = *text == '-' ? -INFINITY : INFINITY;
  else return false;
  node->type = AB_YAML_FLOAT;
  return true;
}

void ab_yaml_type_plain(struct ab_yaml_node *node) {
  static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
  static const char *const trues[] = {"true", "True", "TRUE", NULL};
  static const char *const falses[] = {"false", "False", "FALSE", NULL};
  if (one_of(node->string, nulls)) {
    node->type = AB_YAML_NULL;
  } else if (one_of(node->string, trues) || one_of(node->string, falses)) {
    node->type = AB_YAML_BOOL;
    node->boolean = one_of(node->string, trues);
  } else if (!type_number(node) && !type_special_float(node)) {
    node->type = AB_YAML_STRING;
  }
}

/* Always with a point or an exponent, so that it stays a float. */
static size_t spell_float(char *out, size_t size, double number) {
  if (isnan(number)) return (size_t)snprintf(out, size, ".nan");
  if (isinf(number)) return (size_t)snprintf(out, size, number < 0 ? "-.inf" : ".inf");
  char digits[AB_NUMBER_MAX];
  ab_number_print(digits, number);
  return (size_t)snprintf(out, size, "%s%s", digits, strpbrk(digits, ".e") ? "" : ".0");
}

/* True when the string may stand without quotes, also for readers that follow YAML 1.1. */
static bool plain_is_safe(const char *s) {
  static const char *const words[] = {"y", "n", "yes", "no", "on", "off", NULL};
  for (const char *const *w = words; *w; w++)
    if (strcasecmp(s, *w) == 0) return false;
  struct ab_yaml_node again = {.string = s};
  ab_yaml_type_plain(&again);
  if (again.type != AB_YAML_STRING || !(isalpha((unsigned char)*s) || *s == '_' || *s == '/')) return false;
  for (const char *p = s; *p; p++)
    if (!isalnum((unsigned char)*p) && !strchr("_./+-~:@=%", *p)) return false;
  return s[strlen(s) - 1] != ':';
}

static void put(char *out, size_t size, size_t *used, const char *bytes, size_t length) {
  for (size_t i = 0; i < length; i++, ++*used)
    if (*used + 1 < size) out[*used] = bytes[i];
}

/* Of a character of so many bytes. */
static unsigned code_point(const char *s, size_t bytes) {
  unsigned code = (unsigned char)*s & (bytes > 1 ? 0x7fu >> bytes : 0x7fu);
  for (size_t i = 1; i < bytes; i++) code = code << 6 | ((unsigned char)s[i] & 0x3f);
  return code;
}

/* libyaml refuses the others as they are, or takes them for the end of a line. */
static bool stands_for_itself(unsigned code) {
  if (code < 0x80) return code >= 0x20 && code < 0x7f && code != '"' && code != '\\';
  return code >= 0xa0 && code != 0x2028 && code != 0x2029 && code != 0xfeff && code != 0xfffe && code != 0xffff;
}

static void spell_escape(char out[12], unsigned code) {
  if (code == '\n' || code == '\t') snprintf(out, 12, "\\%c", code == '\n' ? 'n' : 't');
  else if (code == '"' || code == '\\') snprintf(out, 12, "\\%c", (char)code);
  else snprintf(out, 12, code < 0x100 ? "\\x%02X" : "\\u%04X", code);
}

static size_t spell_quoted(char *out, size_t size, const char *s) {
  size_t used = 0, bytes;
  put(out, size, &used, "\"", 1);
  for (; *s; s += bytes) {
    char escape[12];
    bytes = ab_utf8_length(s, strnlen(s, 4));
    if (!bytes) bytes = 1; /* no UTF-8, which libyaml hands to nobody */
    unsigned code = code_point(s, bytes);
    if (stands_for_itself(code)) {
      put(out, size, &used, s, bytes);
      continue;
    }
    spell_escape(escape, code);
    put(out, size, &used, escape, strlen(escape));
  }
  put(out, size, &used, "\"", 1);
  if (size) out[used < size ? used : size - 1] = '\0';
  return used;
}

size_t ab_yaml_spell(char *out, size_t size, const struct ab_yaml_node *node) {
  switch (node->type) {
  case AB_YAML_NULL: return (size_t)snprintf(out, size, "null");
  case AB_YAML_BOOL: return (size_t)snprintf(out, size, node->boolean ? "true" : "false");
  case AB_YAML_INT: return (size_t)snprintf(out, size, "%lld", (long long)node->integer);
  case AB_YAML_FLOAT: return spell_float(out, size, node->number);
  default: break;
  }
  if (plain_is_safe(node->string)) return (size_t)snprintf(out, size, "%s", node->string);
  return spell_quoted(out, size, node->string);
}
