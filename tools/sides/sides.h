/* The parent's end of the sides: spawns each as a program, takes in its stream, and says how it ended. */
#pragma once

#include "kept.h"
#include "process.h"
#include "program.h"
#include "progress.h"
#include "report.h"

struct ab_case;

/* What to run: this program, or another build of it, in its side mode; or a command (command.h). */
struct ab_side_order {
  const char *label;                 /* "a", "b", "oracle": names its files and its sentences */
  const char *route;                 /* "linen" */
  const struct ab_program *program;  /* NULL: this one */
  const char *command;               /* for /bin/sh -c; NULL: program */
  const char *in, *out;              /* folders of a command: its inputs, and an empty one for its results */
  const struct ab_case *opened;      /* a command's */
  const char *const *case_arguments; /* CONFIG key=value ... and the options that shape the run, NULL at the end */
  const char *scratch;               /* folder for values and stream */
  const struct ab_side_result *against;     /* keep values only where they differ from this one; NULL: keep all */
  const struct ab_side_result *params_from; /* take the parameters of every step from this one and only differentiate */
  bool fingerprints;                 /* send fingerprints of the kept tensors */
  bool terms;                        /* one pass per microbatch, with its cotangent alone, as steps 0, 1 ... */
  bool state;                        /* no activations: of a side that only its kept values are asked of */
  const char *what_if;               /* what_if.h: passes over one step, each with one thing changed; NULL: steps */
  const struct ab_kept_window *window; /* keep the values of this instead; NULL: of what is always kept */
  const char *shake;                 /* what to change on purpose (shake.h); NULL: nothing */
  const char *core;                  /* OPENBLAS_CORETYPE; NULL: the user's choice, else what suits the CPU */
  double timeout;                    /* seconds; 0: none */
  struct ab_progress *progress;      /* told of what comes; NULL: nobody */
};

/* What a command handed over; the rest of what sides observe is not compared. */
struct ab_given {
  bool outside;      /* it was a command */
  bool stream;       /* else a bundle */
  bool params_step1, params_final;
  uint32_t metrics;  /* bit i: ab_metric_fields[i], in every step */
};

struct ab_side_result {
  char name[96];        /* "a (linen)", "b (linen@a7e3fca2d1c0)" */
  struct ab_recording *recording;
  struct ab_kept_values *values; /* NULL when it failed */
  char *stream_path, *values_path;
  struct ab_process_result process;
  struct ab_given given;
  enum ab_exit exit;    /* EQUAL: complete; USAGE: it refused its inputs; SIDE: it failed;
                         * INCOMPARABLE: a command that handed over other names or shapes */
  char reason[1400];    /* a sentence unless complete */
  char last[AB_IDENTITY_TEXT];
};

/* Runs `count` sides at the same time. AB_OK whenever they could be started: look at each result's exit. Results are
 * released with ab_sides_free, whatever is returned. */
ab_status ab_sides_run(struct ab_side_result *out, const struct ab_side_order *orders, size_t count);
void ab_sides_free(struct ab_side_result *results, size_t count);

/* What a process that computes gets beside our own environment: workers are the threads, so each calls a one-thread
 * BLAS of the core that suits this CPU, and idle workers do not spin beside another side. The user's own choice
 * stands. */
struct ab_side_environment {
  const char *entry[4]; /* NULL at the end; borrows from core: do not copy */
  char core[64];
};
/* core: as in the order. */
void ab_side_environment(struct ab_side_environment *out, const char *core);
