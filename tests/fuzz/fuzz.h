/* A fuzz target runs one input through one door of the program, as libFuzzer wants it (`./dev fuzz`, clang) and as the
 * driver of our own does (`./dev test`, any compiler). It aborts, naming what is wrong, when a refusal has no sentence
 * of one line, when memory of ours is left behind, or when what was read does not mean the same the second time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Aborts with the sentence unless `holds`. */
void fuzz_check(bool holds, const char *sentence);
/* True for AB_OK; else the refusal must have its sentence and one of the codes that bad input ends in. */
bool fuzz_read(ab_status status);
/* Counts blocks of ours: end aborts unless as many are live as at begin. */
size_t fuzz_begin(void);
void fuzz_end(size_t live);
/* The path of a file that holds these bytes, the same one at every call. */
const char *fuzz_file(const void *data, size_t size);
/* For doors that open folders: puts a file of these bytes under `name` ("case/expected.json") into a folder that is there
 * until the program ends; that folder's path. */
const char *fuzz_place(const char *name, const void *data, size_t size);
