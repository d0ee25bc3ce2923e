/* file_digest FILE...: a line each with the digest that artifact.json has of it, for tests that change such a file. */
#include <stdio.h>

#include "artifact.h"

int main(int argc, char **argv) {
  char digest[AB_ARTIFACT_DIGEST];
  for (int i = 1; i < argc; i++) {
    if (ab_artifact_digest(digest, argv[i]) != AB_OK) return 1;
    puts(digest);
  }
  return 0;
}
