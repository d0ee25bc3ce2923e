#include "page.h"

#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "tap.h"

/* What one text becomes in each document. */
static const struct {
  const char *text, *shown[AB_ESCAPES];
} row[] = {
    {"layers/0/mlp/wo", {"layers/0/mlp/wo", "layers/0/mlp/wo", "layers/0/mlp/wo", "layers/0/mlp/wo", "layers/0/mlp/wo"}},
    {"a\x1b[2J\n", {"a\\x1b[2J\\x0a", "a\\x1b[2J\\x0a", "a&#x5C;x1b&#x5B;2J&#x5C;x0a", "a\\x1b[2J\\x0a", "a\\x1b[2J\\x0a"}},
    {"<b a='\">&]]>", {"<b a='\">&]]>", "&#x3C;b a=&#x27;&#x22;&#x3E;&#x26;]]&#x3E;",
                      "&#x3C;b a=&#x27;&#x22;&#x3E;&#x26;&#x5D;&#x5D;&#x3E;", "<b a='\">&]]>", "<b a='\">&]]>"}},
    {"a|b`c", {"a|b`c", "a|b`c", "a&#x7C;b&#x60;c", "a|b`c", "a|b`c"}},
    {"x%0A,y", {"x%0A,y", "x%0A,y", "x%0A,y", "x%250A,y", "x%250A%2Cy"}},
    {"::error::x", {"\\x3A:error::x", "\\x3A:error::x", "&#x3A;&#x3A;error&#x3A;&#x3A;x", "\\x3A:error::x",
                    "%3A%3Aerror%3A%3Ax"}},
    {"  ::x", {"  \\x3A:x", "  \\x3A:x", "  &#x3A;&#x3A;x", "  \\x3A:x", "  %3A%3Ax"}},
    {"a::b", {"a::b", "a::b", "a&#x3A;&#x3A;b", "a::b", "a%3A%3Ab"}},
    {"x##[y", {"x#\\x23[y", "x#\\x23[y", "x&#x23;&#x23;&#x5B;y", "x#\\x23[y", "x#\\x23[y"}},
    {"www.a.b", {"www.a.b", "www.a.b", "www&#x2E;a.b", "www.a.b", "www.a.b"}},
    {"\xe2\x80\xae" "e", {"\\xe2\\x80\\xae" "e", "\\xe2\\x80\\xae" "e", "&#x5C;xe2&#x5C;x80&#x5C;xae" "e",
                          "\\xe2\\x80\\xae" "e", "\\xe2\\x80\\xae" "e"}},
};

START_TEST(every_document_has_its_escape) {
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    for (int as = 0; as < AB_ESCAPES; as++) {
      struct ab_page page = {0};
      char *text;
      ab_page_put(&page, "[");
      ab_page_escape(&page, (enum ab_escape)as, row[i].text);
      ab_page_say(&page, (enum ab_escape)as, "%s", "");
      ab_page_print(&page, "%d]", as);
      ck_ok(ab_page_take(&text, &page));
      char expected[512];
      snprintf(expected, sizeof expected, "[%s%d]", row[i].shown[as], as);
      ck_assert_msg(strcmp(text, expected) == 0, "row %zu, document %d: %s", i, as, text);
      ab_mem_free(text);
    }
  }
}
END_TEST

START_TEST(a_page_grows_and_is_never_nothing) {
  struct ab_page page = {0};
  char *text, word[] = "0123456789";
  ck_ok(ab_page_take(&text, &page));
  ck_assert_str_eq(text, "");
  ab_mem_free(text);
  for (int i = 0; i < 1000; i++) ab_page_say(&page, AB_ESCAPE_TERMINAL, "%s", word);
  ck_ok(ab_page_take(&text, &page));
  ck_assert_uint_eq(strlen(text), 10000);
  ab_mem_free(text);
}
END_TEST

static void *refuse(void *ctx, size_t bytes) {
  (void)ctx, (void)bytes;
  return NULL;
}
static void release(void *ctx, void *block, size_t bytes) { (void)ctx, (void)block, (void)bytes; }

START_TEST(a_failure_is_kept) {
  const struct ab_allocator none = {NULL, refuse, release};
  struct ab_page page = {0};
  char *text = NULL;
  ab_mem_install(&none);
  ab_page_say(&page, AB_ESCAPE_XML, "%d", 1);
  ab_mem_install(NULL);
  ab_page_put(&page, "later");
  ck_assert_int_eq(ab_page_take(&text, &page), AB_ENOMEM);
  ck_assert_ptr_null(text);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("page");
  TCase *c = tcase_create("page");
  tcase_add_test(c, every_document_has_its_escape);
  tcase_add_test(c, a_page_grows_and_is_never_nothing);
  tcase_add_test(c, a_failure_is_kept);
  suite_add_tcase(s, c);
  return s;
}

int main(void) { return ab_run_suite(suite()); }
