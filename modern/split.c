#include "graph_node.h"

#include <stdio.h>
#include <string.h>

/* A graphdef mirrors the graph without values: nodes in depth-first order, edges lead by index. */
struct edge {
  const char *name;
  struct nodedef *node;     /* or */
  struct vardef *variable;  /* or */
  const void *fixed;
  struct edge *next;
};

struct nodedef {
  const char *type;
  int index;
  const struct nnx_node *origin; /* while splitting */
  struct edge *first, **end;
  struct nodedef *next;
};

struct vardef {
  const char *path; /* of the first way that leads here */
  nnx_filter type;
  int index;
  const struct nnx_variable *origin; /* while splitting */
  struct vardef *next;
};

struct nnx_graphdef {
  int nodes, variables;
  struct nodedef *node, **node_end;
  struct vardef *variable, **variable_end;
};

struct splitter {
  struct nnx_graphdef *graphdef;
  struct ab_arena *book;
  char path[256];
  size_t length;
};

static struct nodedef *known_node(const struct nnx_graphdef *graphdef, const struct nnx_node *origin) {
  struct nodedef *n = graphdef->node;
  while (n && n->origin != origin) n = n->next;
  return n;
}

static struct vardef *known_variable(const struct nnx_graphdef *graphdef, const struct nnx_variable *origin) {
  struct vardef *v = graphdef->variable;
  while (v && v->origin != origin) v = v->next;
  return v;
}

static ab_status new_variable(struct vardef **out, struct splitter *s, const struct nnx_variable *origin) {
  struct nnx_graphdef *graphdef = s->graphdef;
  struct vardef *v;
  AB_TRY(ab_arena_take_zeroed(s->book, &v, 1, sizeof *v));
  *v = (struct vardef){.type = origin->type, .index = graphdef->variables++, .origin = origin};
  AB_TRY(nnx_text_copy(&v->path, s->book, s->path, s->length));
  *graphdef->variable_end = v;
  graphdef->variable_end = &v->next;
  *out = v;
  return AB_OK;
}

static ab_status new_node(struct nodedef **out, struct splitter *s, const struct nnx_node *origin) {
  struct nnx_graphdef *graphdef = s->graphdef;
  struct nodedef *n;
  AB_TRY(ab_arena_take_zeroed(s->book, &n, 1, sizeof *n));
  *n = (struct nodedef){.type = origin->type, .index = graphdef->nodes++, .origin = origin, .end = &n->first};
  *graphdef->node_end = n;
  graphdef->node_end = &n->next;
  *out = n;
  return AB_OK;
}

static ab_status flatten_node(struct nodedef **out, struct splitter *s, const struct nnx_node *origin);

static ab_status flatten_attribute(struct splitter *s, struct edge *edge, const struct nnx_attribute *attribute) {
  edge->fixed = attribute->fixed;
  if (attribute->module) return flatten_node(&edge->node, s, attribute->module);
  if (!attribute->variable) return AB_OK;
  edge->variable = known_variable(s->graphdef, attribute->variable);
  return edge->variable ? AB_OK : new_variable(&edge->variable, s, attribute->variable);
}

static ab_status enter(struct splitter *s, const char *name) {
  int added = snprintf(s->path + s->length, sizeof s->path - s->length, "%s%s", s->length ? "/" : "", name);
  if (added < 0 || (size_t)added >= sizeof s->path - s->length)
    return AB_FAIL(AB_EFORMAT, "a path below '%.200s' is longer than %zu bytes", s->path, sizeof s->path - 1);
  s->length += (size_t)added;
  return AB_OK;
}

