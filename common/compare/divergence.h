/* Where a side leaves its reference, in its own execution order: step by step, forward as the pipeline runs, backward,
 * update. And what a replay of that place showed.
 */
#pragma once

#include "json.h"
#include "verdict.h"

enum { AB_WRITER_NAME = 48 };

/* One tensor or metric on the way. */
struct ab_divergent {
  bool known, metric;
  struct ab_identity id;
  struct ab_where at;             /* of the side that is looked at */
  struct ab_shape shape;
  char writer[AB_WRITER_NAME];    /* operator that writes it; "" outside the layers */
  double distance;                /* relative L2 (or relative difference) to the reference */
  struct ab_difference difference; /* count 0: no values, and the distance is what the norms prove at least */
};

struct ab_divergence {
  char side[96], reference[96];
  struct ab_divergent bit;   /* first differing bit */
  struct ab_divergent above; /* first that is off by more than `limit` */
  struct ab_divergent good;  /* the last equal tensor before `bit` */
  double limit;              /* what rounding alone may do: the floor of the bounded tier */
};

/* Walks got in its order of arrival. Differing: other digests, or a value that is not finite. What only one of both has
 * is structure, and passed over. Nothing differs: bit.known is false. */
void ab_divergence_find(struct ab_divergence *out, const struct ab_recording *got,
                        const struct ab_recording *reference);
/* Takes in the values of a point, and with them its true distance. AB_ESHAPE as ab_difference. */
ab_status ab_divergence_measure(struct ab_divergent *point, const struct ab_view *got, const struct ab_view *reference);

/* What the replay of one cell showed. */
enum { AB_REPLAY_LINES = 8, AB_REPLAY_TEXT = 512 };
struct ab_replayed {
  bool known;
  char kind[16];                 /* "cell", "sum", "outside" */
  char side[96];                 /* whose cell it is */
  char operator[AB_WRITER_NAME]; /* the first that differs given agreed inputs; "" : every one reproduces */
  char fed[160];                 /* what the cell was fed instead: "the weights of layer 2"; "" : nothing else */
  char explains[40];             /* the explanation that this is (explain.h): "other-repeat"; "" : none */
  char line[AB_REPLAY_LINES][AB_REPLAY_TEXT];
  size_t lines;                  /* what does not fit in is left out */
};
__attribute__((format(printf, 2, 3))) void ab_replayed_say(struct ab_replayed *replayed, const char *format, ...);

/* Lines of a report, each with its end, escaped. Owned by the caller. */
ab_status ab_divergence_text(char **out, const struct ab_divergence *divergence, const struct ab_replayed *replayed);
/* Members "divergence" and "replay" of the object that is open; null for NULL and for what is not known. */
void ab_divergence_put(struct ab_json_writer *writer, const struct ab_divergence *divergence,
                       const struct ab_replayed *replayed);
