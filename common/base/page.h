/* A growing text, and what words from outside become in each kind of document: names in files and on command lines are
 * chosen by others, and must steer neither a terminal nor a browser nor a CI host.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>

#include "status.h"

/* Zeroed before use; the first failure is kept, and what follows it is dropped. */
struct ab_page {
  char *text; /* NULL while nothing was put */
  size_t used, room;
  ab_status failed;
};

/* Whatever the document, control bytes, line ends, invalid UTF-8 and characters that turn the direction of a line are
 * shown as \xNN, and "##[" as "#\x23[": GitHub's runner takes it for a command anywhere in a line. */
enum ab_escape {
  AB_ESCAPE_TERMINAL, /* a leading "::", which that runner obeys too, becomes "\x3a:" */
  AB_ESCAPE_XML,      /* text, attributes and HTML: & < > " ' as entities */
  AB_ESCAPE_MARKDOWN, /* all that Markdown, its tables or GitHub's links could read, as entities; meant for <code> */
  AB_ESCAPE_DATA,     /* the message of a workflow command: % as %25 */
  AB_ESCAPE_PROPERTY, /* its properties: also : and , */
  AB_ESCAPES
};

/* Our own words, as they are. */
void ab_page_put(struct ab_page *page, const char *text);
__attribute__((format(printf, 2, 3))) void ab_page_print(struct ab_page *page, const char *format, ...);
/* Words from outside, of any length. */
void ab_page_escape(struct ab_page *page, enum ab_escape as, const char *text);
/* printf whose whole result is escaped. */
__attribute__((format(printf, 3, 4))) void ab_page_say(struct ab_page *page, enum ab_escape as, const char *format,
                                                       ...);
void ab_page_vsay(struct ab_page *page, enum ab_escape as, const char *format, va_list args);

/* Hands the text over, "" if nothing was put, or frees it and returns the failure. */
ab_status ab_page_take(char **out, struct ab_page *page);
void ab_page_free(struct ab_page *page);
