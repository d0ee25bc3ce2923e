/* Shared by the parts of the golden library only. */
#pragma once

#include "golden.h"
#include "json.h"

/* Exactly these members; `keys` ends with NULL, a name that begins with '?' may be missing. AB_EFORMAT. */
ab_status ab_golden_only_keys(const struct ab_json *object, const char *const *keys);
/* XXH3-128 as 32 hex digits. */
void ab_golden_hash(char out[33], const char *text, size_t size);
/* A golden as a member of a larger file. */
void ab_golden_put(struct ab_json_writer *writer, const char *key, const struct ab_golden *golden);
ab_status ab_golden_from(struct ab_golden **out, const struct ab_json *root);
/* AB_EFORMAT for git's conflict markers. */
ab_status ab_golden_check_merged(const char *text, size_t size, const char *what);

void ab_golden_put_changelog(struct ab_json_writer *writer, const struct ab_golden *golden);
ab_status ab_golden_get_changelog(struct ab_golden *golden, const struct ab_json *root);
void ab_golden_free_changelog(struct ab_golden *golden);
