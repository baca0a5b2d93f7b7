/* Which copy of the arithmetic runs. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "kernels/cpu/plan.h"
#include "kernels/cpu/tiles.h"

static const char *set_in_environment(const char *variable) {
    const char *value = getenv(variable);
    return value != NULL && *value != '\0' ? value : NULL;
}

static const char *forced_name(void) {
    return set_in_environment("SEMFOCUS_ISA");
}

static bool is_forced(const char *name) {
    return forced_name() != NULL && strcmp(forced_name(), name) == 0;
}

/* What a processor has; each includes those before it. */
typedef enum cpu_level { BASELINE, AVX2, AVX512, AMX, LEVELS } cpu_level;
static const char *const level_names[LEVELS] = {"baseline", "avx2", "avx512", "amx"};

/* SEMFOCUS_CPU: the program assumes that the processor has no more than this. So one machine can test the code of
 * others. */
static cpu_level most_allowed(void) {
    const char *name = set_in_environment("SEMFOCUS_CPU");
    for (int level = 0; name != NULL && level < LEVELS; level++)
        if (strcmp(name, level_names[level]) == 0) return (cpu_level)level;
    return AMX;
}

static sf_status check_limit(void) {
    const char *name = set_in_environment("SEMFOCUS_CPU");
    char quoted[SF_QUOTE_SIZE];
    if (name == NULL || strcmp(name, level_names[most_allowed()]) == 0) return SF_OK;
    return sf_fail(SF_BAD_INPUT, "SEMFOCUS_CPU is '%s' but must be baseline, avx2, avx512 or amx, or be unset",
                   sf_text_quote(quoted, name));
}

#if defined(SF_HAVE_X86_SETS)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A process must ask the kernel for permission to use the tile registers. */
static bool tiles_are_lent(void) {
    enum { LEAF = 7, TILE_BITS = 1 << 24 | 1 << 22 /* AMX-TILE and AMX-BF16 in edx */, ASK = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d;
    return __get_cpuid_count(LEAF, 0, &a, &b, &c, &d) && (d & TILE_BITS) == TILE_BITS &&
           syscall(SYS_arch_prctl, ASK, TILE_DATA) == 0;
}

static bool has_avx512(void) {
    return most_allowed() >= AVX512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2");
}

static bool has_avx2(void) {
    return most_allowed() >= AVX2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

bool sf_tiles_in_hardware(void) {
    enum { UNKNOWN, NO, YES };
    static int known;
    int answer = __atomic_load_n(&known, __ATOMIC_ACQUIRE);
    if (answer == UNKNOWN) {
        answer = !is_forced("avx512") && most_allowed() >= AMX && has_avx512() && tiles_are_lent() ? YES : NO;
        __atomic_store_n(&known, answer, __ATOMIC_RELEASE);
    }
    return answer == YES;
}
#else
bool sf_tiles_in_hardware(void) {
    return false;
}
#endif

static bool always(void) {
    return true;
}

static const struct set { /* what SEMFOCUS_ISA may name */
    const char *name;
    const sf_cpu_kernels *f32;
    bool (*is_there)(void);
} sets[] = {/* fastest first; tiles are for bf16 only, and without AMX hardware AVX-512 computes the same bits */
#if defined(SF_HAVE_X86_SETS)
            {"amx", &sf_cpu_kernels_avx512, has_avx512},
            {"avx512", &sf_cpu_kernels_avx512, has_avx512},
            {"avx2", &sf_cpu_kernels_avx2, has_avx2},
#elif defined(SF_HAVE_NEON)
            {"neon", &sf_cpu_kernels_neon, always},
#endif
            {"scalar", &sf_cpu_kernels_scalar, always}};
#if defined(SF_HAVE_X86_SETS)
#define SET_NAMES "scalar, avx2, avx512 or amx"
#elif defined(SF_HAVE_NEON)
#define SET_NAMES "scalar or neon"
#else
#define SET_NAMES "scalar"
#endif
enum { SETS = sizeof sets / sizeof *sets };

static const sf_cpu_kernels *choose(void) {
    for (size_t i = 0; i < SETS; i++)
        if (sets[i].is_there() && (forced_name() == NULL || is_forced(sets[i].name))) return sets[i].f32;
    return &sf_cpu_kernels_scalar;
}

const sf_cpu_kernels *sf_cpu_kernels_for(sf_precision precision) {
    static const sf_cpu_kernels *chosen;
#if defined(SF_HAVE_X86_SETS)
    if (precision == SF_BF16) return &sf_cpu_kernels_amx;
#else
    (void)precision; /* bf16 is refused there */
#endif
    const sf_cpu_kernels *known = __atomic_load_n(&chosen, __ATOMIC_ACQUIRE);
    if (known != NULL) return known;
    known = choose();
    __atomic_store_n(&chosen, known, __ATOMIC_RELEASE);
    return known;
}

const char *sf_cpu_isa_name(sf_precision precision) {
    return sf_cpu_kernels_for(precision)->name;
}

static sf_status check_forced(void) {
    char quoted[SF_QUOTE_SIZE];
    sf_text_quote(quoted, forced_name());
    for (size_t i = 0; i < SETS; i++) {
        if (!is_forced(sets[i].name)) continue;
        if (sets[i].is_there()) return SF_OK;
        return sf_fail(SF_BAD_INPUT, "SEMFOCUS_ISA is '%s' but this CPU lacks it; unset it or use scalar", quoted);
    }
    return sf_fail(SF_BAD_INPUT, "SEMFOCUS_ISA is '%s' but must be " SET_NAMES, quoted);
}

static sf_status check_bf16(void) {
#if defined(SF_HAVE_X86_SETS)
    if (has_avx512() && (is_forced("scalar") || is_forced("avx2")))
        return sf_fail_on(SF_BAD_INPUT, "precision",
                          "precision is bf16 but SEMFOCUS_ISA is '%s', which has none; unset it or use f32",
                          forced_name());
    if (has_avx512()) return SF_OK;
#endif
    return sf_fail_on(SF_BAD_INPUT, "precision", "precision is bf16 but this CPU has neither AMX nor AVX-512; use f32");
}

sf_status sf_cpu_check_isa(sf_precision precision) {
    SF_TRY(check_limit());
    if (forced_name() != NULL) SF_TRY(check_forced());
    if (precision == SF_TF32)
        return sf_fail_on(SF_BAD_INPUT, "precision", "precision is tf32 but the CPU has none: it needs a GPU; use f32");
    return precision == SF_BF16 ? check_bf16() : SF_OK;
}

double sf_cpu_peak_work(sf_precision precision, size_t rounds) {
    return sf_cpu_kernels_for(sf_tiles_in_hardware() ? precision : SF_F32)->peak_work(rounds);
}
