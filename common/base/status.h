/* Status codes and the error sentence.
 *
 * Every fallible function returns ab_status. The first failure writes one sentence into a fixed thread-local
 * buffer, escaped by ab_text_escape, for names and values in it may come from anywhere; each AB_TRY that passes it on
 * appends its place. Nothing on this path allocates, prints or exits.
 */
#pragma once

typedef enum {
  AB_OK = 0,
  AB_ENOMEM,    /* memory refused by the door or by a limit */
  AB_ESHAPE,    /* shape, dtype or count of a tensor is not the expected one */
  AB_EIO,       /* a file or pipe operation failed; the sentence holds errno's text */
  AB_EFORMAT,   /* malformed bytes: JSON, YAML, safetensors, stream */
  AB_ECONFIG,   /* a key, a value or a combination of them */
  AB_ECOMM,     /* a process or message failed */
  AB_EMISMATCH, /* two things that must correspond do not (names, inventory, schema) */
  AB_ENOTFOUND  /* a named thing (file, path, variable, route) does not exist */
} ab_status;

/* Fails with a printf-style sentence: `return AB_FAIL(AB_ECONFIG, "key '%s' ...", key);` */
#define AB_FAIL(code, ...) (ab_status_fail((code), __FILE__, __LINE__, __VA_ARGS__), (code))

/* Passes a failure on and notes the place. */
#define AB_TRY(expr)                                                                                \
  do {                                                                                              \
    ab_status ab_try_status = (expr);                                                               \
    if (ab_try_status != AB_OK) {                                                                   \
      ab_status_pass(__FILE__, __LINE__);                                                           \
      return ab_try_status;                                                                         \
    }                                                                                               \
  } while (0)

void ab_status_fail(ab_status code, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void ab_status_pass(const char *file, int line);

/* The sentence of the last failure on this thread; "" after ab_status_clear. Borrowed. */
const char *ab_status_message(void);
/* The code of that failure; AB_OK after ab_status_clear. */
ab_status ab_status_code(void);
/* The places it passed, innermost first, one "file:line" each, separated by spaces. Borrowed. */
const char *ab_status_trace(void);
void ab_status_clear(void);
