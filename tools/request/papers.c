#include "papers.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "mem.h"

enum { SUMMARY = AB_FORMS, SUMMARY_MOST = 1 << 20 }; /* bytes: a longer step summary is not shown at all */

size_t ab_papers_table(struct ab_option *out, struct ab_paper_options *o) {
  size_t n = 0;
  for (int f = 0; f < AB_FORMS; f++) {
    const struct ab_form *form = &ab_forms[f];
    out[n] = (struct ab_option){.name = form->option, .argument = form->argument, .help = form->help};
    if (form->argument) out[n].text = &o->path[f];
    else out[n].flag = &o->github;
    n++;
  }
  out[n++] = (struct ab_option){.name = "color", .argument = "auto|always|never", .text = &o->color,
                                .help = "colour the verdict (auto: on a terminal, unless NO_COLOR)"};
  out[n++] = (struct ab_option){.name = "progress", .argument = "auto|always|never", .text = &o->progress,
                                .help = "a line with the time left (auto: on a terminal, not under CI)"};
  return n;
}

static bool is_stdout(const char *path) { return path && strcmp(path, "-") == 0; }

bool ab_papers_on_stdout(const struct ab_paper_options *options) {
  for (int f = 0; f < AB_FORMS; f++)
    if (is_stdout(options->path[f])) return true;
  return false;
}

static ab_status check_choice(const char *option, const char *choice) {
  if (!choice || !strcmp(choice, "auto") || !strcmp(choice, "always") || !strcmp(choice, "never")) return AB_OK;
  return AB_FAIL(AB_ECONFIG, "--%s is '%.80s'; expected auto, always or never", option, choice);
}

static ab_status check_stdout(const struct ab_paper_options *options) {
  const char *first = NULL;
  for (int f = 0; f < AB_FORMS; f++) {
    if (!is_stdout(options->path[f])) continue;
    if (first)
      return AB_FAIL(AB_ECONFIG, "--%s and --%s are both '-'; expected at most one report on standard output", first,
                     ab_forms[f].option);
    first = ab_forms[f].option;
  }
  return AB_OK;
}

ab_status ab_papers_check(const struct ab_paper_options *options, const struct ab_paths *paths) {
  struct ab_output output[AB_FORMS + AB_FOLDERS] = {0};
  for (int f = 0; f < AB_FORMS; f++)
    if (!is_stdout(options->path[f])) output[f] = (struct ab_output){ab_forms[f].option, options->path[f], false};
  memcpy(output + AB_FORMS, paths->folder, sizeof paths->folder);
  AB_TRY(check_stdout(options));
  AB_TRY(check_choice("color", options->color));
  AB_TRY(check_choice("progress", options->progress));
  return ab_outputs_check(output, AB_FORMS + AB_FOLDERS, paths->input, AB_INPUTS);
}

bool ab_papers_colour(const struct ab_paper_options *options, int fd) {
  const char *color = options->color ? options->color : "auto", *none = getenv("NO_COLOR"), *term = getenv("TERM");
  if (strcmp(color, "auto") != 0) return strcmp(color, "always") == 0;
  return isatty(fd) && !(none && *none) && term && strcmp(term, "dumb") != 0;
}

ab_status ab_painted(char **out, const char *text, enum ab_exit exit) {
  static const char green[] = "\x1b[1;32m", red[] = "\x1b[1;31m", yellow[] = "\x1b[1;33m";
  struct ab_page page = {0};
  int word = (int)strcspn(text, ":");
  ab_page_put(&page, exit == AB_EXIT_EQUAL ? green : exit == AB_EXIT_DIFFERENT ? red : yellow);
  ab_page_print(&page, "%.*s\x1b[0m", word, text);
  ab_page_put(&page, text + word);
  return ab_page_take(out, &page);
}

