/* Another commit as a side: builds it in a git worktree of its own, once. */
#pragma once

#include "program.h"

/* The tree with .git that this program was built from; NULL: what it was compiled from. */
const char *ab_revision_source(const char *given);

/* The commit that `rev` names in the repository at `source`, 40 digits and a NUL. AB_ECONFIG with a sentence for an
 * unknown revision, a folder that is no git repository, or no git. */
ab_status ab_revision_find(char commit[48], const char *option, const char *rev, const char *source);

/* Builds ab_compare of that commit below the build folder of this program, in revisions/<commit>/, or takes what is
 * there; *path is its (ab_mem_free). One builds, others wait for it. AB_ECOMM when the build fails: the sentence has
 * the last lines of its log and where it is. AB_ECONFIG when there is no build folder to build in. */
ab_status ab_revision_build(char **path, const char *option, const char *commit, const char *source);
