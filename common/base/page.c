#include "page.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "text.h"

enum { GROWTH = 2048 };

static void add(struct ab_page *page, const char *text, size_t length) {
  if (page->failed != AB_OK) return;
  if (page->used + length + 1 > page->room) {
    size_t room = 2 * page->room + length + GROWTH;
    page->failed = ab_mem_resize(&page->text, room, 1);
    if (page->failed != AB_OK) return;
    page->room = room;
  }
  memcpy(page->text + page->used, text, length);
  page->used += length;
  page->text[page->used] = '\0';
}

void ab_page_put(struct ab_page *page, const char *text) { add(page, text, strlen(text)); }

static const char xml_specials[] = "&<>\"'", markdown_specials[] = "&<>\"'`*_[]\\|~#@:!$^", data_specials[] = "%",
                  property_specials[] = "%:,";

/* What each document writes around the two hex digits of its special characters. */
static const struct {
  const char *special, *before, *after;
} documents[AB_ESCAPES] = {[AB_ESCAPE_TERMINAL] = {"", "\\x", ""},
                           [AB_ESCAPE_XML] = {xml_specials, "&#x", ";"},
                           [AB_ESCAPE_MARKDOWN] = {markdown_specials, "&#x", ";"},
                           [AB_ESCAPE_DATA] = {data_specials, "%", ""},
                           [AB_ESCAPE_PROPERTY] = {property_specials, "%", ""}};

static void add_number(struct ab_page *page, enum ab_escape as, char character) {
  char text[16];
  unsigned number = (unsigned char)character;
  snprintf(text, sizeof text, "%s%02X%s", documents[as].before, number, documents[as].after);
  ab_page_put(page, text);
}

/* Whether a runner would read a command at p: "::" where a line may begin, "##[" anywhere, here from its second "#". */
static bool is_command(const char *shown, const char *p) {
  if (p > shown && p[-1] == '#' && p[0] == '#' && p[1] == '[') return true;
  return p[0] == ':' && p[1] == ':' && strspn(shown, " ") == (size_t)(p - shown);
}

/* GitHub makes a link of "www." alone. */
static bool is_link(const char *shown, const char *p) {
  return p > shown && *p == '.' && (p[-1] == 'w' || p[-1] == 'W');
}

static void add_shown(struct ab_page *page, enum ab_escape as, const char *shown) {
  for (const char *p = shown; *p; p++) {
    bool special = strchr(documents[as].special, *p) || (as == AB_ESCAPE_MARKDOWN && is_link(shown, p));
    if (special) add_number(page, as, *p);
    else if (is_command(shown, p)) add_number(page, AB_ESCAPE_TERMINAL, *p);
    else
      add(page, p, 1);
  }
}

void ab_page_escape(struct ab_page *page, enum ab_escape as, const char *text) {
  char *shown;
  size_t size = 4 * strlen(text) + 5;
  if (page->failed != AB_OK) return;
  page->failed = ab_mem_new(&shown, size, 1);
  if (page->failed != AB_OK) return;
  ab_text_escape(shown, size, text);
  add_shown(page, as, shown);
  ab_mem_free(shown);
}

/* The printed text, owned by the caller; NULL after a failure. */
static char *printed(struct ab_page *page, const char *format, va_list args) {
  char *text = NULL;
  va_list again;
  if (page->failed != AB_OK || !format) return NULL;
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, again);
  va_end(again);
  page->failed = ab_mem_new(&text, (size_t)length + 1, 1);
  if (page->failed == AB_OK) vsnprintf(text, (size_t)length + 1, format, args);
  return text;
}

void ab_page_vsay(struct ab_page *page, enum ab_escape as, const char *format, va_list args) {
  char *text = printed(page, format, args);
  if (text) ab_page_escape(page, as, text);
  ab_mem_free(text);
}

void ab_page_say(struct ab_page *page, enum ab_escape as, const char *format, ...) {
  va_list args;
  va_start(args, format);
  ab_page_vsay(page, as, format, args);
  va_end(args);
}

void ab_page_print(struct ab_page *page, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *text = printed(page, format, args);
  va_end(args);
  if (text) ab_page_put(page, text);
  ab_mem_free(text);
}

ab_status ab_page_take(char **out, struct ab_page *page) {
  ab_page_put(page, "");
  ab_status status = page->failed;
  if (status == AB_OK) *out = page->text;
  else ab_page_free(page);
  *page = (struct ab_page){0};
  return status;
}

void ab_page_free(struct ab_page *page) {
  ab_mem_free(page->text);
  *page = (struct ab_page){0};
}
