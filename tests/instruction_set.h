/* Tests of the CPU kernels run with the instruction set SEMFOCUS_ISA names, and are skipped where it cannot be had:
 * int main(void) { if (!has_instruction_set(SF_F32)) return SKIPPED; ... */
#ifndef SF_TESTS_INSTRUCTION_SET_H
#define SF_TESTS_INSTRUCTION_SET_H

#include <stdbool.h>
#include <stdio.h>

#include "kernels/cpu/cpu.h"

enum { SKIPPED = 77 }; /* what ctest takes for skipped */

static inline bool has_instruction_set(sf_precision precision) {
    if (sf_cpu_check_isa(precision) != SF_OK) {
        printf("skipped: %s\n", sf_message());
        return false;
    }
    printf("instruction set %s\n", sf_cpu_isa_name(precision));
    return true;
}

#endif
