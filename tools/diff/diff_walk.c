#include "diff_walk.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include "mem.h"

/* A tensor that both have: rows of both recordings. */
struct pair {
  size_t row[2];
  bool straight; /* both: it is read block by block */
  struct ab_difference difference;
};

struct ab_diff_walk {
  struct ab_diff_source *source[2];
  struct pair *pair; /* in the order in which they are read */
  size_t pairs;
  size_t *pair_of; /* by row of b: index + 1, 0 for none */
};

/* A block of a pair; turns are taken in the order of `number`. */
struct ticket {
  size_t number, pair;
  uint64_t begin; /* byte */
  size_t bytes;
  bool last;
};

/* What the threads share. Sums are only touched by the one whose turn it is. */
struct crew {
  struct ab_diff_walk *walk;
  pthread_mutex_t lock;
  pthread_cond_t turned;
  struct ticket next;
  size_t turn;
  struct ab_difference_walk sums;
  ab_status status; /* the first failure */
  char sentence[1024];
};

struct hand {
  struct crew *crew;
  unsigned char *block[2];
  pthread_t thread;
};

static const struct ab_observation *observation_of(const struct ab_diff_walk *w, int side, size_t row) {
  return &ab_diff_source_recording(w->source[side])->observation[row].observation;
}

static const struct ab_observation *reference_of(const struct ab_diff_walk *w, const struct pair *pair) {
  return observation_of(w, 1, pair->row[1]);
}

static uint64_t bytes_of(const struct ab_diff_walk *w, const struct pair *pair) {
  const struct ab_observation *o = reference_of(w, pair);
  return o->summary.count * ab_dtype_size(o->dtype);
}

static ab_status begin(struct ab_difference_walk *sums, const struct ab_diff_walk *w, const struct pair *pair) {
  const struct ab_observation *o = reference_of(w, pair);
  return ab_difference_begin(sums, o->dtype, o->dtype, (size_t)o->summary.count);
}

static void add_block(struct ab_difference_walk *sums, enum ab_dtype dtype, unsigned char *const block[2],
                      size_t bytes) {
  struct ab_view view[2];
  for (int side = 0; side < 2; side++)
    view[side] = (struct ab_view){.dtype = dtype, .shape = {1, {(int64_t)(bytes / ab_dtype_size(dtype))}},
                                  .stride = {1}, .data = block[side]};
  ab_difference_add(sums, &view[0], &view[1]);
}

static ab_status read_block(const struct ab_diff_walk *w, const struct ticket *t, unsigned char *const block[2]) {
  for (int side = 0; side < 2; side++)
    AB_TRY(ab_diff_source_read(w->source[side], w->pair[t->pair].row[side], block[side], t->begin, t->bytes));
  return AB_OK;
}

/* Values whose squares leave the range of doubles are rare: read once more by this thread alone. */
static ab_status walk_again(struct crew *crew, const struct ticket *last, unsigned char *const block[2]) {
  const struct ab_diff_walk *w = crew->walk;
  struct ticket t = *last;
  uint64_t bytes = bytes_of(w, &w->pair[t.pair]);
  for (t.begin = 0; t.begin < bytes; t.begin += t.bytes) {
    t.bytes = bytes - t.begin < DIFF_BLOCK ? (size_t)(bytes - t.begin) : DIFF_BLOCK;
    AB_TRY(read_block(w, &t, block));
    add_block(&crew->sums, crew->sums.d.dtype_b, block, t.bytes);
  }
  return AB_OK;
}

static ab_status measure(struct crew *crew, const struct ticket *t, unsigned char *const block[2]) {
  struct pair *pair = &crew->walk->pair[t->pair];
  if (t->begin == 0) AB_TRY(begin(&crew->sums, crew->walk, pair));
  add_block(&crew->sums, crew->sums.d.dtype_b, block, t->bytes);
  if (!t->last || ab_difference_end(&pair->difference, &crew->sums)) return AB_OK;
  AB_TRY(walk_again(crew, t, block));
  ab_difference_end(&pair->difference, &crew->sums);
  return AB_OK;
}

/* Under the lock. False when there is nothing left to do. */
static bool take(struct ticket *out, struct crew *crew) {
  const struct ab_diff_walk *w = crew->walk;
  struct ticket *next = &crew->next;
  while (next->pair < w->pairs && !w->pair[next->pair].straight) next->pair++;
  if (next->pair == w->pairs || crew->status != AB_OK) return false;
  uint64_t left = bytes_of(w, &w->pair[next->pair]) - next->begin;
  next->last = left <= DIFF_BLOCK;
  next->bytes = next->last ? (size_t)left : DIFF_BLOCK;
  *out = *next;
  next->number++;
  next->pair += next->last;
  next->begin = next->last ? 0 : next->begin + DIFF_BLOCK;
  return true;
}

/* Sentences belong to a thread: the first one is kept for the one that asks. */
static void note(struct crew *crew, ab_status status) {
  if (status == AB_OK || crew->status != AB_OK) return;
  crew->status = status;
  snprintf(crew->sentence, sizeof crew->sentence, "%s", ab_status_message());
}

static void *work(void *argument) {
  struct hand *hand = argument;
  struct crew *crew = hand->crew;
  struct ticket t;
  pthread_mutex_lock(&crew->lock);
  while (take(&t, crew)) {
    pthread_mutex_unlock(&crew->lock);
    ab_status status = read_block(crew->walk, &t, hand->block);
    pthread_mutex_lock(&crew->lock);
    while (crew->turn != t.number) pthread_cond_wait(&crew->turned, &crew->lock);
    bool go = status == AB_OK && crew->status == AB_OK;
    pthread_mutex_unlock(&crew->lock);
    if (go) status = measure(crew, &t, hand->block);
    pthread_mutex_lock(&crew->lock);
    note(crew, status);
    crew->turn++;
    pthread_cond_broadcast(&crew->turned);
  }
  pthread_mutex_unlock(&crew->lock);
  return NULL;
}

