/* Tensors of a .safetensors or .npz file, or of all those of a folder (a bundle or a dump) with the metrics of its
 * expected.json, as a recording whose values are read when they are asked for.
 */
#pragma once

#include "diff_map.h"
#include "recording.h"

struct ab_diff_source;
/* name: of the recording. Reads headers only. AB_ENOTFOUND, AB_EIO, AB_EFORMAT name the file. */
ab_status ab_diff_source_open(struct ab_diff_source **out, const char *path, const char *name);
/* Accepts NULL. */
void ab_diff_source_close(struct ab_diff_source *source);
/* Fills the recording from the headers: names as the map makes them, no values, no digests. `metrics`: those of
 * expected.json, too. AB_EMISMATCH for a name that the map does not know, and for two that become one. */
ab_status ab_diff_source_record(struct ab_diff_source *source, const struct ab_name_map *map, bool metrics);
/* Borrowed. */
const struct ab_recording *ab_diff_source_recording(const struct ab_diff_source *source);
/* Row i of the recording's observations: its bytes lie in the file one behind the other, in row-major order. */
bool ab_diff_source_straight(const struct ab_diff_source *source, size_t row);
/* Of a straight row; may be called by several threads. */
ab_status ab_diff_source_read(const struct ab_diff_source *source, size_t row, void *out, uint64_t begin, size_t bytes);
/* All values of any row, borrowed until the next call; reads the whole tensor into memory, once for rows in a row. */
ab_status ab_diff_source_view(struct ab_diff_source *source, size_t row, struct ab_view *out);
