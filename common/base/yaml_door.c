#include "yaml_door.h"

#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "file.h"
#include "mem.h"
#include "yaml_scalar.h"

enum { CHUNK_BYTES = 16 << 10, TEXT_LEVELS = 3 };

/* Strings live in chunks, so that growing never moves them. */
struct ab_yaml_chunk {
  struct ab_yaml_chunk *next;
  size_t used, size;
  char bytes[];
};

struct level {
  size_t node;
  bool awaits_value;
};

struct reader {
  yaml_parser_t parser;
  struct ab_yaml *yaml;
  size_t capacity, keys, depth, documents;
  struct level levels[AB_YAML_MAX_DEPTH];
};

/* Strings */

static ab_status take_bytes(struct ab_yaml *yaml, char **out, size_t bytes) {
  struct ab_yaml_chunk *chunk = yaml->chunks;
  if (!chunk || chunk->size - chunk->used < bytes) {
    size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
    AB_TRY(ab_mem_new(&chunk, 1, sizeof *chunk + size));
    chunk->size = size;
    chunk->next = yaml->chunks;
    yaml->chunks = chunk;
  }
  *out = chunk->bytes + chunk->used;
  chunk->used += bytes;
  return AB_OK;
}

static ab_status take_string(struct ab_yaml *yaml, const char **out, const char *bytes, size_t length) {
  char *copy = NULL;
  AB_TRY(take_bytes(yaml, &copy, length + 1));
  memcpy(copy, bytes, length);
  copy[length] = '\0';
  *out = copy;
  return AB_OK;
}

/* Refusals */

static ab_status refuse(const struct reader *r, yaml_mark_t mark, const char *what, const char *name) {
  const char *quote = name ? "'" : "";
  return AB_FAIL(AB_EFORMAT, "%s:%zu:%zu: %s%s%s%.64s%s", r->yaml->name, mark.line + 1, mark.column + 1, what,
                 name ? " " : "", quote, name ? name : "", quote);
}

static ab_status libyaml_failure(const struct reader *r) {
  const yaml_parser_t *p = &r->parser;
  if (p->error == YAML_MEMORY_ERROR) return AB_FAIL(AB_ENOMEM, "%s: no memory to parse YAML", r->yaml->name);
  if (p->error == YAML_READER_ERROR)
    return AB_FAIL(AB_EFORMAT, "%s: byte %zu: %s, expected UTF-8 text", r->yaml->name, p->problem_offset, p->problem);
  return refuse(r, p->problem_mark, p->problem ? p->problem : "malformed YAML", NULL);
}

static ab_status check_decorations(const struct reader *r, const yaml_event_t *e, const yaml_char_t *anchor,
                                   const yaml_char_t *tag) {
  if (anchor) return refuse(r, e->start_mark, "anchors are not supported here, found", (const char *)anchor);
  if (tag) return refuse(r, e->start_mark, "tags are not supported here, found", (const char *)tag);
  return AB_OK;
}

/* Nodes */

static ab_status check_key(struct reader *r, const yaml_event_t *e) {
  if (e->type != YAML_SCALAR_EVENT)
    return refuse(r, e->start_mark, "a key must be a name, found a list or map", NULL);
  if (e->data.scalar.length == 0) return refuse(r, e->start_mark, "a key must be a name, found nothing", NULL);
  if (e->data.scalar.plain_implicit && strcmp((const char *)e->data.scalar.value, "<<") == 0)
    return refuse(r, e->start_mark, "merge keys are not supported here, found", "<<");
  if (++r->keys > AB_YAML_MAX_KEYS) {
    char limit[64];
    snprintf(limit, sizeof limit, "more than %d keys", AB_YAML_MAX_KEYS);
    return refuse(r, e->start_mark, limit, NULL);
  }
  return AB_OK;
}

/* A new node for the event; in a map, every other child is a key. */
static ab_status add_node(struct reader *r, const yaml_event_t *e, struct ab_yaml_node **out) {
  struct ab_yaml *y = r->yaml;
  struct level *level = r->depth ? &r->levels[r->depth - 1] : NULL;
  if (level && y->nodes[level->node].type == AB_YAML_MAP) {
    if (!level->awaits_value) AB_TRY(check_key(r, e));
    level->awaits_value = !level->awaits_value;
  }
  if (y->count == r->capacity) {
    size_t capacity = r->capacity ? 2 * r->capacity : 64;
    AB_TRY(ab_mem_resize(&y->nodes, capacity, sizeof *y->nodes));
    r->capacity = capacity;
  }
  struct ab_yaml_node *node = &y->nodes[y->count++];
  *node = (struct ab_yaml_node){.span = 1};
  node->line = (int)e->start_mark.line + 1;
  node->column = (int)e->start_mark.column + 1;
  *out = node;
  return AB_OK;
}

