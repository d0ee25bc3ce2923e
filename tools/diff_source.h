/* Tensors of a .safetensors or .npz file, or of all those of a folder (a bundle or a dump) with the metrics of its
 * expected.json, as a recording whose values are read again when they are asked for. One tensor at most is in memory.
 */
#pragma once

#include "diff_map.h"
#include "recording.h"

struct ab_diff_source;
/* name: of the recording. Reads headers only. AB_ENOTFOUND, AB_EIO, AB_EFORMAT name the file. */
ab_status ab_diff_source_open(struct ab_diff_source **out, const char *path, const char *name);
/* Accepts NULL. */
void ab_diff_source_close(struct ab_diff_source *source);
/* Fills the recording: names as the map makes them, digests of the values unless structure_only. AB_EMISMATCH for a
 * name that the map does not know, and for two that become one. */
ab_status ab_diff_source_record(struct ab_diff_source *source, const struct ab_name_map *map, bool structure_only);
/* Borrowed. */
const struct ab_recording *ab_diff_source_recording(const struct ab_diff_source *source);
/* The values of a recorded tensor, borrowed until the next call. */
ab_status ab_diff_source_view(struct ab_diff_source *source, const struct ab_identity *id, struct ab_view *out);
