/* The golden tensors: every file of tests/golden on both paths, for the instruction set SEMFOCUS_ISA names. */
#include "instruction_set.h"

#include <glob.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "semfocus/semfocus.h"

static void every_golden_file_passes(void **state) {
    (void)state;
    glob_t files;
    assert_int_equal(glob("tests/golden/*.safetensors", 0, NULL, &files), 0);
    assert_true(files.gl_pathc >= 18);
    size_t failed = 0;
    for (size_t i = 0; i < files.gl_pathc; i++) {
        sf_golden golden;
        if (sf_golden_check(&golden, files.gl_pathv[i]) != SF_OK) fail_msg("%s", sf_message());
        printf("  %s: reference %.1e, f32 %.1e (%s)\n", files.gl_pathv[i], golden.reference.worst, golden.f32.worst,
               golden.f32.worst_name);
        failed += !(golden.reference.worst <= 1e-9 && golden.f32.worst <= 2e-5 && golden.reference.passes &&
                    golden.f32.passes);
    }
    globfree(&files);
    assert_int_equal(failed, 0);
}

int main(void) {
    if (!has_instruction_set(SF_F32)) return SKIPPED;
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_golden_file_passes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
