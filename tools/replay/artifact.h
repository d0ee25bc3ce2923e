/* The cell where a side goes wrong, as a folder that can be judged elsewhere: config.yml, inputs.safetensors,
 * recorded.safetensors, artifact.json.
 *
 * | inputs.safetensors       | shape             |                                                                  |
 * |--------------------------|-------------------|------------------------------------------------------------------|
 * | params/<name>            | the parameter's   | of the layer, before the step                                    |
 * | other/<layer>/<name>     |                   | of the other layers, where all of them fit in AB_ARTIFACT_OTHERS |
 * | x/<part>, dy/<part>      | [rows, length, E] | what the reference put into the cell, and its cotangent          |
 * | positions/<part>, segment_ids/<part> | [rows, length] I32 | of every microbatch of the step                     |
 *
 * recorded.safetensors: <side>/<part>/<phase>/<slot> and, of a sum, <side>/gradient/<name>; sides are a, b, reference.
 * A part is a microbatch; a layer on the whole batch has part 0 alone. artifact.json holds the digests of the other
 * files: what is replayed is what was saved.
 */
#pragma once

#include "bundle.h"
#include "divergence.h"
#include "recording.h"
#include "tree.h"

#define AB_ARTIFACT_FAMILY "abpipe-artifact/"
#define AB_ARTIFACT_SCHEMA AB_ARTIFACT_FAMILY "2"
enum { AB_ARTIFACT_SIDES = 3, AB_ARTIFACT_REFERENCE = 2, AB_ARTIFACT_OTHERS = 64 << 20 /* bytes */,
       AB_ARTIFACT_DIGEST = 33 };
extern const char *const ab_artifact_keys[AB_ARTIFACT_SIDES]; /* "a", "b", "reference" */

struct ab_artifact {
  bool sum;             /* of a weight gradient over all parts; else one cell */
  int wrong;            /* the side that is judged: 0 or 1 */
  struct ab_identity at; /* of the first difference */
  struct ab_where where;
  int parts;            /* microbatches of the step; 1: whole batch */
  char name[AB_ARTIFACT_SIDES][96]; /* "linen", "nnx@...", "sequential" */
  char numerics[16];
  char version[160];    /* who wrote it */
  char fed[160];        /* what the input of the cell is, if it is another known tensor; "" otherwise */
  long devices;
  const struct ab_replayed *said; /* what the replay showed, for people who open the file; NULL: not yet */
  const struct ab_config *config;
  struct ab_config *own_config;   /* of one that was read */
  struct ab_tree *inputs, *recorded; /* owned */
};

/* The part of a cell. */
int ab_artifact_part(const struct ab_artifact *artifact);
/* NULL where the artifact has none. */
const struct ab_tensor *ab_artifact_recorded(const struct ab_artifact *artifact, int side, int part,
                                             enum ab_phase phase, const char *slot);
const struct ab_tensor *ab_artifact_gradient(const struct ab_artifact *artifact, int side, const char *name);
const struct ab_tensor *ab_artifact_input(const struct ab_artifact *artifact, const char *what, int part);

/* AB_EIO when folder exists and is neither empty nor an artifact alone. */
ab_status ab_artifact_check(const char *folder);
/* Complete or not there at all; takes the place of an older artifact. */
ab_status ab_artifact_write(const struct ab_artifact *artifact, const char *folder);
/* Of a file's bytes, as golden.h has it. artifact_digest.c */
ab_status ab_artifact_digest(char out[AB_ARTIFACT_DIGEST], const char *path);
/* AB_EFORMAT naming the file when its bytes do not have the digest. */
ab_status ab_artifact_check_file(const char *path, const char *digest);
/* AB_ENOTFOUND, AB_EIO, AB_EFORMAT, AB_EMISMATCH, AB_ESHAPE: what is missing or damaged. Freed by ab_artifact_free. */
ab_status ab_artifact_read(struct ab_artifact *out, const char *folder);
/* What was allocated; accepts a zeroed one. */
void ab_artifact_free(struct ab_artifact *artifact);
