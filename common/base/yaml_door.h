/* The YAML door: configuration files and the values of key=value overrides, by libyaml's events alone.
 *
 * One document of maps, lists and scalars. Refused by name: aliases, anchors, tags, merge keys, keys that are not
 * scalars, a second document, duplicate keys, NUL bytes, and everything beyond the limits below (libyaml itself is
 * quadratic in nesting).
 *
 * Plain scalars are typed more strictly than YAML 1.1 does, because its guesses change meanings: booleans are true and
 * false only (also True, TRUE ...; `no`, `on` stay strings), integers are decimal without leading zeros (underscores
 * between digits allowed), `1e-5` is a float like `1.0e-5`, null is empty, ~, null, Null or NULL. Quoted scalars are
 * strings.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

enum { AB_YAML_MAX_BYTES = 1 << 20, AB_YAML_MAX_DEPTH = 64, AB_YAML_MAX_KEYS = 20000 };

enum ab_yaml_type { AB_YAML_NULL, AB_YAML_BOOL, AB_YAML_INT, AB_YAML_FLOAT, AB_YAML_STRING, AB_YAML_LIST, AB_YAML_MAP };

struct ab_yaml_node {
  enum ab_yaml_type type;
  bool boolean;
  int64_t integer;    /* INT; digits that do not fit make a FLOAT */
  double number;      /* INT and FLOAT; may be infinite or NaN */
  const char *string; /* scalars: as written, quotes resolved */
  const char *text;   /* canonical YAML on one line, for the upper three levels; NULL below */
  int line, column;   /* from 1 */
  size_t span;        /* nodes of the subtree, this one included; children follow at once, a map's as key, value ... */
};

struct ab_yaml {
  char *name;                 /* for sentences: the file's path, or what the caller said */
  struct ab_yaml_node *nodes; /* [0] is the root */
  size_t count;
  struct ab_yaml_chunk *chunks; /* private: the strings */
};

/* Parses bytes; name goes into sentences `name:line:column: ...`. An empty text is a null root. AB_EFORMAT.
 * *out owned by the caller, all strings by it. */
ab_status ab_yaml_parse(struct ab_yaml **out, const char *name, const char *bytes, size_t size);
/* Reads and parses a file whose root must be a map (an empty file is an empty map).
 * AB_ENOTFOUND, AB_EIO or AB_EFORMAT. */
ab_status ab_yaml_read(struct ab_yaml **out, const char *path);
/* For a name that comes from data: plain components below folder (ab_file_read_beneath). */
ab_status ab_yaml_read_beneath(struct ab_yaml **out, const char *folder, const char *name);
void ab_yaml_free(struct ab_yaml *yaml);

/* Canonical spelling of a scalar into out, cut to size (NULL and 0: measured only); returns the full length. */
size_t ab_yaml_spell(char *out, size_t size, const struct ab_yaml_node *node);
/* A document of one string, as if quoted. */
ab_status ab_yaml_string(struct ab_yaml **out, const char *name, const char *text);

/* The type as a word with its article, for sentences: "a boolean", "an integer" ... */
const char *ab_yaml_type_name(enum ab_yaml_type type);