static ab_status flatten_node(struct nodedef **out, struct splitter *s, const struct nnx_node *origin) {
  *out = known_node(s->graphdef, origin);
  if (*out) return AB_OK;
  AB_TRY(new_node(out, s, origin));
  size_t length = s->length;
  for (const struct nnx_attribute *a = origin->first; a; a = a->next) {
    struct edge *edge;
    AB_TRY(ab_arena_take_zeroed(s->book, &edge, 1, sizeof *edge));
    AB_TRY(enter(s, a->name));
    edge->name = a->name;
    AB_TRY(flatten_attribute(s, edge, a));
    *(*out)->end = edge;
    (*out)->end = &edge->next;
    s->length = length;
    s->path[length] = '\0';
  }
  return AB_OK;
}

static ab_status flatten(struct nnx_graphdef **out, struct ab_arena *book, const struct nnx_node *module) {
  struct nnx_graphdef *graphdef;
  AB_TRY(ab_arena_take_zeroed(book, &graphdef, 1, sizeof *graphdef));
  graphdef->node_end = &graphdef->node;
  graphdef->variable_end = &graphdef->variable;
  struct splitter s = {.graphdef = graphdef, .book = book};
  struct nodedef *root;
  AB_TRY(flatten_node(&root, &s, module));
  *out = graphdef;
  return AB_OK;
}

static int first_match(const nnx_filter *filters, int count, nnx_filter type) {
  for (int i = 0; i < count; i++)
    if (filters[i] & type) return i;
  return -1;
}

static ab_status make_room(struct nnx_state *states, const nnx_filter *filters, int count, struct ab_arena *book,
                           const struct nnx_graphdef *graphdef) {
  for (int i = 0; i < count; i++) states[i].count = 0;
  for (const struct vardef *v = graphdef->variable; v; v = v->next) {
    int i = first_match(filters, count, v->type);
    if (i < 0)
      return AB_FAIL(AB_EMISMATCH, "variable '%s' of type %s matches no filter of the split", v->path,
                     nnx_type_name(v->type));
    states[i].count++;
  }
  for (int i = 0; i < count; i++) {
    AB_TRY(ab_arena_take(book, &states[i].leaf, states[i].count, sizeof *states[i].leaf));
    states[i].count = 0;
  }
  return AB_OK;
}

ab_status nnx_split(struct nnx_graphdef **graphdef, struct nnx_state *states, const nnx_filter *filters, int count,
                    struct ab_arena *book, const struct nnx_node *module) {
  AB_TRY(flatten(graphdef, book, module));
  AB_TRY(make_room(states, filters, count, book, *graphdef));
  for (const struct vardef *v = (*graphdef)->variable; v; v = v->next) {
    struct nnx_state *state = &states[first_match(filters, count, v->type)];
    state->leaf[state->count++] = (struct nnx_leaf){v->path, *v->origin};
  }
  return AB_OK;
}

ab_status nnx_state_of(struct nnx_state *out, struct ab_arena *book, const struct nnx_graphdef *graphdef,
                       const struct nnx_node *module, nnx_filter filter) {
  struct nnx_variable *variable;
  AB_TRY(ab_arena_take(book, &out->leaf, (size_t)graphdef->variables, sizeof *out->leaf));
  out->count = 0;
  for (const struct vardef *v = graphdef->variable; v; v = v->next) {
    if (!(v->type & filter)) continue;
    AB_TRY(nnx_get_variable(&variable, module, v->path));
    out->leaf[out->count++] = (struct nnx_leaf){v->path, *variable};
  }
  return AB_OK;
}

struct nnx_leaf *nnx_state_find(const struct nnx_state *state, const char *path) {
  for (size_t i = 0; i < state->count; i++)
    if (strcmp(state->leaf[i].path, path) == 0) return &state->leaf[i];
  return NULL;
}

ab_status nnx_state_copy(struct nnx_state *out, struct ab_arena *book, const struct nnx_state *state) {
  struct nnx_leaf *leaf;
  AB_TRY(ab_arena_take(book, &leaf, state->count, sizeof *leaf));
  memcpy(leaf, state->leaf, state->count * sizeof *leaf);
  *out = (struct nnx_state){state->count, leaf};
  return AB_OK;
}

