/* The golden tensors: every file of tests/golden and tests/golden-beyond on both paths, for the instruction set
 * SEMFOCUS_ISA names. */
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

/* Every file passes; `limit` is written down here a second time. */
static void check_files(const char *pattern, size_t count, sf_precision precision, double limit) {
    glob_t files;
    assert_int_equal(glob(pattern, 0, NULL, &files), 0);
    assert_true(files.gl_pathc >= count);
    size_t failed = 0;
    for (size_t i = 0; i < files.gl_pathc; i++) {
        sf_golden golden;
        if (sf_golden_check(&golden, files.gl_pathv[i], precision, NULL) != SF_OK) fail_msg("%s", sf_message());
        printf("  %s: reference %.1e, computed %.1e (%s), equal kept sets %.4f\n", files.gl_pathv[i],
               golden.reference.worst, golden.computed.worst, golden.computed.worst_name, golden.equal_kept);
        failed += !(golden.reference.worst <= 1e-9 && golden.computed.worst <= limit && golden.reference.passes &&
                    golden.computed.passes && golden.equal_kept > 0.9 && golden.equal_kept <= 1);
    }
    globfree(&files);
    assert_int_equal(failed, 0);
}

static void every_golden_file_passes(void **state) {
    (void)state;
    check_files("tests/golden/*.safetensors", 18, SF_F32, 2e-5);
    check_files("tests/golden-beyond/*.safetensors", 31, SF_F32, 2e-5);
}

static void every_golden_file_passes_in_bf16(void **state) {
    (void)state;
    if (!has_instruction_set(SF_BF16)) skip();
    check_files("tests/golden/*.safetensors", 18, SF_BF16, 3e-2);
}

int main(void) {
    if (!has_instruction_set(SF_F32)) return SKIPPED;
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_golden_file_passes),
                                       cmocka_unit_test(every_golden_file_passes_in_bf16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
