/* Facts about the processor: which BLAS core suits it, and its floating point mode. */
#include "kernels.h"

#include <fenv.h>
#include <float.h>
#include <inttypes.h>

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

struct cpu {
  unsigned leaf1_ecx, leaf7_ebx;
  uint64_t saved; /* register states that the operating system saves (XCR0) */
};

static struct cpu cpu_read(void) {
  struct cpu cpu = {0};
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &cpu.leaf1_ecx, &d)) return cpu;
  if (cpu.leaf1_ecx & bit_OSXSAVE) {
    __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    cpu.saved = (uint64_t)d << 32 | a;
  }
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) cpu.leaf7_ebx = b;
  return cpu;
}

static bool has_all(uint64_t value, uint64_t mask) { return (value & mask) == mask; }

const char *ab_blas_core_wanted(void) {
  const unsigned avx512 = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL | bit_AVX512CD;
  const uint64_t ymm = 0x6, zmm = 0xe6;
  struct cpu cpu = cpu_read();
  if (!has_all(cpu.saved, ymm) || !has_all(cpu.leaf1_ecx, bit_FMA) || !has_all(cpu.leaf7_ebx, bit_AVX2)) return NULL;
  return has_all(cpu.saved, zmm) && has_all(cpu.leaf7_ebx, avx512) ? "SKYLAKEX" : "HASWELL";
}

enum { FLUSH_TO_ZERO = 1 << 15, DENORMALS_ARE_ZERO = 1 << 6 };

static uint64_t mode_word(void) { return _mm_getcsr() & (FLUSH_TO_ZERO | DENORMALS_ARE_ZERO); }
static void mode_clear(void) { _mm_setcsr(_mm_getcsr() & ~(unsigned)(FLUSH_TO_ZERO | DENORMALS_ARE_ZERO)); }

#else

const char *ab_blas_core_wanted(void) { return NULL; }

#if defined(__aarch64__)

static const uint64_t flush_bits = UINT64_C(1) << 24 | UINT64_C(1) << 19; /* FZ, FZ16 */

static uint64_t mode_word(void) {
  uint64_t word;
  __asm__ volatile("mrs %0, fpcr" : "=r"(word));
  return word & flush_bits;
}

static void mode_clear(void) {
  uint64_t word;
  __asm__ volatile("mrs %0, fpcr" : "=r"(word));
  __asm__ volatile("msr fpcr, %0" : : "r"(word & ~flush_bits));
}

#else

static uint64_t mode_word(void) { return 0; }
static void mode_clear(void) {}

#endif
#endif

/* Results and operands below the normal range survive. */
static bool subnormals_live(void) {
  volatile float smallest = FLT_MIN, half = 0.5f, two = 2.0f;
  volatile float product = smallest * half;
  return product * two == smallest;
}

/* What is wrong with the mode of one thread. */
struct float_mode {
  uint64_t word;
  int rounding;
  bool flushes;
};

static struct float_mode float_mode_read(void) {
  return (struct float_mode){mode_word(), fegetround(), !subnormals_live()};
}

static bool float_mode_right(const struct float_mode *mode) {
  return mode->word == 0 && !mode->flushes && mode->rounding == FE_TONEAREST;
}

static void float_mode_set(void) {
  fesetenv(FE_DFL_ENV);
  mode_clear();
}

static ab_status float_mode_check(const struct float_mode *mode) {
  if (float_mode_right(mode)) return AB_OK;
  if (mode->word != 0 || mode->flushes)
    return AB_FAIL(AB_EMISMATCH, "floating point mode word has %#" PRIx64 " set, expected flush-to-zero and "
                   "denormals-are-zero off", mode->word);
  return AB_FAIL(AB_EMISMATCH, "rounding mode is %d, expected to nearest (%d)", mode->rounding, FE_TONEAREST);
}

ab_status ab_float_environment(void) {
  float_mode_set();
  struct float_mode mode = float_mode_read();
  return float_mode_check(&mode);
}

/* Of the workers one whose mode is wrong, if any is. */
static ab_status workers(bool set) {
  struct float_mode worst = {.rounding = FE_TONEAREST};
#pragma omp parallel
  {
    if (set) float_mode_set();
    struct float_mode mode = float_mode_read();
#pragma omp critical(ab_float_mode)
    if (!float_mode_right(&mode)) worst = mode;
  }
  return float_mode_check(&worst);
}

ab_status ab_float_environment_workers(void) { return workers(true); }

ab_status ab_float_environment_kept(void) { return workers(false); }
