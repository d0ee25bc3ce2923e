/* Hand faults: each is a table of kernels, a mesh door, a loader or an observer that does one thing wrong, put between
 * a side and the world without touching an engine.
 *
 * | name                  | what is wrong                                                                          |
 * |-----------------------|----------------------------------------------------------------------------------------|
 * | one_ulp               | one ulp in the largest element of a weight                                             |
 * | transposed_leaf       | a square weight is loaded transposed                                                   |
 * | swapped_stages        | the stage of `layer` and the one after it are given each other's weights               |
 * | stale_gather          | every repeat is given the weights of repeat 0                                          |
 * | wrong_ring_shift      | activations go two stages further instead of one                                       |
 * | positions_of_first    | every microbatch is given the positions of microbatch 0                                |
 * | nan                   | a NaN in the first element of what a kernel makes of one microbatch                    |
 * | dropped_microbatch    | a microbatch adds nothing to any weight gradient                                       |
 * | unordered_sum         | a weight gradient is summed over the second half of the tokens first                   |
 * | missing_leaf          | the gradient of a leaf is never observed                                               |
 */
#pragma once

#include "both_sides.h"

/* Where; -1 and "-" where the fault has no such coordinate. */
struct fault_place {
  int layer, microbatch;
  char tensor[AB_NAME_MAX]; /* a parameter */
};

/* Everything a run needs to have the fault; one at a time. NULL for an unknown name. c and place are borrowed. */
const struct side_hooks *fault_put(const char *name, const struct fault_place *place, const struct ab_case *c);
/* The run is over: frees. Fails the test when the fault was never met. */
void fault_remove(void);
/* NULL ends. */
extern const char *const fault_names[];