static ab_status on_scalar(struct reader *r, const yaml_event_t *e) {
  struct ab_yaml_node *node = NULL;
  AB_TRY(check_decorations(r, e, e->data.scalar.anchor, e->data.scalar.tag));
  const char *value = (const char *)e->data.scalar.value;
  if (memchr(value, '\0', e->data.scalar.length))
    return refuse(r, e->start_mark, "a text with a NUL character is not supported here", NULL);
  AB_TRY(add_node(r, e, &node));
  AB_TRY(take_string(r->yaml, &node->string, value, e->data.scalar.length));
  node->type = AB_YAML_STRING;
  if (e->data.scalar.plain_implicit && e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE) ab_yaml_type_plain(node);
  return AB_OK;
}

static ab_status open_level(struct reader *r, const yaml_event_t *e, enum ab_yaml_type type) {
  struct ab_yaml_node *node = NULL;
  if (r->depth == AB_YAML_MAX_DEPTH) {
    char limit[64];
    snprintf(limit, sizeof limit, "nested deeper than %d levels", AB_YAML_MAX_DEPTH);
    return refuse(r, e->start_mark, limit, NULL);
  }
  AB_TRY(add_node(r, e, &node));
  node->type = type;
  r->levels[r->depth++] = (struct level){.node = (size_t)(node - r->yaml->nodes)};
  return AB_OK;
}

static ab_status on_list(struct reader *r, const yaml_event_t *e) {
  AB_TRY(check_decorations(r, e, e->data.sequence_start.anchor, e->data.sequence_start.tag));
  return open_level(r, e, AB_YAML_LIST);
}

static ab_status on_map(struct reader *r, const yaml_event_t *e) {
  AB_TRY(check_decorations(r, e, e->data.mapping_start.anchor, e->data.mapping_start.tag));
  return open_level(r, e, AB_YAML_MAP);
}

static ab_status on_end(struct reader *r, const yaml_event_t *e) {
  (void)e;
  size_t node = r->levels[--r->depth].node;
  r->yaml->nodes[node].span = r->yaml->count - node;
  return AB_OK;
}

static ab_status on_document(struct reader *r, const yaml_event_t *e) {
  if (r->documents++) return refuse(r, e->start_mark, "a second document is not supported here", NULL);
  if (e->data.document_start.tag_directives.start != e->data.document_start.tag_directives.end)
    return refuse(r, e->start_mark, "tag directives are not supported here", NULL);
  return AB_OK;
}

static ab_status on_alias(struct reader *r, const yaml_event_t *e) {
  return refuse(r, e->start_mark, "aliases are not supported here, found", (const char *)e->data.alias.anchor);
}

static ab_status dispatch(struct reader *r, const yaml_event_t *e) {
  switch (e->type) {
  case YAML_SCALAR_EVENT: return on_scalar(r, e);
  case YAML_SEQUENCE_START_EVENT: return on_list(r, e);
  case YAML_MAPPING_START_EVENT: return on_map(r, e);
  case YAML_SEQUENCE_END_EVENT:
  case YAML_MAPPING_END_EVENT: return on_end(r, e);
  case YAML_DOCUMENT_START_EVENT: return on_document(r, e);
  case YAML_ALIAS_EVENT: return on_alias(r, e);
  default: return AB_OK;
  }
}

static ab_status read_events(struct reader *r) {
  for (bool more = true; more;) {
    yaml_event_t event;
    if (!yaml_parser_parse(&r->parser, &event)) return libyaml_failure(r);
    ab_status status = dispatch(r, &event);
    more = event.type != YAML_STREAM_END_EVENT;
    yaml_event_delete(&event);
    AB_TRY(status);
  }
  return AB_OK;
}

/* Canonical text */

struct line {
  char *out; /* NULL while measuring */
  size_t used, size;
};

static void put_text(struct line *line, const char *text) {
  size_t length = strlen(text);
  if (line->out) memcpy(line->out + line->used, text, length + 1);
  line->used += length;
}

static void put_scalar(struct line *line, const struct ab_yaml_node *node) {
  line->used += ab_yaml_spell(line->out ? line->out + line->used : NULL, line->size - line->used * !!line->out, node);
}

/* Recursion is bounded by AB_YAML_MAX_DEPTH. */
static void put_node(struct line *line, const struct ab_yaml_node *node) {
  if (node->type < AB_YAML_LIST) {
    put_scalar(line, node);
    return;
  }
  bool map = node->type == AB_YAML_MAP, value = false;
  put_text(line, map ? "{" : "[");
  for (const struct ab_yaml_node *child = node + 1; child < node + node->span; child += child->span) {
    if (child > node + 1) put_text(line, value ? ": " : ", ");
    put_node(line, child);
    value = map && !value;
  }
  put_text(line, map ? "}" : "]");
}

static ab_status spell_node(struct ab_yaml *y, struct ab_yaml_node *node) {
  struct line line = {0};
  put_node(&line, node);
  line.size = line.used + 1;
  AB_TRY(take_bytes(y, &line.out, line.size));
  line.used = 0;
  put_node(&line, node);
  node->text = line.out;
  return AB_OK;
}

