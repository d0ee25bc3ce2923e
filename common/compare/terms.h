/* The first explanation of a wrong weight gradient in integers: which of its terms are missing, doubled or strangers.
 *
 * The gradient of a layer is the sum of one term per part of the batch (a microbatch, or one of its rows); a backward
 * pass with the cotangent of that part alone gives the true term. A wrong gradient that is a sum of integer multiples
 * of known terms is decoded by solving got = sum c_t g_t in the field of residues modulo 2^61 - 1. No tensor is kept:
 * each becomes its values, as a polynomial, at a few fixed random points. If inputs and weights are random integers,
 * a fit that is not true has a chance of about (elements) 2^-61.
 */
#pragma once

#include "identity.h"

/* rows: parts per microbatch; 1: a term is a whole microbatch. */
struct ab_terms;
ab_status ab_terms_new(struct ab_terms **out, int layers, int microbatches, int rows);
/* Accepts NULL. */
void ab_terms_free(struct ab_terms *terms);

/* The true term of one part, 0 .. microbatches x rows - 1, in gradient `name` of `layer`; each is given once. Residues,
 * or floating point integers. AB_EFORMAT for a value that is none, AB_EMISMATCH for a part or layer out of range, a
 * term given twice or of another size. */
ab_status ab_terms_add(struct ab_terms *terms, int layer, const char *name, int part, const struct ab_view *term);

enum ab_explained {
  AB_EXPLAINED_EQUAL,   /* every term once */
  AB_EXPLAINED_ZERO,    /* no term at all */
  AB_EXPLAINED_SCALED,  /* every term `times` times */
  AB_EXPLAINED_LAYER,   /* the gradient of `layer` */
  AB_EXPLAINED_TERMS,   /* `odd` says which terms are not there once, or are those of another layer */
  AB_EXPLAINED_NOT      /* no small integer multiples of the terms of this layer and one other: a value is wrong */
};

/* How often a part's term of a layer is in the sum. */
struct ab_odd_term {
  int layer, part;
  int64_t times; /* 1 is right for the own layer, 0 for another */
};

enum { AB_ODD_MOST = 64, AB_EXPLANATION = 512 };
struct ab_explanation {
  enum ab_explained kind;
  int layer;
  int64_t times;
  struct ab_odd_term odd[AB_ODD_MOST];
  size_t odds;   /* all of them; those beyond AB_ODD_MOST are not listed */
  bool unique;   /* false: terms depend on each other, and other multiples would do too */
  char text[AB_EXPLANATION]; /* "microbatch 3 is missing, microbatch 1 is there twice"; cut to size */
};

/* AB_EMISMATCH when terms of this gradient were not given, or of another size than `got`; AB_EFORMAT as above. */
ab_status ab_terms_explain(struct ab_explanation *out, const struct ab_terms *terms, int layer, const char *name,
                           const struct ab_view *got);