/* Processors that this process may use. */
static int threads(void) {
  cpu_set_t set;
  int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return count < 1 ? 1 : count < DIFF_THREADS ? count : DIFF_THREADS;
}

/* The caller is one of the hands; a thread that cannot be started is one hand less. */
static void work_together(struct crew *crew, unsigned char *room, int count) {
  struct hand hand[DIFF_THREADS];
  bool started[DIFF_THREADS] = {false};
  for (int i = 0; i < count; i++) {
    unsigned char *at = room + (size_t)i * 2 * DIFF_BLOCK;
    hand[i] = (struct hand){.crew = crew, .block = {at, at + DIFF_BLOCK}};
    if (i) started[i] = pthread_create(&hand[i].thread, NULL, work, &hand[i]) == 0;
  }
  work(&hand[0]);
  for (int i = 1; i < count; i++)
    if (started[i]) pthread_join(hand[i].thread, NULL);
}

static ab_status walk_straight(struct ab_diff_walk *w) {
  struct crew crew = {.walk = w, .lock = PTHREAD_MUTEX_INITIALIZER, .turned = PTHREAD_COND_INITIALIZER};
  unsigned char *room;
  int count = threads();
  AB_TRY(ab_mem_new(&room, (size_t)count * 2, DIFF_BLOCK));
  work_together(&crew, room, count);
  ab_mem_free(room);
  return crew.status == AB_OK ? AB_OK : AB_FAIL(crew.status, "%s", crew.sentence);
}

static ab_status walk_held(struct ab_diff_walk *w) {
  for (size_t i = 0; i < w->pairs; i++) {
    struct pair *pair = &w->pair[i];
    struct ab_view view[2];
    if (pair->straight) continue;
    for (int side = 0; side < 2; side++) AB_TRY(ab_diff_source_view(w->source[side], pair->row[side], &view[side]));
    AB_TRY(ab_difference(&pair->difference, &view[0], &view[1]));
  }
  return AB_OK;
}

/* Row of the other side, if it can be measured; AB_NO_ROW else. */
#define AB_NO_ROW ((size_t)-1)
static size_t partner(const struct ab_diff_walk *w, int side, size_t row) {
  const struct ab_recording *other = ab_diff_source_recording(w->source[!side]);
  const struct ab_observation *o = observation_of(w, side, row);
  const struct ab_recorded *found = ab_recording_find(other, &o->id);
  bool fits = found && ab_shape_equal(&found->observation.shape, &o->shape) && found->observation.dtype == o->dtype;
  return fits ? (size_t)(found - other->observation) : AB_NO_ROW;
}

/* Rows of one tensor that is held follow each other on their own side: its order is taken. */
static int leading_side(const struct ab_diff_walk *w) {
  const struct ab_recording *a = ab_diff_source_recording(w->source[0]);
  for (size_t i = 0; i < a->observations; i++)
    if (!ab_diff_source_straight(w->source[0], i)) return 0;
  return 1;
}

static void join(struct ab_diff_walk *w) {
  int side = leading_side(w);
  for (size_t row = 0; row < ab_diff_source_recording(w->source[side])->observations; row++) {
    size_t other = partner(w, side, row);
    if (other == AB_NO_ROW) continue;
    struct pair *pair = &w->pair[w->pairs++];
    pair->row[side] = row;
    pair->row[!side] = other;
    pair->straight = ab_diff_source_straight(w->source[0], pair->row[0]) &&
                     ab_diff_source_straight(w->source[1], pair->row[1]);
    w->pair_of[pair->row[1]] = w->pairs;
  }
}

static ab_status walk_all(struct ab_diff_walk *w) {
  size_t rows = ab_diff_source_recording(w->source[1])->observations;
  AB_TRY(ab_mem_new(&w->pair, rows + 1, sizeof *w->pair));
  AB_TRY(ab_mem_new(&w->pair_of, rows + 1, sizeof *w->pair_of));
  join(w);
  AB_TRY(walk_straight(w));
  return walk_held(w);
}

ab_status ab_diff_walk_run(struct ab_diff_walk **out, struct ab_diff_source *a, struct ab_diff_source *b) {
  struct ab_diff_walk *w;
  AB_TRY(ab_mem_new(&w, 1, sizeof *w));
  w->source[0] = a;
  w->source[1] = b;
  ab_status status = walk_all(w);
  if (status == AB_OK) *out = w;
  else ab_diff_walk_free(w);
  return status;
}

void ab_diff_walk_free(struct ab_diff_walk *w) {
  if (!w) return;
  ab_mem_free(w->pair);
  ab_mem_free(w->pair_of);
  ab_mem_free(w);
}

ab_status ab_diff_walk_find(struct ab_difference *out, const struct ab_diff_walk *w, const struct ab_identity *id) {
  const struct ab_recording *b = ab_diff_source_recording(w->source[1]);
  const struct ab_recorded *found = ab_recording_find(b, id);
  size_t pair = found ? w->pair_of[found - b->observation] : 0;
  if (!pair) return AB_FAIL(AB_ENOTFOUND, "'%s' is not in both", id->tensor);
  *out = w->pair[pair - 1].difference;
  return AB_OK;
}
