/* Shared by the parts of the golden library only. */
#pragma once

#include "golden.h"
#include "json.h"

/* A golden with its seal, as a member of a larger file. */
ab_status ab_golden_put(struct ab_json_writer *writer, const char *key, const struct ab_golden *golden);
ab_status ab_golden_from(struct ab_golden **out, const struct ab_json *root);
/* AB_EFORMAT for git's conflict markers. */
ab_status ab_golden_check_merged(const char *text, size_t size, const char *what);

/* Members of the open object: what the content digest is of, and all but the seal. */
void ab_golden_put_content(struct ab_json_writer *writer, const struct ab_golden *golden);
void ab_golden_put_members(struct ab_json_writer *writer, const struct ab_golden *golden);
void ab_golden_put_changelog(struct ab_json_writer *writer, const struct ab_golden *golden);
ab_status ab_golden_get_changelog(struct ab_golden *golden, const struct ab_json *root);
void ab_golden_free_changelog(struct ab_golden *golden);

/* The digest of all other members, 32 hex digits. */
ab_status ab_golden_seal(char out[33], const struct ab_golden *golden);
/* AB_EFORMAT unless `root`, which was read as this golden, states its seal. */
ab_status ab_golden_check_seal(const struct ab_golden *golden, const struct ab_json *root);