static ab_status open_all(struct ab_papers *p, const struct ab_about *about) {
  for (int f = 0; f < AB_FORMS; f++) {
    bool wanted = f == AB_FORM_GITHUB ? p->options->github : p->options->path[f] != NULL;
    if (wanted) AB_TRY(ab_sheet_open(&p->sheet[f], (enum ab_form_kind)f, about));
  }
  const char *summary = getenv("GITHUB_STEP_SUMMARY");
  if (!p->options->github || !summary || !*summary) return AB_OK;
  return ab_sheet_open(&p->sheet[SUMMARY], AB_FORM_MARKDOWN, about);
}

ab_status ab_papers_open(struct ab_papers *out, const struct ab_paper_options *options, const struct ab_about *about) {
  *out = (struct ab_papers){.options = options};
  ab_status status = open_all(out, about);
  if (status != AB_OK) ab_papers_close(out);
  return status;
}

ab_status ab_papers_entry(struct ab_papers *papers, const struct ab_entry *entry) {
  for (int i = 0; i <= SUMMARY; i++)
    if (papers->sheet[i].form) AB_TRY(ab_sheet_entry(&papers->sheet[i], entry));
  return AB_OK;
}

/* Behind what earlier commands of the step wrote; not when the whole would grow past what is shown. A FIFO that nobody
 * reads is refused, not waited for. */
static ab_status append_summary(const char *text) {
  const char *path = getenv("GITHUB_STEP_SUMMARY");
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0644);
  if (fd < 0) return AB_FAIL(AB_EIO, "cannot write $GITHUB_STEP_SUMMARY '%s'", path);
  off_t size = lseek(fd, 0, SEEK_END);
  ab_status status = AB_OK;
  if (size < 0 || (size_t)size + strlen(text) < SUMMARY_MOST)
    status = ab_file_put(fd, text, strlen(text), "the step summary");
  if (close(fd) != 0 && status == AB_OK) status = AB_FAIL(AB_EIO, "cannot write $GITHUB_STEP_SUMMARY '%s'", path);
  return status;
}

static ab_status put(const struct ab_papers *papers, int place, const char *text) {
  if (place == SUMMARY) return append_summary(text);
  if (place != AB_FORM_GITHUB) return ab_report_write(papers->options->path[place], text);
  bool taken = ab_papers_on_stdout(papers->options);
  return ab_file_put(taken ? STDERR_FILENO : STDOUT_FILENO, text, strlen(text), "the annotations");
}

static ab_status write_one(struct ab_papers *papers, int place, enum ab_exit exit) {
  char *text;
  if (!papers->sheet[place].form) return AB_OK;
  AB_TRY(ab_sheet_finish(&text, &papers->sheet[place], exit));
  ab_status status = put(papers, place, text);
  ab_mem_free(text);
  return status;
}

ab_status ab_papers_write(struct ab_papers *papers, enum ab_exit exit) {
  char sentence[2048];
  ab_status first = AB_OK;
  for (int i = 0; i <= SUMMARY; i++) {
    ab_status status = write_one(papers, i, exit);
    if (status == AB_OK) continue;
    if (first == AB_OK) snprintf(sentence, sizeof sentence, "%s", ab_status_message());
    if (first == AB_OK) first = status;
    ab_status_clear();
  }
  return first == AB_OK ? AB_OK : AB_FAIL(first, "%s", sentence);
}

void ab_papers_close(struct ab_papers *papers) {
  for (int i = 0; i <= SUMMARY; i++) ab_sheet_close(&papers->sheet[i]);
}

void ab_paper_file(char *out, size_t size, const char *path) {
  const char *top = getenv("GITHUB_WORKSPACE");
  char *real = realpath(path, NULL), *root = top && *top ? realpath(top, NULL) : NULL;
  size_t length = root ? strlen(root) : 0;
  bool inside = real && root && strncmp(real, root, length) == 0 && real[length] == '/';
  snprintf(out, size, "%s", inside ? real + length + 1 : path);
  free(real);
  free(root);
}
