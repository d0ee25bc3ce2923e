/* The tree behind the JSON door (json*.c and no one else). */
#pragma once

#include "json.h"

/* One value, in preorder: children follow their parent. `text` positions lie in document.text, where every string is
 * unescaped and every string and number ended by a NUL.
 */
struct ab_json {
  uint32_t self;   /* its own index */
  uint32_t next;   /* the index behind all it holds */
  uint32_t length; /* bytes of a string or number, members, elements */
  uint32_t text;   /* string, number: position; object with an index: first slot */
  uint32_t key;    /* position of the key of a member */
  uint32_t line;   /* from 1 */
  uint8_t type;
  bool last;  /* of its container */
  bool plain; /* true; an array of scalars; an object with an index */
};

struct json_document {
  char *text, *what;
  uint32_t *slots; /* of all indexed objects: value index, 0 for empty */
  struct ab_json values[];
};

enum { JSON_SMALL_OBJECT = 16 }; /* members up to which looking through them is as good as an index */

static inline const struct json_document *json_document_of(const struct ab_json *value) {
  const char *first = (const char *)(value - value->self);
  return (const struct json_document *)(const void *)(first - offsetof(struct json_document, values));
}

/* Slots of an object's index: a power of two, at most half full. */
static inline uint32_t json_slot_count(uint32_t members) {
  uint32_t count = 2 * JSON_SMALL_OBJECT;
  while (count < 2 * members) count *= 2;
  return count;
}

/* Bytes looked at, keys compared and values walked over, counted where the test of linear work builds these files for
 * itself (tests/base/meson.build); nothing elsewhere. */
#ifdef AB_JSON_STEPS
extern uint64_t json_steps;
#define JSON_STEPS(n) (json_steps += (n))
#else
#define JSON_STEPS(n) ((void)0)
#endif

uint64_t json_hash(const char *key);
/* The member with this key, or the slot where it belongs is empty and *slot says which. */
const struct ab_json *json_probe(const struct json_document *document, const struct ab_json *object, const char *key,
                                 uint32_t *slot);
