/* Which copy of the arithmetic runs. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "kernels/cpu/plan.h"
#include "kernels/cpu/tiles.h"

#if defined(SF_HAVE_X86_SETS)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel lends the tiles' registers only to a process that asks. */
static bool tiles_are_lent(void) {
    enum { LEAF = 7, TILE_BITS = 1 << 24 | 1 << 22 /* AMX-TILE and AMX-BF16 in edx */, ASK = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d;
    return __get_cpuid_count(LEAF, 0, &a, &b, &c, &d) && (d & TILE_BITS) == TILE_BITS &&
           syscall(SYS_arch_prctl, ASK, TILE_DATA) == 0;
}

bool sf_tiles_in_hardware(void) {
    enum { UNKNOWN, NO, YES };
    static int known;
    int answer = __atomic_load_n(&known, __ATOMIC_ACQUIRE);
    if (answer == UNKNOWN) {
        answer = tiles_are_lent() ? YES : NO;
        __atomic_store_n(&known, answer, __ATOMIC_RELEASE);
    }
    return answer == YES;
}

static bool machine_has(const sf_cpu_kernels *kernels) {
    if (kernels == &sf_cpu_kernels_avx512 || kernels == &sf_cpu_kernels_amx || kernels == &sf_cpu_kernels_amx_bf16)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("bmi2");
    if (kernels == &sf_cpu_kernels_avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return true;
}

/* Without tiles amx is only slower than avx512: taken where it is asked for. */
static bool is_fast(const sf_cpu_kernels *kernels) {
    return kernels != &sf_cpu_kernels_amx || sf_tiles_in_hardware();
}

static const sf_cpu_kernels *const sets[] = {/* fastest first */
                                             &sf_cpu_kernels_amx, &sf_cpu_kernels_avx512, &sf_cpu_kernels_avx2,
                                             &sf_cpu_kernels_scalar};
static const sf_cpu_kernels *const bf16_set = &sf_cpu_kernels_amx_bf16;
#else
bool sf_tiles_in_hardware(void) {
    return false;
}

static bool machine_has(const sf_cpu_kernels *kernels) {
    return kernels == &sf_cpu_kernels_scalar;
}

static bool is_fast(const sf_cpu_kernels *kernels) {
    return machine_has(kernels);
}

static const sf_cpu_kernels *const sets[] = {&sf_cpu_kernels_scalar};
static const sf_cpu_kernels *const bf16_set = NULL;
#endif
enum { SETS = sizeof sets / sizeof *sets };

static const char *forced_name(void) {
    const char *name = getenv("SEMFOCUS_ISA");
    return name != NULL && *name != '\0' ? name : NULL;
}

static const sf_cpu_kernels *choose(void) {
    const char *forced = forced_name();
    for (size_t i = 0; i < SETS; i++)
        if (machine_has(sets[i]) && (forced == NULL ? is_fast(sets[i]) : strcmp(forced, sets[i]->name) == 0))
            return sets[i];
    return &sf_cpu_kernels_scalar;
}

const sf_cpu_kernels *sf_cpu_kernels_for(sf_precision precision) {
    static const sf_cpu_kernels *chosen;
    if (precision == SF_BF16 && bf16_set != NULL) return bf16_set;
    const sf_cpu_kernels *known = __atomic_load_n(&chosen, __ATOMIC_ACQUIRE);
    if (known != NULL) return known;
    known = choose();
    __atomic_store_n(&chosen, known, __ATOMIC_RELEASE);
    return known;
}

const char *sf_cpu_isa_name(sf_precision precision) {
    return sf_cpu_kernels_for(precision)->name;
}

static sf_status check_forced(const char *forced) {
    char quoted[SF_QUOTE_SIZE];
    for (size_t i = 0; i < SETS; i++) {
        if (strcmp(forced, sets[i]->name) != 0) continue;
        if (machine_has(sets[i])) return SF_OK;
        return sf_fail(SF_BAD_INPUT, "SEMFOCUS_ISA is '%s' but this CPU lacks it; unset it or take %s",
                       sf_text_quote(quoted, forced), sf_cpu_isa_name(SF_F32));
    }
    return sf_fail(SF_BAD_INPUT, "SEMFOCUS_ISA is '%s' but must be scalar, avx2, avx512 or amx",
                   sf_text_quote(quoted, forced));
}

sf_status sf_cpu_check_isa(sf_precision precision) {
    const char *forced = forced_name();
    if (forced != NULL) SF_TRY(check_forced(forced));
    if (precision != SF_BF16) return SF_OK;
    if (bf16_set == NULL || !machine_has(bf16_set))
        return sf_fail(SF_BAD_INPUT, "precision is bf16 but this CPU has neither AMX nor AVX-512; take f32");
    if (forced != NULL && strcmp(forced, bf16_set->name) != 0)
        return sf_fail(SF_BAD_INPUT, "precision is bf16 but SEMFOCUS_ISA is '%s'; bf16 needs amx, or unset it", forced);
    return SF_OK;
}

double sf_cpu_peak_work(sf_precision precision, size_t rounds) {
    return sf_cpu_kernels_for(sf_tiles_in_hardware() ? precision : SF_F32)->peak_work(rounds);
}