/* States mostly come in the graphdef's own order: the cursor finds the next leaf at once. */
static const struct nnx_leaf *next_leaf(const struct nnx_state *state, size_t *cursor, const char *path) {
  if (*cursor < state->count && strcmp(state->leaf[*cursor].path, path) == 0) return &state->leaf[(*cursor)++];
  return nnx_state_find(state, path);
}

enum { MAX_STATES = 4 };

static ab_status find_value(const struct nnx_leaf **out, const struct vardef *v, const struct nnx_state *const *states,
                            size_t *cursor, int count) {
  *out = NULL;
  for (int i = 0; i < count && !*out; i++) *out = next_leaf(states[i], &cursor[i], v->path);
  if (!*out)
    return AB_FAIL(AB_ENOTFOUND, "merge: no state holds the variable '%s' of type %s", v->path,
                   nnx_type_name(v->type));
  if ((*out)->variable.type != v->type)
    return AB_FAIL(AB_EMISMATCH, "merge: variable '%s' has type %s, the graphdef says %s", v->path,
                   nnx_type_name((*out)->variable.type), nnx_type_name(v->type));
  return AB_OK;
}

static ab_status merge_variables(struct nnx_variable **variables, struct ab_arena *book,
                                 const struct nnx_graphdef *graphdef, const struct nnx_state *const *states,
                                 int count) {
  size_t cursor[MAX_STATES] = {0};
  struct nnx_variable *block;
  AB_TRY(ab_arena_take(book, &block, (size_t)graphdef->variables, sizeof *block));
  for (const struct vardef *v = graphdef->variable; v; v = v->next) {
    const struct nnx_leaf *leaf;
    AB_TRY(find_value(&leaf, v, states, cursor, count));
    block[v->index] = leaf->variable;
  }
  *variables = block;
  return AB_OK;
}

static ab_status merge_edges(struct nnx_node *nodes, struct nnx_variable *variables, struct ab_arena *book,
                             const struct nodedef *def) {
  struct nnx_node *node = &nodes[def->index];
  for (const struct edge *edge = def->first; edge; edge = edge->next) {
    struct nnx_attribute *attribute;
    AB_TRY(ab_arena_take_zeroed(book, &attribute, 1, sizeof *attribute));
    *attribute = (struct nnx_attribute){.name = edge->name,
                                        .module = edge->node ? &nodes[edge->node->index] : NULL,
                                        .variable = edge->variable ? &variables[edge->variable->index] : NULL,
                                        .fixed = edge->fixed};
    if (node->last) node->last->next = attribute;
    else node->first = attribute;
    node->last = attribute;
  }
  return AB_OK;
}

ab_status nnx_merge(struct nnx_node **out, struct ab_arena *book, const struct nnx_graphdef *graphdef,
                    const struct nnx_state *const *states, int count) {
  struct nnx_node *nodes;
  struct nnx_variable *variables;
  if (count > MAX_STATES)
    return AB_FAIL(AB_EMISMATCH, "merge takes at most %d states, found %d", MAX_STATES, count);
  AB_TRY(merge_variables(&variables, book, graphdef, states, count));
  AB_TRY(ab_arena_take_zeroed(book, &nodes, (size_t)graphdef->nodes, sizeof *nodes));
  for (const struct nodedef *def = graphdef->node; def; def = def->next) {
    nodes[def->index].type = def->type;
    AB_TRY(merge_edges(nodes, variables, book, def));
  }
  *out = nodes;
  return AB_OK;
}

ab_status nnx_update(struct nnx_node *module, const struct nnx_state *state) {
  struct nnx_variable *variable;
  for (size_t i = 0; i < state->count; i++) {
    AB_TRY(nnx_get_variable(&variable, module, state->leaf[i].path));
    *variable = state->leaf[i].variable;
  }
  return AB_OK;
}
