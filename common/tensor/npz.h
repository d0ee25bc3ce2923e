/* NumPy archives, .npz: a zip of .npy members, stored or deflated. Read strictly: one disk, no encryption, no zip64,
 * sizes that fit the file, members of dtype <f4, <f8, <i4, <i8 or |u1. Object arrays hold pickles, which are
 * programs: they are refused. AB_EFORMAT names file, member, found and expected.
 */
#pragma once

#include "safetensors.h"

struct ab_npz;
/* Reads the directory and the header of every member. */
ab_status ab_npz_open(struct ab_npz **out, const char *path);
/* Accepts NULL. */
void ab_npz_close(struct ab_npz *archive);
/* In the order of the directory; names without .npy. */
size_t ab_npz_size(const struct ab_npz *archive);
const struct ab_safetensor *ab_npz_at(const struct ab_npz *archive, size_t i);
/* Whether its elements stand in Fortran order: the first axis is the fastest. */
bool ab_npz_fortran(const struct ab_npz *archive, const struct ab_safetensor *tensor);
/* The elements as they stand into a buffer of tensor->bytes; the member's checksum is checked. */
ab_status ab_npz_read(const struct ab_npz *archive, const struct ab_safetensor *tensor, void *out);
