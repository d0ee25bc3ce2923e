#include "version.h"

#include <string.h>

#include "golden.h"
#include "json.h"
#include "kernels.h"
#include "version_commit.h"
#include "version_diff.h"

#ifdef _OPENMP
#include <omp.h>
#endif

const char ab_version[] = AB_VERSION;
const char ab_commit[] = AB_COMMIT;
const char ab_diff_hash[] = AB_DIFF_HASH;

#ifdef __clang__
static const char compiler[] = "clang " __clang_version__;
#else
static const char compiler[] = "gcc " __VERSION__;
#endif

const char *ab_compiler(void) { return compiler; }

int ab_worker_threads(void) {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

void ab_version_print(FILE *out, const char *tool) {
  const char *core = ab_blas_core_wanted();
  fprintf(out, "%s %s\ncommit %s (changes: %s)\ncompiler %s, flags %s\nBLAS core for this CPU: %s\n", tool, ab_version,
          ab_commit, ab_diff_hash, compiler, AB_FLAGS, core ? core : "OpenBLAS's own choice");
  fprintf(out, "schemas: abpipe-report/1, " AB_GOLDEN_SCHEMA ", stream %d\n", AB_STREAM_VERSION);
}

ab_status ab_version_side_header(char **out, const char *route, const char *kernels) {
  struct ab_json_writer *w;
  AB_TRY(ab_json_writer_new(&w));
  ab_json_put_object(w, NULL, true);
  ab_json_put_string(w, "route", route);
  ab_json_put_string(w, "kernels", kernels);
  ab_json_put_string(w, "version", ab_version);
  ab_json_put_string(w, "commit", ab_commit);
  ab_json_put_string(w, "diff_hash", ab_diff_hash);
  ab_json_put_string(w, "compiler", compiler);
  ab_json_put_string(w, "flags", AB_FLAGS);
  ab_json_put_string(w, "blas_core", ab_blas_core_running());
  ab_json_put_int64(w, "threads", ab_worker_threads());
  ab_json_put_array(w, "reports", true);
  ab_json_put_string(w, NULL, AB_REPORTS_RNG);
  ab_json_put_end(w);
  ab_json_put_end(w);
  return ab_json_writer_text(out, w);
}

/* NULL when there is no header, or none in JSON: another program may put anything there. */
static ab_status open_header(struct ab_json **out, const char *header) {
  *out = NULL;
  if (!header || ab_json_parse(out, header, strlen(header), "stream header", NULL) == AB_OK) return AB_OK;
  if (ab_status_code() == AB_ENOMEM) return AB_ENOMEM;
  ab_status_clear();
  return AB_OK;
}

ab_status ab_version_reports(bool *out, const char *header, const char *what) {
  struct ab_json *json;
  const struct ab_json *list;
  const char *word;
  *out = false;
  AB_TRY(open_header(&json, header));
  if (json && ab_json_get_array(&list, json, "reports") == AB_OK)
    for (const struct ab_json *row = ab_json_first(list); row; row = ab_json_next(row))
      *out |= ab_json_string(&word, row) == AB_OK && strcmp(word, what) == 0;
  ab_json_free(json);
  ab_status_clear();
  return AB_OK;
}

ab_status ab_version_core(char *out, size_t size, const char *header) {
  struct ab_json *json;
  const char *core;
  *out = '\0';
  AB_TRY(open_header(&json, header));
  if (json && ab_json_get_string(&core, json, "blas_core") == AB_OK)
    snprintf(out, size, "%.*s", (int)strcspn(core, " "), core);
  ab_json_free(json);
  ab_status_clear();
  return AB_OK;
}
