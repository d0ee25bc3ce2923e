#include "arena_ledger.h"

#include <string.h>

#include "mem.h"

enum { FIRST_ROOM = 1024 };

static ab_status grow(struct ab_arena_ledger *ledger) {
  size_t room = ledger->room ? 2 * ledger->room : FIRST_ROOM;
  if (ledger->live_count < ledger->room) return AB_OK;
  AB_TRY(ab_mem_resize(&ledger->live, room, sizeof *ledger->live));
  AB_TRY(ab_mem_resize(&ledger->peak, room, sizeof *ledger->peak));
  ledger->room = room;
  return AB_OK;
}

ab_status ab_arena_ledger_take(struct ab_arena_ledger *ledger, struct ab_arena_taker taker, size_t begin,
                               size_t bytes) {
  AB_TRY(grow(ledger));
  ledger->live[ledger->live_count++] = (struct ab_arena_item){.taker = taker, .begin = begin, .bytes = bytes};
  return AB_OK;
}

/* An arena only grows between two releases, so that every peak stands when one comes. */
static void note_peak(struct ab_arena_ledger *ledger) {
  const struct ab_arena_item *last = ledger->live_count ? &ledger->live[ledger->live_count - 1] : NULL;
  if (!last || last->begin + last->bytes <= ledger->peak_bytes) return;
  ledger->peak_bytes = last->begin + last->bytes;
  ledger->peak_count = ledger->live_count;
  memcpy(ledger->peak, ledger->live, ledger->live_count * sizeof *ledger->live);
}

void ab_arena_ledger_release(struct ab_arena_ledger *ledger, size_t mark) {
  note_peak(ledger);
  while (ledger->live_count && ledger->live[ledger->live_count - 1].begin >= mark) ledger->live_count--;
}

static bool same(const struct ab_arena_taker *a, const struct ab_arena_taker *b) {
  return strcmp(a->file, b->file) == 0 && strcmp(a->function, b->function) == 0 && strcmp(a->pointer, b->pointer) == 0;
}

void ab_arena_ledger_close(struct ab_arena_ledger *ledger) {
  size_t takers = 0;
  note_peak(ledger);
  for (size_t i = 0; i < ledger->peak_count; i++) {
    struct ab_arena_item item = ledger->peak[i];
    size_t at = 0;
    while (at < takers && !same(&ledger->peak[at].taker, &item.taker)) at++;
    if (at == takers) ledger->peak[takers++] = item;
    else ledger->peak[at].bytes += item.bytes;
  }
  ledger->peak_count = takers;
  ledger->live_count = 0;
}

void ab_arena_ledger_free(struct ab_arena_ledger *ledger) {
  ab_mem_free(ledger->live);
  ab_mem_free(ledger->peak);
  *ledger = (struct ab_arena_ledger){0};
}
