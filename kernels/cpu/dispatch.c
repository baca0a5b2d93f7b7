/* Which copy of the arithmetic runs. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "kernels/cpu/plan.h"

static bool machine_has(const sf_cpu_kernels *kernels) {
#if defined(SF_HAVE_X86_SETS)
    if (kernels == &sf_cpu_kernels_avx512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("bmi2");
    if (kernels == &sf_cpu_kernels_avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return kernels == &sf_cpu_kernels_scalar;
}

static const sf_cpu_kernels *const sets[] = {/* widest first */
#if defined(SF_HAVE_X86_SETS)
                                             &sf_cpu_kernels_avx512, &sf_cpu_kernels_avx2,
#endif
                                             &sf_cpu_kernels_scalar};
enum { SETS = sizeof sets / sizeof *sets };

static const char *forced_name(void) {
    const char *name = getenv("SEMFOCUS_ISA");
    return name != NULL && *name != '\0' ? name : NULL;
}

const sf_cpu_kernels *sf_cpu_kernels_chosen(void) {
    static const sf_cpu_kernels *chosen;
    const sf_cpu_kernels *known = __atomic_load_n(&chosen, __ATOMIC_ACQUIRE);
    if (known != NULL) return known;
    const char *forced = forced_name();
    known = &sf_cpu_kernels_scalar;
    for (size_t i = SETS; i-- > 0;)
        if (machine_has(sets[i]) && (forced == NULL || strcmp(forced, sets[i]->name) == 0)) known = sets[i];
    __atomic_store_n(&chosen, known, __ATOMIC_RELEASE);
    return known;
}

const char *sf_cpu_isa_name(void) {
    return sf_cpu_kernels_chosen()->name;
}

sf_status sf_cpu_check_isa(void) {
    const char *forced = forced_name();
    if (forced == NULL) return SF_OK;
    char quoted[SF_QUOTE_SIZE];
    for (size_t i = 0; i < SETS; i++) {
        if (strcmp(forced, sets[i]->name) != 0) continue;
        if (machine_has(sets[i])) return SF_OK;
        return sf_fail(SF_BAD_INPUT, "SEMFOCUS_ISA is '%s' but this CPU lacks it; unset it or take %s",
                       sf_text_quote(quoted, forced), sf_cpu_isa_name());
    }
    return sf_fail(SF_BAD_INPUT, "SEMFOCUS_ISA is '%s' but must be scalar, avx2 or avx512",
                   sf_text_quote(quoted, forced));
}

double sf_cpu_peak_work(size_t rounds) {
    return sf_cpu_kernels_chosen()->peak_work(rounds);
}