static ab_status spell_level(struct ab_yaml *y, struct ab_yaml_node *node, int levels) {
  AB_TRY(spell_node(y, node));
  if (node->type < AB_YAML_LIST || levels == 1) return AB_OK;
  for (struct ab_yaml_node *child = node + 1; child < node + node->span; child += child->span)
    AB_TRY(spell_level(y, child, levels - 1));
  return AB_OK;
}

/* The door */

static ab_status add_null_root(struct reader *r) {
  yaml_event_t nothing = {0};
  struct ab_yaml_node *root = NULL;
  AB_TRY(add_node(r, &nothing, &root));
  root->string = "";
  return AB_OK;
}

static ab_status fill(struct ab_yaml *y, const char *name, const char *bytes, size_t size) {
  struct reader r = {.yaml = y};
  AB_TRY(ab_mem_string(&y->name, name));
  if (size > AB_YAML_MAX_BYTES)
    return AB_FAIL(AB_EFORMAT, "%s: %zu bytes, expected at most %d", name, size, AB_YAML_MAX_BYTES);
  if (!yaml_parser_initialize(&r.parser)) return AB_FAIL(AB_ENOMEM, "%s: no memory to parse YAML", name);
  yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&r.parser, (const unsigned char *)bytes, size);
  ab_status status = read_events(&r);
  yaml_parser_delete(&r.parser);
  AB_TRY(status);
  if (y->count == 0) AB_TRY(add_null_root(&r));
  AB_TRY(ab_yaml_check_keys(y, r.keys));
  return spell_level(y, &y->nodes[0], TEXT_LEVELS);
}

ab_status ab_yaml_parse(struct ab_yaml **out, const char *name, const char *bytes, size_t size) {
  struct ab_yaml *yaml = NULL;
  AB_TRY(ab_mem_new(&yaml, 1, sizeof *yaml));
  ab_status status = fill(yaml, name, bytes, size);
  if (status != AB_OK) ab_yaml_free(yaml);
  AB_TRY(status);
  *out = yaml;
  return AB_OK;
}

static ab_status fill_string(struct ab_yaml *y, const char *name, const char *text) {
  struct ab_yaml_node *node = NULL;
  AB_TRY(ab_mem_string(&y->name, name));
  AB_TRY(ab_mem_new(&y->nodes, 1, sizeof *y->nodes));
  node = &y->nodes[0];
  y->count = 1;
  *node = (struct ab_yaml_node){.type = AB_YAML_STRING, .line = 1, .column = 1, .span = 1};
  AB_TRY(take_string(y, &node->string, text, strlen(text)));
  return spell_level(y, node, 1);
}

ab_status ab_yaml_string(struct ab_yaml **out, const char *name, const char *text) {
  struct ab_yaml *yaml = NULL;
  AB_TRY(ab_mem_new(&yaml, 1, sizeof *yaml));
  ab_status status = fill_string(yaml, name, text);
  if (status != AB_OK) ab_yaml_free(yaml);
  AB_TRY(status);
  *out = yaml;
  return AB_OK;
}

/* Consumes bytes. */
static ab_status parse_map(struct ab_yaml **out, const char *name, char *bytes, size_t size) {
  struct ab_yaml *yaml = NULL;
  ab_status status = ab_yaml_parse(&yaml, name, bytes, size);
  ab_mem_free(bytes);
  AB_TRY(status);
  struct ab_yaml_node *root = &yaml->nodes[0];
  if (root->type == AB_YAML_NULL) root->type = AB_YAML_MAP;
  if (root->type != AB_YAML_MAP)
    status = AB_FAIL(AB_EFORMAT, "%s:%d:%d: %s, expected a map of `key: value` lines", name, root->line, root->column,
                     ab_yaml_type_name(root->type));
  if (status == AB_OK) *out = yaml;
  else ab_yaml_free(yaml);
  return status;
}

ab_status ab_yaml_read(struct ab_yaml **out, const char *path) {
  char *bytes = NULL;
  size_t size = 0;
  AB_TRY(ab_file_read(&bytes, &size, path, AB_YAML_MAX_BYTES));
  return parse_map(out, path, bytes, size);
}

ab_status ab_yaml_read_beneath(struct ab_yaml **out, const char *folder, const char *name) {
  char *bytes = NULL, path[4096];
  size_t size = 0;
  AB_TRY(ab_file_read_beneath(&bytes, &size, folder, name, AB_YAML_MAX_BYTES));
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return parse_map(out, path, bytes, size);
}

void ab_yaml_free(struct ab_yaml *yaml) {
  if (!yaml) return;
  for (struct ab_yaml_chunk *chunk = yaml->chunks, *next; chunk; chunk = next) {
    next = chunk->next;
    ab_mem_free(chunk);
  }
  ab_mem_free(yaml->nodes);
  ab_mem_free(yaml->name);
  ab_mem_free(yaml);
}

const char *ab_yaml_type_name(enum ab_yaml_type type) {
  static const char *const names[] = {"null", "a boolean", "an integer", "a float", "a string", "a list", "a map"};
  return names[type];
}
